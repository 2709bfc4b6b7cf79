/** What was so at a time, and how many tickets were open work at the end of each day: both out of the same history. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makePool } from '../../../src/engine/database/pool.ts';
import { long } from '../../support/long.ts';
import { freshDatabase, type TestDatabase } from '../../support/postgres.ts';

interface Row {
  ticket: string;
  state: string | null;
  user: string | null;
  spam: boolean;
  from: Date;
  to: Date | null;
  after: Date | null;
  deletedAfter?: Date | null;
}

const utc = (text: string) => new Date(`2026-${text}Z`);

async function write(db: TestDatabase, created: ReadonlyMap<string, Date>, rows: readonly Row[]): Promise<void> {
  await db.pool.query(`insert into sync.accounts (account_id) values ('default') on conflict do nothing`);
  await db.pool.query('delete from helpdesk.tickets');
  await db.pool.query(
    `insert into helpdesk.tickets (account_id, id, number, type, created_at, updated_at, _first_seen_at, _synced_at, _observed_at, _payload)
     select 'default', id, 1, 'email', at, at, at, at, at, '{}' from unnest($1::text[], $2::timestamptz[]) t (id, at)`,
    [[...created.keys()], [...created.values()]],
  );
  await db.pool.query('delete from internal.ticket_history');
  const first = new Set<string>();
  const isFirst = rows.map(({ ticket }) => !first.has(ticket) && first.add(ticket) !== undefined);
  await db.pool.query(
    `insert into internal.ticket_history
       (account_id, ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, valid_to, change_after, deleted_after, is_first)
     select 'default', ticket, state, who, 'i1', '{}', spam, false, at, until, after, gone, is_first
     from unnest($1::text[], $2::text[], $3::text[], $4::boolean[], $5::timestamptz[], $6::timestamptz[], $7::timestamptz[],
       $8::timestamptz[], $9::boolean[]) r (ticket, state, who, spam, at, until, after, gone, is_first)`,
    [
      rows.map(row => row.ticket),
      rows.map(row => row.state),
      rows.map(row => row.user),
      rows.map(row => row.spam),
      rows.map(row => row.from),
      rows.map(row => row.to),
      rows.map(row => row.after),
      rows.map(row => row.deletedAfter ?? null),
      isFirst,
    ],
  );
}

const row = (
  ticket: string,
  state: string,
  from: string,
  to: string | null,
  after: string,
  more: Partial<Row> = {},
): Row => ({
  ...{ ticket, state, user: null, spam: false, from: utc(from), to: to === null ? null : utc(to), after: utc(after) },
  ...more,
});

let db: TestDatabase;
beforeAll(async () => {
  db = await freshDatabase();
});
afterAll(() => db?.drop());

/** Three tickets; a is reopened, b was first seen after it had changed, c is deleted. */
const created = new Map([
  ['a', utc('03-27T10:00:00')],
  ['b', utc('03-27T12:00:00')],
  ['c', utc('03-28T08:00:00')],
]);
const few = [
  row('a', 'open', '03-27T10:00:00', '03-28T10:00:00', '03-27T09:59:59'),
  // By Berlin's midnight between the 28th and the 29th, 23:00 UTC, or after it.
  row('a', 'closed', '03-28T10:00:00', '03-28T23:30:00', '03-28T09:58:00'),
  row('a', 'open', '03-28T23:30:00', null, '03-28T22:50:00', { user: 'u1' }),
  row('b', 'hold', '03-28T12:00:00', null, '03-27T11:59:59'),
  row('c', 'open', '03-28T08:00:00', '03-29T22:30:00', '03-28T07:59:59', { deletedAfter: utc('03-29T21:30:00') }),
];

test('a deletion of which nobody knows when is not certain', async () => {
  await write(db, new Map([['d', utc('03-28T08:00:00')]]), [
    row('d', 'open', '03-28T08:00:00', '03-29T08:00:00', '03-28T07:59:59'),
    row('d', 'hold', '03-29T08:00:00', '03-30T08:00:00', '03-29T07:00:00'),
  ]);
  const asOf = async (at: string) =>
    (await db.pool.query('select state, certain from analytics.tickets_as_of($1)', [utc(at)])).rows;
  expect(await asOf('03-29T06:00:00')).toEqual([{ state: 'open', certain: true }]);
  expect(await asOf('03-29T09:00:00')).toEqual([{ state: 'hold', certain: false }]);
});

test('where clocks go back to midnight, the day ends with the first one', async () => {
  // On the Azores the 26th of October 2025 begins at 00:00 UTC; at 01:00 UTC it is midnight again.
  const at = (text: string) => new Date(`2025-10-${text}Z`);
  await write(db, new Map([['e', at('25T08:00:00')]]), [
    row('e', 'open', '01-01T00:00:00', null, '01-01T00:00:00', {
      ...{ from: at('25T08:00:00'), to: at('26T00:30:00'), after: at('25T07:59:59') },
    }),
    row('e', 'closed', '01-01T00:00:00', null, '01-01T00:00:00', { from: at('26T00:30:00'), after: at('26T00:29:00') }),
  ]);
  const { rows } = await db.pool.query(
    `select day::text, state, tickets, uncertain from analytics.backlog_daily('2025-10-24', '2025-10-27', 'Atlantic/Azores')`,
  );
  expect(rows).toEqual([{ day: '2025-10-25', state: 'open', tickets: 1, uncertain: 0 }]);
});

