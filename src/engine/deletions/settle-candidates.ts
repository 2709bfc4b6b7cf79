/**
 * Confirms deletion candidates at the source. A list may hide existing records, so a request for 100 ids only narrows
 * the candidates. Each remaining candidate is fetched by id, and only a 404 counts as a deletion.
 *
 * A record that existed a moment ago is fetched twice, because a replica of the source may be behind. No tombstone is
 * written while the deletions could exceed the accepted share. A mass deletion needs a person's confirmation.
 */

import { exitCodes, Fatal, Gone, Retry } from '../../errors.ts';
import type { ListStream, Row, RowFacts } from '../../sources/source.ts';
import { commitWork } from '../commit/commit.ts';
import { type Context, type OpenSource, sourceOf } from '../context.ts';
import type { Client } from '../database/pool.ts';
import { nameOfKey } from '../database/stream-key.ts';
import { listBatch } from '../load/batch.ts';
import { commitRecords, laneOf } from '../load/commit-reply.ts';
import type { Claim } from '../runs/claims.ts';
import { command } from '../runs/pauses.ts';
import {
  askAnew,
  candidatesAfter,
  countCandidates,
  deletedAfter,
  deletedWhen,
  forgetKnown,
  goneSince,
  markDeleted,
  noteAnswer,
  noteWait,
  type Place,
  stillDeleted,
  type Which,
} from './candidates.ts';
import { fetchRecord, fewTries, mostAccepted } from './fetch-record.ts';
import { behindMs, goneBy, lateMs } from './lag.ts';
import { factsOf } from './row-facts.ts';
import { acceptsDeletions } from './swept-ranges.ts';

/**
 * After this many consecutive failures the source is at fault, not the records. The remaining candidates wait for the
 * next sweep.
 */
const mostFailures = 5;
/** A record that existed within this time is fetched twice. */
const recentMs = 3_600_000;
/** A 404 older than this is stale: the record may have come back. It is fetched again. */
const staleMs = 10 * 60_000;
/** Margin between the source's clock and the as_of of a reply. */
const marginMs = 3000;
/** Candidates per query, request or transaction. */
const batchSize = 100;
/** Safe length of the ids in a URL, in characters. */
const longestIds = 4000;

interface Stage {
  readonly ctx: Context;
  readonly source: OpenSource;
  readonly claim: Claim;
  readonly stream: ListStream<Row>;
  readonly facts: RowFacts;
  /** Most deletions that are accepted without a person's confirmation. */
  readonly most: number;
  readonly rows: number;
  gone: number;
  marked: number;
  failures: number;
}

/**
 * Confirms all candidates of a stream, which had so many live rows when the sweep began. Returns a message if the state of some rows could not be determined, otherwise
 * undefined. Throws Fatal for a mass deletion.
 */
export async function settleCandidates(
  ctx: Context,
  claim: Claim,
  stream: ListStream<Row>,
  rows: number,
): Promise<string | undefined> {
  await forgetKnown(ctx.pg, claim);
  const source = sourceOf(ctx, stream.source);
  await askAnew(ctx.pg, claim, staleBefore(ctx, source));
  const { gone, left } = await countCandidates(ctx.pg, claim);
  const accepts = gone + left === 0 || (await acceptsDeletions(ctx.pg, claim.run));
  const most = await mostAccepted(ctx, claim, rows, accepts);
  const facts = factsOf(stream);
  const stage: Stage = { ctx, source, claim, stream, facts, most, rows, gone, marked: 0, failures: 0 };
  await narrow(stage);
  await stopAtMass(stage);
  const told = (await askEach(stage)) && (await askStale(stage)) && (await askAgain(stage));
  // A record that existed a moment ago is not believed deleted after a single 404.
  if (await areFew(stage, told)) await markAllDeleted(stage, told ? {} : { recent: false });
  const after = await countCandidates(ctx.pg, claim);
  const unknown = after.left + (await askForDeleted(stage));
  return unknown > 0 ? `${unknown} ${stream.name} that no list shows could not be fetched by id` : undefined;
}

/** Longest delay of a replica behind the source, with the margin. After this wait a replica knows every record. */
const longestWaitMs = (source: OpenSource) => behindMs(source) + marginMs;

const staleBefore = ({ clock }: Context, { send }: OpenSource) => (send.sourceNow() ?? clock.now()) - staleMs;

/**
 * Whether the number of deletions stays within `most`. If `told` is false, every unconfirmed candidate counts as
 * deleted.
 */
async function areFew({ ctx, claim, most, marked }: Stage, told: boolean): Promise<boolean> {
  const { gone, left } = await countCandidates(ctx.pg, claim);
  return marked + gone + (told ? 0 : left) <= most;
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

/** Narrows the candidates with lists of ids. A record that such a list shows exists. */
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
      await commitRecords({ ctx, claim, stream }, reply, {
        batch: listBatch(stream, { page: 1, perPage: batchSize }, reply),
      });
    } catch (error) {
      if (!(error instanceof Retry || error instanceof Gone || error instanceof Fatal)) throw error;
      ctx.log.debug(
        { reason: error.message },
        'a request for several candidates failed; each candidate is fetched by id',
      );
    }
  }
}

