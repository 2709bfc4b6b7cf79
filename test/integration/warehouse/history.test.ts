/** helpdesk.ticket_history, rule by rule where reckoning.test.ts does not come: repairs, clocks that differ, versions dated ahead, slow replies. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Batch } from '../../../src/engine/commit/page.ts';
import { writeBatch } from '../../../src/engine/commit/rows.ts';
import { transaction } from '../../../src/engine/database/pool.ts';
import { markTicketDeleted } from '../../../src/sources/helpdesk/messages/waiting.ts';
import { tickets } from '../../../src/sources/helpdesk/tickets.ts';
import { at, iso, type Scripted, scripted, second, ticket } from '../../support/scripted.ts';

interface Shown {
  readonly account?: string;
  readonly forced?: boolean;
  /** By which second what is shown was true; the same unless told. */
  readonly by?: number;
}

/** A page of tickets, as the source showed it in second `n`; by force: as a repair writes it. */
async function show(
  s: Scripted,
  n: number,
  records: object[],
  { account = 'default', forced = false, by = n }: Shown = {},
) {
  const text = JSON.stringify(records);
  const batch: Batch = {
    merge: tickets.merge,
    ...(forced && { isForced: true }),
    filter: tickets.personal,
    records: records.map((record, place) => ({ place, id: (record as { id: string }).id })),
    text: () => text,
    record: () => text,
    parameters: () => [],
  };
  const moment = { nowMs: second(n), asOfMs: second(n), trueByMs: second(by) };
  await transaction(s.pool, client =>
    writeBatch({ client, claim: { account, run: 1 }, at: moment, care: 'as it came' }, batch),
  );
}

/** So many seconds does the source show things late, at most, where nobody has set it. */
const lookback = 120;

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

test('where our clock says later than Date, changes may have happened by then, and begin within a minute of the reading', async () => {
  await using s = await scripted();
  const one = (more: Record<string, unknown>) => [ticket('t1', { created_at: iso(10), ...more })];
  const hour = 3600.5;
  await show(s, 1000, one({ updated_at: iso(950) }), { by: 1000 + hour });
  await show(s, 2000, one({ updated_at: iso(950), label_ids: ['l1'] }), { by: 2000 + hour });
  await show(s, 2200, one({ updated_at: iso(2190), label_ids: ['l1'], state: 'closed' }), { by: 2200 + hour });
  await show(s, 2400, one({ updated_at: iso(2390), label_ids: ['l1'], state: 'open' }), { by: 2400 + hour });
  expect(await history(s)).toEqual([
    ['open', 950, 2060, 9],
    ['open l1', 2060, 2190, 949],
    ['closed l1', 2190, 2390, 2000 - lookback],
    ['open l1', 2390, null, 2189],
  ]);
  expect(await s.rows(`select ${seconds('change_by')} from helpdesk.ticket_history h order by valid_from`)).toEqual(
    [1000, 2000, 2200, 2400].map(read => ({ change_by: read + hour })),
  );
});

test('each change is a row: dated when the ticket was updated, else when it was seen, and after it was last seen otherwise', async () => {
  await using s = await scripted();
  const one = (more: Record<string, unknown>) => [ticket('t1', { created_at: iso(10), ...more })];
  await show(s, 1000, one({ updated_at: iso(50) }));
  expect(await history(s)).toEqual([['open', 50, null, 9]]);
  // What is not of it: the subject, and that its messages were read.
  await show(s, 2000, one({ updated_at: iso(1950), subject: 'Coffee' }));
  await s.rows(`update helpdesk.tickets set _messages_as_of = now()`);
  expect(await history(s)).toEqual([['open', 50, null, 9]]);
  await show(s, 3000, one({ updated_at: iso(2950), state: 'closed' }));
  await show(s, 4000, one({ updated_at: iso(2950), state: 'closed', user_id: 'u1' }));
  await show(s, 5000, one({ updated_at: iso(4999), state: 'closed', user_id: 'u1', trash: true, label_ids: ['l1'] }));
  expect(await history(s)).toEqual([
    ['open', 50, 2950, 9],
    // By the second of its version it held all that had happened; and a lookback before each reading.
    ['closed', 2950, 4000, 1949],
    ['closed u1', 4000, 4999, 2949],
    ['closed u1 l1 trash', 4999, null, 4000 - lookback],
  ]);
  expect(await s.rows('select count(*) from helpdesk.ticket_history where is_first')).toEqual([{ count: 1 }]);
});

