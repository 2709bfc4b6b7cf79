/** Checks of the job queue, in Redis or PostgreSQL. A lost queue loses no data but delays all work. */

import { failedDays } from '../../../engine/queue/job-queue.ts';
import { reconcile } from '../../../engine/queue/reconcile.ts';
import { isOlder, redisFailure, redisVersions, requireRedis } from '../../../engine/queue/redis.ts';
import { noJobs } from '../../../engine/queue/worker.ts';
import { command } from '../../../engine/runs/pauses.ts';
import { waitingWork } from '../../../engine/runs/runs.ts';
import { liveProcesses } from '../../../status/workers.ts';
import { count } from '../../../words.ts';
import type { AccountContext, Check } from '../doctor-context.ts';
import { hasQueueTables, openRuns } from '../doctor-state.ts';
import { fail, ok, skipped, warn } from './check.ts';

const noRedis = 'REDIS_URL is not set: the queue lives in PostgreSQL';
/** Share of its memory, or of its client limit, from which a Redis counts as nearly full. */
const nearlyFull = 0.9;
const dayMs = 24 * 3_600_000;
/** Counting stops here. */
const mostFailed = 100;

export const queueChecks: readonly Check[] = [
  {
    name: 'Redis',
    looks: 'reachability and login of Redis, its role, and its free memory',
    needs: ['servers'],
    async run({ look, redis }) {
      if (look.servers!.redisUrl === undefined) return skipped(noRedis);
      let facts: Awaited<ReturnType<typeof redis>>;
      try {
        facts = await redis();
      } catch (error) {
        return refused(error as Error);
      }
      const { version, mode, role, clients, mostClients, usedBytes, mostBytes } = facts;
      if (role === 'slave' || role === 'replica')
        return fail(`Redis ${version} is a replica, and takes no jobs`, 'Name the primary in REDIS_URL.');
      if (mode === 'cluster')
        return fail(
          `Redis ${version} is a cluster, which this queue does not speak`,
          'Name a single Redis in REDIS_URL.',
        );
      if (mostClients !== undefined && clients > mostClients * nearlyFull)
        return warn(`Redis has ${clients} of at most ${mostClients} clients`, 'Raise maxclients of Redis.');
      if (mostBytes > 0 && usedBytes > mostBytes * nearlyFull)
        return warn(
          `Redis uses ${percent(usedBytes / mostBytes)} of the memory that it may`,
          'Raise maxmemory of Redis, or give Shelfdesk a Redis of its own.',
        );
      try {
        await requireRedis(look.servers!.redisUrl);
      } catch (error) {
        return refused(error as Error);
      }
      return ok(`Redis ${version}`);
    },
  },
  {
    name: 'Redis version',
    looks: `Redis ${redisVersions.advised} or newer; BullMQ does not work below ${redisVersions.least}`,
    needs: ['Redis'],
    async run({ redis }) {
      return judgeVersion((await redis()).version);
    },
  },
  {
    name: 'Redis eviction',
    looks: 'maxmemory-policy noeviction, so that full memory drops no jobs',
    needs: ['Redis'],
    async run({ redis }) {
      const { policy } = await redis();
      if (policy === 'noeviction') return ok('maxmemory-policy is noeviction');
      return fail(
        policy === undefined
          ? 'Redis does not tell its maxmemory-policy'
          : `maxmemory-policy is ${policy}: jobs may vanish`,
        'Run `redis-cli config set maxmemory-policy noeviction`, and set it in redis.conf. Other users of this Redis may rely on the old one: look first.',
      );
    },
  },
  {
    name: 'Redis persistence',
    looks: 'appendonly, so that jobs survive a restart, and the result of the last write',
    needs: ['Redis'],
    async run({ redis }) {
      const { appends, writes, snapshots } = await redis();
      if (!writes)
        return fail(
          'Redis could not write its files the last time, and may refuse jobs',
          'Look at its log and its disk; then run `redis-cli bgsave`.',
        );
      if (appends) return ok('appendonly is on');
      return warn(
        `appendonly is off${snapshots ? ': a restart loses the jobs since the last snapshot' : ': a restart loses all jobs'}, and workers add them again within seconds`,
        'Run `redis-cli config set appendonly yes`, and set it in redis.conf.',
      );
    },
  },
  {
    name: 'queue backend',
    looks:
      'which queue it is, and that it will do for as many machines as there are; not whether others use another Redis',
    needs: ['tables'],
    async run({ look, warehouse, host }) {
      const { databaseUrl, redisUrl } = look.servers!;
      const living = await liveProcesses((await warehouse()).pg, null);
      const hosts = new Set([host, ...living.map(one => one.host)]);
      if (databaseUrl === undefined && redisUrl !== undefined)
        return warn(
          'REDIS_URL is set, but the warehouse is the embedded one, which only the processes of this folder share',
          'Set DATABASE_URL as well, the same for all machines; or leave REDIS_URL out.',
        );
      if (databaseUrl === undefined && hosts.size > 1)
        return fail(
          `the warehouse is the embedded one, and processes of ${[...hosts].sort().join(', ')} use it`,
          'Set DATABASE_URL to a PostgreSQL server that all of them reach.',
        );
      if (redisUrl !== undefined) return ok(`Redis, for ${count(hosts.size, 'machine')}`);
      return ok(`PostgreSQL, for ${count(hosts.size, 'machine')}; with REDIS_URL it would take ten times as many jobs`);
    },
  },
  {
    name: 'jobs',
    of: 'account',
    looks: 'jobs that failed in the last day, and open runs without a job',
    needs: ['tables'],
    async run(context) {
      const { pg } = await context.warehouse();
      const isAway = context.config.redisUrl !== undefined && !(await answers(context));
      if (isAway) return skipped('Redis does not answer, see above');
      // A stuck run has no living process, whatever its jobs are.
      const stuck = (await openRuns(pg, context.account)).filter(run => run.stuck).map(({ id }) => id);
      const waiting = (await waitingWork(pg, [{ account: context.account, worker: 0 }])).filter(
        ({ run }) => !stuck.includes(run),
      );
      if (context.config.redisUrl === undefined && !(await hasQueueTables(pg)))
        return waiting.length === 0 ? ok('none yet') : lost(context, waiting.length);
      const { bull } = await context.queue();
      const { wait = 0, active = 0, delayed = 0 } = await bull.getJobCounts('wait', 'active', 'delayed');
      if (waiting.length > 0 && wait + active + delayed === 0) return lost(context, waiting.length);
      const says = `${wait + delayed} waiting, ${active} running`;
      const last = await bull.getFailed(0, mostFailed - 1);
      const failed = last.filter(({ finishedOn = 0 }) => finishedOn > context.clock.now() - dayMs).length;
      if (failed === 0) return ok(says);
      return warn(
        `${says}, ${failed}${failed === mostFailed ? ' or more' : ''} failed within a day`,
        `See ${command(context.account, 'runs list')} for what became of their runs. They are kept for ${failedDays} days; nothing waits for them.`,
      );
    },
  },
];

