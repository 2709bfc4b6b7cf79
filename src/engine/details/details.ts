/**
 * What the loop knows of a stream of details. Of the one kind a record is read with its members, once it has changed. Of the other kind
 * the record itself is read, because lists shorten it.
 */
import { Gone, Retry } from '../../errors.ts';
import type { Row } from '../../sources/source.ts';
import type { Lane } from '../budget/budget.ts';
import { dueRejects, saidGone } from '../commit/rejects.ts';
import { type Context, sourceOf } from '../context.ts';
import { goneItself, isBuried, wasThere } from '../deletions/was-there.ts';
import type { Reply } from '../http/request.ts';
import type { SendOptions } from '../http/send.ts';
import type { Told } from '../load/ask-again.ts';
import { commitNow, type Entry } from '../load/commit-queue.ts';
import { noteFailure } from '../load/failures.ts';
import { fewRejects, probed } from '../load/probe.ts';
import { readDetail } from '../load/read-members.ts';
import type { Ms } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import { type ById, type Detail, unitOf, type Wanted } from './detail-rows.ts';
import { Listed } from './listed.ts';
import { embedsFor } from './names.ts';
import { Pending } from './pending.ts';
import { entryOfRecord } from './store-by-id.ts';
import { detailOf, markDeleted } from './store-detail.ts';

/** Hears of a stored reply: whether it is as new as the record that it shows, and whether anything in it was rejected. */
export type Heard = (current: boolean, isRejected: boolean) => void;

export interface Details {
  readonly ctx: Context;
  readonly claim: Claim;
  readonly source: string;
  /** What a person calls one record. */
  readonly unit: string;
  /** Tries of a request. Then the run continues with the next record, and retries the failed one at its end. */
  readonly tries: number;
  /** The lane of requests for single records. */
  readonly lane: Lane;
  /** An id that the source does not know answers like a temporary failure. */
  readonly unknownFails: boolean;
  /** Members that were read before this time, in ms ago, are read again. */
  readonly ageMs?: Ms | undefined;
  /** A reply shows the members alone, without the version of their record. */
  readonly isApart?: boolean;
  send(wanted: Wanted, options: SendOptions): Promise<Reply<Row>>;
  entry(reply: Reply<Row>, wanted: Wanted, heard?: Heard): Entry;
  /** A second 404, of this time, that is believed. */
  bury?(id: string, asOfMs: number): Promise<boolean>;
  /** Failed records that are due. */
  retries(): Promise<Wanted[]>;
  /** Records that were read before and did not fail since. */
  known(): Promise<Wanted[]>;
}

export function detailsOf(ctx: Context, claim: Claim, stream: Detail | ById): Details {
  const { send } = sourceOf(ctx, stream.source);
  const common = { ctx, claim, source: stream.source, unit: unitOf(stream) };
  if (stream.kind === 'by id') {
    const listed = new Listed(ctx.pg, ctx.account, stream);
    return {
      ...common,
      // Each is a request of the daily quota.
      tries: 3,
      // A run that a person started takes precedence. One that the worker started yields to lists.
      lane: claim.kind === 'sync' ? 'fresh' : 'backfill',
      unknownFails: true,
      send: ({ id }, options) => send(stream.request(id), options),
      entry: (reply, wanted, heard) => entryOfRecord(ctx, claim, stream, reply, { wanted, heard }),
      retries: () => listed.retries(new Date(ctx.clock.now())),
      known: () => listed.known(),
    };
  }
  return {
    ...common,
    tries: 4,
    lane: 'fresh',
    unknownFails: false,
    ageMs: stream.ageMs,
    isApart: stream.list !== undefined,
    send: ({ id, due = {} }, options) =>
      readDetail(stream, { id, more: embedsFor(stream, due) }, request => send(request, options)),
    entry: (reply, wanted, heard) => detailOf(ctx, claim, stream, reply, { wanted, heard }),
    // Not of a record so new that a replica may not have it yet. A list of members says nothing of their record, so that is asked for.
    async bury(id, asOfMs) {
      if (!(await saidGone(ctx.pg, claim, id))) return false;
      const isTold = stream.list === undefined || (await isBuried(ctx, stream.of, id));
      const goneMs = isTold ? asOfMs : await goneItself(ctx, stream.of, id);
      const isBelieved = goneMs !== undefined && (await wasThere(ctx, stream.of, id, goneMs));
      if (isBelieved) await markDeleted(ctx, claim, stream, id, goneMs);
      return isBelieved;
    },
    retries: async () => (await dueRejects(ctx.pg, claim, new Date(ctx.clock.now()))).map(id => ({ id })),
    known: () => new Pending(ctx.pg, ctx.account, stream).known(),
  };
}

