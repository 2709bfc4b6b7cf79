/**
 * Reads the data of the page from the warehouse: one account in one snapshot, so that its figures agree; and a summary
 * of all accounts. Times are the database's.
 */
import type pg from 'pg';
import { type Client, transaction } from '../../engine/database/pool.ts';
import type { SourceName } from '../../engine/http/request.ts';
import { type LakeStatus, readLakeStatus } from '../../lake/state.ts';
import { readClockProblems } from '../clock-problems.ts';
import { type Bucket, creditBuckets, graphed, type Range, summed } from './credits.ts';

type State = 'fresh' | 'catching_up' | 'stale' | 'failing' | 'never_synced' | 'paused';
type Severity = 'critical' | 'warning' | 'info';

export interface StreamFigures {
  readonly account: string;
  readonly stream: string;
  readonly source: SourceName;
  readonly state: State;
  /** Earlier records may be missing; null: complete from the beginning. */
  readonly complete_from: Date | null;
  readonly complete_through: Date | null;
  /** Lag of the newest part in seconds; null if never read. */
  readonly behind: number | null;
  /** Freshness target in seconds. */
  readonly target: number | null;
  readonly waiting: number;
  readonly gaps: number;
  readonly open_rejects: number;
  /** Change latency of the last hour, in seconds. */
  readonly age_p50: number | null;
  readonly age_p95: number | null;
  readonly sleeps_until: Date | null;
}

export interface Gap {
  readonly stream: string;
  readonly list: string;
  readonly gap_from: Date;
  readonly gap_to: Date;
  readonly reason: string | null;
}

export interface Problem {
  /** Null for the whole account. */
  readonly stream: string | null;
  readonly problem: string;
  readonly severity: Severity;
  readonly says: string;
  readonly remedy: string;
  readonly since: Date | null;
}

export interface Paused {
  /** Empty for the whole account. */
  readonly stream: string;
  readonly paused_at: Date;
  readonly paused_by: string;
  readonly reason: string | null;
}

export interface RunFigures {
  readonly run: number;
  readonly kind: string;
  readonly state: string;
  readonly started_at: Date;
  readonly finished_at: Date | null;
  /** Duration in seconds, so far for a running one. */
  readonly took: number;
  readonly retries: number | null;
  readonly seen: number;
  readonly inserted: number;
  readonly updated: number;
  readonly deleted: number;
  readonly rejected: number;
  readonly credits: number;
  readonly streams: readonly RunStream[];
}

export interface RunStream {
  readonly stream: string;
  readonly state: string;
  readonly seen: number;
  readonly expected: number | null;
  readonly credits: number;
  readonly waits_for: number | null;
  readonly note: string | null;
  readonly error: string | null;
  readonly remedy: string | null;
}

export interface Operation {
  readonly id: number;
  readonly at: Date;
  readonly who: string;
  readonly action: string;
  readonly subject: string;
  readonly outcome: string;
}

interface Worker {
  readonly id: number;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  readonly started_at: Date;
}

export interface AccountFigures {
  /** Time of the snapshot, by the database's clock. */
  readonly at: Date;
  readonly account: string;
  readonly streams: readonly StreamFigures[];
  readonly gaps: readonly Gap[];
  readonly problems: readonly Problem[];
  readonly paused: readonly Paused[];
  /** Recent runs, newest first, without runs of every minute that found nothing. */
  readonly runs: readonly RunFigures[];
  /** Runs of the last 24 hours, quiet ones included. */
  readonly day: readonly { kind: string; state: string; started_at: Date; finished_at: Date | null }[];
  /** Number of those quiet runs in the last hour. */
  readonly quiet: number;
  readonly workers: readonly Worker[];
  readonly operations: readonly Operation[];
  /** Credit use of the source with the graph. */
  readonly credits: readonly Bucket[];
  /** Use of every other source in the last 24 hours, by hour. */
  readonly requests: ReadonlyMap<SourceName, readonly Bucket[]>;
  /** Undefined if it is off. */
  readonly lake: LakeStatus | undefined;
}

const shownGaps = 30;
const shownRuns = 15;
/** Number of recent runs from which the shown ones are selected. */
const searchedRuns = 300;
const shownOperations = 8;
/** Runs of a day: a few each minute. */
const mostOfDay = 10_000;

const statusSql = `
  select s.account_id as account, s.stream, s.source, s.state, s.complete_from, s.complete_through,
    extract(epoch from s.behind)::float8 as behind, extract(epoch from s.target)::float8 as target,
    s.waiting, s.gaps, s.open_rejects,
    extract(epoch from s.age_p50)::float8 as age_p50, extract(epoch from s.age_p95)::float8 as age_p95, s.sleeps_until
  from sync.status s join sync.streams k using (stream_key)`;

const problemsSql = `
  select stream, problem, severity, says, remedy, since from sync.problems where account_id = $1
  order by array_position('{critical,warning,info}'::text[], severity), since, problem, stream limit 50`;

