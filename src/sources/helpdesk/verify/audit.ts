/**
 * The audit: spends spare credits on verification. Random tickets are re-read with their messages, compared and
 * repaired. Then, if configured, messages that were last read long ago are re-read, oldest first. The audit ends as
 * soon as another run needs the source.
 */

import type { Context } from '../../../engine/context.ts';
import type { Outcome } from '../../../engine/load/list-loop.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import type { Look } from '../../../engine/verify/compare-reply.ts';
import { countFindings } from '../../../engine/verify/findings.ts';
import { isFree } from '../../../engine/verify/is-free.ts';
import { chooseAtRandom } from '../../../engine/verify/stored-rows.ts';
import { noteUnreadWith } from '../../../engine/verify/verify-list.ts';
import { helpdeskOf } from '../open.ts';
import { type Compared, examineTicket } from './compare.ts';
import { oldestMessages } from './stored.ts';

/** Tickets per query of the oldest messages. */
const batchSize = 100;
/** Longest duration of an audit. The next audit then starts, and results are reported. */
const longestMs = 3_600_000;

export async function audit(ctx: Context, claim: Claim, compared: Compared): Promise<Outcome> {
  const begunMs = ctx.clock.monotonic();
  const { ticketsPerHour, messagesAgeMs } = helpdeskOf(ctx).audit;
  const look: Look = { ctx, claim, repair: true, random: true, expected: ticketsPerHour };
  const limit = ticketsPerHour - (await countFindings(ctx.pg, claim));
  for (const id of await chooseAtRandom(ctx.pg, claim, { limit, chance: ctx.random() })) {
    if (!(await isFree(helpdeskOf(ctx), ctx))) return {};
    if (!(await examineTicket(look, compared, id, { whole: true })))
      await noteUnreadWith(look, compared.tickets, compared.messages, id);
  }
  if (messagesAgeMs === undefined) return {};
  const tried = new Set<string>();
  while (ctx.clock.monotonic() - begunMs < longestMs) {
    const beforeMs = (helpdeskOf(ctx).send.sourceNow() ?? ctx.clock.now()) - messagesAgeMs;
    const oldest = await oldestMessages(ctx.pg, claim.account, beforeMs, batchSize + tried.size);
    const ids = oldest.filter(id => !tried.has(id));
    if (ids.length === 0) break;
    for (const id of ids) {
      if (!(await isFree(helpdeskOf(ctx), ctx))) return {};
      // A ticket that cannot be read stays among the oldest, so failed tickets count as tried too.
      tried.add(id);
      await examineTicket({ ...look, random: false, expected: undefined }, compared, id, { whole: true });
    }
  }
  return {};
}
