/**
 * Retries of a stream whose records are mostly rejected (sync.most_rejected): only one record is requested, at growing
 * intervals. As soon as it can be stored, everything is read again. Pure.
 */
import type { Ms } from '../reading/reading.ts';
import type { RunKind } from '../runs/runs.ts';

/** The view lets nobody wait longer than 6 hours. A clock far ahead wrote a later time, so it puts off nothing. */
const longestMs = 7 * 3_600_000;

/** Fresh and hydrate runs wait for the next try. Runs of people and nightly runs try immediately. */
export const isDue = (kind: RunKind, nextMs: Ms, nowMs: Ms): boolean =>
  (kind !== 'fresh' && kind !== 'hydrate') || nextMs <= nowMs || nextMs > nowMs + longestMs;

/** The result of one request: `unknown` if the source does not have the record any more. */
export type Told = 'stored' | 'rejected' | 'unknown';

/** After this many rejects in a row, without a record that could be stored, it is looked whether most is rejected. */
const manyInARow = 20;

/** Counts rejects in a row. True if it is time to look. */
export function countInARow(): (isRejected: boolean) => boolean {
  let inARow = 0;
  return isRejected => {
    inARow = isRejected ? inARow + 1 : 0;
    return inARow > 0 && inARow % manyInARow === 0;
  };
}

/** How a run ends that did not read the stream. */
export const stillRejected = 'most of what came was rejected; one record is asked for at times that grow rarer';
