/** What happens at which time, in a seed or in a script. */
import { between, pick, type Rng } from '../../sandbox/src/random.ts';
import type { Crew } from './crew.ts';
import { type Happens, happenings } from './happenings.ts';
import type { Plan } from './plan.ts';
import type { Queue } from './queue.ts';
import { type Asked, namesOf, type Runs } from './runs.ts';
import type { Scheduler } from './scheduler.ts';

type Scripted = Asked | keyof typeof happenings | 'a person is erased' | 'fields are left out' | 'the catalog changes';
export type Script = readonly (readonly [seconds: number, what: Scripted])[];
export type Event = [atMs: number, label: string, act: () => void];

export interface Stage {
  readonly plan: Plan;
  readonly scheduler: Scheduler;
  readonly rng: Rng;
  /** Of what is beside the help desk. */
  readonly beside: Rng;
  readonly runs: Runs;
  readonly crew: Crew;
  readonly queue: Queue;
  readonly happens: Happens;
  readonly erase: () => void;
  readonly leaveOut: () => void;
  readonly changeCatalog: () => void;
  readonly exportLake: () => void;
  readonly jumpWithin: (ms: number) => void;
  readonly setClock: () => void;
  readonly useCredits: () => void;
  readonly takeAway: (forMs: number) => void;
}

/** What is asked for, and what befalls those who work on it. */
export function eventsOf(stage: Stage, endMs: number): Event[] {
  const { plan, scheduler, rng, beside, runs } = stage;
  const time = () => between(rng, scheduler.nowMs, endMs);
  const events: Event[] = [[scheduler.nowMs, 'a sync', () => runs.ask('sync', namesOf(plan))]];
  for (let n = between(rng, 0, 3); n > 0; n--) {
    const kind = pick(rng, ['sync', 'fresh', 'nightly', 'backfill', 'again', 'hydrate', 'sweep', 'night'] as const);
    events.push([time(), `asked: ${kind}`, () => runs.askFor(kind)]);
  }
  for (let atMs = scheduler.nowMs + 60_000; atMs < endMs; atMs += 60_000)
    events.push([atMs, 'every minute', () => runs.ask('fresh', ['customers', 'tickets'])]);
  for (let n = plan.events; n > 0; n--) events.push([time(), ...mishap(stage)]);
  for (let n = plan.jumpMs > 0 ? between(rng, 1, 4) : 0; n > 0; n--) {
    const forward = between(rng, 0, plan.jumpMs);
    events.push([time(), 'the clock of the source jumps', () => stage.jumpWithin(forward)]);
  }
  for (let n = plan.foreign > 0 ? between(rng, 1, 12) : 0; n > 0; n--)
    events.push([time(), 'others use credits', () => stage.useCredits()]);
  // Early ones are likelier: a seed may have done its effects long before its time is over.
  const someTime = () => scheduler.nowMs + Math.floor(beside() ** 3 * (endMs - scheduler.nowMs));
  for (let n = plan.erasures; n > 0; n--) events.push([someTime(), 'a person is erased', () => stage.erase()]);
  if (plan.fields.length > 0 && plan.fieldsComeLate)
    events.push([someTime(), 'fields are left out', () => stage.leaveOut()]);
  for (let n = plan.exports; n > 0; n--) events.push([someTime(), 'an export to the lake', () => stage.exportLake()]);
  for (let n = plan.volumes > 0 ? between(beside, 2, 5) : 0; n > 0; n--) {
    const kind = pick(beside, ['catalog', 'catalog', 'catalog again'] as const);
    events.push([someTime(), `asked: ${kind}`, () => runs.askFor(kind)]);
  }
  if (plan.clocksMs > 0)
    for (let n = between(rng, 1, 4); n > 0; n--)
      events.push([time(), 'a clock of ours is set', () => stage.setClock()]);
  return events;
}

/** What a script says, instead of what the seed says. */
export function scripted(stage: Stage, script: Script): Event[] {
  const special: Partial<Record<Scripted, () => void>> = {
    'a person is erased': stage.erase,
    'fields are left out': stage.leaveOut,
    'the catalog changes': stage.changeCatalog,
  };
  return script.map(([seconds, what]) => [
    stage.scheduler.nowMs + seconds * 1000,
    what,
    () => {
      if (special[what] !== undefined) special[what]();
      else if (what in happenings) happenings[what as keyof typeof happenings](stage.happens);
      else stage.runs.askFor(what as Asked);
    },
  ]);
}

function mishap({ rng, crew, queue, takeAway }: Stage): [label: string, act: () => void] {
  const one = () => pick(rng, crew.living());
  const forMs = pick(rng, [3000, 20_000, 60_000]);
  return pick(rng, [
    ['one is stopped', () => one().stop(forMs)],
    ['one is killed', () => crew.kill(one())],
    ['one leaves', () => crew.leave(one())],
    ['one comes', () => void crew.start()],
    ['the queue is flushed', () => queue.flush()],
    ['a job comes twice', () => queue.deliverAgain()],
    ['a job comes twice', () => queue.deliverAgain()],
    ['the queue is away', () => takeAway(forMs)],
  ] as const) as [string, () => void];
}
