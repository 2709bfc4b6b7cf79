/**
 * Pages that overlap. Records of one second stand in one order, so a page shows all that stood between two of its records,
 * whatever the age of the replica that answered. A page that lies across the border of two others proves that no record is
 * between them: a tie whose pages overlap like that is certain at once.
 */
import { floorSecond, type Ms, type Page } from './reading.ts';

type Rows = Page['rows'];

export const keyOf = ({ time, id }: Rows[number]) => `${time} ${id}`;

/**
 * The page size of a backward reading, so that its pages lie across the borders of the forward pages. It leaves some room,
 * and shares no factor with the other size, so that few borders coincide. Pages of two or three records have no room.
 */
export function staggered(perPage: number): number {
  const shared = (a: number, b: number): number => (b === 0 ? a : shared(b, a % b));
  for (let size = perPage - Math.ceil(perPage / 16); size > 2; size--) if (shared(perPage, size) === 1) return size;
  return perPage;
}

/** The page that contains this place and has the most records on both sides of it. */
export function across(place: number, perPage: number): { page: number; perPage: number } {
  const room = (size: number) => Math.min(place % size, size - (place % size));
  let best = perPage;
  for (let size = perPage - 1; size > perPage / 2; size--) if (room(size) > room(best)) best = size;
  return { page: Math.floor(place / best) + 1, perPage: best };
}

/**
 * The forward pages, counted from 1, that no page joins with the one behind it. Only borders before `before` count. Where
 * the next page is empty, the end of the list takes its place: the one backward page that is shorter than the others.
 */
export function apart(
  there: readonly Page[],
  back: readonly Page[],
  joints: readonly Page[],
  before: Ms,
): readonly number[] {
  const full = Math.max(...back.map(({ arrived }) => arrived));
  const shown = [...back, ...joints].map(page => ({
    ends: back.includes(page) && page.arrived < full,
    keys: new Set(page.rows.map(keyOf)),
  }));
  const isOn = (keys: ReadonlySet<string>, rows: Rows) => rows.some(row => keys.has(keyOf(row)));
  return there.flatMap(({ rows }, i) => {
    const next = there[i + 1]?.rows;
    if (next === undefined || floorSecond(rows.at(-1)?.time ?? 0) >= before) return [];
    const joined = shown.some(({ ends, keys }) => isOn(keys, rows) && (next.length === 0 ? ends : isOn(keys, next)));
    return joined ? [] : [i + 1];
  });
}