test('a sweep that read it since proves more, unless it reads a list that does not show it', async () => {
  await using s = await scripted();
  const sweep = (list: string, n: number) =>
    s.rows(
      `insert into sync.swept (account_id, source, stream, list, created, as_of, run_id)
       values ('default', 'helpdesk', 'tickets', $1, '(,)', $2, 1)`,
      list,
      at(n),
    );
  await show(
    s,
    1000,
    ['t1', 't2', 't3'].map(id => ticket(id, { spam: id === 't2', state: id === 't3' ? 'closed' : 'open' })),
  );
  await sweep('default', 5000);
  await sweep('open', 6000);
  await show(
    s,
    9000,
    ['t1', 't2', 't3'].map(id => ticket(id, { spam: id === 't2', state: 'hold' })),
  );
  expect(await history(s, 't1')).toEqual([
    ['open', 0, 9000, -1],
    ['hold', 9000, null, 6000],
  ]);
  expect((await history(s, 't2'))[1]).toEqual(['hold spam', 9000, null, 1000 - lookback]);
  expect((await history(s, 't3'))[1]).toEqual(['hold', 9000, null, 5000]);
  expect(await s.rows('select ticket_id, checked_at from sync.checked_tickets order by 1')).toEqual(
    ['t1', 't2', 't3'].map(ticket_id => ({ ticket_id, checked_at: at(9000) })),
  );
});

test('two changes within one second are one row, and nothing stops', async () => {
  await using s = await scripted();
  await show(s, 100, [ticket('t1')]);
  await show(s, 200, [ticket('t1', { updated_at: iso(200), state: 'hold' }), ticket('t2', { updated_at: iso(200) })]);
  await show(s, 201, [
    ticket('t1', { updated_at: iso(200), state: 'closed' }),
    ticket('t2', { updated_at: iso(200), state: 'hold' }),
  ]);
  // Read a moment ago, and dated when it had been read before: by a copy that is behind.
  await show(s, 202, [ticket('t1', { updated_at: iso(201), state: 'open' })]);
  await show(s, 203, [ticket('t1', { updated_at: iso(200), state: 'closed', user_id: 'u1' })], { forced: true });
  expect(await history(s)).toEqual([
    ['open', 0, 200, -1],
    ['hold', 200, 201, -1],
    // The page that comes third and the repair are dated no later than that: they take its place, one after the other.
    ['closed u1', 201, null, 199],
  ]);
  expect(await history(s, 't2')).toEqual([
    ['open', 200, 201, -1],
    ['hold', 201, null, 199],
  ]);
  expect(await s.rows(`select from helpdesk.ticket_history where valid_to is null and ticket_id = 't1'`)).toHaveLength(
    1,
  );
});

test('what a slip of the clock dates in the future is dated when it was seen', async () => {
  await using s = await scripted();
  await show(s, 100, [ticket('t1', { updated_at: iso(90_000) }), ticket('t2')]);
  await show(s, 200, [
    ticket('t1', { updated_at: iso(150), state: 'closed' }),
    ticket('t2', { updated_at: iso(90_000), state: 'hold' }),
  ]);
  expect(await history(s)).toEqual([
    ['open', 100, 150, -1],
    // A version that is dated ahead tells nothing: of the time before the reading a lookback is left to the copy.
    ['closed', 150, null, -1],
  ]);
  expect(await history(s, 't2')).toEqual([
    ['open', 0, 200, -1],
    ['hold', 200, null, -1],
  ]);
});

