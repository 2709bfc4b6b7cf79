/** The streams that each relation reads, as its plan tells, against what the database knows of its views and functions. */
import { expect, test } from 'vitest';
import { neutral, routinesOf, streamsOfPlan } from '../../src/agents/reads.ts';
import { planOf } from '../../src/privacy/ask.ts';
import { streams } from '../../src/sources/index.ts';
import { freshDatabase } from '../support/postgres.ts';

/** The tables beneath a relation, also those that functions with a parsed body read. */
const tablesBeneath = `
  with recursive d as (
    select 'pg_class'::regclass::oid as classid, $1::regclass::oid as objid
    union
    select x.refclassid, x.refobjid from d join pg_depend x on
      (d.classid = 'pg_class'::regclass and x.classid = 'pg_rewrite'::regclass and x.objid in (select r.oid from pg_rewrite r where r.ev_class = d.objid))
      or (d.classid = 'pg_proc'::regclass and x.classid = 'pg_proc'::regclass and x.objid = d.objid)
    where x.refclassid in ('pg_class'::regclass, 'pg_proc'::regclass))
  select n.nspname || '.' || c.relname as name
  from d join pg_class c on d.classid = 'pg_class'::regclass and c.oid = d.objid join pg_namespace n on n.oid = c.relnamespace
  where c.relkind = 'r'`;

test('every relation that a reader may read tells its streams, or means all', async () => {
  await using db = await freshDatabase();
  const routines = await routinesOf(db.pool);
  const client = await db.pool.connect();
  try {
    const { rows } = await client.query<{ name: string }>(
      `select c.oid::regclass::text as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where c.relkind in ('r', 'v', 'm', 'p') and n.nspname !~ '^pg_|^information_schema$'
         and (has_any_column_privilege('shelfdesk_reader', c.oid, 'select') or has_any_column_privilege('shelfdesk_reader_pii', c.oid, 'select'))
       order by 1`,
    );
    const told: Record<string, string> = {};
    for (const { name } of rows) {
      const keys = streamsOfPlan(await planOf(client, `select * from ${name}`), streams, routines);
      told[name] = keys?.toSorted().join(' ') ?? 'all';
      if (keys === undefined) continue;
      const tables = (await client.query<{ name: string }>(tablesBeneath, [name])).rows.map(one => one.name);
      const hidden = tables.filter(one => {
        const of = streamsOfPlan(
          JSON.stringify([{ 'Relation Name': one.split('.')[1], Schema: one.split('.')[0] }]),
          streams,
          [],
        );
        return of !== undefined && !keys.includes(of[0]!);
      });
      expect([name, hidden]).toEqual([name, []]);
    }
    const all = Object.keys(told).filter(name => told[name] === 'all' && !name.startsWith('sync.'));
    expect(all.map(name => name.replace('analytics.', ''))).toEqual([
      ...[
        'account_zones',
        'calendar_assignments',
        'calendar_holidays',
        'calendar_hours',
        'calendar_spans',
        'calendars',
      ],
      ...['completeness', 'data_dictionary', 'dim_account', 'dim_date', 'fact_credits', 'guide', 'integrity'],
      ...['metric_definitions', 'service_targets'],
    ]);
    expect(told).toMatchObject({
      'analytics.customer_summary': 'helpdesk.customers helpdesk.messages helpdesk.tickets',
      'analytics.message_senders': 'helpdesk.customers helpdesk.messages helpdesk.tickets',
      'analytics.fact_backlog': 'helpdesk.tickets',
      'analytics.fact_shelf_volumes': 'books.shelves',
      'safe.contacts': 'helpdesk.customers',
      'sync.changes': 'all',
    });
  } finally {
    client.release();
  }
});

test('functions that are neutral read no row of a stream', async () => {
  await using db = await freshDatabase();
  const { rows } = await db.pool.query<{ name: string; body: string }>(
    `select n.nspname || '.' || p.proname as name, pg_get_functiondef(p.oid) as body from pg_proc p join pg_namespace n on n.oid = p.pronamespace
     where n.nspname || '.' || p.proname = any ($1)`,
    [[...neutral]],
  );
  const tables = streams.flatMap(({ merge: { declared }, beneath = [] }) => [
    declared.root.name,
    ...declared.others.map(one => one.name),
    ...beneath,
  ]);
  expect(rows.length).toBeGreaterThan(5);
  for (const { name, body } of rows) expect([name, tables.filter(table => body.includes(table))]).toEqual([name, []]);
});

test('an immutable function reads nothing; any other may', async () => {
  await using db = await freshDatabase();
  const names = (await routinesOf(db.pool)).map(one => one.name);
  expect(names).toContain('analytics.tickets_as_of');
  expect(names).not.toContain('sync.at_most');
  const client = await db.pool.connect();
  const reads = async (sql: string) => streamsOfPlan(await planOf(client, sql), streams, await routinesOf(db.pool));
  try {
    await client.query(
      `create function public.same(a text) returns text language plpgsql immutable as $$ begin return a; end $$;
       create function public.other(a text) returns text language plpgsql stable as $$ begin return a; end $$`,
    );
    expect(await reads('select public.same(id) from helpdesk.tickets')).toEqual(['helpdesk.tickets']);
    expect(await reads('select public.other(id) from helpdesk.tickets')).toBeUndefined();
    expect(
      await reads(`select table_to_xml('helpdesk.users', true, false, ''), id from helpdesk.tickets`),
    ).toBeUndefined();
  } finally {
    client.release();
  }
});
