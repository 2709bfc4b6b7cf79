/**
 * The game of a shelf, whose pages are cut by place. What is found whole must have been on the shelf, in this order, at
 * the time that the reading names; unless a change was undone while it read (collection.ts).
 */
import { readShelf, type ShelfAsk, type ShelfPage, type ShelfRead } from '../../../src/engine/reading/collection.ts';
import type { Game, Move } from './explore.ts';
import { type Played, play } from './played.ts';

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
  readonly wrong: string | undefined;
}

const nameOf = (volume: number) => `v${volume}`;
const same = (one: readonly number[], other: readonly number[]) => one.join() === other.join();

export function shelfGame({
  volumes,
  changes,
  perPage,
  known,
  look,
  counted,
  lies,
  read = readShelf,
}: ShelfGame): Game<Reading> {
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
    const arrived = empty ? [] : now.slice(startIndex, startIndex + maxResults);
    // The time of a reply is the number of the content that it shows.
    const asOf = state.stood.length - 1;
    const code = arrived.reduce((sum, volume) => sum * 16 + volume + 1, asOf + 1);
    const node = state.node.after(code, () => ({ ids: arrived.map(nameOf), asOf }));
    const shown = startIndex === 0 ? arrived : [...state.shown.slice(0, startIndex), ...arrived];
    const requests = state.requests + 1;
    const result = 'failed' in node.step || !node.step.done ? undefined : node.step.value;
    const wrong = requests > 80 ? 'the reading does not end' : result && untrue(result, shown, state.stood, empty);
    return { ...state, node, shown, requests, wrong };
  }

  /** `known` was the content when it was found; what was undone since then is not seen. */
  function untrue(
    result: ShelfRead,
    shown: readonly number[],
    stood: Reading['stood'],
    lied: boolean,
  ): string | undefined {
    if (result.found === 'moved' || lied) return undefined;
    const contents = stood.map(one => one.join());
    const undone = contents.some(
      (one, i) => contents.indexOf(one) < i - 1 && contents.lastIndexOf(one) > contents.indexOf(one),
    );
    if (undone) return undefined;
    if (result.found === 'whole' && !same(shown, stood[result.asOf]!))
      return `[${shown}] is found as of when [${stood[result.asOf]}] stood there`;
    return undefined;
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
    for (let at = 0; at < now.length; at++) yield changed(`volume ${now[at]} is taken away`, now.toSpliced(at, 1));
    const fresh = Math.max(-1, ...stood.flat(), ...volumes) + 1;
    for (const at of new Set([0, Math.floor(now.length / 2), now.length]))
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
      wrong: undefined,
    },
    moves,
    wrong: ({ wrong }) => wrong,
    key: ({ stood, node, shown, changes: left, lies: more }) => [
      left * 8 + more,
      ...node.key,
      shown.length,
      ...shown,
      ...stood.flatMap(one => [-1, ...one]),
    ],
  };
}
