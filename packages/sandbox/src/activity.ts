/**
 * A world that changes by itself, without timers: whoever is about to look at it lets it catch up, and what was due
 * since the last time happens then, each change at its own moment of the steady clock. So real time and a virtual clock
 * are the same to it: a clock that is moved on by an hour gives an hour of changes, spread over that hour, and the same
 * seed the same changes however often somebody looked.
 */
import type { Clock } from './clock.ts';
import { makeRng, type Rng } from './random.ts';
import { busyness, MEAN_BUSYNESS, nextHour, type Rhythm } from './rhythm.ts';

/** One thing that happened, and to what. */
export interface Change {
  kind: string;
  /** Of the ticket, customer, label, inbox, volume or shelf that it happened to. */
  id: string;
}

export interface LivelyWorld {
  readonly clock: Pick<Clock, 'steady' | 'at'>;
  /** One random believable change. */
  mutate(rng: Rng): unknown;
  /** Lets happen what is due by the clock alone. */
  settle?(): unknown;
}

const MINUTE = 60_000;
/** Some milliseconds of work. */
const SLICE = 100;

export class Activity {
  readonly #world: LivelyWorld;
  readonly #perMinute: number;
  readonly #rhythm: Rhythm;
  readonly #rng: Rng;
  /** Since when changes come as often as they do now, how many have come since, and what part of one was left over. */
  #since: number;
  #count = 0;
  #left = 0;

  /** Begins at once. `perMinute`: on average over a week if it has a rhythm; 0 for a world that rests. */
  constructor(world: LivelyWorld, perMinute: number, seed: number, rhythm: Rhythm = 'even') {
    this.#world = world;
    this.#perMinute = perMinute;
    this.#rhythm = rhythm;
    this.#rng = makeRng(seed + 1);
    this.#since = world.clock.steady();
  }

  /** Lets happen what is due by now, and returns how many changes that were. */
  catchUp(): number {
    const slices = this.catchingUp();
    for (;;) {
      const { done, value } = slices.next();
      if (done) return value;
    }
  }

  /** The same with pauses, in which anybody else may let it catch up too. */
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

  /** When the next change is due. */
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
