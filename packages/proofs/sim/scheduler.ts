/**
 * One thing at a time, in an order that the seed gives. Whatever a simulated process does to the world outside (a
 * statement, a whole transaction, a request, a sleep, a word to the queue) is an effect, and waits here for its turn. When
 * everybody waits, one effect is picked by chance and really carried out; then everybody runs on until all wait again.
 * Time moves only when nothing but sleeps is left. So the same seed gives the same history, effect for effect.
 */
import { setImmediate as everybodyWaits } from 'node:timers/promises';
import type { Rng } from '../../sandbox/src/random.ts';

/** Whose effects they are: those of a process end with it, those of the world outside do not. */
export interface Actor {
  readonly name: string;
  dead: boolean;
  /** Stopped, and counted as alive: nothing of it happens before. */
  stoppedUntilMs: number;
}

export const actor = (name: string): Actor => ({ name, dead: false, stoppedUntilMs: 0 });

interface Effect {
  readonly by: Actor;
  readonly label: string;
  /** Answers how it went, in a word, for the trace. */
  readonly act: () => Promise<string | undefined> | string | undefined;
  /** Not before: it takes its time. */
  readonly fromMs: number;
}

interface Sleep {
  readonly by: Actor;
  readonly untilMs: number;
  readonly n: number;
  readonly wake: () => void;
}

/** What may happen at the border of an effect: the process that it is of is killed before it, or after it. */
export type Border = (step: number, by: Actor, when: 'before' | 'after') => Promise<boolean>;

export class Over extends Error {}

export class Scheduler {
  nowMs: number;
  /** Effects that were carried out. */
  steps = 0;
  /** Of the trace, so that two of them can be compared without being kept. */
  hash = 0x811c9dc5;
  readonly lines: string[] | undefined;
  /** True if the process was killed there. */
  border: Border = async () => false;
  /** Called before each effect: the world moves on meanwhile. */
  meanwhile: () => void = () => {};
  /** Called after each effect that was carried out. */
  afterwards: (label: string) => Promise<void> = async () => {};
  /** Whether nothing more is to be learnt: then it throws Over. */
  isOver = (): boolean => false;
  readonly #beganMs: number;
  readonly #rng: Rng;
  #waiting: Effect[] = [];
  #sleeping: Sleep[] = [];
  #n = 0;

  constructor(options: { nowMs: number; rng: Rng; traced: boolean }) {
    this.nowMs = options.nowMs;
    this.#beganMs = options.nowMs;
    this.#rng = options.rng;
    this.lines = options.traced ? [] : undefined;
  }

  note(line: string): void {
    const whole = `${((this.nowMs - this.#beganMs) / 1000).toFixed(3)} ${line}`;
    for (let i = 0; i < whole.length; i++) this.hash = Math.imul(this.hash ^ whole.charCodeAt(i), 0x01000193) >>> 0;
    this.lines?.push(whole);
  }

  /** Resolves with what `act` gives, once it was its turn and was carried out. */
  effect<T>(by: Actor, label: string, act: () => Promise<T> | T, lateMs = 0): Promise<T> {
    return new Promise((resolve, reject) => {
      this.enqueue(by, label, lateMs, async () => {
        try {
          const result = await act();
          return () => resolve(result);
        } catch (error) {
          return () => reject(error);
        }
      });
    });
  }

  /** The same for what answers its process itself, as a transaction does when it begins: `act` resolves when it is over. */
  enqueue(by: Actor, label: string, lateMs: number, act: () => Promise<(() => void) | undefined>): void {
    if (by.dead) return;
    this.#waiting.push({
      by,
      label,
      fromMs: this.nowMs + lateMs,
      act: async () => {
        const answer = await act();
        if (answer === undefined || by.dead) return undefined;
        if (await this.border(this.steps, by, 'after')) return 'and dies';
        answer();
        return undefined;
      },
    });
  }

  /** Something of the world outside, at a time. */
  at(ms: number, by: Actor, label: string, act: () => unknown): void {
    this.#sleeping.push({
      by,
      untilMs: Math.max(ms, this.nowMs),
      n: this.#n++,
      wake: () => {
        this.note(label);
        act();
      },
    });
  }

  sleep(by: Actor, ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const wake = () => {
        signal?.removeEventListener('abort', stop);
        resolve();
      };
      const sleep = { by, untilMs: this.nowMs + Math.max(0, ms), n: this.#n++, wake };
      const stop = () => {
        this.#sleeping = this.#sleeping.filter(one => one !== sleep);
        if (!by.dead) reject(signal!.reason);
      };
      signal?.addEventListener('abort', stop, { once: true });
      this.#sleeping.push(sleep);
    });
  }

  /** Everything that it was about to do never happens. */
  kill(by: Actor): void {
    by.dead = true;
    this.#waiting = this.#waiting.filter(one => one.by !== by);
    this.#sleeping = this.#sleeping.filter(one => one.by !== by);
  }

  /** Nobody does anything meanwhile. */
  skip(ms: number): void {
    this.nowMs += ms;
    this.note(`— ${Math.round(ms / 1000)} s later —`);
  }

  /** Until it is so; throws after so many steps, or where nobody would ever do anything again. */
  async run(isSo: () => boolean, most = 20_000): Promise<void> {
    for (const last = this.steps + most; ; ) {
      await everybodyWaits();
      if (this.isOver()) throw new Over();
      if (isSo()) return;
      if (this.steps > last) throw new Error(`no end after ${most} effects`);
      const ready = this.#waiting.filter(one => one.fromMs <= this.nowMs && one.by.stoppedUntilMs <= this.nowMs);
      if (ready.length > 0) await this.#carryOut(ready[Math.floor(this.#rng() * ready.length)]!);
      else this.#passTime();
    }
  }

  async #carryOut(effect: Effect): Promise<void> {
    this.meanwhile();
    this.#waiting.splice(this.#waiting.indexOf(effect), 1);
    this.steps++;
    const { by, label } = effect;
    if (await this.border(this.steps, by, 'before')) return this.note(`${by.name} dies before: ${label}`);
    const how = await effect.act();
    this.note(`${by.name} ${label}${how === undefined ? '' : ` ${how}`}`);
    await this.afterwards(label);
  }

  /** To the next moment at which somebody may go on; of those that wake up then, one does. */
  #passTime(): void {
    const times = this.#waiting.map(one => Math.max(one.fromMs, one.by.stoppedUntilMs));
    let next: Sleep | undefined;
    for (const one of this.#sleeping) if (next === undefined || isBefore(one, next)) next = one;
    const wakesMs = next === undefined ? Number.POSITIVE_INFINITY : wakesAt(next);
    const ms = Math.min(wakesMs, ...times);
    if (ms === Number.POSITIVE_INFINITY) throw new Error('everybody waits, and for nothing');
    this.nowMs = Math.max(this.nowMs, ms);
    if (next === undefined || wakesMs > ms) return;
    this.#sleeping.splice(this.#sleeping.indexOf(next), 1);
    next.wake();
  }
}

const wakesAt = ({ untilMs, by }: Sleep) => Math.max(untilMs, by.stoppedUntilMs);
const isBefore = (a: Sleep, b: Sleep) => wakesAt(a) < wakesAt(b) || (wakesAt(a) === wakesAt(b) && a.n < b.n);
