/**
 * Reads a list whose replies may be too large to be read. Then the reading begins anew where its claim ends, with fewer records a
 * page (page-size.ts): readers that ask for page 1 only need nothing else. A walk by pages continues at the page of the new size
 * that shows the same place, or one behind it: it walks backwards, so it meets some records twice and loses none. Places of walks are
 * told in pages of the full size, since another run resumes them.
 *
 * One record that is too large alone is passed over, and is never claimed:
 *
 *   by time    A moving list, and one in the order of creation. The record's own time is not known, but that of the records behind it
 *              is: they are read one by one with the same request, up to one of a later second. Everything from the end of
 *              the claim up to there is left as a gap, and the reading continues behind it. At the end of the list the gap ends shortly
 *              before what the list can show.
 *   by place   A walk by pages shows no times. The page counts as one with an unreadable record, which is a reject.
 *   whole      A list that is read whole. The same, and its whole range is a gap, since what the record replaces is not known.
 *   by cursor  Only the reply says where the next page begins, so the reading ends with a gap.
 *
 * Records that are not readable for another reason may fill a small page. By time they are passed over in the same way.
 */

import { readByCreation } from './by-creation.ts';
import { readChangedByCursor } from './by-cursor.ts';
import { readFeed } from './by-feed.ts';
import { readNewest } from './ends.ts';
import { readMovingList } from './moving-list.ts';
import { PageSize } from './page-size.ts';
import { walkList } from './page-walk.ts';
import {
  type Ask,
  endOf,
  floorSecond,
  type Ms,
  type Page,
  type Proof,
  type ReadingOptions,
  type Step,
  secondMs,
  type Walk,
} from './reading.ts';
import { readWhole } from './whole-list.ts';

/** A reply that was too large to be read. */
export interface TooLarge {
  /** How large, in words: the reason of a gap. */
  readonly tooLarge: string;
  /** The id of its first record, if its beginning shows it. */
  readonly id?: string | undefined;
  /** As of a page. */
  readonly asOf: Ms;
}

export type Answer = Page | TooLarge;

type Manner = 'by time' | 'by place' | 'whole' | 'by cursor' | 'look';
type Read<O> = (from: Ms, options: O) => Generator<Step, Proof, Page>;

const manners = new Map<unknown, Manner>([
  [readMovingList, 'by time'],
  [readByCreation, 'by time'],
  [walkList, 'by place'],
  [readWhole, 'whole'],
  [readNewest, 'look'],
  [readChangedByCursor, 'by cursor'],
  [readFeed, 'by cursor'],
]);

/** Such a reading shows the list from its beginning each time. */
export const isWholeEachTime = (read: unknown): boolean => {
  const manner = manners.get(read);
  return manner === undefined || manner === 'whole';
};

/** If so many records one after the other are too large, the source may ignore how many a page are asked for. */
const mostLarge = 20;
/** Records that are read one by one behind one that is too large. */
const mostBehind = 200;

/** Whether this request cannot be made smaller. */
export const isOfOne = ({ perPage }: Ask): boolean => perPage === 1;

