/**
 * How long a person takes to be erased, and what it costs to keep them out: a warehouse of so many tickets, five messages each.
 *
 *   node bench/erase.ts [tickets]      200,000 tickets and a million messages: some minutes
 */

import { tickets as stream } from '../src/streams/tickets.ts';
import { singleBatch } from '../src/sync/batch.ts';
import { writeBatch } from '../src/warehouse/commit.ts';
import { eraseCustomer } from '../src/warehouse/operations.ts';
import { makePool, transaction } from '../src/warehouse/pool.ts';
import { openDatabase } from './lab.ts';

const [tickets = 200_000] = process.argv.slice(2).map(Number);
const perCustomer = 4;
await using database = await openDatabase();
const pool = makePool(database.url);
const load = await database.pool.connect();
// Loaded without triggers: history and metrics are not what is measured.
await load
  .query(`set session_replication_role = replica; set synchronous_commit = off;
  insert into sync.accounts (account_id, since, queue) values ('default', '1970-01-01', gen_random_uuid()) on conflict do nothing;
  insert into helpdesk.tickets (account_id, id, number, customer_id, state, type, subject, created_at, updated_at, _first_seen_at, _synced_at, _observed_at, _payload)
  select 'default', 't' || n, n, 'c' || n / ${perCustomer}, 'open', 'email', 'Subject ' || n, t, t, t, t, t,
    jsonb_build_object('id', 't' || n, 'customer_id', 'c' || n / ${perCustomer}, 'subject', 'Subject ' || n, 'state', 'open', 'updated_at', t)
  from generate_series(1, ${tickets}) n, lateral (select '2026-01-01'::timestamptz + n * interval '1 second') x (t);
  insert into helpdesk.customers (account_id, id, first_name, _created_after, _created_before, _checked_at, _first_seen_at, _synced_at, _observed_at, _payload)
  select 'default', 'c' || n, 'Ada ' || n, t, t, t, t, t, t, jsonb_build_object('id', 'c' || n, 'first_name', 'Ada ' || n)
  from generate_series(0, ${tickets} / ${perCustomer}) n, (select '2026-01-01'::timestamptz) x (t);
  insert into helpdesk.contacts (account_id, id, customer_id, type, value, _first_seen_at, _synced_at, _observed_at, _payload)
  select 'default', 'k' || n, 'c' || n, case n % 4 when 3 then 'phone' else 'email' end,
    case n % 4 when 3 then '+49 30 ' || 100000 + n else 'ada' || n || '@example.org' end, t, t, t, '{}'
  from generate_series(0, ${tickets} / ${perCustomer}) n, (select '2026-01-01'::timestamptz) x (t);
  insert into helpdesk.messages (account_id, id, ticket_id, position, type, direction, from_name, from_address, to_address, body, body_text, created_at, _first_seen_at, _synced_at, _observed_at, _payload)
  select 'default', 'm' || n || '-' || p, 't' || n, p, 'reply', case p % 2 when 1 then 'in' else 'out' end, 'Ada ' || n,
    case p % 2 when 1 then 'ada' || n / ${perCustomer} || '@example.org' else 'help@example.org' end,
    case p % 2 when 0 then 'ada' || n / ${perCustomer} || '@example.org' else 'help@example.org' end,
    repeat('Some words about a book. ', 20), repeat('Some words about a book. ', 20), t, t, t, t, jsonb_build_object('id', 'm' || n || '-' || p, 'from', 'ada')
  from generate_series(1, ${tickets}) n, generate_series(1, 5) p, (select '2026-01-01'::timestamptz) x (t)`)
  .finally(() => load.release(true));
console.log(`${tickets} tickets, ${tickets * 5} messages`);

/** ms of a page of a hundred tickets of others, that are here already. */
async function page(): Promise<number> {
  const records = Array.from({ length: 100 }, (_, i) => ({
    ...{ id: `t${5000 + i}`, customer_id: `c${Math.floor((5000 + i) / perCustomer)}`, subject: `Subject ${5000 + i}` },
    ...{ state: 'open', updated_at: new Date(Date.UTC(2026, 0, 1) + (5000 + i) * 1000).toISOString() },
  }));
  const batch = { ...singleBatch(stream, { records, text: '', date: 0 }), text: () => JSON.stringify(records) };
  const at = { nowMs: Date.now(), asOfMs: Date.now() };
  const times: number[] = [];
  for (let i = 0; i < 60; i++) {
    const begun = performance.now();
    await transaction(pool, client => writeBatch(client, { account: 'default', run: null }, batch, at, 'as it came'));
    times.push(performance.now() - begun);
  }
  return times.sort((a, b) => a - b)[30]!;
}

/** ms of a question, without those of one that asks nothing. */
async function question(): Promise<number> {
  const client = await pool.connect();
  const time = async (text: string) => {
    const begun = performance.now();
    for (let i = 0; i < 1000; i++) await client.query({ name: text, text, values: ['default'] });
    return (performance.now() - begun) / 1000;
  };
  const [nothing, any] = [await time('select $1::text'), await time('select sync.any_erased($1)')];
  client.release();
  console.log(`a question that asks nothing: ${nothing.toFixed(3)} ms`);
  return any;
}

await page();
console.log(`the question of each commit: ${(await question()).toFixed(3)} ms`);
console.log(`a page of 100 tickets, where nobody was erased: ${(await page()).toFixed(1)} ms`);
for (const customer of ['c100', 'c103']) {
  const begun = performance.now();
  const { rows } = await eraseCustomer(pool, { account: 'default', customer, who: 'bench' }, new Date());
  console.log(`${customer} erased in ${((performance.now() - begun) / 1000).toFixed(2)} s: ${JSON.stringify(rows)}`);
}
console.log(`a page of 100 tickets, where somebody was: ${(await page()).toFixed(1)} ms`);
await pool.end();
