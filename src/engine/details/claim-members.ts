/**
 * Claims of the members of a record: which reply may replace them, by the version of the record and the time of the reply.
 * A claim locks the record's row until the transaction ends.
 */

import { noteAges } from '../commit/change-latency.ts';
import { keepChanges, without } from '../commit/merge.ts';
import type { Moment, Writer } from '../commit/page.ts';
import { isStored, versionsOf } from '../commit/stored-sets.ts';
import type { Client } from '../database/pool.ts';
import { query, raw } from '../database/sql.ts';
import { shortOfKey } from '../database/stream-key.ts';
import type { Ms } from '../reading/reading.ts';
import { type Detail, rowsOfParent } from './detail-rows.ts';

type By = Pick<Writer, 'account' | 'run'>;

/** What a claim of members asks of the stored record. */
export interface Claimed {
  readonly id: string;
  readonly updatedMs: Ms;
  readonly asOfMs: Ms;
  readonly isAhead?: boolean;
  /** Of the members as they came. Undefined: they are compared in any case. */
  readonly digest?: string | undefined;
}

/** The reading before the one that is claimed. */
export interface ClaimedMembers {
  readonly id: string;
  /** No members were stored before, so none can have vanished. */
  readonly first: boolean;
  readonly asOf: Date | null;
  readonly by: number | null;
  /** The time of the pending change that the reply brings, in ms. */
  readonly arrivedMs: Ms | null;
  /** The members are stored just as the reply shows them. */
  readonly same: boolean;
  /** The versions of the rows of the members. */
  readonly versions: readonly string[];
  /** The stream has open rejects. */
  readonly rejects: boolean;
}

/**
 * Marks the members of a record as read as of this reply, before the reply's members are stored. Returns undefined if
 * the reply must not replace anything: an older version of the record, an older as_of, or a time before the tombstone.
 *
 * If the reply brings a pending change and `sourceMs` is known, the change latency is recorded.
 */
export async function claimMembers(
  client: Client,
  by: By,
  stream: Detail,
  { id, updatedMs, asOfMs, isAhead = false, digest }: Claimed,
  sourceMs?: Ms,
): Promise<ClaimedMembers | undefined> {
  const { table, asOf, by: reader } = rowsOfParent(stream);
  const claim = () =>
    client.query<ClaimedMembers>({
      name: `claim of ${stream.key}`,
      // The row is found by its key under any plan (see sameKey), and then updated by its ctid. The lock prevents an
      // update from a stale row while another reply is being stored.
      text: `with locked as materialized (${lockOf(stream, '$2')}),
        before as materialized (select t.*, m.* from locked t cross join lateral (${membersOf(stream, '$2', '$7::text')}) m)
        update ${table} t set ${asOf} = $4, ${reader} = $5::bigint
        from before
        where t.ctid = before.place and ${mayClaim(stream, '$3', '$4', '$6::boolean')}
        returning ${claimedOf(stream, '$4')}`,
      values: [by.account, id, new Date(updatedMs), new Date(asOfMs), by.run, isAhead, digest ?? null],
    });
  let { rows } = await claim();
  // After a wait for the lock, only a second statement sees the other transaction's changes.
  if (rows.length === 0) ({ rows } = await claim());
  await noteArrivals(
    client,
    by,
    stream,
    rows.flatMap(({ arrivedMs }) => arrivedMs ?? []),
    sourceMs,
  );
  return rows[0];
}

/** A record that usually equals its stored row. `text`: JSON text of the record; undefined if the reply shows its members alone. */
export interface Same extends Claimed {
  readonly text: string | undefined;
}

/**
 * As `claimMembers`, for several records that equal their stored rows. The others are not claimed, and none is if people were
 * erased, or a record whose row another transaction was writing.
 */
export async function claimSame<T extends Same>(
  client: Client,
  by: By,
  stream: Detail,
  shown: readonly T[],
  { nowMs, sourceMs }: Moment,
): Promise<Map<T, ClaimedMembers>> {
  const { table, asOf, by: reader } = rowsOfParent(stream);
  // Sorted, so that two such statements cannot deadlock.
  const asked = shown.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const { rows } = await client.query<ClaimedMembers>({
    name: `claim same of ${stream.key}`,
    // Whether people were erased is asked first: an erasure takes its lock before those of rows, too.
    text: `with free as materialized (select not sync.any_erased($1) as so),
      asked as (
        select a.id, a.updated_at, a.as_of, a.is_ahead, a.text::jsonb as record, a.digest, a.n
        from unnest($2::text[], $3::timestamptz[], $4::timestamptz[], $6::boolean[], $7::text[], $9::text[]) with ordinality
          as a (id, updated_at, as_of, is_ahead, text, digest, n)
        where (select f.so from free f)),
      before as materialized (
        select t.*, a.*, m.* from (select * from asked order by n) a
        cross join lateral (${lockOf(stream, 'a.id')}) t
        cross join lateral (${membersOf(stream, 'a.id', 'a.digest')}) m)
      update ${table} t set ${asOf} = before.as_of, ${reader} = $5::bigint
      from before
      where t.ctid = before.place and ${mayClaim(stream, 'before.updated_at', 'before.as_of', 'before.is_ahead')}
        and (before.record is null or t._payload = (select ${without(stream.of.merge.declared.root.leftOut ?? [])} from (select before.record) s))
      returning ${claimedOf(stream, 'before.as_of')}, ${keepChanges('$8', 'before.as_of', '$5')}`,
    values: [
      by.account,
      asked.map(({ id }) => id),
      asked.map(({ updatedMs }) => new Date(updatedMs)),
      asked.map(({ asOfMs }) => new Date(asOfMs)),
      by.run,
      asked.map(({ isAhead = false }) => isAhead),
      asked.map(({ text }) => text),
      new Date(nowMs),
      asked.map(({ digest = null }) => digest),
    ],
  });
  const claims = new Map(rows.map(claim => [claim.id, claim]));
  const claimed = shown.filter(({ id }) => claims.has(id));
  const changedMs = rows.flatMap(({ arrivedMs }) => arrivedMs ?? []);
  await noteArrivals(client, by, stream, changedMs, sourceMs);
  return new Map(claimed.map(one => [one, claims.get(one.id)!]));
}

