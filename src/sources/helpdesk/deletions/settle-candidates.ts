/**
 * Whether what a list lacked is gone. A list may hide what exists, so asking for a hundred ids at once only narrows the
 * candidates; each one that is left is asked for by its id, and only a 404 counts. Whatever else comes is no deletion. What
 * the source had a moment ago is asked for twice, since a copy of it may be behind. No tombstone comes before it is certain
 * that they are no large part of everything: a source that seems to have lost that is not believed before a person is.
 */

import { type Bookkeeping, keepBooks, noCounts } from '../../../engine/commit/commit.ts';
import { type Context, type OpenSource, sourceOf, takeCredits } from '../../../engine/context.ts';
import { type Client, transaction } from '../../../engine/database/pool.ts';
import { nameOfKey } from '../../../engine/database/stream-key.ts';
import { behindMs, goneBy } from '../../../engine/deletions/lag.ts';
import { acceptsDeletions } from '../../../engine/deletions/swept-ranges.ts';
import { listBatch, singleBatch } from '../../../engine/load/batch.ts';
import { commitRecords, laneOf } from '../../../engine/load/commit-reply.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import { command } from '../../../engine/runs/pauses.ts';
import { exitCodes, Fatal, Gone, Retry } from '../../../errors.ts';
import type { ListStream, Row } from '../../source.ts';
import {
  askAnew,
  buriedAfter,
  buriedWhen,
  bury,
  candidatesAfter,
  countCandidates,
  forgetKnown,
  goneSince,
  noteAnswer,
  noteWait,
  type Place,
  stillBuried,
  type Which,
} from './candidates.ts';
import { noteChecked, scopeOf } from './walks.ts';

/** Tries for one of them before the next one gets its turn. */
const fewTries = 4;
/** So many in a row that tell nothing are no matter of records: what is left is left to the next sweep. */
const mostFailures = 5;
/** Of what was there so short a while ago the source is asked twice. */
const recentMs = 3_600_000;
/** What was gone longer ago may have come back: it is asked for anew. */
const staleMs = 10 * 60_000;
/** Between the source's clock and the as_of of a reply. */
const marginMs = 3000;
/** So few are no mass deletion, however few rows there are. */
const fewDeleted = 20;
/** Looked up, or buried, at once. */
const batchSize = 100;
/** What a URL holds anywhere. */
const longestIds = 4000;

interface Stage {
  readonly ctx: Context;
  readonly source: OpenSource;
  readonly claim: Claim;
  readonly stream: ListStream<Row>;
  /** More than so many seem to be gone: somebody has to say that they are. */
  readonly most: number;
  readonly rows: number;
  gone: number;
  buried: number;
  failures: number;
}

/** Answers what could not be told. */
export async function settleCandidates(
  ctx: Context,
  claim: Claim,
  stream: ListStream<Row>,
): Promise<string | undefined> {
  await forgetKnown(ctx.pg, claim);
  const source = sourceOf(ctx, stream.source);
  await askAnew(ctx.pg, claim, staleBefore(ctx, source));
  const { rows } = await scopeOf(ctx.pg, claim);
  const accepts = await acceptsDeletions(ctx.pg, claim.run);
  const most = accepts ? Infinity : Math.max(fewDeleted, Math.floor(rows * ctx.sweep.mostDeleted));
  const { gone } = await countCandidates(ctx.pg, claim);
  const stage: Stage = { ctx, source, claim, stream, most, rows, gone, buried: 0, failures: 0 };
  await narrow(stage);
  await stopAtMass(stage);
  const told = (await askEach(stage)) && (await askStale(stage)) && (await askAgain(stage));
  // What was there a moment ago and was asked for only once is not believed.
  if (await areFew(stage, told)) await buryAll(stage, told ? {} : { recent: false });
  const { left } = await countCandidates(ctx.pg, claim);
  const unknown = left + (await askForBuried(stage));
  return unknown > 0 ? `${unknown} ${stream.name} that no list shows could not be asked for` : undefined;
}

/** A copy of the source that does not know yet what another one has said is no further behind. */
const longestWaitMs = (source: OpenSource) => behindMs(source) + marginMs;

const staleBefore = ({ clock }: Context, { send }: OpenSource) => (send.sourceNow() ?? clock.now()) - staleMs;

