/** Runs the accounts of a process of `start`: their jobs, runs and schedules. */

import { systemClock } from '../clock.ts';
import type { Job } from '../engine/queue/job.ts';
import { keepReconciling, type Member, openWaiting, reconcile } from '../engine/queue/reconcile.ts';
import { keepRereading } from '../engine/queue/reread.ts';
import { keepSchedule } from '../engine/queue/schedule.ts';
import { work } from '../engine/queue/worker.ts';
import { forgetOld } from '../engine/runs/slots.ts';
import { isAway } from '../errors.ts';
import { OpenStack } from '../open-stack.ts';
import { type Ground, openAccountOn } from './account.ts';
import type { Config } from './config.ts';

const dayMs = 24 * 3_600_000;
/**
 * Interval of looks for work without a notification: retries that are due, a quota that has reset, rows that another
 * process stored before it died.
 */
const anywayMs = 60_000;

/** The timers of all accounts fire in the same second. This is the mean distance between two accounts. */
const apartMs = 20;
/** With many accounts, the notifications of this time share a look. */
const togetherMs = 100;

/** The accounts that a process serves. One look, every few seconds, is for all of them. */
export interface Rounds extends AsyncDisposable {
  readonly ground: Ground;
  readonly signal: AbortSignal;
  readonly members: Set<Serving>;
  /** Looks at this account soon. */
  ring(member: Serving): void;
  /** Rejects when a look failed for a permanent reason. */
  readonly failed: Promise<never>;
}

interface Serving extends Member {
  /** Takes due slots and opens runs for what waits, unless that is being done. */
  openDue(): void;
}

/** `report` is called after each look. */
export function keepRounds(
  ground: Ground,
  signal: AbortSignal,
  report: (members: readonly Member[]) => Promise<void>,
): Rounds {
  const { log, warehouse } = ground;
  const members = new Set<Serving>();
  const rung = new Set<Serving>();
  const look = async (all: boolean) => {
    if (members.size > 1) await systemClock.sleep(togetherMs, signal);
    const asked = [...(all ? members : rung)].filter(one => members.has(one));
    rung.clear();
    for (const one of asked) one.openDue();
    if (asked.length > 0) await reconcile(warehouse.pg, asked);
    await report([...members]);
  };
  const { ring, stop, failed } = keepReconciling({ clock: systemClock, log, signal }, look);
  return {
    ...{ ground, signal, members, failed },
    ring(member) {
      rung.add(member);
      ring();
    },
    [Symbol.asyncDispose]: async () => stop(),
  };
}

export interface Served extends AsyncDisposable {
  /** Number of this process in sync.workers, for this account. */
  readonly worker: number;
  /** Rejects when the account fails for a permanent reason. */
  readonly failed: Promise<never>;
}

/** Serves one account, until it is disposed of. */
export async function serve(rounds: Rounds, config: Config, jobs: readonly Job[]): Promise<Served> {
  await using stack = new OpenStack();
  const { ground, members, signal } = rounds;
  const { ctx, queue: name, presence } = stack.use(await openAccountOn(ground, config, { signal, works: true }));
  const queue = stack.use(ground.queues.open(name));
  const leaving = new AbortController();
  const over = AbortSignal.any([signal, leaving.signal]);
  const { promise: failed, reject } = Promise.withResolvers<never>();
  failed.catch(() => {}); // The caller awaits the failure.

  /** Aborted when a list of the source has stored rows. They may wait for their details. */
  let quiet: AbortSignal[] = [];
  let mayWait = true;
  let lookedMs = 0;
  let forgotMs = Number.NEGATIVE_INFINITY;
  const openWhatIsDue = async () => {
    let opened = (await schedule.look()) || (await rereading.look());
    const nowMs = ctx.clock.monotonic();
    if (mayWait || quiet.some(({ aborted }) => aborted) || nowMs - lookedMs >= anywayMs) {
      mayWait = false;
      quiet = [...ctx.sources.values()].map(({ stored }) => stored.next());
      lookedMs = nowMs;
      opened = (await openWaiting(ctx, presence.id)) || opened;
    }
    if (opened) rounds.ring(member);
    if (nowMs - forgotMs < dayMs) return;
    await forgetOld(ctx.pg, ctx.account, new Date(ctx.clock.now()));
    forgotMs = nowMs;
  };
  let opening = false;
  const openDue = async () => {
    if (opening || over.aborted) return;
    opening = true;
    try {
      await openWhatIsDue();
    } catch (error) {
      mayWait = true;
      // The look that all accounts share waits for the database, and says so.
      if (!isAway(error) && !over.aborted) reject(error);
    } finally {
      opening = false;
    }
  };
  // A random order, so that no account is always the last.
  const alarm = () => {
    const waitMs = members.size > 1 ? ctx.random() * members.size * apartMs : 0;
    ctx.clock.sleep(waitMs, over).then(openDue, () => {});
  };
  const schedule = stack.use(keepSchedule(ctx, config.schedule, presence.id, alarm));
  const rereading = keepRereading(ctx, presence.id);
  const afterEach = (stream: string) => {
    // Other work may wait after the end of a stream of details, which runs for some minutes. Lists report stored rows
    // themselves.
    mayWait ||= ctx.streams.some(({ key, kind }) => key === stream && kind !== 'list');
    rounds.ring(member);
  };
  const working = stack.use(work(ctx, queue, jobs, { worker: presence.id, afterEach }));
  const member: Serving = { ctx, queue, worker: presence.id, jobs: working.jobs, openDue };
  members.add(member);
  rounds.ring(member);
  stack.defer(() => {
    leaving.abort();
    members.delete(member);
  });
  const opened = stack.move();
  return { worker: presence.id, failed, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}
