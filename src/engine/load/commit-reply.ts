/**
 * Requests a page of a list again if it has unreadable records, and commits a reply with everything that belongs to it.
 */

import { ClockMoved } from '../../errors.ts';
import type { ListStream, Row } from '../../sources/source.ts';
import type { Lane } from '../budget/budget.ts';
import { commitPage, type Page, type Proven } from '../commit/commit.ts';
import type { Batch } from '../commit/page.ts';
import { keepProof, yetToBind } from '../commit/sums.ts';
import { type Context, type OpenSource, sourceOf, takeCredits } from '../context.ts';
import type { Client } from '../database/pool.ts';
import { addLateCandidates, clearCandidates } from '../deletions/candidates.ts';
import { parseJson } from '../exact-json.ts';
import type { Reply, Unreadable } from '../http/request.ts';
import type { Ask, Ms } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import { driftOf, driftOfTaken, listBatch, rejectOf } from './batch.ts';
import { commitNow, type Entry } from './commit-queue.ts';

/** Backfills give way to fresh work. Sweeps, audits and verifications give way to both. */
export function laneOf({ kind }: Claim): Lane {
  if (kind === 'sweep' || kind === 'audit' || kind === 'verify') return 'sweep';
  return kind === 'backfill' ? 'backfill' : 'fresh';
}

export interface Job {
  readonly ctx: Context;
  readonly claim: Claim;
  readonly stream: ListStream<Row>;
}

/**
 * Reads the page again while it has an unreadable record that cannot be fetched by id. Malformed records vary between
 * reads, so every record that any of the reads returned intact is kept.
 */
export async function requestPage(job: Job, list: string, ask: Ask): Promise<Reply<Row>> {
  const { ctx, claim, stream } = job;
  const { send } = sourceOf(ctx, stream.source);
  const cannotBeAskedFor = ({ id }: Unreadable) => id === undefined || stream.get === undefined;
  for (let tries = 1; ; tries++) {
    const reply = await send(stream.request(list, ask), { lane: laneOf(claim), signal: ctx.signal });
    if (tries === mostTries || !reply.unreadable.some(cannotBeAskedFor)) return reply;
    const unreadable = reply.unreadable.filter(one => !cannotBeAskedFor(one));
    await commitRecords(job, reply, { batch: listBatch(stream, ask, reply), unreadable });
  }
}

interface Beside extends Proven {
  readonly batch: Batch;
  /** Records that are rejected. Default: all that could not be read. */
  readonly unreadable?: readonly Unreadable[];
  /** Credits of the reply. Default: all credits since the last call of takeCredits. */
  readonly credits?: number;
  /** Further work in the same transaction, repeated with it. `stored`: the ids of the stored records. */
  readonly more?: (client: Client, stored: readonly string[]) => Promise<void>;
}

/** Commits the rows of a reply with everything that belongs to them, in a transaction of its own. */
export const commitRecords = (job: Job, reply: Reply<Row>, beside: Beside): Promise<void> =>
  commitNow(job.ctx, recordsOf(job, reply, beside));

/**
 * The rows of a reply with everything that belongs to them. If the clock of the source has moved, only the rows are
 * committed, and it throws afterwards: the stream ends.
 */
