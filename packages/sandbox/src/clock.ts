/**
 * The times of a service, in milliseconds. `steady` is the given clock, for limits, stale copies and activity. `now` is
 * the service's own time, for timestamps. Both agree until the service's clock jumps, as a machine's clock does when it
 * is set. `date` is for the header Date: an edge before the service may write it, by a clock of its own.
 */
const END_OF_TIME = Date.parse('9999-12-31T23:59:59Z');

export class Clock {
  readonly #given: () => number;
  #jumped_ms = 0;
  #edge_ms = 0;
  /** Steady time of the last jump. */
  #jumpedAt = Number.NEGATIVE_INFINITY;
  #moment_ms: number | undefined;

  /** `given`: clock in milliseconds; default the machine's. */
  constructor(given: () => number = Date.now) {
    this.#given = given;
  }

  readonly steady = (): number => this.#moment_ms ?? this.#given();

  readonly now = (): number => inTime(this.steady() + this.#jumped_ms);

  readonly date = (): number => inTime(this.now() + this.#edge_ms);

  /** Moves `date` alone, permanently. */
  readonly jumpDate = (ms: number): void => {
    this.#edge_ms += ms;
  };

  /** Moves `now` by these milliseconds, permanently; `now` stays between 1970 and 9999. */
  readonly jump = (ms: number): void => {
    this.#jumpedAt = this.steady();
    this.#jumped_ms = inTime(this.now() + ms) - this.#jumpedAt;
  };

  /** Steady time at which `now` reached a time or jumped over it. */
  readonly reached = (time_ms: number): number => {
    return Math.max(this.steady() - (this.now() - time_ms), this.#jumpedAt);
  };

  /** Runs `act` as if the steady clock stood at `ms`; used for overdue events. */
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

/** A clock that stands at `begin_ms` until `start`, then runs at the speed of `given`. */
export function beginningAt(begin_ms: number, given: () => number = Date.now): { now(): number; start(): void } {
  let started: number | undefined;
  return {
    now: () => begin_ms + (started === undefined ? 0 : given() - started),
    start: () => {
      started = given();
    },
  };
}
