/**
 * Rejects and drift: records that could not be stored, and differences between the source and its documentation. They
 * are counted and shown.
 */

import { createHash } from 'node:crypto';
import type pg from 'pg';
import { byKey, type Client } from '../database/pool.ts';
import { query, raw, sql } from '../database/sql.ts';
import { ofStream, type StreamKey } from '../database/stream-key.ts';
import { cleanText } from '../json-text.ts';
import type { Range } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import type { AnyTx, Aside, Drift, Filter, Reject, Tx } from './page.ts';

type Key = Pick<Claim, 'account' | 'stream'>;

/** The longest id of a source (sources/): far below the limit of an index. */
const longestId = 500;
const isId = (id: string | undefined): id is string =>
  id !== undefined && id.length <= longestId && storable(id) === id;

/** The id of the record, else a hash of its text: a record that is read again is the same reject. */
const keyOf = ({ key, of, recordId, askId, payload = '' }: Reject): string => {
  if (key !== undefined) return key;
  const name = of === undefined || recordId === undefined ? recordId : `${of}/${recordId}`;
  if (isId(name)) return name;
  return payload
    ? createHash('sha256')
        .update(`${of ?? ''}${payload}`)
        .digest('hex')
        .slice(0, 32)
    : (askId ?? '');
};

/** A note stays storable although its record is not. */
export const storable = (text: string): string => cleanText(text).text;

const storableOr = (text: string | undefined): string | null => (text === undefined ? null : storable(text));

/** The first retry is due immediately (at the end of the run), the next ones after 1, 4, 16 … minutes, at most a day. */
const nextTry = raw(
  `excluded.last_seen_at + least(interval '1 day', interval '1 minute' * 4 ^ least(r.attempts - 1, 6))`,
);

/** A reject of an erased person keeps no more than this. */
export const ofErased = 'it is of somebody who was erased: what came is not kept';

/**
 * Notes about records that are stored, are not stored, or differ. They hold texts of records, so they pass the filter of their
 * stream.
 */
export type Notes = {
  /** Ids of stored records. Their open rejects are cleared. */
  readonly stored?: readonly string[];
} & (
  | { readonly rejects: readonly Reject[]; readonly drift?: readonly Drift[]; readonly filter: Filter | undefined }
  | { readonly rejects?: undefined; readonly drift: readonly Drift[]; readonly filter: Filter | undefined }
  | { readonly rejects?: undefined; readonly drift?: undefined; readonly filter?: undefined }
);

type Settling = Pick<Tx<Key>, 'client' | 'claim' | 'at'>;

/** Clears the rejects of stored records, except records that were rejected again, and writes new rejects and drift. */
export async function settle(tx: Settling, notes: Notes): Promise<void> {
  const { stored = [] } = notes;
  const { rejects, drift } = await allowed(tx, notes);
  if (stored.length > 0) await clearRejects(tx, stored, rejects);
  if (rejects.length > 0) await writeRejects(tx, rejects);
  if (drift.length > 0) await writeDrift(tx, drift);
}

/**
 * A reject that may not be kept has no payload. A difference is not noted whose name may not be kept, and a record that holds such a
 * text is no sample.
 */
async function allowed(
  tx: AnyTx,
  { rejects = [], drift = [], filter }: Notes,
): Promise<{ rejects: readonly Reject[]; drift: readonly Drift[] }> {
  if (filter === undefined || rejects.length + drift.length === 0) return { rejects, drift };
  const payloads = rejects.map(({ payload, recordId, askId }): Aside => ({ text: payload, recordId, askId }));
  const samples = drift.map(({ sample, of }): Aside => ({ text: sample, askId: of }));
  const names = drift.map(({ path, value }): Aside => ({ text: JSON.stringify([path, value]) }));
  const hidden = await filter.hidden(tx, [...payloads, ...samples, ...names]);
  const isHidden = (i: number) => hidden.has(rejects.length + i);
  return {
    rejects: rejects.map((reject, i) =>
      hidden.has(i) && reject.payload !== undefined
        ? { ...reject, reason: ofErased, path: undefined, payload: undefined }
        : reject,
    ),
    drift: drift.flatMap(({ sample, ...one }, i) => {
      if (isHidden(drift.length + i)) return [];
      return [isHidden(i) || sample === undefined ? one : { ...one, sample }];
    }),
  };
}

