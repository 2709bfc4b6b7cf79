/**
 * Reads a list whole each time. The source may ignore paging, so that every page shows the same records, or page by its
 * own default of ten. So pages are requested until one is the last (see ends.ts), or brings nothing new. An `until` limits
 * the claim, and saves no request.
 *
 * A record that is deleted between two pages moves what lies behind it to the page before, which was read already. So a
 * list of several pages is read backwards as well: then it meets them.
 */
import { provingEnds } from './ends.ts';
import {
  covering,
  defaultPerPage,
  endOf,
  floorSecond,
  type Ms,
  type Page,
  type Proof,
  type ReadingOptions,
  type Step,
} from './reading.ts';

export const readWhole = provingEnds(readPages);

function* readPages(from: Ms, options: ReadingOptions): Generator<Step, Proof, Page> {
  const { perPage } = options;
  const met = new Set<string>();
  let asOf: Ms | undefined;
  for (let page = 1; ; page++) {
    const reply: Page = yield { ask: { page, perPage }, proof: {} };
    const { arrived, rows } = reply;
    asOf ??= reply.asOf;
    const fresh = rows.filter(row => !met.has(row.id));
    for (const row of fresh) met.add(row.id);
    const isEnd = reply.isLast ?? (arrived < perPage && arrived !== defaultPerPage);
    // A page without a readable record may be an old page or a new one.
    if (!isEnd && rows.length === 0 && arrived > 0) return {};
    if (!isEnd && (fresh.length > 0 || arrived === 0)) continue;
    const ignored = page === 2 && fresh.length === 0 && arrived > 0;
    for (let back = ignored ? 0 : page - 1; back >= 1; back--) yield { ask: { page: back, perPage }, proof: {} };
    return covering(floorSecond(from), Math.min(floorSecond(asOf), endOf(options)));
  }
}
