/**
 * Commits replies in order, two at a time, while the next request is in flight. Each reply merges its rows first. Then
 * it waits for the reply before, writes what the rows prove, and commits only if the reply before committed.
 */
import { type Clock, systemClock } from '../../clock.ts';

/** The transaction awaits this between the rows and their proof. */
export type Turn = () => Promise<void>;

/**
 * The page before may be waiting for a lock that this page holds. No server detects that, so a page that waits long
 * rolls back.
 */
class GaveWay extends Error {}

/** No further reply starts while this many are being committed. */
const most = 2;

/** The first failure ends the reading. */
export class Commits {
  /**
   * Longest wait for the page before, in ms: longer than a busy server needs for a page, shorter than the idle timeout
   * of a session (pool.ts). The simulation shortens it, because it runs one transaction at a time.
   */
  static patienceMs = 4000;
  readonly #clock: Pick<Clock, 'sleep'>;
  readonly #underWay = new Set<Promise<void>>();
  #last: Promise<void> = Promise.resolve();
  #failed: { error: unknown } | undefined;

  /** The clock of the machine, also in a simulated run: database timeouts use real time. */
  constructor(clock: Pick<Clock, 'sleep'> = systemClock) {
    this.#clock = clock;
  }

  /** Whether all replies have ended. */
  get idle(): boolean {
    return this.#underWay.size === 0;
  }

  /** Waits for a free place. Rejects if an earlier reply could not be committed. */
  async room(): Promise<void> {
    while (this.#underWay.size >= most) await Promise.race(this.#underWay);
    this.#check();
  }

  /** Runs `work`, and once more behind the reply before if it had to roll back. */
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

  /** Waits until all replies have ended. Rejects if one could not be committed. */
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
      // A failure of the reply before is not a failure of this transaction.
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