async function writeRejects({ client, claim, at }: Settling, rejects: readonly Reject[]): Promise<void> {
  const now = new Date(at.nowMs);
  for (const reject of rejects) {
    // The source would not know another spelling of the id, and would answer 404.
    const askId = isId(reject.askId) ? reject.askId : null;
    const { payload, place } = reject;
    await client.query(sql`
      insert into sync.rejects as r
        (account_id, source, stream, key, record_id, ask_id, first_seen_at, last_seen_at, next_try_at, reason, payload, replayable, gone_at,
         as_of, place, path)
      values (${claim.account}, ${ofStream(claim.stream)}, ${keyOf(reject)}, ${storableOr(reject.recordId)}, ${askId}, ${now}, ${now},
        ${askId === null ? null : now}, ${storable(reject.reason)}, ${payload ?? null}, ${payload !== undefined}, ${reject.gone ? now : null},
        ${payload === undefined ? null : new Date(at.asOfMs)}, ${place === undefined ? null : place + 1}, ${storableOr(reject.path)})
      on conflict (account_id, stream_key, key) where cleared_at is null do update set
        attempts = r.attempts + 1, last_seen_at = excluded.last_seen_at,
        next_try_at = case when excluded.ask_id is not null then ${nextTry} end,
        reason = excluded.reason, path = excluded.path, payload = coalesce(excluded.payload, r.payload),
        as_of = coalesce(excluded.as_of, r.as_of), place = case when excluded.payload is null then r.place else excluded.place end,
        replayable = excluded.replayable or r.replayable, gone_at = coalesce(r.gone_at, excluded.gone_at)`);
  }
}

/** Clears the rejects of stored ids, except those rejected again. */
async function clearRejects(
  { client, claim, at }: Settling,
  askIds: readonly string[],
  again: readonly Reject[],
): Promise<void> {
  await query(client, 'clear rejects').count`
    update sync.rejects set cleared_at = ${new Date(at.nowMs)}
    where account_id = ${claim.account} and stream_key = ${claim.stream} and ask_id = any(${askIds.filter(isId)})
      and key <> all(${again.map(keyOf)}) and cleared_at is null`;
}

/** Clears the rejects whose key is a place of this list, `TIME LIST, page N`, with a time in this range. */
export async function clearPlaces(
  client: Client,
  claim: Key,
  list: string,
  { from, to }: Range,
  now: Date,
): Promise<void> {
  await client.query(sql`
    update sync.rejects set cleared_at = ${now}
    where account_id = ${claim.account} and stream_key = ${claim.stream} and cleared_at is null and record_id is null and ask_id is null
      and split_part(key, ' ', 2) || ' list' = ${list} and key ~ ', page \\d+$'
      and split_part(key, ' ', 1) collate "C" between ${new Date(from).toISOString()} and ${new Date(to).toISOString()}`);
}

const farAhead = `interval '1 hour'`;
/** SQL: a clock far ahead wrote this time, so it puts off no retry. */
export const isFarAhead = (time: string, now: string): string => `${time} > ${now}::timestamptz + ${farAhead}`;

/** Ids that are due for a fetch, the longest due first. A retry that a clock far ahead put off is due too. */
export const dueRejects = (db: pg.Pool, claim: Key, now: Date): Promise<string[]> =>
  byKey(db, 'due rejects').values<string>`
    select ask_id from sync.rejects
    where account_id = ${claim.account} and stream_key = ${claim.stream} and cleared_at is null
      and (next_try_at <= ${now} or next_try_at is not null and last_seen_at > ${now}::timestamptz + ${raw(farAhead)})
    group by ask_id order by min(next_try_at)`;

/** A stream of which most is rejected for its shape: a row of sync.most_rejected. */
export interface MostRejected {
  /** When one record is asked for again. */
  readonly next_try_at: Date;
  /** Ids that fetch one of its rejects, the one that was asked for longest ago first. */
  readonly ids: readonly string[];
}

/** A record that the source no longer has tells nothing, so there are a few. */
const fewIds = 3;

/** Undefined unless most of what the stream reads is rejected. */
export const readMostRejected = (db: pg.Pool, { account, stream }: Key): Promise<MostRejected | undefined> =>
  byKey(db, 'most rejected').first<MostRejected>`
    select m.next_try_at, array(
        select r.ask_id from sync.rejects r
        where r.account_id = ${account} and r.stream_key = ${stream} and r.cleared_at is null and r.path is not null and r.ask_id is not null
        group by r.ask_id order by max(r.last_seen_at), r.ask_id limit ${raw(fewIds)}) as ids
    from sync.most_rejected m where m.account_id = ${account} and m.stream_key = ${stream}`;

/** From now on each of its rejects is due. */
export async function askForAll(db: pg.Pool, { account, stream }: Key, now: Date): Promise<void> {
  await db.query(sql`
    update sync.rejects set next_try_at = ${now}
    where account_id = ${account} and stream_key = ${stream} and cleared_at is null and path is not null and ask_id is not null`);
}

