/** Seeded random numbers. The sandbox uses no other random source, so a seed reproduces a world and a failing test. */

/** The next number in [0, 1). */
export type Rng = () => number;

/** A bijection of 32-bit numbers without visible pattern (the finisher of MurmurHash3). */
export function mix32(n: number): number {
  let h = n | 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** Inverse of `mix32`. */
function unmix32(mixed: number): number {
  let h = mixed | 0;
  h = Math.imul(h ^ (h >>> 16), 0x7ed1b41d);
  h = Math.imul(h ^ (h >>> 13) ^ (h >>> 26), 0xa5cb9243);
  return (h ^ (h >>> 16)) >>> 0;
}

/** The generator `mulberry32`, with 32 bits of state. */
export function makeRng(seed: number): Rng {
  let state = mix32(seed);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Integer from `least` to `most`, both included. */
export function between(rng: Rng, least: number, most: number): number {
  return least + Math.floor(rng() * (most - least + 1));
}

export function pick<T>(rng: Rng, items: readonly T[]): T {
  return items[Math.floor(rng() * items.length)]!;
}

/** One of the values, with a probability proportional to its weight. */
export function weighted<T>(rng: Rng, choices: readonly (readonly [value: T, weight: number])[]): T {
  let rest = rng() * choices.reduce((sum, [, weight]) => sum + weight, 0);
  for (const [value, weight] of choices) {
    rest -= weight;
    if (rest < 0) return value;
  }
  return choices[choices.length - 1]![0];
}

/**
 * The nth id of a world: hex text of 8 or 24 characters. The first 8 are a bijection of n, so ids of a world are unique
 * across all kinds of records. Built from bytes: concatenated text takes three times the memory.
 */
export function hexId(seed: number, n: number): string {
  const bytes = idBytes(seed, n);
  return bytes.toString('hex', 0, bytes[7]! % 2 === 0 ? 4 : 12);
}

/** Inverse of `hexId`; undefined for other texts. */
export function hexNumber(seed: number, id: string): number | undefined {
  if (!/^[0-9a-f]{8}([0-9a-f]{16})?$/.test(id)) return undefined;
  const n = (unmix32(Number.parseInt(id.slice(0, 8), 16)) ^ mix32(seed)) >>> 0;
  return hexId(seed, n) === id ? n : undefined;
}

/** The nth id of a world as 12 URL-safe characters; unrelated to the ids of `hexId`. */
export function urlId(seed: number, n: number): string {
  return idBytes(seed, n).toString('base64url', 0, 9);
}

function idBytes(seed: number, n: number): Buffer {
  const first = mix32(n ^ mix32(seed));
  const second = mix32(first ^ 0x9e3779b9);
  const bytes = Buffer.allocUnsafe(12);
  bytes.writeUInt32BE(first, 0);
  bytes.writeUInt32BE(second, 4);
  bytes.writeUInt32BE(mix32(second), 8);
  return bytes;
}
