/**
 * What is generated from a migrated database is as that says today. `npm run docs` writes it anew: the same tests, told to
 * write instead of to compare.
 */

import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { nameOf, type Relation, readCatalog, type Schema } from '../../src/analytics/catalog.ts';
import { dbtSources, valuesIn } from '../../src/analytics/dbt.ts';
import { dictionary } from '../../src/analytics/dictionary.ts';
import { mermaid } from '../../src/analytics/erd.ts';
import { readQueries } from '../../src/analytics/questions.ts';
import { streams } from '../../src/sources/index.ts';
import { drawn, grafana, metabase, superset } from '../support/dashboards.ts';
import { root } from '../support/docker.ts';
import { ran } from '../support/here.ts';
import { freshDatabase, type TestDatabase } from '../support/postgres.ts';
import { program } from '../support/program.ts';
import { letReaderIn } from '../support/readers.ts';
import { commandsPage, settingsPage } from '../support/reference.ts';

let db: TestDatabase;
let schemas: Schema[];
let relations: Relation[];
beforeAll(async () => {
  db = await freshDatabase();
  schemas = await readCatalog(db.pool);
  relations = schemas.flatMap(schema => schema.relations);
});
afterAll(() => db.drop());

describe('is as it is generated:', () => {
  test('docs/reference/tables.md', async () => {
    await expect(dictionary(schemas)).toMatchFileSnapshot('../../docs/reference/tables.md');
  });

  test('docs/reference/commands.md', async () => {
    await expect(commandsPage(await program())).toMatchFileSnapshot('../../docs/reference/commands.md');
  });

  test('docs/reference/settings.md', async () => {
    await expect(settingsPage()).toMatchFileSnapshot('../../docs/reference/settings.md');
  });

  test('dbt/skills/shelfdesk/SKILL.md', async () => {
    const { rows } = await db.pool.query(`select content from analytics.guide where key = 'skill/shelfdesk'`);
    await expect(rows[0].content).toMatchFileSnapshot('../../dbt/skills/shelfdesk/SKILL.md');
  });

  test('examples/dashboards', async () => {
    const all = await drawn(db.pool, await readQueries());
    const files = new Map([...superset(all)].map(([path, text]) => [join('superset', path), text]));
    for (const [path, text] of metabase(all)) files.set(join('metabase', path), text);
    files.set('grafana.json', grafana(all));
    const folder = join(root, 'examples/dashboards');
    for (const [path, text] of files) await expect(text).toMatchFileSnapshot(join(folder, path));
    const there = readdirSync(folder, { recursive: true, encoding: 'utf8' });
    const kept = there.filter(path => !statSync(join(folder, path)).isDirectory());
    expect(kept.sort()).toEqual([...files.keys()].sort());
  });
});

describe('what the comments say', () => {
  test('every "joins" names a column that there is', () => {
    const lost = relations.flatMap(relation =>
      relation.joins.flatMap(({ to, fields }) => {
        const target = relations.find(one => nameOf(one) === to);
        return fields
          .filter(field => !target?.columns.some(({ name }) => name === field))
          .map(field => `${nameOf(relation)} → ${to}.${field}`);
      }),
    );
    expect(lost).toEqual([]);
    expect(relations.flatMap(({ joins }) => joins).length).toBeGreaterThan(60);
  });

  test('columns that join one relation are one join, and the account is part of it', () => {
    const shelfVolumes = relations.find(one => nameOf(one) === 'books.shelf_volumes')!;
    expect(shelfVolumes.joins).toEqual([
      {
        columns: ['account_id', 'owner_id', 'shelf_id'],
        to: 'books.shelves',
        fields: ['account_id', 'owner_id', 'id'],
      },
      { columns: ['account_id', 'volume_id'], to: 'books.volumes', fields: ['account_id', 'id'] },
    ]);
  });

  test('values are those that they list', () => {
    expect(valuesIn('open, hold or closed. Other values are stored unchanged.')).toEqual(['open', 'hold', 'closed']);
    expect(valuesIn('Channel: email or chat. Other values are stored unchanged.')).toEqual(['email', 'chat']);
    expect(valuesIn('Title.')).toBeUndefined();
    const tickets = relations.find(one => nameOf(one) === 'helpdesk.tickets')!;
    const state = tickets.columns.find(({ name }) => name === 'state')!;
    expect(valuesIn(state.comment)).toEqual(['open', 'hold', 'closed', 'snoozed', 'archived']);
  });
});

describe('analytics.data_dictionary', () => {
  test('tells of every column, and what it means', async () => {
    const { rows } = await db.pool.query(`
      select n.nspname || '.' || c.relname || '.' || a.attname as name
      from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
      where n.nspname in ('helpdesk', 'books', 'sync', 'analytics', 'safe') and c.relkind in ('r', 'v')
        and a.attnum > 0 and not a.attisdropped and not exists (
          select from analytics.data_dictionary d
          where d.schema = n.nspname and d.relation = c.relname and d.column_name = a.attname and d.comment <> '')`);
    expect(rows).toEqual([]);
  });

  test('shows a reader what it may read, and nothing else', async () => {
    await using reader = await letReaderIn(db);
    const seen = await reader.rows<{ schema: string; relation: string }>(
      `select distinct schema, relation from analytics.data_dictionary where kind <> 'function'`,
    );
    expect([...new Set(seen.map(({ schema }) => schema))].sort()).toEqual(['analytics', 'books', 'safe']);
    for (const { schema, relation } of seen) await reader.client.query(`select from ${schema}.${relation} limit 1`);
    const all = await db.pool.query(
      `select count(*)::int as n from analytics.data_dictionary where kind <> 'function' and column_name is null`,
    );
    expect(seen.length).toBeLessThan(all.rows[0].n);
  });
});

test('the commands print the same, of the warehouse that they are told', async () => {
  const env = { DATABASE_URL: db.url };
  const printed = await Promise.all(
    [['dictionary'], ['erd'], ['erd', '--of', 'star'], ['dbt']].map(args => ran(['schema', ...args], env)),
  );
  expect(printed.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
  expect(printed.map(({ stdout }) => stdout)).toEqual([
    dictionary(schemas),
    mermaid(schemas, 'mirror'),
    mermaid(schemas, 'star'),
    dbtSources(schemas, streams),
  ]);
  expect(printed[1]!.stdout).toContain('  helpdesk_tickets |o--o{ helpdesk_messages : "ticket_id"\n');
  expect(printed[1]!.stdout).not.toContain('analytics_');
  expect(printed[2]!.stdout).toContain('  analytics_dim_user |o--o{ analytics_fact_tickets : "user_key"\n');
});

test('dbt gets every relation that readers have, with freshness where a stream brings it', () => {
  const { sources } = parse(dbtSources(schemas, streams)) as {
    sources: { name: string; tables: { name: string; description: string; config?: { loaded_at_query: string } }[] }[];
  };
  expect(sources.map(({ name }) => name)).toEqual(['analytics', 'safe', 'helpdesk', 'books']);
  const tables = sources.flatMap(source =>
    source.tables.map(table => ({ ...table, name: `${source.name}.${table.name}` })),
  );
  expect(tables.filter(({ description }) => !description)).toEqual([]);
  const offered = relations.filter(({ schema, name }) => schema !== 'sync' && !name.startsWith('stored_')).map(nameOf);
  expect(tables.map(({ name }) => name)).toEqual(offered);
  const fresh = tables.filter(({ config }) => config).map(({ name }) => name);
  for (const schema of ['helpdesk', 'books'])
    for (const relation of relations.filter(one => one.schema === schema)) expect(fresh).toContain(nameOf(relation));
});
