/**
 * The audit: spends spare credits on verification. Random tickets are re-read with their messages, compared and
 * repaired. Then, if configured, messages that were last read long ago are re-read, oldest first. The audit ends as
 * soon as another run needs the source.
 */

import { type Context, type Outcome, sourceNow } from '../../../engine/context.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import type { Look } from '../../../engine/verify/compare-reply.ts';
import { isFree } from '../../../engine/verify/is-free.ts';
import { examineSample } from '../../../engine/verify/one-by-one.ts';
import { chooseAtRandom } from '../../../engine/verify/stored-rows.ts';
import { helpdeskOf, sourceName } from '../open.ts';
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
  let goesOn = true;
  await examineSample(look, {
    sample: ticketsPerHour,
    choose: async of =>
      (await chooseAtRandom(ctx.pg, claim, of)).map(id => [
        id,
        () => examineTicket(look, compared, id, { whole: true }),
      ]),
    goesOn: async () => {
      goesOn = await isFree(helpdeskOf(ctx), ctx);
      return goesOn;
    },
    also: [compared.messages.key],
  });
  if (!goesOn || messagesAgeMs === undefined) return {};
  const tried = new Set<string>();
  while (ctx.clock.monotonic() - begunMs < longestMs) {
    const beforeMs = sourceNow(ctx, sourceName) - messagesAgeMs;
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
