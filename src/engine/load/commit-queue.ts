/**
 * Commits replies in order, many in one transaction, while the next requests are in flight. The rows of all
 * replies are written, and then what they prove together.
 *
 * A crash loses what is not committed: at most ten replies that are being committed, ten that wait, and the one in
 * flight. They are paid for once more.
 */
import type { Clock } from '../../clock.ts';
import { type Care, commitTogether, type Store, withCare } from '../commit/commit.ts';
import { summed } from '../commit/sums.ts';
import type { Context } from '../context.ts';
import { type Client, isOfRecord } from '../database/pool.ts';

export interface Entry {
  /** Writes the rows and what they prove. It may run several times, so it must keep nothing outside the transaction. */
  readonly write: (client: Client, care: Care) => Promise<void>;
  /** Does the same without a transaction, for a reply that brings nothing but its proof. */
  readonly alone?: (() => Promise<void>) | undefined;
  /** Runs after the commit. An error ends the reading. */
  readonly committed?: () => void;
  /** PostgreSQL refuses the reply even alone and cleaned. Without this, the error ends the reading. */
  readonly refused?: (error: Error) => Promise<void>;
  /** Length of the reply in characters. */
  readonly size: number;
}

/** The most replies in one transaction. */
export const mostTogether = 10;
/** A crash costs these replies at most: those that are committed, those that wait, and the one that is asked for. */
export const inFlight = 2 * mostTogether + 1;
/** Larger replies go alone: the rows and their rejects are in memory until the commit. */
const mostSize = 2_000_000;

/** A value that PostgreSQL refuses takes the batch apart, until it is alone. */
async function commitAll(store: Store, entries: readonly Entry[]): Promise<void> {
  if (entries.length === 1) return commitNow(store, entries[0]!);
  try {
    await commitTogether(store, client =>
      summed(client, async () => {
        for (const entry of entries) await entry.write(client, 'as it came');
      }),
    );
  } catch (error) {
    if (!isOfRecord(error)) throw error;
    for (const entry of entries) await commitNow(store, entry);
    return;
  }
  for (const { committed } of entries) committed?.();
}

/** Commits one reply, in a transaction of its own. */
export async function commitNow(store: Store, { write, alone, committed, refused }: Entry): Promise<void> {
  try {
    await (alone?.() ?? withCare(store, write));
  } catch (error) {
    if (!refused || !isOfRecord(error)) throw error;
    return refused(error);
  }
  committed?.();
}

export class Commits {
  readonly #store: Store & { clock: Pick<Clock, 'sleep'> };
  readonly #withinMs: number;
  readonly #waiting: Entry[] = [];
  #timer: AbortController | undefined;
  #committing: Promise<void> | undefined;
  #failed: { error: unknown } | undefined;

  /** `withinMs`: how long a reply may wait for others. With 0, those that arrive during a commit wait for it. */
  constructor(store: Store & Pick<Context, 'clock'>, withinMs = 0) {
    this.#store = store;
    this.#withinMs = withinMs;
  }

  /** Waits until few replies wait. Rejects if an earlier reply could not be committed. */
  async room(): Promise<void> {
    while (this.#committing && (this.#waiting.length >= mostTogether || this.#size() >= mostSize))
      await this.#committing;
    this.#check();
  }

  /** Adds a reply behind those that wait. `now`: all of them are committed at once. */
  add(entry: Entry, now = this.#withinMs === 0): void {
    this.#waiting.push(entry);
    if (now || this.#waiting.length >= mostTogether || this.#size() >= mostSize) this.#begin();
    else if (this.#timer === undefined) this.#wait();
  }

  /** Commits all replies that wait. Rejects if one could not be committed; none is committed after it. */
  async done(): Promise<void> {
    this.#begin();
    while (this.#committing) await this.#committing;
    this.#check();
  }

  #begin(): void {
    this.#timer?.abort();
    this.#timer = undefined;
    if (this.#waiting.length > 0 && !this.#failed) this.#committing ??= this.#commit();
  }

  async #commit(): Promise<void> {
    try {
      while (this.#waiting.length > 0 && !this.#failed) await commitAll(this.#store, this.#take());
    } catch (error) {
      this.#failed = { error };
    } finally {
      // In the same step as the last look at what waits: a reply that comes later begins a commit of its own.
      this.#committing = undefined;
    }
  }

  #take(): Entry[] {
    let [n, size] = [0, 0];
    while (n < this.#waiting.length && n < mostTogether && (n === 0 || size < mostSize))
      size += this.#waiting[n++]!.size;
    return this.#waiting.splice(0, n);
  }

  #wait(): void {
    const timer = new AbortController();
    this.#timer = timer;
    this.#store.clock.sleep(this.#withinMs, timer.signal).then(
      () => this.#begin(),
      () => {},
    );
  }

  #size(): number {
    return this.#waiting.reduce((sum, { size }) => sum + size, 0);
  }

  #check(): void {
    if (this.#failed) throw this.#failed.error;
  }
}
