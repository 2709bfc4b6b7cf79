/**
 * Reads a whole list page after page. Each reply says where the next page begins: a cursor, a link, an offset. The list
 * must show its records in an order that does not change.
 *
 * A list that pages by offset moves when a record goes away: then a record is skipped. Such a list declares `overlap`: each
 * page begins with the last record of the page before. If it does not, the list has moved, and the reading starts again.
 */
import {
  covering,
  endOf,
  floorSecond,
  type Ms,
  type Page,
  type Proof,
  type ReadingOptions,
  type Step,
  secondMs,
} from './reading.ts';
import { inOrder, lastOld } from './tie.ts';

/** A list that moves during each of this many readings is incomplete, and the proof says so. */
const mostReadings = 5;

export function* readByCursor(from: Ms, options: ReadingOptions, overlap = false): Generator<Step, Proof, Page> {
  const { perPage } = options;
  let asOf: Ms = Number.NaN;
  for (let reading = 1; reading <= mostReadings; reading++) {
    const met = new Set<string>();
    let last: string | undefined;
    let cursor: string | undefined;
    for (let page = 1; ; page++) {
      const {
        arrived,
        rows,
        next,
        asOf: pageAsOf,
        borders = [rows[0]?.id, rows.at(-1)?.id],
      }: Page = yield {
        ask: { page, perPage, ...(cursor !== undefined && { cursor }) },
        proof: {},
      };
      if (page === 1) asOf = pageAsOf;
      if (overlap && page > 1 && borders[0] !== last) break;
      const isNew = rows.some(({ id }) => !met.has(id));
      for (const { id } of rows) met.add(id);
      last = borders[1];
      // A repeated page ends the list, even if the source names a next page. It may also be a page whose records are
      // all unreadable.
      if (next === undefined) return covering(floorSecond(from), Math.min(floorSecond(asOf), endOf(options)));
      if (!isNew && arrived > 0) return stuck(from, asOf);
      cursor = next;
    }
  }
  return moved(from, asOf);
}

/**
 * Reads by cursor what has changed since a time, in the order of the changes. A record that changes during the read
 * moves to the end, where the cursor reads it again. Each page proves the range before its last second, at most up to
 * the lookback.
 */
export function* readChangedByCursor(from: Ms, options: ReadingOptions): Generator<Step, Proof, Page> {
  const { perPage, lookbackMs } = options;
  const until = endOf(options);
  const start = floorSecond(from);
  const since = Math.max(0, start - secondMs);
  const met = new Set<string>();
  let asOf = Number.POSITIVE_INFINITY;
  let cursor: string | undefined;
  let proof: Proof = {};
  for (let number = 1; ; number++) {
    const ask = { since, page: number, perPage, ...(cursor !== undefined && { cursor }) };
    const page: Page = yield* inOrder(ask, proof);
    asOf = Math.min(asOf, page.asOf);
    const isNew = page.rows.some(({ id, time }) => !met.has(`${id} ${time}`));
    for (const { id, time } of page.rows) met.add(`${id} ${time}`);
    const known = Math.min(until, floorSecond(asOf - lookbackMs));
    if (page.next === undefined || lastOld(page, lookbackMs) >= until) return covering(start, known);
    const old = lastOld(page, lookbackMs);
    proof = Number.isNaN(old) ? {} : covering(start, Math.min(old, known));
    if (!isNew && page.arrived > 0) return { ...proof, ...stuck(proof.covered?.to ?? start, asOf) };
    cursor = page.next;
  }
}

const gap = (from: Ms, asOf: Ms, reason: string): Proof => ({
  gap: { from: floorSecond(from), to: floorSecond(asOf), reason },
});
const stuck = (from: Ms, asOf: Ms) => gap(from, asOf, 'the next page shows no record that was not shown before');
const moved = (from: Ms, asOf: Ms) => gap(from, asOf, `the list moved in each of ${mostReadings} readings`);