test('another order of labels is no change; a label more or less is, and so is none against not known', async () => {
  await using s = await scripted();
  const shown = [['l1', 'l2'], ['l2', 'l1'], ['l2', 'l1', 'l1'], ['l2'], [], null];
  for (const [i, label_ids] of shown.entries()) await show(s, 100 * (i + 1), [ticket('t1', { label_ids })]);
  const rows = await s.rows('select label_ids from helpdesk.ticket_history order by valid_from');
  expect(rows.map(row => row.label_ids)).toEqual([['l1', 'l2'], ['l2'], [], null]);
});

test('a repair writes an older version over what is here: the history goes on, and never back', async () => {
  await using s = await scripted();
  await show(s, 1000, [ticket('t1', { updated_at: iso(900), state: 'hold' })]);
  await s.rows(`update helpdesk.tickets set state = 'mine', updated_at = $1`, at(950));
  await show(s, 2000, [ticket('t1', { updated_at: iso(900), state: 'hold' })], { forced: true });
  await show(s, 3000, [ticket('t1', { updated_at: iso(800), state: 'closed' })], { forced: true });
  expect(await history(s)).toEqual([
    ['hold', 900, 950, -1],
    // Dated before it, what came took the place of what a hand had written, and then of that.
    ['closed', 950, null, 899],
  ]);
});

test('a tombstone dated before the last change ends it a second later: no row is empty, and none is lost', async () => {
  await using s = await scripted();
  await show(s, 100, [ticket('t1', { updated_at: iso(50) })]);
  await s.rows('update helpdesk.tickets set _deleted_at = $1, _deleted_after = $1', at(20));
  await show(s, 110, [ticket('t1', { updated_at: iso(50), state: 'closed' })]);
  expect(await history(s)).toEqual([
    ['open', 50, 51, -1],
    ['closed', 110, null, 20],
  ]);
  // Rows that a hand removes, or that go with their account, leave no history behind.
  await s.rows('delete from helpdesk.tickets');
  await show(s, 300, [ticket('t1', { updated_at: iso(50), state: 'hold' })]);
  expect(await history(s)).toEqual([['hold', 50, null, -1]]);
});

