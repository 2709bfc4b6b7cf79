/**
 * Whatever joins the star by its keys, and every question of docs/queries, is answered without comparing each row of one side with
 * each of the other: by the owner and by a reader of one account. What is counted is the work that the plan did, not the time.
 */
import type pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readCatalog } from '../../../src/analytics/catalog.ts';
import { readQueries } from '../../../src/analytics/questions.ts';
import { freshDatabase, type TestDatabase } from '../../support/postgres.ts';
import { letReaderIn, type TestReader } from '../../support/readers.ts';
import { starJoins } from '../../support/star-joins.ts';

const tickets = 2000;
/** Pairs of rows that a join looked at in vain, for each ticket: a loop over all tickets would look at 2,000 or more. */
const inVain = 30;

let db: TestDatabase;
let reader: TestReader;
let owner: pg.PoolClient;
beforeAll(async () => {
  db = await freshDatabase();
  const client = await db.pool.connect();
  await client.query('set session_replication_role = replica');
  await client.query(`
    insert into sync.accounts (account_id) values ('default'), ('other');
    insert into sync.coverage (account_id, source, stream, list, covered)
      select 'default', 'helpdesk', s, 'default', tstzmultirange(tstzrange('1970-01-01', '2026-06-01')) from unnest(array['users', 'customers', 'tickets']) s;
    create temp table world as
      select n, 't' || n as id, 'c' || n / 3 as customer_id, timestamptz '2026-05-31' - n * interval '1 hour' as at from generate_series(1, ${tickets}) n;
    insert into helpdesk.tickets (account_id, id, number, customer_id, user_id, inbox_id, label_ids, state, type, spam, trash, created_at, updated_at,
        _messages_as_of, _first_seen_at, _synced_at, _observed_at, _payload)
      select 'default', id, n, customer_id, 'u' || n % 4, 'i' || n % 3, array['l' || n % 3], case when n % 9 = 0 then 'open' else 'closed' end,
        'email', false, false, at, at + interval '1 day', at + interval '2 days', at, at, at, '{}' from world;
    insert into internal.ticket_history (account_id, ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, change_after, is_first)
      select 'default', id, case when n % 9 = 0 then 'open' else 'closed' end, 'u' || n % 4, 'i' || n % 3, array['l' || n % 3], false, false,
        at + interval '1 day', at - interval '1 second', true from world;
    insert into internal.messages (account_id, id, ticket_id, position, type, direction, user_id, from_address, created_at, _first_seen_at, _synced_at, _observed_at, _payload)
      select 'default', id || '-' || k, id, k, 'reply', case when k = 2 then 'out' else 'in' end, case when k = 2 then 'u' || n % 4 end,
        customer_id || '@example.org', at + k * interval '1 hour', at, at, at, '{}' from world, generate_series(1, 3) k;
    insert into helpdesk.customers (account_id, id, _created_after, _created_before, _checked_at, _first_seen_at, _synced_at, _observed_at, _payload)
      select distinct 'default', customer_id, a, a, a, a, a, a, '{}'::jsonb from world, (select timestamptz '2026-05-01') x (a);
    insert into helpdesk.contacts (account_id, id, customer_id, type, value, _first_seen_at, _synced_at, _observed_at, _payload)
      select account_id, 'k' || id || k, id, 'email', id || '@example' || k || '.org', _first_seen_at, _synced_at, _observed_at, '{}'
      from helpdesk.customers, generate_series(1, 10) k;
    insert into helpdesk.labels (account_id, id, _first_seen_at, _synced_at) select 'default', 'l' || n, now(), now() from generate_series(0, 2) n;
    insert into helpdesk.inboxes (account_id, id, _first_seen_at, _synced_at) select 'default', 'i' || n, now(), now() from generate_series(0, 2) n`);
  client.release(true);
  await db.pool.query('call analytics.recompute()');
  await db.pool.query('analyze');
  reader = await letReaderIn(db, { accounts: ['default'] });
  owner = await db.pool.connect();
  // As much for these tables as the default is for long ones: what does not fit is not kept in memory.
  for (const client of [owner, reader.client]) await client.query(`set work_mem = '64kB'`);
}, 120_000);
afterAll(async () => {
  owner?.release();
  await reader?.[Symbol.asyncDispose]();
  await db?.drop();
});

interface Node {
  readonly 'Rows Removed by Join Filter'?: number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Actual Loops': number;
  readonly Plans?: readonly Node[];
}

/** Pairs that its joins, and its subqueries for each row, compared one by one, and that did not match. */
const lostOf = (node: Node): number =>
  (node['Rows Removed by Join Filter'] ?? 0) * node['Actual Loops'] +
  (node['Actual Loops'] > tickets / 10 ? (node['Rows Removed by Filter'] ?? 0) * node['Actual Loops'] : 0) +
  (node.Plans ?? []).reduce((sum, one) => sum + lostOf(one), 0);

async function worst(asked: readonly { name: string; sql: string }[]): Promise<{ name: string; lost: number }[]> {
  const found: { name: string; lost: number }[] = [];
  for (const { name, sql } of asked)
    for (const client of [owner, reader.client]) {
      const { rows } = await client.query(`explain (analyze, timing off, format json) ${sql}`);
      const lost = lostOf(rows[0]['QUERY PLAN'][0].Plan);
      if (lost > inVain * tickets) found.push({ name, lost });
    }
  return found;
}

test('each join of the star by its keys', async () => {
  const joins = starJoins(await readCatalog(db.pool));
  expect(joins.length).toBeGreaterThan(25);
  expect(await worst(joins)).toEqual([]);
});

test('every question', async () => {
  expect(await worst(await readQueries())).toEqual([]);
});
