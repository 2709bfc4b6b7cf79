/**
 * Reads a tie that fills a page: one second, or two neighbouring ones. The next request would be the same, so that
 * request is read by pages, forwards to find the end of the tie, and backwards over the same records in pages of another size.
 */
import { Fatal } from '../../errors.ts';
import { across, apart, keyOf } from './overlap.ts';
import {
  type Ask,
  endOf,
  floorSecond,
  isLast,
  type Ms,
  type Page,
  type Proof,
  type ReadingOptions,
  type Step,
  secondMs,
} from './reading.ts';

/** Tries for a page that is out of order, and readings of a tie until two agree. */
const mostReadings = 5;

export interface TieReading {
  /** The pages of a forward reading. */
  readonly there: readonly Page[];
  /** Everything before this second has been read; Infinity at the end of the list. */
  readonly before: Ms;
  /** Two readings, one of them backwards, showed the same order. */
  readonly agreed: boolean;
  /** The pages overlap, so no record can be between two of them, even if replicas of different age have answered. */
  readonly whole: boolean;
  /** Paging did not reach beyond the tie. */
  readonly deep: boolean;
  /** `since` turned out to include its own second. */
  readonly inclusive: boolean;
  /** The as-of time of the earliest page. */
  readonly asOf: Ms;
  /** The pages of both readings. */
  readonly pages: readonly Page[];
}

/** Compares a forward and a backward reading. The flag says whether the backward one was the later one. */
type Agree = (there: readonly string[], back: readonly string[], backwardsLast: boolean) => boolean;

/**
 * Continues a forward reading of the request `since`: backwards over the same records, in pages of `backPerPage`, until two
 * readings agree.
 */
export function* readTie(
  since: Ms,
  begun: Reading,
  options: ReadingOptions,
  agree: Agree,
  backPerPage = options.perPage,
): Generator<Step, TieReading, Page> {
  let one = begun;
  for (let readings = 2; ; readings++) {
    const backwards = readings % 2 === 0;
    const other: Reading = backwards
      ? { ...one, pages: yield* overAgain(since, one, options, backPerPage) }
      : yield* forwards(since, [], options);
    const { before, deep } = one.before < other.before ? one : other;
    const [there, back] = backwards ? [one, other] : [other, one];
    const agreed = agree(rowsBefore(before, there.pages), rowsBefore(before, back.pages), backwards);
    if (agreed || readings === mostReadings) {
      const joints = yield* join(since, there.pages, back.pages, before, { ...options, backPerPage });
      const pages = [...one.pages, ...other.pages, ...joints];
      const asOf = Math.min(...pages.map(page => page.asOf));
      const inclusive = startsIn(begun.pages[0]!, since);
      const whole = apart(there.pages, back.pages, joints, before).length === 0;
      return { there: there.pages, before, agreed, whole, deep, inclusive, asOf, pages };
    }
    one = other;
  }
}

/**
 * Reads a page across each border of the forward pages that no backward page lies across. If most borders are like that, the
 * source does not keep to the page sizes that it is asked for, and more of them are no help.
 */
function* join(
  since: Ms,
  there: readonly Page[],
  back: readonly Page[],
  before: Ms,
  { perPage, backPerPage }: ReadingOptions & { backPerPage: number },
): Generator<Step, readonly Page[], Page> {
  const borders = backPerPage < perPage ? apart(there, back, [], before) : [];
  const joints: Page[] = [];
  if (borders.length > there.length / 2) return joints;
  for (const border of borders) joints.push(yield* inOrder({ since, ...across(border * perPage, perPage) }, {}));
  return joints;
}

export interface Reading {
  readonly pages: readonly Page[];
  readonly before: Ms;
  readonly deep: boolean;
}

/** Reads until a page ends beyond the two seconds of the tie, or the wanted range, the list or paging ends. */
export function* forwards(since: Ms, begun: readonly Page[], options: ReadingOptions): Generator<Step, Reading, Page> {
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
      if ((pages.length + 1) * perPage > depth) return { pages, before: lastOf(pages) ?? since + secondMs, deep: true };
    }
    pages.push(yield* inOrder({ since, page: pages.length + 1, perPage }, {}));
  }
}

/** The second of the last record that was shown. */
function lastOf(pages: readonly Page[]): Ms | undefined {
  const last = pages.findLast(({ rows }) => rows.length > 0)?.rows.at(-1);
  return last && floorSecond(last.time);
}

/**
 * The pages with records from before `before`, from the last to the first. The last page was just read. A page whose
 * records have no time, or were all taken out, counts: a record that left it moved the following ones.
 */