export function recordsOf(job: Job, reply: Reply<Row>, { more, ...beside }: Beside): Entry {
  const { ctx, claim, stream } = job;
  const { batch, credits = takeCredits(ctx), unreadable = reply.unreadable, ...proven } = beside;
  const source = sourceOf(ctx, stream.source);
  // A reply that waits to be committed holds its text and no parsed records.
  const { asOf, arrived, text, shownBy: trueByMs, clockMovedMs } = reply;
  const isClockMoved = clockMovedMs !== undefined;
  const moment = () => {
    const sourceMs = isClockMoved ? undefined : source.send.sourceNow();
    return { nowMs: ctx.clock.now(), asOfMs: asOf, trueByMs, sourceMs };
  };
  const page: Page = {
    ...{ batch, arrived, credits, ...(isClockMoved ? {} : proven) },
    unreadable: unreadable.map(one => rejectOf(one, batch)),
    drift: driftIn(job, reply, batch),
    derive: deriveFrom(job, reply, batch, isClockMoved ? undefined : more),
  };
  const hasRows = batch.records.length > 0;
  const committed = () => {
    if (hasRows) source.stored.ring();
    // A reading proves something as of one clock only, so it ends here.
    if (isClockMoved) throw new ClockMoved(spanOf(clockMovedMs));
  };
  const { version = '' } = stream.merge.declared.root;
  const versions = new Map<string, unknown>();
  for (const record of reply.records) versions.set(record.id, (record as unknown as Record<string, unknown>)[version]);
  const rows = hasRows && !isClockMoved ? { batch, writer: claim, at: moment, versions } : undefined;
  const isEmpty = arrived === 0 && more === undefined && !isClockMoved;
  return {
    write: (client, care, before) => commitPage({ client, claim, at: moment(), care }, page, before),
    rows: async () => rows,
    ...(isEmpty && { alone: proofOf(job, proven, credits) }),
    ...{ committed, size: text.length },
  };
}

/** What a page without records proves, if it is a range and nothing else: it needs no transaction. */
function proofOf(
  { ctx, claim }: Job,
  { list = 'default', proof = {}, redundant = [], expected }: Proven,
  credits: number,
): (() => Promise<void>) | undefined {
  const { covered, tie, walk, gap, pages } = proof;
  const isMore = tie || walk !== undefined || gap || pages || redundant.length > 0 || claim.again;
  if (covered === undefined || isMore || yetToBind(claim) !== undefined) return undefined;
  return () => keepProof(ctx.pg, claim, list, covered, { credits, expected });
}

function driftIn({ stream }: Job, reply: Reply<Row>, batch: Batch): Page['drift'] {
  const { unreadable, notUtf8, clockMovedMs } = reply;
  const found = driftOf(stream, reply.records, unreadable, false, notUtf8);
  const moved =
    clockMovedMs === undefined ? [] : [{ kind: 'clock' as const, path: '', value: spanOf(clockMovedMs), seen: 1 }];
  const parsed = () => batch.records.map(({ place }) => parseJson(batch.record(place)) as object);
  return ({ counts, takenOver }) => [
    ...(counts.cleaned > 0 ? driftOf(stream, parsed(), unreadable, true, notUtf8) : found),
    ...driftOfTaken(stream, takenOver),
    ...moved,
  ];
}

/** Deletion candidates follow from what a page shows. */
function deriveFrom({ ctx, stream }: Job, reply: Reply<Row>, batch: Batch, more: Beside['more']): Page['derive'] {
  const source = sourceOf(ctx, stream.source);
  const { asOf: asOfMs } = reply;
  const { rowFacts } = stream;
  const shown = [...reply.records, ...reply.unreadable].flatMap(({ id }) => id ?? []);
  return async ({ client, claim }, { mayClear }, stored) => {
    if (rowFacts && mayClear.candidates) await clearCandidates(client, claim, shown, asOfMs);
    await more?.(client, stored);
    if (!rowFacts || !isLate(source, asOfMs)) return;
    const ids = batch.records.map(({ id }) => id);
    await addLateCandidates(client, claim, rowFacts, ids, { asOfMs, lookbackMs: source.lookbackMs });
  };
}

/** +1 h, −10.5 min */
function spanOf(ms: Ms): string {
  const size = Math.abs(ms);
  const [unit, unitMs] = size < 90_000 ? ['s', 1000] : size < 3_570_000 ? ['min', 60_000] : ['h', 3_600_000];
  return `${ms < 0 ? '−' : '+'}${Math.round((10 * size) / unitMs) / 10} ${unit}`;
}

/**
 * A reply that is older than this may have missed a sweep of its rows: the process was suspended with the page in hand.
 */
const lateMs = 10_000;

const isLate = ({ send }: OpenSource, asOf: Ms): boolean => (send.sourceNow() ?? asOf) - asOf > lateMs;

/** Tries for a page with an unreadable record that cannot be fetched by id. */
const mostTries = 3;
