/** The body of every job that reads a stream: takes up one stream of a run, reads it, and writes how it ended. */

import {
  Busy,
  ClockMoved,
  describeOutage,
  FencedOff,
  Interrupted,
  isAway,
  orReason,
  Paused,
  StreamFailed,
} from '../../errors.ts';
import type { Stream, StreamJobs } from '../../sources/source.ts';
import { bookCredits, type Context, type JobContext, type Outcome, type Reads, takeCredits } from '../context.ts';
import { nameOfKey } from '../database/stream-key.ts';
import { untilBack } from '../outage.ts';
import { type Claim, finish, finishUntaken, release, takeUp, type Work } from '../runs/claims.ts';

/** How often a job checks for the database while it is away. */
const awayMs = 1000;
/**
 * Longest pause. A database that answers but stores nothing (a full disk) costs a credit for each try, so the pauses
 * grow.
 */
const longestAwayMs = 60_000;

/**
 * Runs one stream of a run. Failures are written to the stream, and thrown. A stream that has ended or is paused needs
 * no work. If the job is interrupted or paused, it ends after its page: rows and position are committed, so the next
 * claimant resumes there. While the database is away, the job waits, and then takes up the stream again.
 */
export async function runStream(ctx: JobContext, work: Work, reads: Reads): Promise<void> {
  let claimed = 0;
  const read = (job: Context, claim: Claim) => {
    claimed++;
    return reads.read(job, claim);
  };
  let before = 0;
  const attempt = () => {
    before = claimed;
    return once(ctx, work, { ...reads, read });
  };
  await untilBack(attempt, async (error, tries) => {
    const what = { run: work.run, stream: nameOfKey(work.stream), error: error.message };
    ctx.log[tries === 1 ? 'warn' : 'debug'](what, `${describeOutage(error)}; waiting for it`);
    const paid = claimed > before;
    await ctx.clock.sleep(paid ? Math.min(longestAwayMs, awayMs * 2 ** (claimed - 1)) : awayMs, ctx.signal);
  });
}

async function once(ctx: JobContext, work: Work, { read, isDone }: Reads): Promise<void> {
  const { pg } = ctx;
  const time = () => new Date(ctx.clock.now());
  const up = await takeUp(pg, work, ctx.claimant, time);
  if ('over' in up) return;
  if ('busy' in up) {
    const done = await isDone?.(ctx, work);
    if (done === undefined) throw new Busy(`stream ${nameOfKey(work.stream)} of run ${work.run}`, up.busy);
    await finishUntaken(pg, work, up.busy, time(), done);
    return;
  }
  const claim = up.taken;
  ctx.onClaim?.(claim);
  const credits = () => takeCredits(ctx);
  let outcome: Outcome & { error?: unknown };
  try {
    outcome = await read(ctx, claim).finally(() => bookCredits(ctx));
  } catch (thrown) {
    const error = orReason(thrown, ctx.signal);
    if (error instanceof FencedOff || isAway(error)) throw error;
    if (error instanceof Interrupted || error instanceof Paused) {
      // The run was canceled meanwhile, so no other worker gets the stream.
      if (!(await release(pg, claim, credits())))
        throw new FencedOff(`stream ${nameOfKey(work.stream)} of run ${work.run}`);
      throw error;
    }
    outcome = error instanceof ClockMoved ? { partial: error.message } : { error };
  }
  await finish(pg, claim, time(), { ...outcome, credits: credits() });
  if (outcome.error !== undefined) throw new StreamFailed(nameOfKey(work.stream), outcome.error);
}

/** Throws if the stream cannot do this: the job comes from another version. */
export function readsOf({ name, jobs }: Stream, kind: keyof StreamJobs): Reads {
  const reads = jobs[kind];
  if (reads === undefined) throw new Error(`stream ${name} has no ${kind}`);
  return reads;
}
