/**
 * Reading what is on a shelf. Pages are cut out by place, and the shelf may change between two of them: one volume put in
 * front moves all others over the borders of the pages. So it is read until two readings one after the other show the
 * same. Then each place stayed as it was from its first reading to its second, and between the two lies the moment at which
 * the first one found the end of the list: the shelf was like that then. (Of changes that are undone before they are seen
 * again nobody can know.)
 *
 * The list ends where nothing arrives: pages may be shorter than was asked for, and totals are guesses.
 */
import type { Ms } from './reading.ts';

/** `startIndex` 0 begins a new reading: what was read before it is not needed any more. */
export interface ShelfAsk {
  readonly startIndex: number;
  readonly maxResults: number;
}

/** In their order; '' stands for a record whose id cannot be read. */
export interface ShelfPage {
  readonly ids: readonly string[];
  readonly asOf: Ms;
}

/**
 * whole: the pages since the last ask with `startIndex` 0 are what was on the shelf at `asOf`. unchanged: a look at its end
 * showed what is known. moved: it changed faster than it could be read.
 */
export type ShelfRead = { readonly found: 'whole' | 'unchanged'; readonly asOf: Ms } | { readonly found: 'moved' };

/** So often a shelf is read before it is left to the next run, */
const mostReadings = 5;
/** and so far a reading goes: a list that grows as fast as it is read has no end. */
const mostPages = 1000;

/**
 * `known`: what an earlier reading found; it counts as the first of two, once its end has been asked for: behind it something
 * may have come since. `look`: one request is to tell whether it may have changed, by the end of the shelf: what is put on it
 * or taken off moves that (if pages are as long as was asked for; of shorter ones nobody can tell). `count`: how many the
 * catalog says there are. Where a reading ends with as many, its end is believed; else it has to be found twice, since a
 * reply may come without its records once.
 */
export function* readShelf({
  known,
  look,
  perPage,
  count,
}: {
  known: readonly string[] | undefined;
  look: boolean;
  perPage: number;
  count?: number | undefined;
}): Generator<ShelfAsk, ShelfRead, ShelfPage> {
  if (known && look) {
    // One fewer than may arrive: one more would show.
    const startIndex = Math.max(0, known.length - (perPage - 1));
    const { ids, asOf } = yield { startIndex, maxResults: perPage };
    if (isSame(ids, known.slice(startIndex))) return { found: 'unchanged', asOf };
  }
  let before: { ids: readonly string[]; repeats: boolean; endAsOf: Ms } | undefined;
  if (known?.length && !look) {
    const { ids, asOf } = yield { startIndex: known.length, maxResults: perPage };
    if (ids.length === 0) before = { ids: known, repeats: false, endAsOf: asOf };
  }
  for (let reading = 1; reading <= mostReadings; reading++) {
    const ids: string[] = [];
    let first: readonly string[] = [];
    let last: readonly string[] = [];
    let agrees = before !== undefined;
    for (let pages = 0; ; pages++) {
      if (pages === mostPages) return { found: 'moved' };
      const { ids: arrived, asOf }: ShelfPage = yield { startIndex: ids.length, maxResults: perPage };
      // A source that pays no heed to `startIndex` shows the same for ever; so does, once, a shelf that moved by a page.
      const repeats = ids.length > 0 && isSame(arrived, first) && arrived.some(id => id !== '');
      if (arrived.length === 0 || repeats) {
        // One reply shows that nothing is there; that nothing is left is believed when it is shown twice.
        const isEmpty = ids.length === 0 && (before ? before.ids.length === 0 : !known?.length && !count);
        if (isEmpty) return { found: 'whole', asOf };
        const again = agrees && repeats === before!.repeats && ids.length === before!.ids.length;
        if (again) return { found: 'whole', asOf: before!.endAsOf };
        before = { ids, repeats, endAsOf: asOf };
        break;
      }
      if (isSame(arrived, last)) {
        before = undefined;
        break;
      }
      agrees &&= arrived.every((id, i) => id === before!.ids[ids.length + i]);
      ids.push(...arrived);
      if (pages === 0) first = arrived;
      last = arrived;
      if (agrees && !before!.repeats && ids.length === before!.ids.length && ids.length === count)
        return { found: 'whole', asOf: before!.endAsOf };
    }
  }
  return { found: 'moved' };
}

/** The same ids in the same order. */
export const isSame = (one: readonly string[], other: readonly string[]) =>
  one.length === other.length && one.every((id, i) => id === other[i]);
