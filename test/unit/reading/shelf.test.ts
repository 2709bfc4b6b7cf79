/**
 * Reading a shelf that changes between requests, by examples, against a shelf in memory that keeps every state it was in. What
 * is claimed is held against the state at the very request whose `asOf` it bears. every-history/readers plays all histories of small ones.
 */
import { describe, expect, test } from 'vitest';
import { readShelf, type ShelfAsk, type ShelfPage, type ShelfRead } from '../../../src/engine/reading/collection.ts';

const perPage = 4;
/** As in the source. */
const mostReadings = 5;
const mostPages = 1000;

interface Change {
  /** Requests to wait after the change before. */
  readonly skip: number;
  readonly kind: 'put' | 'append' | 'remove' | 'move' | 'replace';
  readonly pick: number;
  readonly to: number;
}

interface ModelOptions {
  readonly volumes: number;
  readonly changes?: readonly Change[];
  /** How many arrive at most, of these in turn; each request takes the next. */
  readonly lengths?: readonly number[];
  readonly ignoresStart?: boolean;
}

/** Between two requests lie many moments; a change takes one, and none is in the moment of a request. */
const betweenRequests = 100;

class ModelShelf {
  now = 0;
  readonly asked: (ShelfAsk & { ids: readonly string[]; asOf: number })[] = [];
  readonly states: { from: number; ids: readonly string[] }[];
  readonly #options: ModelOptions;
  readonly #changes: Change[];
  #made = 0;
  #lastChange = 0;