function* overAgain(
  since: Ms,
  there: Reading,
  { perPage }: ReadingOptions,
  backPerPage: number,
): Generator<Step, readonly Page[], Page> {
  const concerned =
    1 +
    there.pages.findLastIndex(
      page =>
        (page.rows.length === 0 && (page.arrived > 0 || page.isLast === false)) ||
        page.rows.some(row => row.time < there.before),
    );
  const again = Math.min(concerned, there.pages.length - 1);
  const back: Page[] = [];
  for (let page = Math.ceil((again * perPage) / backPerPage); page >= 1; page--) {
    back.unshift(yield* inOrder({ since, page, perPage: backPerPage }, {}));
  }
  return backPerPage === perPage ? [...back, ...there.pages.slice(again, concerned)] : back;
}

function rowsBefore(before: Ms, pages: readonly Page[]): string[] {
  const rows = pages.flatMap(page => page.rows).filter(row => floorSecond(row.time) < before);
  return rows.map(keyOf);
}

/**
 * Records in both readings stand in one order, and the forward reading met no record twice. If each page had an order
 * of its own, always the same, a record on two pages would be the only sign of a record that is on none. (The backward
 * reading may meet a record again: it has moved on to the following page.) A record that left, or that only one reading
 * met, proves nothing.
 */
export function inOneOrder(there: readonly string[], back: readonly string[]): boolean {
  const place = new Map(there.map((row, i) => [row, i]));
  const shared = [...new Set(back)].map(row => place.get(row)).filter(i => i !== undefined);
  return place.size === there.length && shared.every((i, k) => k === 0 || shared[k - 1]! < i);
}

/** A list that begins earlier than this is coarser than the second by which readings overlap. */
export const mostSlackMs = 2000;

/**
 * Repeats the request while its page is out of order, shows records that were not requested, or shows none that can be
 * read. The last is allowed only for a request without a time (the beginning of an order of creation).
 */
export function* inOrder(ask: Ask & { since: Ms }, proof: Proof): Generator<Step, Page, Page> {
  let unreadable = false;
  let first: Ms | undefined;
  for (let readings = 1; readings <= mostReadings; readings++) {
    const page: Page = yield { ask, proof: readings === 1 ? proof : {} };
    const times = page.rows.map(row => row.time);
    const ordered = times.every((time, i) => time >= (i === 0 ? ask.since : times[i - 1]!));
    unreadable = times.length === 0 && page.arrived >= ask.perPage && ask.since > -secondMs;
    if (ordered && !unreadable) return page;
    first = times.every((time, i) => i === 0 || time >= times[i - 1]!) ? times[0] : undefined;
  }
  const list = `the list of ${new Date(ask.since).toISOString()} and later`;
  if (unreadable)
    throw new Fatal(
      `${list} came ${mostReadings} times with a full page of records that cannot be read`,
      'sync.rejects tells what is wrong with them. Until one can be read, the rest of the list is unknown.',
    );
  const slackMs = first === undefined ? Number.NaN : ask.since - first;
  throw slackMs > 0
    ? new Fatal(
        `${list} began ${mostReadings} times with a record of ${new Date(first!).toISOString()}`,
        `The source shows older records than it is asked for${slackMs <= mostSlackMs ? '. If it always does so, declare startSlackSeconds' : ', and may not know the time in the request'}. Nothing was claimed as complete.`,
      )
    : new Fatal(
        `${list} came out of order, ${mostReadings} times`,
        'The source does not keep to the time and the order that it is asked for; ask its support. Nothing was claimed as complete.',
      );
}

export interface Look {
  /** No page follows: this one is the last, or reaches into the future (a wrong clock moves nothing). */
  readonly ended: boolean;
  /** The second of the last record. */
  readonly last: Ms;
}

export function look(page: Page, { perPage, lookbackMs }: ReadingOptions): Look {
  const last = page.rows.at(-1)?.time ?? Number.NaN;
  return { ended: isLast(page, perPage) || last > page.trueBy + lookbackMs, last: floorSecond(last) };
}

/**
 * The second of the last record that was not loaded after its page was cut: it is older than the reply, or dated ahead of it. NaN if
 * there is none.
 */
export function lastOld({ rows, asOf, trueBy }: Page, lookbackMs: Ms): Ms {
  return floorSecond(rows.findLast(({ time }) => time < asOf - lookbackMs || time >= trueBy)?.time ?? Number.NaN);
}

export const startsIn = (page: Page, second: Ms) =>
  page.rows[0] !== undefined && floorSecond(page.rows[0].time) === second;

/** A gap; no gap if the range is empty. */
export const leaving = (from: Ms, to: Ms, reason: string): Proof => (to > from ? { gap: { from, to, reason } } : {});

export const disagreed = (time: 'update' | 'creation') =>
  `${mostReadings} readings of records with the same ${time} time showed them in different orders`;
