/**
 * Reading a shelf that changes between requests, against a shelf in memory that keeps every state it was in. What is
 * claimed is held against the state at the very request whose `asOf` it bears. Readers that are wrong in the usual ways,
 * made of the source itself, must fail the same properties.
 */
import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readShelf, type ShelfAsk, type ShelfPage, type ShelfRead } from '../../../src/engine/reading/collection.ts';

type Reader = typeof readShelf;

const perPage = 4;
/** As in the source. */
const mostReadings = 5;
const mostPages = 1000;

interface Change {
  /** Requests to wait after the change before. */
  readonly skip: number;
  readonly kind: 'put' | 'append' | 'remove' | 'move' | 'replace' | 'back';
  readonly pick: number;
  readonly to: number;
}

interface ModelOptions {
  readonly volumes: number;
  readonly changes?: readonly Change[];
  /** How many arrive at most, of these in turn; each request takes the next. */
  readonly lengths?: readonly number[];
  readonly ignoresStart?: boolean;
  /** Every so manieth volume has an id that cannot be read. */
  readonly unreadable?: number;
  /** How much earlier than it was read a reply is known to be true. */
  readonly lag?: number;
}

/** Between two requests lie many moments; a change takes one, and none is in the moment of a request. */
const betweenRequests = 100;

class ModelShelf {
  now = 0;
  readonly asked: (ShelfAsk & { at: number; ids: readonly string[]; asOf: number })[] = [];
  readonly states: { from: number; ids: readonly string[] }[];
  readonly #options: ModelOptions;
  readonly #changes: Change[];
  readonly #taken: string[] = [];
  /** Of these nothing is put on twice, nor taken off once it was put on. */
  readonly #first: ReadonlySet<string>;
  #made = 0;
  #lastChange = 0;

  constructor(options: ModelOptions) {
    this.#options = options;
    this.#changes = [...(options.changes ?? [])];
    const ids = Array.from({ length: options.volumes }, () => this.#make());
    this.#first = new Set(ids);
    this.states = [{ from: 0, ids }];
  }

  get ids(): readonly string[] {
    return this.states.at(-1)!.ids;
  }

  #make(): string {
    return `v${++this.#made}`;
  }

