/**
 * The game of a shelf, whose pages are cut by place. What is found whole must have been on the shelf, in this order, at
 * the time that the reading names; unless a change was undone while it read (collection.ts). If nothing changes it must
 * be found whole, or unchanged, with no request more than needed.
 */
import {
  readShelf,
  type ShelfAsk,
  type ShelfPage,
  type ShelfRead,
} from '../../../../../src/engine/reading/collection.ts';
import type { Game, Move } from '../explore.ts';
import { isOver, type Played, play } from '../played.ts';

type Read = typeof readShelf;
export interface ShelfGame {
  readonly volumes: readonly number[];
  readonly changes: number;
  readonly perPage: number;
  /** What an earlier reading found, if there was one. */
  readonly known?: readonly number[] | undefined;
  readonly look: boolean;
  /** The catalog says how many there are, as of the beginning. */
  readonly counted: boolean;
  /** Replies that lack their records. */
  readonly lies: number;
  /** The first so many volumes cannot be read. */
  readonly unreadable?: number;
  /** Volumes are only put in front, and taken from either end. */
  readonly ends?: boolean;
  /** Pages hold one volume, whatever is asked for; or each shows the whole shelf; or other volumes follow without end. */
  readonly pages?: 'short' | 'ignored' | 'endless' | undefined;
  readonly read?: Read;
}

export interface Reading {
  /** What stood on the shelf, from the beginning of the reading on: the last is what stands there now. */
  readonly stood: readonly (readonly number[])[];
  /** How many contents there had been at each reply. */
  readonly node: Played<ShelfAsk, ShelfRead, ShelfPage>;
  readonly shown: readonly number[];
  readonly changes: number;
  readonly lies: number;
  readonly requests: number;
  /** How often it has begun at the first place. It follows from the pages of `node`. */
  readonly readings: number;
  /** A reply has shown volumes. */
  readonly seen: boolean;
  readonly wrong: string | undefined;
}

/** A shelf that moves in each of them is left to the next run. */
const mostReadings = 5;
/** One that has more pages grows as fast as it is read. */
const mostPages = 1000;

const same = (one: readonly number[], other: readonly number[]) => one.join() === other.join();

