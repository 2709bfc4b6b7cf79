/** Queries for a forecast: numbers of tickets, customers and names that the warehouse knows without a request. */

import type pg from 'pg';
import { numbered, query } from '../../../engine/database/sql.ts';
import { createdAt, factsOf, shownIn } from '../../../engine/deletions/row-facts.ts';
import type { Ms } from '../../../engine/reading/reading.ts';
import type { Range } from '../../../engine/runs/runs.ts';
import type { ListStream, Row } from '../../source.ts';
import { tickets } from '../tickets.ts';

/** Times of the stored tickets that a list would show, in the order of the list. */
export async function timesOfOurs(
  db: Pick<pg.Pool, 'query'>,
  account: string,
  list: string,
  sinceMs: Ms,
): Promise<Float64Array> {
  const times = await query(db).value<number[] | null>`
    select array_agg(extract(epoch from t.updated_at)::float8 * 1000 order by t.updated_at) as times from helpdesk.tickets t
    where t.account_id = ${account} and t._deleted_at is null and t.updated_at >= ${new Date(sinceMs)}
      and ${numbered(shownIn(tickets, '$1::text'), list)}`;
  return Float64Array.from(times ?? []);
}

/**
 * Counts tickets that need no further read: those whose messages are complete in this version (`read`), and those
 * already pending (`known`).
 */
export const countRead = (
  db: pg.Pool,
  account: string,
  tickets: readonly { id: string; updatedMs: Ms }[],
): Promise<{ read: number; known: number }> =>
  query(db).row`
    select count(*) filter (where date_trunc('second', t.updated_at) >= date_trunc('second', w.at) and t._messages_as_of >= t.updated_at) as read,
      count(*) filter (where t._messages_as_of is null or t._messages_as_of < t.updated_at) as known
    from unnest(${tickets.map(({ id }) => id)}::text[], ${tickets.map(({ updatedMs }) => new Date(updatedMs))}::timestamptz[]) w (id,
      at) join helpdesk.tickets t on t.account_id = ${account} and t.id = w.id`;

/** Number of tickets with complete messages that a re-reading backfill reads again. */
export const countAgain = (
  db: pg.Pool,
  account: string,
  { since, until }: Pick<Range, 'since' | 'until'>,
): Promise<number> =>
  query(db).value`
    select count(*) as n from helpdesk.tickets t
    where t.account_id = ${account} and t._deleted_at is null and t._messages_as_of >= t.updated_at
      and t.updated_at >= coalesce(${since}::timestamptz, '-infinity') and t.updated_at < coalesce(${until}::timestamptz, 'infinity')`;

/**
 * The numbers of `countRead` for all stored tickets that changed since this time. Used if one page does not show all of
 * them.
 */
export const countReadSince = (db: pg.Pool, account: string, sinceMs: Ms): Promise<{ read: number; known: number }> =>
  query(db).row`
    select count(*) filter (where t._messages_as_of >= t.updated_at) as read,
      count(*) filter (where t._messages_as_of is null or t._messages_as_of < t.updated_at) as known
    from helpdesk.tickets t where t.account_id = ${account} and t._deleted_at is null and t.updated_at >= ${new Date(sinceMs)}`;

/**
 * Arrivals per ms in the week before this time. Used to estimate later arrivals if counting costs more than reading. Records of a first
 * load whose creation time is known only within wide bounds are excluded.
 */
export async function cameBefore(
  db: pg.Pool,
  account: string,
  stream: Pick<ListStream<Row>, 'key' | 'merge' | 'rowFacts'>,
  ms: Ms,
): Promise<{ perMs: number }> {
  const { version } = stream.merge.declared.root;
  const at = version === undefined ? createdAt(factsOf(stream)) : `t.${version}`;
  const known = version === undefined ? `${at} - t._created_after < interval '2 days'` : 'true';
  const { rows } = await db.query<{ n: number; ms: number }>(
    `select count(*) as n,
       extract(epoch from greatest($2::timestamptz - coalesce(min(${at}), $2), interval '1 day'))::float8 * 1000 as ms
     from ${stream.key} t
     where account_id = $1 and ${at} >= $2::timestamptz - interval '7 days' and ${at} < $2 and ${known}`,
    [account, new Date(ms)],
  );
  const { n, ms: span } = rows[0]!;
  return { perMs: n / span };
}
