/** The events of one ticket, from versions that the mirror saw: whom each concerns, and between which times it happened. */
import { readFileSync } from 'node:fs';
import type pg from 'pg';
import { expect, test } from 'vitest';
import { readQueries } from '../../../src/analytics/questions.ts';
import { freshDatabase } from '../../support/postgres.ts';

const own = '_first_seen_at, _synced_at, _observed_at, _payload';

/** The ticket as it was seen at a time. */
const see = (pool: pg.Pool, state: string, user: string | null, at: string, id = 't1') =>
  pool.query(
    `insert into helpdesk.tickets as t (account_id, id, state, user_id, created_at, updated_at, _true_by, ${own})
     values ('acme', $4, $1, $2, '2026-03-02T08:00Z', $3::timestamptz, $3, $3, $3, $3, '{}')
     on conflict (account_id, id) do update set state = excluded.state, user_id = excluded.user_id, updated_at = excluded.updated_at,
       _observed_at = excluded._observed_at, _true_by = excluded._true_by, _deleted_at = null, _deleted_after = null`,
    [state, user, at, id],
  );

test('a ticket that goes from hand to hand, is closed and comes back', async () => {
  await using db = await freshDatabase();
  await db.pool.query(`insert into sync.accounts (account_id, mirrored_since) values ('acme', '2026-01-01')`);
  const versions = [
    ['open', null, '2026-03-02T08:00Z'],
    ['open', 'u1', '2026-03-02T09:00Z'],
    ['open', 'u2', '2026-03-02T10:00Z'],
    ['closed', 'u2', '2026-03-04T10:00Z'],
    ['archived', 'u2', '2026-03-05T10:00Z'],
    ['open', 'u2', '2026-03-06T10:00Z'],
    ['open', null, '2026-03-06T11:00Z'],
    ['closed', null, '2026-03-06T12:00Z'],
  ] as const;
  for (const [state, user, at] of versions) await see(db.pool, state, user, at);
  const { rows } = await db.pool.query(`
    select event, to_char(happened_at at time zone 'UTC', 'DD HH24') as at, user_key, from_user_key, done_by_key, was_seen, is_day_certain as certain,
      to_char(closed_at at time zone 'UTC', 'DD HH24') as closed, round(error_seconds / 3600) as error, seconds_since_creation / 3600 as hours
    from analytics.fact_ticket_events order by happened_at, event`);
  const names = ['event', 'at', 'user_key', 'from_user_key', 'was_seen', 'certain', 'closed', 'error', 'hours'];
  expect(rows.map(row => names.map(name => row[name]))).toEqual([
    ['created', '02 08', null, null, true, true, null, 0, 0],
    ['assigned', '02 09', 'acme/u1', null, true, true, null, 1, 1],
    ['handed_over', '02 10', 'acme/u2', 'acme/u1', true, true, null, 1, 2],
    // Two days passed between two looks.
    ['closed', '04 10', 'acme/u2', null, true, false, null, 48, 50],
    ['reopened', '06 10', 'acme/u2', null, true, false, '04 10', 24, 98],
    ['unassigned', '06 11', null, 'acme/u2', true, true, null, 1, 99],
    ['closed', '06 12', null, null, true, true, null, 1, 100],
  ]);
  expect(rows.filter(({ done_by_key }) => done_by_key !== null)).toEqual([]);
});

test('a ticket that was deleted and came back continues from what it was before', async () => {
  await using db = await freshDatabase();
  await db.pool.query(`insert into sync.accounts (account_id, mirrored_since) values ('acme', '2026-01-01')`);
  const gone = (day: string) =>
    db.pool.query(
      `update helpdesk.tickets set _deleted_at = $1, _deleted_after = $1::timestamptz - interval '1 hour'`,
      [`2026-03-${day}`],
    );
  await see(db.pool, 'open', 'u1', '2026-03-02T09:00Z');
  await see(db.pool, 'closed', 'u1', '2026-03-03T09:00Z');
  await gone('04');
  await see(db.pool, 'closed', 'u1', '2026-03-05T09:00Z');
  await gone('06');
  await see(db.pool, 'open', 'u2', '2026-03-07T09:00Z');
  const { rows } = await db.pool.query(`
    select string_agg(concat_ws(' ', event, to_char(happened_at at time zone 'UTC', 'DD')), ', ' order by happened_at, event) as events
    from analytics.fact_ticket_events`);
  expect(rows[0].events).toBe('created 02, assigned 02, closed 03, handed_over 07, reopened 07');
  const metrics = await db.pool.query(
    'select last_closed_at, reopen_count, assignment_count from analytics.ticket_metrics',
  );
  expect(metrics.rows).toEqual([
    { last_closed_at: new Date('2026-03-03T09:00Z'), reopen_count: 1, assignment_count: 2 },
  ]);
});

