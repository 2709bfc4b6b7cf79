/**
 * Reads events behind a cursor that is kept from run to run. An event may appear one lookback late, among others that were shown
 * before: so the kept cursor stays where the first event of that age came, and the next run reads from there again.
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
} from './reading.ts';

export function* readFeed(from: Ms, options: ReadingOptions): Generator<Step, Proof, Page> {
  const { perPage, lookbackMs, walk } = options;
  let cursor = walk?.cursor;
  let kept = cursor;
  let isSettled = true;
  let asOf = Number.POSITIVE_INFINITY;
  const met = new Set<string | undefined>();
  let proof: Proof = {};
  for (let number = 1; ; number++) {
    const page: Page = yield { ask: { page: number, perPage, ...(cursor !== undefined && { cursor }) }, proof };
    asOf = Math.min(asOf, page.asOf);
    isSettled &&= page.rows.every(({ time }) => time < page.asOf - lookbackMs);
    if (isSettled && page.next !== undefined) kept = page.next;
    proof = kept === undefined ? {} : { walk: { since: from, asOf, page: 1, deep: false, cursor: kept } };
    const known = Math.min(endOf(options), floorSecond(asOf - lookbackMs));
    if (page.next === undefined) return { ...covering(floorSecond(from), known), ...proof };
    met.add(cursor);
    if (met.has(page.next)) {
      const reason = 'the next page begins where an earlier one did';
      return { ...proof, gap: { from: floorSecond(from), to: known, reason } };
    }
    cursor = page.next;
  }
}