  constructor(options: ModelOptions) {
    this.#options = options;
    this.#changes = [...(options.changes ?? [])];
    this.states = [{ from: 0, ids: Array.from({ length: options.volumes }, () => this.#make()) }];
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
    if (kind === 'put') ids.splice(to % (ids.length + 1), 0, this.#make());
    else if (kind === 'append') ids.push(this.#make());
    else if (kind === 'replace' && ids.length > 0) ids[place] = this.#make();
    else if (kind === 'move' && ids.length > 0) ids.splice(to % ids.length, 0, ...ids.splice(place, 1));
    else if (kind === 'remove' && ids.length > 0) ids.splice(place, 1);
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
    const { lengths = [perPage], ignoresStart } = this.#options;
    const most = Math.min(ask.maxResults, lengths[this.asked.length % lengths.length]!);
    const start = ignoresStart ? 0 : ask.startIndex;
    const ids = this.shown(this.ids).slice(start, start + most);
    this.asked.push({ ...ask, ids, asOf: this.now });
    return { ids, asOf: this.now };
  }

  shown(ids: readonly string[]): readonly string[] {
    return ids;
  }

  at(moment: number): readonly string[] {
    return this.shown(this.states.findLast(({ from }) => from <= moment)!.ids);
  }
}

class Wrong extends Error {}

interface Driven {
  readonly shelf: ModelShelf;
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

function drive(shelf: ModelShelf, { known, look = false, count, most = 2000 }: DriveOptions = {}): Driven {
  const reading = readShelf({ known, look, perPage, count });
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
  return { shelf, read: step.value, first: looked ? shelf.asked[0] : undefined, readings };
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
  const { shelf, read, first, readings } = driven;
  if (read.found !== 'whole') throw new Wrong(read.found);
  const asked = readings.length > 1 ? readings.slice(-2).flat() : [...(first ? [first] : []), ...readings[0]!];
  const told = asked.find(({ asOf }) => asOf === read.asOf);
  if (told === undefined) throw new Wrong('whole as of a moment at which nothing was asked');
  if (!isSame(shelf.at(told.asOf), wholeOf(driven))) throw new Wrong('whole, and it was not like that');
}

/** Each reading goes at most to the longest that the shelf ever was, and once beyond. */
function checkCost({ shelf }: Driven): void {
  const longest = Math.max(...shelf.states.map(({ ids }) => ids.length));
  const most = 1 + mostReadings * (Math.ceil(longest / (perPage - 1)) + 1);
  if (shelf.asked.length > most) throw new Wrong(`cost ${shelf.asked.length} requests instead of ${most}`);
}

const given = (volumes: number, more: Partial<ModelOptions> = {}) => new ModelShelf({ volumes, ...more });
const asksOf = ({ asked }: ModelShelf) => asked.map(({ startIndex }) => startIndex);
const change = (kind: Change['kind'], skip: number, pick = 0, to = 0): Change => ({ kind, skip, pick, to });

describe('quiet', () => {
  test('nothing is said of how many there are: its end is asked for twice', () => {
    const shelf = given(10);
    expect(drive(shelf).read).toEqual({ found: 'whole', asOf: shelf.asked[3]!.asOf });
    expect(asksOf(shelf)).toEqual([0, 4, 8, 10, 0, 4, 8, 10]);
  });

  test('nothing is known: its pages, its end, and its pages again', () => {
    const shelf = given(10);
    const driven = drive(shelf, { count: 10 });
    expect(asksOf(shelf)).toEqual([0, 4, 8, 10, 0, 4, 8]);
    expect(driven.read).toEqual({ found: 'whole', asOf: shelf.asked[3]!.asOf });
    expect(wholeOf(driven)).toEqual(shelf.ids);
  });

  test('it is as known: its end and its pages', () => {
    const shelf = given(10);
    const { read } = drive(shelf, { known: shelf.ids, count: 10 });
    expect(asksOf(shelf)).toEqual([10, 0, 4, 8]);
    expect(read).toEqual({ found: 'whole', asOf: shelf.asked[0]!.asOf });
  });

  test('a look at its end: as many as may arrive, less one', () => {
    const shelf = given(10);
    const { read } = drive(shelf, { known: shelf.ids, look: true });
    expect(shelf.asked).toMatchObject([{ startIndex: 7, maxResults: perPage }]);
    expect(read).toEqual({ found: 'unchanged', asOf: shelf.asked[0]!.asOf });
  });

  test('a shelf shorter than a page is looked at whole: so a move shows', () => {
    const shelf = given(3);
    const known = shelf.ids;
    shelf.change(change('move', 0, 0, 2));
    expect(drive(shelf, { known, look: true, count: 3 }).read.found).toBe('whole');
    expect(asksOf(shelf)).toEqual([0, 0, 3, 0]);
  });

  test('a look without anything known is a reading', () => {
    const shelf = given(2);
    drive(shelf, { look: true, count: 2 });
    expect(asksOf(shelf)).toEqual([0, 2, 0]);
  });

  test.each([{ known: undefined }, { known: [] }])('empty, and known is $known: one request', ({ known }) => {
    const shelf = given(0);
    expect(drive(shelf, { known }).read).toEqual({ found: 'whole', asOf: shelf.asked[0]!.asOf });
    expect(shelf.asked).toHaveLength(1);
  });

  test('empty where it was not is believed when it is shown twice', () => {
    const shelf = given(0);
    expect(drive(shelf, { known: ['v1', 'v2'] }).read).toEqual({
      found: 'whole',
      asOf: shelf.asked[2]!.asOf,
    });
    expect(asksOf(shelf)).toEqual([2, 0, 0]);
  });

  test('empty once only, where it was not, is no news', () => {
    const shelf = given(3);
    const { shown } = shelf;
    shelf.shown = ids => (shelf.asked.length === 1 ? [] : shown.call(shelf, ids));
    const driven = drive(shelf, { known: shelf.ids });
    expect(driven.read.found).toBe('whole');
    expect(wholeOf(driven)).toEqual(shelf.ids);
  });

  test('pages that are short in another way each time are no change', () => {
    const shelf = given(10, { lengths: [3, 4, 2, 4, 1, 2, 3] });
    const driven = drive(shelf);
    expect(driven.read.found).toBe('whole');
    expect(driven.readings).toHaveLength(2);
  });

  test('a source that pays no heed to startIndex: what it shows, twice', () => {
    const shelf = given(3, { ignoresStart: true });
    const driven = drive(shelf);
    expect(driven.read.found).toBe('whole');
    expect(wholeOf(driven)).toEqual(shelf.ids);
    expect(asksOf(shelf)).toEqual([0, 3, 0, 3]);
  });

  test('records that cannot be read have their places, also where they fill pages', () => {
    const shelf = given(11);
    shelf.shown = ids => ids.map((id, i) => (i === 2 || (i > 3 && i < 8) ? '' : id));
    const driven = drive(shelf);
    expect(driven.read.found).toBe('whole');
    expect(wholeOf(driven)).toEqual(shelf.shown(shelf.ids));
  });
});

describe('moving', () => {
  test('one put in front while it is read moves the borders: the third reading confirms the second', () => {
    const shelf = given(10, { changes: [change('put', 2)] });
    const driven = drive(shelf);
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
    const driven = drive(shelf);
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
    const driven = drive(shelf, { known });
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
    const driven = drive(shelf);
    expect(wholeOf(driven)).toEqual([...news, ...b, ...rest]);
    checkClaim(driven);
  });

  test('a source that pays no heed to startIndex, and a shelf that moves: what it shows in the end', () => {
    const shelf = given(2, { ignoresStart: true, changes: [change('put', 2)] });
    const driven = drive(shelf);
    expect(driven.read.found).toBe('whole');
    expect(wholeOf(driven)).toEqual(shelf.ids);
  });

  const everyTime = (kind: Change['kind'], pick = 0) => Array.from({ length: 999 }, () => change(kind, 1, pick));

  test.each(['put', 'move', 'replace'] as const)(
    '%s at each request: it is left as it is, after so many readings',
    kind => {
      const shelf = given(20, { changes: everyTime(kind, kind === 'move' ? 19 : 0) });
      const driven = drive(shelf, { known: ['v1'] });
      expect(driven.read).toEqual({ found: 'moved' });
      expect(driven.readings).toHaveLength(mostReadings);
      checkCost(driven);
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
      expect(drive(shelf).read).toEqual({ found: 'moved' });
      expect(shelf.asked).toHaveLength(ignoresStart ? shelf.asked.length : mostPages);
    },
  );
});