describe.each([0, 3, 30])('replies that take %d s', took => {
  let s: Scripted;
  beforeAll(async () => {
    s = await scripted();
    await s.rows(`update sync.accounts set mirrored_since = $1`, at(-60));
  });
  afterAll(() => s[Symbol.asyncDispose]());

  /** A reply whose header was written at `n`: complete as of the whole second before it was asked for, true by the end of its own. */
  const span = (n: number) => ({ asOf: Math.floor(n) - took - 1, by: Math.floor(n) + 1 });
  const reads = (id: string) => (n: number, more: Record<string, unknown>) =>
    show(s, span(n).asOf, [ticket(id, more)], { by: span(n).by });

  /** What is said of each quarter of a second, and what it was: [when, what]; nothing while it is gone. */
  async function judge(id: string, ...truth: readonly (readonly [at: number, was: string | undefined])[]) {
    const rows = await s.rows(
      `select extract(epoch from g.at - '2026-01-01T00:00:00Z')::float8 as at, coalesce(x.state, '?') as state, x.certain
       from generate_series($1::timestamptz, $2, '250 ms') g (at) cross join lateral analytics.tickets_as_of(g.at) x where x.ticket_id = $3`,
      ...[at(0), at(1000), id],
    );
    const wrong = rows.filter(
      ({ at, state, certain }) => certain && state !== truth.findLast(([from]) => from <= Number(at))?.[1],
    );
    expect({ wrong: wrong.length, first: wrong[0] }).toEqual({ wrong: 0, first: undefined });
    return rows.filter(({ certain }) => certain).length / rows.length;
  }

  /** The row of this state began after `after` and by what it says. */
  async function begins(id: string, state: string, changed: number) {
    const [row] = await s.rows(
      `select ${seconds('valid_from', 'change_by', 'change_after')} from helpdesk.ticket_history h where ticket_id = $1 and state = $2 order by h.valid_from desc limit 1`,
      ...[id, state],
    );
    expect(row!.change_after).toBeLessThan(Math.floor(changed));
    expect(Math.max(row!.valid_from as number, (row!.change_by as number | null) ?? 0)).toBeGreaterThanOrEqual(changed);
    return row!;
  }

  test('a second change within the second of updated_at began by the end of the reply that showed it', async () => {
    const read = reads('t1');
    await read(10.5, { state: 'open' });
    // At 100.2 it moves, at 100.7 it moves again: what is read between them shows the second of both.
    await read(100.5, { updated_at: iso(100), subject: 'Coffee' });
    await read(101.1 + took, { updated_at: iso(100), subject: 'Coffee', state: 'hold' });
    await read(900, { updated_at: iso(890), state: 'closed' });
    expect((await begins('t1', 'hold', 100.7)).valid_from).toBe(102 + took);
    expect(await judge('t1', [0, 'open'], [100.7, 'hold'], [890, 'closed'])).toBeGreaterThan(0.1);
  });

  test('a silent change began by the end of the reply that showed it, also where something else has moved the time', async () => {
    const read = reads('t2');
    await read(10.5, { state: 'open' });
    // It happens while the reply is under way, or a moment before.
    await read(300.9 + took, { state: 'hold' });
    // A message moves the time, and the state half a minute later does not.
    await read(531.4 + took, { updated_at: iso(500), state: 'snoozed' });
    await read(900, { updated_at: iso(890), state: 'closed' });
    const changed = 300.4 + took;
    expect((await begins('t2', 'hold', changed)).valid_from).toBe(301 + took);
    expect(await begins('t2', 'snoozed', 530.5)).toMatchObject({ valid_from: 500, change_by: 532 + took });
    expect(await judge('t2', [0, 'open'], [changed, 'hold'], [530.5, 'snoozed'], [890, 'closed'])).toBeGreaterThan(
      0.05,
    );
  });

  test('what was new here, and changed in silence before it was seen, is certain from the reply on', async () => {
    const read = reads('t3');
    await read(50.2 + took, { state: 'hold' });
    await read(900, { updated_at: iso(890), state: 'closed' });
    expect(await begins('t3', 'hold', 20.5)).toMatchObject({ valid_from: 0, change_by: 51 + took });
    await judge('t3', [0, 'open'], [20.5, 'hold'], [890, 'closed']);
  });

  test('a deletion, and what comes back, lie within their bounds', async () => {
    const read = reads('t4');
    await read(10.5, { state: 'open' });
    // The source looks at 300.3, at the latest; it comes back before the 404 is written.
    const gone = span(300.3 + took);
    await transaction(s.pool, client =>
      markTicketDeleted(client, { account: 'default', run: 1 }, 't4', second(gone.asOf), at(gone.by), {
        byMs: second(gone.by),
        lookbackMs: lookback * 1000,
      }),
    );
    await read(400.5 + took, { state: 'hold' });
    await read(900, { updated_at: iso(890), state: 'closed' });
    await begins('t4', 'hold', 300.4);
    await judge('t4', [0, 'open'], [299.5, undefined], [300.4, 'hold'], [890, 'closed']);
  });

  test('a version that is dated ahead of its reply is dated by it, and tells nothing of the change after it', async () => {
    const read = reads('t5');
    await read(10.5, { state: 'open' });
    await read(200.5 + took, { updated_at: iso(2000), state: 'hold' });
    // Stamped right: a repair goes over a version that was not.
    const right = ticket('t5', { updated_at: iso(450), state: 'closed' });
    await show(s, span(500.5 + took).asOf, [right], { by: span(500.5 + took).by, forced: true });
    expect((await begins('t5', 'hold', 200.2)).valid_from).toBe(201 + took);
    expect((await begins('t5', 'closed', 450.5)).valid_from).toBe(450);
    await judge('t5', [0, 'open'], [200.2, 'hold'], [450.5, 'closed']);
  });
});