/** Whether no more can turn out to be gone than are believed. Without `told`, any of those that are left. */
async function areFew({ ctx, claim, most, buried }: Stage, told: boolean): Promise<boolean> {
  const { gone, left } = await countCandidates(ctx.pg, claim);
  return buried + gone + (told ? 0 : left) <= most;
}

async function* inBatches(stage: Stage, which: Pick<Which, 'gone' | 'recent'>): AsyncGenerator<string[]> {
  const { ctx, source, claim } = stage;
  const recent = { recentMs: recentMs + source.lookbackMs, behindMs: longestWaitMs(source) };
  for (let after: Place | undefined; ; ) {
    const found = await candidatesAfter(ctx.pg, claim, { ...which, ...recent }, after, batchSize);
    if (found.length === 0) return;
    yield found.map(({ id }) => id);
    after = found.at(-1);
  }
}

/** What a list shows when it is asked for it is there. */
async function narrow(stage: Stage): Promise<void> {
  for await (const batch of inBatches(stage, { gone: false })) await askTogether(stage, batch);
}

async function askTogether({ ctx, source, claim, stream }: Stage, batch: readonly string[]): Promise<void> {
  if (stream.among === undefined) return;
  for (const ids of inUrls(batch)) {
    ctx.signal.throwIfAborted();
    try {
      const request = stream.among(ids);
      const reply = await source.send(request, { lane: laneOf(claim), signal: ctx.signal, tries: fewTries });
      await commitRecords(ctx, claim, stream, reply, listBatch(stream, { page: 1, perPage: batchSize }, reply), {});
    } catch (error) {
      if (!(error instanceof Retry || error instanceof Gone || error instanceof Fatal)) throw error;
      ctx.log.debug({ reason: error.message }, 'they could not be asked for together; each one is');
    }
  }
}

/** An id with a comma would be two. */
function inUrls(ids: readonly string[]): string[][] {
  const parts: string[][] = [];
  let length = Infinity;
  for (const id of ids.filter(id => !id.includes(','))) {
    length += encodeURIComponent(id).length + 3;
    if (length > longestIds) {
      parts.push([]);
      length = 0;
    }
    parts.at(-1)!.push(id);
  }
  return parts;
}

/**
 * One by one, first those that were asked for in vain least often: the same few that fail hold up nobody behind them. False
 * if the source told nothing any more.
 */
async function askEach(stage: Stage, which: Pick<Which, 'gone' | 'recent'> = { gone: false }): Promise<boolean> {
  const failed = new Set<string>();
  for await (const ids of inBatches(stage, which)) {
    for (const id of ids.filter(one => !failed.has(one))) {
      stage.ctx.signal.throwIfAborted();
      const failure = await ask(stage, id, which.gone);
      if (failure) failed.add(id);
      stage.failures = failure === undefined ? 0 : stage.failures + 1;
      if (stage.failures < mostFailures) continue;
      if (failure instanceof Fatal && failure.exitCode === exitCodes.refused) throw failure;
      return false;
    }
    await stopAtMass(stage);
    if (!which.gone && (await areFew(stage, false))) await buryAll(stage, { recent: false });
  }
  return true;
}

/** Those that were said to be gone so long ago that they may have come back. */
async function askStale(stage: Stage): Promise<boolean> {
  const { ctx, source, claim } = stage;
  const stale = await askAnew(ctx.pg, claim, staleBefore(ctx, source));
  stage.gone -= stale;
  return stale === 0 || askEach(stage);
}

/**
 * What was there a moment ago, once more: not before a copy of the source that is behind must have it. Customers do not show
 * when they were created: where they were read for the first time just now, and no ticket of theirs is older, that may take
 * a while.
 */
async function askAgain(stage: Stage): Promise<boolean> {
  const { ctx, source, claim } = stage;
  const { send } = source;
  const sinceMs = await goneSince(ctx.pg, claim);
  if (sinceMs === undefined) return true;
  const longestMs = longestWaitMs(source) + send.latencyMs();
  const waitMs = Math.min(longestMs, sinceMs + longestMs - (send.sourceNow() ?? sinceMs));
  if (waitMs > 0) {
    const note = `some that seem to be gone may have come only just now: they are asked for once more in ${Math.ceil(waitMs / 1000)} s, when no copy of the source can be behind any more. Whoever cannot wait may stop it: the same command goes on here`;
    await write(stage, client => noteWait(client, claim, note));
    await ctx.clock.sleep(waitMs, ctx.signal).finally(() => write(stage, client => noteWait(client, claim, undefined)));
  }
  return askEach(stage, { gone: true, recent: true });
}

