/** One play: a world of a seed, what happens to it while the engine reads it, and what the mirror has wrong in the end. */
import { lookbackSecondsOf, serviceOf } from '../sources/service/service.ts';
import type { Source, Stream } from '../sources/source.ts';
import type { AllTold, Behaviour } from './behaviour.ts';
import { TestClock } from './clock.ts';
import { Gate } from './gate.ts';
import { absent, type Finding, judge } from './judge.ts';
import type { Answer } from './lists.ts';
import { type Meaning, meaningsOf } from './meaning.ts';
import { type Ground, Mirror } from './mirror.ts';
import { type Rng, rngOf } from './rng.ts';
import type { Fault, Served } from './server.ts';
import { type Happening, type Item, secondMs, shownOf, World } from './world.ts';

/** Parts of a play, in their order. In the first ones the world moves. */
export const phases = ['first', 'second', 'third', 'still', 'sweep', 'last'] as const;
export type Phase = (typeof phases)[number];

/** Something that happens before a request of its stream in a phase; `at` 0: before the phase. */
export interface Event {
  readonly phase: Phase;
  readonly at: number;
  readonly stream: string;
  readonly what: Omit<Happening, 'stream'> | Fault;
}

export interface Script {
  readonly seed: number;
  readonly behaviour: Behaviour;
  /** Records of each stream at the beginning. */
  readonly records: number;
  /** How many change at once: more than a page shows. */
  readonly tie: number;
  readonly phases: readonly Phase[];
  readonly events: readonly Event[];
  readonly streams: readonly string[];
}

export interface Line {
  readonly ms: number;
  readonly who: 'service' | 'mirror' | 'reader';
  readonly says: string;
}

export interface Played {
  readonly findings: readonly Finding[];
  readonly story: readonly Line[];
  readonly requests: number;
  readonly gate: Pick<Gate, 'refusals' | 'idleMs'>;
}

/** What a play needs: a source whose pages are small, and where it is served and mirrored. */
export interface Stage {
  readonly source: Source;
  readonly ground: Ground;
  readonly served: Served;
  readonly told: AllTold;
  /** Ends a play at once. */
  readonly signal: AbortSignal | undefined;
  /** A name for the account of the next play. */
  nextAccount(): string;
}

const beginMs = Date.UTC(2026, 2, 2, 10);
const requestMs = 350;
const quickMs = 20;
const betweenMs = 45 * secondMs;
const dayMs = 86_400_000;

export async function play(stage: Stage, script: Script): Promise<Played> {
  const playing = new Playing(stage, script);
  await playing.run();
  return playing;
}

class Playing implements Played {
  readonly findings: Finding[] = [];
  readonly story: Line[] = [];
  readonly gate: Gate;
  requests = 0;
  readonly #stage: Stage;
  readonly #script: Script;
  readonly #meanings: readonly Meaning[];
  readonly #lookbackMs: number;
  readonly #clock = new TestClock(beginMs);
  readonly #rng: Rng;
  readonly #world: World;
  readonly #mirror: Mirror;
  readonly #left: Set<Event>;
  #phase: Phase = 'first';
  /** The last sweep has ended, so all deletions are known. */
  #isSwept = false;
  /** Requests of each stream in this phase. */
  #counts = new Map<string, number>();

  constructor(stage: Stage, script: Script) {
    const { source, ground, served, told, signal } = stage;
    const service = serviceOf(source)!;
    this.#stage = stage;
    this.#script = script;
    this.#meanings = meaningsOf(service).filter(({ name }) => script.streams.includes(name));
    this.#lookbackMs = lookbackSecondsOf(service) * secondMs;
    this.#rng = rngOf(script.seed);
    this.#world = new World(this.#meanings, script.behaviour, told, beginMs);
    this.#mirror = new Mirror(ground, source, this.#clock, { url: served.url, account: stage.nextAccount(), signal });
    this.gate = new Gate(service.limits, this.#mirror.connection.dialect, script.behaviour, beginMs);
    this.#left = new Set(script.events);
  }

  get #isStill(): boolean {
    return this.#phase === 'still' || this.#phase === 'last';
  }

