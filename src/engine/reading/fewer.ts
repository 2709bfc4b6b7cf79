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

/** If this many consecutive records are too large, the source probably ignores the requested page size. */
const mostLarge = 20;
/** Most records that are read one by one behind a record that is too large. */
const mostBehind = 200;

/** Whether this request cannot be made smaller. */
export const isOfOne = ({ perPage }: Ask): boolean => perPage === 1;

export const inFewer = <O extends ReadingOptions>(
  read: Read<O>,
  from: Ms,
  options: O,
): Generator<Step, Proof, Answer> => new FewerReading(read, from, options).steps();

class FewerReading<O extends ReadingOptions> {
  readonly #read: Read<O>;
  readonly #from: Ms;
  readonly #options: O;
  readonly #manner: Manner;
  readonly #size: PageSize;
  /** The claim, and gaps, end here. */
  #start: Ms;
  /** The place of the walk, and how many records are before its end. */
  #place: { readonly walk: Walk; readonly records: number } | undefined;
  /** Of a whole list: why it is not claimed. */
  #lost: string | undefined;
  /** Number of consecutive records that were too large. */
  #many = 0;
  /**
   * `since` of the last request in the order of the list itself. `#failed`: its value at the last reply that was too
   * large.
   */
  #outer = Number.NEGATIVE_INFINITY;
  #failed = Number.NEGATIVE_INFINITY;
  /** The last request for one record that was too large, and the page that stands for its reply. */
  #known: { readonly ask: string; readonly page: Page } | undefined;
  /** The reading with pages of the present size, and its last step. */
  #reading!: Generator<Step, Proof, Page>;
  #step!: IteratorResult<Step, Proof>;
  /** The proof since the last request. */
  #proof: Proof = {};

  constructor(read: Read<O>, from: Ms, options: O) {
    this.#read = read;
    this.#from = from;
    this.#options = options;
    this.#manner = manners.get(read) ?? 'by cursor';
    this.#size = new PageSize(options.perPage, options.depth);
    this.#start = from;
    this.#place = options.walk && { walk: options.walk, records: options.walk.page * this.#unitOf(options.perPage) };
  }

  *steps(): Generator<Step, Proof, Answer> {
    const read = this.#read;
    this.#begin();
    while (!this.#step.done) {
      const { ask } = this.#step.value;
      if (!isWithin(read, ask)) this.#outer = ask.since ?? -secondMs;
      if (this.#known?.ask === JSON.stringify(ask)) {
        this.#follow(this.#known.page);
        continue;
      }
      const answer: Answer = yield { ask, proof: this.#proof };
      this.#proof = {};
      if ('tooLarge' in answer || isUnreadable(this.#manner, this.#size, ask, answer)) {
        const end = yield* this.#askForLess(ask, answer);
        if (end) return end;
        continue;
      }
      this.#many = 0;
      this.#follow(answer);
      const place = { start: this.#start, failed: this.#failed };
      if (!this.#step.done && this.#size.mayGrow && mayBegin(read, this.#manner, this.#step.value, place)) {
        this.#size.grow();
        this.#begin(this.#proof);
      }
    }
    if (this.#manner !== 'whole' || this.#lost === undefined || this.#proof.covered === undefined) return this.#proof;
    const { covered, ...rest } = this.#proof;
    return { ...rest, gap: { ...covered, reason: this.#lost } };
  }

  /** After a reply that cannot be read: begins with smaller pages, or passes one record over. Returns the last proof if the reading ends. */
  *#askForLess(ask: Ask, answer: Answer): Generator<Step, Proof | undefined, Answer> {
    const manner = this.#manner;
    const reason = reasonOf(answer);
    const all = { from: floorSecond(this.#from), to: floorSecond(answer.asOf) };
    if (manner === 'look') return {};
    if (!isOfOne(ask)) {
      this.#size.failed(ask.perPage);
      this.#failed = this.#outer;
      this.#begin();
    } else if (manner === 'by time' && !isWithin(this.#read, ask)) {
      const to = yield* passOver(ask, answer, this.#start, this.#options);
      const known = to ?? floorSecond(answer.asOf - this.#options.lookbackMs);
      const gap = { from: this.#start, to: Math.min(endOf(this.#options), known) };
      if (gap.to <= gap.from) return {};
      if (to === undefined) return { gap: { ...gap, reason: tooMany(reason) } };
      this.#size.passed();
      this.#begin({ gap: { ...gap, reason } });
    } else if (manner === 'by cursor') return { gap: { ...all, reason } };
    else if (++this.#many === mostLarge) return manner === 'whole' ? { gap: { ...all, reason: tooMany(reason) } } : {};
    else {
      this.#lost = reason;
      this.#known = { ask: JSON.stringify(ask), page: standIn(manner, ask, answer) };
      this.#follow(this.#known.page);
      this.#size.passed();
    }
    return undefined;
  }

  /** Begins the reading anew with pages of the present size, from where its claim ends. */
  #begin(proven: Proof = {}): void {
    this.#start = Math.max(this.#start, proven.gap?.to ?? this.#start);
    const sized = { perPage: this.#size.present, walk: this.#placed() };
    // The first page of a first load is asked for with the count. Only one is.
    const firstLoad = this.#options.firstLoad === true && this.#start === this.#from;
    this.#reading = this.#read(this.#start, { ...this.#options, ...sized, firstLoad });
    this.#step = this.#reading.next();
    this.#proof = this.#step.done ? { ...proven, ...this.#told() } : proven;
  }

  #follow(page: Page): void {
    this.#size.came(page.arrived);
    this.#step = this.#reading.next(page);
    this.#proof = { ...this.#proof, ...this.#told() };
  }

  #unitOf(wanted: number): number {
    return Math.min(this.#options.ends?.size ?? wanted, wanted);
  }

  /** The place in pages of the present size; undefined where paging does not reach it. */
  #placed(): Walk | undefined {
    const place = this.#place;
    if (place === undefined || this.#manner !== 'by place') return place?.walk;
    const unit = this.#unitOf(this.#size.present);
    const page = Math.ceil(place.records / unit);
    return page * unit <= this.#options.depth ? { ...place.walk, page } : undefined;
  }

  /** The proof of the last step, in pages of the full size. */
  #told(): Proof {
    const { pages, walk, ...proven } = this.#step.done ? this.#step.value : this.#step.value.proof;
    // A gap behind what was claimed ends nothing.
    for (const range of [proven.covered, proven.gap])
      if (range && range.from <= this.#start) this.#start = Math.max(this.#start, range.to);
    if (walk !== undefined)
      this.#place = walk ? { walk, records: walk.page * this.#unitOf(this.#size.present) } : undefined;
    const page = this.#place && Math.ceil(this.#place.records / this.#unitOf(this.#options.perPage));
    return {
      ...proven,
      ...(walk !== undefined && { walk: walk && { ...walk, page: page! } }),
      // The size of small pages may be the size of the request, so they prove nothing of the pages of the list.
      ...(pages && !this.#size.isLess && { pages }),
    };
  }
}

const tooMany = (reason: string) => `${mostLarge} one after the other: ${reason}`;

const reasonOf = (answer: Answer): string =>
  'tooLarge' in answer ? answer.tooLarge : 'a record that cannot be read stands here';

/**
 * Whether a small page has only unreadable records. A reader by time would take it for a full page, and repeat the same
 * request.
 */
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
    // A younger record may still change its place. A later run passes it over.
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