/**
 * Requests one record. Returns undefined if the source answered with another one, after a merge of both. That is
 * noted as a failure of the requested record.
 */
export async function ask(
  { ctx, claim, unit, tries, send }: Details,
  wanted: Wanted,
  lane: Lane,
  signal = ctx.signal,
): Promise<Reply<Row> | undefined> {
  const reply = await send(wanted, { lane, signal, tries });
  const other = reply.records[0]?.id;
  if (other === undefined || other === wanted.id) return reply;
  await noteFailure(ctx, claim, { askId: wanted.id, reason: `the source answered with ${unit} ${other}` });
  return undefined;
}

/**
 * Handles a 404. The first one is noted, the second one confirms the deletion. A 404 without a Date is only a failure.
 * So is every 404 where nothing is a deletion.
 */
export async function noteGone({ ctx, claim, bury }: Details, id: string, { message, asOf }: Gone): Promise<void> {
  const gone = bury !== undefined && Number.isFinite(asOf);
  if (gone && (await bury(id, asOf))) return;
  await noteFailure(ctx, claim, { askId: id, reason: message, ...(gone && { gone }) });
}

/** Reads one record anew. */
async function readAnew(details: Details, wanted: Wanted): Promise<Told> {
  let told: Told = 'stored';
  const heard: Heard = (_, isRejected) => {
    if (isRejected) told = 'rejected';
  };
  try {
    const reply = await ask(details, wanted, details.lane);
    if (!reply) return 'unknown';
    await commitNow(details.ctx, details.entry(reply, wanted, heard));
    return told;
  } catch (error) {
    if (!(error instanceof Gone)) throw error;
    await noteGone(details, wanted.id, error);
    return 'unknown';
  }
}

/** As `readAnew`. A failure is noted, and returned. */
export async function readNoting(details: Details, wanted: Wanted): Promise<Told | Retry> {
  try {
    return await readAnew(details, wanted);
  } catch (error) {
    if (!(error instanceof Retry)) throw error;
    await noteFailure(details.ctx, details.claim, { askId: wanted.id, reason: error.message });
    return error;
  }
}

/** How the run ends if most of the stream is rejected, and one record that is read anew is rejected too. */
export const mostRejected = (details: Details, options?: { now: boolean }): ReturnType<typeof probed> =>
  probed(
    details.ctx,
    details.claim,
    async id => {
      if (id === undefined) return 'stored';
      if (!details.unknownFails) return readAnew(details, { id });
      const told = await readNoting(details, { id });
      return told instanceof Retry ? 'unknown' : told;
    },
    options,
  );

/** Retries records that failed, or of which a part was rejected. Returns false if most is rejected: then none is. */
export async function retryFailed(details: Details): Promise<boolean> {
  const first = await details.retries();
  // Many that fail alike are not asked for one by one.
  const areMany = first.length >= fewRejects;
  if (areMany && (await mostRejected(details, { now: true }))) return false;
  for (const wanted of areMany ? await details.retries() : first) {
    details.ctx.signal.throwIfAborted();
    await readNoting(details, wanted);
  }
  return true;
}
