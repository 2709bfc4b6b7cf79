/** How a small world is made, for each reader, and its title: it tells all that makes the world differ from others. */
import { readByCreation } from '../../../../src/engine/reading/by-creation.ts';
import { readByCursor } from '../../../../src/engine/reading/by-cursor.ts';
import { readShelf } from '../../../../src/engine/reading/collection.ts';
import { readMovingList } from '../../../../src/engine/reading/moving-list.ts';
import { walkList } from '../../../../src/engine/reading/page-walk.ts';
import { readWhole } from '../../../../src/engine/reading/whole-list.ts';
import { count } from '../../../../src/words.ts';
import type { Kind, Limits } from './changes.ts';
import type { Game } from './explore.ts';
import { type CreationGame, creationGame } from './games/creation.ts';
import { movingGame } from './games/moving.ts';
import { type ShelfGame, shelfGame } from './games/shelf.ts';
import { type Paging, type WholeGame, wholeGame } from './games/whole.ts';
import { begin, type Made, type Rules, secondName } from './world.ts';

/** The readers as they are, or with a mistake. */
export interface Readers {
  readonly readMovingList: typeof readMovingList;
  readonly walkList: typeof walkList;
  readonly readByCreation: typeof readByCreation;
  readonly readWhole: typeof readWhole;
  readonly readByCursor: typeof readByCursor;
  readonly readShelf: typeof readShelf;
}
export const readers: Readers = { readMovingList, walkList, readByCreation, readWhole, readByCursor, readShelf };

export interface SmallWorld {
  readonly reader: string;
  readonly title: string;
  /** Records at the beginning, and what may happen. */
  readonly size: number;
  /** All that it is made of. Worlds with one title are made alike. */
  readonly parts: unknown;
  // biome-ignore lint/suspicious/noExplicitAny: a game's states are its own
  readonly game: (readers: Readers) => Game<any>;
}

/** So many records, each of a second of 0 to `last`, in their order. */
export function layouts(records: number, last = 3): number[][] {
  if (records === 0) return [[]];
  return layouts(records - 1, last).flatMap(before =>
    Array.from({ length: last + 1 }, (_, second) => second)
      .filter(second => second >= (before.at(-1) ?? 0))
      .map(second => [...before, second]),
  );
}
export const upTo = (records: number) => Array.from({ length: records + 1 }, (_, n) => layouts(n)).flat();

export const all: readonly Kind[] = ['touch', 'create', 'delete', 'late', 'ahead', 'behind'];
const lookback = 1;
const perPage = 2;

export interface Size {
  readonly times: readonly (readonly number[])[];
  readonly changes: number;
  readonly ticks?: number;
  readonly kills?: number;
  readonly kinds?: readonly Kind[];
  readonly late?: readonly number[];
  readonly ahead?: readonly number[];
  readonly ties?: readonly Rules['ties'][];
  readonly pages?: readonly number[];
  /** Records of a page: 2. A moving list reads larger pages backwards in other parts. */
  readonly each?: number;
  readonly date?: readonly Rules['date'][];
  /** A count stops at what paging reaches. */
  readonly stops?: boolean;
  readonly faults?: Pick<Rules, 'reversed' | 'unreadable'>;
  readonly walk?: Limits['walk'];
  readonly beside?: Limits['beside'];
  /** When the records were created: see `begin`. */
  readonly made?: readonly Made[];
}

interface Settled extends Required<Omit<Size, 'beside' | 'walk'>> {
  readonly beside: Limits['beside'];
  readonly walk: Limits['walk'];
}

const settled = (size: Size): Settled => ({
  ticks: 0,
  kills: 0,
  kinds: all,
  late: [2],
  ahead: [3],
  ties: ['id', 'change'],
  pages: [2, 3],
  each: perPage,
  date: ['down', 'up'],
  stops: false,
  faults: {},
  made: ['then'],
  beside: undefined,
  walk: undefined,
  ...size,
});

function* rulesOf({ ties, pages, each, date: dates, stops, faults }: Settled, hidden = false): Generator<Rules> {
  for (const inclusive of [false, true])
    for (const date of dates)
      for (const tie of ties)
        for (const page of pages)
          yield { lookback, perPage: each, pages: page, inclusive, ties: tie, date, hidden, stops, ...faults };
}

const limitsOf = (
  times: readonly number[],
  { changes, ticks, kills, kinds, late, ahead, beside, walk }: Settled,
): Limits => ({ changes, ticks, kills, kinds, late, ahead, beside, walk, records: Math.max(4, times.length) });

