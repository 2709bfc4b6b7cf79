/** Commits work of a run that no reply with rows belongs to. */

import { type Context, takeCredits } from '../context.ts';
import { type Client, transaction } from '../database/pool.ts';
import type { Ms } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import { type Bookkeeping, keepBooks, type Moment, noCounts } from './commit.ts';

interface Done extends Partial<Pick<Bookkeeping, 'stored' | 'expected' | 'list' | 'proof'>> {
  readonly seen?: number;
  readonly deleted?: number;
}

/** One transaction under the claim, with the credits that were spent since the last one. `asOfMs`: of a reply; 0 without one. */
export async function commitWork(
  ctx: Context,
  claim: Claim,
  asOfMs: Ms,
  work: (client: Client, at: Moment) => Promise<Done>,
): Promise<void> {
  const at = { nowMs: ctx.clock.now(), asOfMs };
  const credits = takeCredits(ctx);
  await transaction(ctx.pg, async client => {
    const { seen = 0, deleted = 0, ...books } = await work(client, at);
    const counts = { ...noCounts(), seen, deleted, credits };
    await keepBooks(client, claim, at, { counts, rejects: [], stored: [], drift: [], ...books });
  });
}
