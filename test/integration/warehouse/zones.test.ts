/** Days and hours are those of the inbox's calendar, else of the account's, else UTC: also where clocks change. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { freshDatabase, type TestDatabase } from '../../support/postgres.ts';
import { letReaderIn } from '../../support/readers.ts';

let db: TestDatabase;
const own = '_first_seen_at, _synced_at, _observed_at, _payload';
/** Clocks go forward in Berlin at 01:00Z on March 29; Auckland is 13 hours ahead until April 4, Honolulu always 10 behind. */
const at = '2026-03-28T23:30:00Z';
const answered = '2026-03-29T01:30:00Z';
beforeAll(async () => {
  db = await freshDatabase();
  await db.pool.query(`
    insert into sync.accounts (account_id, mirrored_since) values ('acme', '2026-01-01'), ('umbra', '2026-01-01');
    insert into analytics.calendars (name, time_zone) values ('berlin', 'Europe/Berlin'), ('auckland', 'Pacific/Auckland'), ('honolulu', 'Pacific/Honolulu');
    insert into internal.stored_calendar_assignments (account_id, inbox_id, calendar)
      values ('acme', null, 'berlin'), ('acme', 'east', 'auckland'), ('acme', 'west', 'honolulu'), ('umbra', 'east', 'auckland');
    insert into helpdesk.inboxes (account_id, id, name, _first_seen_at, _synced_at)
      select 'acme', n, n, '2026-01-01', '2026-01-01' from unnest('{east,home}'::text[]) n;
    create temp table it as
      select a.account_id, coalesce(i, 'none') as id, i as inbox_id from sync.accounts a, unnest('{east,west,home,null}'::text[]) i;
    insert into helpdesk.tickets (account_id, id, inbox_id, state, created_at, updated_at, _true_by, ${own})
      select account_id, id, inbox_id, 'open', '${at}', '${at}', '${at}', '${at}', '${at}', '${at}', '{}' from it;
    insert into internal.messages (account_id, id, ticket_id, position, type, direction, user_id, created_at, ${own})
      select account_id, id || k, id, k, 'reply', case k when 1 then 'in' else 'out' end, case k when 2 then 'u1' end,
        case k when 1 then timestamptz '${at}' else '${answered}' end, '${at}', '${at}', '${at}', '{}' from it, generate_series(1, 2) k;
    update helpdesk.tickets set state = 'closed', updated_at = '${answered}', _observed_at = '${answered}', _true_by = '${answered}';
    insert into sync.coverage (account_id, source, stream, list, covered)
      select account_id, 'helpdesk', 'tickets', 'default', tstzmultirange(tstzrange('1970-01-01', '2026-03-30T15:00Z')) from sync.accounts`);
});
afterAll(() => db?.drop());

const rows = async (sql: string) => (await db.pool.query(sql)).rows;

test('zones of inboxes', async () => {
  expect(await rows('select * from analytics.inbox_zones order by account_id, inbox_id')).toEqual([
    { account_id: 'acme', inbox_id: 'east', time_zone: 'Pacific/Auckland', is_own: true },
    { account_id: 'acme', inbox_id: 'home', time_zone: 'Europe/Berlin', is_own: false },
    { account_id: 'acme', inbox_id: 'west', time_zone: 'Pacific/Honolulu', is_own: true },
    { account_id: 'umbra', inbox_id: 'east', time_zone: 'Pacific/Auckland', is_own: true },
  ]);
  expect(await rows('select inbox_key, time_zone from analytics.dim_inbox order by 1')).toEqual([
    { inbox_key: 'acme/east', time_zone: 'Pacific/Auckland' },
    { inbox_key: 'acme/home', time_zone: 'Europe/Berlin' },
  ]);
  await using reader = await letReaderIn(db, { accounts: ['umbra'] });
  expect(await reader.rows('select account_id from analytics.inbox_zones')).toEqual([{ account_id: 'umbra' }]);
});

