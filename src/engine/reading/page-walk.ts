/**
 * Reading a list that is ordered by creation time, which cannot change, where records do not show that time: a walk by
 * pages, from the last page to the first. A deletion moves what lies behind it towards page 1, to pages that are still
 * to come; new records are appended behind the last page. So a backward walk loses nothing (forwards, in a model with a
 * deletion in 2 % of the requests, 306 of 500 walks lost records), and the newest come first.
 *
 * The count only says where to look for the list's end: until a page is the last one (see ends.ts), the next one is asked
 * for, since a count that was too small would leave out what stands behind it. What was passed going there is read again coming back.
 *
 * A walk proves nothing before its end; its place is kept, so that a run that died resumes at the same page. What was
 * created since that run began is read behind it.
 *
 * Where the list is longer than paging reaches, the walk takes the part that it reaches, which is the oldest, and the
 * next walk begins at a time whose first record was met in this one. That time is found by bisection, one credit for each
 * look; Total-Count is not needed for it, which may well stop at the depth. Each look shows several records, since a source
 * may take some of them out.
 *
 * With `until` the walk begins at the page that shows one of the first records of the request `since = until`. Whether
 * that includes its own second or not, everything created before `until` stands before each of them. The difference of
 * two counts only says where to look for that page. Where none of them is met, the walk begins at the end of the list.
 */
import { Fatal } from '../../errors.ts';
import { provingEnds } from './ends.ts';
import {
  covering,
  endOf,
  floorSecond,
  isLast,
  type Ms,
  type Page,
  type Proof,
  type Range,
  type ReadingOptions,
  type Step,
  secondMs,
  type Walk,
} from './reading.ts';

export const walkList = provingEnds(walkPages);

function* walkPages(from: Ms, options: ReadingOptions): Generator<Step, Proof, Page> {
  const { perPage, lookbackMs, depth } = options;
  const until = endOf(options);
  let start = floorSecond(from);
  let since = 0;
  // A walk that begins beyond the claim would leave a gap before it, of unknown end.
  let walk = options.walk && options.walk.since <= start && endOf(options.walk) === until ? options.walk : undefined;
  let resumed = walk !== undefined;
  /**
   * Behind a gap at the very beginning, the place of a walk would look like that of a walk without the gap. It is not
   * kept.
   */
  let kept = true;
  let proof: Proof = {};

  while (Math.max(start, since) < until) {
    /** The page that ends the wanted range, if this run has just found it. */
    let end: Page | undefined;
    if (walk === undefined) {
      since = Math.max(since, start - secondMs);
      // A first load is long, so its first page asks for the count. Later the first page is usually the only one.
      const count = options.firstLoad === true && { count: true };
      const first: Page = yield { ask: { since, page: 1, perPage, ...count }, proof };
      /** The first records from `until` on. */
      const beyond: Page | undefined =
        isLast(first, perPage) || until === Infinity
          ? undefined
          : yield { ask: { since: until, page: 1, perPage, count: true }, proof: {} };
      const unwanted = new Set(beyond?.rows.map(({ id }) => id));
      const ends = (page: Page) => isLast(page, perPage) || page.rows.some(({ id }) => unwanted.has(id));
      if (ends(first)) return { ...covering(start, claim(until, first.asOf, lookbackMs)), walk: null };
      const all: Page = count ? first : yield { ask: { since, page: 1, perPage: 0, count: true }, proof: {} };
      // Page 1 did not end the range. If the count is a whole number of pages, the page that ends it is empty.
      const wanted = beyond ? Math.max(perPage, counted(all) - counted(beyond)) : counted(all);
      let page = Math.min(Math.floor(wanted / perPage) + 1, depth / perPage);
      end = yield { ask: { since, page, perPage }, proof: {} };
      while (!ends(end) && page * perPage < depth) {
        end = yield { ask: { since, page: ++page, perPage }, proof: {} };
      }
      const { until: bound } = options;
      walk = { since, asOf: first.asOf, page, deep: !ends(end), ...(bound !== undefined && { until: bound }) };
    }
    since = walk.since;
    /** The place of each record that this walk has read; after a resumption only of the part read since. */
    const met = new Map<string, number>();
    for (let page = walk.page; page >= 1; page--) {
      const arrived: Page = end ?? (yield { ask: { since, page, perPage }, proof });
      end = undefined;
      arrived.rows.forEach((row, i) => {
        met.set(row.id, (page - 1) * perPage + i);
      });
      // Page 1 stays the place of the walk until the walk is over.
      proof = kept ? { walk: { ...walk, page: Math.max(1, page - 1) } } : {};
    }
    const next: Next = walk.deep ? yield* split(walk, met, proof, Math.max(1, perPage - 1)) : { since: Infinity };
    if (next.gap && resumed) {
      // The part that was read before the resumption may show where to continue, so the walk starts again.
      proof = { walk: null };
    } else {
      const gap = next.gap && within(next.gap, start, until);
      const to = Math.min(gap?.from ?? next.since, until);
      const claimed = claim(to, walk.asOf, lookbackMs);
      proof = { ...covering(start, claimed), ...(gap && { gap }), walk: null };
      if (claimed === to) {
        kept = gap === undefined || next.since > start;
        if (gap) start = gap.to;
        since = next.since;
      } else {
        // The end, or so near to it that a record may still appear before `since`. A later run continues there. A walk
        // of an earlier run ended when that run began.
        if (!resumed) return proof;
        start = Math.max(start, claimed);
      }
    }
    walk = undefined;
    resumed = false;
  }
  return proof;
}

function counted({ total }: Page): number {
  if (total !== undefined) return total;
  throw new Fatal('a count was asked for, and no Total-Count came', 'Ask the support of the source.');
}

interface Next {
  /** The beginning of the next walk. */
  readonly since: Ms;
  readonly gap?: Range & { readonly reason: string };
}

/** The latest time whose first record this walk has read, to within about a tenth of the walk. */
function* split(walk: Walk, met: ReadonlyMap<string, number>, proof: Proof, few: number): Generator<Step, Next, Page> {
  const until = endOf(walk);
  let known = walk.since;
  let beyond = Math.max(Math.min(floorSecond(walk.asOf), until), known + secondMs);
  let place = 0;
  let untold = proof;
  while (beyond - known > secondMs && place < 0.9 * met.size) {
    const middle = floorSecond((known + beyond) / 2);
    const page: Page = yield { ask: { since: middle, page: 1, perPage: few }, proof: untold };
    untold = {};
    const first = page.rows[0] && met.get(page.rows[0].id);
    if (first === undefined) beyond = middle;
    else {
      known = middle;
      place = first;
    }
  }
  if (known > walk.since) return { since: known };
  const gap = { from: known, to: beyond + secondMs, reason: 'more records created in this time than paging reaches' };
  return { since: beyond, gap };
}

const within = <T extends Range>(range: T, from: Ms, to: Ms): T => ({
  ...range,
  from: Math.max(range.from, from),
  to: Math.min(range.to, to),
});

const claim = (to: Ms, asOf: Ms, lookbackMs: number) => Math.min(to, floorSecond(asOf - lookbackMs));