test('the backlog at the end of each day of a zone; where the clocks change, a day ends an hour earlier', async () => {
  await write(db, created, few);
  const backlog = async (...days: [from: string, to: string, zone?: string]) =>
    (
      await db.pool.query(
        `select day::text, coalesce(state, '?') || coalesce(' ' || user_id, '') as what, tickets, uncertain
         from analytics.backlog_daily($1, $2${days[2] ? ', $3' : ''}) order by 1, 2`,
        days,
      )
    ).rows.map(one => `${one.day} ${one.what} ${one.tickets} ±${one.uncertain}`);
  expect(await backlog('2026-03-26', '2026-03-30', 'Europe/Berlin')).toEqual([
    '2026-03-27 ? 1 ±1',
    '2026-03-27 open 1 ±0',
    '2026-03-28 hold 1 ±0',
    '2026-03-28 open 1 ±0',
    // It was closed, or with u1 again.
    '2026-03-28 open u1 0 ±1',
    // It ended at 22:00 UTC, and the day before at 23:00: c may have been deleted by then.
    '2026-03-29 hold 1 ±0',
    '2026-03-29 open 1 ±1',
    '2026-03-29 open u1 1 ±0',
    '2026-03-30 hold 1 ±0',
    '2026-03-30 open u1 1 ±0',
  ]);
  expect(await backlog('2026-03-29', '2026-03-29')).toEqual(['2026-03-29 hold 1 ±0', '2026-03-29 open u1 1 ±0']);
  expect(await backlog('2026-03-30', '2026-03-29')).toEqual([]);
  await expect(backlog('2026-03-29', '2026-03-29', 'Europe/Berlyn')).rejects.toThrow('not recognized');
});

/** Rows that have ended, and nightly looks only: thousands of changes may be of either day. */
test(
  'no question is answered with the index that forbids overlaps: each look-up would read all of it',
  long,
  async () => {
    await using db = await freshDatabase();
    await using pool = Object.assign(makePool(db.url), { [Symbol.asyncDispose]: () => pool.end() });
    pool.options.max = 1;
    await pool.query(`
    insert into sync.accounts (account_id) values ('default');
    alter table helpdesk.tickets disable trigger user;
    alter table internal.ticket_history disable trigger user;
    insert into helpdesk.tickets (account_id, id, number, created_at, updated_at, _deleted_at, _first_seen_at, _synced_at, _observed_at, _payload)
      select 'default', 't' || n, n, at, at, case when n % 10 = 0 then at + interval '6 days' end, at, at, at, '{}'
      from generate_series(1, 3000) n, lateral (select timestamptz '2026-01-01' as at) a;
    insert into internal.ticket_history (account_id, ticket_id, state, user_id, valid_from, valid_to, change_after, deleted_after, is_first)
      select 'default', 't' || n, case when k = 3 then 'closed' else 'open' end, 'u' || k, first + k * interval '1 day',
        case when k < 3 or n % 10 = 0 then first + (k + 1) * interval '1 day' end, first + (k - 1) * interval '1 day',
        case when k = 3 and n % 10 = 0 then first + k * interval '1 day' end, k = 1
      from generate_series(1, 3000) n, generate_series(1, 3) k, lateral (select timestamptz '2026-01-01' + n * interval '1 minute' as first) f;
    analyze helpdesk.tickets, internal.ticket_history`);
    const given = async () => {
      await pool.query('select pg_stat_force_next_flush()');
      const { rows } = await pool.query<{ n: number }>(
        `select idx_tup_read::float8 as n from pg_stat_user_indexes where indexrelname = 'ticket_history_no_overlap'`,
      );
      return rows[0]!.n;
    };
    const before = await given();
    for (const question of [
      'select * from internal.ticket_metrics_defined',
      `select * from internal.ticket_metrics_defined where account_id = 'default' and ticket_id = 't10'`,
      `select * from analytics.backlog_daily('2026-01-01', '2026-01-06')`,
      `select * from analytics.tickets_as_of('2026-01-03T12:00:00Z')`,
      `select * from analytics.ticket_history where account_id = 'default' and ticket_id = 't10' and valid_to > '2026-01-03'`,
      `select * from helpdesk.ticket_history where account_id = 'default' and ticket_id = 't10' and valid_to = '2026-01-03'`,
    ]) {
      await pool.query(question);
      expect({ question, read: (await given()) - before }).toEqual({ question, read: 0 });
    }
  },
);
