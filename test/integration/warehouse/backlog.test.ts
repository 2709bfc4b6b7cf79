/** What was so at a time, and how many tickets were open work at the end of each day: both out of the same history. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makePool } from '../../../src/engine/database/pool.ts';
import { long } from '../../support/long.ts';
import { freshDatabase, type TestDatabase } from '../../support/postgres.ts';

type Row = readonly [state: string, from: string, to: string | null, after: string];

/** One ticket with this history, of a source that deleted nothing. */
async function write(created: string, rows: readonly Row[]): Promise<void> {
  await db.pool.query(`insert into sync.accounts (account_id) values ('default') on conflict do nothing`);
  await db.pool.query('delete from helpdesk.tickets');
  await db.pool.query(
    `insert into helpdesk.tickets (account_id, id, number, type, created_at, updated_at, _first_seen_at, _synced_at, _observed_at, _payload)
     values ('default', 't', 1, 'email', $1, $1, $1, $1, $1, '{}')`,
    [created],
  );
  await db.pool.query('delete from internal.ticket_history');
  for (const [i, row] of rows.entries())
    await db.pool.query(
      `insert into internal.ticket_history
         (account_id, ticket_id, inbox_id, label_ids, spam, trash, state, valid_from, valid_to, change_after, is_first)
       values ('default', 't', 'i1', '{}', false, false, $1, $2, $3, $4, $5)`,
      [...row, i === 0],
    );
}

let db: TestDatabase;
beforeAll(async () => {
  db = await freshDatabase();
});
afterAll(() => db?.drop());

test('a deletion of which nobody knows when is not certain', async () => {
  await write('2026-03-28T08:00:00Z', [
    ['open', '2026-03-28T08:00:00Z', '2026-03-29T08:00:00Z', '2026-03-28T07:59:59Z'],
    ['hold', '2026-03-29T08:00:00Z', '2026-03-30T08:00:00Z', '2026-03-29T07:00:00Z'],
  ]);
  const asOf = async (at: string) =>
    (await db.pool.query('select state, certain from analytics.tickets_as_of($1)', [at])).rows;
  expect(await asOf('2026-03-29T06:00:00Z')).toEqual([{ state: 'open', certain: true }]);
  expect(await asOf('2026-03-29T09:00:00Z')).toEqual([{ state: 'hold', certain: false }]);
});

test('where clocks go back to midnight, the day ends with the first one', async () => {
  // On the Azores the 26th of October 2025 begins at 00:00 UTC; at 01:00 UTC it is midnight again.
  await write('2025-10-25T08:00:00Z', [
    ['open', '2025-10-25T08:00:00Z', '2025-10-26T00:30:00Z', '2025-10-25T07:59:59Z'],
    ['closed', '2025-10-26T00:30:00Z', null, '2025-10-26T00:29:00Z'],
  ]);
  const { rows } = await db.pool.query(
    `select day::text, state, tickets, uncertain from analytics.backlog_daily('2025-10-24', '2025-10-27', 'Atlantic/Azores')`,
  );
  expect(rows).toEqual([{ day: '2025-10-25', state: 'open', tickets: 1, uncertain: 0 }]);
});

/** The rows of the ticket at the ends of months, in an account of this zone that is complete through then. */
async function months(zone: string, through: string): Promise<unknown[]> {
  await db.pool.query(
    'delete from internal.stored_calendar_assignments; delete from analytics.calendars; delete from sync.coverage',
  );
  await db.pool.query(`insert into analytics.calendars (name, time_zone) values ('office', $1)`, [zone]);
  await db.pool.query(
    `insert into internal.stored_calendar_assignments (account_id, calendar) values ('default', 'office')`,
  );
  await db.pool.query(
    `insert into sync.coverage (account_id, source, stream, list, covered)
     values ('default', 'helpdesk', 'tickets', 'default', tstzmultirange(tstzrange('1970-01-01', $1)))`,
    [through],
  );
  const { rows } = await db.pool.query(
    'select date_key::text as day, state, is_counted, is_certain from analytics.fact_backlog_months order by 1, 2',
  );
  return rows.map(row => Object.values(row));
}

test('where clocks go back to midnight, the month ends with the first one', async () => {
  // In Havana the first of November 2026 begins at 04:00 UTC, and again at 05:00 UTC.
  await write('2026-10-25T08:00:00Z', [
    ['open', '2026-10-25T08:00:00Z', '2026-11-01T04:30:00Z', '2026-10-25T07:59:59Z'],
    ['closed', '2026-11-01T04:30:00Z', null, '2026-11-01T04:29:00Z'],
  ]);
  expect(await months('America/Havana', '2026-11-04T12:00:00Z')).toEqual([['2026-10-31', 'open', true, true]]);
});

test('a ticket that a later reply shows closed may have been open at the end of the month', async () => {
  await write('2026-10-30T08:00:00Z', [['closed', '2026-10-30T09:00:00Z', null, '2026-10-30T07:59:59Z']]);
  await db.pool.query(`update internal.ticket_history set change_by = '2026-11-02T09:00:00Z'`);
  expect(await months('UTC', '2026-11-04T12:00:00Z')).toEqual([['2026-10-31', null, false, false]]);
  const { rows } = await db.pool.query(
    `select tickets, uncertain from analytics.fact_backlog where date_key = '2026-10-31'`,
  );
  expect(rows).toEqual([{ tickets: 0, uncertain: 1 }]);
});

test('a ticket without a time of its creation has its months, too', async () => {
  await write('2026-10-30T08:00:00Z', [
    ['open', '2026-08-30T09:00:00Z', '2026-09-02T09:00:00Z', '2026-08-30T07:59:59Z'],
  ]);
  await db.pool.query(`update helpdesk.tickets set created_at = null, updated_at = '2026-08-30T09:00:00Z'`);
  await db.pool.query('update internal.ticket_history set change_after = null, deleted_after = valid_to');
  expect(await months('UTC', '2026-11-04T12:00:00Z')).toEqual([['2026-08-31', 'open', true, true]]);
});

/** Days of three zones are reckoned in reckoning.test.ts. */
test('of no day there is no backlog, and a zone that does not exist is refused', async () => {
  const backlog = (to: string, zone: string) =>
    db.pool.query(`select * from analytics.backlog_daily('2026-03-30', $1, $2)`, [to, zone]);
  expect((await backlog('2026-03-29', 'UTC')).rows).toEqual([]);
  await expect(backlog('2026-03-30', 'Europe/Berlyn')).rejects.toThrow('not recognized');
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
