/** The comments are the analysts' manual: nothing that they can see goes without one. */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { streams } from '../../../src/sources/index.ts';
import type { Stream } from '../../../src/sources/source.ts';
import { freshDatabase, type TestDatabase } from '../../support/postgres.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await freshDatabase();
});
afterAll(() => db?.drop());

const ofExtension = (of: string) => `select from pg_depend d where d.objid = ${of}.oid and d.deptype = 'e'`;

/** Everything in these schemas that can carry a comment and that people meet: its kind, its name, what is said of it. */
const manual = `
  with ours as (select oid, nspname from pg_namespace where nspname in ('helpdesk', 'books', 'sync', 'analytics', 'internal', 'safe'))
  select 'schema' as kind, nspname::text as name, obj_description(oid, 'pg_namespace') as says from ours
  union all
  select 'table or view', c.oid::regclass::text, obj_description(c.oid, 'pg_class')
  from pg_class c join ours on ours.oid = c.relnamespace where c.relkind in ('r', 'p', 'v', 'm', 'f')
  union all
  select 'column', c.oid::regclass || '.' || a.attname, col_description(c.oid, a.attnum)
  from pg_class c join ours on ours.oid = c.relnamespace
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  where c.relkind in ('r', 'p', 'v', 'm', 'f')
  union all
  select 'function', p.oid::regprocedure::text, obj_description(p.oid, 'pg_proc')
  from pg_proc p join ours on ours.oid = p.pronamespace where not exists (${ofExtension('p')})
  union all
  select 'type', t.oid::regtype::text, obj_description(t.oid, 'pg_type')
  from pg_type t join ours on ours.oid = t.typnamespace where t.typtype in ('d', 'e', 'r') and not exists (${ofExtension('t')})
  order by 1, 2`;

test('every schema, table, view, column and function explains itself', async () => {
  const { rows } = await db.pool.query<{ kind: string; name: string; says: string | null }>(manual);
  const names = (kind: string) => rows.filter(row => row.kind === kind).map(row => row.name);
  expect(names('schema')).toEqual(['analytics', 'books', 'helpdesk', 'internal', 'safe', 'sync']);
  expect(names('function')).toContain('sync.complete_through(text,text)');
  expect(names('table or view')).toEqual(
    expect.arrayContaining([
      'helpdesk.tickets',
      'sync.budget',
      'sync.credit_minutes',
      'sync.migrations',
      'sync.status',
    ]),
  );
  expect(names('column').length).toBeGreaterThan(200);

  expect(rows.filter(({ says }) => !says?.trim())).toEqual([]);
  // A sentence, not a repetition of the name.
  expect(rows.filter(({ says }) => !/^\S.*[.:]$/s.test(says!))).toEqual([]);
});

test('every table of the mirror has the key, the columns of our own and an index for every join', async () => {
  const { rows } = await db.pool.query<{ name: string; key: string; columns: string[]; indexed: string[] }>(`
    select c.oid::regclass::text as name, pg_get_constraintdef(k.oid) as key,
      array(select a.attname::text from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns,
      array(select a.attname::text from pg_index i join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[1]
        where i.indrelid = c.oid) as indexed
    from pg_class c join pg_constraint k on k.conrelid = c.oid and k.contype = 'p'
    where (c.relnamespace in ('helpdesk'::regnamespace, 'books'::regnamespace) or c.oid = 'internal.messages'::regclass) and c.relkind = 'r' order by c.oid::regclass::text`);
  const own = ['_first_seen_at', '_synced_at', '_observed_at', '_deleted_at', '_payload'];
  const others: Record<string, { key: string; indexed: string[] }> = {
    'books.shelves': { key: 'owner_id, id', indexed: ['owner_id'] },
    'books.shelf_volumes': { key: 'owner_id, shelf_id, volume_id', indexed: ['owner_id', 'volume_id'] },
    'books.shelf_volume_history': {
      key: 'owner_id, shelf_id, volume_id, valid_from',
      indexed: ['owner_id', 'owner_id', 'volume_id'],
    },
  };
  for (const { name, key, columns, indexed } of rows) {
    const other = others[name];
    if (other) {
      expect({ name, key }).toEqual({ name, key: `PRIMARY KEY (account_id, ${other.key})` });
      expect({ name, indexed: indexed.sort() }).toEqual({ name, indexed: other.indexed });
      continue;
    }
    expect({ name, key }).toEqual({ name, key: 'PRIMARY KEY (account_id, id)' });
    expect(columns).toEqual(expect.arrayContaining(own));
    const joins = columns.filter(column => column.endsWith('_id') && column !== 'account_id' && column !== 'inbox_id');
    expect({ name, indexed }).toEqual({ name, indexed: expect.arrayContaining(joins) });
  }
  expect(rows.map(({ name }) => name)).toEqual([
    'books.shelf_volume_history',
    'books.shelf_volumes',
    'books.shelves',
    'books.volumes',
    'helpdesk.attachments',
    'helpdesk.contacts',
    'helpdesk.customers',
    'helpdesk.inboxes',
    'helpdesk.labels',
    'helpdesk.tickets',
    'helpdesk.users',
    'internal.messages',
  ]);
});

test('the streams are in the database as they are in the program, and in the same order', async () => {
  const { rows } = await db.pool.query('select stream, source, follows, one_reader from sync.streams order by place');
  const follows = (stream: Stream) => {
    if (!('of' in stream)) return null;
    return typeof stream.of === 'string' ? stream.of : stream.of.name;
  };
  expect(rows).toEqual(
    streams.map(stream => ({
      stream: stream.name,
      source: stream.source,
      follows: follows(stream),
      one_reader: stream.kind !== 'list',
    })),
  );
});

test('comments are taken back in the schemas in which they are given', () => {
  const schemasIn = (path: string) => {
    const text = readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');
    return /relnamespace::regnamespace::text in \(([^)]+)\)/.exec(text)![1];
  };
  expect(schemasIn('src/engine/database/views.ts')).toBe(schemasIn('schema/views/90-comments.sql'));
});
