/** The loop that reads records by id. A failing record is retried with growing delays and blocks no other. */
import { Gone, Retry } from '../../errors.ts';
import type { Lane } from '../budget/budget.ts';
import { countInARow, stillRejected } from '../load/ask-again.ts';
import type { Commits } from '../load/commit-queue.ts';
import { isMostRejected } from '../load/probe.ts';
import type { Wanted } from './detail-rows.ts';
import { ask, type Details, noteGone } from './details.ts';
import { Doubts } from './doubts.ts';

/** Reads of one record per run. A record that changes faster than it can be read is left to the next run. */
const mostReadings = 10;

/** Ends the reading: the rest would be paid for, and rejected. */
export const restIsRejected = new Error(stillRejected);

/** Ends a request that was not sent yet: another reader reads the record. */
export const withdrawn = new Error('another reader reads the record');

/** State that the readers of a job share. */
export interface Shared {
  readonly readings: Map<string, number>;
  readonly doubts: Doubts;
  /** Hears of each stored reply whether it was rejected. */
  readonly manyRejected: (isRejected: boolean) => boolean;
  /** So many were rejected in a row that it is to be looked whether most is. */
  looksRejected: boolean;
}

export const share = (details: Details): Shared => ({
  readings: new Map(),
  doubts: new Doubts(details),
  manyRejected: countInARow(),
  looksRejected: false,
});

/** One of the readers of a job. */
export interface Reader {
  readonly details: Details;
  readonly lane: Lane;
  readonly commits: Commits;
  /** How a reply is committed. next: before the next request. soon: while the next request is sent. together: with others. */
  readonly commit: 'next' | 'soon' | 'together';
  /** The signal of the request, disposed at its end. Undefined: another reader reads the record. Default: that of the context. */
  take?(wanted: Wanted): Promise<(Disposable & { readonly signal?: AbortSignal }) | undefined>;
  /** The record was left to another reader. */
  passOver?(wanted: Wanted): void;
}

/** Reads records one by one. `records` queries more records only after all replies are stored. */
export async function readAll(reader: Reader, shared: Shared, records: AsyncIterable<Wanted>): Promise<void> {
  const { commits } = reader;
  try {
    for await (const wanted of records) {
      using taken = reader.take ? await reader.take(wanted) : { [Symbol.dispose]() {} };
      if (taken) await readOne(reader, shared, wanted, taken);
      else reader.passOver?.(wanted);
    }
  } catch (error) {
    // Replies that cost credits are stored even if the read failed.
    await commits.done().catch(() => {});
    throw error;
  }
  await commits.done();
}

async function readOne(
  { details, lane, commits, commit, passOver }: Reader,
  shared: Shared,
  wanted: Wanted,
  { signal }: { readonly signal?: AbortSignal },
): Promise<void> {
  const { readings, doubts } = shared;
  const { id } = wanted;
  const times = (readings.get(id) ?? 0) + 1;
  readings.set(id, times);
  try {
    if (times > mostReadings) throw new Retry(`${details.unit} ${id} changes faster than it can be read`);
    await commits.room();
    await lookAtRejects(details, shared);
    const reply = await ask(details, wanted, lane, signal);
    if (reply)
      commits.add(
        details.entry(reply, wanted, (current, isRejected) => {
          if (current) readings.delete(id);
          shared.looksRejected ||= shared.manyRejected(isRejected);
        }),
        commit !== 'together',
      );
    if (commit === 'next') {
      await commits.done();
      await lookAtRejects(details, shared);
    }
    doubts.answered();
  } catch (error) {
    if (error === withdrawn) {
      readings.set(id, times - 1);
      passOver?.(wanted);
    } else if (error instanceof Gone) {
      await noteGone(details, id, error);
      if (details.unknownFails) doubts.answered();
    } else if (error instanceof Retry) await doubts.note(details, id, error, times > mostReadings);
    else throw error;
  }
}

async function lookAtRejects({ ctx, claim }: Details, shared: Shared): Promise<void> {
  if (shared.looksRejected && (await isMostRejected(ctx, claim))) throw restIsRejected;
  shared.looksRejected = false;
}
