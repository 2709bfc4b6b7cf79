/**
 * Two pages at once on their way to the tables: the rows of one are merged while those of the one before still are. What pages
 * prove is written in their order: each transaction has its rows, and then waits for the one before to be committed.
 */
import { type Clock, systemClock } from '../clock.ts';

/** To be awaited in the transaction, between the rows and what they prove. */
export type Turn = () => Promise<void>;

/** The page before may be waiting for a row of this one, which no server can see: then this one lets go of its rows. */
export class GaveWay extends Error {}

const patienceMs = 1000;
const most = 2;

export class Turns {
  readonly #clock: Pick<Clock, 'sleep'>;
  #last: Promise<void> = Promise.resolve();
  #under: Promise<void>[] = [];

  /** Of the machine, whatever time the run has: databases keep no other. */
  constructor(clock: Pick<Clock, 'sleep'> = systemClock) {
    this.#clock = clock;
  }

  /** Resolves when the page is on its way, so that the next one may be asked for; rejects if an earlier one could not be committed. */
  async begin(work: (turn: Turn) => Promise<void>): Promise<void> {
    if (this.#under.length === most) await this.#under.shift();
    const before = this.#last;
    const turn = async () => {
      const stop = new AbortController();
      const late = this.#clock.sleep(patienceMs, stop.signal).then(
        () => true,
        () => false,
      );
      try {
        if (await Promise.race([before.then(() => false), late])) throw new GaveWay('the page before is not committed');
      } finally {
        stop.abort();
      }
    };
    const own = (async () => {
      try {
        await work(turn);
      } catch (error) {
        if (!(error instanceof GaveWay)) throw error;
        await before;
        await work(() => before);
      }
    })();
    // Whoever waits for it is told; nobody may.
    own.catch(() => {});
    this.#last = own;
    this.#under.push(own);
  }

  /** All are committed; rejects if one could not be. */
  async end(): Promise<void> {
    await Promise.all(this.#under.splice(0));
  }

  /** None is on its way any more, however it ended. */
  async settled(): Promise<void> {
    await Promise.allSettled([...this.#under.splice(0), this.#last]);
  }
}
