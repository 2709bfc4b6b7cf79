/**
 * A queue as the product needs it, within the simulation: it delivers jobs at least once. A job of a process that died is
 * delivered again after a while, one of a process that is stopped too, and any may be for no reason at all.
 */
import { type Delivery, type JobQueue, Moved, type Taking } from '../../../src/engine/queue/job-queue.ts';
import { pick, type Rng } from '../../sandbox/src/random.ts';
import { type Actor, actor, type Scheduler } from './scheduler.ts';

interface Entry {
  readonly id: string;
  readonly name: string;
  readonly data: object;
  state: 'waiting' | 'active' | 'delayed' | 'failed';
  /** Raised with each delivery. */
  deliveries: number;
}

interface Consumer {
  readonly by: Actor;
  readonly process: (job: Delivery, token: string) => Promise<void>;
  atWork: number;
  closed: boolean;
}

const places = 8;
/** A job whose worker says nothing for so long is delivered again. */
const stalledMs = 7000;
const broker = actor('queue');

export class Queue {
  /** Whether the queue is away just now, for whoever speaks to it. */
  isAway: () => boolean = () => false;
  readonly #scheduler: Scheduler;
  readonly #rng: Rng;
  readonly #jobs = new Map<string, Entry>();
  #consumers: Consumer[] = [];

  constructor(scheduler: Scheduler, rng: Rng) {
    this.#scheduler = scheduler;
    this.#rng = rng;
  }

  /** As a process sees it. */
  of(by: Actor): JobQueue {
    return {
      add: (name, id, data) => this.#ask(by, `queue: add ${id}`, () => this.#add(name, id, data)),
      work: process => this.#work(by, process),
      [Symbol.asyncDispose]: async () => {},
    };
  }

  /** Everything in it is gone. */
  flush(): void {
    this.#jobs.clear();
  }

  /** A job that is at work is delivered to somebody else as well. */
  deliverAgain(): void {
    const active = [...this.#jobs.values()].filter(({ state }) => state === 'active');
    if (active.length > 0) this.#wait(pick(this.#rng, active));
  }

  #ask(by: Actor, label: string, act: () => void): Promise<void> {
    return this.#scheduler.effect(by, label, () => {
      if (this.isAway()) throw Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
      act();
    });
  }

  #add(name: string, id: string, data: object): void {
    const there = this.#jobs.get(id);
    if (there !== undefined && there.state !== 'failed') return;
    const entry: Entry = { id, name, data, state: 'waiting', deliveries: there?.deliveries ?? 0 };
    this.#jobs.set(id, entry);
    this.#wait(entry);
  }

  #work(by: Actor, process: Consumer['process']): Taking {
    const consumer: Consumer = { by, process, atWork: 0, closed: false };
    this.#consumers.push(consumer);
    for (const entry of this.#jobs.values()) if (entry.state === 'waiting') this.#offer(entry);
    return {
      close: async atWork => {
        consumer.closed = true;
        await atWork;
      },
    };
  }

  #wait(entry: Entry): void {
    entry.state = 'waiting';
    this.#offer(entry);
  }

  /** Somebody who has a place takes it, when it is his turn. */
  #offer(entry: Entry): void {
    this.#scheduler
      .effect(broker, `offers ${entry.id}`, () => {
        this.#consumers = this.#consumers.filter(({ by, closed }) => !by.dead && !closed);
        const free = this.#consumers.filter(({ atWork }) => atWork < places);
        const taken = this.#jobs.get(entry.id) === entry && entry.state === 'waiting';
        if (taken && free.length > 0) this.#deliver(entry, pick(this.#rng, free));
      })
      .catch(() => {});
  }

  #deliver(entry: Entry, to: Consumer): void {
    const token = String(++entry.deliveries);
    entry.state = 'active';
    to.atWork++;
    this.#scheduler.note(`queue: ${entry.id} to ${to.by.name}`);
    const isMine = () => this.#jobs.get(entry.id) === entry && String(entry.deliveries) === token;
    const move = (label: string, act: () => void) => (_?: unknown) =>
      this.#ask(to.by, `queue: ${label} ${entry.id}`, () => {
        if (!isMine()) throw new Error(`Missing lock for job ${entry.id}`);
        act();
      });
    const job: Delivery = {
      id: entry.id,
      name: entry.name,
      data: entry.data,
      moveToWait: move('put back', () => {
        entry.state = 'delayed';
        this.#later(entry, 0);
      }),
      moveToDelayed: (untilMs: number) =>
        move('delay', () => {
          entry.state = 'delayed';
          this.#later(entry, Math.min(Math.max(1000, untilMs - this.#scheduler.nowMs), 1000));
        })(),
    };
    const ended = (how: 'done' | 'failed' | 'moved') => {
      to.atWork--;
      if (!isMine() || how === 'moved') return;
      if (how === 'done') this.#jobs.delete(entry.id);
      else entry.state = 'failed';
      for (const other of this.#jobs.values()) if (other.state === 'waiting') this.#offer(other);
    };
    to.process(job, token).then(
      () => ended('done'),
      error => ended(error instanceof Moved ? 'moved' : 'failed'),
    );
    this.#watch(entry, to, token);
  }

  /** Looks now and then whether whoever has it is still there. */
  #watch(entry: Entry, to: Consumer, token: string): void {
    const mine = () =>
      this.#jobs.get(entry.id) === entry && String(entry.deliveries) === token && entry.state === 'active';
    const look = () => {
      if (!mine()) return;
      if (to.by.dead || to.by.stoppedUntilMs > this.#scheduler.nowMs) return this.#wait(entry);
      this.#scheduler.at(this.#scheduler.nowMs + stalledMs, broker, 'looks', look);
    };
    this.#scheduler.at(this.#scheduler.nowMs + stalledMs, broker, 'looks', look);
  }

  #later(entry: Entry, ms: number): void {
    this.#scheduler.at(this.#scheduler.nowMs + ms, broker, `due again: ${entry.id}`, () => {
      if (this.#jobs.get(entry.id) === entry && entry.state === 'delayed') this.#wait(entry);
    });
  }
}