async function noteArrivals(
  client: Client,
  { account }: By,
  { key }: Detail,
  changedMs: readonly Ms[],
  sourceMs: Ms | undefined,
): Promise<void> {
  if (changedMs.length > 0 && sourceMs !== undefined)
    await noteAges(client, { account, stream: key }, changedMs, sourceMs);
}

/** SQL: locks the row, and selects its place and the reading before. */
function lockOf(stream: Detail, id: string): string {
  const { table, asOf, by } = rowsOfParent(stream);
  return `
          select t.ctid as place, t.${asOf} as read_as_of, t.${by} as read_by from ${table} t
          where t.account_id = $1 and t.id >= ${id} and t.id <= ${id}
          order by t.id limit 1 for no key update`;
}

/** SQL over `t`: whether a reply may replace the members of the record. */
function mayClaim(stream: Detail, updatedAt: string, at: string, isAhead: string): string {
  const { version, asOf } = rowsOfParent(stream);
  return `date_trunc('milliseconds', t.${version}) <= ${updatedAt}
          -- The date of a record dated ahead of its reply proves nothing. The stored row must be the same version.
          and (not ${isAhead} or date_trunc('milliseconds', t.${version}) = ${updatedAt})
          and (t.${asOf} is null or t.${asOf} <= ${at}) and t._deleted_at is null`;
}

/** SQL: the versions of the stored members, and whether they are just those of the digest. */
const membersOf = ({ key, merge }: Detail, id: string, digest: string): string => `
          select v.versions, ${isStored(key, id, digest, 'v.versions')} as same
          from (select ${versionsOf(merge, id)} as versions offset 0) v`;

/** SQL: ClaimedMembers. */
function claimedOf(stream: Detail, at: string): string {
  const { version } = rowsOfParent(stream);
  return `t.id, before.read_as_of as "asOf", before.read_by as by,
          before.read_as_of is null and before.versions = '{}' as first, before.same, before.versions,
          exists (
            select from sync.rejects j where j.account_id = $1 and j.stream_key = '${stream.key}' and j.cleared_at is null) as rejects,
          case when t.${version} > (select mirrored_since from sync.accounts where account_id = $1)
            and t.${version} <= ${at} and (before.read_as_of is null or before.read_as_of < t.${version})
            then extract(epoch from date_trunc('milliseconds', t.${version}))::float8 * 1000 end as "arrivedMs"`;
}

/** Keeps the reading before this one in sync.changes. A reading that found nothing new is not kept. */
export async function keepReading(
  client: Client,
  { account, run }: By,
  stream: Detail,
  { id, asOf, by }: ClaimedMembers,
  { nowMs, asOfMs }: { nowMs: Ms; asOfMs: Ms },
): Promise<void> {
  if (asOf === null) return;
  const { table, asOf: readAt, by: reader } = rowsOfParent(stream);
  await client.query({
    name: `keep reading of ${stream.key}`,
    text: `insert into sync.changes (account_id, source, table_name, record_id, seen_at, as_of, run_id, changes)
      values ($1, $8, $9, $2, $3, $4, $5, jsonb_build_object('${readAt}', jsonb_build_array($6::timestamptz, $4::timestamptz))
        || case when $7::bigint is distinct from $5::bigint then jsonb_build_object('${reader}', jsonb_build_array($7::bigint, $5::bigint)) else '{}' end)`,
    values: [account, id, new Date(nowMs), new Date(asOfMs), run, asOf, by, stream.source, shortOfKey(table)],
  });
}

/**
 * The as_of of a record's members. Locks the record's row: no other reply replaces the members before the transaction
 * ends.
 */
export async function lockMembers(
  client: Client,
  account: string,
  stream: Detail,
  id: string,
): Promise<Date | undefined> {
  const { table, asOf } = rowsOfParent(stream);
  const found = await query(client).value<Date | null>`
    select ${raw(asOf)} as at from ${raw(table)} where account_id = ${account} and id = ${id} for no key update`;
  return found ?? undefined;
}
