/** Notes a request by id that failed. */

import { commitWork } from '../commit/commit.ts';
import type { Context } from '../context.ts';
import type { Claim } from '../runs/claims.ts';

/** A failed request by id stops no other work: a retry is due later. After a 404 no retry is due. */
export const noteFailure = (
  ctx: Context,
  claim: Claim,
  what: { askId: string; reason: string; gone?: boolean } | { stored: readonly string[] },
): Promise<void> =>
  // A failed request brings no personal data.
  commitWork(ctx, claim, 0, async () =>
    'askId' in what ? { rejects: [{ recordId: what.askId, ...what }], filter: undefined } : what,
  );