const runsSql = `
  select r.id as run, r.kind, r.state, r.started_at, r.finished_at, o.retries,
    extract(epoch from coalesce(r.finished_at, now()) - r.started_at)::float8 as took,
    t.seen, t.inserted, t.updated, t.deleted, t.rejected, t.credits, t.streams,
    r.kind in ('fresh', 'hydrate', 'audit') and r.state = 'completed'
      and t.inserted + t.updated + t.deleted + t.rejected = 0 as quiet
  from (
    select id, retries from sync.stored_runs where account_id = $1 order by id desc limit ${searchedRuns}) o
  join sync.runs r using (id)
  cross join lateral (
    select coalesce(sum(s.seen), 0)::int8 as seen, coalesce(sum(s.inserted), 0)::int8 as inserted,
      coalesce(sum(s.updated), 0)::int8 as updated, coalesce(sum(s.deleted), 0)::int8 as deleted,
      coalesce(sum(s.rejected), 0)::int8 as rejected, coalesce(sum(s.credits), 0)::int8 as credits,
      coalesce(json_agg(json_build_object('stream', s.stream, 'state', s.state, 'seen', s.seen, 'expected', s.expected,
        'credits', s.credits, 'waits_for', s.waits_for, 'note', n.note, 'error', s.error, 'remedy', s.remedy)
        order by k.place), '[]') as streams
    from sync.run_streams s join sync.stored_run_streams n using (run_id, stream_key) join sync.streams k using (stream_key)
    where s.run_id = o.id) t
  order by r.id desc`;

/** `range`: time range of the graph. */
export async function readAccount(db: pg.Pool, account: string, range: Range): Promise<AccountFigures> {
  return inSnapshot(db, async client => {
    const all = async <T extends pg.QueryResultRow>(sql: string): Promise<T[]> =>
      (await client.query<T>(sql, [account])).rows;
    const at = (await client.query<{ at: Date }>('select now() as at')).rows[0]!.at;
    const runs = await all<RunFigures & { quiet: boolean }>(runsSql);
    const requests = new Map<SourceName, Bucket[]>();
    for (const { name } of summed) requests.set(name, await creditBuckets(client, account, name, 'requests'));
    const anHourAgo = at.getTime() - 3_600_000;
    return {
      at,
      account,
      streams: await all<StreamFigures>(`${statusSql} where s.account_id = $1 order by k.place`),
      gaps: await all<Gap>(
        `select h.stream, h.list, h.gap_from, h.gap_to, h.reason from sync.gaps h
         where h.account_id = $1 order by h.gap_to desc limit ${shownGaps}`,
      ),
      problems: [...(await all<Problem>(problemsSql)), ...(await readClockProblems(client, [account]))],
      paused: await all<Paused>(
        'select stream, paused_at, paused_by, reason from sync.paused where account_id = $1 order by stream',
      ),
      runs: runs.filter(({ quiet }) => !quiet).slice(0, shownRuns),
      quiet: runs.filter(({ quiet, started_at }) => quiet && started_at.getTime() > anHourAgo).length,
      day: await all(
        `select kind, state, started_at, finished_at from sync.stored_runs
         where account_id = $1 and id > (
           select coalesce(max(id), 0) from sync.stored_runs
           where account_id = $1 and finished_at < now() - interval '24 hours')
         order by id limit ${mostOfDay}`,
      ),
      workers: await all<Worker>(
        `select id, host, pid, version, started_at from sync.workers
         where account_id = $1 and works and sync.is_alive(id) order by id`,
      ),
      operations: await all<Operation>(
        `select id, at, who, action, subject, outcome from sync.operations
         where account_id = $1 order by at desc, id desc limit ${shownOperations}`,
      ),
      credits: await creditBuckets(client, account, graphed.name, range),
      requests,
      lake: await readLakeStatus(client),
    };
  });
}

export interface AccountLine {
  readonly account: string;
  readonly streams: readonly StreamFigures[];
  readonly problems: Readonly<Record<Severity, number>>;
  readonly workers: number;
}

/** All accounts, by name. */
export async function readFleetFigures(
  db: pg.Pool,
): Promise<{ at: Date; accounts: AccountLine[]; lake: LakeStatus | undefined }> {
  return inSnapshot(db, async client => {
    const { rows } = await client.query<{ at: Date; account: string; workers: number } & Record<Severity, number>>(
      `with alive as materialized (
         select account_id, count(*) as workers from sync.live_workers where works group by account_id)
       select now() as at, a.account_id as account, coalesce(w.workers, 0) as workers,
         count(p) filter (where p.severity = 'critical') as critical,
         count(p) filter (where p.severity = 'warning') as warning,
         count(p) filter (where p.severity = 'info') as info
       from sync.accounts a left join sync.problems p using (account_id) left join alive w using (account_id)
       group by a.account_id, w.workers order by a.account_id`,
    );
    const streams = (await client.query<StreamFigures>(`${statusSql} order by s.account_id, k.place`)).rows;
    const byAccount = Map.groupBy(streams, ({ account }) => account);
    const at = rows[0]?.at ?? (await client.query<{ at: Date }>('select now() as at')).rows[0]!.at;
    return {
      at,
      lake: await readLakeStatus(client),
      accounts: rows.map(({ account, workers, critical, warning, info }) => ({
        account,
        workers,
        problems: { critical, warning, info },
        streams: byAccount.get(account) ?? [],
      })),
    };
  });
}

/** Names of the accounts in the warehouse. */
export async function accountNames(db: pg.Pool): Promise<string[]> {
  const { rows } = await db.query<{ account: string }>(
    'select account_id as account from sync.accounts order by account_id',
  );
  return rows.map(({ account }) => account);
}

/** Names of the job queues, by account. */
export async function queueNames(db: pg.Pool): Promise<ReadonlyMap<string, string>> {
  const { rows } = await db.query<{ account: string; queue: string }>(
    'select account_id as account, queue from sync.accounts order by account_id',
  );
  return new Map(rows.map(({ account, queue }) => [account, queue]));
}

/** Longest duration of a query. The page must not block other work. */
const longestMs = 20_000;

export function inSnapshot<T>(db: pg.Pool, read: (client: Client) => Promise<T>): Promise<T> {
  return transaction(db, async client => {
    await client.query('set transaction isolation level repeatable read, read only');
    await client.query(`set local statement_timeout = ${longestMs}`);
    return read(client);
  });
}
