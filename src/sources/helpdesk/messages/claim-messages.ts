/**
 * Claims of the messages of a ticket: which reply may replace them, by the version of the ticket and the time of the reply.
 * A claim locks the ticket's row until the transaction ends.
 */

import { noteAges } from '../../../engine/commit/change-latency.ts';
import { keepChanges, without } from '../../../engine/commit/merge.ts';
import type { Moment, Writer } from '../../../engine/commit/page.ts';
import type { Client } from '../../../engine/database/pool.ts';
import type { Ms } from '../../../engine/reading/reading.ts';
import { tickets } from '../tickets.ts';

/** What a claim of messages asks of the stored ticket. */
export interface Claimed {
  readonly id: string;
  readonly updatedMs: Ms;
  readonly asOfMs: Ms;
  readonly isAhead?: boolean;
}

/**
 * Marks the messages of a ticket as read as of this reply, before the reply's messages are stored. Returns undefined if
 * the reply must not replace anything: an older ticket version, an older as_of, or a time before the tombstone.
 *
 * If the reply brings a pending change and `sourceMs` is known, the change latency is recorded.
 */
export async function claimMessages(
  client: Client,
  { account, run }: Pick<Writer, 'account' | 'run'>,
  ticket: Claimed,
  sourceMs?: Ms,
): Promise<ClaimedMessages | undefined> {
  const claim = () =>
    client.query<ClaimedMessages & { arrived: boolean }>({
      name: 'claim messages',
      // The row is found by its key under any plan (see sameKey), and then updated by its ctid. The lock prevents an
      // update from a stale row while another reply is being stored.
      text: `with before as (
          select t.ctid as place, t._messages_as_of, t._messages_by from helpdesk.tickets t
          where t.account_id = $1 and t.id >= $2 and t.id <= $2
          order by t.id limit 1 for no key update)
        update helpdesk.tickets t set _messages_as_of = $4, _messages_by = $5::bigint
        from before
        where t.ctid = before.place and ${mayClaim('$3', '$4', '$6::boolean')}
        returning ${claimedOf('$2', '$4')}`,
      values: [
        ...[account, ticket.id, new Date(ticket.updatedMs), new Date(ticket.asOfMs), run, ticket.isAhead ?? false],
      ],
    });
  let { rows } = await claim();
  // After a wait for the lock, only a second statement sees the other transaction's changes.
  if (rows.length === 0) ({ rows } = await claim());
  const [claimed] = rows;
  if (claimed?.arrived && sourceMs !== undefined)
    await noteAges(client, { account, stream: 'helpdesk.messages' }, [ticket.updatedMs], sourceMs);
  return claimed && { first: claimed.first, asOf: claimed.asOf, by: claimed.by };
}

/** A ticket that usually equals its stored row. `text`: JSON text of the ticket. */
export interface Same extends Claimed {
  readonly text: string;
}

/**
 * As `claimMessages`, for several tickets that equal their stored rows. The others are not claimed, and none is if people were
 * erased, or a ticket whose row another transaction was writing. `onlyFirst`: tickets whose messages were stored before are not
 * claimed either.
 */
