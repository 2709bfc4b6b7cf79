/**
 * Reads everything again, for what nothing announces: edits that move no time, records that no list has shown before, and
 * deletions. A page of tickets in the order of creation shows all that there is of a range of time: our rows of it that it
 * lacks become candidates, in the transaction that notes the range as swept. Customers do not show when they were created:
 * of them a whole walk has to end before any row becomes one. See settle-candidates.ts.
 */

import { openSince } from '../../../engine/commit/rejects.ts';
import { type Context, sourceOf } from '../../../engine/context.ts';
import { isRedundant } from '../../../engine/coverage/coverage.ts';
import type { Client } from '../../../engine/database/pool.ts';
import { noteSwept } from '../../../engine/deletions/swept-ranges.ts';
import { listBatch, pageOf } from '../../../engine/load/batch.ts';
import { commitRecords, requestPage } from '../../../engine/load/commit-reply.ts';
import type { Outcome } from '../../../engine/load/list-loop.ts';
import { type CreationOptions, readByCreation } from '../../../engine/reading/by-creation.ts';
import type { Ms, Proof, Step } from '../../../engine/reading/reading.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import { beginAgain } from '../../../engine/runs/ranges.ts';
import { count } from '../../../words.ts';
import type { ListStream, Row } from '../../source.ts';
import { knownCuts } from '../partitions.ts';
import { addCustomerCandidates, addTicketCandidates } from './candidates.ts';
import { settleCandidates } from './settle-candidates.ts';
import { beginWalk, coverWalked, isUndated, nextDue, noteChecked, scopeOf, walkedBy, walkName } from './walks.ts';

/** What is to be read every day is due after so long, so that each night finds it so. */
const dailyMs = 20 * 3_600_000;
/** Replies of a walk may be slower than its first one, and so true as of a little earlier. */
const slackMs = 60_000;
/** The list of tickets without a time of creation: not one of the source's. */
const undated = 'undated';

interface Sweep {
  readonly ctx: Context;
  readonly claim: Claim;
  readonly stream: ListStream<Row>;
  /** What was last updated before this is not wanted. */
  readonly sinceMs: Ms;
  /** How many rows are here: as many are expected. */
  readonly rows: number;
}

export async function sweepStream(ctx: Context, claim: Claim, stream: ListStream<Row>): Promise<Outcome> {
  const started = new Date(ctx.clock.now());
  const sweep: Sweep = { ctx, claim, stream, ...(await scopeOf(ctx.pg, claim)) };
  const gaps = stream.key === 'helpdesk.customers' ? await sweepWhole(sweep) : await sweepLists(sweep);
  const unknown = await settleCandidates(ctx, claim, stream);
  const rejects = await openSince(ctx.pg, claim, started);
  const missing = [
    ...gaps,
    ...(unknown === undefined ? [] : [unknown]),
    ...(rejects > 0 ? [`${count(rejects, 'record')} could not be stored`] : []),
  ];
  return { partly: missing.length > 0 ? missing.join('; ') : undefined };
}

/** What was checked before this is due. Our clock will do for days. */
const dueBefore = ({ ctx, stream }: Sweep, ageMs: number): Ms =>
  (sourceOf(ctx, stream.source).send.sourceNow() ?? ctx.clock.now()) - ageMs;

// --- by creation -------------------------------------------------------------------------------------------------------

/** Answers which gaps it had to leave. */
async function sweepLists(sweep: Sweep): Promise<string[]> {
  const { ctx, claim, stream } = sweep;
  const gaps: string[] = [];
  for (const { name } of stream.lists) {
    if (await isRedundant(ctx.pg, claim, name)) continue;
    gaps.push(...(await sweepList(sweep, name, ctx.sweep.ageMs)));
  }
  // While it was read, the default list may have been found to show what has lists of its own: then it is begun anew.
  const [{ name: first }] = stream.lists;
  if (gaps.length === 0 && (await nextDue(ctx.pg, claim, first, { afterMs: 0, checkedMs: 1 }))?.fromMs === 0)
    gaps.push(...(await sweepList(sweep, first, ctx.sweep.ageMs)));
  // One that somebody asks for has just seen them in the other lists.
  if (stream.daily && !claim.again) gaps.push(...(await sweepList(sweep, stream.daily, dailyMs)));
  return gaps;
}

async function sweepList(sweep: Sweep, list: string, ageMs: number): Promise<string[]> {
  const { ctx, claim } = sweep;
  const checkedMs = dueBefore(sweep, ageMs);
  const gaps: string[] = [];
  for (let afterMs = 0; ; ) {
    const due = await nextDue(ctx.pg, claim, list, { afterMs, checkedMs });
    if (due === undefined) return gaps;
    gaps.push(...(await sweepPart(sweep, list, due)));
    if (due.untilMs === undefined) return gaps;
    afterMs = due.untilMs;
  }
}

/** When a record was shown last, and where it stands. */
type Shown = Map<string, { asOf: Ms; created: Ms }>;

