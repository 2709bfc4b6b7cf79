/**
 * Imagined readings: drives the same generators that will read the lists. The stream builds each request, which knows
 * its cost. Known or assumed times answer the request.
 */

import type { ListStream, Row } from '../../sources/source.ts';
import type { Lane } from '../budget/budget.ts';
import type { Ask, Ms, Page, Proof, Step } from '../reading/reading.ts';
import type { Asked } from './plan-time.ts';

/** The times that order the records of a list, ascending. */
export type Imagined = ArrayLike<number>;

/** Every request of a reading, answered as of now. `pages` false: the list has no pages, and each reply shows all of it. */
export function requestsOf(
  reading: Generator<Step, Proof, Page>,
  { stream, list, lane, pages = true }: { stream: ListStream<Row>; list: string; lane: Lane; pages?: boolean },
  imagined: Imagined,
  nowMs: Ms,
): Asked[] {
  const asked: Asked[] = [];
  for (let step = reading.next(); !step.done; ) {
    const { ask } = step.value;
    asked.push({ cost: stream.request(list, ask).cost, lane, many: 1 });
    step = reading.next(answer(imagined, pages ? ask : { ...ask, page: 1, perPage: imagined.length }, nowMs));
  }
  return asked;
}

function answer(imagined: Imagined, { since, page, perPage, count }: Ask, nowMs: Ms): Page {
  const first = since === undefined ? 0 : placeOf(imagined, since);
  const from = first + (page - 1) * perPage;
  const arrived = Math.max(0, Math.min(perPage, imagined.length - from));
  const rows = Array.from({ length: arrived }, (_, i) => ({ id: String(from + i), time: imagined[from + i]! }));
  return { arrived, rows, asOf: nowMs, trueBy: nowMs, ...(count && { total: imagined.length - first }) };
}

/** The index of the first time that is not earlier. */
function placeOf(imagined: Imagined, time: Ms): number {
  let [low, high] = [0, imagined.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (imagined[middle]! < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Times at even distances, for a list whose times are unknown. */
export const evenly = (many: number, fromMs: Ms, toMs: Ms): number[] =>
  Array.from({ length: many }, (_, i) => fromMs + ((i + 0.5) * Math.max(0, toMs - fromMs)) / many);

export const merged = (...lists: readonly Imagined[]): Float64Array =>
  Float64Array.from(lists.flatMap(list => Array.from(list))).sort();
