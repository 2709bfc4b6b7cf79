/**
 * The game of a list that is read whole: page after page, or with a cursor. What stood on the list from the first page to
 * the last one must have been shown, if the reading claims to have read it all.
 */
import type { Page, Reader } from '../../../src/engine/reading/reading.ts';
import type { Game, Move } from './explore.ts';
import { type ListPlayed, Readings } from './played.ts';
import { toMs } from './world.ts';

export interface WholeGame {
  readonly records: number;
  readonly changes: number;
  readonly perPage: number;
  /** How the source pages: by number, or by a cursor that names the last record, or a place. */
  readonly paging: 'number' | 'last record' | 'place' | 'place, overlapping';
  readonly read: Reader;
}

export interface Listed {
  readonly list: readonly number[];
  readonly created: number;
  /** On the list since the first page. */
  readonly stayed: readonly number[];
  readonly node: ListPlayed;
  readonly shown: number;
  readonly changes: number;
  readonly requests: number;
  readonly wrong: string | undefined;
}

export function wholeGame({ records, changes, perPage, paging, read }: WholeGame): Game<Listed> {
  const all = Array.from({ length: records }, (_, id) => id);
  const readings = new Readings(read);

  function replied(state: Listed): Listed {
    const { step } = state.node;
    if ('failed' in step || step.done) throw new Error('a reading that is over asks for nothing');
    const { page, cursor } = step.value.ask;
    const { list } = state;
    const from =
      paging === 'number'
        ? (page - 1) * perPage
        : cursor === undefined
          ? 0
          : paging === 'last record'
            ? list.filter(id => id <= Number(cursor)).length
            : Number(cursor);
    const arrived = list.slice(from, from + perPage);
    const end = from + arrived.length;
    const place = paging === 'place, overlapping' ? end - 1 : end;
    const next = end < list.length ? String(paging === 'last record' ? arrived.at(-1) : place) : undefined;
    const code = arrived.reduce((sum, id) => sum * 16 + id + 1, 1) * 32 + (next === undefined ? 31 : Number(next));
    const reply = (): Page => ({
      arrived: arrived.length,
      rows: arrived.map(id => ({ id: `r${id}`, time: Number.NaN })),
      asOf: toMs(20),
      date: toMs(20),
      next,
    });
    const node = state.node.after(code, reply);
    const shown = arrived.reduce((set, id) => set | (1 << id), state.shown);
    const stayed = state.requests === 0 ? list : state.stayed;
    const isOver = !('failed' in node.step) && node.step.done === true;
    const missed = isOver && node.step.value.covered ? stayed.find(id => (shown & (1 << id)) === 0) : undefined;
    const requests = state.requests + 1;
    const wrong =
      requests > 80
        ? 'the reading does not end'
        : missed === undefined
          ? undefined
          : `record ${missed} stood on the list all the time, was not shown, and the list counts as read`;
    return { ...state, node, shown, stayed, requests, wrong };
  }

  function* moves(state: Listed): Generator<Move<Listed>> {
    const { node, list, stayed } = state;
    if ('failed' in node.step || node.step.done) return;
    const { page } = node.step.value.ask;
    yield { what: `the run gets page ${page}`, next: replied(state) };
    if (state.changes === 0) return;
    const left = { changes: state.changes - 1 };
    for (const id of list)
      yield {
        what: `record ${id} is deleted`,
        next: { ...state, ...left, list: list.filter(one => one !== id), stayed: stayed.filter(one => one !== id) },
      };
    yield {
      what: `record ${state.created} is created`,
      next: { ...state, ...left, list: [...list, state.created], created: state.created + 1 },
    };
  }

  return {
    begin: {
      list: all,
      created: records,
      stayed: [],
      node: readings.from(toMs(0), { lookbackMs: 1000, perPage, depth: 100 }),
      shown: 0,
      changes,
      requests: 0,
      wrong: undefined,
    },
    moves,
    wrong: ({ wrong }) => wrong,
    key: ({ list, stayed, node, shown, changes: left, created, requests }) => [
      left,
      created,
      shown,
      Number(requests > 0),
      ...node.key,
      list.reduce((set, id) => set | (1 << id), 0),
      stayed.reduce((set, id) => set | (1 << id), 0),
    ],
  };
}
