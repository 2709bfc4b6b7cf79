/**
 * Reading what is on a shelf. Pages are cut out by place, and the shelf may change between two of them: one volume put in
 * front moves all others over the borders of the pages. So it is read until two readings one after the other show the
 * same. Then each page stayed as it was from its first reading to its second, and between the two lies the moment at which
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

/** So often a shelf is read before it is left to the next run. */
const mostReadings = 5;

/**
 * `known`: what an earlier reading found; it counts as the first of two. `look`: one request is to tell whether it may have
 * changed, by the end of the shelf: what is put on it or taken off moves that.
 */
export function* readShelf({
  known,
  look,
  perPage,
}: {
  known: readonly string[] | undefined;
  look: boolean;
  perPage: number;
}): Generator<ShelfAsk, ShelfRead, ShelfPage> {
  if (known && look) {
    // One fewer than may arrive: one more would show.
    const startIndex = Math.max(0, known.length - (perPage - 1));
    const { ids, asOf } = yield { startIndex, maxResults: perPage };
    if (isSame(ids, known.slice(startIndex))) return { found: 'unchanged', asOf };
  }
  let before: { pages: readonly (readonly string[])[]; endAsOf: Ms } | undefined;
  for (let reading = 1; reading <= mostReadings; reading++) {
    const pages: (readonly string[])[] = [];
    const met = new Set<string>();
    let start = 0;
    let agrees = before !== undefined;
    let beganAsOf: Ms | undefined;
    for (;;) {
      const { ids, asOf }: ShelfPage = yield { startIndex: start, maxResults: perPage };
      beganAsOf ??= asOf;
      // A source that pays no heed to `startIndex` shows the same for ever.
      if (ids.length === 0 || (start > 0 && ids.every(id => met.has(id)))) {
        // One reply shows that nothing is there; that nothing is left is believed when it is shown twice.
        const isEmpty = pages.length === 0 && (known === undefined || before?.pages.length === 0);
        if (isEmpty || (known && isSame(pages.flat(), known))) return { found: 'whole', asOf: beganAsOf };
        before = { pages, endAsOf: asOf };
        break;
      }
      agrees &&= isSame(ids, before!.pages[pages.length] ?? []);
      pages.push(ids);
      for (const id of ids) met.add(id);
      start += ids.length;
      if (agrees && pages.length === before!.pages.length) return { found: 'whole', asOf: before!.endAsOf };
    }
  }
  return { found: 'moved' };
}

const isSame = (one: readonly string[], other: readonly string[]) =>
  one.length === other.length && one.every((id, i) => id === other[i]);