export function shelfGame({
  volumes,
  changes,
  perPage,
  known,
  look,
  counted,
  lies,
  unreadable = 0,
  ends = false,
  pages,
  read = readShelf,
}: ShelfGame): Game<Reading> {
  const nameOf = (volume: number) => (volume < unreadable ? '' : `v${volume}`);
  const options = {
    known: known?.map(nameOf),
    look,
    perPage,
    ...(counted && { count: volumes.length }),
  };

  function replied(state: Reading, empty: boolean): Reading {
    const { step } = state.node;
    if ('failed' in step || step.done) throw new Error('a reading that is over asks for nothing');
    const { startIndex, maxResults } = step.value;
    const now = state.stood.at(-1)!;
    const size = pages === 'short' ? 1 : maxResults;
    const endless = [startIndex, startIndex + 1];
    const others = pages === 'endless' ? endless : now.slice(startIndex, startIndex + size);
    const truth = pages === 'ignored' ? now : others;
    const arrived = empty ? [] : truth;
    // The time of a reply is the number of the content that it shows.
    const asOf = state.stood.length - 1;
    const code = arrived.reduce((sum, volume) => sum * (pages === 'endless' ? 4096 : 16) + volume + 1, asOf + 1);
    const node = state.node.after(code, () => ({ ids: arrived.map(nameOf), asOf }));
    const isAll = startIndex === 0 || pages === 'ignored';
    const shown = isAll ? arrived : [...state.shown.slice(0, startIndex), ...arrived];
    const readings = state.readings + (startIndex === 0 && !(look && known && state.requests === 0) ? 1 : 0);
    const seen = state.seen || arrived.length > 0;
    const after = { ...state, node, shown, requests: state.requests + 1, readings, seen };
    if (startIndex < 0 || maxResults !== perPage) return { ...after, wrong: `place ${startIndex} is asked for` };
    return { ...after, wrong: wrong(after, empty && truth.length > 0) };
  }

  function wrong(state: Reading, lied: boolean): string | undefined {
    const { node, requests, readings, stood, shown, changes: left, lies: more } = state;
    if (requests > (pages === 'endless' ? mostPages : 80) || readings > mostReadings) return 'the reading does not end';
    if ('failed' in node.step) return node.step.failed;
    if (pages !== 'endless' && unreadable < 2 && stood.length === 1 && more === lies && requests > needed())
      return 'more is asked for than is needed';
    if (!node.step.done) return undefined;
    const { value: result } = node.step;
    if (pages === 'endless')
      return result.found === 'moved' && requests === mostPages ? undefined : 'a shelf without an end has an end';
    // Volumes that cannot be read look like one page that comes again.
    if (result.found === 'moved' && changes - left < 2 && unreadable < 2)
      return 'a shelf that changed once at most is not read';
    if (result.found === 'moved' && readings < mostReadings && unreadable < 2) return 'a reading gives up too early';
    // One reply that lacks its volumes is believed of a shelf of which nothing was known, or that was empty before.
    if (lied && result.found !== 'moved')
      return state.seen || known?.length || (counted && volumes.length > 0 && result.found === 'whole')
        ? 'a shelf that had volumes is found empty by one reply'
        : undefined;
    // A volume that comes twice may have moved over the border of a page.
    const isTwice = new Set(shown).size < shown.length && stood.length === 1;
    if (result.found === 'whole' && isTwice && readings < (isKnownAll && !look ? 2 : 3))
      return 'a reading in which a volume comes twice is believed too early';
    return untrue(result, shown, stood);
  }
  const isKnownAll = known !== undefined && same(known, volumes);

  /** Requests of a shelf that does not change. */
  function needed(): number {
    const { length } = volumes;
    // Pages that are cut in another way than asked for tell nothing of the end.
    if (isKnownAll && look && (pages === undefined || length === 0)) return 1;
    const first = known !== undefined && (look || known.length > 0) ? 1 : 0;
    if (length === 0) return first + (known !== undefined && known.length > 0 ? 2 : 1);
    const each = pages === 'ignored' ? 2 : Math.ceil(length / (pages === 'short' ? 1 : perPage)) + 1;
    if (new Set(volumes).size < length) return first + (isKnownAll && !look ? 2 : 3) * each;
    const last = counted && pages !== 'ignored' ? each - 1 : each;
    return first + (isKnownAll && !look && pages !== 'ignored' ? 0 : each) + last;
  }

  /** `known` was the content when it was found; what was undone since then is not seen. */
  function untrue(result: ShelfRead, shown: readonly number[], stood: Reading['stood']): string | undefined {
    if (result.found === 'moved') return undefined;
    const contents = stood.map(one => one.join());
    const undone = contents.some(
      (one, i) => contents.indexOf(one) < i - 1 && contents.lastIndexOf(one) > contents.indexOf(one),
    );
    if (undone) return undefined;
    if (result.found === 'whole' && !same(shown, stood[result.asOf] ?? [-1]))
      return `[${shown}] is found as of when [${stood[result.asOf]}] stood there`;
    if (result.found === 'unchanged' && !endsLikeKnown(stood[result.asOf]!)) return 'an end that differs is unchanged';
    return undefined;
  }

  /** As far as one page shows it that would show one volume more. */
  function endsLikeKnown(now: readonly number[]): boolean {
    const end = (volumes: readonly number[]) => volumes.slice(Math.max(0, volumes.length - perPage + 1)).map(nameOf);
    return now.length === known?.length && end(now).join() === end(known).join();
  }

  function* moves(state: Reading): Generator<Move<Reading>> {
    const { node, stood } = state;
    if ('failed' in node.step || node.step.done) return;
    const asks = `the reading gets what begins at place ${node.step.value.startIndex}`;
    yield { what: asks, next: replied(state, false) };
    if (state.lies > 0)
      yield { what: `${asks}, without its volumes`, next: replied({ ...state, lies: state.lies - 1 }, true) };
    if (state.changes === 0) return;
    const now = stood.at(-1)!;
    const changed = (what: string, next: readonly number[]): Move<Reading> => ({
      what,
      next: { ...state, stood: [...stood, next], changes: state.changes - 1 },
    });
    for (let at = 0; at < now.length; at += ends ? Math.max(1, now.length - 1) : 1)
      yield changed(`volume ${now[at]} is taken away`, now.toSpliced(at, 1));
    const fresh = Math.max(-1, ...stood.flat(), ...(known ?? [])) + 1;
    for (const at of ends ? [0] : new Set([0, Math.floor(now.length / 2), now.length]))
      yield changed(`volume ${fresh} is put at place ${at}`, now.toSpliced(at, 0, fresh));
  }

  return {
    begin: {
      stood: [volumes],
      node: play(() => read(options), [2, 2]),
      shown: known ?? [],
      changes,
      lies,
      requests: 0,
      readings: 0,
      seen: false,
      wrong: undefined,
    },
    moves,
    wrong: ({ wrong: told, node }) => told ?? (node.isNew && isOver(node) ? 'nothing is asked for' : undefined),
    key: ({ stood, node, shown, changes: left, lies: more }) => [
      left * 8 + more,
      ...node.key,
      shown.length,
      ...shown,
      ...stood.flatMap(one => [-1, ...one]),
    ],
  };
}
