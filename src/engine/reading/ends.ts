/**
 * Where a list ends. A source may answer fewer records than were asked for (a cap), and may hide records after it has cut
 * its pages. So a page that is not full, even an empty one, may have others behind it.
 *
 * Page 1 of the same list in the opposite order tells, because it begins at the end: it shows the newest records without
 * a gap. If it reaches back to the records that were read, nothing is missing between, and the page gets what it lacked.
 * Otherwise more follow.
 *
 * A sync that continues begins with the newest records, in place of its first request, and asks a little further back than
 * it needs (`anchor`). If they reach back to a record from before, they are the whole answer: for the usual sync, which
 * pays nothing more.
 *
 * Where records show no time, their ids tell: a newest record that was not met is missing. Three things stay undecided: a
 * source that does not answer the newest first, records of one second that fill the pages of both orders, and new
 * records that came between the two requests. Then an empty page behind the page is the end. Partitions
 * (partitions.ts) are counted, and need no more.
 */
import { keyOf } from './overlap.ts';
import { type Ask, floorSecond, type Ms, type Page, type Proof, type ReadingOptions, type Step } from './reading.ts';

type Rows = Page['rows'];
type Options = Pick<ReadingOptions, 'perPage' | 'depth' | 'lookbackMs' | 'anchor'>;

/** The same reading. Its pages say whether more follow. */
export function* provingEnds<R>(reading: Generator<Step, R, Page>, options: Options): Generator<Step, R, Page> {
  const { perPage, anchor } = options;
  const lists = new Map<string, List>();
  const listOf = (ask: Ask): List => {
    const key = `${ask.order} ${ask.updatedSince}`;
    const list = lists.get(key) ?? new List(ask.since);
    lists.set(key, list);
    return list;
  };
  let step = reading.next();
  if (!step.done && anchor !== undefined) {
    const { ask, proof } = step.value;
    const list = listOf({ ...ask, since: anchor.since });
    list.newest = yield { ask: { ...list.asksNewest(ask), wanted: ask.since }, proof };
    const rows = reachingBack(list.newest, ask.since ?? 0);
    if (rows !== undefined) step = reading.next(wholeOf(list.newest, rows));
    else if (list.newest.arrived === 0 && !anchor.isStored) step = reading.next(wholeOf(list.newest, []));
  }
  while (!step.done) {
    const { ask, proof } = step.value;
    const isJudged = ask.only === undefined && ask.perPage === perPage && !ask.isProbe;
    const list = listOf(ask);
    const isNext = isJudged && list.next?.since === ask.since && list.next?.number === ask.page && !hasProof(proof);
    const page: Page = isNext ? list.next!.page : yield { ask, proof };
    list.next = undefined;
    const told: Judged = isJudged ? yield* judged(list, ask, page, options) : page;
    step = reading.next(told);
    if (told.more && told.isShort) step = withShort(step, perPage);
  }
  return step.value;
}

function withShort<R>(step: IteratorResult<Step, R>, shortOf: number): IteratorResult<Step, R> {
  return step.done ? step : { done: false, value: { ...step.value, proof: { ...step.value.proof, shortOf } } };
}

/** A list in one order, as far as it was met. */
class List {
  /** Nothing older is wanted. */
  readonly since: Ms | undefined;
  /** The newest records, when they were last asked for. */
  newest: Page | undefined;
  readonly met = new Set<string>();
  /** The request that is read by pages, and the last of these pages. */
  at: (Last & { readonly since: Ms | undefined; readonly page: number }) | undefined;
  /** The page behind that one, if it was needed to tell whether there is one. */
  next: { readonly since: Ms | undefined; readonly number: number; readonly page: Page } | undefined;

  constructor(since: Ms | undefined) {
    this.since = since;
  }

  asksNewest({ count: _count, since: _since, ...ask }: Ask): Ask {
    return { ...ask, ...(this.since !== undefined && { since: this.since }), page: 1, newestFirst: true };
  }
}

/** The last record that the pages of a request have shown, and the last time. */
interface Last {
  readonly id: string | undefined;
  readonly time: Ms | undefined;
}

function* judged(
  list: List,
  ask: Ask,
  page: Page,
  { perPage, depth, lookbackMs }: Options,
): Generator<Step, Judged, Page> {
  const before = list.at?.since === ask.since ? list.at : undefined;
  for (const { id } of page.rows) list.met.add(id);
  // A reading that goes over its pages again does not look for the end before the last of them.
  if (before !== undefined && ask.page < before.page) return { ...page, more: true };
  const id = page.rows.at(-1)?.id ?? before?.id;
  const time = page.rows.findLast(row => isTimed(row))?.time ?? before?.time;
  list.at = { since: ask.since, page: ask.page, id, time };
  const certainMs = page.asOf - lookbackMs;
  const isFull = page.arrived >= perPage;
  const isRecent = list.newest !== undefined && list.newest.asOf >= certainMs;
  let found = list.newest && compare(list, page, list.newest, certainMs);
  const continues = (): Judged => ({ ...page, more: true, isShort: !isFull && list.newest!.rows.some(isTimed) });
  if (found === 'more' && page.arrived > 0) return continues();
  if (!isFull && (!isRecent || found === 'more')) {
    list.newest = yield { ask: list.asksNewest(ask), proof: {} };
    found = compare(list, page, list.newest, certainMs);
    // A walk may begin at an empty page behind the end.
    if (found === 'more' && (page.arrived > 0 || ask.page === 1 || list.newest.rows.some(isTimed))) return continues();
  } else if (!isRecent) return page;
  if (typeof found === 'object') return found;
  if (isFull) return page;
  // This page itself is the empty one behind the page before.
  const isShown = list.newest!.rows.some(isTimed);
  if (page.arrived === 0 && ask.page > 1 && isShown) return page;
  const number = ask.page + 1;
  if (number * perPage > depth) return { ...page, more: page.arrived > 0 };
  const behind: Page = yield { ask: { ...ask, count: false, page: number }, proof: {} };
  list.next = { since: ask.since, number, page: behind };
  const shown = new Set(page.rows.map(row => row.id));
  const isNew = ({ rows }: Page) => rows.some(row => !shown.has(row.id));
  // A source that ignores paging shows the same page again.
  if (behind.arrived > 0 && (behind.rows.length === 0 || isNew(behind))) return { ...page, more: true, isShort: true };
  if (!isShown) return { ...page, more: false };
  // A record that was deleted meanwhile moved the page behind to this one.
  const again: Page = yield { ask: { ...ask, count: false }, proof: {} };
  return isNew(again) ? { ...again, more: true } : { ...page, more: false };
}

