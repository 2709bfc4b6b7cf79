/**
 * A reader that can be asked what it does after any pages. It is a generator, which cannot be copied. But what it does
 * follows from the pages that it was given, so a state of a reader is the list of its pages: it has been given them one
 * after the other, by a real reader of its own.
 */

import type { Page, Proof, Reader, ReadingOptions, Step } from '../../../../src/engine/reading/reading.ts';
import { isNamed } from '../planted.ts';

export interface Played<Asked, Told, Arrived> {
  /** Two numbers that stand for where it began and the pages that it was given. */
  readonly key: readonly [number, number];
  /** It has been given no page yet. */
  readonly isNew: boolean;
  /** A request; the end; or the reader has given up. */
  readonly step: IteratorResult<Asked, Told> | { readonly failed: string };
  /** After one more page. `code` stands for the page: equal pages have equal codes. */
  readonly after: (code: number, page: () => Arrived) => Played<Asked, Told, Arrived>;
}

export const isOver = ({ step }: { readonly step: { readonly failed: string } | IteratorResult<unknown, unknown> }) =>
  'failed' in step || step.done === true;

interface Given<Arrived> {
  readonly page: Arrived;
  readonly before: Given<Arrived> | undefined;
}

/** Of what was played so much is kept; then it is forgotten, and played again where it is needed. */
const mostKept = 300_000;
let kept = 0;
let epoch = 0;

export function play<Asked, Told, Arrived>(
  start: () => Generator<Asked, Told, Arrived>,
  key: readonly [number, number],
  given?: Given<Arrived>,
): Played<Asked, Told, Arrived> {
  let next: Map<number, Played<Asked, Told, Arrived>> | undefined;
  let since = epoch;
  if (++kept > mostKept) [kept, epoch] = [0, epoch + 1];
  return {
    key,
    isNew: given === undefined,
    step: stepOf(start, given),
    after: (code, page) => {
      if (since !== epoch) [next, since] = [undefined, epoch];
      let one = next?.get(code);
      if (one === undefined) {
        one = play(start, follow(key, code), { page: page(), before: given });
        next ??= new Map();
        next.set(code, one);
      }
      return one;
    },
  };
}

function stepOf<Asked, Told, Arrived>(start: () => Generator<Asked, Told, Arrived>, given: Given<Arrived> | undefined) {
  const pages: Arrived[] = [];
  for (let at = given; at; at = at.before) pages.push(at.page);
  try {
    const reading = start();
    let step = reading.next();
    for (const page of pages.reverse()) step = reading.next(page);
    return step;
  } catch (error) {
    if (!isNamed(error, 'Fatal')) throw error;
    return { failed: (error as Error).message };
  }
}

/** The hashes of a longer sequence. A code has up to 52 bits. */
function follow([one, other]: readonly [number, number], code: number): [number, number] {
  const [low, high] = [code | 0, Math.floor(code / 2 ** 32) | 0];
  const a = Math.imul(Math.imul(one ^ low, 0x9e3779b1) ^ (one >>> 15) ^ high, 0x85ebca6b);
  const b = Math.imul(Math.imul(other + low, 0x27d4eb2f) + (other >>> 13) + high, 0x165667b1);
  return [a ^ (a >>> 16), b ^ (b >>> 14)];
}

export type ListPlayed = Played<Step, Proof, Page>;

/** The readings of one list, by where they begin and with what. */
export class Readings {
  readonly #known = new Map<string, ListPlayed>();
  readonly #read: Reader;
  constructor(read: Reader) {
    this.#read = read;
  }

  from(from: number, options: ReadingOptions): ListPlayed {
    const { until, walk, firstLoad } = options;
    const name = `${from} ${until} ${JSON.stringify(walk)} ${firstLoad}`;
    let known = this.#known.get(name);
    if (known === undefined) {
      const key = [...name].reduce<[number, number]>((hash, letter) => follow(hash, letter.charCodeAt(0)), [17, 42]);
      known = play(() => this.#read(from, options), key);
      this.#known.set(name, known);
    }
    return known;
  }
}