  change({ kind, pick, to }: Change): void {
    const ids = [...this.ids];
    const place = ids.length === 0 ? 0 : pick % ids.length;
    const target = to % (ids.length + 1);
    const original = ids.filter(id => this.#first.has(id));
    if (kind === 'put') ids.splice(target, 0, this.#make());
    else if (kind === 'append') ids.push(this.#make());
    else if (kind === 'replace' && ids.length > 0) ids[place] = this.#make();
    else if (kind === 'move' && ids.length > 0) ids.splice(to % ids.length, 0, ...ids.splice(place, 1));
    else if (kind === 'back' && this.#taken.length > 0) ids.splice(target, 0, this.#taken.pop()!);
    else if (kind === 'remove' && original.length > 0) {
      const [taken] = ids.splice(ids.indexOf(original[pick % original.length]!), 1);
      this.#taken.push(taken!);
    }
    this.now++;
    this.states.push({ from: this.now, ids });
  }

  answer(ask: ShelfAsk): ShelfPage {
    const due = this.now + betweenRequests;
    while (this.#changes[0] && this.#lastChange + this.#changes[0].skip <= this.asked.length) {
      const change = this.#changes.shift()!;
      this.#lastChange += change.skip;
      this.change(change);
    }
    this.now = due;
    const { lengths = [perPage], ignoresStart, lag = 0 } = this.#options;
    const most = Math.min(ask.maxResults, lengths[this.asked.length % lengths.length]!);
    const start = ignoresStart ? 0 : ask.startIndex;
    const ids = this.shown(this.ids).slice(start, start + most);
    const asOf = this.now - lag;
    this.asked.push({ ...ask, at: this.now, ids, asOf });
    return { ids, asOf };
  }

  shown(ids: readonly string[]): readonly string[] {
    const { unreadable } = this.#options;
    return unreadable ? ids.map(id => (Number(id.slice(1)) % unreadable === 0 ? '' : id)) : ids;
  }

  /** The states from this moment to that one, both included. */
  during(from: number, to: number): (readonly string[])[] {
    return this.states
      .filter((state, i) => state.from <= to && (this.states[i + 1]?.from ?? Number.POSITIVE_INFINITY) > from)
      .map(({ ids }) => this.shown(ids));
  }

  at(moment: number): readonly string[] {
    return this.during(moment, moment)[0]!;
  }
}

class Wrong extends Error {}

interface Driven {
  readonly shelf: ModelShelf;
  readonly known: readonly string[] | undefined;
  readonly read: ShelfRead;
  /** The request before the readings: of the end of what is known. */
  readonly first: (typeof ModelShelf.prototype.asked)[number] | undefined;
  /** By reading. */
  readonly readings: (typeof ModelShelf.prototype.asked)[];
}

interface DriveOptions {
  /** What stood on the shelf when the model began. */
  readonly known?: readonly string[] | undefined;
  readonly look?: boolean;
  readonly count?: number | undefined;
  readonly most?: number;
}

function drive(
  reader: Reader,
  shelf: ModelShelf,
  { known, look = false, count, most = 2000 }: DriveOptions = {},
): Driven {
  const reading = reader({ known, look, perPage, count });
  let step = reading.next();
  while (!step.done) {
    if (shelf.asked.length >= most) throw new Wrong(`it has asked ${most} times and goes on`);
    const { maxResults } = step.value;
    if (maxResults !== perPage) throw new Wrong(`asked for ${maxResults} at once`);
    step = reading.next(shelf.answer(step.value));
  }
  const looked = known !== undefined && (look || known.length > 0);
  const readings: Driven['readings'] = [];
  for (const asked of shelf.asked.slice(looked ? 1 : 0)) {
    if (asked.startIndex === 0) readings.push([]);
    readings.at(-1)!.push(asked);
  }
  return { shelf, known, read: step.value, first: looked ? shelf.asked[0] : undefined, readings };
}

const isSame = (one: readonly unknown[], other: readonly unknown[]) => one.join() === other.join();

/** What is whole, as whoever stores it puts it together: of a source that repeats itself the repetition is left out. */
function wholeOf({ readings }: Driven): string[] {
  const pages = readings.at(-1)!.map(({ ids }) => ids);
  const repeats = pages.length > 1 && isSame(pages[0]!, pages.at(-1)!) && pages[0]!.some(id => id !== '');
  return pages.slice(0, repeats ? -1 : undefined).flat();
}

/** What is claimed was so at the request whose `asOf` is claimed, which is one of these two readings'. */
function checkClaim(driven: Driven): void {
  const { shelf, read, known, first, readings } = driven;
  if (read.found === 'moved') return;
  if (read.found === 'unchanged') {
    if (first === undefined || shelf.asked.length !== 1) throw new Wrong('unchanged, of more than one look');
    if (read.asOf !== first.asOf) throw new Wrong('unchanged as of another moment');
    const now = shelf.at(first.at);
    if (!isSame(now.slice(first.startIndex), known!.slice(first.startIndex)))
      throw new Wrong('unchanged, and its end is another');
    return;
  }
  const asked = readings.length > 1 ? readings.slice(-2).flat() : [...(first ? [first] : []), ...readings[0]!];
  const told = asked.find(({ asOf }) => asOf === read.asOf);
  if (told === undefined) throw new Wrong('whole as of a moment at which nothing was asked');
  if (!isSame(shelf.at(told.at), wholeOf(driven))) throw new Wrong('whole, and it was not like that');
}

/**
 * The limit of what can be known: a place that showed something else between its two readings, and then again the same.
 * The first of the two may be what was known.
 */
function wasUndone(driven: Driven): boolean {
  const { shelf, known, readings, read } = driven;
  if (read.found !== 'whole') return false;
  const whole = wholeOf(driven);
  const seenIn = (reading: Driven['readings'][number], place: number) =>
    reading.find(({ startIndex, ids }) => startIndex <= place && place < startIndex + Math.max(1, ids.length))?.at;
  const [before, last] = readings.length > 1 ? readings.slice(-2) : [undefined, readings[0]!];
  if (before === undefined && known === undefined) return false;
  return whole.some((id, place) => {
    const from = before === undefined ? 0 : seenIn(before, place);
    const to = seenIn(last!, place);
    if (from === undefined || to === undefined) return false;
    return shelf.at(from)[place] === id && shelf.during(from, to).some(ids => ids[place] !== id);
  });
}

/** Each reading goes at most to the longest that the shelf ever was, at the shortest that pages are, and once beyond. */
function checkCost({ shelf }: Driven, shortest: number): void {
  const longest = Math.max(...shelf.states.map(({ ids }) => ids.length));
  const most = 1 + mostReadings * (Math.ceil(longest / shortest) + 1);
  if (shelf.asked.length > most) throw new Wrong(`cost ${shelf.asked.length} requests instead of ${most}`);
}

// --- properties ----------------------------------------------------------------------------------------------------------

const kinds = (...some: Change['kind'][]) =>
  fc.array(
    fc.record({
      skip: fc.nat({ max: 4 }),
      kind: fc.constantFrom(...some),
      pick: fc.nat({ max: 30 }),
      to: fc.nat({ max: 30 }),
    }),
    { maxLength: 12 },
  );

const lengths = fc.oneof(
  { weight: 3, arbitrary: fc.constant([perPage]) },
  { weight: 1, arbitrary: fc.constant([perPage - 1]) },
  { weight: 2, arbitrary: fc.array(fc.integer({ min: 2, max: perPage }), { minLength: 1, maxLength: 7 }) },
);

const lag = fc.constantFrom(0, 30);
const volumes = fc.nat({ max: 14 });
const knows = fc.constantFrom('nothing', 'all', 'before');
/** Whether the catalog says how many there are. */
const says = fc.constantFrom('nothing', 'truth', 'more');
const countOf = ({ ids }: ModelShelf, what: 'nothing' | 'truth' | 'more') =>
  what === 'nothing' ? undefined : ids.length + (what === 'more' ? 1 : 0);

/** What is known was so when the model began; or it was so before a change that nobody has looked at. */
function knownTo(shelf: ModelShelf, what: 'nothing' | 'all' | 'before', first: Change | undefined) {
  if (what === 'nothing') return undefined;
  const known = shelf.shown(shelf.ids);
  if (what === 'before' && first) shelf.change(first);
  return known;
}

/**
 * Each volume is put on once at most, and what was put on while it was looked at stays: no claim is beyond proof. (But for one
 * that shows a volume twice: of a shelf that moved, at the same places in both readings. That takes three changes in as many
 * moments, and is believed, since a source may do so while nothing moves.)
 */
const holdsWhereNothingReturns = (reader: Reader) =>
  fc.property(volumes, kinds('put', 'append', 'remove'), lengths, lag, knows, says, (...given) => {
    const [count, changes, some, ms, what, said] = given;
    const shelf = new ModelShelf({ volumes: count, changes: changes.slice(1), lengths: some, lag: ms });
    const known = knownTo(shelf, what, changes[0]);
    const driven = drive(reader, shelf, { known, count: countOf(shelf, said) });
    const shown = driven.read.found === 'whole' ? wholeOf(driven) : [];
    if (new Set(shown).size === shown.length) checkClaim(driven);
    checkCost(driven, 1);
  });

/** Anything may happen, but for what is undone before it is seen again. */
const holdsWhileMoving = (reader: Reader) =>
  fc.property(
    fc.record({
      volumes,
      changes: kinds('put', 'append', 'remove', 'move', 'replace', 'back'),
      lengths,
      lag,
      unreadable: fc.constantFrom(0, 0, 3, 7),
    }),
    knows,
    says,
    (model, what, said) => {
      const shelf = new ModelShelf({ ...model, changes: model.changes.slice(1) });
      const known = knownTo(shelf, what, model.changes[0]);
      const driven = drive(reader, shelf, { known, count: countOf(shelf, said) });
      checkCost(driven, 1);
      if (!wasUndone(driven)) checkClaim(driven);
    },
  );

/** Pages are as long as was asked for: of shorter ones nobody can tell the end. */
const holdsWhenLooking = (reader: Reader) =>
  fc.property(volumes, kinds('put', 'append', 'remove', 'move', 'replace'), lag, (count, changes, ms) => {
    const shelf = new ModelShelf({ volumes: count, changes: changes.slice(1), lag: ms });
    const known = knownTo(shelf, 'before', changes[0]);
    const driven = drive(reader, shelf, { known, look: true });
    if (!wasUndone(driven)) checkClaim(driven);
    checkCost(driven, 1);
  });

/** It is quiet: what is there is found, in as many requests as are needed to know it. */
const costsWhileQuiet = (reader: Reader) =>
  fc.property(
    volumes,
    lengths,
    fc.constantFrom(0, 3),
    knows,
    fc.boolean(),
    kinds('put', 'remove'),
    says,
    (...given) => {
      const [count, some, unreadable, what, look, changes, said] = given;
      const shelf = new ModelShelf({ volumes: count, lengths: some, unreadable });
      const known = knownTo(shelf, what, changes[0]);
      // Where pages are short, a look proves nothing.
      const driven = drive(reader, shelf, {
        known,
        look: look && isSame(some, [perPage]),
        count: countOf(shelf, said),
      });
      const { read } = driven;
      if (read.found === 'moved') throw new Wrong('moved, and nothing did');
      if (read.found === 'unchanged') return checkClaim(driven);
      if (!isSame(wholeOf(driven), shelf.shown(shelf.ids))) throw new Wrong('quiet, and not all of it was found');
      if (some.length > 1) return; // How many pages there are, differs.
      const pages = Math.ceil(shelf.ids.length / some[0]!);
      const isKnown = known !== undefined && isSame(known, shelf.shown(shelf.ids));
      const isEmpty = shelf.ids.length === 0;
      const first = driven.first === undefined ? 0 : 1;
      const end = said === 'truth' ? 0 : 1;
      const empty = said === 'more' || !(known === undefined || isKnown) ? 2 : 1;
      const cost = first + (isEmpty ? empty : isKnown ? pages + end : 2 * pages + 1 + end);
      const requests = shelf.asked.length;
      if (requests !== cost) throw new Wrong(`cost ${requests} requests instead of ${cost}`);
    },
  );

/** One reply comes without its records. Where nothing was known and nothing is said, an empty shelf is believed at once. */
const holdsWhereOneIsEmpty = (reader: Reader) =>
  fc.property(volumes, lengths, knows, fc.boolean(), fc.nat({ max: 9 }), kinds('put', 'remove'), (...given) => {
    const [count, some, what, isSaid, nth, changes] = given;
    const shelf = new ModelShelf({ volumes: count, lengths: some });
    const known = knownTo(shelf, what, changes[0]);
    if (!isSaid && !known?.length && nth === 0) return;
    const { shown } = shelf;
    shelf.shown = ids => (shelf.asked.length === nth && shelf.now > 1 ? [] : shown.call(shelf, ids));
    const driven = drive(reader, shelf, { known, count: isSaid ? shelf.ids.length : undefined });
    if (driven.read.found === 'moved') throw new Wrong('moved, and nothing did');
    if (!isSame(wholeOf(driven), shelf.ids)) throw new Wrong('quiet, and not all of it was found');
  });

describe('properties', () => {
  const runs = (numRuns: number) => ({ numRuns, ...(process.env.FC_SEED && { seed: Number(process.env.FC_SEED) }) });

  test('where nothing returns, what is whole was so at its asOf', () => {
    fc.assert(holdsWhereNothingReturns(readShelf), runs(4000));
  });

  test('whatever happens, what is whole was so at its asOf, unless it was undone between two looks', () => {
    fc.assert(holdsWhileMoving(readShelf), runs(4000));
  });

  test('unchanged is what ends as it did, in one request', () => {
    fc.assert(holdsWhenLooking(readShelf), runs(3000));
  });

  test('a reply without its records, once, loses nothing', () => {
    fc.assert(holdsWhereOneIsEmpty(readShelf), runs(2000));
  });

  test('a quiet shelf is found whole, for what it has to cost', () => {
    fc.assert(costsWhileQuiet(readShelf), runs(3000));
  });
});

// --- cases ---------------------------------------------------------------------------------------------------------------

const given = (volumes: number, more: Partial<ModelOptions> = {}) => new ModelShelf({ volumes, ...more });
const asksOf = ({ asked }: ModelShelf) => asked.map(({ startIndex }) => startIndex);
const change = (kind: Change['kind'], skip: number, pick = 0, to = 0): Change => ({ kind, skip, pick, to });

describe('quiet', () => {
  test('nothing is said of how many there are: its end is asked for twice', () => {
    const shelf = given(10);
    expect(drive(readShelf, shelf).read).toEqual({ found: 'whole', asOf: shelf.asked[3]!.asOf });
    expect(asksOf(shelf)).toEqual([0, 4, 8, 10, 0, 4, 8, 10]);
  });

  test('nothing is known: its pages, its end, and its pages again', () => {
    const shelf = given(10);
    const driven = drive(readShelf, shelf, { count: 10 });
    expect(asksOf(shelf)).toEqual([0, 4, 8, 10, 0, 4, 8]);
    expect(driven.read).toEqual({ found: 'whole', asOf: shelf.asked[3]!.asOf });
    expect(wholeOf(driven)).toEqual(shelf.ids);
  });

  test('it is as known: its end and its pages', () => {
    const shelf = given(10);
    const { read } = drive(readShelf, shelf, { known: shelf.ids, count: 10 });
    expect(asksOf(shelf)).toEqual([10, 0, 4, 8]);
    expect(read).toEqual({ found: 'whole', asOf: shelf.asked[0]!.asOf });
  });

  test('a look at its end: as many as may arrive, less one', () => {
    const shelf = given(10);
    const { read } = drive(readShelf, shelf, { known: shelf.ids, look: true });
    expect(shelf.asked).toMatchObject([{ startIndex: 7, maxResults: perPage }]);
    expect(read).toEqual({ found: 'unchanged', asOf: shelf.asked[0]!.asOf });
  });

  test('a shelf shorter than a page is looked at whole: so a move shows', () => {
    const shelf = given(3);
    const known = shelf.ids;
    shelf.change(change('move', 0, 0, 2));
    expect(drive(readShelf, shelf, { known, look: true, count: 3 }).read.found).toBe('whole');
    expect(asksOf(shelf)).toEqual([0, 0, 3, 0]);
  });

  test('a look without anything known is a reading', () => {
    const shelf = given(2);
    drive(readShelf, shelf, { look: true, count: 2 });
    expect(asksOf(shelf)).toEqual([0, 2, 0]);
  });

  test.each([{ known: undefined }, { known: [] }])('empty, and known is $known: one request', ({ known }) => {
    const shelf = given(0);
    expect(drive(readShelf, shelf, { known }).read).toEqual({ found: 'whole', asOf: shelf.asked[0]!.asOf });
    expect(shelf.asked).toHaveLength(1);
  });

  test('empty where it was not is believed when it is shown twice', () => {
    const shelf = given(0);
    expect(drive(readShelf, shelf, { known: ['v1', 'v2'] }).read).toEqual({
      found: 'whole',
      asOf: shelf.asked[2]!.asOf,
    });
    expect(asksOf(shelf)).toEqual([2, 0, 0]);
  });

  test('empty once only, where it was not, is no news', () => {
    const shelf = given(3);
    const { shown } = shelf;
    shelf.shown = ids => (shelf.asked.length === 1 ? [] : shown.call(shelf, ids));
    const driven = drive(readShelf, shelf, { known: shelf.ids });
    expect(driven.read.found).toBe('whole');
    expect(wholeOf(driven)).toEqual(shelf.ids);
  });

  test('pages that are short in another way each time are no change', () => {
    const shelf = given(10, { lengths: [3, 4, 2, 4, 1, 2, 3] });
    const driven = drive(readShelf, shelf);
    expect(driven.read.found).toBe('whole');
    expect(driven.readings).toHaveLength(2);
  });

  test('a source that pays no heed to startIndex: what it shows, twice', () => {
    const shelf = given(3, { ignoresStart: true });
    const driven = drive(readShelf, shelf);
    expect(driven.read.found).toBe('whole');
    expect(wholeOf(driven)).toEqual(shelf.ids);
    expect(asksOf(shelf)).toEqual([0, 3, 0, 3]);
  });

  test('records that cannot be read have their places, also where they fill pages', () => {
    const shelf = given(11);
    shelf.shown = ids => ids.map((id, i) => (i === 2 || (i > 3 && i < 8) ? '' : id));
    const driven = drive(readShelf, shelf);
    expect(driven.read.found).toBe('whole');
    expect(wholeOf(driven)).toEqual(shelf.shown(shelf.ids));
  });
});

describe('moving', () => {
  test('one put in front while it is read moves the borders: the third reading confirms the second', () => {
    const shelf = given(10, { changes: [change('put', 2)] });
    const driven = drive(readShelf, shelf);
    expect(driven.readings).toHaveLength(3);
    expect(wholeOf(driven)).toEqual(shelf.ids);
    checkClaim(driven);
  });

  test('one that comes twice has moved over a border: two readings that show the same are not enough', () => {
    // Pages of four: one is put in front between the first two pages of each reading, and another is taken away before the next.
    const from = (first: number) => Array.from({ length: 4 }, (_, i) => `v${first + i}`);
    const once = [from(0), from(3), []];
    const reading = readShelf({ known: undefined, look: false, perPage });
    let step = reading.next();
    for (const [asOf, ids] of [...once, ...once].entries()) {
      expect(step.done).toBe(false);
      step = reading.next({ ids, asOf });
    }
    expect(step).toMatchObject({ done: false, value: { startIndex: 0 } });
    for (const [i, ids] of once.entries()) step = reading.next({ ids, asOf: 6 + i });
    expect(step).toEqual({ done: true, value: { found: 'whole', asOf: 5 } });
  });

  test('one taken off behind what was read shows in the first reading', () => {
    const shelf = given(10, { changes: [change('remove', 2, 9)] });
    const driven = drive(readShelf, shelf);
    expect(driven.readings).toHaveLength(2);
    expect(wholeOf(driven)).toEqual(shelf.ids);
    checkClaim(driven);
  });

  test('what is known counts as the reading before the first, and no longer', () => {
    // v1…v8. Each half returns to its old order while the other one is away from it.
    const shelf = given(8);
    const known = shelf.ids;
    const [a, b] = [known.slice(0, 4), known.slice(4)];
    const states = [
      [...b, ...a],
      [...b, ...a],
      [...b, ...a],
      [...a, ...b.toReversed()],
      [...a.toReversed(), ...b],
    ];
    const answer = shelf.answer.bind(shelf);
    shelf.answer = ask => {
      const ids = states.shift();
      if (ids) shelf.states.push({ from: ++shelf.now, ids });
      return answer(ask);
    };
    const driven = drive(readShelf, shelf, { known });
    expect(wholeOf(driven)).toEqual([...a.toReversed(), ...b]);
    checkClaim(driven);
  });

  test('pages that were read already, two put in between, are not the end: what is behind them stays', () => {
    // Then what stood in front goes, so that the second reading shows the same pages as the first.
    const shelf = given(11);
    const [a, b, rest] = [shelf.ids.slice(0, 4), shelf.ids.slice(4, 8), shelf.ids.slice(8)];
    const news = ['n1', 'n2', 'n3', 'n4'];
    const states = [undefined, undefined, [...a, ...news, ...b, ...rest], undefined, [...news, ...b, ...rest]];
    const answer = shelf.answer.bind(shelf);
    shelf.answer = ask => {
      const ids = states.shift();
      if (ids) shelf.states.push({ from: ++shelf.now, ids });
      return answer(ask);
    };
    const driven = drive(readShelf, shelf);
    expect(wholeOf(driven)).toEqual([...news, ...b, ...rest]);
    checkClaim(driven);
  });

  test('a source that pays no heed to startIndex, and a shelf that moves: what it shows in the end', () => {
    const shelf = given(2, { ignoresStart: true, changes: [change('put', 2)] });
    const driven = drive(readShelf, shelf);
    expect(driven.read.found).toBe('whole');
    expect(wholeOf(driven)).toEqual(shelf.ids);
  });

  const everyTime = (kind: Change['kind'], pick = 0) => Array.from({ length: 999 }, () => change(kind, 1, pick));

  test.each(['put', 'move', 'replace'] as const)(
    '%s at each request: it is left as it is, after so many readings',
    kind => {
      const shelf = given(20, { changes: everyTime(kind, kind === 'move' ? 19 : 0) });
      const driven = drive(readShelf, shelf, { known: ['v1'] });
      expect(driven.read).toEqual({ found: 'moved' });
      expect(driven.readings).toHaveLength(mostReadings);
      checkCost(driven, perPage - 1);
    },
  );

  test.each([false, true])(
    'a list that grows by a page at each request ends all the same; startIndex is ignored: %s',
    ignoresStart => {
      const shelf = given(1, { ignoresStart });
      const answer = shelf.answer.bind(shelf);
      shelf.answer = ask => {
        for (let i = 0; i < perPage; i++) shelf.change(change(ignoresStart ? 'put' : 'append', 0));
        return answer(ask);
      };
      expect(drive(readShelf, shelf).read).toEqual({ found: 'moved' });
      expect(shelf.asked).toHaveLength(ignoresStart ? shelf.asked.length : mostPages);
    },
  );
});

// --- readers that are wrong ----------------------------------------------------------------------------------------------

const source = readFileSync(new URL('../../../src/engine/reading/collection.ts', import.meta.url), 'utf8');

/** The reader with other text in it. */
async function altered(changes: readonly (readonly [string, string])[]): Promise<Reader> {
  let text = source;
  for (const [was, is] of changes) {
    if (text.split(was).length !== 2) throw new Error(`the source says this not once: ${was}`);
    text = text.replace(was, () => is);
  }
  return (await import(/* @vite-ignore */ `data:text/javascript,${encodeURIComponent(stripTypeScriptTypes(text))}`))
    .readShelf;
}

const wrong = /^whole, and it was not like that$/;
const cost = /^cost/;

const check = <T>(property: fc.IProperty<T>) => fc.check(property, { numRuns: 20_000, seed: 1 });
const all = {
  holdsWhereNothingReturns: (reader: Reader) => check(holdsWhereNothingReturns(reader)),
  holdsWhileMoving: (reader: Reader) => check(holdsWhileMoving(reader)),
  holdsWhenLooking: (reader: Reader) => check(holdsWhenLooking(reader)),
  holdsWhereOneIsEmpty: (reader: Reader) => check(holdsWhereOneIsEmpty(reader)),
  costsWhileQuiet: (reader: Reader) => check(costsWhileQuiet(reader)),
};

const planted: { what: string; changes: [string, string][]; by: keyof typeof all; as: RegExp }[] = [
  {
    what: 'one reading is enough',
    changes: [['before = { ids, repeats, endAsOf: asOf, agreed };', `return { found: 'whole', asOf };`]],
    by: 'holdsWhereNothingReturns',
    as: wrong,
  },
  {
    what: 'readings agree if their ends do',
    changes: [['agrees &&= arrived', 'agrees = before !== undefined && arrived']],
    by: 'holdsWhereNothingReturns',
    as: wrong,
  },
  {
    what: 'readings agree if they show the same volumes',
    changes: [['id === before!.ids[ids.length + i]', 'before!.ids.includes(id)']],
    by: 'holdsWhileMoving',
    as: wrong,
  },
  {
    what: 'readings agree as soon as one is as long as the other',
    changes: [['if (agrees && !before!.repeats', 'if (before && !before!.repeats']],
    by: 'holdsWhereNothingReturns',
    as: wrong,
  },
  {
    what: 'a reading that is the beginning of the one before is whole',
    changes: [['|| repeats) {', `|| repeats) { if (agrees) return { found: 'whole', asOf };`]],
    by: 'holdsWhereNothingReturns',
    as: wrong,
  },
  {
    what: 'it is as of when the second reading ended',
    changes: [[`return { found: 'whole', asOf: before!.endAsOf };\n    }`, `return { found: 'whole', asOf };\n    }`]],
    by: 'holdsWhereNothingReturns',
    as: wrong,
  },
  {
    what: 'what is known is so, whatever came behind it',
    changes: [['if (ids.length === 0) before =', 'before =']],
    by: 'holdsWhereNothingReturns',
    as: wrong,
  },
  {
    what: 'what is known is so as of the end of the reading',
    changes: [
      ['if (ids.length === 0) before = { ids: known, repeats: false, endAsOf: asOf, agreed: 1 };', ''],
      ['if (isEmpty)', 'if (isEmpty || (reading === 1 && known && isSame(ids, known)))'],
    ],
    by: 'holdsWhereNothingReturns',
    as: wrong,
  },
  {
    what: 'a short page is the end',
    changes: [
      ['if (arrived.length === 0 || repeats)', 'if (arrived.length < perPage && ids.push(...arrived) || repeats)'],
    ],
    by: 'costsWhileQuiet',
    as: /./,
  },
  {
    what: 'goes on by what was asked for, not by what arrived',
    changes: [['const startIndex = ids.length + skipped', 'const startIndex = pages * perPage']],
    by: 'costsWhileQuiet',
    as: /^quiet, and not all/,
  },
  {
    what: 'looks at as many as may arrive',
    changes: [['(perPage - 1)', 'perPage']],
    by: 'holdsWhenLooking',
    as: /^unchanged/,
  },
  {
    what: 'looks for what is known, and not whether it is all',
    changes: [['isSame(ids, known.slice(startIndex))', 'known.slice(startIndex).every((id, i) => ids[i] === id)']],
    by: 'holdsWhenLooking',
    as: /^unchanged/,
  },
  {
    what: 'looks at the beginning',
    changes: [
      ['Math.max(0, known.length - (perPage - 1))', '0'],
      ['known.slice(startIndex)', 'known.slice(0, perPage)'],
    ],
    by: 'holdsWhenLooking',
    as: /^unchanged/,
  },
  {
    what: 'believes an end that was shown once',
    changes: [[' && ids.length === count && !hasTwice(ids))', ')']],
    by: 'holdsWhereOneIsEmpty',
    as: /^quiet, and not all/,
  },
  {
    what: 'believes that nothing is there, whatever the catalog says',
    changes: [[': !hadRecords && !count)', ': !hadRecords)']],
    by: 'holdsWhereOneIsEmpty',
    as: /^quiet, and not all/,
  },
  {
    what: 'believes how many there are',
    changes: [[' && ids.length === count && !hasTwice(ids))', ' && (count === undefined || ids.length <= count))']],
    by: 'holdsWhereOneIsEmpty',
    as: /^quiet, and not all/,
  },
  {
    what: 'pays for the end twice',
    changes: [['if (agrees && !before!.repeats', 'if (agrees && ids.length > 99']],
    by: 'costsWhileQuiet',
    as: /./,
  },
  {
    what: 'does not believe what is known',
    changes: [['if (ids.length === 0) before =', 'if (ids.length === 99) before =']],
    by: 'costsWhileQuiet',
    as: cost,
  },
  {
    what: 'pages have to be as long as they were',
    changes: [['agrees &&= arrived', 'agrees &&= arrived.length === perPage && arrived']],
    by: 'costsWhileQuiet',
    as: /^moved/,
  },
];

test.each(planted)('caught: $what', async ({ changes, by, as }) => {
  const { failed, errorInstance } = all[by](await altered(changes));
  expect(failed).toBe(true);
  expect(errorInstance).toBeInstanceOf(Wrong);
  expect((errorInstance as Error).message).toMatch(as);
});
