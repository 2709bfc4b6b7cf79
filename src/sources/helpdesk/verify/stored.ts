/** Selects the stored tickets that a verification reads with their messages. */

import type { Queryable } from '../../../engine/database/pool.ts';
import type { Ms } from '../../../engine/reading/reading.ts';
import type { Claim } from '../../../engine/runs/claims.ts';

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

/** Tickets whose messages are complete and were last read before this time, oldest first. */
export async function oldestMessages(db: Queryable, account: string, beforeMs: Ms, limit: number): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select id from helpdesk.tickets
     where account_id = $1 and _deleted_at is null and _messages_as_of >= updated_at and _messages_as_of < $2
     order by _messages_as_of, id limit $3`,
    [account, new Date(beforeMs), limit],
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