/** Which changes there are, how late they show, and how far ahead they are dated. */
function changesTitle({ kinds, late, ahead }: Pick<Limits, 'kinds' | 'late' | 'ahead'>): string {
  const has = (...some: readonly Kind[]) => some.some(kind => kinds.includes(kind));
  return [
    kinds.length === all.length ? 'all kinds' : `only ${kinds.join(' ')}`,
    has('late', 'behind') ? `late by ${late.join(' ')}` : '',
    has('ahead') ? `ahead by ${ahead.join(' ')}` : '',
  ]
    .filter(Boolean)
    .join(', ');
}

const sizeOf = (times: readonly number[], { changes, ticks, kills, beside }: Settled) =>
  times.length + changes + ticks + kills + (beside ? 1 : 0);

const titleOf = (times: readonly number[], one: Settled, rules: Rules, made: string) =>
  [
    `records of seconds ${times.map(secondName).join(' ') || 'none'}`,
    made === 'then' ? '' : `created ${made}`,
    `${count(one.changes, 'change')}, ${count(one.ticks, 'second')}, ${count(one.kills, 'kill')}`,
    one.changes > 0 ? changesTitle(one) : '',
    one.beside ? `with a concurrent ${one.beside}` : '',
    one.walk ? `a walk of what was updated since second ${one.walk.updatedSince}, begun as of ${one.walk.asOf}` : '',
    `${rules.pages} pages${rules.perPage === perPage ? '' : ` of ${rules.perPage}`}`,
    `since is ${rules.inclusive ? 'inclusive' : 'exclusive'}`,
    rules.stops ? 'counts stop' : '',
    rules.reversed ? 'pages reversed' : '',
    rules.unreadable ? `records ${rules.unreadable.join(' ')} cannot be read` : '',
    `ties by ${rules.ties}`,
    rules.date === 'with a fraction' ? 'Date with a fraction' : `Date rounded ${rules.date}`,
  ]
    .filter(Boolean)
    .join(', ');

export function* movingWorlds(
  size: Size,
  reader: 'moving list' | 'walk by pages' = 'moving list',
): Generator<SmallWorld> {
  const one = settled(size);
  for (const times of one.times)
    for (const made of one.made)
      for (const rules of rulesOf(one, reader === 'walk by pages')) {
        if (made !== 'then' && times.length < rules.pages * rules.perPage) continue;
        const parts = { world: begin(times, 3, made), rules, limits: limitsOf(times, one) };
        yield {
          reader,
          title: titleOf(times, one, rules, made),
          size: sizeOf(times, one),
          parts,
          game: ({ readMovingList: moving, walkList: walk }) =>
            movingGame({ ...parts, read: reader === 'moving list' ? moving : walk }),
        };
      }
}

export function* creationWorlds(
  size: Size,
  { updatedSince, from, until }: Pick<CreationGame, 'updatedSince' | 'from' | 'until'> = {},
): Generator<SmallWorld> {
  const one = settled({
    ...size,
    kinds: size.kinds ?? all.filter(kind => updatedSince === undefined || kind !== 'behind'),
  });
  for (const times of one.times)
    for (const made of one.made)
      for (const rules of rulesOf(one)) {
        const parts = { world: begin(times, 4, made), rules, limits: limitsOf(times, one), updatedSince, from, until };
        yield {
          reader: 'by creation',
          title: [
            titleOf(times, one, rules, made),
            ...(updatedSince === undefined ? [] : [`updated since second ${updatedSince}`]),
            ...(from === undefined ? [] : [`from second ${from}`]),
            ...(until === undefined ? [] : [`until second ${until}`]),
          ].join(', '),
          size: sizeOf(times, one),
          parts,
          game: ({ readByCreation: read }) => creationGame({ ...parts, read }),
        };
      }
}

/**
 * A second of creation that paging does not reach the end of, taken apart by type, user and inbox: a bit each of the values of
 * `layouts`. Those from 8 on are of the second after it, those from 16 on of the one after that.
 */
export function* apartWorlds(
  changes: number,
  ticks: number,
  kinds: readonly Kind[],
  layouts: readonly (readonly number[])[],
  knowns: readonly NonNullable<Rules['known']>[] = [
    [2, 1, 1],
    [2, 2, 1],
    [2, 2, 2],
  ],
  pages = 2,
): Generator<SmallWorld> {
  for (const values of layouts)
    for (const known of knowns)
      for (const stops of changes > 0 ? [false] : [false, true])
        for (const inclusive of [false, true]) {
          const rules: Rules = { lookback, perPage, pages, inclusive, ties: 'id', date: 'down', known, stops };
          const times = values.map(value => 1 + Math.floor(value / 8));
          const limits: Limits = { changes, ticks, kills: 0, records: 8, kinds, late: [2], ahead: [3] };
          const each = values.map(value => value % 8);
          const parts = { world: begin(times, 5, 'then', each), rules, limits };
          yield {
            reader: 'by creation',
            title: [
              `records of one second with values ${values.join(' ')}, ${known.join(' ')} known`,
              `${count(changes, 'change')}, ${count(ticks, 'second')}`,
              changes > 0 ? changesTitle(limits) : '',
              pages === 2 ? '' : `${pages} pages`,
              `since is ${inclusive ? 'inclusive' : 'exclusive'}`,
              stops ? 'counts stop' : '',
            ]
              .filter(Boolean)
              .join(', '),
            size: values.length + changes + ticks,
            parts,
            game: ({ readByCreation: read }) => creationGame({ ...parts, read }),
          };
        }
}