/** Whether the source has answered 404 for the id before. */
export const saidGone = (db: pg.Pool, claim: Key, id: string): Promise<boolean> =>
  query(db).value`
    select exists (
      select from sync.rejects
      where account_id = ${claim.account} and stream_key = ${claim.stream} and ask_id = ${id} and cleared_at is null
        and gone_at is not null) as said`;

/** Rejects that this run opened or met again, and that are still open. */
export const openSince = (db: pg.Pool, claim: Key, since: Date): Promise<number> =>
  query(db).value`
    select count(*) as n from sync.rejects
    where account_id = ${claim.account} and stream_key = ${claim.stream} and cleared_at is null and last_seen_at >= ${since}`;

const longestSample = 2000;

async function writeDrift({ client, claim, at }: Settling, drift: readonly Drift[]): Promise<void> {
  const now = new Date(at.nowMs);
  const samples = drift.map(({ sample }: Omit<Drift, 'of'>) => storableOr(sample?.slice(0, longestSample)));
  await client.query(sql`
    insert into sync.drift as d (account_id, source, stream, kind, path, value, seen, first_seen_at, last_seen_at, sample)
    select ${claim.account}, ${ofStream(claim.stream)}, s.kind, s.path, s.value, s.seen, ${now}::timestamptz, ${now}::timestamptz, s.sample
    from unnest(${drift.map(({ kind }) => kind)}::text[], ${drift.map(({ path }) => path)}::text[], ${drift.map(({ value }) => value)}::text[],
      ${drift.map(({ seen }) => seen)}::bigint[], ${samples}::text[]) s (kind, path, value, seen, sample)
    on conflict (account_id, stream_key, kind, path, value) do update set
      seen = d.seen + excluded.seen, last_seen_at = excluded.last_seen_at, sample = coalesce(d.sample, excluded.sample)`);
}

/** Open rejects of an account, by stream and reason, in one sentence each. */
export const listRejectGroups = (
  db: pg.Pool,
  account: string,
): Promise<{ stream: string; rejects: number; says: string }[]> =>
  query(db).rows`
    select sync.name_of(stream_key) as stream, g.rejects, g.says from sync.reject_groups g left join sync.streams k using (stream_key)
    where g.account_id = ${account} order by k.place, g.stream, g.rejects desc, g.since`;

/** A reject as people see it. */
export interface StoredReject {
  id: number;
  stream: string;
  /** The id at the source, or a hash of the text. */
  key: string;
  record_id: string | null;
  ask_id: string | null;
  reason: string;
  path: string | null;
  payload: string | null;
  as_of: Date | null;
  place: number | null;
  attempts: number;
  first_seen_at: Date;
  last_seen_at: Date;
  next_try_at: Date | null;
  gone_at: Date | null;
  cleared_at: Date | null;
}

const shown =
  raw(`id, sync.name_of(stream_key) as stream, key, record_id, ask_id, reason, path, payload, as_of, place, attempts, first_seen_at, last_seen_at,
  next_try_at, gone_at, cleared_at`);

/** Open rejects, or all of them, the oldest first. */
export const listRejects = (db: pg.Pool, account: string, { all = false } = {}): Promise<StoredReject[]> =>
  query(db).rows`
    select ${shown} from sync.rejects where account_id = ${account} and (${all} or cleared_at is null) order by id`;

export const readReject = (db: pg.Pool, account: string, id: number): Promise<StoredReject | undefined> =>
  query(db).first`select ${shown} from sync.rejects where account_id = ${account} and id = ${id}`;

export interface LockedReject extends StoredReject {
  /** The key of its stream. */
  stream_key: StreamKey;
}

/** Locks an open reject, so that no other process clears it meanwhile. */
export const lockReject = (client: Client, account: string, id: number): Promise<LockedReject | undefined> =>
  query(client).first`
    select ${shown}, stream_key from sync.rejects where account_id = ${account} and id = ${id} and cleared_at is null for update`;

export async function clearReject(client: Client, id: number, now: Date): Promise<void> {
  await client.query(sql`update sync.rejects set cleared_at = ${now} where id = ${id}`);
}

export interface StoredDrift {
  stream: string;
  kind: Drift['kind'];
  path: string;
  value: string;
  seen: number;
  first_seen_at: Date;
  last_seen_at: Date;
  sample: string | null;
}

export const listDrift = (db: pg.Pool, account: string): Promise<StoredDrift[]> =>
  query(db).rows`
    select sync.name_of(stream_key) as stream, d.kind, d.path, d.value, d.seen, d.first_seen_at, d.last_seen_at, d.sample
    from sync.drift d left join sync.streams k using (stream_key)
    where d.account_id = ${account} order by k.place, d.stream, d.kind, d.path, d.value`;
