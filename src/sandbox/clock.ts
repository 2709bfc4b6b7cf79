/**
 * The two times of a service. `steady` is the clock it was given: limits, lags and activity go by it. `now` is what the
 * service believes the time to be, for its Date and its timestamps: the same until that clock jumps, as clocks of
 * machines do when somebody sets them. Both in milliseconds.
 */
const END_OF_TIME = Date.parse('9999-12-31T23:59:59Z');

export class Clock {
  readonly #given: () => number;
  #jumped_ms = 0;
  #moment_ms: number | undefined;

  constructor(given: () => number) {
    this.#given = given;
  }

  readonly steady = (): number => this.#moment_ms ?? this.#given();

  readonly now = (): number => Math.min(Math.max(this.steady() + this.#jumped_ms, 0), END_OF_TIME);

  /** From now on `now` is this much later than it would have been, or earlier; it stays between 1970 and 9999. */
  readonly jump = (ms: number): void => {
    this.#jumped_ms += ms;
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
