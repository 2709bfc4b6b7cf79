/** Requests that were repeated because a power cut took their replies back. */
import { type Again, type Asked, askedAgain, type Kill } from '../../../test/support/workers.ts';

interface Repeats {
  /** For each cut. */
  readonly byCut: readonly (readonly Again[])[];
  /** What may be read anew after any death (SPEC I8): ties, the search for the end of the customers, and the like; and sweeps. */
  readonly others: number;
}

export function repeatedIn(asked: readonly Asked[], kills: readonly Kill[]): Repeats {
  const again = askedAgain(asked, kills).filter(({ afterKill }) => afterKill);
  const counted = again.filter(({ kind, what }) => (kind === 'ticket' || kind === 'page') && !isSweep(what));
  const cutOf = ({ firstMs, againMs }: Again) =>
    kills.findIndex(({ atMs, overMs }) => firstMs <= overMs && atMs <= againMs);
  return {
    byCut: kills.map((_, n) => counted.filter(one => cutOf(one) === n)),
    others: again.length - counted.length,
  };
}

/** By creation. A sweep that begins again reads all of it again. */
const isSweep = (what: string) => what.includes('since_created_at') || what.includes('order_by=created');

/** Repeated more than once after one cut. */
export function thrice(again: readonly Again[]): string[] {
  const times = Map.groupBy(again, ({ what }) => what);
  return [...times].filter(([, all]) => all.length > 1).map(([what]) => what);
}
