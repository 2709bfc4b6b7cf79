/**
 * Reads a list whole each time. The source may ignore paging, so that every page shows the same records, or page by a size
 * of its own, or hide records after it has cut its pages. So the first request asks for the count, and pages are requested
 * until so many records were shown. Without a count, or if the source counts more than it shows, the reading ends with a
 * page that brings nothing new; with a count not before the pages that it fills, and one more. An `until` limits the
 * claim, and saves no request.
 *
 * A record that is deleted between two pages moves what lies behind it to the page before, which was read already. So a
 * list of several pages is read backwards as well: then it meets them.
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

export function* readWhole(from: Ms, options: ReadingOptions): Generator<Step, Proof, Page> {
  const { perPage } = options;
  const met = new Set<string>();
  let asOf: Ms | undefined;
  let total: number | undefined;
  let unreadable = 0;
  let size = 0;
  let before = Infinity;
  let isShort = false;
  for (let page = 1; ; page++) {
    const ask = { page, perPage, ...(page === 1 && { count: true }) };
    const { arrived, rows, asOf: pageAsOf, total: counted }: Page = yield { ask, proof: {} };
    asOf ??= pageAsOf;
    total ??= counted;
    size = Math.max(size, arrived);
    unreadable += arrived - rows.length;
    const fresh = rows.filter(row => !met.has(row.id));
    for (const row of fresh) met.add(row.id);
    isShort ||= fresh.length > 0 && before < perPage;
    before = arrived;
    const isCounted = total !== undefined && met.size + unreadable >= total;
    if (!isCounted) {
      // A page without a readable record may be an old page or a new one.
      if (arrived > 0 && rows.length === 0) return {};
      if (fresh.length > 0 || (arrived === 0 && (page - 1) * size < (total ?? 0))) continue;
    }
    const ignored = page === 2 && fresh.length === 0 && arrived > 0;
    for (let back = ignored ? 0 : page - 1; back >= 1; back--) yield { ask: { page: back, perPage }, proof: {} };
    const proof = covering(floorSecond(from), Math.min(floorSecond(asOf), endOf(options)));
    return { ...proof, ...(isShort && { shortOf: perPage }) };
  }
}
