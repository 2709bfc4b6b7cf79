/**
 * Verifies a stream of the help desk. Its lists are verified by the engine, which compares the sampled tickets with their
 * messages. All messages are read ticket by ticket.
 */

import type { Context, Outcome } from '../../../engine/context.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import { fromPlace } from '../../../engine/verify/one-by-one.ts';
import type { Verifying } from '../../../engine/verify/read-whole.ts';
import { movePlace } from '../../../engine/verify/verifications.ts';
import { beginVerifying, outcomeOf, verifyList, verifyOrphans } from '../../../engine/verify/verify-list.ts';
import { type Compared, examineNamesOfNothing, examineTicket } from './compare.ts';
import { ticketsAfter, ticketsForAllNames } from './stored.ts';

export async function verifyStream(ctx: Context, claim: Claim, compared: Compared): Promise<Outcome> {
  const { users, customers, tickets, messages } = compared;
  const list = [users, customers].find(({ key }) => key === claim.stream);
  if (list) return verifyList(ctx, claim, list);
  if (claim.stream === tickets.key)
    return verifyList(ctx, claim, tickets, {
      key: messages.key,
      examine: (look, id) => examineTicket(look, compared, id, { whole: true }),
    });
  const { verifying, sample } = await beginVerifying(ctx, claim, tickets);
  await verifyMessages(verifying, compared);
  await examineNamesOfNothing(verifying.look);
  if (sample === null) await verifyOrphans(verifying, tickets.rowFacts?.parts ?? [], messages.key);
  return outcomeOf(verifying);
}

/**
 * Reads every ticket by id with its messages. Each label and inbox name is embedded with one of the tickets that use
 * it.
 */
async function verifyMessages(verifying: Verifying, compared: Compared): Promise<void> {
  const { look } = verifying;
  const { ctx, claim } = look;
  const embeds = await ticketsForAllNames(ctx.pg, claim.account);
  const next = (after: string, limit: number) => ticketsAfter(ctx.pg, claim, after, limit);
  for await (const id of fromPlace(look, 'default', next)) {
    const more = (client: Pick<typeof ctx.pg, 'query'>) => movePlace(client, claim, 'default', id);
    const ok = await examineTicket(look, compared, id, { whole: false, embeds: embeds.get(id) ?? [], more });
    if (!ok) verifying.unread++;
  }
}