export async function claimSame<T extends Same>(
  client: Client,
  { account, run }: Pick<Writer, 'account' | 'run'>,
  shown: readonly T[],
  { nowMs, sourceMs }: Moment,
  { onlyFirst }: { onlyFirst: boolean },
): Promise<Map<T, ClaimedMessages>> {
  // Sorted, so that two such statements cannot deadlock.
  const asked = shown.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const { rows } = await client.query<ClaimedMessages & { id: string; arrived: boolean }>({
    name: 'claim same messages',
    // Whether people were erased is asked first: an erasure takes its lock before those of rows, too.
    text: `with free as materialized (select not sync.any_erased($1) as so),
      asked as (
        select a.id, a.updated_at, a.as_of, a.is_ahead, a.text::jsonb as record, a.n
        from unnest($2::text[], $3::timestamptz[], $4::timestamptz[], $6::boolean[], $7::text[]) with ordinality as a (id, updated_at, as_of, is_ahead, text, n)
        where (select f.so from free f)),
      before as materialized (
        select t.*, a.* from (select * from asked order by n) a
        cross join lateral (
          select t.ctid as place, t._messages_as_of, t._messages_by from helpdesk.tickets t
          where t.account_id = $1 and t.id >= a.id and t.id <= a.id
          order by t.id limit 1 for no key update) t)
      update helpdesk.tickets t set _messages_as_of = before.as_of, _messages_by = $5::bigint
      from before
      where t.ctid = before.place and ${mayClaim('before.updated_at', 'before.as_of', 'before.is_ahead')}
        and t._payload = (select ${without(tickets.merge.declared.root.leftOut ?? [])} from (select before.record) s)
        and (not $9 or before._messages_as_of is null and ${noMessages('before.id')})
      returning t.id, ${claimedOf('before.id', 'before.as_of')}, ${keepChanges('$8', 'before.as_of', '$5')}`,
    values: [
      account,
      asked.map(({ id }) => id),
      asked.map(({ updatedMs }) => new Date(updatedMs)),
      asked.map(({ asOfMs }) => new Date(asOfMs)),
      run,
      asked.map(({ isAhead = false }) => isAhead),
      asked.map(({ text }) => text),
      new Date(nowMs),
      onlyFirst,
    ],
  });
  const claims = new Map(rows.map(({ id, ...claim }) => [id, claim]));
  const claimed = shown.filter(({ id }) => claims.has(id));
  const changedMs = claimed.filter(({ id }) => claims.get(id)!.arrived).map(({ updatedMs }) => updatedMs);
  if (changedMs.length > 0 && sourceMs !== undefined)
    await noteAges(client, { account, stream: 'helpdesk.messages' }, changedMs, sourceMs);
  return new Map(claimed.map(one => [one, claims.get(one.id)!]));
}

/** SQL over `t`: whether a reply may replace the messages of the ticket. */
const mayClaim = (
  updatedAt: string,
  asOf: string,
  isAhead: string,
) => `date_trunc('milliseconds', t.updated_at) <= ${updatedAt}
          -- The date of a ticket dated ahead of its reply proves nothing. The stored row must be the same version.
          and (not ${isAhead} or date_trunc('milliseconds', t.updated_at) = ${updatedAt})
          and (t._messages_as_of is null or t._messages_as_of <= ${asOf}) and t._deleted_at is null`;

/** SQL. A ticket that returned may still have messages from before its tombstone. */
const noMessages = (id: string) => `(
            select true from internal.messages m where m.account_id = $1 and m.ticket_id >= ${id} and m.ticket_id <= ${id}
            order by m.ticket_id, m.position limit 1) is null`;

/** SQL: ClaimedMessages, and whether the reply brings a pending change. */
const claimedOf = (id: string, asOf: string) => `before._messages_as_of as "asOf", before._messages_by as by,
          before._messages_as_of is null and ${noMessages(id)} as first,
          t.updated_at > (select mirrored_since from sync.accounts where account_id = $1)
            and t.updated_at <= ${asOf} and (before._messages_as_of is null or before._messages_as_of < t.updated_at) as arrived`;

/** The reading before the one that is claimed. */
export interface ClaimedMessages {
  /** No messages were stored before, so none can have vanished. */
  readonly first: boolean;
  readonly asOf: Date | null;
  readonly by: number | null;
}

/** Keeps the reading before this one in sync.changes. A reading that found nothing new is not kept. */
export async function keepReading(
  client: Client,
  { account, run }: Pick<Writer, 'account' | 'run'>,
  id: string,
  { asOf, by }: ClaimedMessages,
  { nowMs, asOfMs }: { nowMs: Ms; asOfMs: Ms },
): Promise<void> {
  if (asOf === null) return;
  await client.query({
    name: 'keep reading',
    text: `insert into sync.changes (account_id, source, table_name, record_id, seen_at, as_of, run_id, changes)
      values ($1, 'helpdesk', 'tickets', $2, $3, $4, $5, jsonb_build_object('_messages_as_of', jsonb_build_array($6::timestamptz, $4::timestamptz))
        || case when $7::bigint is distinct from $5::bigint then jsonb_build_object('_messages_by', jsonb_build_array($7::bigint, $5::bigint)) else '{}' end)`,
    values: [account, id, new Date(nowMs), new Date(asOfMs), run, asOf, by],
  });
}

/**
 * The as_of of a ticket's messages. Locks the ticket row: no other reply replaces the messages before the transaction
 * ends.
 */
export async function lockMessages(client: Client, account: string, id: string): Promise<Date | undefined> {
  const { rows } = await client.query<{ _messages_as_of: Date | null }>(
    'select _messages_as_of from helpdesk.tickets where account_id = $1 and id = $2 for no key update',
    [account, id],
  );
  return rows[0]?._messages_as_of ?? undefined;
}