/** Answers why nothing is known of it. */
async function ask(stage: Stage, id: string, again: boolean): Promise<Error | undefined> {
  const { claim } = stage;
  const answer = await get(stage, id);
  if (answer instanceof Gone) {
    if (!again) stage.gone++;
    const goneMs = goneBy(stage.source, answer.asOf);
    await write(stage, client => noteAnswer(client, claim, id, { goneMs }));
    return undefined;
  }
  if (again) stage.gone--;
  if (answer) await write(stage, client => noteAnswer(client, claim, id, { error: answer.message }));
  return answer;
}

/** The record is stored; or it is gone, or nothing is known of it. */
async function get({ ctx, source, claim, stream }: Stage, id: string): Promise<Gone | Error | undefined> {
  try {
    const options = { lane: laneOf(claim), signal: ctx.signal, tries: fewTries };
    const reply = await source.send(stream.get!(id), options);
    const other = reply.records[0]?.id ?? reply.unreadable[0]?.id;
    if (other !== id) throw new Retry(`the source answered with ${other ?? 'a record without an id'}`);
    await commitRecords(ctx, claim, stream, reply, singleBatch(stream, reply), {
      more: async (client, stored) => {
        if (claim.stream === 'helpdesk.customers') await noteChecked(client, claim, stored, reply.asOf);
      },
    });
    return undefined;
  } catch (error) {
    if (!(error instanceof Retry || error instanceof Gone || error instanceof Fatal)) throw error;
    // When it was gone is told by the Date of that reply: without one it might be an answer to anything.
    return error instanceof Gone && !Number.isFinite(error.asOf) ? new Retry(error.message) : error;
  }
}

/**
 * What was marked as deleted a sweep's age ago is asked for once more: a deletion may be revoked, or what said so may have
 * been wrong, and no list shows what it hides. Answers how many could not be asked for.
 */
async function askForBuried(stage: Stage): Promise<number> {
  const { ctx, claim } = stage;
  const when = await buriedWhen(ctx.pg, claim, ctx.sweep.ageMs);
  let unknown = 0;
  stage.failures = 0;
  for (let after: string | undefined; ; ) {
    const ids = await buriedAfter(ctx.pg, claim, when, after, batchSize);
    if (ids.length === 0) return unknown;
    await askTogether(stage, ids);
    for (const id of await stillBuried(ctx.pg, claim, ids)) {
      ctx.signal.throwIfAborted();
      const answer = await get(stage, id);
      const failed = answer !== undefined && !(answer instanceof Gone);
      stage.failures = failed ? stage.failures + 1 : 0;
      if (failed) unknown++;
      if (stage.failures === mostFailures) return unknown;
    }
    await write(stage, async () => 0);
    after = ids.at(-1);
  }
}

/** Under the claim, with the credits that no page accounts for. */
async function write(
  { ctx, claim }: Stage,
  work: (client: Client) => Promise<unknown>,
  books: Partial<Pick<Bookkeeping, 'stored' | 'expected'>> = {},
): Promise<void> {
  const credits = takeCredits(ctx);
  const at = { nowMs: ctx.clock.now(), asOfMs: 0 };
  await transaction(ctx.pg, async client => {
    const done = await work(client);
    const counts = { ...noCounts(), deleted: typeof done === 'number' ? done : 0, credits };
    await keepBooks(client, claim, at, { counts, rejects: [], stored: [], drift: [], ...books });
  });
}

async function stopAtMass(stage: Stage): Promise<void> {
  const { claim, most, rows, gone } = stage;
  if (gone <= most) return;
  await write(stage, client => askAnew(client, claim));
  throw new Fatal(
    `${gone} of ${rows} ${nameOfKey(claim.stream)} and perhaps more seem to have been deleted at the source; none was marked as deleted here`,
    `Look there whether it is so: sync.deletion_candidates names them. If it is, run ${command(claim.account, `sweep ${nameOfKey(claim.stream)} --accept-deletions`)}; if not, the next sweep asks again.`,
  );
}

async function buryAll(stage: Stage, which: Pick<Which, 'recent'>): Promise<void> {
  const { ctx, claim } = stage;
  for await (const ids of inBatches(stage, { ...which, gone: true })) {
    await write(stage, client => bury(client, claim, ids, new Date(ctx.clock.now())), { stored: ids });
    stage.buried += ids.length;
  }
}
