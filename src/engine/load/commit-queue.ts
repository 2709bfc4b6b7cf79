/**
 * Replies on their way to the tables: two at once, while the next one is asked for. Where their order counts, each has its rows
 * merged, and then waits for its turn: what it proves is written, and it ends, only when the one before has ended well.
 */
import { type Clock, systemClock } from '../../clock.ts';

/** To be awaited in the transaction, between the rows and what they prove. */
export type Turn = () => Promise<void>;

/** The page before may be waiting for a row of this one, which no server can see: whoever waits for long lets go of its rows. */
class GaveWay extends Error {}

/** While so many are on their way, no further one is begun. */
const most = 2;

/** The first one that fails ends the reading. */
export class Commits {
  /**
   * Wait for the page before. Longer than a busy server needs for a page, and shorter than a session may idle in a
   * transaction (pool.ts). The simulation shortens the wait: it runs one transaction at a time, so nobody can end one meanwhile.
   */
  static patienceMs = 4000;
  readonly #clock: Pick<Clock, 'sleep'>;
  readonly #underWay = new Set<Promise<void>>();
  #last: Promise<void> = Promise.resolve();
  #failed: { error: unknown } | undefined;

  /** Of the machine, whatever time the run has: databases keep no other. */
  constructor(clock: Pick<Clock, 'sleep'> = systemClock) {
    this.#clock = clock;
  }

  /** Whether all that was begun has ended. */
  get idle(): boolean {
    return this.#underWay.size === 0;
  }

  /** Waits until there is a place for one more; rejects if an earlier one could not be committed. */
  async room(): Promise<void> {
    while (this.#underWay.size >= most) await Promise.race(this.#underWay);
    this.#check();
  }

  /** `work` is done once more, behind the one before, if it had to give way in its turn. */
  begin(work: (turn: Turn) => Promise<void>): void {
    const before = this.#last;
    const own = work(() => this.#turn(before)).catch(async error => {
      if (!(error instanceof GaveWay)) throw error;
      await before;
      await work(() => before);
    });
    this.#last = own;
    const one: Promise<void> = own
      .catch(error => {
        this.#failed ??= { error };
      })
      .finally(() => this.#underWay.delete(one));
    this.#underWay.add(one);
  }

  /** None is on its way any more; rejects if one could not be committed. */
  async done(): Promise<void> {
    await Promise.all(this.#underWay);
    this.#check();
  }

  #check(): void {
    if (this.#failed) throw this.#failed.error;
  }

  async #turn(before: Promise<void>): Promise<void> {
    const stop = new AbortController();
    const late = this.#clock.sleep(Commits.patienceMs, stop.signal).then(
      () => true,
      () => false,
    );
    try {
      // Also where it has failed: that is no failure of this transaction's own.
      const ended = before.then(
        () => false,
        () => true,
      );
      if (await Promise.race([ended, late])) throw new GaveWay('the page before is not committed');
    } finally {
      stop.abort();
    }
  }
}
