/** Rows of tickets, customers, users, labels and inboxes that are compared with replies. */

import { isAhead, keepChanges } from '../../../engine/commit/merge.ts';
import type { Client } from '../../../engine/database/pool.ts';
import type { Ms } from '../../../engine/reading/reading.ts';
import {
  type Key,
  noteUnread as noteUnreadOf,
  type Queryable,
  type Rows,
  type Standing,
  standingIn,
} from '../../../engine/verify/findings.ts';
import { buryTicket } from '../messages/waiting.ts';

/** So many of what is here, each as likely as any other. `chance` makes it another choice each time. */
export async function chooseAtRandom(
  db: Queryable,
  { account, stream }: Pick<Key, 'account' | 'stream'>,
  { limit, chance }: { limit: number; chance: number },
): Promise<string[]> {
  if (limit <= 0) return [];
  const table = stream === 'helpdesk.customers' ? 'helpdesk.customers' : 'helpdesk.tickets';
  const { rows } = await db.query<{ id: string }>(
    `select id from ${table} where account_id = $1 and _deleted_at is null
     order by hashtextextended(id, $2), id limit $3`,
    [account, Math.floor(chance * 2 ** 52), limit],
  );
  return rows.map(({ id }) => id);
}

/** Tickets whose messages were last read before this, the oldest first. */
export async function oldestMessages(db: Queryable, account: string, beforeMs: Ms, limit: number): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select id from helpdesk.tickets
     where account_id = $1 and _deleted_at is null and _messages_as_of >= updated_at and _messages_as_of < $2
     order by _messages_as_of, id limit $3`,
    [account, new Date(beforeMs), limit],
  );
  return rows.map(({ id }) => id);
}

/** Tickets of these that are not here, though something that hung on them is. */
export async function leftBehind(client: Queryable, account: string, ids: readonly string[]): Promise<Set<string>> {
  const { rows } = await client.query<{ id: string }>(
    `select w.id from unnest($2::text[]) w (id)
     where exists (select from helpdesk.messages m where m.account_id = $1 and m.ticket_id = w.id)
       or exists (select from helpdesk.ticket_labels l where l.account_id = $1 and l.ticket_id = w.id)`,
    [account, ids],
  );
  return new Set(rows.map(({ id }) => id));
}

/** As of when the source did not have it, and by when it was gone, by its clock, which has a grain. */
interface GoneAt {
  readonly asOfMs: Ms;
  readonly byMs: Ms;
  /** What has become of it the source may show so late. */
  readonly lookbackMs: number;
}

/** The tombstone of what the source said twice that it has no more, and of what hangs on it. */
export async function buryRecord(
  client: Client,
  { account, run = null, stream }: Pick<Key, 'account' | 'stream'> & { readonly run?: number | null },
  id: string,
  { askedMs, nowMs, ...gone }: GoneAt & { askedMs: Ms; nowMs: Ms },
): Promise<number> {
  if (stream === 'helpdesk.tickets')
    return buryTicket(client, { account, run }, id, gone.asOfMs, new Date(nowMs), gone);
  const by = [account, id, new Date(gone.byMs), new Date(nowMs)];
  const after = `_deleted_after = least($3, greatest(_observed_at, _checked_at) - ${gone.lookbackMs} * interval '1 millisecond')`;
  const { rowCount } = await client.query(
    `update ${stream} set _deleted_at = $3, _synced_at = $4${stream === 'helpdesk.customers' ? `, ${after}` : ''}
     where account_id = $1 and id = $2 and _deleted_at is null and _observed_at <= $5 and _synced_at < $6
     returning ${keepChanges('$4', 'null', '$7')}`,
    [...by, new Date(gone.asOfMs), new Date(askedMs), run],
  );
  if (rowCount !== 0 && stream === 'helpdesk.customers')
    await client.query(
      `update helpdesk.contacts set _deleted_at = $3, _synced_at = $4
       where account_id = $1 and customer_id = $2 and _deleted_at is null`,
      by,
    );
  return rowCount ?? 0;
}

const usedBy = {
  labels: { row: 'helpdesk.ticket_labels u where u.label_id', ids: 'unnest(t.label_ids)' },
  inboxes: { row: 'helpdesk.tickets u where u.inbox_id', ids: 't.inbox_id' },
} as const;

/**
 * Labels and inboxes that a ticket showed, and that are otherwise here: not those that nobody has asked for yet. The source
 * deletes none of them before our eyes, so that a tombstone is a hand's.
 */
export async function differingNames(
  client: Queryable,
  account: string,
  table: 'labels' | 'inboxes',
  shown: readonly { id: string; name?: string | null | undefined; record: string }[],
  nowMs: Ms,
): Promise<{ id: string; differences: Record<string, [ours: unknown, theirs: unknown]> }[]> {
  const { rows } = await client.query<{ id: string; differences: Record<string, [ours: unknown, theirs: unknown]> }>(
    `select s.id, jsonb_object_agg(d.field, jsonb_build_array(d.ours, d.theirs)) as differences
     from unnest($2::text[], $3::text[], $4::text[]) s (id, name, record)
     left join helpdesk.${table} t on (t.account_id, t.id) = ($1, s.id)
     cross join lateral (values
       ('name', to_jsonb(t.name), to_jsonb(s.name), t.name is distinct from s.name or t.id is null),
       ('row', '"deleted"', '"there"', t._deleted_at is not null),
       ('_payload', t._payload, s.record::jsonb, t.id is not null and t._payload is distinct from s.record::jsonb),
       ('_synced_at', to_jsonb(t._synced_at), 'null', ${isAhead('t._synced_at', '$5')})) d (field, ours, theirs, differs)
     where d.differs and case when t.id is null then exists (select from ${usedBy[table].row} = s.id and u.account_id = $1)
       else t._observed_at is not null or t._deleted_at is not null end
     group by s.id order by s.id`,
    [
      account,
      shown.map(({ id }) => id),
      shown.map(({ name }) => name ?? null),
      shown.map(({ record }) => record),
      new Date(nowMs),
    ],
  );
  return rows;
}

/** Labels, or inboxes, that no ticket has now, nor ever had: nobody but a hand has written them. */
export async function namesOfNothing(
  db: Queryable,
  account: string,
  table: 'labels' | 'inboxes',
): Promise<{ id: string; observedAt: Date | null }[]> {
  const { ids } = usedBy[table];
  const { rows } = await db.query<{ id: string; observedAt: Date | null }>(
    `select n.id, n._observed_at as "observedAt" from helpdesk.${table} n where n.account_id = $1 and n.id not in (
       select id from (
         select ${ids} as id from helpdesk.tickets t where t.account_id = $1
         union select ${ids} from helpdesk.ticket_history t where t.account_id = $1
         ${table === 'labels' ? 'union select t.label_id from helpdesk.ticket_labels t where t.account_id = $1' : ''}) u
       where id is not null)
     order by 1`,
    [account],
  );
  return rows;
}

export async function takeNames(
  client: Queryable,
  account: string,
  table: 'labels' | 'inboxes',
  ids: readonly string[],
): Promise<number> {
  const { rowCount } = await client.query(`delete from helpdesk.${table} where account_id = $1 and id = any($2)`, [
    account,
    ids,
  ]);
  return rowCount ?? 0;
}

/** As if nobody had asked for these names yet. */
export async function forgetNames(
  client: Queryable,
  account: string,
  table: 'labels' | 'inboxes',
  ids: readonly string[],
): Promise<void> {
  await client.query(
    `update helpdesk.${table} set _observed_at = null, name = null, _payload = null, _deleted_at = null
     where account_id = $1 and id = any($2)`,
    [account, ids],
  );
}

const rowsOf: Readonly<Record<string, Rows>> = {
  'helpdesk.tickets': {
    table: 'helpdesk.tickets',
    updatedAt: 't.updated_at',
    hasMessages: 't._messages_as_of >= t.updated_at and t._messages_as_of <= $4',
    buriedSince: 't._deleted_after',
  },
  'helpdesk.customers': { table: 'helpdesk.customers', buriedSince: 't._deleted_after' },
  'helpdesk.users': { table: 'helpdesk.users' },
};

/** Our rows of these ids. `lock`: they stay as they are until the transaction ends. */
export const standingOf = (
  client: Queryable,
  { account, stream }: Pick<Key, 'account' | 'stream'>,
  ids: readonly string[],
  at: { askedMs: Ms; asOfMs: Ms; lock: boolean },
): Promise<Map<string, Standing>> => standingIn(client, account, rowsOf[stream]!, ids, at);

/** Notes a record of the random sample that could not be read: of a ticket, its messages were not compared either. */
export const noteUnread = (db: Queryable, claim: Key, id: string, checkedMs: Ms): Promise<void> =>
  noteUnreadOf(
    db,
    claim,
    claim.stream === 'helpdesk.tickets' ? ['helpdesk.tickets', 'helpdesk.messages'] : [claim.stream],
    id,
    checkedMs,
  );
