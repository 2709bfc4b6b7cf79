/** Questions of docs/queries where they could mislead: what is unknown, not here yet, seen late, or of an account that is behind. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readQueries } from '../../../src/analytics/questions.ts';
import { askAccounts } from '../../../src/cli/look/sql.ts';
import { freshDatabase, type TestDatabase } from '../../support/postgres.ts';

let db: TestDatabase;
const own = '_first_seen_at, _synced_at, _observed_at, _payload';
const messages = '2026-02-23T12:00Z 2026-03-16T12:00Z 2026-03-23T12:00Z 2026-03-24T12:00Z'.split(' ');

beforeAll(async () => {
  db = await freshDatabase();
  await db.pool.query(`
    insert into sync.accounts (account_id, since, mirrored_since)
      select a, case a when 'done' then timestamptz '2026-03-09' else '1970-01-01' end, '2026-01-01' from unnest('{acme,behind,done}'::text[]) a;
    insert into sync.coverage (account_id, source, stream, list, covered)
      select account_id, 'helpdesk', 'tickets', 'default', tstzmultirange(tstzrange('1970-01-01',
        case account_id when 'behind' then timestamptz '2025-11-10T12:00Z' else '2026-03-30T12:00Z' end)) from sync.accounts;
    create temp table it (account_id text, id text, state text, created_at timestamptz, seen_at timestamptz, messages_as_of timestamptz);
    insert into it values
      ('acme', 'slow', 'open', '2026-01-05', '2026-01-06', '2027-01-01'),
      ('acme', 'closed', 'closed', '2026-03-01', '2026-03-01T06:00Z', '2027-01-01'),
      ('acme', 'undated', 'open', null, '2026-03-29', '2027-01-01'),
      ('acme', 'late', 'open', '2026-03-20', '2026-03-29', '2027-01-01'),
      ('acme', 'other', 'pending', '2026-03-29', '2026-03-29', '2027-01-01'),
      ('acme', 'partial', 'hold', '2026-03-28', '2026-03-30T01:00Z', null),
      ('behind', 'one', 'closed', '2025-11-01', '2025-11-02', '2027-01-01'),
      ('behind', 'two', 'closed', '2025-11-01', '2025-11-02', '2027-01-01'),
      ('done', 'was', 'open', '2026-02-20', '2026-02-20', '2027-01-01');
    insert into helpdesk.tickets (account_id, id, user_id, state, type, created_at, updated_at, _messages_as_of, _true_by, ${own})
      select account_id, id, case when id <> 'undated' then 'u1' end, state, 'email', created_at, seen_at, messages_as_of, seen_at, seen_at, seen_at, seen_at, '{}' from it;
    insert into internal.messages (account_id, id, ticket_id, position, type, direction, user_id, created_at, ${own})
      select account_id, id || k, id, k, 'reply', case k when 1 then 'in' else 'out' end, case k when 2 then 'u1' end,
        created_at + k * interval '1 hour', seen_at, seen_at, seen_at, '{}'
      from it cross join generate_series(1, 2) k where id in ('slow', 'one', 'two') or id = 'partial' and k = 1;
    insert into internal.messages (account_id, id, ticket_id, position, type, direction, created_at, ${own})
      select 'done', 'm' || n, 'was', n, 'reply', 'in', at, at, at, at, '{}'
      from unnest('{${messages}}'::timestamptz[]) with ordinality as m (at, n);
    update helpdesk.tickets set state = 'closed', updated_at = '2026-03-20', _observed_at = '2026-03-20', _true_by = '2026-03-20' where id in ('slow', 'was')`);
});
afterAll(() => db?.drop());

type Row = Record<string, unknown>;

/** As any tool asks it, or of one account. */
async function answer(name: string, account?: string): Promise<Row[]> {
  const { sql } = (await readQueries()).find(one => one.name === name)!;
  if (account === undefined) return (await db.pool.query(sql)).rows;
  const { names, rows } = await askAccounts({ pg: db.pool, url: db.url }, sql, account);
  return rows.map(row => Object.fromEntries(names.map((column, i) => [column, row[i]])));
}

test('a ticket of unknown age does not count as old', async () => {
  expect(await answer('age-of-open-tickets', 'acme')).toEqual([
    { age: '0: unknown', tickets: 1, customers_wait: 0 },
    { age: '3: less than four weeks', tickets: 1, customers_wait: 0 },
  ]);
});

test('the backlog of a time before a ticket was seen is unknown: neither unassigned, nor without an inbox', async () => {
  const weeks = await answer('backlog-by-week', 'acme');
  expect(weeks.slice(-2)).toEqual([
    expect.objectContaining({ day: '2026-03-22', tickets: 1, unassigned: 0, unknown: 1 }),
    expect.objectContaining({ day: '2026-03-29', tickets: 4, unassigned: 1, unknown: 1 }),
  ]);
  expect(await answer('backlog-by-inbox', 'acme')).toEqual([
    { inbox: 'no inbox', four_weeks_ago: 1, now: 3 },
    { inbox: 'unknown', four_weeks_ago: 0, now: 1 },
  ]);
});

