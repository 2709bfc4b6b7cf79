/**
 * Reading a list that is ordered by update time while it is being updated. Whoever pages through it loses records: one
 * that was read is updated, jumps to the end, and everything behind it moves one place up, past the border of the page.
 *
 * So only page 1 is read, of a request that moves with what arrived (ascending is the only safe order):
 *
 *   since = U − 1 s    U: the second of the last record. Whether `since` includes its own second is not known; either
 *                      way this request shows everything from U on. Everything before U is proven by the page.
 *
 * Nothing younger than `as_of − lookback` is claimed. A short page ends the list. So does one that reaches into the
 * future (a wrong clock moves nothing): what follows it is read by pages, proves nothing, and is read by each run anew.
 *
 * Where one second, or two neighbouring ones, fill the page, the next request would be the same: then that request is
 * read by pages, forwards to find where the crowd ends, and backwards over the same pages. Records leave the crowd (an
 * update takes them to the end of the list), and then what lies behind moves towards page 1: a backward reading meets
 * it, so it loses nothing in an order that stands still. That the order does stand still is checked: both readings must
 * show what they share in the same order. Where paging does not reach, exactly that second is left as a hole.
 *
 * With `until` the reading is over with the first page that ends at `until` or later: it proves everything before. The
 * source has no such filter, so the page may bring more than was wanted, which is not claimed. What was wanted and is
 * updated meanwhile moves to the end of the list, where the reading of the top finds it.
 */
