/** A state of the game of the moving list: the world, the mirror, and where the runs are. */
import type { Proof, Range, Walk } from '../../../../../src/engine/reading/reading.ts';
import type { Mirror } from '../mirror.ts';
import { isOver, type ListPlayed } from '../played.ts';
import { toSecond, type World } from '../world.ts';
import type { Heard } from './frugal.ts';

/** Where a run is. A sync ends with the ranges that were taken back. */
export interface Run {
  readonly node: ListPlayed;
  /** What the reading of this part has claimed: list-loop.ts claims only what it adds. */
  readonly claimed: Range | undefined;
  /** The parts that follow; undefined until the list was read to its end. */
  readonly parts: readonly { readonly from: number; readonly to: number }[] | undefined;
  readonly requests: number;
  /** Up to where its first page showed everything. It follows from the pages of `node`. */
  readonly asOf: number;
  /** What it was told. It follows from the pages of `node` as well. */
  readonly heard: Heard;
  readonly begun: Begun;
}
/** What a reading begins with. */
export interface Begun {
  readonly from: number;
  readonly until: number | undefined;
  /** The walk of this end, or else, where two runs read, that of another end. */
  readonly walk: Walk | undefined;
  readonly isOwn: boolean;
  /** Nothing of the list has been read before. */
  readonly firstLoad: boolean;
}
export type Runs = readonly ('to begin' | Run | 'over')[];

export interface State {
  readonly world: World;
  readonly mirror: Mirror;
  readonly runs: Runs;
  readonly left: { readonly changes: number; readonly ticks: number; readonly kills: number };
  /** Copies of different age may have answered: late changes show on one of them first. */
  readonly unsure: boolean;
  /** Seconds that were read by pages of copies that differ, about a record that was deleted: a sweep has to find them (SPEC, I3). */
  readonly excused: number;
  /** What happened since the last page; what can be put in another order is played in one. */
  readonly lately: Lately;
  /** The last page showed nothing in an order, or no record that can be read; and the reading gave up. */
  readonly turned: boolean;
  readonly failed: boolean;
  readonly wrong: string | undefined;
  readonly quiet: boolean;
}

/** Whether the world moved since the last page, and the record that changed last in this second. */
export interface Lately {
  readonly moved: boolean;
  readonly id: number;
}
export const nothing: Lately = { moved: false, id: -1 };

export const isIdle = (run: Runs[number]) => typeof run !== 'string' && run.node.isNew && isOver(run.node);

/** What a proof adds to what the reading has claimed, as list-loop.ts has it. */
export function added(proof: Proof, claimed: Range | undefined): Proof {
  const { covered } = proof;
  if (!claimed || covered?.from !== claimed.from) return proof;
  return { ...proof, covered: { from: claimed.to, to: Math.max(claimed.to, covered.to) } };
}

/** Everything that the future of a state follows from. Orders of changes count by their rank. */
export function key({ world, mirror, runs, left, unsure, excused, lately, quiet }: State): number[] {
  const numbers = [
    left.changes | (left.ticks << 4) | (left.kills << 8) | (Number(unsure) << 12) | (Number(quiet) << 13),
    excused,
    lately.id * 2 + Number(lately.moved),
    world.now,
    world.items.length,
  ];
  const orders: number[] = [];
  for (const { versions, gone } of world.items)
    if (gone === undefined || world.now < 24) for (const { order } of versions) orders.push(order);
  orders.sort((a, b) => a - b);
  world.items.forEach(({ versions, gone, created }, id) => {
    const row = mirror.rows[id];
    numbers.push(created, gone ?? -9, versions.length);
    for (const { time, order, made, shows } of versions) numbers.push(time, orders.indexOf(order), made, shows);
    numbers.push(
      row === undefined ? -9 : row.time,
      ...(row ? [orders.indexOf(row.order), row.observed, row.trueBy] : []),
    );
  });
  numbers.push(mirror.covered, mirror.gaps, mirror.ties.length, mirror.torn.length);
  for (const { from, to, toldBy, members, held } of mirror.ties)
    numbers.push(
      from,
      to,
      toldBy,
      members.reduce((set, id) => set | (1 << id), 0),
      Number(held),
    );
  for (const { from, to } of mirror.torn) numbers.push(from, to);
  for (const { until = -1, walk } of mirror.walks) {
    const { since, asOf: begun, page, deep, updatedSince = 0 } = walk;
    numbers.push(until, toSecond(since), toSecond(begun), page, Number(deep), toSecond(updatedSince));
  }
  for (const run of runs) {
    if (typeof run === 'string') numbers.push(run === 'over' ? -1 : -2);
    else {
      numbers.push(...run.node.key, run.parts === undefined ? -1 : run.parts.length);
      if (run.claimed) numbers.push(toSecond(run.claimed.from), toSecond(run.claimed.to));
      for (const { from, to } of run.parts ?? []) numbers.push(from, to);
    }
  }
  return numbers;
}
