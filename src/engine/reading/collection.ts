/**
 * Reads the records of a shelf. Pages are cut by place, and the shelf may change between two pages: one volume put in
 * front moves all others over the borders of the pages. So the shelf is read until two consecutive readings show the
 * same. Then each place stayed the same from its first reading to its second. The shelf was like that at the moment
 * between the two when the first reading found the end. (A change that is undone between the readings stays unseen.)
 *
 * A volume that comes twice has moved over a border, or the source has it twice. Where volumes are put in front and taken away in
 * turn, two readings show the same and lack a volume each. So a reading with a volume twice counts only once three agree.
 *
 * The list ends where a page brings nothing: pages may be shorter than requested, and totals are guesses. A source may take
 * records out of a page after it has cut it, even all of them: before the end that the shelf counts, the next page is looked
 * at.
 */
import type { Ms } from './reading.ts';

/** `startIndex` 0 begins a new reading, and drops the one before. */
export interface ShelfAsk {
  readonly startIndex: number;
  readonly maxResults: number;
}

/** Ids in their order; '' for a record whose id cannot be read. */
export interface ShelfPage {
  readonly ids: readonly string[];
  readonly asOf: Ms;
}

/**
 * whole: the pages since the last request with `startIndex` 0 are the shelf as of `asOf`. unchanged: a look at its end
 * showed the known records. moved: it changed faster than it could be read.
 */
export type ShelfRead = { readonly found: 'whole' | 'unchanged'; readonly asOf: Ms } | { readonly found: 'moved' };

/** Readings of a shelf before it is left to the next run. */
const mostReadings = 5;
/** Pages one after the other that bring nothing, though more are counted. */
export const mostWithout = 3;
/** Pages of one reading: a list that grows as fast as it is read has no end. */
const mostPages = 1000;

/**
 * `known`: the records of an earlier reading. They count as the first reading, once a request has checked the end of
 * the shelf, where records may have been added since. `look`: one request tells whether the shelf may have changed, by
 * its end: adding or removing a record moves that. (Pages must be as long as requested; shorter pages do not tell.)
 * `count`: the number of records according to the catalog. A reading that ends with that number is believed. Otherwise
 * the end must be found twice, because a single reply may lack its records.
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
  /** An earlier reading, or the look at its end, has shown records. */
  let hadRecords = known !== undefined && known.length > 0;
  if (known && look) {
    // One record fewer than a page holds, so that the page would show an additional record.
    const startIndex = Math.max(0, known.length - (perPage - 1));
    const { ids, asOf } = yield { startIndex, maxResults: perPage };
    if (isSame(ids, known.slice(startIndex))) return { found: 'unchanged', asOf };
    hadRecords ||= ids.length > 0;
  }
  let before: { ids: readonly string[]; repeats: boolean; endAsOf: Ms; agreed: number } | undefined;
  if (known?.length && !look) {
    const { ids, asOf } = yield { startIndex: known.length, maxResults: perPage };
    if (ids.length === 0) before = { ids: known, repeats: false, endAsOf: asOf, agreed: 1 };
  }
  for (let reading = 1; reading <= mostReadings; reading++) {
    const ids: string[] = [];
    let first: readonly string[] = [];
    let last: readonly string[] = [];
    let agrees = before !== undefined;
    /** Places of pages that brought nothing, each as long as the longest that did. */
    let skipped = 0;
    let without = 0;
    let longest = 0;
    /** As-of time of the first empty reply. */
    let emptyAsOf = 0;
    for (let pages = 0; ; pages++) {
      if (pages === mostPages) return { found: 'moved' };
      const startIndex = ids.length + skipped;
      const { ids: arrived, asOf }: ShelfPage = yield { startIndex, maxResults: perPage };
      if (without === 0) emptyAsOf = asOf;
      const place = longest || perPage;
      if (arrived.length === 0 && startIndex + place < (count ?? 0) && without < mostWithout) {
        skipped += place;
        without++;
        continue;
      }
      without = 0;
      // A source that ignores `startIndex` repeats the same page for ever. A shelf that moved by a page repeats it
      // once.
      const repeats = isSame(arrived, first) && arrived.some(id => id !== '');
      if (arrived.length === 0 || repeats) {
        // One empty reply shows an empty shelf. A shelf that had records must be shown empty twice.
        const isEmpty = ids.length === 0 && (before ? before.ids.length === 0 : !hadRecords && !count);
        if (isEmpty) return { found: 'whole', asOf: emptyAsOf };
        const again = agrees && repeats === before!.repeats && ids.length === before!.ids.length;
        const agreed = again ? before!.agreed + 1 : 1;
        if (agreed >= (hasTwice(ids) ? 3 : 2)) return { found: 'whole', asOf: before!.endAsOf };
        before = { ids, repeats, endAsOf: asOf, agreed };
        break;
      }
      if (isSame(arrived, last)) {
        before = undefined;
        break;
      }
      agrees &&= arrived.every((id, i) => id === before!.ids[ids.length + i]);
      ids.push(...arrived);
      longest = Math.max(longest, arrived.length);
      if (pages === 0) first = arrived;
      last = arrived;
      if (agrees && !before!.repeats && ids.length === before!.ids.length && ids.length === count && !hasTwice(ids))
        return { found: 'whole', asOf: before!.endAsOf };
    }
  }
  return { found: 'moved' };
}

/** An id that can be read comes twice. */
function hasTwice(ids: readonly string[]): boolean {
  const readable = ids.filter(id => id !== '');
  return new Set(readable).size < readable.length;
}

/** The same ids in the same order. */
export const isSame = (one: readonly string[], other: readonly string[]) =>
  one.length === other.length && one.every((id, i) => id === other[i]);
