/**
 * Requests a page of a list again if it has unreadable records, and commits a reply with everything that belongs to it.
 */

import { ClockMoved } from '../../errors.ts';
import type { ListStream, Row } from '../../sources/source.ts';
import type { Lane } from '../budget/budget.ts';
import {
  type Batch,
  type Bookkeeping,
  type Care,
  keepBooks,
  nothingWritten,
  type Written,
  writeBatch,
} from '../commit/commit.ts';
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

/**
 * Reads the page again while it has an unreadable record that cannot be fetched by id. Malformed records vary between
 * reads, so every record that any of the reads returned intact is kept.
 */
export async function requestPage<T extends Row>(
  ctx: Context,
  claim: Claim,
  stream: ListStream<T>,
  list: string,
  ask: Ask,
): Promise<Reply<T>> {
  const { send } = sourceOf(ctx, stream.source);
  const cannotBeAskedFor = ({ id }: Unreadable) => id === undefined || stream.get === undefined;
  for (let tries = 1; ; tries++) {
    const reply = await send(stream.request(list, ask), { lane: laneOf(claim), signal: ctx.signal });
    if (tries === mostTries || !reply.unreadable.some(cannotBeAskedFor)) return reply;
    const batch = listBatch(stream, ask, reply);
    await commitNow(ctx, recordsOf(ctx, claim, stream, reply, batch, {}, cannotBeAskedFor));
  }
}

/** Commits the rows of a batch with everything that belongs to them, in a transaction of its own. */
export const commitRecords = <T extends Row>(
  ctx: Context,
  claim: Claim,
  stream: ListStream<T>,
  reply: Reply<T>,
  batch: Batch,
  books: Parameters<typeof recordsOf<T>>[5],
): Promise<void> => commitNow(ctx, recordsOf(ctx, claim, stream, reply, batch, books));

/**
 * The rows of a batch with everything that belongs to them. If the clock of the source has moved, only the rows are
 * committed, and it throws afterwards: the stream ends.
 */
export function recordsOf<T extends Row>(
  ctx: Context,
  claim: Claim,
  stream: ListStream<T>,
  reply: Reply<T>,
  batch: Batch,
  {
    more,
    credits = takeCredits(ctx),
    ...books
  }: Pick<Bookkeeping, 'list' | 'proof' | 'redundant' | 'expected' | 'until'> & {
    /** Further work in the same transaction, repeated with it. `stored`: the ids of the stored records. */
    more?: (client: Client, stored: readonly string[]) => Promise<void>;
    /** Credits of the reply; by default all credits since the last call of takeCredits. */
    credits?: number;
  },
  passedOver: (unreadable: Unreadable) => boolean = () => false,
): Entry {
  const source = sourceOf(ctx, stream.source);
  const unreadable = reply.unreadable.filter(one => !passedOver(one)).map(one => rejectOf(one, batch));
  const clockMoved = reply.clockMovedMs === undefined ? undefined : spanOf(reply.clockMovedMs);
  // A reply that waits to be committed holds its text and no parsed records.
  const { asOf, arrived, text, unreadable: strange } = reply;
  const trueByMs = reply.shownBy;
  const shown = [...reply.records, ...reply.unreadable].flatMap(({ id }) => id ?? []);
  const { notUtf8 } = reply;
  const drift = driftOf(stream, reply.records, reply.unreadable, false, notUtf8);
  const moment = () => {
    const sourceMs = clockMoved === undefined ? source.send.sourceNow() : undefined;
    return { nowMs: ctx.clock.now(), asOfMs: asOf, trueByMs, sourceMs };
  };
  const hasRows = batch.records.length > 0;
  const write = async (client: Client, care: Care, before?: Written) => {
    const at = moment();
    const { counts, rejects, takenOver, mayClear } =
      before ?? (hasRows ? await writeBatch(client, claim, batch, at, care) : nothingWritten());
    const refused = [...unreadable, ...rejects];
    const ids = batch.records.map(({ id }) => id);
    if (stream.rowFacts && mayClear.candidates) await clearCandidates(client, claim, shown, asOf);
    const failed = new Set(rejects.map(({ recordId }) => recordId));
    if (clockMoved === undefined)
      await more?.(
        client,
        ids.filter(id => !failed.has(id)),
      );
    if (stream.rowFacts && isLate(source, asOf))
      await addLateCandidates(client, claim, stream.rowFacts, ids, { asOfMs: asOf, lookbackMs: source.lookbackMs });
    await keepBooks(client, claim, at, {
      counts: {
        ...counts,
        seen: arrived,
        rejected: refused.length,
        credits,
      },
      personal: batch.personal,
      rejects: refused,
      stored: mayClear.rejects ? ids : [],
      drift: [
        ...(counts.cleaned > 0 ? driftOf(stream, parsed(batch), strange, true, notUtf8) : drift),
        ...driftOfTaken(stream, takenOver),
        ...(clockMoved === undefined ? [] : [{ kind: 'clock' as const, path: '', value: clockMoved, seen: 1 }]),
      ],
      ...(clockMoved === undefined ? books : {}),
    });
  };
  const committed = () => {
    if (hasRows) source.stored.ring();
    // A reading proves something as of one clock only, so it ends here.
    if (clockMoved !== undefined) throw new ClockMoved(clockMoved);
  };
  const { list = 'default', proof = {}, redundant = [], expected } = books;
  const { covered, tie, walk, gap, pages } = proof;
  const provesOnly = covered && !tie && walk === undefined && !gap && !pages && redundant.length === 0 && !claim.again;
  const isEmpty = arrived === 0 && more === undefined && clockMoved === undefined;
  const alone =
    provesOnly && isEmpty && yetToBind(claim) === undefined
      ? () => keepProof(ctx.pg, claim, list, covered, { credits, expected })
      : undefined;
  const { version = '' } = stream.merge.declared.root;
  const versions = new Map(reply.records.map(record => [record.id, (record as Record<string, unknown>)[version]]));
  const rows = hasRows && clockMoved === undefined ? { batch, writer: claim, at: moment, versions } : undefined;
  return { write, rows: async () => rows, alone, committed, size: text.length };
}

const parsed = ({ records, record }: Batch): object[] => records.map(({ place }) => parseJson(record(place)) as object);

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