/** `isShort`: certainly not for a record that came between two requests. */
type Judged = Page & { readonly isShort?: boolean };

const hasProof = (proof: Proof): boolean => Object.keys(proof).length > 0;

/**
 * The page with everything that follows it, if the newest records reach back to it. `more`: one of them follows that was
 * there when the page came, certainly from `certainMs` back.
 */
function compare({ at, met, since }: List, page: Page, newest: Page, certainMs: Ms): Page | 'more' | 'unknown' {
  const rows = newest.rows.toReversed();
  // Both ends of a whole list are empty.
  if (!since && met.size === 0 && newest.arrived === 0) return { ...page, more: false };
  if (rows.length === 0) return 'unknown';
  if (page.arrived === newest.arrived && isSame(page.rows, rows)) return { ...page, more: false };
  if (![...rows, ...page.rows].some(isTimed)) {
    const unmet = rows.filter(({ id }) => !met.has(id));
    if (isOpposite(page.rows, rows)) return withRows(page, unmet, newest);
    // All of them would be met, too, if they were the oldest.
    if (unmet.length === 0) return 'unknown';
    // Records of one second may stand in one order both ways. So they must reach further back than the last one.
    const place = rows.findIndex(({ id }) => id === at?.id);
    return rows.slice(0, Math.max(0, place)).some(({ id }) => met.has(id)) ? withRows(page, unmet, newest) : 'more';
  }
  if (!isAscending(rows)) return 'unknown';
  const last = floorSecond(at?.time ?? at?.since ?? -Infinity);
  if (rows.some(row => floorSecond(row.time) < last)) {
    const shown = new Set(page.rows.map(keyOf));
    const isMissing = (row: Rows[number]) => floorSecond(row.time) >= last && !shown.has(keyOf(row));
    return withRows(page, rows.filter(isMissing), newest);
  }
  return rows.some(row => floorSecond(row.time) > last && row.time < certainMs) ? 'more' : 'unknown';
}

/**
 * The records from `since` on, if the newest records reach back to one from before; undefined if they do not, or do not
 * stand in the order that was asked for.
 */
function reachingBack({ rows: newestFirst, old }: Page, since: Ms): Rows | undefined {
  const rows = newestFirst.toReversed();
  if (!rows.some(isTimed)) {
    if (old === undefined) return undefined;
    const news = rows.filter(({ id }) => !old.has(id));
    const isInOrder = rows.slice(rows.length - news.length).every(({ id }) => !old.has(id));
    return news.length < rows.length && isInOrder ? news : undefined;
  }
  const reaches = rows.some(({ time }) => floorSecond(time) <= since);
  return reaches && isAscending(rows) ? rows.filter(({ time }) => floorSecond(time) >= since) : undefined;
}

/** The page as if it had been asked for in the usual order, with everything to the end of the list. */
const wholeOf = ({ arrived, rows: { length }, old: _, ...page }: Page, rows: Rows): Page => ({
  ...page,
  rows,
  arrived: arrived - length + rows.length,
  more: false,
});

/** The page, and what follows it. Both are there as of the older one. */
const withRows = (page: Page, rows: Rows, { asOf }: Page): Page => ({
  ...page,
  rows: [...page.rows, ...rows],
  arrived: page.arrived + rows.length,
  asOf: Math.min(page.asOf, asOf),
  more: false,
});

/** The same records, in opposite orders as the source gave them: they are all that there is. */
const isSame = (rows: Rows, ascending: Rows) =>
  rows.length === ascending.length && rows.every((row, i) => keyOf(row) === keyOf(ascending[i]!));

/** Whether both show several records in one order, so that the source does answer in the order that it is asked for. */
function isOpposite(rows: Rows, ascending: Rows): boolean {
  const places = new Map(rows.map(({ id }, place) => [id, place]));
  const shared = ascending.flatMap(({ id }) => places.get(id) ?? []);
  return shared.length > 1 && shared.every((place, i) => i === 0 || shared[i - 1]! < place);
}

const isTimed = ({ time }: Rows[number]): boolean => !Number.isNaN(time);

const isAscending = (rows: Rows): boolean => {
  const times = rows.filter(isTimed).map(({ time }) => time);
  return times.every((time, i) => i === 0 || times[i - 1]! <= time);
};
