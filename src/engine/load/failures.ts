/** Notes a request by id that failed. */

import { keepBooks, noCounts } from '../commit/commit.ts';
import { type Context, takeCredits } from '../context.ts';
import { transaction } from '../database/pool.ts';
import type { Claim } from '../runs/claims.ts';

/** A failed request by id stops no other work: a retry is due later. After a 404 no retry is due. */
export async function noteFailure(
  ctx: Context,
  claim: Claim,
  what: { askId: string; reason: string; gone?: boolean } | { stored: readonly string[] },
): Promise<void> {
  const credits = takeCredits(ctx);
  const at = { nowMs: ctx.clock.now(), asOfMs: 0 };
  await transaction(ctx.pg, client =>
    keepBooks(client, claim, at, {
      counts: { ...noCounts(), credits },
      // A failed request brings no personal data.
      personal: undefined,
      rejects: 'askId' in what ? [{ recordId: what.askId, ...what }] : [],
      stored: 'stored' in what ? what.stored : [],
      drift: [],
    }),
  );
}
