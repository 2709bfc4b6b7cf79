/**
 * What the mirror holds and claims, as the commit of a page leaves it. The tables are small enough to be numbers: a set of
 * seconds is a number whose bits are the seconds. That PostgreSQL does the same is shown by in-sql/same-in-sql.test.ts.
 */
import type { Proof, Range, Tie, Walk } from '../../../../src/engine/reading/reading.ts';
import type { Rules, Shown, World } from './world.ts';
import { asOf, dateOf, replaced, toSecond } from './world.ts';

export interface Row {
  readonly time: number;
  /** Which change of the world the row shows. */
  readonly order: number;
  /** `_observed_at` and `_true_by`. */
  readonly observed: number;
  readonly trueBy: number;
}

export interface KnownTie {
  readonly from: number;
  readonly to: number;
  readonly toldBy: number;
  readonly members: readonly number[];
  readonly held: boolean;
}

export interface Mirror {
  readonly rows: readonly (Row | undefined)[];
  readonly covered: number;
  /** Seconds with a reason why they could not be read. */
  readonly gaps: number;
  /** Ranges that were taken back, because their ties were torn. */
  readonly torn: readonly { readonly from: number; readonly to: number }[];
  readonly ties: readonly KnownTie[];
  /** The places of walks: one of a sync, and one of each reading with an end. */
  readonly walks: readonly { readonly until: number | undefined; readonly walk: Walk }[];
}

export const empty: Mirror = { rows: [], covered: 0, gaps: 0, torn: [], ties: [], walks: [] };

/** Seconds from..to as bits. Claims begin at second 0 and end before second 30. */
export const bits = (from: number, to: number): number => {
  const [low, high] = [Math.max(0, Math.min(30, from)), Math.max(0, Math.min(30, to))];
  return high > low ? 2 ** high - 2 ** low : 0;
};
export const bitsOf = ({ from, to }: Range): number => bits(toSecond(from), toSecond(to));
export const has = (set: number, second: number): boolean => second >= 0 && second < 30 && (set & (1 << second)) !== 0;
/** The second behind the last one of the set; 0 if it is empty. */
export const topOf = (set: number): number => 32 - Math.clz32(set);

/** Whether a record of a reply is later than its row (SPEC, I2). */
export function isLater(row: Row, record: Row, lookback: number): boolean {
  const replyIsLater = row.observed < record.observed;
  const dated = record.time < record.trueBy;
  const greater = record.time > row.time || (record.time === row.time && replyIsLater);
  if (greater && dated) return true;
  const knownPast = row.time >= row.trueBy || record.observed - lookback >= row.time;
  if (greater && replyIsLater && knownPast) return true;
  const mayBeAhead = row.time > row.observed - lookback;
  const after = record.time >= row.trueBy && dated;
  return replyIsLater && mayBeAhead && (after || record.observed - lookback >= row.trueBy);
}

/** Both versions are kept apart: which is the later one is not known yet. */
const isHeld = (row: Row, record: Row, lookback: number): boolean =>
  row.time > record.time && row.observed < record.observed && row.time > row.observed - lookback;

export function commit(
  mirror: Mirror,
  world: World,
  rules: Rules,
  shown: readonly Shown[],
  proof: Proof,
  until?: number,
): Mirror {
  let { rows, ties } = mirror;
  const told = { observed: asOf(world, rules), trueBy: dateOf(world, rules) + 1 };
  for (const { id, time, version } of shown) {
    const row = rows[id];
    const record = { time, order: version.order, ...told };
    // An unchanged record writes nothing, not even when it was seen.
    if (row?.order === record.order) continue;
    if (row === undefined || isLater(row, record, rules.lookback)) rows = replaced(rows, id, record);
    else if (isHeld(row, record, rules.lookback)) {
      ties = noted(ties, { from: time, to: time + 1, toldBy: row.trueBy, members: [id], held: true });
    }
  }
  if (proof.tie) ties = noted(ties, tieOf(proof.tie));
  return {
    rows,
    ties,
    covered: proof.covered ? mirror.covered | bitsOf(proof.covered) : mirror.covered,
    gaps: proof.gap ? mirror.gaps | bitsOf(proof.gap) : mirror.gaps,
    torn: mirror.torn,
    walks: proof.walk === undefined ? mirror.walks : placed(mirror, proof.walk, until),
  };
}

function placed({ walks }: Mirror, walk: Walk | null, until: number | undefined): Mirror['walks'] {
  const others = walks.filter(one => one.until !== until);
  return walk === null ? others : [...others, { until, walk }];
}
export const walkOf = ({ walks }: Mirror, until?: number): Walk | undefined =>
  walks.find(one => one.until === until)?.walk;

const tieOf = ({ from, to, ids, toldBy }: Tie): KnownTie => ({
  from: toSecond(from),
  to: toSecond(to),
  toldBy: toSecond(toldBy),
  members: ids.map(id => Number(id.slice(1))),
  held: false,
});

function noted(ties: readonly KnownTie[], tie: KnownTie): readonly KnownTie[] {
  const at = ties.findIndex(({ from, to }) => from === tie.from && to === tie.to);
  const known = ties[at];
  if (known === undefined) return [...ties, tie];
  if (!known.held && !tie.held) return replaced(ties, at, tie);
  const members = [...new Set([...known.members, ...tie.members])].sort();
  return replaced(ties, at, { ...tie, toldBy: Math.max(known.toldBy, tie.toldBy), members, held: true });
}

/** A sync has read everything before this second: ties from before it are certain, or torn. */
export function settle(mirror: Mirror, known: number): Mirror {
  const ripe = mirror.ties.filter(({ toldBy }) => toldBy <= known);
  if (ripe.length === 0) return mirror;
  const torn = ripe.filter(({ members, to }) => members.some(id => mirror.rows[id]!.time >= to));
  const again = mirror.torn.filter(({ from, to }) => !torn.some(tie => tie.from === from && tie.to === to));
  return {
    ...mirror,
    ties: mirror.ties.filter(({ toldBy }) => toldBy > known),
    covered: torn.reduce((covered, { from, to }) => covered & ~bits(from, to), mirror.covered),
    torn: [...again, ...torn.map(({ from, to }) => ({ from, to }))],
  };
}

/** What was taken back and not read since. */
export const takenBack = ({ torn, covered }: Mirror) =>
  torn.filter(({ from, to }) => (covered & bits(from, to)) !== bits(from, to));

/**
 * What the mirror claims that is not so. `unsure`: pages of a tie may have come from copies of different age, so a tie is
 * certain only once it is settled. `excused`: seconds of which nothing is expected.
 */
export function falseClaim(
  mirror: Mirror,
  { items }: World,
  {
    unsure,
    excused,
    unreadable = [],
  }: { unsure: boolean; excused: number; unreadable?: readonly number[] | undefined },
): string | undefined {
  for (let id = 0; id < items.length; id++) {
    const { versions, gone } = items[id]!;
    if (gone !== undefined || unreadable.includes(id)) continue;
    const { time, order } = versions.at(-1)!;
    if (!has(mirror.covered, time) || has(excused, time)) continue;
    if (mirror.ties.some(tie => tie.from <= time && time < tie.to && (unsure || tie.held))) continue;
    const row = mirror.rows[id];
    if (row === undefined) return `record ${id} of second ${time} is missing, and the second counts as read`;
    if (row.order !== order) return `the row of record ${id} is old, and second ${time} counts as read`;
  }
  return undefined;
}
