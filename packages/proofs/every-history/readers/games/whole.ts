/**
 * The game of a list that is read whole: page after page, or with a cursor. What stood on the list from the first page to
 * the last one must have been shown, if the reading claims to have read it all. If nothing changes it must claim it all,
 * and ask for no page more than it needs. Each reply comes a second after the one before.
 */
import { endOf, floorSecond, type Page, type Proof, type Reader } from '../../../../../src/engine/reading/reading.ts';
import type { Game, Move } from '../explore.ts';
import { isOver, type ListPlayed, Readings } from '../played.ts';
import { toMs } from '../world.ts';

/**
 * How the source pages: by number; by its own number of ten; not at all, so that each page shows the same; by a cursor that
 * names the last record, with an empty page before each other one; by a cursor that always leads to the same page; by place.
 */
export type Paging =
  | 'number'
  | 'number, ten at once'
  | 'number, which is ignored'
  | 'last record'
  | 'last record, with empty pages'
  | 'last record, which is ignored'
  | 'place, overlapping';

export interface WholeGame {
  readonly records: number;
  readonly changes: number;
  readonly perPage: number;
  readonly paging: Paging;
  /** The first so many records cannot be read. */
  readonly unreadable?: number;
  /** Nothing happens but that the first record is deleted, which moves all others. */
  readonly shrinks?: boolean;
  /** Nothing from here on is wanted. */
  readonly until?: number | undefined;
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
  /** The request that began the reading: with a cursor, the last one that began anew. */
  readonly begun: number;
  /** How often it has begun. */
  readonly readings: number;
  readonly wrong: string | undefined;
}

/** A list that moves in each of them is a gap, which says so. */
const mostReadings = 5;

/** A part of a second is the whole second. */
const from = toMs(0) + 300;
const timeOf = (request: number) => toMs(20 + request) + 700;