function refused(error: Error) {
  const { message, remedy } = redisFailure(error);
  return fail(message, remedy);
}

const answers = ({ redis }: AccountContext) =>
  redis().then(
    () => true,
    () => false,
  );

const percent = (share: number) => `${Math.round(share * 100)} %`;

// @internal Tests judge versions that this machine does not have.
export function judgeVersion(version: string) {
  if (isOlder(version, redisVersions.least))
    return fail(`Redis ${version} is too old for BullMQ`, `Upgrade it to ${redisVersions.advised} or newer.`);
  if (isOlder(version, redisVersions.advised))
    return warn(`Redis ${version} is older than BullMQ asks for`, `Upgrade it to ${redisVersions.advised} or newer.`);
  return ok(`Redis ${version}`);
}

function lost(context: AccountContext, many: number) {
  return warn(
    `${count(many, 'stream')} of open runs ${many === 1 ? 'has' : 'have'} no job`,
    'Run `npx shelfdesk start`: each worker adds them again within 5 s.',
    {
      says: 'add them again',
      async do() {
        const ctx = await context.ctx();
        await reconcile(ctx.pg, [{ ctx, queue: await context.queue(), worker: 0, jobs: noJobs }]);
        return `added the jobs of ${count(many, 'stream')}`;
      },
    },
  );
}
