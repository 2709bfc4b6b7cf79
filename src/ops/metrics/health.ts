/**
 * Answers of the health endpoints. livez: this process runs. readyz: its servers answer, so that it can work. healthz:
 * freshness targets are met; it concerns the mirror and not this process, so it is for people and alarms, not for
 * restarts.
 */
import type pg from 'pg';
import type { Clock } from '../../clock.ts';
import { pendingMigrations } from '../../engine/database/migrate.ts';
import { accountNames } from '../../status/accounts.ts';
import { readProblems } from '../../status/problems.ts';
import { readStreams } from '../../status/streams.ts';
import { count } from '../../words.ts';

/** A server that has not answered by then counts as unavailable. Probes give up after a few seconds, too. */
const patienceMs = 2000;
/** Longer time limit for the state of all accounts, which takes longer on a busy server. */
const standingMs = 10_000;

export interface Watched {
  readonly pg: pg.Pool;
  readonly clock: Clock;
  /** Rejects if the server of the queues is unavailable. */
  readonly pingQueues: () => Promise<void>;
}

export interface Health {
  /** 200 if everything is well, 404 for an unknown account, otherwise 503. */
  readonly status: 200 | 404 | 503;
  readonly body: Readonly<Record<string, unknown>>;
}

export const livez = (): Health => ({ status: 200, body: { status: 'ok' } });

/** Each of `database`, `migrations` and `queue` is 'ok', or the error and its remedy. */
export async function readyz(watched: Watched): Promise<Health> {
  const { pg, pingQueues } = watched;
  const database = await answer(watched, 'the database', async () => {
    await pg.query('select');
  });
  const [migrations, queue] = await Promise.all([
    database === 'ok' ? answer(watched, 'the database', () => whatIsPending(pg)) : 'not looked at',
    answer(watched, 'the queue', pingQueues),
  ]);
  const checks = { database, migrations, queue };
  const ready = Object.values(checks).every(said => said === 'ok');
  return { status: ready ? 200 : 503, body: { status: ready ? 'ok' : 'not ready', checks } };
}

/** For callers without a token: the texts may name servers and their addresses. */
export function forStrangers({ status, body: { checks, ...body } }: Health): Health {
  const told = Object.entries(checks as Record<string, string>).map(([what, said]) => [
    what,
    said === 'ok' ? 'ok' : 'not ok',
  ]);
  return { status, body: { ...body, checks: Object.fromEntries(told) } };
}

async function whatIsPending(db: pg.Pool): Promise<string | undefined> {
  const { missing, unknown } = await pendingMigrations(db);
  if (unknown.length > 0) return `the database comes from a newer Shelfdesk (${unknown.join(', ')}): upgrade this one`;
  if (missing.length > 0)
    return `${count(missing.length, 'migration is', 'migrations are')} missing: run \`npx shelfdesk migrate\``;
  return undefined;
}

/** Returns 'ok' or the error. `look` returns the error or throws it. */
export async function answer(
  { clock }: Pick<Watched, 'clock'>,
  what: string,
  look: () => Promise<unknown>,
  ms = patienceMs,
): Promise<string> {
  const done = new AbortController();
  const tooLate = clock.sleep(ms, done.signal).then(
    () => `${what} does not answer within ${ms / 1000} s`,
    () => 'ok',
  );
  try {
    const said = await Promise.race([look(), tooLate]);
    return typeof said === 'string' ? said : 'ok';
  } catch (error) {
    return `${what} does not answer: ${error instanceof Error ? error.message : String(error)}`;
  } finally {
    done.abort();
  }
}

/**
 * 503 while a stream is behind its target or a critical problem is open (sync.problems), for one account or for all.
 * The body names each problem with its remedy, and the state of each stream. 404 for an account without data: a
 * misspelled name would be healthy forever.
 */
export async function healthz(watched: Watched, account?: string): Promise<Health> {
  let found: Awaited<ReturnType<typeof standing>> | undefined;
  const look = async () => {
    found = await standing(watched.pg, account);
  };
  const database = await answer(watched, 'the database', look, standingMs);
  if (found === undefined) return { status: 503, body: { status: 'unknown', database } };
  const { isHere, ...stands } = found;
  if (!isHere)
    return { status: 404, body: { status: 'unknown', says: 'The warehouse holds nothing of this account.' } };
  const well = stands.broken.length === 0;
  return { status: well ? 200 : 503, body: { status: well ? 'ok' : 'broken', ...stands } };
}

async function standing(db: pg.Pool, account: string | undefined) {
  const accounts = account === undefined ? null : [account];
  const isHere = accounts === null || (await accountNames(db)).includes(accounts[0]!);
  const broken = (await readProblems(db, accounts))
    .filter(({ severity, problem }) => severity === 'critical' || problem === 'past_target')
    .map(({ source: _, severity: __, ...problem }) => problem);
  const streams = await readStreams(db, accounts, 'account', 'name', 'state', 'behind_seconds', 'target_seconds');
  return { isHere, broken, streams: streams.map(({ name: stream, ...one }) => ({ stream, ...one })) };
}
