/** Selects the stored rows that a verification reads. */

import type { Queryable } from '../../../engine/database/pool.ts';
import { storableIds } from '../../../engine/json-text.ts';
import type { Ms, Range } from '../../../engine/reading/reading.ts';
import type { Claim } from '../../../engine/runs/claims.ts';

/** SQL over `t`: whether this list shows the ticket. Depends on whether spam and trash have lists of their own. */
export const shownIn = (list: string) => `case ${list}
    when 'spam' then coalesce(t.spam, false)
    when 'trash' then coalesce(t.trash, false)
    else not exists (
      select from sync.coverage c
      where c.account_id = t.account_id and c.stream_key = 'helpdesk.tickets' and not c.redundant
        and (c.list = 'spam' and t.spam or c.list = 'trash' and t.trash)) end`;

/** Tickets that every reading of the specification shows in the default list. Counted up to `most`. */
export async function countListed(db: Queryable, account: string, most?: number): Promise<number> {
  const { rows } = await db.query<{ n: number }>(
    `select count(*)::int as n from (
       select from helpdesk.tickets
       where account_id = $1 and _deleted_at is null and state in ('open', 'hold', 'closed')
         and spam is not true and trash is not true
       limit $2) t`,
    [account, most ?? null],
  );
  return rows[0]!.n;
}

/**
 * Ids of tickets that the mirror claims to have in these versions. Their changes lie in the synced range of the list
 * that shows them, or before the account's start.
 */
export async function knownOf<T extends { id: string }>(
  db: Queryable,
  account: string,
  records: readonly T[],
  updated: (record: T) => Ms,
): Promise<Set<string>> {
  const is = (field: 'spam' | 'trash') => records.map(record => (record as { [field]?: unknown })[field] === true);
  const { rows } = await db.query<{ id: string }>(
    `select t.id
     from (
       select w.*, a.account_id, a.since from sync.accounts a,
         unnest($2::text[], $3::timestamptz[], $4::boolean[], $5::boolean[]) w (id, at, spam, trash)
       where a.account_id = $1) t
     where t.at < t.since or exists (
       select from sync.coverage k
       where k.account_id = $1 and k.stream_key = 'helpdesk.tickets' and not k.redundant and k.covered @> t.at and ${shownIn('k.list')})`,
    [account, records.map(({ id }) => id), records.map(one => new Date(updated(one))), is('spam'), is('trash')],
  );
  return new Set(rows.map(({ id }) => id));
}

/** Numbers of live tickets of a list that were created before this second, and within it. */
export async function countTickets(
  db: Queryable,
  account: string,
  list: string,
  beforeMs: Ms,
): Promise<{ before: number; within: number }> {
  const { rows } = await db.query<{ before: number; within: number }>(
    `select count(*) filter (where t.created_at < $3) as before,
       count(*) filter (where t.created_at >= $3 and t.created_at < $3::timestamptz + interval '1 second') as within
     from helpdesk.tickets t where t.account_id = $1 and t._deleted_at is null and ${shownIn('$2::text')}`,
    [account, list, new Date(beforeMs)],
  );
  return rows[0]!;
}

export async function countLive(
  db: Queryable,
  account: string,
  table: 'tickets' | 'customers' | 'users',
): Promise<number> {
  const { rows } = await db.query<{ n: number }>(
    `select count(*) as n from helpdesk.${table} where account_id = $1 and _deleted_at is null`,
    [account],
  );
  return rows[0]!.n;
}

/**
 * Ids of stored tickets of a list that were created in this range and that the list did not show. `range` undefined:
 * tickets without a creation time.
 */
export async function unshownTickets(
  db: Queryable,
  account: string,
  list: string,
  { range, shown, sinceMs }: { range: Range | undefined; shown: readonly string[]; sinceMs: Ms },
): Promise<string[]> {
  const within = range ? 't.created_at >= $3 and t.created_at < $4' : 't.created_at is null and $3 < $4::timestamptz';
  const { rows } = await db.query<{ id: string }>(
    `select t.id from helpdesk.tickets t
     where t.account_id = $1 and t._deleted_at is null and ${within} and t.updated_at >= $5
       and ${shownIn('$2::text')} and t.id <> all($6)
     order by t.id`,
    [account, list, new Date(range?.from ?? 0), new Date(range?.to ?? 1), new Date(sinceMs), storableIds(shown)],
  );
  return rows.map(({ id }) => id);
}

/**
 * The next ticket ids after `after`. Excludes tickets first stored during the run, unless the run has reported a
 * difference.
 */
export async function ticketsAfter(
  db: Queryable,
  { account, run }: Pick<Claim, 'account' | 'run'>,
  after: string,
  limit: number,
): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select t.id from helpdesk.tickets t
     where t.account_id = $1 and t._deleted_at is null and t.id > $3
       and (t._first_seen_at < (select r.started_at from sync.stored_runs r where r.id = $2) or exists (
         select from sync.audit a where (a.account_id, a.run_id, a.stream_key, a.record_id) = ($1, $2, 'helpdesk.tickets', t.id)))
     order by t.id limit $4`,
    [account, run, after, limit],
  );
  return rows.map(({ id }) => id);
}

/** The next ids of live rows after `after`. */
export async function idsAfter(
  db: Queryable,
  account: string,
  table: 'customers' | 'users',
  after: string,
  limit: number,
): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select id from helpdesk.${table} where account_id = $1 and _deleted_at is null and id > $2 order by id limit $3`,
    [account, after, limit],
  );
  return rows.map(({ id }) => id);
}

/**
 * The next ids after `after` of rows whose tombstone is older than the run. Excludes rows that the run has already
 * reported as shown by a list.
 */
export async function deletedAfter(
  db: Queryable,
  { account, run, stream }: Pick<Claim, 'account' | 'run' | 'stream'>,
  after: string,
  limit: number,
): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select t.id from ${stream} t
     where t.account_id = $1 and t._deleted_at is not null and t.id > $4
       and t._synced_at < (select r.started_at from sync.stored_runs r where r.id = $2)
       and not exists (
         select from sync.audit a where (a.account_id, a.run_id, a.stream_key, a.record_id) = ($1, $2, $3, t.id))
     order by t.id limit $5`,
    [account, run, stream, after, limit],
  );
  return rows.map(({ id }) => id);
}

/** Chooses a ticket for each label and inbox in use. Returns the names to embed, by ticket id. */
export async function ticketsForAllNames(db: Queryable, account: string): Promise<Map<string, ('labels' | 'inbox')[]>> {
  const { rows } = await db.query<{ id: string; embeds: ('labels' | 'inbox')[] }>(
    `select id, array_agg(distinct embed) as embeds from (
       select min(t.id) as id, 'labels' as embed
       from helpdesk.tickets t, unnest(t.label_ids) l (id)
       where t.account_id = $1 and t._deleted_at is null group by l.id
       union all
       select min(t.id), 'inbox' from helpdesk.tickets t
       where t.account_id = $1 and t._deleted_at is null and t.inbox_id is not null group by t.inbox_id) named
     group by id`,
    [account],
  );
  return new Map(rows.map(({ id, embeds }) => [id, embeds]));
}
