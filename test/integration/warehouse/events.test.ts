/** The events of one ticket, from versions that the mirror saw: whom each concerns, and between which times it happened. */
import { expect, test } from 'vitest';
import { freshDatabase } from '../../support/postgres.ts';

const own = '_first_seen_at, _synced_at, _observed_at, _payload';

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
  for (const [state, user, at] of versions)
    await db.pool.query(
      `insert into helpdesk.tickets as t (account_id, id, state, user_id, created_at, updated_at, _true_by, ${own})
       values ('acme', 't1', $1, $2, '2026-03-02T08:00Z', $3::timestamptz, $3, $3, $3, $3, '{}')
       on conflict (account_id, id) do update set state = excluded.state, user_id = excluded.user_id, updated_at = excluded.updated_at,
         _observed_at = excluded._observed_at, _true_by = excluded._true_by`,
      [state, user, at],
    );
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