import { Fatal } from '../errors.ts';
import {
  type Ask,
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

/** A page out of order is asked for again this often, and a crowd is read this often until two readings agree. */
const mostReadings = 5;

export function* readMovingList(from: Ms, options: ReadingOptions): Generator<Step, Proof, Page> {
  const { perPage, lookbackMs } = options;
  const until = endOf(options);
  /** What is claimed begins here; a hole moves it on. */
  let start = floorSecond(from);
  let since = Math.max(0, start - secondMs);
  /** A second that was left as a hole: if the next page shows it, `since` includes its own second. */
  let left: Ms | undefined;
  /** Everything before this has been read. */
  let read = start;
  /**
   * Once a claim has stopped short of what was read, because that was too young, nothing beyond it is claimed: what
   * shows up there later is not met any more, since the reading has moved on.
   */
  let most = Infinity;
  let proof: Proof = {};

  /** All before `to` has been read: how far it may be claimed. */
  const claim = (to: Ms, asOf: Ms): Ms => {
    const claimed = Math.min(to, most, until, floorSecond(asOf - lookbackMs));
    if (claimed < to) most = claimed;
    read = to;
    return claimed;
  };

  for (let requests = 0; Math.max(start, read) < until; requests++) {
    // The second request tells how much there is, for a true percentage: a list of one page does not pay for it, nor
    // does a bounded reading, since the count knows no bound.
    const count = requests === 1 && until === Infinity && { count: true };
    const page: Page = yield* inOrder({ since, page: 1, perPage, ...count }, proof);
    const { ended, last } = look(page, options);
    if (last >= until) return covering(start, claim(last, page.asOf));
    if (ended) return yield* readFuture(since, [page], covering(start, claim(Infinity, page.asOf)), options);

    if (left === since && startsIn(page, since)) {
      proof = {};
      since += secondMs;
    } else if (last - secondMs > since) {
      proof = covering(start, claim(last, page.asOf));
      since = last - secondMs;
    } else {
      const crowd: Crowd = yield* readCrowd(since, page, options);
      const unread = Math.max(start, read);
      const to = claim(crowd.before, crowd.asOf);
      proof = crowd.agreed
        ? covering(start, to)
        : leaving(unread, crowd.before === Infinity ? to : crowd.before, disagreed);
      if (crowd.before === Infinity) return yield* readFuture(since, crowd.there, proof, options);
      if (!crowd.agreed) start = crowd.before;
      const again = crowd.inclusive ? crowd.before : crowd.before - secondMs;
      if (!crowd.deep) since = crowd.before - secondMs;
      else if (again > since) since = again;
      else {
        // The hole is exactly this second; what follows is read on.
        left = crowd.before;
        proof = { ...proof, ...leaving(Math.max(start, left), left + secondMs, tooDeep(options)) };
        start = left + secondMs;
        since = left;
      }
    }
  }
  return proof;
}

const disagreed = `${mostReadings} readings of records with the same update time showed them in different orders`;
const tooDeep = ({ depth }: ReadingOptions) => `more records with this update time than paging reaches (${depth})`;

/** What follows these pages, where their last one ends the list without being short. */
function* readFuture(
  since: Ms,
  pages: readonly Page[],
  proof: Proof,
  { perPage, depth }: ReadingOptions,
): Generator<Step, Proof, Page> {
  let untold = proof;
  let newest = pages.at(-1)!;
  for (let page = pages.length + 1; newest.arrived >= perPage && page * perPage <= depth; page++) {
    newest = yield* inOrder({ since, page, perPage }, untold);
    untold = {};
  }
  return untold;
}

interface Crowd {
  /** The pages of a reading forwards. */
  readonly there: readonly Page[];
  /** Everything before this second has been read; Infinity at the end of the list. */
  readonly before: Ms;
  /** Two readings, one of them backwards, showed the same order. */
  readonly agreed: boolean;
  /** Paging did not reach beyond the crowd. */
  readonly deep: boolean;
  /** `since` was seen to include its own second. */
  readonly inclusive: boolean;
  /** Of the earliest of its pages. */
  readonly asOf: Ms;
}

/** Reads the request `since` by pages until the next one would make progress, then backwards over the same pages. */
function* readCrowd(since: Ms, first: Page, options: ReadingOptions): Generator<Step, Crowd, Page> {
  let one = yield* forwards(since, [first], options);
  for (let readings = 2; ; readings++) {
    const backwards = readings % 2 === 0;
    const other: Reading = backwards
      ? { ...one, pages: yield* overAgain(since, one, options) }
      : yield* forwards(since, [], options);
    const { before, deep } = one.before < other.before ? one : other;
    const [there, back] = backwards ? [one, other] : [other, one];
    const agreed = agree(rowsBefore(before, there.pages), rowsBefore(before, back.pages));
    if (agreed || readings === mostReadings) {
      const asOf = Math.min(...[one, other].flatMap(({ pages }) => pages.map(page => page.asOf)));
      return { there: there.pages, before, agreed, deep, inclusive: startsIn(first, since), asOf };
    }
    one = other;
  }
}

interface Reading {
  readonly pages: readonly Page[];
  readonly before: Ms;
  readonly deep: boolean;
}

/** Until a page ends beyond the two seconds that may be crowded, or what is wanted ends, or the list, or paging. */
function* forwards(since: Ms, begun: readonly Page[], options: ReadingOptions): Generator<Step, Reading, Page> {
  const { perPage, depth } = options;
  const until = endOf(options);
  const pages = [...begun];
  for (;;) {
    const newest = pages.at(-1);
    if (newest !== undefined) {
      const { ended, last } = look(newest, options);
      if (last >= until) return { pages, before: until, deep: false };
      if (ended) return { pages, before: Infinity, deep: false };
      if (last - secondMs > since + secondMs) return { pages, before: last, deep: false };
      if ((pages.length + 1) * perPage > depth) return { pages, before: last, deep: true };
    }
    pages.push(yield* inOrder({ since, page: pages.length + 1, perPage }, {}));
  }
}

/** The pages that hold records from before `before`, from the last to the first. The last page of all was just read. */
function* overAgain(since: Ms, there: Reading, { perPage }: ReadingOptions): Generator<Step, readonly Page[], Page> {
  const concerned = there.pages.findLastIndex(page => page.rows.some(row => row.time < there.before));
  const pages = there.pages.slice(0, concerned + 1);
  const justRead = concerned === there.pages.length - 1;
  for (let i = justRead ? concerned - 1 : concerned; i >= 0; i--) {
    pages[i] = yield* inOrder({ since, page: i + 1, perPage }, {});
  }
  return pages;
}

function rowsBefore(before: Ms, pages: readonly Page[]): string[] {
  const rows = pages.flatMap(page => page.rows).filter(row => floorSecond(row.time) < before);
  return rows.map(row => `${row.time} ${row.id}`);
}

/**
 * What both readings show stands in one order, and going there no record was met twice: where each page has an order of
 * its own, but always the same, a record that is shown by two pages is all that tells of the one that is shown by none.
 * (Coming back a record may be met again: it has moved on to the page that follows.) A record that left, or that only
 * one reading met, says nothing.
 */
function agree(there: readonly string[], back: readonly string[]): boolean {
  const place = new Map(there.map((row, i) => [row, i]));
  const shared = [...new Set(back)].map(row => place.get(row)).filter(i => i !== undefined);
  return place.size === there.length && shared.every((i, k) => k === 0 || shared[k - 1]! < i);
}

/** The request, again while its page is out of order, shows what it was not asked for, or nothing that can be read. */
function* inOrder(ask: Ask & { since: Ms }, proof: Proof): Generator<Step, Page, Page> {
  let unreadable = false;
  for (let readings = 1; readings <= mostReadings; readings++) {
    const page: Page = yield { ask, proof: readings === 1 ? proof : {} };
    const times = page.rows.map(row => row.time);
    const ordered = times.every((time, i) => time >= (i === 0 ? ask.since : times[i - 1]!));
    unreadable = times.length === 0 && page.arrived >= ask.perPage;
    if (ordered && !unreadable) return page;
  }
  const list = `the list of ${new Date(ask.since).toISOString()} and later`;
  throw unreadable
    ? new Fatal(
        `${list} came ${mostReadings} times with a full page of records that cannot be read`,
        'sync.rejects tells what is wrong with them. Until one can be read, nothing tells where the list goes on.',
      )
    : new Fatal(
        `${list} came out of order, ${mostReadings} times`,
        'The source does not keep to since_updated_at and sort=updated_at; ask its support. Nothing was claimed as complete.',
      );
}

interface Look {
  /** Nothing follows this page: it is short, or reaches into the future (a wrong clock moves nothing). */
  readonly ended: boolean;
  /** The second of the last record. */
  readonly last: Ms;
}

function look(page: Page, { perPage, lookbackMs }: ReadingOptions): Look {
  const last = page.rows.at(-1)?.time ?? Number.NaN;
  return { ended: page.arrived < perPage || last > page.date + lookbackMs, last: floorSecond(last) };
}

const startsIn = (page: Page, second: Ms) => page.rows[0] !== undefined && floorSecond(page.rows[0].time) === second;

const leaving = (from: Ms, to: Ms, reason: string): Proof => (to > from ? { hole: { from, to, reason } } : {});