export function* inFewer<O extends ReadingOptions>(
  read: Read<O>,
  from: Ms,
  options: O,
): Generator<Step, Proof, Answer> {
  const { perPage, depth, ends } = options;
  const manner = manners.get(read) ?? 'by cursor';
  const size = new PageSize(perPage, depth);
  const unitOf = (wanted: number) => Math.min(ends?.size ?? wanted, wanted);
  /** The claim, and gaps, end here. */
  let start = from;
  /** The place of the walk, and how many records are before its end. */
  let place = options.walk && { walk: options.walk, records: options.walk.page * unitOf(perPage) };
  /** Of a whole list: why it is not claimed. */
  let lost: string | undefined;
  /** Records one after the other that were too large. */
  let many = 0;
  /** `since` of the last request in the order of the list itself, and as it was when a reply was too large. */
  let outer = Number.NEGATIVE_INFINITY;
  let failed = Number.NEGATIVE_INFINITY;
  /** The last request for one record that was too large, and the page that stands for its reply. */
  let known: { readonly ask: string; readonly page: Page } | undefined;
  let reading: Generator<Step, Proof, Page>;
  let step: IteratorResult<Step, Proof>;
  let proof: Proof = {};

  /** The place in pages of the present size; undefined where paging does not reach it. */
  const placed = (): Walk | undefined => {
    if (place === undefined || manner !== 'by place') return place?.walk;
    const page = Math.ceil(place.records / unitOf(size.present));
    return page * unitOf(size.present) <= depth ? { ...place.walk, page } : undefined;
  };
  /** What a step proves, as others may know it. */
  const told = (): Proof => {
    const { pages, walk, ...proven } = step.done ? step.value : step.value.proof;
    // A gap behind what was claimed ends nothing.
    for (const range of [proven.covered, proven.gap])
      if (range && range.from <= start) start = Math.max(start, range.to);
    if (walk !== undefined) place = walk ? { walk, records: walk.page * unitOf(size.present) } : undefined;
    const page = place && Math.ceil(place.records / unitOf(perPage));
    return {
      ...proven,
      ...(walk !== undefined && { walk: walk && { ...walk, page: page! } }),
      // What small pages show of the pages of a list may be the size that was asked for.
      ...(pages && !size.isLess && { pages }),
    };
  };
  const begin = (proven: Proof = {}) => {
    start = Math.max(start, proven.gap?.to ?? start);
    const sized = { perPage: size.present, walk: placed() };
    // The first page of a first load is asked for with the count. Only one is.
    reading = read(start, { ...options, ...sized, firstLoad: options.firstLoad === true && start === from });
    step = reading.next();
    proof = step.done ? { ...proven, ...told() } : proven;
  };
  const follow = (page: Page) => {
    size.came(page.arrived);
    step = reading.next(page);
    proof = { ...proof, ...told() };
  };

  begin();
  while (!step!.done) {
    const { ask } = step!.value;
    if (!isWithin(read, ask)) outer = ask.since ?? -secondMs;
    if (known?.ask === JSON.stringify(ask)) {
      follow(known.page);
      continue;
    }
    const answer: Answer = yield { ask, proof };
    proof = {};
    if (!('tooLarge' in answer) && !isUnreadable(manner, size, ask, answer)) {
      many = 0;
      follow(answer);
      if (!step!.done && size.mayGrow && mayBegin(read, manner, step!.value, { start, failed })) {
        size.grow();
        begin(proof);
      }
    } else if (manner === 'look') return {};
    else if (!isOfOne(ask)) {
      size.failed(ask.perPage);
      failed = outer;
      begin();
    } else if (manner === 'by time' && !isWithin(read, ask)) {
      const reason = reasonOf(answer);
      const until = endOf(options);
      const to = yield* passOver(ask, answer, start, options);
      if (to === undefined) {
        const end = Math.min(until, floorSecond(answer.asOf - options.lookbackMs));
        return end > start
          ? { gap: { from: start, to: end, reason: `${mostLarge} one after the other: ${reason}` } }
          : {};
      }
      size.passed();
      const end = Math.min(to, until);
      if (end <= start) return {};
      begin({ gap: { from: start, to: end, reason } });
    } else if (manner === 'by cursor') {
      const gap = { from: floorSecond(from), to: floorSecond(answer.asOf), reason: reasonOf(answer) };
      return { gap };
    } else if (++many === mostLarge) {
      const reason = `${mostLarge} one after the other: ${reasonOf(answer)}`;
      return manner === 'whole' ? { gap: { from: floorSecond(from), to: floorSecond(answer.asOf), reason } } : {};
    } else {
      lost = reasonOf(answer);
      known = { ask: JSON.stringify(ask), page: standIn(manner, ask, answer) };
      follow(known.page);
      size.passed();
    }
  }
  if (manner !== 'whole' || lost === undefined || proof.covered === undefined) return proof;
  const { covered, ...rest } = proof;
  return { ...rest, gap: { ...covered, reason: lost } };
}

