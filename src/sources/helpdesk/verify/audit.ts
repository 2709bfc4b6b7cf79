/**
 * Certainty for credits that nobody wants: tickets chosen at random are read again with their messages, and compared; what
 * differs is repaired. Then, where that is set, messages that were read long ago, the oldest first. It ends as soon as
 * anybody else has work for the source.
 */

import type { Context } from '../../../engine/context.ts';
import type { Outcome } from '../../../engine/load/list-loop.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import type { Look } from '../../../engine/verify/compare-reply.ts';
import { countFindings } from '../../../engine/verify/findings.ts';
import { isFree } from '../../../engine/verify/is-free.ts';
import { helpdeskOf } from '../open.ts';
import { type Compared, examineTicket } from './compare.ts';
import { chooseAtRandom, noteUnread, oldestMessages } from './rows.ts';

/** Of looking up what is oldest. */
const batchSize = 100;
/** Then the next one begins, and its results are told. */
const longestMs = 3_600_000;

export async function audit(ctx: Context, claim: Claim, compared: Compared): Promise<Outcome> {
  const begunMs = ctx.clock.monotonic();
  const { ticketsPerHour, messagesAgeMs } = helpdeskOf(ctx).audit;
  const look: Look = { ctx, claim, repair: true, random: true, expected: ticketsPerHour };
  const limit = ticketsPerHour - (await countFindings(ctx.pg, claim));
  for (const id of await chooseAtRandom(ctx.pg, claim, { limit, chance: ctx.random() })) {
    if (!(await isFree(helpdeskOf(ctx), ctx))) return {};
    if (!(await examineTicket(look, compared, id, { whole: true })))
      await noteUnread(ctx.pg, claim, id, helpdeskOf(ctx).send.sourceNow() ?? ctx.clock.now());
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
      // Whatever comes of it: what could not be read stays among the oldest.
      tried.add(id);
      await examineTicket({ ...look, random: false, expected: undefined }, compared, id, { whole: true });
    }
  }
  return {};
}
