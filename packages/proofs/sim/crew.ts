/** The processes of a simulation: they come, work, leave, and are killed, and another one comes for each that is gone. */
import { between, type Rng } from '../../sandbox/src/random.ts';
import { type Around, Process } from './process.ts';
import type { Actor } from './scheduler.ts';

export interface AroundCrew {
  readonly around: Around;
  /** Whoever starts and kills them. */
  readonly director: Actor;
  readonly chance: Rng;
  readonly isWild: () => boolean;
}

export class Crew {
  /** Those that live, and some that are dead. */
  processes: readonly Process[] = [];
  deaths = 0;
  readonly #all: Process[] = [];
  readonly #at: AroundCrew;
  #named = 0;

  constructor(at: AroundCrew) {
    this.#at = at;
  }

  nameNext = (letter: string): string => `${letter}${++this.#named}`;

  start(): Process {
    const { around, isWild } = this.#at;
    const process = new Process(this.nameNext('P'), around);
    if (isWild() && around.plan.clocksMs > 0) process.clockMs = this.someMs();
    this.processes = [...this.processes.filter(({ by }) => !by.dead), process];
    this.#all.push(process);
    process.start().catch(around.failed);
    return process;
  }

  /** How far a clock is from the true time. */
  someMs(): number {
    const { chance, around } = this.#at;
    return between(chance, -around.plan.clocksMs, around.plan.clocksMs);
  }

  living(): Process[] {
    const living = this.processes.filter(({ by }) => !by.dead);
    return living.length > 0 ? living : [this.start()];
  }

  async die(process: Process): Promise<void> {
    const { chance, around, director } = this.#at;
    const { scheduler } = around;
    this.deaths++;
    scheduler.note(`${process.by.name} dies`);
    await process.kill();
    const soonMs = scheduler.nowMs + between(chance, 100, 9000);
    scheduler.at(soonMs, director, 'another one begins', () => this.start());
  }

  kill(process: Process): void {
    const { around, director } = this.#at;
    around.scheduler.effect(director, `kills ${process.by.name}`, () => this.die(process)).catch(around.failed);
  }

  leave(process: Process): void {
    const { around, director } = this.#at;
    const { scheduler } = around;
    process.leave().catch(around.failed);
    scheduler.at(scheduler.nowMs + 2000, director, 'another one begins', () => this.start());
  }

  async killAll(): Promise<void> {
    for (const process of this.processes) await process.kill();
  }

  /** After the seed. */
  forget(): void {
    for (const process of this.#all) process.forget();
  }
}
