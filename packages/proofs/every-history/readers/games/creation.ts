/**
 * The game of a reading by creation, as a sweep does it: what is not shown in a range that it proves counts as gone. So
 * everything that stood there, as of the time of the proof, must have been shown, in its version of then or a later one.
 */
import { type CreationOptions, readByCreation } from '../../../../../src/engine/reading/by-creation.ts';
import type { Page, Proof, Step } from '../../../../../src/engine/reading/reading.ts';
import { changesOf, type Limits } from '../changes.ts';
import type { Game, Move } from '../explore.ts';
import { isOver, type ListPlayed, play } from '../played.ts';
import {
  asOf,
  beginningAt,
  cutsOf,
  endAt,
  lives,
  placeOf,
  type Rules,
  refused,
  replyTo,
  secondName,
  tick,
  toSecond,
  undated,
  unevenIn,
  type World,
  year1970,
} from '../world.ts';
import { type Heard, hearing, nothingHeard } from './frugal.ts';

export interface CreationGame {
  readonly world: World;
  readonly rules: Rules;
  readonly limits: Limits;
  readonly read?: (from: number, options: CreationOptions) => Generator<Step, Proof, Page>;
  /** Only what was updated since this second. */
  readonly updatedSince?: number | undefined;
  /** Only what was created from this second on, or before this one. Default: from the very beginning, to the end. */
  readonly from?: number | undefined;
  readonly until?: number | undefined;
}

export interface Sweep {
  readonly world: World;
  readonly node: ListPlayed;
  /** The latest change of each record that a page has shown since the last proof. */
  readonly shown: readonly (number | undefined)[];
  readonly requests: number;
  /** Everything before this second is claimed, or is a gap. */
  readonly end: number;
  /** What it was told. It follows from the pages of `node`. */
  readonly heard: Heard;
  readonly left: { readonly changes: number; readonly ticks: number };
  readonly moved: number;
  /** Pages came from copies of different age. */
  readonly unsure: boolean;
  readonly wrong: string | undefined;
}

const mostRequests = 120;

const valuesOf = ({ versions }: World['items'][number]) => versions.at(-1)!.values ?? 0;
const isKnown = (items: World['items'], known: NonNullable<Rules['known']>) =>
  items.every(one => known.every((count, n) => ((valuesOf(one) >> n) & 1) < count));

/** Paging reaches all records of each second, or else all of it and of the next one that have the same known values. */
function isWithinReach({ items }: World, { pages, perPage, known, stops }: Rules): boolean {
  const depth = pages * perPage;
  const of = (...seconds: number[]) => items.filter(({ created }) => seconds.includes(placeOf(created)));
  const isDeep = (list: World['items']) => list.length >= depth;
  const counts = new Set(items.map(one => items.filter(({ created }) => created >= one.created).length));
  return items.every(({ created }) => {
    const second = placeOf(created);
    if (!isDeep(of(second))) return true;
    // A count of just as many may be one that stops there.
    if (known === undefined || stops || counts.has(depth)) return false;
    const met = of(second, second + 1);
    return isKnown(items, known) && !met.some(one => isDeep(met.filter(two => valuesOf(two) === valuesOf(one))));
  });
}

