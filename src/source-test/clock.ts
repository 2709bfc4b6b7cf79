/**
 * The clock of a test: it moves with each request, and jumps to the end of a pause when nobody works any more. So hours pass in a
 * moment, and slow machines see the same times as fast ones.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../clock.ts';

interface Sleeper {
  readonly wakeMs: number;
  readonly wake: () => void;
}

/** Nobody works if nothing has begun or ended in so many looks, a millisecond apart. */
const quietLooks = 3;

export class TestClock implements Clock {
  nowMs: number;
  /** Grows with all that begins or ends. */
  #events = 0;
  #atWork = 0;
  #sleepers: Sleeper[] = [];
  #watching = false;

  constructor(nowMs: number) {
    this.nowMs = nowMs;
  }

  now = (): number => this.nowMs;
  monotonic = (): number => this.nowMs;

  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    let sleeper: Sleeper;
    const over = new Promise<void>(wake => {
      sleeper = { wakeMs: this.nowMs + ms, wake };
      signal?.addEventListener('abort', wake as () => void, { once: true });
    });
    this.#sleepers.push(sleeper!);
    if (!this.#watching) void this.#watch();
    await over;
    this.#sleepers = this.#sleepers.filter(one => one !== sleeper);
    signal?.throwIfAborted();
  }

  move(ms: number): void {
    this.nowMs += ms;
    for (const { wakeMs, wake } of this.#sleepers) if (wakeMs <= this.nowMs) wake();
  }

  /** Work that has to end before a pause does. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#events++;
    this.#atWork++;
    try {
      return await work();
    } finally {
      this.#events++;
      this.#atWork--;
    }
  }

  async #watch(): Promise<void> {
    this.#watching = true;
    for (let [quiet, events] = [0, this.#events]; this.#sleepers.length > 0; ) {
      await delay(1);
      quiet = this.#atWork === 0 && events === this.#events ? quiet + 1 : 0;
      events = this.#events;
      if (quiet < quietLooks || this.#sleepers.length === 0) continue;
      this.move(Math.max(0, Math.min(...this.#sleepers.map(({ wakeMs }) => wakeMs)) - this.nowMs));
      quiet = 0;
    }
    this.#watching = false;
  }
}
