/**
 * Reads the data of the page from the warehouse: one account in one snapshot, so that its figures agree; and a summary
 * of all accounts. Times are the database's.
 */
import type pg from 'pg';
import { type Client, transaction } from '../../engine/database/pool.ts';
import type { SourceName } from '../../engine/http/request.ts';
import { type LakeStatus, readLakeStatus } from '../../lake/state.ts';
import { accountNames } from '../../status/accounts.ts';
import { type Problem, readAllProblems, readProblems } from '../../status/problems.ts';
import { type Run, readRuns } from '../../status/runs.ts';
import { type Figures, readStreams } from '../../status/streams.ts';
import { liveWorkers } from '../../status/workers.ts';
import { type Bucket, creditBuckets, graphed, type Range, summed } from './credits.ts';

const figures = [
  ...['account', 'stream', 'name', 'source', 'state'],
  ...['complete_from', 'complete_through', 'behind_seconds', 'target_seconds'],
  ...['waiting', 'gap_count', 'open_rejects', 'latency_p95_seconds', 'deferred_until', 'unchecked_since'],
] as const satisfies (keyof Figures)[];
export type StreamFigures = Pick<Figures, (typeof figures)[number]>;

export interface Paused {
  /** Empty for the whole account. */
  readonly stream: string;
  readonly paused_at: Date;
  readonly paused_by: string;
  readonly reason: string | null;
}

export interface Operation {
  readonly id: number;
  readonly at: Date;
  readonly who: string;
  readonly action: string;
  readonly subject: string;
  readonly outcome: string;
}

export type AccountFigures = Awaited<ReturnType<typeof readAccount>>;

const shownProblems = 50;
const shownRuns = 15;
/** Number of recent runs from which the shown ones are selected. */
const searchedRuns = 300;
const shownOperations = 8;
/** Runs of a day: a few each minute. */
const mostOfDay = 10_000;

/** A run of every minute that found nothing. */
const isQuiet = ({ kind, state, inserted, updated, deleted, rejected }: Run): boolean =>
  ['fresh', 'hydrate', 'audit'].includes(kind) &&
  state === 'completed' &&
  inserted + updated + deleted + rejected === 0;

/** `range`: time range of the graph. */
export async function readAccount(db: pg.Pool, account: string, range: Range) {
  return inSnapshot(db, async client => {
    const all = async <T extends pg.QueryResultRow>(sql: string): Promise<T[]> =>
      (await client.query<T>(sql, [account])).rows;
    const at = (await client.query<{ at: Date }>('select now() as at')).rows[0]!.at;
    const runs = await readRuns(client, { account, limit: searchedRuns }, at);
    const requests = new Map<SourceName, Bucket[]>();
    for (const { name } of summed) requests.set(name, await creditBuckets(client, account, name, 'requests'));
    const anHourAgo = at.getTime() - 3_600_000;
    return {
      /** Time of the snapshot, by the database's clock. */
      at,
      account,
      streams: await readStreams(client, [account], ...figures, 'gaps'),
      problems: (await readAllProblems(client, [account])).slice(0, shownProblems),
      paused: await all<Paused>(
        'select sync.name_of(stream_key) as stream, paused_at, paused_by, reason from sync.paused where account_id = $1 order by 1',
      ),
      /** Recent runs, newest first, without runs of every minute that found nothing. */
      runs: runs.filter(one => !isQuiet(one)).slice(0, shownRuns),
      quiet: runs.filter(one => isQuiet(one) && one.started_at.getTime() > anHourAgo).length,
      /** Runs of the last 24 hours, quiet ones included. */
      day: await all<{ kind: string; state: string; started_at: Date; finished_at: Date | null }>(
        `select kind, state, started_at, finished_at from sync.stored_runs
         where account_id = $1 and id > (
           select coalesce(max(id), 0) from sync.stored_runs
           where account_id = $1 and finished_at < now() - interval '24 hours')
         order by id limit ${mostOfDay}`,
      ),
      workers: await liveWorkers(client, [account]),
      operations: await all<Operation>(
        `select id, at, who, action, subject, outcome from sync.operations
         where account_id = $1 order by at desc, id desc limit ${shownOperations}`,
      ),
      /** Credit use of the source with the graph. */
      credits: await creditBuckets(client, account, graphed.name, range),
      /** Use of every other source in the last 24 hours, by hour. */
      requests,
      /** Undefined if it is off. */
      lake: await readLakeStatus(client),
    };
  });
}

export interface AccountLine {
  readonly account: string;
  readonly streams: readonly StreamFigures[];
  readonly problems: Readonly<Record<Problem['severity'], number>>;
  readonly workers: number;
}

/** Reads the figures of all accounts, by name. */
export async function readFleetFigures(
  db: pg.Pool,
): Promise<{ at: Date; accounts: AccountLine[]; lake: LakeStatus | undefined }> {
  return inSnapshot(db, async client => {
    const at = (await client.query<{ at: Date }>('select now() as at')).rows[0]!.at;
    const workers = await liveWorkers(client, null);
    const problems = await readProblems(client, null);
    const streams = await readStreams(client, null, ...figures);
    const lake = await readLakeStatus(client);
    const accounts = (await accountNames(client)).map(account => {
      const of = <T extends { account: string }>(all: readonly T[]) => all.filter(one => one.account === account);
      const grave = (severity: Problem['severity']) => of(problems).filter(one => one.severity === severity).length;
      const counts = { critical: grave('critical'), warning: grave('warning'), info: grave('info') };
      return { account, workers: of(workers).length, problems: counts, streams: of(streams) };
    });
    return { at, lake, accounts };
  });
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