test('days and hours of tickets, messages and waits', async () => {
  expect(
    await rows(`
      select t.account_key || '/' || t.ticket_id as key, t.created_date::text as created, t.first_closed_date::text as closed,
        string_agg(m.created_date || ' ' || m.created_hour, ', ' order by m.position) as messages,
        min(r.waiting_date || ' to ' || r.answered_date) as wait
      from analytics.fact_tickets t
      join analytics.fact_messages m using (ticket_key) join analytics.fact_turns r using (ticket_key)
      group by 1, 2, 3 order by 1`),
  ).toEqual(
    [
      // After 01:00 in Berlin comes 03:00.
      ['acme/east', '2026-03-29', '2026-03-29', '2026-03-29 12, 2026-03-29 14', '2026-03-29 to 2026-03-29'],
      ['acme/home', '2026-03-29', '2026-03-29', '2026-03-29 0, 2026-03-29 3', '2026-03-29 to 2026-03-29'],
      ['acme/none', '2026-03-29', '2026-03-29', '2026-03-29 0, 2026-03-29 3', '2026-03-29 to 2026-03-29'],
      ['acme/west', '2026-03-28', '2026-03-28', '2026-03-28 13, 2026-03-28 15', '2026-03-28 to 2026-03-28'],
      ['umbra/east', '2026-03-29', '2026-03-29', '2026-03-29 12, 2026-03-29 14', '2026-03-29 to 2026-03-29'],
      ['umbra/home', '2026-03-28', '2026-03-29', '2026-03-28 23, 2026-03-29 1', '2026-03-28 to 2026-03-29'],
      ['umbra/none', '2026-03-28', '2026-03-29', '2026-03-28 23, 2026-03-29 1', '2026-03-28 to 2026-03-29'],
      ['umbra/west', '2026-03-28', '2026-03-29', '2026-03-28 23, 2026-03-29 1', '2026-03-28 to 2026-03-29'],
    ].map(([key, created, closed, messages, wait]) => ({ key, created, closed, messages, wait })),
  );
});

test('days of the work of the team, and hours of arrivals', async () => {
  expect(
    await rows('select account_id, day::text, replies, wait_business_seconds from analytics.agent_daily order by 1, 2'),
  ).toEqual([
    { account_id: 'acme', day: '2026-03-28', replies: 1, wait_business_seconds: 0 },
    { account_id: 'acme', day: '2026-03-29', replies: 3, wait_business_seconds: 0 },
    // Only one of its four waits has a calendar.
    { account_id: 'umbra', day: '2026-03-29', replies: 4, wait_business_seconds: null },
  ]);
  expect(
    await rows(`select account_id, time_zone, local_weekday, local_hour, tickets_created, inbound_messages
      from analytics.arrivals_hourly order by 1, 2`),
  ).toEqual(
    [
      ['acme', 'Europe/Berlin', 7, 0, 2],
      ['acme', 'Pacific/Auckland', 7, 12, 1],
      ['acme', 'Pacific/Honolulu', 6, 13, 1],
      ['umbra', 'Pacific/Auckland', 7, 12, 1],
      ['umbra', 'UTC', 6, 23, 3],
    ].map(([account_id, time_zone, local_weekday, local_hour, n]) => ({
      ...{ account_id, time_zone, local_weekday, local_hour },
      ...{ tickets_created: n, inbound_messages: n },
    })),
  );
});

test('the backlog of an inbox is of its own days, and all inboxes have the same last day', async () => {
  // Open for two hours, in which the day ended at home and in UTC alone; unknown before the first reading is nothing here.
  const counted = await rows(`
    select account_key, inbox_key, date_key::text as day, sum(tickets)::int as tickets
    from analytics.fact_backlog where state = 'open' group by 1, 2, 3 order by 1, 2, 3`);
  expect(counted).toEqual([
    { account_key: 'umbra', inbox_key: 'umbra/home', day: '2026-03-28', tickets: 1 },
    { account_key: 'umbra', inbox_key: 'umbra/west', day: '2026-03-28', tickets: 1 },
    { account_key: 'umbra', inbox_key: null, day: '2026-03-28', tickets: 1 },
  ]);
  await db.pool.query(
    `update helpdesk.tickets set state = 'open', updated_at = '2026-03-29T12:00Z', _observed_at = '2026-03-29T12:00Z', _true_by = '2026-03-29T12:00Z'`,
  );
  // Complete through Tuesday in Auckland and Monday noon in Honolulu, so Sunday is the last day of all inboxes of acme. Auckland's
  // Sunday was over before the ticket was open again.
  expect(
    await rows(`
      select account_key, inbox_key, max(date_key)::text as last, sum(tickets)::int as tickets
      from analytics.fact_backlog where tickets > 0 and date_key > '2026-03-28' group by 1, 2 order by 1, 2`),
  ).toEqual(
    [
      ['acme', 'acme/home', '2026-03-29', 1],
      ['acme', 'acme/west', '2026-03-29', 1],
      ['acme', null, '2026-03-29', 1],
      ['umbra', 'umbra/home', '2026-03-29', 1],
      ['umbra', 'umbra/west', '2026-03-29', 1],
      ['umbra', null, '2026-03-29', 1],
    ].map(([account_key, inbox_key, last, tickets]) => ({ account_key, inbox_key, last, tickets })),
  );
});
