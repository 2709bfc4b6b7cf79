/**
 * The states that were played already, each with the number of histories that go on from it. A state is known by 64 bits
 * of hash, so that tens of millions fit into memory: two of ten million states share one with a chance of one in 370,000.
 */
export class Seen {
  size = 0;
  #mask: number;
  #one: Int32Array;
  #other: Int32Array;
  /** 0: free. */
  #counts: Float64Array;

  constructor(bits = 16) {
    this.#mask = 2 ** bits - 1;
    this.#one = new Int32Array(2 ** bits);
    this.#other = new Int32Array(2 ** bits);
    this.#counts = new Float64Array(2 ** bits);
  }

  /** The number of histories from this state; 0 if it is new. */
  get(one: number, other: number): number {
    return this.#counts[this.#place(one, other)]!;
  }

  set(one: number, other: number, count: number): void {
    if (this.size * 2 > this.#mask) this.#grow();
    const place = this.#place(one, other);
    if (this.#counts[place] === 0) this.size++;
    this.#one[place] = one;
    this.#other[place] = other;
    this.#counts[place] = count;
  }

  #place(one: number, other: number): number {
    let place = one & this.#mask;
    while (this.#counts[place] !== 0 && (this.#one[place] !== one || this.#other[place] !== other)) {
      place = (place + 1) & this.#mask;
    }
    return place;
  }

  #grow(): void {
    const [ones, others, counts] = [this.#one, this.#other, this.#counts];
    const length = counts.length * 2;
    this.#mask = length - 1;
    this.#one = new Int32Array(length);
    this.#other = new Int32Array(length);
    this.#counts = new Float64Array(length);
    for (let i = 0; i < counts.length; i++) {
      if (counts[i] === 0) continue;
      const place = this.#place(ones[i]!, others[i]!);
      this.#one[place] = ones[i]!;
      this.#other[place] = others[i]!;
      this.#counts[place] = counts[i]!;
    }
  }
}

/** Two hashes of the same numbers, 32 bits each. */
export function hashes(numbers: readonly number[]): [number, number] {
  let a = 0x9e3779b1 | 0;
  let b = 0x85ebca6b | 0;
  for (let i = 0; i < numbers.length; i++) {
    const n = numbers[i]! | 0;
    a = Math.imul(a ^ n, 0x2c1b3c6d);
    a ^= a >>> 15;
    b = Math.imul(b + n, 0x297a2d39) ^ (b >>> 13);
    b = Math.imul(b, 0x165667b1) + i;
  }
  a = Math.imul(a ^ (a >>> 16), 0x7feb352d);
  b = Math.imul(b ^ (b >>> 15), 0x846ca68b);
  return [(a ^ (a >>> 15)) | 0, (b ^ (b >>> 16)) | 0];
}
