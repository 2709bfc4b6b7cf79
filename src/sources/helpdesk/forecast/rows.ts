/** Queries for a forecast: numbers of tickets, customers and names that the warehouse knows without a request. */

import type pg from 'pg';
import { shownIn } from '../../../engine/deletions/row-facts.ts';
import type { Key } from '../../../engine/forecast/forecast-rows.ts';
import type { Ms } from '../../../engine/reading/reading.ts';
import type { Range } from '../../../engine/runs/runs.ts';
import { tickets } from '../tickets.ts';

/** Times of the stored tickets that a list would show, in the order of the list. */
export async function timesOfOurs(
  db: Pick<pg.Pool, 'query'>,
  account: string,
  list: string,
  sinceMs: Ms,
): Promise<Float64Array> {
  const { rows } = await db.query<{ times: number[] | null }>(
    `select array_agg(extract(epoch from t.updated_at)::float8 * 1000 order by t.updated_at) as times from helpdesk.tickets t
     where t.account_id = $1 and t._deleted_at is null and t.updated_at >= $3 and ${shownIn(tickets, '$2::text')}`,
    [account, list, new Date(sinceMs)],
  );
  return Float64Array.from(rows[0]!.times ?? []);
}

/**
 * Counts tickets that need no further read: those whose messages are complete in this version (`read`), and those
 * already pending (`known`).
 */
export async function countRead(
  db: pg.Pool,
  account: string,
  tickets: readonly { id: string; updatedMs: Ms }[],
): Promise<{ read: number; known: number }> {
  const { rows } = await db.query<{ read: number; known: number }>(
    `select count(*) filter (where date_trunc('second', t.updated_at) >= date_trunc('second', w.at) and t._messages_as_of >= t.updated_at) as read,
       count(*) filter (where t._messages_as_of is null or t._messages_as_of < t.updated_at) as known
     from unnest($2::text[], $3::timestamptz[]) w (id, at) join helpdesk.tickets t on t.account_id = $1 and t.id = w.id`,
    [account, tickets.map(({ id }) => id), tickets.map(({ updatedMs }) => new Date(updatedMs))],
  );
  return rows[0]!;
}

/** Labels and inboxes whose names are known and not due again. */
export async function namesKnown(
  db: pg.Pool,
  account: string,
  sinceMs: Ms,
): Promise<{ labels: Set<string>; inbox: Set<string> }> {
  const { rows } = await db.query<{ labels: string[]; inbox: string[] }>(
    `select array(select id from helpdesk.labels where account_id = $1 and _observed_at >= $2) as labels,
       array(select id from helpdesk.inboxes where account_id = $1 and _observed_at >= $2) as inbox`,
    [account, new Date(sinceMs)],
  );
  return { labels: new Set(rows[0]!.labels), inbox: new Set(rows[0]!.inbox) };
}

/** Number of tickets with complete messages that a re-reading backfill reads again. */
export async function countAgain(
  db: pg.Pool,
  account: string,
  { since, until }: Pick<Range, 'since' | 'until'>,
): Promise<number> {
  const { rows } = await db.query<{ n: number }>(
    `select count(*) as n from helpdesk.tickets t
     where t.account_id = $1 and t._deleted_at is null and t._messages_as_of >= t.updated_at
       and t.updated_at >= coalesce($2::timestamptz, '-infinity') and t.updated_at < coalesce($3::timestamptz, 'infinity')`,
    [account, since, until],
  );
  return rows[0]!.n;
}

/**
 * The numbers of `countRead` for all stored tickets that changed since this time. Used if one page does not show all of
 * them.
 */
export async function countReadSince(
  db: pg.Pool,
  account: string,
  sinceMs: Ms,
): Promise<{ read: number; known: number }> {
  const { rows } = await db.query<{ read: number; known: number }>(
    `select count(*) filter (where t._messages_as_of >= t.updated_at) as read,
       count(*) filter (where t._messages_as_of is null or t._messages_as_of < t.updated_at) as known
     from helpdesk.tickets t where t.account_id = $1 and t._deleted_at is null and t.updated_at >= $2`,
    [account, new Date(sinceMs)],
  );
  return rows[0]!;
}

/**
 * Creation times are known only within bounds for customers. Customers of a first load have wide bounds and are
 * excluded.
 */
const cameAt: Record<string, { table: string; at: string; known: string }> = {
  'helpdesk.customers': {
    table: 'customers',
    at: '_created_before',
    known: `_created_before - _created_after < interval '2 days'`,
  },
  'helpdesk.tickets': { table: 'tickets', at: 'updated_at', known: 'true' },
};

/** Arrivals per ms in the week before this time. Used to estimate later arrivals if counting costs more than reading. */
export async function cameBefore(db: pg.Pool, { account, stream }: Key, ms: Ms): Promise<{ perMs: number }> {
  const { table, at, known } = cameAt[stream]!;
  const { rows } = await db.query<{ n: number; ms: number }>(
    `select count(*) as n,
       extract(epoch from greatest($2::timestamptz - coalesce(min(${at}), $2), interval '1 day'))::float8 * 1000 as ms
     from helpdesk.${table} t
     where account_id = $1 and ${at} >= $2::timestamptz - interval '7 days' and ${at} < $2 and ${known}`,
    [account, new Date(ms)],
  );
  const { n, ms: span } = rows[0]!;
  return { perMs: n / span };
}