/** Splits ids into lists short enough for a URL. Omits ids with a comma, because a comma separates ids. */
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
 * Fetches candidates one by one, those with the fewest failed attempts first. Permanent failures therefore do not block
 * the others. Returns false if too many consecutive fetches failed.
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
    if (!which.gone && (await areFew(stage, false))) await markAllDeleted(stage, { recent: false });
  }
  return true;
}

/** Fetches candidates again whose 404 is stale, because they may have come back. */
async function askStale(stage: Stage): Promise<boolean> {
  const { ctx, source, claim } = stage;
  const stale = await askAnew(ctx.pg, claim, staleBefore(ctx, source));
  stage.gone -= stale;
  return stale === 0 || askEach(stage);
}

/**
 * Fetches recent candidates a second time, after every replica must have the record. If nothing shows that a record is
 * older than its first read, and that was just now, the wait takes its full length.
 */
async function askAgain(stage: Stage): Promise<boolean> {
  const { ctx, source, claim, facts } = stage;
  const { send } = source;
  const sinceMs = await goneSince(ctx.pg, claim, facts);
  if (sinceMs === undefined) return true;
  const longestMs = longestWaitMs(source) + send.latencyMs();
  const waitMs = Math.min(longestMs, sinceMs + longestMs - (send.sourceNow() ?? sinceMs));
  if (waitMs > 0) {
    const note = `some deletion candidates may be too new for every replica of the source: they are fetched once more in ${Math.ceil(waitMs / 1000)} s. The run may be stopped: the same command resumes here`;
    await write(stage, client => noteWait(client, claim, note));
    await ctx.clock.sleep(waitMs, ctx.signal).finally(() => write(stage, client => noteWait(client, claim, undefined)));
  }
  return askEach(stage, { gone: true, recent: true });
}

/** Fetches one candidate and stores the result. Returns the error if the state of the record is still unknown. */
async function ask(stage: Stage, id: string, again: boolean): Promise<Error | undefined> {
  const { ctx, claim, stream } = stage;
  const answer = await fetchRecord(ctx, claim, stream, id);
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

/**
 * Fetches rows again whose tombstones are one sweep age old. A deletion may be revoked or wrong, and no list shows a
 * hidden record. Returns the number of rows that could not be fetched.
 */
async function askForDeleted(stage: Stage): Promise<number> {
  const { ctx, claim, stream } = stage;
  const when = await deletedWhen(ctx.pg, claim, ctx.sweep.ageMs);
  let unknown = 0;
  stage.failures = 0;
  for (let after: string | undefined; ; ) {
    const ids = await deletedAfter(ctx.pg, claim, when, after, batchSize);
    if (ids.length === 0) return unknown;
    await askTogether(stage, ids);
    for (const id of await stillDeleted(ctx.pg, claim, ids)) {
      ctx.signal.throwIfAborted();
      const answer = await fetchRecord(ctx, claim, stream, id);
      const failed = answer !== undefined && !(answer instanceof Gone);
      stage.failures = failed ? stage.failures + 1 : 0;
      if (failed) unknown++;
      if (stage.failures === mostFailures) return unknown;
    }
    await write(stage);
    after = ids.at(-1);
  }
}

/** Runs a transaction under the claim, which books the credits that belong to no page. */
const write = ({ ctx, claim }: Stage, work?: (client: Client) => Promise<unknown>): Promise<void> =>
  commitWork(ctx, claim, 0, async client => {
    await work?.(client);
    return undefined;
  });

async function stopAtMass(stage: Stage): Promise<void> {
  const { claim, most, rows, gone } = stage;
  if (gone <= most) return;
  await write(stage, client => askAnew(client, claim));
  throw new Fatal(
    `${gone} of ${rows} ${nameOfKey(claim.stream)} and perhaps more seem to have been deleted at the source; none was marked as deleted here`,
    `Look there whether it is so: sync.deletion_candidates names them. If it is, run ${command(claim.account, `sweep ${nameOfKey(claim.stream)} --accept-deletions`)}; if not, the next sweep asks again.`,
  );
}

async function markAllDeleted(stage: Stage, which: Pick<Which, 'recent'>): Promise<void> {
  const { ctx, claim, source, stream, facts } = stage;
  for await (const ids of inBatches(stage, { ...which, gone: true })) {
    await commitWork(ctx, claim, 0, async (client, { nowMs }) => {
      const of = { ids, nowMs, lateMs: lateMs(source) };
      return { counts: { deleted: await markDeleted(client, claim, stream, facts, of) }, stored: ids };
    });
    stage.marked += ids.length;
  }
}