export function creationGame({ world, rules, limits, read = readByCreation, ...wanted }: CreationGame): Game<Sweep> {
  const { lookback, perPage, pages } = rules;
  const { updatedSince, from = year1970, until } = wanted;
  const options: CreationOptions = {
    lookbackMs: lookback * 1000,
    perPage,
    depth: pages * perPage,
    cuts: cutsOf(rules),
    ...(updatedSince !== undefined && { updatedSince: beginningAt(updatedSince, rules) }),
    ...(until !== undefined && { until: endAt(until, rules) }),
  };

  const hear = hearing(rules, wanted, 'created');

  function replied(sweep: Sweep, behind: number): Sweep {
    const { step } = sweep.node;
    if ('failed' in step || step.done) throw new Error('a reading that is over asks for nothing');
    const reply = replyTo(sweep.world, step.value.ask, rules, behind);
    const node = sweep.node.after(reply.code, reply.page);
    const shown = [...sweep.shown];
    for (const { id, version } of reply.rows) shown[id] = Math.max(shown[id] ?? -1, version.order);
    const unsure = sweep.unsure || behind > 0;
    const proof = 'failed' in node.step ? {} : node.step.done ? node.step.value : node.step.value.proof;
    const requests = sweep.requests + 1;
    const end = endOf(proof, sweep.end);
    const heard = hear.heard(sweep.heard, step.value.ask, reply.rows);
    return {
      ...sweep,
      node,
      shown: proof.covered ? [] : shown,
      requests,
      end,
      heard,
      unsure,
      moved: -1,
      wrong:
        requests > mostRequests
          ? 'the reading does not end'
          : (refused(step.value.ask, rules) ??
            unevenIn(proof) ??
            apart(proof, sweep.end, sweep.world, heard) ??
            needless(sweep, node.step, heard, end) ??
            unshown(proof, shown, sweep.world, unsure)),
    };
  }

  /**
   * A claim begins where the last one, or the gap behind it, ended. A gap may follow what is too young to be claimed. It ends
   * with the last record, or where the lookback begins.
   */
  function apart({ covered, gap }: Proof, end: number, now: World, heard: Heard): string | undefined {
    if (covered && toSecond(covered.from) !== end) return 'a claim does not begin where the last one ended';
    if (gap && toSecond(gap.from) < end) return 'a gap begins in what is claimed';
    if (gap === undefined) return undefined;
    const latest = Math.max(...now.items.map(({ created }) => placeOf(created)));
    if (toSecond(gap.to) > Math.max(asOf(now, rules) - lookback, latest + 1))
      return 'a gap reaches beyond what may be claimed and the last record';
    return hear.misplaced(heard, now, gap);
  }
  const endOf = ({ covered, gap }: Proof, end: number): number =>
    covered ? toSecond(covered.to) : gap && toSecond(gap.from) === end ? toSecond(gap.to) : end;

  /** If nothing changes, a second that can be read is no gap, and all is claimed that may be. */
  function needless(
    { left, world: now }: Sweep,
    then: ListPlayed['step'],
    heard: Heard,
    end: number,
  ): string | undefined {
    if ('failed' in then) return then.failed;
    const { gap } = then.done ? then.value : then.value.proof;
    if (until !== undefined && (end > until || (end === until && !then.done))) return 'more is read than is wanted';
    // Where records are only deleted, a second is read again while it changes.
    const isSteady = limits.changes - left.changes < (limits.kinds.join() === 'delete' ? 3 : 1);
    if (gap && isReadable && isSteady && left.ticks === limits.ticks) return `a gap is left: ${gap.reason}`;
    if (left.changes < limits.changes || left.ticks < limits.ticks) return undefined;
    if (gap?.reason.endsWith('we know') && isKnown(world.items, rules.known!)) return 'a gap has a wrong reason';
    const claimed = Math.min(asOf(now, rules) - lookback, until ?? Infinity);
    if (then.done && isReadable && end < claimed) return 'not all is claimed that may be';
    return hear.needlessOfCreation(heard, now, then);
  }
  const isReadable = isWithinReach(world, rules);

  function unshown({ covered, asOf }: Proof, shown: Sweep['shown'], { items }: World, unsure: boolean) {
    if (covered === undefined) return undefined;
    const [from, to, known] = [toSecond(covered.from), toSecond(covered.to), toSecond(asOf!)];
    if (to > known - lookback) return 'a claim is younger than the lookback allows';
    // One copy shows what was displaced by a deletion that another one does not show yet.
    if (unsure && !items.every(lives)) return undefined;
    for (let id = 0; id < items.length; id++) {
      const { created, versions, gone } = items[id]!;
      // Of a record without a time of creation a reading by creation says nothing.
      if (gone !== undefined || created === undated || placeOf(created) < from || placeOf(created) >= to) continue;
      const certain = versions.findLast(({ made }) => made < known - lookback);
      if (certain === undefined || (updatedSince !== undefined && certain.time <= updatedSince)) continue;
      const seen = shown[id];
      if (seen === undefined) return `record ${id} of second ${secondName(created)} is there and was not shown`;
      if (seen < certain.order) return `record ${id} of second ${secondName(created)} was shown in an old version only`;
    }
    return undefined;
  }

  function* moves(sweep: Sweep): Generator<Move<Sweep>> {
    const { node, left } = sweep;
    if ('failed' in node.step || node.step.done) return;
    const { since, page } = node.step.value.ask;
    const asks = `the sweep gets page ${page}${since === undefined ? '' : ` since second ${toSecond(since)}`}`;
    yield { what: asks, next: replied(sweep, 0) };
    const spent = { ...left, changes: left.changes - 1 };
    if (left.changes > 0 && limits.kinds.includes('behind'))
      for (const seconds of limits.late)
        yield {
          what: `${asks}, from a copy that is ${seconds} s behind`,
          next: replied({ ...sweep, left: spent }, seconds),
        };
    if (left.changes > 0)
      for (const { id, what, late, world: change } of changesOf(sweep.world, rules, limits)) {
        if (id < sweep.moved) continue;
        yield {
          what,
          next: { ...sweep, world: change(sweep.world), unsure: sweep.unsure || late, moved: id, left: spent },
        };
      }
    if (left.ticks > 0)
      yield {
        what: 'a second passes',
        next: { ...sweep, world: tick(sweep.world, rules), moved: -1, left: { ...left, ticks: left.ticks - 1 } },
      };
  }

  return {
    begin: {
      world,
      node: play(() => read(from === year1970 ? 0 : beginningAt(from, rules), options), [1, 1]),
      shown: [],
      requests: 0,
      end: from,
      heard: nothingHeard,
      left: limits,
      moved: -1,
      unsure: false,
      wrong: undefined,
    },
    moves,
    wrong: ({ wrong, node }) => wrong ?? (node.isNew && isOver(node) ? 'nothing is asked for' : undefined),
    key: ({ world: { now, items, orders }, node, shown, left, moved, unsure }) => [
      left.changes * 64 + left.ticks * 4 + Number(unsure),
      moved,
      now,
      orders,
      ...node.key,
      ...items.flatMap(({ created, versions, gone }, id) => [
        created,
        gone ?? -9,
        shown[id] ?? -9,
        versions.length,
        ...versions.flatMap(({ time, order, made, shows, values = 0 }) => [time, order, made, shows, values]),
      ]),
    ],
  };
}
