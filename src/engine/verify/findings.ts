/** Comparisons with the source: how stored rows stand beside a reply, and the findings. */

import { isAhead } from '../commit/merge.ts';
import { byKey, type Client, type Queryable } from '../database/pool.ts';
import { numbered, query, raw, sql } from '../database/sql.ts';
import { type StreamKey, sourceAndStream } from '../database/stream-key.ts';
import type { SourceName } from '../http/request.ts';
import type { Ms } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import { itsStreams, openRuns } from '../runs/runs.ts';

export type Key = Pick<Claim, 'account' | 'run' | 'stream'>;

/** How the stored row of a record compares with a reply. */
export interface Standing {
  readonly hasTombstone: boolean;
  readonly observedAt: Date;
  /** Its `_payload` has the same id. */
  readonly isItself: boolean | null;
  /** The request was sent after the row was written, so nothing in the row can be newer than the reply. */
  readonly isOlder: boolean;
  /** Version of the record in ms; null if records have none. */
  readonly updatedMs: Ms | null;
  /** For tickets: the messages are as new as the ticket, and no newer than the reply. */
  readonly hasMessages: boolean | null;
  /** The row waits for a fetch, so the mirror does not claim that it equals the source. */
  readonly waits: boolean;
}

/** The result of comparing one record. */
export interface Finding {
  /** The key of its stream; the table for names of labels and inboxes. */
  readonly stream: StreamKey;
  readonly record: string;
  readonly differences: Readonly<Record<string, readonly [ours: unknown, theirs: unknown]>> | null;
  readonly kind: string | null;
  readonly oursAsOf: Date | null;
  readonly repaired: boolean;
}

export async function writeFindings(
  client: Client,
  { account, run }: Pick<Key, 'account' | 'run'>,
  findings: readonly Finding[],
  { asOfMs, nowMs, random }: { asOfMs: Ms; nowMs: Ms; random: boolean },
): Promise<void> {
  if (findings.length === 0) return;
  const one = new Map<string, Finding>();
  for (const finding of findings) {
    const key = JSON.stringify([finding.stream, finding.record]);
    const before = one.get(key);
    one.set(key, before ? joined(before, finding) : finding);
  }
  await query(client, 'write findings').count`
    insert into sync.audit as a (account_id, run_id, source, stream, record_id, checked_at, ours_as_of, random, differences, kind, repaired_at)
    select ${account}, ${run}, ${raw(sourceAndStream('f.stream'))}, f.record, ${new Date(asOfMs)}, f."oursAsOf", ${random},
      nullif(f.differences, 'null'), f.kind, case when f.repaired then ${new Date(nowMs)}::timestamptz end
    from jsonb_to_recordset(${JSON.stringify([...one.values()])}::jsonb) f (
      stream text, record text, "oursAsOf" timestamptz, differences jsonb, kind text, repaired boolean)
    on conflict (account_id, run_id, stream_key, record_id) do update set
      checked_at = excluded.checked_at, unread = false, differences = coalesce(a.differences, '{}') || coalesce(excluded.differences, '{}'),
      kind = (select string_agg(distinct k, '; ' order by k) from unnest(string_to_array(concat_ws('; ', a.kind, excluded.kind), '; ')) k),
      repaired_at = coalesce(excluded.repaired_at, a.repaired_at)
    where excluded.differences is not null`;
}

/** Notes a record of the random sample that could not be read, for each stream that it would have told about. */
export async function noteUnread(
  db: Queryable,
  { account, run }: Pick<Key, 'account' | 'run'>,
  streams: readonly StreamKey[],
  id: string,
  checkedMs: Ms,
): Promise<void> {
  await db.query(sql`
    insert into sync.audit (account_id, run_id, source, stream, record_id, checked_at, random, unread)
    select ${account}, ${run}, ${raw(sourceAndStream('s'))}, ${id}, ${new Date(checkedMs)}, true, true from unnest(${streams}::text[]) s
    on conflict (account_id, run_id, stream_key, record_id) do nothing`);
}

/** Joins the findings of one record from several places. */
function joined(one: Finding, other: Finding): Finding {
  const kinds = [one.kind, other.kind].flatMap(kind => kind?.split('; ') ?? []);
  return {
    ...one,
    differences: { ...one.differences, ...other.differences },
    kind: [...new Set(kinds)].sort().join('; ') || null,
    oursAsOf: one.oursAsOf ?? other.oursAsOf,
    repaired: one.repaired || other.repaired,
  };
}

