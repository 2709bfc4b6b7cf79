/** What is asked of a shelf, and what is made of odd answers, by examples: every-history/readers plays all histories of small ones. */
import { expect, test } from 'vitest';
import { readShelf, type ShelfRead } from '../../../src/engine/reading/collection.ts';

const perPage = 4;
/** As in the source. */
const mostReadings = 5;
const mostPages = 1000;

/** The volumes that stand there, or those at the n-th request. */
type Shelf = readonly string[] | ((request: number) => readonly string[]);

interface Given {
  readonly known?: readonly string[];
  readonly look?: boolean;
  readonly count?: number;
  /** How many arrive at most, of these in turn; each request takes the next. */
  readonly lengths?: readonly number[];
  readonly ignoresStart?: boolean;
}

/** A request is as of its number. The pages are those of the last reading. */
function drive(shelf: Shelf, { known, look = false, count, lengths = [perPage], ignoresStart }: Given) {
  const asks: number[] = [];
  let pages: (readonly string[])[] = [];
  const reading = readShelf({ known, look, perPage, count });
  let step = reading.next();
  while (!step.done) {
    const { startIndex, maxResults } = step.value;
    expect(maxResults).toBe(perPage);
    const all = typeof shelf === 'function' ? shelf(asks.length) : shelf;
    const start = ignoresStart ? 0 : startIndex;
    const ids = all.slice(start, start + lengths[asks.length % lengths.length]!);
    if (startIndex === 0) pages = [];
    pages.push(ids);
    step = reading.next({ ids, asOf: asks.length });
    asks.push(startIndex);
  }
  return { asks, read: step.value, pages };
}

const volumes = (count: number) => Array.from({ length: count }, (_, i) => `v${i + 1}`);
const unread = volumes(11).map((id, i) => (i === 2 || (i > 3 && i < 8) ? '' : id));
const whole = (asOf: number): ShelfRead => ({ found: 'whole', asOf });

test.each<[what: string, shelf: Shelf, given: Given, asks: number[], read: ShelfRead]>([
  ['of which nothing is known: its end is asked for twice', volumes(10), {}, [0, 4, 8, 10, 0, 4, 8, 10], whole(3)],
  ['whose count is known: its end is asked for once', volumes(10), { count: 10 }, [0, 4, 8, 10, 0, 4, 8], whole(3)],
  ['that is as known', volumes(10), { known: volumes(10), count: 10 }, [10, 0, 4, 8], whole(0)],
  [
    'whose end alone is looked at',
    volumes(10),
    { known: volumes(10), look: true },
    [7],
    { found: 'unchanged', asOf: 0 },
  ],
  [
    'shorter than a page is looked at whole',
    ['v2', 'v1'],
    { known: volumes(2), look: true },
    [0, 0, 2, 0, 2],
    whole(2),
  ],
  ['that is looked at, and unknown', volumes(2), { look: true, count: 2 }, [0, 2, 0], whole(1)],
  ['that is empty', [], {}, [0], whole(0)],
  ['that is empty, as known', [], { known: [] }, [0], whole(0)],
  ['that is empty, where it was not', [], { known: volumes(2) }, [2, 0, 0], whole(2)],
  ['that is shown empty once', n => (n === 1 ? [] : volumes(3)), { known: volumes(3) }, [3, 0, 0, 3, 0, 3], whole(3)],
  ['whose pages are short in other ways', volumes(10), { lengths: [3, 4, 2, 4, 1, 2, 3] }, [], whole(4)],
  ['whose source pays no heed to startIndex', volumes(3), { ignoresStart: true }, [0, 3, 0, 3], whole(1)],
  ['with records that cannot be read', unread, {}, [0, 4, 8, 11, 0, 4, 8, 11], whole(3)],
])('a shelf %s', (_, shelf, given, asks, read) => {
  const driven = drive(shelf, given);
  if (asks.length > 0) expect(driven.asks).toEqual(asks);
  expect(driven.read).toEqual(read);
  // Of a source that repeats itself the repetition is left out.
  const shown = driven.pages.slice(0, given.ignoresStart ? 1 : undefined).flat();
  if (read.found === 'whole') expect(shown).toEqual(typeof shelf === 'function' ? shelf(2) : shelf);
});

test('a volume added in front during the read moves the page borders: the third reading confirms the second', () => {
  const { asks, pages } = drive(n => (n < 2 ? volumes(10) : ['new', ...volumes(10)]), {});
  expect(asks.filter(start => start === 0)).toHaveLength(3);
  expect(pages.flat()).toEqual(['new', ...volumes(10)]);
});

test.each<[string, (request: number) => readonly string[]]>([
  ['put in front', n => [...volumes(n).toReversed(), ...volumes(20)]],
  ['moved', n => volumes(20).map((_, i, all) => all[(i + n) % 20]!)],
  ['replaced', n => [`n${n}`, ...volumes(19)]],
])('one %s at each request: it is left as it is, after so many readings', (_, shelf) => {
  const { asks, read } = drive(shelf, { known: ['v1'] });
  expect(read).toEqual({ found: 'moved' });
  expect(asks.slice(1).filter(start => start === 0)).toHaveLength(mostReadings);
});

test.each([false, true])(
  'a list that grows by a page at each request ends; startIndex is ignored: %s',
  ignoresStart => {
    const grown = (n: number) => volumes((n + 2) * perPage);
    const { asks, read } = drive(n => (ignoresStart ? grown(n).toReversed() : grown(n)), { ignoresStart });
    expect(read).toEqual({ found: 'moved' });
    if (!ignoresStart) expect(asks).toHaveLength(mostPages);
  },
);
