/** The jobs of the lake in a process of `start`: taken from their queue, and added when they are due. */

import { createTask } from 'node-cron';
import type pg from 'pg';
import type { Logger } from 'pino';
import type { Clock } from '../clock.ts';
import type { Job } from '../engine/queue/job.ts';
import type { OpenQueue, Queues } from '../engine/queue/job-queue.ts';
import { isAway, ShelfdeskError } from '../errors.ts';
import { OpenStack } from '../open-stack.ts';
import { readLake, type StoredLake } from './state.ts';
import { exportedTables, type LakePlace, type LakeTable } from './table.ts';

/** The context of the jobs of the lake. */
export interface LakeWork {
  readonly url: string;
  readonly pg: pg.Pool;
  readonly state: StoredLake;
  readonly place: LakePlace;
  readonly tables: readonly LakeTable[];
  readonly queue: Pick<OpenQueue, 'add'>;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly show: (line: string) => void;
}

export interface LakeDeps {
  readonly url: string;
  readonly pg: pg.Pool;
  readonly queues: Queues;
  readonly reach: Omit<LakePlace, 'path'>;
  readonly tables: readonly LakeTable[];
  readonly jobs: readonly Job<LakeWork>[];
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly log: Logger;
}

/** How often a process looks whether the lake was turned on or off. */
const lookMs = 60_000;

export interface LakeAtWork extends AsyncDisposable {
  readonly work: LakeWork;
}

/** Takes the jobs of the lake until it is disposed of. */
export async function workOnLake(deps: LakeDeps, state: StoredLake, show: LakeWork['show']): Promise<LakeAtWork> {
  await using stack = new OpenStack();
  const queue = stack.use(deps.queues.open(state.queue));
  const { url, pg: db, clock, signal, log, reach } = deps;
  const work: LakeWork = {
    ...{ url, pg: db, state, clock, signal, queue, show },
    place: { ...reach, path: state.path },
    tables: exportedTables(deps.tables, state),
  };
  const running = new Set<Promise<void>>();
  const perform = async (name: string, data: unknown) => {
    const job = deps.jobs.find(one => one.name === name);
    if (job === undefined) throw new Error(`this version of Shelfdesk knows no job ${name}`);
    try {
      await job.run(work, data);
    } catch (error) {
      log[error instanceof ShelfdeskError ? 'warn' : 'error']({ job: name, err: error }, 'a job of the lake failed');
      throw error;
    }
  };
  const taking = queue.work(
    async delivery => {
      const done = perform(delivery.name, delivery.data);
      running.add(done);
      await done.finally(() => running.delete(done));
    },
    error => log.debug({ error: error.message }, 'the queue of the lake is in trouble; it is tried again'),
  );
  stack.defer(() => taking.close(Promise.allSettled([...running])));
  const opened = stack.move();
  return { work, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

/** Works on the lake while it is on, and adds an export whenever the schedule says so. Never throws. */
export function keepLake(deps: LakeDeps, schedule: string): AsyncDisposable {
  const leaving = new AbortController();
  const signal = AbortSignal.any([deps.signal, leaving.signal]);
  let open: LakeAtWork | undefined;
  const add = () => {
    const minute = new Date(deps.clock.now()).toISOString().slice(0, 16).replaceAll(':', '-');
    open?.work.queue.add('export-lake', `export-${minute}`, {}).catch(failed);
  };
  const failed = (error: unknown) => {
    if (!signal.aborted)
      deps.log[isAway(error) ? 'debug' : 'error']({ err: error }, 'the lake could not be looked after');
  };
  const task =
    schedule === '' ? undefined : createTask(schedule, add, { timezone: 'UTC', suppressMissedWarning: true });
  void task?.start();
  const looking = (async () => {
    while (!signal.aborted) {
      try {
        const state = await readLake(deps.pg);
        if (open !== undefined && state?.queue !== open.work.state.queue) {
          await open[Symbol.asyncDispose]();
          open = undefined;
        }
        if (open === undefined && state !== undefined) open = await workOnLake({ ...deps, signal }, state, () => {});
      } catch (error) {
        failed(error);
      }
      await deps.clock.sleep(lookMs, signal).catch(() => {});
    }
  })();
  return {
    async [Symbol.asyncDispose]() {
      leaving.abort();
      await task?.destroy();
      await looking;
      await open?.[Symbol.asyncDispose]();
    },
  };
}
