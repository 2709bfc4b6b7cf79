/** Reads how complete and fresh each stream is. */
import type pg from 'pg';
import { configuredSources } from '../app/context.ts';
import { systemClock } from '../clock.ts';
import { raw, sql } from '../engine/database/sql.ts';
import { nameOfKey, streamKey } from '../engine/database/stream-key.ts';
import type { SourceName } from '../engine/http/request.ts';
import { streamsOf } from '../sources/index.ts';
import type { Served } from './accounts.ts';
import { timeLeft } from './time-left.ts';

/** The row of a stream in sync.status, and the results of checks. */
export interface Figures {
  account: string;
  stream: string;
  /** As people name the stream: with its source if another source has a stream of that name. */
  name: string;
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
  latency_p50_seconds: number | null;
  latency_p95_seconds: number | null;
  gap_count: number;
  gaps: { list: string; from: string; to: string; reason: string | null }[];
  waiting: number;
  open_rejects: number;
  last_run: number | null;
  last_state: string | null;
  last_finished_at: Date | null;
  last_success_at: Date | null;
  last_error: string | null;
  remedy: string | null;
  /** The daily quota is used up; a worker resumes at this time. */
  deferred_until: Date | null;
  /** Deletions up to this time are known. */
  deletes_checked_at: Date | null;
  /** Changes that the source does not announce are known up to this time. */
  unchecked_since: Date | null;
  /** Deletion candidates that a sweep left unmarked because they exceed its limit. */
  unconfirmed_deletions: number;
  /** Upper bound of the records that differ from the source, in percent; null without an audit. */
  differ_at_most_percent: number | null;
  /** Audit confidence: field '' (any field) first, then each field that differed. */
  audit_confidence: AuditConfidence[];
  /** Recommendations for recurring kinds of difference. */
  recommendations: { kind: string; times: number; last_at: string; setting: string | null; remedy: string }[];
}

/** The figures of `status --json`. */
const shown = [
  ...['account', 'stream', 'name', 'complete_from', 'complete_through'],
  ...['lag_seconds', 'waiting', 'open_rejects', 'last_run'],
  ...['last_state', 'last_finished_at', 'last_success_at', 'last_error', 'remedy', 'source', 'deferred_until'],
  ...['behind_seconds', 'target_seconds', 'state', 'latency_p50_seconds'],
  ...['latency_p95_seconds', 'gaps', 'deletes_checked_at', 'unchecked_since'],
  ...['unconfirmed_deletions', 'audit_confidence', 'recommendations'],
] as const satisfies (keyof Figures)[];

export interface StreamStatus extends Omit<Figures, 'gap_count' | 'differ_at_most_percent'> {
  /** Seconds until all pending records are read, at the configured limits. */
  time_left_seconds: number | null;
}

export interface AuditConfidence {
  field: string;
  checked: number;
  differed: number;
  /** Sampled records that could not be read. */
  unread: number;
  at_most_percent: number;
  as_of: string;
}

/** How each figure is read, if not from the column of its name. */
const readAs: Readonly<Partial<Record<keyof Figures, string>>> = {
  account: 's.account_id',
  name: 'sync.name_of(s.stream_key)',
  gap_count: 's.gaps',
  differ_at_most_percent: 's.differ_at_most_percent::float8',
  gaps: `coalesce((
    select json_agg(json_build_object('list', h.list, 'from', h.gap_from, 'to', h.gap_to, 'reason', h.reason) order by h.gap_from)
    from sync.gaps h where h.account_id = s.account_id and h.stream_key = s.stream_key), '[]')`,
  unconfirmed_deletions: `(
    select count(*) from sync.open_deletion_candidates o
    where (o.account_id, o.stream_key) = (s.account_id, s.stream_key) and o.gone_at is not null and o.run_id is null)`,
  audit_confidence: `coalesce((
    select json_agg(json_build_object('field', y.field, 'checked', y.checked, 'differed', y.differed,
      'unread', y.unread, 'at_most_percent', y.at_most_percent, 'as_of', y.as_of) order by y.field)
    from sync.audit_confidence y
    where (y.account_id, y.stream_key) = (s.account_id, s.stream_key) and (y.field = '' or y.differed > 0)), '[]')`,
  recommendations: `coalesce((
    select json_agg(json_build_object('kind', p.kind, 'times', p.times, 'last_at', p.last_at, 'setting', p.setting,
      'remedy', p.remedy) order by p.times desc, p.kind)
    from sync.recommendations p where (p.account_id, p.stream_key) = (s.account_id, s.stream_key)), '[]')`,
};

const sqlOf = (figure: keyof Figures): string =>
  readAs[figure] ??
  figure.replace(/^(\w+?)(_seconds)?$/, (_, name, isSpan) =>
    isSpan ? `extract(epoch from s.${name})::float8` : `s.${name}`,
  );

/**
 * Reads these figures of each stream, by account and in the order of a full sync. `accounts` null: all. Each figure
 * costs time, so callers name the ones that they show.
 */
export async function readStreams<F extends keyof Figures>(
  db: Pick<pg.ClientBase, 'query'>,
  accounts: readonly string[] | null,
  ...figures: readonly F[]
): Promise<Pick<Figures, F>[]> {
  const { rows } = await db.query<Pick<Figures, F>>(sql`
    select ${raw(figures.map(one => `${sqlOf(one)} as ${one}`).join(', '))}
    from sync.status s join sync.streams k using (stream_key)
    where ${accounts}::text[] is null or s.account_id = any (${accounts}) order by s.account_id, k.place`);
  return rows;
}

/** Reads all figures of these accounts. The time left is null for an account that is not in `served`. */
export async function readStatus(
  db: pg.Pool,
  accounts: readonly string[],
  served: readonly Served[] = [],
): Promise<StreamStatus[]> {
  const rows = await readStreams(db, accounts, ...shown);
  // A source that was configured later has no rows before its first sync.
  const unread = served.flatMap(({ config }) =>
    streamsOf(configuredSources(config))
      .filter(
        ({ key }) => !rows.some(one => one.account === config.account && streamKey(one.source, one.stream) === key),
      )
      .map(({ name: stream, source, key }) => ({
        ...{ ...neverSynced, account: config.account },
        ...{ stream, source, name: nameOfKey(key) },
      })),
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

/** Nothing is known of a stream that was never read. */
const neverSynced = {
  ...(Object.fromEntries(shown.map(figure => [figure, null])) as Record<(typeof shown)[number], null>),
  ...{ state: 'never_synced', waiting: 0, open_rejects: 0, unconfirmed_deletions: 0 },
  ...{ gaps: [], audit_confidence: [], recommendations: [] },
};
