/**
 * Random changes of a world over time, without timers. Readers call `catchUp` first: it runs all overdue changes, each at
 * its own moment of the steady clock. Real and virtual clocks therefore behave alike: a clock that moves on by an hour
 * yields an hour of changes, spread over that hour. The same seed gives the same changes, however often readers come.
 */
import type { Clock } from './clock.ts';
import { makeRng, type Rng } from './random.ts';
import { busyness, MEAN_BUSYNESS, nextHour, type Rhythm } from './rhythm.ts';

/** One change of one record. */
export interface Change {
  kind: string;
  /** Id of the changed ticket, customer, label, inbox, volume or shelf. */
  id: string;
}

export interface LivelyWorld {
  readonly clock: Pick<Clock, 'steady' | 'at'>;
  /** Makes one random change. */
  mutate(rng: Rng): unknown;
  /** Runs overdue deadlines, such as the end of a snooze. */
  settle?(): unknown;
}

const MINUTE = 60_000;
/** Changes per slice: a few milliseconds of work. */
const SLICE = 100;

export class Activity {
  readonly #world: LivelyWorld;
  readonly #perMinute: number;
  readonly #rhythm: Rhythm;
  readonly #rng: Rng;
  /** Start of the current rate in steady milliseconds, changes since then, and the fraction of a change left over before. */
  #since: number;
  #count = 0;
  #left = 0;

  /** Starts now. `perMinute`: changes per minute, with a rhythm the weekly average; 0 for none. */
  constructor(world: LivelyWorld, perMinute: number, seed: number, rhythm: Rhythm = 'even') {
    this.#world = world;
    this.#perMinute = perMinute;
    this.#rhythm = rhythm;
    this.#rng = makeRng(seed + 1);
    this.#since = world.clock.steady();
  }

  /** Runs all overdue changes and returns their number. */
  catchUp(): number {
    const slices = this.catchingUp();
    for (;;) {
      const { done, value } = slices.next();
      if (done) return value;
    }
  }

  /** As `catchUp`, in slices; another caller may catch up between two slices. */
  *catchingUp(): Generator<void, number> {
    const now = this.#world.clock.steady();
    let happened = 0;
    for (let due = this.#next(); due <= now; due = this.#next()) {
      this.#world.clock.at(Math.floor(due), () => this.#world.mutate(this.#rng));
      this.#count++;
      if (++happened % SLICE === 0) yield;
    }
    this.#world.settle?.();
    return happened;
  }

  /** Time of the next change, in milliseconds of the steady clock. */
  #next(): number {
    if (this.#perMinute <= 0) return Number.POSITIVE_INFINITY;
    if (this.#rhythm === 'even') return this.#since + ((this.#count + 1) * MINUTE) / this.#perMinute;
    for (;;) {
      const perMs = ((this.#perMinute / MINUTE) * busyness(this.#since)) / MEAN_BUSYNESS;
      const due = this.#since + (this.#count + 1 - this.#left) / perMs;
      const end = nextHour(this.#since);
      if (due <= end) return due;
      this.#left += (end - this.#since) * perMs - this.#count;
      this.#since = end;
      this.#count = 0;
    }
  }
}