export function wholeGame({
  records,
  changes,
  perPage,
  paging,
  unreadable = 0,
  shrinks,
  until,
  read,
}: WholeGame): Game<Listed> {
  const all = Array.from({ length: records }, (_, id) => id);
  const readings = new Readings(read);
  const byNumber = paging.startsWith('number');
  const size = paging === 'number, ten at once' ? Math.min(10, perPage) : perPage;
  const options = {
    ...{ lookbackMs: 1000, perPage, depth: 100 },
    ...(until !== undefined && { until: toMs(until) + 300 }),
  };

  /** The records of a page, and the cursor of the next one. */
  function pageOf(list: readonly number[], page: number, cursor: string | undefined) {
    if (paging === 'number, which is ignored') return { arrived: list, next: undefined };
    if (byNumber) return { arrived: list.slice((page - 1) * size, page * size), next: undefined };
    if (cursor?.startsWith('after ')) return { arrived: [], next: cursor.slice('after '.length) };
    const isIgnored = cursor === undefined || paging === 'last record, which is ignored';
    const isPlace = paging === 'place, overlapping';
    const begin = isIgnored ? 0 : isPlace ? Number(cursor) : list.filter(id => id <= Number(cursor)).length;
    const arrived = list.slice(begin, begin + size);
    const end = begin + arrived.length;
    if (end === list.length) return { arrived, next: undefined };
    const next = String(isPlace ? end - 1 : arrived.at(-1));
    return { arrived, next: paging === 'last record, with empty pages' ? `after ${next}` : next };
  }

  function replied(state: Listed): Listed {
    const { step } = state.node;
    if ('failed' in step || step.done) throw new Error('a reading that is over asks for nothing');
    const { page, cursor, perPage: asked } = step.value.ask;
    const { arrived, next } = pageOf(state.list, page, cursor);
    const reply = (): Page => ({
      arrived: arrived.length,
      rows: arrived.filter(id => id >= unreadable).map(id => ({ id: `r${id}`, time: Number.NaN })),
      asOf: timeOf(state.requests),
      trueBy: timeOf(state.requests),
      next,
    });
    const set = arrived.reduce((bits, id) => bits + 2 ** id, 0);
    const node = state.node.after(set * 128 + (next === undefined ? 127 : Number(next.replace('after', '-1'))), reply);
    const begins = byNumber ? state.requests === 0 : cursor === undefined;
    const read: Listed = {
      ...state,
      node,
      shown: arrived.reduce((bits, id) => bits | (1 << id), state.shown),
      stayed: state.requests === 0 ? state.list : state.stayed,
      begun: begins ? state.requests : state.begun,
      readings: state.readings + (begins ? 1 : 0),
      requests: state.requests + 1,
    };
    const isRefused = page < 1 || asked !== perPage || (begins && page !== 1);
    return { ...read, wrong: isRefused ? `a reading requests page ${page} of ${asked} records` : wrong(read) };
  }

  function wrong({
    requests,
    node: { step },
    stayed,
    shown,
    changes: left,
    begun,
    readings: begins,
  }: Listed): string | undefined {
    if (requests > 80 || begins > mostReadings) return 'the reading does not end';
    if ('failed' in step) return step.failed;
    if (left === changes && requests > needed()) return 'more pages are asked for than are needed';
    if (!step.done) return undefined;
    const { covered, gap } = step.value;
    const missed = covered ? stayed.find(id => (shown & (1 << id)) === 0) : undefined;
    if (missed !== undefined)
      return `record ${missed} stood on the list all the time, was not shown, and the list counts as read`;
    if (covered) return isJust(covered, begun, options) ? undefined : 'the claim is not from the first page on';
    if (gap && (gap.from !== floorSecond(from) || gap.to !== floorSecond(timeOf(begun))))
      return 'the gap is not from the first page on';
    // A reading begins anew where the list has moved, so a few changes keep it from nothing.
    const mayFail = unreadable > 0 || paging === 'last record, which is ignored' || changes - left >= mostReadings;
    return mayFail ? undefined : 'the list is not read whole, though it moved less often than a reading begins anew';
  }

  /** Requests of a list where nothing changes. */
  function needed(): number {
    if (paging === 'number, which is ignored') return records < perPage ? 1 : 2;
    if (byNumber) return records < size ? 1 : 2 * Math.floor(records / size) + 1;
    if (paging === 'place, overlapping') return Math.max(1, Math.ceil((records - 1) / (size - 1)));
    const pages = Math.max(1, Math.ceil(records / size));
    if (paging === 'last record, which is ignored') return Math.min(2, pages);
    return paging === 'last record' ? pages : 2 * pages - 1;
  }

  function* moves(state: Listed): Generator<Move<Listed>> {
    const { node, list, stayed } = state;
    if ('failed' in node.step || node.step.done) return;
    const { page } = node.step.value.ask;
    yield { what: `the run gets page ${page}`, next: replied(state) };
    if (state.changes === 0) return;
    const left = { changes: state.changes - 1 };
    for (const id of shrinks ? list.slice(0, 1) : list)
      yield {
        what: `record ${id} is deleted`,
        next: { ...state, ...left, list: list.filter(one => one !== id), stayed: stayed.filter(one => one !== id) },
      };
    if (shrinks) return;
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
      node: readings.from(from, options),
      shown: 0,
      changes,
      requests: 0,
      begun: 0,
      readings: 0,
      wrong: undefined,
    },
    moves,
    wrong: ({ wrong, node }) => wrong ?? (node.isNew && isOver(node) ? 'nothing is asked for' : undefined),
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

/** The claim reaches from the beginning to the time of the first page, or to the end of what is wanted. */
function isJust(
  { from: begin, to }: NonNullable<Proof['covered']>,
  begun: number,
  wanted: { until?: number },
): boolean {
  return begin === floorSecond(from) && to === Math.min(floorSecond(timeOf(begun)), endOf(wanted));
}
