/**
 * What a probe is told. livez: this process runs. readyz: what it needs answers, so that it can work. healthz: what was
 * promised is kept; it speaks for the mirror, not for this process, and so is for people and alarms, not for restarts.
 */
import type { Queue } from 'bullmq';
import type pg from 'pg';
import type { Clock } from '../clock.ts';
import { pendingMigrations } from '../warehouse/migrate.ts';

/** What is not answered by then is as good as away: probes give up after a few seconds themselves. */
const patienceMs = 2000;

export interface Watched {
  readonly pg: pg.Pool;
  readonly clock: Clock;
  /** The queues of the accounts that this process serves, by the names of these. */
  readonly queues: ReadonlyMap<string, Pick<Queue, 'getJobCounts' | 'exportPrometheusMetrics'>>;
}

export interface Health {
  /** 200 if all is well, else 503. */
  readonly status: 200 | 503;
  readonly body: Readonly<Record<string, unknown>>;
}

export const livez = (): Health => ({ status: 200, body: { status: 'ok' } });

/** Each of `database`, `migrations` and `queue` is 'ok', or says what is wrong and what to do. */
export async function readyz(watched: Watched): Promise<Health> {
  const { pg, queues } = watched;
  const database = await answer(watched, 'the database', async () => {
    await pg.query('select');
    return undefined;
  });
  const [migrations, ...queue] = await Promise.all([
    database === 'ok' ? answer(watched, 'the database', () => whatIsPending(pg)) : 'not looked at',
    ...[...queues.values()].map(one =>
      answer(watched, 'the queue', async () => {
        await one.getJobCounts('wait');
        return undefined;
      }),
    ),
  ]);
  const checks = { database, migrations, queue: queue.find(said => said !== 'ok') ?? 'ok' };
  const ready = Object.values(checks).every(said => said === 'ok');
  return { status: ready ? 200 : 503, body: { status: ready ? 'ok' : 'not ready', checks } };
}

async function whatIsPending(db: pg.Pool): Promise<string | undefined> {
  const { missing, unknown } = await pendingMigrations(db);
  if (unknown.length > 0) return `the database comes from a newer Shelfdesk (${unknown.join(', ')}): upgrade this one`;
  if (missing.length > 0) return `${missing.length} migrations are missing: run \`npx shelfdesk migrate\``;
  return undefined;
}

/** `look` says what is wrong, if anything. */
async function answer({ clock }: Watched, what: string, look: () => Promise<string | undefined>): Promise<string> {
  const done = new AbortController();
  const tooLate = clock.sleep(patienceMs, done.signal).then(
    () => `${what} does not answer within ${patienceMs / 1000} s`,
    () => 'ok',
  );
  try {
    return (await Promise.race([look(), tooLate])) ?? 'ok';
  } catch (error) {
    return `${what} does not answer: ${error instanceof Error ? error.message : String(error)}`;
  } finally {
    done.abort();
  }
}

interface Broken {
  account: string;
  stream: string | null;
  problem: string;
  says: string;
  remedy: string;
  since: string | null;
}

/**
 * 503 while a stream is past its target or something critical holds (sync.problems): of one account, or of all. The body
 * names what is broken with its remedy, and how each stream stands.
 */
export async function healthz(watched: Watched, account?: string): Promise<Health> {
  let found: { broken: Broken[]; streams: unknown[] } | undefined;
  const database = await answer(watched, 'the database', async () => {
    found = await standing(watched.pg, account);
    return undefined;
  });
  if (found === undefined) return { status: 503, body: { status: 'unknown', database } };
  const well = found.broken.length === 0;
  return { status: well ? 200 : 503, body: { status: well ? 'ok' : 'broken', ...found } };
}

async function standing(db: pg.Pool, account: string | undefined): Promise<{ broken: Broken[]; streams: unknown[] }> {
  const broken = await db.query<Broken>(
    `select account_id as account, stream, problem, says, remedy, since from sync.problems
     where (severity = 'critical' or problem = 'past_target') and ($1::text is null or account_id = $1)
     order by account_id, since`,
    [account ?? null],
  );
  const streams = await db.query(
    `select account_id as account, stream, state, extract(epoch from behind)::float8 as behind_seconds,
       extract(epoch from target)::float8 as target_seconds
     from sync.status where $1::text is null or account_id = $1
     order by account_id, stream`,
    [account ?? null],
  );
  return { broken: broken.rows, streams: streams.rows };
}
