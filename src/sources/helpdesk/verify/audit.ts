/**
 * Certainty for credits that nobody wants: tickets chosen at random are read again with their messages, and compared; what
 * differs is repaired. Then, where that is set, messages that were read long ago, the oldest first. It ends as soon as
 * anybody else has work for the source.
 */
import type { Context } from '../../../app/context.ts';
import type { SourceName } from '../../../engine/http/request.ts';
import type { Outcome } from '../../../engine/load/list-loop.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import type { Look } from '../../../engine/verify/compare-reply.ts';
import {
  chooseAtRandom,
  countFindings,
  noteUnread,
  oldestMessages,
  othersWant,
} from '../../../engine/verify/findings.ts';
import { Spent } from '../../../errors.ts';
import type { Catalog } from '../../books/compare.ts';
import { verifyAtRandom } from '../../books/verify.ts';
import { type Compared, examineTicket } from './compare.ts';

/** A fresh run takes seconds: so long it is waited for. */
const patienceMs = 20_000;
const lookMs = 1000;
/** Of looking up what is oldest. */
const batchSize = 100;
/** Then the next one begins, and its results are told. */
const longestMs = 3_600_000;
/** One shelf is compared for so many volumes: it costs a request, and one for each page of what stands on it. */
const volumesToShelf = 5;

export async function audit(ctx: Context, claim: Claim, compared: Compared): Promise<Outcome> {
  const begunMs = ctx.clock.monotonic();
  const { ticketsPerHour, messagesAgeMs } = ctx.helpdesk.audit;
  const look: Look = { ctx, claim, repair: true, random: true, expected: ticketsPerHour };
  const limit = ticketsPerHour - (await countFindings(ctx.pg, claim));
  for (const id of await chooseAtRandom(ctx.pg, claim, { limit, chance: ctx.random() })) {
    if (!(await isFree(ctx, 'helpdesk'))) return {};
    if (!(await examineTicket(look, compared, id, { whole: true })))
      await noteUnread(ctx.pg, claim, id, ctx.helpdesk.send.sourceNow() ?? ctx.clock.now());
  }
  if (messagesAgeMs === undefined) return {};
  const tried = new Set<string>();
  while (ctx.clock.monotonic() - begunMs < longestMs) {
    const beforeMs = (ctx.helpdesk.send.sourceNow() ?? ctx.clock.now()) - messagesAgeMs;
    const oldest = await oldestMessages(ctx.pg, claim.account, beforeMs, batchSize + tried.size);
    const ids = oldest.filter(id => !tried.has(id));
    if (ids.length === 0) break;
    for (const id of ids) {
      if (!(await isFree(ctx, 'helpdesk'))) return {};
      // Whatever comes of it: what could not be read stays among the oldest.
      tried.add(id);
      await examineTicket({ ...look, random: false, expected: undefined }, compared, id, { whole: true });
    }
  }
  return {};
}

/** Volumes, or shelves with what stands on them. Requests that are spent end it: others need those of the next day as well. */
export async function auditBooks(ctx: Context, claim: Claim, catalog: Catalog): Promise<Outcome> {
  const { auditVolumesPerHour: many } = ctx.books;
  const sample = claim.stream === 'volumes' ? many : Math.ceil(many / volumesToShelf);
  const look: Look = { ctx, claim, repair: true, random: true, expected: sample };
  try {
    await verifyAtRandom(look, catalog, sample, () => isFree(ctx, 'books'));
  } catch (error) {
    if (!(error instanceof Spent)) throw error;
  }
  return {};
}

async function isFree(ctx: Context, source: SourceName): Promise<boolean> {
  for (let waitedMs = 0; ; waitedMs += lookMs) {
    ctx.signal.throwIfAborted();
    if (!(await othersWant(ctx.pg, ctx.account, source))) return true;
    if (waitedMs >= patienceMs) return false;
    await ctx.clock.sleep(lookMs, ctx.signal);
  }
}
