/**
 * The two times of a service. `steady` is the clock it was given: limits, lags and activity go by it. `now` is what the
 * service believes the time to be, for its Date and its timestamps: the same until that clock jumps, as clocks of
 * machines do when somebody sets them. Both in milliseconds.
 */
const END_OF_TIME = Date.parse('9999-12-31T23:59:59Z');

export class Clock {
  readonly #given: () => number;
  #jumped_ms = 0;
  /** When it last did, by the steady clock. */
  #jumpedAt = Number.NEGATIVE_INFINITY;
  #moment_ms: number | undefined;

  /** `given`: in milliseconds; default the machine's. */
  constructor(given: () => number = Date.now) {
    this.#given = given;
  }

  readonly steady = (): number => this.#moment_ms ?? this.#given();

  readonly now = (): number => inTime(this.steady() + this.#jumped_ms);

  /** From now on `now` is this much later than it would have been, or earlier; it stays between 1970 and 9999. */
  readonly jump = (ms: number): void => {
    this.#jumpedAt = this.steady();
    this.#jumped_ms = inTime(this.now() + ms) - this.#jumpedAt;
  };

  /** The moment of the steady clock at which `now` came to a time, or jumped over it. */
  readonly reached = (time_ms: number): number => {
    return Math.max(this.steady() - (this.now() - time_ms), this.#jumpedAt);
  };

  /** Lets something happen as if it were that moment of the steady clock: what was due while nobody looked. */
  readonly at = <T>(ms: number, act: () => T): T => {
    const before = this.#moment_ms;
    this.#moment_ms = ms;
    try {
      return act();
    } finally {
      this.#moment_ms = before;
    }
  };
}

const inTime = (ms: number): number => Math.min(Math.max(ms, 0), END_OF_TIME);

/** A clock that stands at a time until it is started, and runs on from there as the given one does. */
export function beginningAt(begin_ms: number, given: () => number = Date.now): { now(): number; start(): void } {
  let started: number | undefined;
  return {
    now: () => begin_ms + (started === undefined ? 0 : given() - started),
    start: () => {
      started = given();
    },
  };
}