const reasonOf = (answer: Answer): string =>
  'tooLarge' in answer ? answer.tooLarge : 'a record that cannot be read stands here';

/** A reader by time asks for such a page again and again, and gives up: it takes a full one for a page of many records. */
const isUnreadable = (manner: Manner, { isLess }: PageSize, ask: Ask, { rows, arrived }: Page): boolean =>
  manner === 'by time' &&
  isLess &&
  ask.since !== undefined &&
  ask.perPage > 0 &&
  rows.length === 0 &&
  arrived >= ask.perPage;

/** The request belongs to a tie of a moving list that is read by creation. A failure there leaves its second as a gap. */
const isWithin = (read: unknown, { order }: Pick<Ask, 'order'>): boolean =>
  read === readMovingList && order === 'created';

/**
 * At this request the reading may begin anew without losing what it knows: it has read nothing beyond its claim, and is past the
 * request that failed. (A tie is read by pages of one request, there and back.)
 */
const mayBegin = (
  read: unknown,
  manner: Manner,
  { ask: { since = -secondMs, ...ask }, proof }: Step,
  { start, failed }: { start: Ms; failed: Ms },
): boolean =>
  manner === 'by time'
    ? ask.page === 1 &&
      !ask.probe &&
      ask.only === undefined &&
      !isWithin(read, ask) &&
      since > failed &&
      since <= Math.max(0, start - secondMs)
    : manner === 'by place' && proof.walk !== undefined && proof.walk !== null;

/** The page of one record that is too large. In a whole list it counts as a record, so that the next page is asked for. */
function standIn(manner: Manner, { page }: Ask, answer: Answer): Page {
  const id = 'tooLarge' in answer ? answer.id : undefined;
  const named = id ?? (manner === 'whole' ? `too large: page ${page}` : undefined);
  const rows = named === undefined ? [] : [{ id: named, time: Number.NaN }];
  return { arrived: 1, rows, asOf: answer.asOf, trueBy: answer.asOf + secondMs };
}

/**
 * Reads the records behind one that is too large. Returns the time from which on the reading can begin anew: what it shows from there
 * on is complete, and everything before was read as far as it can be. Undefined where too many are too large.
 */
function* passOver(
  { page: first, since, order, updatedSince, only }: Ask,
  large: Answer,
  start: Ms,
  { depth, lookbackMs }: ReadingOptions,
): Generator<Step, Ms | undefined, Answer> {
  const ask = { ...(since !== undefined && { since }), order, updatedSince, perPage: 1 };
  const around = floorSecond(since ?? 0) + 2 * secondMs;
  // A second with more records than paging reaches.
  if (only !== undefined) return around;
  /** The second of the first readable record behind the last one that is too large. */
  let behind: Ms | undefined;
  /** The second of the last readable record. */
  let latest = start;
  let many = 1;
  let { asOf } = large;
  for (let page = first + 1; page <= Math.min(depth, first + mostBehind); page++) {
    const answer: Answer = yield { ask: { ...ask, page }, proof: {} };
    asOf = answer.asOf;
    // What is younger may still change its place: a later run passes it over.
    const newest = floorSecond(asOf - lookbackMs) - secondMs;
    if (!('tooLarge' in answer) && answer.arrived === 0) return newest;
    const time = 'tooLarge' in answer ? undefined : answer.rows[0]?.time;
    if (time === undefined || Number.isNaN(time)) {
      behind = undefined;
      many++;
      if (many === mostLarge) return undefined;
    } else if (floorSecond(time) > Math.max(start, behind ?? Infinity)) return Math.min(floorSecond(time), newest);
    else {
      behind ??= floorSecond(time);
      latest = floorSecond(time);
    }
  }
  const reached = behind === undefined ? latest : behind + secondMs;
  return Math.min(Math.max(start + secondMs, reached), floorSecond(asOf - lookbackMs));
}
