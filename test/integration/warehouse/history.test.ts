/** helpdesk.ticket_history: what a ticket was, from when to when, kept by whatever writes over it. */
import { expect, test } from 'vitest';
import { tickets } from '../../../src/streams/tickets.ts';
import { type Batch, writeBatch } from '../../../src/warehouse/commit.ts';
import { transaction } from '../../../src/warehouse/pool.ts';
import { buryTicket } from '../../../src/warehouse/waiting.ts';
import { at, iso, type Scripted, scripted, second, ticket } from '../../support/scripted.ts';

/** A page of tickets, as the source showed it in second `n`; by force: as a repair writes it. */
async function show(s: Scripted, n: number, records: object[], { account = 'default', forced = false } = {}) {
  const text = JSON.stringify(records);
  const { merge } = tickets;
  const batch: Batch = {
    name: forced ? 'tickets by force' : 'tickets',
    merge: forced ? { ...merge, upsert: merge.forced } : merge,
    records: records.map((record, place) => ({ place, id: (record as { id: string }).id })),
    text: () => text,
    record: () => text,
    parameters: () => [],
  };
  const moment = { nowMs: second(n), asOfMs: second(n) };
  await transaction(s.pool, client => writeBatch(client, { account, run: 1 }, batch, moment, 'as it came'));
}

const bury = (s: Scripted, n: number, id = 't1') =>
  transaction(s.pool, client => buryTicket(client, { account: 'default', run: 1 }, id, second(n), at(n)));

/** The seconds of the test's time that these columns hold. */
const seconds = (...columns: string[]) =>
  columns.map(name => `extract(epoch from h.${name} - '2026-01-01T00:00:00Z')::float8 as ${name}`).join(', ');

/** What is kept of a ticket: its values in words, then from, to, and after when. */
async function history(s: Scripted, id = 't1', account = 'default') {
  const rows = await s.rows(
    `select concat_ws(' ', coalesce(state, '-'), user_id, nullif(array_to_string(label_ids, '+'), ''),
         case when spam then 'spam' end, case when trash then 'trash' end) as was,
       ${seconds('valid_from', 'valid_to', 'change_after')}
     from helpdesk.ticket_history h where account_id = $2 and ticket_id = $1 order by h.valid_from`,
    id,
    account,
  );
  return rows.map(row => [row.was, row.valid_from, row.valid_to, row.change_after]);
}

test('each change is a row: dated when the ticket was updated, else when it was seen, and after it was last seen otherwise', async () => {
  await using s = await scripted();
  await show(s, 100, [ticket('t1', { created_at: iso(10), updated_at: iso(50) })]);
  expect(await history(s)).toEqual([['open', 50, null, 9]]);
  // Nothing of it: the subject, and that its messages were read.
  await show(s, 200, [ticket('t1', { created_at: iso(10), updated_at: iso(150), subject: 'Coffee' })]);
  expect(await history(s)).toHaveLength(1);
  await show(s, 300, [ticket('t1', { created_at: iso(10), updated_at: iso(250), state: 'closed' })]);
  await show(s, 400, [ticket('t1', { created_at: iso(10), updated_at: iso(250), state: 'closed', user_id: 'u1' })]);
  expect(await history(s)).toEqual([
    ['open', 50, 250, 9],
    ['closed', 250, 400, 200],
    ['closed u1', 400, null, 300],
  ]);
});

test('a tombstone ends the history, and what comes back begins anew: there is a gap', async () => {
  await using s = await scripted();
  await show(s, 100, [ticket('t1', { updated_at: iso(50) })]);
  await bury(s, 200);
  expect(await history(s)).toEqual([['open', 50, 200, -1]]);
  // As it was before: it says nothing of when it came back.
  await show(s, 300, [ticket('t1', { updated_at: iso(60) })]);
  await bury(s, 400);
  await show(s, 500, [ticket('t1', { updated_at: iso(450), state: 'closed' })]);
  expect(await history(s)).toEqual([
    ['open', 50, 200, -1],
    ['open', 300, 400, 200],
    ['closed', 450, null, 400],
  ]);
});