test('the backlog of a month that is over keeps what was open then, and says what it cannot know', async () => {
  expect(await answer('backlog-by-channel', 'acme')).toEqual([
    { day: '2026-03-29', channel: 'email', tickets: 4, unknown: 1, uncertain: 1 },
    // One was created at that midnight, and seen later. When another was closed is known to two months.
    { day: '2026-02-28', channel: 'email', tickets: 2, unknown: 1, uncertain: 2 },
    { day: '2026-01-31', channel: 'email', tickets: 1, unknown: 0, uncertain: 1 },
  ]);
});

test('where nothing is left to do, now is now', async () => {
  expect(await answer('backlog-by-inbox', 'done')).toEqual([{ inbox: 'no inbox', four_weeks_ago: 1, now: 0 }]);
});

test('a slow resolution counts, however roughly it is known, and one that was over before does not', async () => {
  expect(await answer('resolution-time', 'acme')).toEqual([
    { created_in: '2026-01-01', closed_tickets: 1, median_days: 74, p90_days: 74, median_error_hours: 1752 },
  ]);
});

test('a closing that the mirror never saw is on no side of a share, and in no mean', async () => {
  await db.pool.query(`
    insert into sync.accounts (account_id, mirrored_since) values ('reopened', '2026-03-10');
    insert into sync.coverage (account_id, source, stream, list, covered)
      values ('reopened', 'helpdesk', 'tickets', 'default', tstzmultirange(tstzrange('1970-01-01', '2026-03-30')));
    insert into internal.stored_service_targets (account_id, metric, target_seconds) values ('reopened', 'resolution', 7 * 86400);
    create temp table step (id text, state text, at timestamptz);
    insert into step values
      ('came back', 'open', '2026-03-10'), ('came back', 'closed', '2026-03-12'), ('came back', 'open', '2026-03-14'), ('came back', 'closed', '2026-03-18'),
      ('stayed', 'open', '2026-03-10'), ('stayed', 'closed', '2026-03-12');
    insert into step select 'before' || n, 'closed', '2026-03-05' from generate_series(1, 17) n;
    insert into step values ('closed before, came back', 'closed', '2026-03-05'), ('closed before, came back', 'open', '2026-03-15')`);
  const { rows: steps } = await db.pool.query('select id, state, at::text from step order by at, id');
  for (const { id, state, at } of steps)
    await db.pool.query(
      `insert into helpdesk.tickets as t (account_id, id, state, type, created_at, updated_at, _messages_as_of, _true_by, ${own})
       values ('reopened', $1, $2, 'email', '2026-03-01', $3::timestamptz, '2027-01-01', $3, $3, $3, $3, '{}')
       on conflict (account_id, id) do update set state = excluded.state, updated_at = excluded.updated_at, _observed_at = excluded._observed_at, _true_by = excluded._true_by`,
      [id, state, at],
    );
  try {
    expect(await answer('reopened', 'reopened')).toEqual([
      { inbox: 'no inbox', closed_once: 2, reopened: 1, times: 1, percent: 50 },
    ]);
    // Seen closed three times, each at a midnight; one of them held for two days.
    expect(await answer('solved-by-agent', 'reopened')).toEqual([
      { user_id: 'unassigned', closed: 3, back_within_a_week: 1, percent: 33.3, uncertain_day: 3 },
    ]);
    // Open for 2 + 4 and 2 days. The first version of those that came before begins with its update.
    expect(await answer('time-in-states', 'reopened')).toMatchObject([{ tickets: 2, days_open: 4, days_closed: 1 }]);
    expect(await answer('targets-kept', 'reopened')).toMatchObject([
      { metric: 'resolution', tickets: 3, met: 0, missed: 3, percent_met: 0 },
    ]);
    expect(
      (await answer('targets-by-week', 'reopened')).map(({ percent_resolved_in_time }) => percent_resolved_in_time),
    ).toEqual([0]);
  } finally {
    await db.pool.query(`delete from internal.stored_service_targets`);
  }
});

test('whatever is not resolved is on the desk', async () => {
  expect(await answer('load-by-agent', 'acme')).toMatchObject([
    { user_id: 'u1', open_tickets: 3 },
    { user_id: 'unassigned', open_tickets: 1 },
  ]);
});

test('a ticket without an inbox is answered, too', async () => {
  expect(await answer('first-response-by-inbox-and-week', 'acme')).toEqual([
    { week: '2026-01-05', inbox: 'no inbox', tickets: 1, median_hours: 1, p90_hours: 1 },
  ]);
});

test('a reply that is not here yet makes no ticket look unanswered', async () => {
  expect(await answer('waits-by-channel', 'acme')).toMatchObject([{ waits: 1, not_ended: 0 }]);
  expect(await answer('first-response-in-time', 'acme')).toMatchObject([{ tickets: 1 }]);
});

test('an account that is behind gets 13 weeks up to its own completeness', async () => {
  // `slow`, `one`, `two` and `was`.
  expect(await answer('first-response-in-time')).toMatchObject([{ inbox: 'no inbox', tickets: 4 }]);
});

test('a mean week is one of those since the first message that the mirror covers', async () => {
  const none = { wednesday: 0, thursday: 0, friday: 0, saturday: 0, sunday: 0 };
  expect(await answer('arrivals-by-hour-and-weekday', 'done')).toEqual([
    { hour: 12, monday: 1, tuesday: 0.5, ...none },
  ]);
});
