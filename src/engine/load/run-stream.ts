/** One stream of one run, from taking it up to the last word about it: the body of every job that reads a stream. */

import {
  Busy,
  ClockMoved,
  describeOutage,
  FencedOff,
  Interrupted,
  isAway,
  Paused,
  StreamFailed,
} from '../../errors.ts';
import type { Stream, StreamJobs } from '../../sources/source.ts';
import { type Context, type JobContext, takeCredits } from '../context.ts';
import { nameOfKey } from '../database/stream-key.ts';
import { untilBack } from '../outage.ts';
import { type Claim, finish, finishUntaken, release, takeUp, type Work } from '../runs/claims.ts';
import type { Outcome } from './list-loop.ts';

/** How often the database is looked for while it is away. */
const awayMs = 1000;
/** Where it answers, and only takes no page (a full disk), each try pays for one: so less and less often. */
const longestAwayMs = 60_000;

/** What a job reads; and, while another one reads the same, whether that one's reading will do for it. */
export interface Reads {
  read(ctx: Context, claim: Claim): Promise<Outcome>;
  isDone?(ctx: Context, work: Work): Promise<Outcome | undefined>;
}

/**
 * Failures are written down with the stream, and thrown. A stream that is over already, or paused, is nothing to do.
 * Interrupted, or paused, it is put back at the next page: rows and position are committed, so whoever takes it up goes on
 * there. While the database is away it is waited for, and the stream taken up again.
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
    outcome = await read(ctx, claim);
  } catch (error) {
    if (error instanceof FencedOff || isAway(error)) throw error;
    if (error instanceof Interrupted || error instanceof Paused) {
      // Canceled meanwhile: nobody is to be handed anything.
      if (!(await release(pg, claim, credits())))
        throw new FencedOff(`stream ${nameOfKey(work.stream)} of run ${work.run}`);
      throw error;
    }
    outcome = error instanceof ClockMoved ? { partly: error.message } : { error };
  }
  await finish(pg, claim, time(), { ...outcome, credits: credits() });
  if (outcome.error !== undefined) throw new StreamFailed(nameOfKey(work.stream), outcome.error);
}

/** Throws if the stream cannot do this: a job of another version. */
export function readsOf({ name, jobs }: Stream, kind: keyof StreamJobs): Reads {
  const reads = jobs[kind];
  if (reads === undefined) throw new Error(`stream ${name} has no ${kind}`);
  return reads;
}