  async run(): Promise<void> {
    const { records, tie, phases } = this.#script;
    const { served } = this.#stage;
    for (const { name, stream } of this.#meanings)
      if (stream.kind !== 'details' && !isFedByDeletions(this.#meanings, name)) this.#world.fill(name, records, tie);
    await this.#mirror.open(this.#lookbackMs);
    const [world, meanings] = [this.#world, this.#meanings];
    const refused = (path: string) => this.#say('reader', `GET ${path} is refused at the limit`);
    const arrives = (stream: string) => this.#arrives(stream);
    served.play = { world, meanings, gate: this.gate, arrives, answered: this.#answered, refused };
    for (const phase of phases) {
      this.#phase = phase;
      await this.#act();
      if (this.findings.length > 0) break;
    }
    served.play = undefined;
  }

  #say(who: Line['who'], says: string): void {
    this.story.push({ ms: this.#clock.now(), who, says });
  }

  /** What is due at this request of the stream happens; answers what becomes of the request. */
  #due(is: (event: Event) => boolean): Fault | undefined {
    let fault: Fault | undefined;
    for (const event of [...this.#left].filter(one => one.phase === this.#phase && is(one))) {
      this.#left.delete(event);
      this.#world.nowMs = this.#clock.now();
      if (typeof event.what === 'string') fault = event.what;
      else {
        const what = { ...event.what, stream: event.stream };
        const says = this.#world.happen(what, this.#script.tie, this.#rng);
        if (says !== undefined) this.#say('service', says);
      }
    }
    return fault;
  }

  #arrives(stream: string): Fault | undefined {
    this.requests++;
    this.#clock.move(this.#script.behaviour.shared ? quickMs : requestMs);
    const n = (this.#counts.get(stream) ?? 0) + 1;
    this.#counts.set(stream, n);
    const fault = this.#due(event => event.stream === stream && event.at > 0 && event.at <= n);
    this.#world.nowMs = this.#clock.now();
    if (fault !== undefined) this.#say('reader', faults[fault]);
    if (fault === 'kill') this.#mirror.kill();
    return fault;
  }

  readonly #answered = (path: string, { status, ids }: Answer): void => {
    const [first, ...more] = ids;
    const many = more.length < 3 ? ids.join(', ') : `${ids.length} records, ${first} … ${ids.at(-1)}`;
    this.#say('reader', `GET ${path} shows ${status === 200 ? many || 'nothing' : status}`);
  };

  /** One phase: a pause, what happens in it, and the reading. */
  async #act(): Promise<void> {
    const { lateMs } = this.#script.behaviour;
    const [phase, clock, lookbackMs] = [this.#phase, this.#clock, this.#lookbackMs];
    this.#counts = new Map();
    const ages = this.#meanings.map(({ stream: { options } }) => ageDays(options));
    if (phase !== 'first') clock.move(betweenMs + (this.#isStill ? 2 * (lookbackMs + lateMs) : 0));
    if (phase === 'last') clock.move(Math.max(0, ...ages) * dayMs);
    this.#due(({ at }) => at === 0);
    // What is later than the lookback is not listed yet, and what is within it is not claimed yet.
    if (lateMs > 0) clock.move(lateMs > lookbackMs ? lookbackMs + (lateMs - lookbackMs) * 0.8 : lateMs / 2);
    this.#world.nowMs = clock.now();
    const kind = phase === 'sweep' || phase === 'last' ? 'sweep' : 'sync';
    this.#say('mirror', kind === 'sweep' ? 'a sweep begins' : 'a sync begins');
    if (phase === 'last') for (let n = 0; n < 2; n++) await this.#readAll('sync');
    await this.#readAll(kind);
    if (phase === 'last') {
      this.#isSwept = true;
      await this.#readAll('sync');
    }
    this.#due(({ at }) => at > 0);
    if (phase === 'still') await this.#readAll('sync');
    if (!this.#isStill) return;
    const { ground, source } = this.#stage;
    const due = { swept: phase === 'last' };
    this.findings.push(...(await judge(ground.pool, this.#mirror.account, source.name, this.#world, due)));
  }

  async #readAll(kind: 'sync' | 'sweep'): Promise<void> {
    for (const stream of this.#stage.source.streams)
      if (this.#script.streams.includes(stream.name) && stream.jobs[kind] !== undefined) await this.#read(stream, kind);
  }

  async #read(stream: Stream, kind: 'sync' | 'sweep'): Promise<void> {
    const { ground, source } = this.#stage;
    const mirror = this.#mirror;
    const shelf = this.#world.shelves.get(stream.name)!;
    const oldMs = this.#clock.now() - this.#lookbackMs - secondMs;
    const isOld = (item: Item) => (shownOf(item, oldMs)?.changedMs ?? Number.POSITIVE_INFINITY) <= oldMs;
    const there = stream.kind === 'list' ? shelf.living.filter(isOld) : [];
    let { state, error, remedy } = await mirror.read(stream, kind);
    if (state === 'completed')
      this.findings.push(...(await absent(ground.pool, mirror.account, source.name, shelf, there)));
    if (this.#isStill && kind === 'sync' && state === 'partial' && stream.jobs.backfill !== undefined) {
      await mirror.read(stream, 'backfill');
      ({ state, error, remedy } = await mirror.read(stream, kind));
    }
    if (state === 'completed') return;
    const says = `${error ?? ''}. ${remedy ?? ''}`.trim();
    this.#say('mirror', `the ${kind} of ${stream.name} ends ${state}: ${says}`);
    // The details of a record whose deletion no list has told yet answer 404, and the engine says that it waits for them.
    const isDetails = this.#meanings.some(one => one.name === stream.name && one.stream.kind === 'details');
    if (this.#isStill && (this.#isSwept || !isDetails))
      this.findings.push({ stream: stream.name, id: '', wrong: 'failed', says });
  }
}

const faults = {
  kill: 'the process that reads is killed',
  refuse: 'the service answers 503',
  limit: 'the service answers 429',
  reset: 'the connection breaks',
} as const;

const ageDays = (options: object): number => ('ageDays' in options ? Number(options.ageDays ?? 0) : 0);

/** The events of a feed that tells of deletions are made by deletions alone. */
const isFedByDeletions = (meanings: readonly Meaning[], name: string): boolean =>
  meanings.some(
    ({ stream, name: own }) => own === name && stream.kind === 'feed' && stream.options.deletes !== undefined,
  );