/** The number of records of this stream that a run has compared. */
export const countFindings = (db: Queryable, { run, stream }: Pick<Key, 'run' | 'stream'>): Promise<number> =>
  query(db).value`
    select count(*) as n from sync.audit where run_id = ${run} and stream_key = ${stream} and random`;

/** Whether a run other than an audit needs the source. */
export const othersWant = (db: Queryable, account: string, source: SourceName): Promise<boolean> =>
  byKey(db, `others want ${source}`).value`
    select exists (
      select from ${openRuns(account)} cross join ${itsStreams('s')} join sync.streams k using (stream_key)
      where r.kind <> 'audit' and k.source = ${source}
        and (s.state = 'running' or s.state = 'waiting' and not sync.is_paused(s.account_id, s.stream_key))) as want`;

/** Whether the source has records to audit, no other work, and no audit that began after `since`. */
export async function isAuditDue(
  db: Queryable,
  { account, source, isThere }: { account: string; source: SourceName; isThere: string },
  since: Date,
  now: Date,
): Promise<boolean> {
  if (await othersWant(db, account, source)) return false;
  return byKey(db, `audit of ${source} is due`).value`
    select not exists (
        select from sync.stored_runs r
        where r.account_id = ${account} and r.kind = 'audit' and (r.state = 'running' or r.started_at > ${since} and r.started_at <= ${now})
          and exists (
            select from ${itsStreams('s')} join sync.streams k using (stream_key) where k.source = ${source}))
      and exists (${numbered(isThere, account)}) as due`;
}

/** The table of a stream for comparisons, with SQL expressions over the columns of a row `t`. */
export interface Rows {
  readonly table: string;
  /** The record as sync.audit names it. */
  readonly record?: string;
  readonly updatedAt?: string;
  /** The messages are as new as the row, and no newer than the reply ($4). */
  readonly hasMessages?: string;
  /**
   * A value here marks a tombstone that a worker wrote. Without it, only a manual change writes tombstones during a
   * comparison.
   */
  readonly deletedSince?: string;
  /** The row waits for a fetch, so the mirror does not claim that it equals the source. */
  readonly waits?: string;
}

/** The stored rows of these ids. `lock`: they stay unchanged until the transaction ends. */
export async function standingIn(
  client: Queryable,
  account: string,
  { table, record = 't.id', updatedAt, hasMessages = 'null', deletedSince, waits = 'false' }: Rows,
  ids: readonly string[],
  { askedMs, asOfMs, lock }: { askedMs: Ms; asOfMs: Ms; lock: boolean },
): Promise<Map<string, Standing>> {
  const { rows } = await client.query<Standing & { id: string }>(
    `select ${record} as id, t._deleted_at is not null as "hasTombstone", t._observed_at as "observedAt", t._payload ->> 'id' = t.id as "isItself",
       (t._synced_at < $3 or ${isAhead('t._synced_at', '$3')}) and (t._observed_at <= $4 or ${isAhead('t._observed_at', '$4')})
         -- The worker notes since when a row may be gone; a row that was marked by hand lacks that time.
         and (t._deleted_at is null or t._deleted_at <= $4 or ${isAhead('t._deleted_at', '$4')}${deletedSince ? ` or ${deletedSince} is null` : ''}) as "isOlder",
       ${updatedAt ? `extract(epoch from ${updatedAt})::float8 * 1000` : 'null'} as "updatedMs",
       ${hasMessages} as "hasMessages", ${waits} as waits
     from ${table} t where t.account_id = $1 and ${record} = any($2)
     order by t.id ${lock ? 'for no key update' : ''}`,
    [account, ids, new Date(askedMs), new Date(asOfMs)],
  );
  return new Map(rows.map(({ id, ...standing }) => [id, standing]));
}

/** The time through which the stream is complete, by the source's clock; undefined if it was never read. */
export async function completeThrough(db: Queryable, account: string, stream: StreamKey): Promise<Ms | undefined> {
  const found = await query(db).value<Ms | null>`
    select extract(epoch from sync.complete_through(${account}, ${stream}))::float8 * 1000 as ms`;
  return found ?? undefined;
}

/** Whether the stream was ever read. */
export const wasRead = (db: Queryable, account: string, stream: StreamKey): Promise<boolean> =>
  query(db).value`
    select exists (
    select from sync.coverage c where c.account_id = ${account} and c.stream_key = ${stream} and not isempty(c.covered)) as was`;
