/** Reads how complete and fresh each stream is. */
import type pg from 'pg';
import type { Shown } from '../agents/masked.ts';
import { configuredSources } from '../app/context.ts';
import { systemClock } from '../clock.ts';
import { streamKey } from '../engine/database/stream-key.ts';
import type { SourceName } from '../engine/http/request.ts';
import { streamsOf } from '../sources/index.ts';
import type { Served } from './known-accounts.ts';
import { timeLeft } from './time-left.ts';

export interface StreamStatus {
  account: string;
  stream: string;
  source: SourceName;
  /** Earlier records may be missing; null: complete from the beginning. */
  complete_from: Date | null;
  complete_through: Date | null;
  lag_seconds: number | null;
  /** Lag of the newest synced range, without history; null during a first load. */
  behind_seconds: number | null;
  /** Freshness target; null if the stream has none. */
  target_seconds: number | null;
  /** fresh, catching_up, stale, failing, never_synced, paused. */
  state: string;
  /** Change latency of the last hour, p50 and p95; null without changes. */
  age_p50_seconds: number | null;
  age_p95_seconds: number | null;
  holes: { list: string; from: Date; to: Date; reason: string | null }[];
  waiting: number;
  /** Seconds until all pending records are read, at the configured limits. */
  time_left_seconds: number | null;
  open_rejects: number;
  last_run: number | null;
  last_state: string | null;
  last_finished_at: Date | null;
  last_success_at: Date | null;
  last_error: string | null;
  remedy: string | null;
  /** The daily quota is used up; a worker resumes at this time. */
  sleeps_until: Date | null;
  /** Deletions up to this time are known. */
  deletes_checked_at: Date | null;
  /** Deletion candidates that a sweep left unmarked because they exceed its limit. */
  seem_deleted: number;
  /** Audit confidence: field '' (any field) first, then each field that differed. */
  certainty: Certainty[];
  /** Recommendations for recurring kinds of difference. */
  proposals: { kind: string; times: number; last_at: string; setting: string | null; remedy: string }[];
}

export interface Certainty {
  field: string;
  checked: number;
  differed: number;
  /** Sampled records that could not be read. */
  unread: number;
  at_most_percent: number;
  as_of: string;
}

/** Status of these accounts only; the warehouse may hold others. Without settings in `served` the time left is null. */
export async function readStatus(
  db: pg.Pool,
  accounts: readonly string[],
  served: readonly Served[] = [],
): Promise<StreamStatus[]> {
  const { rows } = await db.query<Omit<StreamStatus, 'time_left_seconds'>>(
    `select s.account_id as account, s.stream, s.complete_from, s.complete_through, extract(epoch from s.lag)::float8 as lag_seconds, s.waiting, s.open_rejects,
       s.last_run, s.last_state, s.last_finished_at, s.last_success_at, s.last_error, s.remedy, s.source, s.sleeps_until,
       extract(epoch from s.behind)::float8 as behind_seconds, extract(epoch from s.target)::float8 as target_seconds, s.state,
       extract(epoch from s.age_p50)::float8 as age_p50_seconds, extract(epoch from s.age_p95)::float8 as age_p95_seconds,
       coalesce((
         select json_agg(json_build_object('list', h.list, 'from', h.gap_from, 'to', h.gap_to, 'reason', h.reason) order by h.gap_from)
         from sync.gaps h where h.account_id = s.account_id and h.stream_key = s.stream_key), '[]') as holes,
       s.deletes_checked_at, (
         select count(*) from sync.open_deletion_candidates o
         where (o.account_id, o.stream_key) = (s.account_id, s.stream_key) and o.gone_at is not null and o.run_id is null) as seem_deleted,
       coalesce((
         select json_agg(json_build_object('field', y.field, 'checked', y.checked, 'differed', y.differed,
           'unread', y.unread, 'at_most_percent', y.at_most_percent, 'as_of', y.as_of) order by y.field)
         from sync.audit_confidence y
         where (y.account_id, y.stream_key) = (s.account_id, s.stream_key) and (y.field = '' or y.differed > 0)), '[]') as certainty, coalesce((
         select json_agg(json_build_object('kind', p.kind, 'times', p.times, 'last_at', p.last_at, 'setting', p.setting,
           'remedy', p.remedy) order by p.times desc, p.kind)
         from sync.recommendations p where (p.account_id, p.stream_key) = (s.account_id, s.stream_key)), '[]') as proposals
     from sync.status s join sync.streams k using (stream_key)
     where s.account_id = any($1)
     order by s.account_id, k.place`,
    [accounts],
  );
  // A source that was configured later has no rows before its first sync.
  const unread = served.flatMap(({ config }) =>
    streamsOf(configuredSources(config))
      .filter(
        ({ key }) => !rows.some(one => one.account === config.account && streamKey(one.source, one.stream) === key),
      )
      .map(({ name: stream, source }) => ({ ...neverSynced, account: config.account, stream, source })),
  );
  return [...rows, ...unread].map(row => ({
    ...row,
    time_left_seconds: timeLeft(
      row,
      served.find(({ config }) => config.account === row.account),
      systemClock.now(),
    ),
  }));
}

const neverSynced: Omit<StreamStatus, 'account' | 'stream' | 'source' | 'time_left_seconds'> = {
  ...{
    complete_from: null,
    complete_through: null,
    lag_seconds: null,
    behind_seconds: null,
    target_seconds: null,
    state: 'never_synced',
  },
  ...{ age_p50_seconds: null, age_p95_seconds: null, holes: [], waiting: 0, open_rejects: 0, seem_deleted: 0 },
  ...{
    last_run: null,
    last_state: null,
    last_finished_at: null,
    last_success_at: null,
    last_error: null,
    remedy: null,
  },
  ...{ sleeps_until: null, deletes_checked_at: null, certainty: [], proposals: [] },
};

/** An error may quote the source. */
export const statusShown = (streams: readonly StreamStatus[], { text }: Shown): StreamStatus[] =>
  streams.map(one => ({
    ...one,
    last_error: text(one.last_error),
    holes: one.holes.map(gap => ({ ...gap, reason: text(gap.reason) })),
  }));