test('without all messages nobody knows whether the first response that is here was the first', async () => {
  await using db = await freshDatabase();
  await db.pool.query(`insert into sync.accounts (account_id, mirrored_since) values ('acme', '2026-01-01')`);
  await see(db.pool, 'open', null, '2026-03-02T09:00Z');
  await db.pool.query(`
    insert into internal.messages (account_id, id, ticket_id, position, type, direction, user_id, created_at, ${own})
    select 'acme', d, 't1', row_number() over (), 'reply', d, case d when 'out' then 'u1' end, at, at, at, at, '{}'
    from (values ('in', timestamptz '2026-03-02T08:00Z'), ('out', '2026-03-02T08:30Z')) m (d, at)`);
  const doubt = async () =>
    (
      await db.pool.query(
        `select change_after, error_seconds, is_day_certain from analytics.fact_ticket_events where event = 'first_response'`,
      )
    ).rows;
  expect(await doubt()).toEqual([{ change_after: null, error_seconds: null, is_day_certain: false }]);
  await db.pool.query('update helpdesk.tickets set _messages_as_of = updated_at');
  expect(await doubt()).toEqual([
    { change_after: new Date('2026-03-02T08:30Z'), error_seconds: 0, is_day_certain: true },
  ]);
});

test('a ticket that was closed when it was first seen counts as solved where its day is known', async () => {
  await using db = await freshDatabase();
  await db.pool.query(`
    insert into sync.accounts (account_id, mirrored_since) values ('acme', '2026-01-01');
    insert into sync.coverage (account_id, source, stream, list, covered)
    values ('acme', 'helpdesk', 'tickets', 'default', tstzmultirange(tstzrange('1970-01-01', '2026-03-30')))`);
  await see(db.pool, 'closed', 'u1', '2026-03-02T09:00Z', 'same-day');
  await see(db.pool, 'closed', 'u1', '2026-03-04T09:00Z', 'some-day');
  await see(db.pool, 'open', 'u1', '2026-03-02T09:00Z', 'seen');
  await see(db.pool, 'closed', 'u1', '2026-03-04T09:00Z', 'seen');
  const { sql } = (await readQueries()).find(({ name }) => name === 'solved-by-agent')!;
  const { rows } = await db.pool.query(sql);
  expect(rows.map(({ user_id: who, closed, uncertain_day: unsure }) => [who, Number(closed), Number(unsure)])).toEqual([
    ['u1', 2, 1],
  ]);
});

test('the time to first assignment is that of the earliest one, of tickets where it is known to an hour', async () => {
  await using db = await freshDatabase();
  await db.pool.query(`insert into sync.accounts (account_id, mirrored_since) values ('acme', '2026-01-01')`);
  await see(db.pool, 'open', 'u1', '2026-03-02T08:30Z', 'at-once');
  await see(db.pool, 'open', null, '2026-03-02T09:00Z', 'soon');
  await see(db.pool, 'open', 'u1', '2026-03-02T09:30Z', 'soon');
  // Had it been unassigned and assigned again, the second time would not be the first.
  await see(db.pool, 'open', 'u1', '2026-03-03T09:00Z', 'some-time');
  await see(db.pool, 'open', null, '2026-03-03T09:30Z', 'some-time');
  await see(db.pool, 'open', 'u1', '2026-03-03T10:00Z', 'some-time');
  const recipes = readFileSync(new URL('../../../docs/how-to/ask-in-sql.md', import.meta.url), 'utf8');
  const [sql] = /(?<=```sql\n)-- How many tickets came back[\s\S]*?(?=```)/.exec(recipes)!;
  expect((await db.pool.query(sql)).rows[0].hours_to_assignment).toBe(1);
});
