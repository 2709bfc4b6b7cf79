/** Seeded random numbers: a seed repeats a world, and what happens to it. */

/** The next number in [0, 1). */
export type Rng = () => number;

/** mulberry32, with 32 bits of state. */
export function rngOf(seed: number): Rng {
  let state = Math.imul(seed ^ 0x9e37_79b9, 0x85eb_ca6b);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

export const below = (rng: Rng, n: number): number => Math.floor(rng() * n);
export const pick = <T>(rng: Rng, items: readonly T[]): T => items[below(rng, items.length)]!;

/** An id that says nothing of the order in which its records were made: `k3x9`. */
export function idOf(n: number): string {
  let h = Math.imul(n + 1, 0x9e37_79b1);
  h = Math.imul(h ^ (h >>> 15), 0x85eb_ca6b);
  return `${'bcdfghkmnpqrstvwxz'[(h >>> 3) % 18]}${((h >>> 8) % 1296).toString(36).padStart(2, '0')}${n}`;
}