export function wholeWorld(
  records: number,
  changes: number,
  paging: Paging,
  { perPage: size = perPage, unreadable = 0, until, shrinks = false }: Partial<WholeGame> = {},
): SmallWorld {
  const more = [
    size === perPage ? '' : `${size} on a page`,
    unreadable > 0 ? `${unreadable} cannot be read` : '',
    until === undefined ? '' : `until second ${until}`,
    shrinks ? 'only the first is deleted' : '',
  ].filter(Boolean);
  const byNumber = paging.startsWith('number');
  const parts = { records, changes, perPage: size, paging, unreadable, until, shrinks };
  return {
    reader: byNumber ? 'whole list' : 'cursor',
    title: [count(records, 'record'), count(changes, 'change'), `pages by ${paging}`, ...more].join(', '),
    size: records + changes,
    parts,
    game: ({ readWhole: whole, readByCursor: cursor }) =>
      wholeGame({
        ...parts,
        read: byNumber
          ? whole
          : paging === 'place, overlapping'
            ? (from, options) => cursor(from, options, true)
            : (from, options) => cursor(from, options),
      }),
  };
}

export function* wholeWorlds(records: number, changes: number): Generator<SmallWorld> {
  for (const paging of ['number', 'last record', 'place, overlapping'] as const) {
    yield wholeWorld(records, changes, paging);
    if (changes > 1) yield wholeWorld(records, 0, paging, { until: 10 });
    if (records > 0) yield wholeWorld(records, 1, paging, { unreadable: Math.min(records, perPage) });
  }
  for (const paging of ['number', 'number, which is ignored'] as const)
    for (const unreadable of records > 0 ? [0, 1] : [0])
      yield wholeWorld(records, 1, paging, { perPage: 1, unreadable });
  yield wholeWorld(records, 1, 'number, which is ignored');
  yield wholeWorld(records, 1, 'last record, with empty pages');
  for (const size of [1, perPage]) yield wholeWorld(records, 1, 'last record, which is ignored', { perPage: size });
}

/** A reply that lacks its volumes is believed only where nothing else happens: two faults at once may deceive. */
export function* shelfWorlds(length: number, changes: number): Generator<SmallWorld> {
  const volumes = Array.from({ length }, (_, i) => i);
  const longer = [...volumes, length];
  const other = [length, ...volumes.slice(1)];
  for (const known of [undefined, volumes, ...(length > 0 ? [volumes.slice(1), other] : []), longer])
    for (const look of known ? [false, true] : [false])
      for (const counted of [false, true]) {
        const one = { volumes, known, look, counted };
        for (const lies of [0, 1]) yield shelfWorld({ ...one, lies, changes: lies ? 0 : changes });
        if (changes === 0) continue;
        for (const pages of ['short', 'ignored'] as const)
          if (!look) yield shelfWorld({ ...one, pages, changes: Math.min(1, changes) });
        if (length > 0 && known !== other) yield shelfWorld({ ...one, unreadable: 1, changes: 1 });
        // Two pages look alike. A look needs a page of two.
        if (length > 1 && known !== other && !look) yield shelfWorld({ ...one, unreadable: 2, perPage: 1, changes: 1 });
      }
}

export function shelfWorld(
  one: Omit<ShelfGame, 'read' | 'lies' | 'perPage'> & { perPage?: number; lies?: number; twice?: boolean },
): SmallWorld {
  const { volumes, changes, known, look, counted, pages, unreadable = 0, lies = 0 } = one;
  const title = [
    `${count(volumes.length, 'volume')}, ${count(changes, 'change')}, ${count(lies, 'reply', 'replies')} without volumes`,
    known === undefined ? '' : `${known.length} known${known[0] === volumes.length ? ', one of them is gone' : ''}`,
    look ? 'looked at' : '',
    counted ? 'counted' : '',
    unreadable > 0 ? `${unreadable} cannot be read` : '',
    one.twice ? 'one of them twice' : '',
    one.ends ? 'only its ends change' : '',
    pages === 'short' ? 'one on a page' : pages === 'ignored' ? 'all on each page' : '',
    pages === 'endless' ? 'without an end' : '',
  ];
  return {
    reader: 'shelf',
    title: title.filter(Boolean).join(', '),
    size: volumes.length + changes,
    parts: { perPage, ...one, lies },
    game: ({ readShelf: read }) => shelfGame({ perPage, ...one, lies, read }),
  };
}