async function sweepPart(
  sweep: Sweep,
  list: string,
  { fromMs, untilMs }: { fromMs: Ms; untilMs: Ms | undefined },
): Promise<string[]> {
  const { ctx, claim, stream, sinceMs, rows } = sweep;
  const { lookbackMs } = sourceOf(ctx, stream.source);
  const { type: types } = stream.enumerations;
  const options: CreationOptions = {
    ...stream.paging,
    lookbackMs,
    cuts: types && (await knownCuts(ctx.pg, claim, types)),
    until: untilMs,
    updatedSince: sinceMs > 0 ? sinceMs - 1000 : undefined,
  };
  const reading = readByCreation(fromMs, options);
  const gaps: string[] = [];
  const shown: Shown = new Map();
  let step: IteratorResult<Step, Proof> = reading.next();
  while (!step.done) {
    ctx.signal.throwIfAborted();
    const { ask } = step.value;
    const reply = await requestPage(ctx, claim, stream, list, ask);
    const page = pageOf(stream, reply, ask.order);
    const ids = [...reply.records, ...reply.unreadable].flatMap(({ id }) => id ?? []);
    for (const id of ids) shown.set(id, { asOf: page.asOf, created: Number.NaN });
    for (const { id, time } of page.rows) shown.set(id, { asOf: page.asOf, created: time });
    step = reading.next(page);
    const proof = step.done ? step.value : step.value.proof;
    const others =
      list === stream.lists[0].name ? stream.lists.filter(one => reply.records.some(r => one.shows?.(r))) : [];
    await commitRecords(ctx, claim, stream, reply, listBatch(stream, ask, reply), {
      redundant: others.map(({ name }) => name),
      expected: rows,
      more: async client => {
        await noteProof(client, sweep, list, proof, shown);
        if (step.done && untilMs === undefined && list === stream.lists[0].name)
          await noteUndated(client, sweep, page.asOf);
      },
    });
    const to = proof.covered?.to ?? 0;
    for (const [id, { created }] of shown) if (created < to) shown.delete(id);
    if (proof.gap) gaps.push(`${list} list, ${new Date(proof.gap.from).toISOString()}: ${proof.gap.reason}`);
  }
  return gaps;
}

/** Everything of the range was shown: what was not is suspected. A source may show so late what has become of it. */
async function noteProof(
  client: Client,
  { ctx, claim, stream }: Sweep,
  list: string,
  { covered, asOf }: Proof,
  shown: Shown,
): Promise<void> {
  if (covered === undefined || asOf === undefined) return;
  const { lookbackMs } = sourceOf(ctx, stream.source);
  const ids = [...shown].filter(([, one]) => one.asOf >= asOf).map(([id]) => id);
  await addTicketCandidates(client, claim, { list, created: covered, asOfMs: asOf, lookbackMs, shown: ids });
  await noteSwept(client, claim, list, covered, asOf - lookbackMs);
}

/** No range speaks of tickets that do not show when they were created: each of them is asked for by its id. */
async function noteUndated(client: Client, { ctx, claim, stream }: Sweep, asOfMs: Ms): Promise<void> {
  const checkedMs = claim.again ? asOfMs : asOfMs - ctx.sweep.ageMs;
  if (!(await isUndated(client, claim, undated, checkedMs))) return;
  const { lookbackMs } = sourceOf(ctx, stream.source);
  await addTicketCandidates(client, claim, { list: undated, asOfMs, lookbackMs, shown: [] });
  await noteSwept(client, claim, undated, { from: -Infinity, to: Infinity }, asOfMs - lookbackMs);
}

// --- whole -------------------------------------------------------------------------------------------------------------

/** A walk from the beginning to the end, whose place is kept. Answers which gaps it had to leave. */
async function sweepWhole(sweep: Sweep): Promise<string[]> {
  const { ctx, claim, stream, rows } = sweep;
  const { lookbackMs } = sourceOf(ctx, stream.source);
  const [{ name: list }] = stream.lists;
  // What came since is new: it was seen when it came.
  const due = await nextDue(ctx.pg, claim, list, { afterMs: 0, checkedMs: dueBefore(sweep, ctx.sweep.ageMs) });
  if (due === undefined || due.fromMs > 0) return [];
  const { fromMs, walk } = await beginWalk(ctx.pg, claim, new Date(ctx.clock.now()));
  const reading = stream.read(fromMs, { ...stream.paging, lookbackMs, firstLoad: true, walk });
  const gaps: string[] = [];
  let step: IteratorResult<Step, Proof> = reading.next();
  while (!step.done) {
    ctx.signal.throwIfAborted();
    const { ask } = step.value;
    const reply = await requestPage(ctx, claim, stream, list, ask);
    step = reading.next(pageOf(stream, reply, ask.order));
    const { done } = step;
    const proof = step.done ? step.value : step.value.proof;
    if (proof.gap) gaps.push(`${list} list, ${new Date(proof.gap.from).toISOString()}: ${proof.gap.reason}`);
    await commitRecords(ctx, claim, stream, reply, listBatch(stream, ask, reply), {
      list: walkName,
      proof: proof.walk === undefined ? {} : { walk: proof.walk },
      expected: rows,
      more: async (client, stored) => {
        await beginAgain(client, claim, reply.asOf - slackMs);
        await noteChecked(client, claim, stored, reply.asOf);
        if (proof.covered) await coverWalked(client, claim, proof.covered);
        const walked = done && gaps.length === 0 ? await walkedBy(client, claim) : undefined;
        if (walked === undefined) return;
        await addCustomerCandidates(client, claim, { begunMs: walked.begunMs, lookbackMs });
        await noteSwept(client, claim, list, { from: 0, to: walked.to }, walked.begunMs - lookbackMs);
      },
    });
  }
  return gaps;
}
