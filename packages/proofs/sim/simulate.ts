/** One seed from its beginning to its end: turmoil, then rest, and then the tables have to be the truth. */

import { backfillStream } from '../../../jobs/backfill-stream.ts';
import { sweepStream } from '../../../jobs/sweep-stream.ts';
import { syncStream } from '../../../jobs/sync-stream.ts';
import { register } from '../../../src/engine/coverage/coverage.ts';
import type { Job } from '../../../src/engine/queue/job.ts';
import { nameAccount } from '../../../src/engine/runs/accounts/accounts.ts';
import { endAbandonedRuns } from '../../../src/engine/runs/runs.ts';
import { keyOf } from '../../../test/support/keys.ts';
import { boundTo, deskLists } from '../../../test/support/sources.ts';
import { Rules } from '../../sandbox/src/admission/rules.ts';
import { between, makeRng, pick, type Rng } from '../../sandbox/src/random.ts';
import { openServices, type Services } from '../../sandbox/src/services.ts';
import { Catalog, owners, setShelfPaging } from './catalog.ts';
import { uncertain } from './certain.ts';
import { Check } from './check.ts';
import { Crew } from './crew.ts';
import type { Database, Trouble } from './database.ts';
import { edgeOf } from './edge.ts';
import { Erasing, eraseNow, textsOf, tracesOf } from './erasing.ts';
import { eventsOf, type Script, type Stage, scripted } from './events.ts';
import { applyRules, fieldRulesOf, isApplied, leftOf, storeRules } from './fields.ts';
import { type Happens, happen, makeWorld } from './happenings.ts';
import { History } from './history.ts';
import { SimulatedLake } from './lake.ts';
import { networkOf } from './network.ts';
import { type Plan, planOf } from './plan.ts';
import { type Around, account, addresses, type Defect } from './process.ts';
import { Queue } from './queue.ts';
import { namesOf, Runs } from './runs.ts';
import { type Actor, actor, Over, Scheduler } from './scheduler.ts';
import { Truth } from './truth.ts';

export interface Told {
  readonly seed: number;
  /** What did not hold; nothing, if all is well. */
  readonly complaints: readonly string[];
  readonly hash: number;
  readonly trace: readonly string[] | undefined;
  readonly steps: number;
  readonly checks: number;
  readonly changes: number;
  readonly requests: number;
  readonly deaths: number;
  /** Whether somebody died at `dieAt`. */
  readonly died: boolean;
  /** Whether field rules came late, people, changes in the catalog, changes that were dated ahead, and transactions of several pages. */
  readonly ruled: number;
  readonly erased: number;
  readonly catalog: number;
  readonly ahead: number;
  readonly batches: number;
  /** Exports to a lake that came to their end, and that died. */
  readonly exports: number;
  readonly exportsDied: number;
  /** What was written until then, of what a script has to come by. */
  readonly wrote: readonly string[];
  /** Effects of a script's processes. */
  readonly effects: readonly number[];
  /** Those of them that wrote to the database or spoke to the queue. */
  readonly writes: readonly number[];
}

export interface SimulateOptions {
  readonly database: Database;
  readonly traced?: boolean;
  readonly defect?: Defect;
  readonly plan?: Partial<Plan>;
  /** What happens and is asked for, and after how many seconds, instead of what the seed says. */
  readonly script?: Script;
  /** The process that is at this effect dies, once. */
  readonly dieAt?: { readonly step: number; readonly when: 'before' | 'after' };
  /** It ends with the first complaint that reads like this. */
  readonly until?: RegExp;
}

/** When every world begins. */
const beginMs = Date.UTC(2026, 5, 1, 12);
const jobs: readonly Job[] = [syncStream, backfillStream, sweepStream];

export async function simulate(seed: number, options: SimulateOptions): Promise<Told> {
  const { database } = options;
  const drawn = { ...planOf(seed), ...options.plan };
  const plan = process.env.LAKE_EXTENSIONS ? drawn : { ...drawn, exports: 0 };
  await database.client.query('select pg_advisory_unlock_all()');
  await database.empty();
  const simulation = new Simulation(plan, options);
  const undo = [setPaging(plan), setShelfPaging(plan)];
  const uninstall = options.defect?.install?.();
  try {
    await simulation.begin();
    await simulation.turmoil();
    await simulation.rest();
  } catch (error) {
    if (!(error instanceof Over))
      simulation.check.complain(
        `it came to no end: ${error instanceof Error ? (error.stack ?? error.message) : error}`,
      );
  } finally {
    for (const back of undo) back();
    uninstall?.();
    await simulation.forget();
  }
  return simulation.told();
}

/** Lists of the product are cut into small pages, so that a world of some tickets is deeper than paging reaches. */
function setPaging({ perPage, depth }: Plan): () => void {
  const paged = deskLists as unknown as { paging: { perPage: number; depth: number } }[];
  const before = paged.map(({ paging }) => paging);
  for (const stream of paged) stream.paging = { perPage, depth };
  return () => {
    for (const [i, stream] of paged.entries()) stream.paging = before[i]!;
  };
}

class Simulation {
  readonly plan: Plan;
  readonly scheduler: Scheduler;
  readonly services: Services;
  readonly history: History;
  readonly check: Check;
  readonly catalog: Catalog;
  readonly #erasing: Erasing;
  readonly #database: Database;
  readonly #queue: Queue;
  readonly #around: Around;
  readonly #rules = new Rules();
  readonly #rng: Rng;
  readonly #chance: Rng;
  /** Of what is beside the help desk, so that all else of a seed stays what it was. */
  readonly #beside: Rng;
  readonly #happens: Happens;
  readonly #calm;
  readonly #director = actor('director');
  readonly #crew: Crew;
  #databaseMs = 0;
  #wild = false;
  #died = false;
  /** How far the source's clock has jumped. */
  #sourceMs = 0;
  /** The furthest that the source's clock ever showed, against the true time. */
  #furthestMs = 0;
  readonly #script: SimulateOptions['script'];
  readonly #wrote = new Set<string>();
  readonly #effects: number[] = [];
  readonly #writes: number[] = [];
  /** The number of the next transaction. */
  #position = '';
  readonly #runs: Runs;
  /** Commands that apply field rules. */
  readonly #applying = new Set<Actor>();
  /** 1 if field rules came during runs. */
  #ruled = 0;
  readonly #truth: Truth;
  #lake: SimulatedLake | undefined;

  constructor(plan: Plan, { database, traced = false, defect = {}, dieAt, script, until }: SimulateOptions) {
    this.#script = script;
    this.plan = plan;
    this.#database = database;
    const rng = (n: number) => makeRng(plan.seed * 7 + n);
    this.#rng = rng(2);
    this.#chance = rng(3);
    this.#beside = rng(13);
    const scheduler = new Scheduler({ nowMs: beginMs, rng: rng(4), traced });
    this.scheduler = scheduler;
    const now = () => scheduler.nowMs;
    const world = makeWorld(plan, rng(5), now);
    this.catalog = new Catalog(plan, rng(12), now);
    const books = { world: this.catalog.world, requestsPerDay: 1_000_000, requestsPerSecond: 1_000_000 };
    this.services = openServices({
      ...plan.readings,
      world,
      now,
      rules: this.#rules,
      books,
      seed: plan.seed,
    });
    this.history = new History(world, line => scheduler.note(line), plan.behindMs + plan.jumpMs);
    this.check = new Check({ world, plan, history: this.history, database, catalog: this.catalog });
    const lateMs = () => plan.lateMs;
    if (until !== undefined) scheduler.isOver = () => check.complaints.some(what => until.test(what));
    this.#happens = {
      ...{ world, rng: rng(6), plan, history: this.history, bin: { tickets: [], customers: [] } },
      get lateMs() {
        return lateMs();
      },
    };
    this.#queue = new Queue(scheduler, rng(7));
    const { services, check } = this;
    const edge = edgeOf(plan, makeRng(plan.seed * 7 + 18), now);
    this.#around = {
      rules: undefined,
      ...{ plan, scheduler, database, defect, jobs, rng: rng(8), catalog: services.books },
      fetchOf: networkOf({ scheduler, services, rng: rng(9), slow: plan.slow, edge, arrived: check.exchange }),
      queueOf: by => this.#queue.of(by),
      databaseNow: () => scheduler.nowMs + this.#databaseMs,
      trouble: () => this.#trouble(),
      lateMs: () => (this.#wild && this.#chance() < 0.01 ? between(this.#chance, 1, 4000) : 0),
      failed: why => check.complain(`a process failed: ${why instanceof Error ? why.stack : why}`),
    };
    const { director, chance } = { director: this.#director, chance: this.#chance };
    this.#crew = new Crew({ around: this.#around, director, chance, isWild: () => this.#wild });
    this.#calm = database.poolFor({
      ...{ by: this.#director, scheduler, now: this.#around.databaseNow, trouble: () => undefined, lateMs: () => 0 },
    });
    this.#runs = new Runs({
      ...{ plan, scheduler, database, check, chance: this.#chance, calm: this.#calm, isScripted: script !== undefined },
      processes: () => this.#crew.processes,
      start: () => this.#crew.start(),
      direct: act => this.#direct(act),
      failed: this.#around.failed,
    });
    const { world: desk } = this.services.helpdesk;
    this.#truth = new Truth({
      fields: plan.fields,
      world: desk,
      history: this.history,
      check,
      database,
      unreadable: this.#runs.unreadable,
    });
    database.watch = (statement, by, { rowCount }) => {
      check.statement(statement, by, rowCount);
      if (this.#wild && rowCount) this.#wrote.add(wroteBy(statement.text));
      if (statement.text.includes('update sync.stored_runs')) this.#runs.mayHaveEnded = true;
    };
    let who = '';
    scheduler.afterwards = async label => {
      await check.look();
      if (this.#wild && script !== undefined && dieAt === undefined) await this.#noteWrite(who, label);
    };
    scheduler.border = async (step, by, when) => {
      who = by.name;
      const dies = this.#wild && step === dieAt?.step && when === dieAt.when;
      if (!dies) return this.#border(by.name);
      this.#died = await this.#dieIfProcess(by.name);
      return this.#died;
    };
    scheduler.meanwhile = () => {
      if (this.#wild && this.#chance() < plan.changes) happen(this.#happens);
      if (this.#wild && plan.volumes > 0 && script === undefined && this.#beside() < Math.max(0.02, plan.changes))
        this.catalog.change(this.#beside);
    };
    this.#erasing = new Erasing({
      nowMs: () => scheduler.nowMs,
      isAlive: () => this.#wild,
      begin: () => this.#beginCommand('E'),
      later: act => scheduler.at(scheduler.nowMs + 5000, this.#director, 'the command is given again', act),
    });
  }

  async begin(): Promise<void> {
    if (this.plan.exports > 0)
      this.#lake = await SimulatedLake.open(this.#database, this.plan.seed, this.#around.defect.inLake);
    await this.#direct(async () => {
      await nameAccount(
        this.#calm,
        account,
        boundTo(this.plan.volumes > 0 ? addresses : { helpdesk: addresses.helpdesk }),
      );
      const lists = deskLists.flatMap(({ key, lists }) => lists.map(list => ({ stream: key, list: list.name })));
      const shelves = this.plan.volumes > 0 ? owners.map(list => ({ stream: keyOf('shelves'), list })) : [];
      await register(this.#calm, { account, sinceMs: 0 }, [...lists, ...shelves], new Date(beginMs));
      if (!this.plan.fieldsComeLate) await this.#applyFields();
    });
  }

  /** Everything goes wrong that this seed has. */
  async turmoil(): Promise<void> {
    const { plan, scheduler } = this;
    this.#wild = true;
    this.#rules.set(plan.rules);
    const endMs = scheduler.nowMs + plan.turmoilMs;
    const endStep = scheduler.steps + plan.turmoilSteps;
    for (let n = 0; n < plan.workers; n++) this.#crew.start();
    const events = this.#script === undefined ? eventsOf(this.#stage(), endMs) : scripted(this.#stage(), this.#script);
    for (const [atMs, label, act] of events) scheduler.at(atMs, this.#director, label, act);
    await scheduler.run(() => scheduler.nowMs >= endMs || scheduler.steps >= endStep);
    this.#wild = false;
    this.#rules.clear();
    await this.#crew.killAll();
    for (const command of this.#erasing.commands.keys()) scheduler.kill(command);
    for (const command of this.#applying) scheduler.kill(command);
    scheduler.kill(this.#director);
    this.#director.dead = false;
    // What the dead have sent arrives all the same.
    const drainedMs = scheduler.nowMs + 60_000;
    scheduler.at(drainedMs, this.#director, 'all is quiet', () => {});
    await scheduler.run(() => scheduler.nowMs >= drainedMs);
    if (this.#sourceMs < 0) this.#jump(-this.#sourceMs);
    this.#databaseMs = 0;
    scheduler.skip(plan.restMs);
  }

  /** What is due has been done: nothing may differ any more. */
  async rest(): Promise<void> {
    const { history, check, services } = this;
    if (history.renamed) this.scheduler.skip(8 * 86_400_000);
    services.catchUp();
    const { world } = services.helpdesk;
    world.settle();
    // From now on nothing happens any more, not even what is due.
    world.tickets.deadlines.settle = () => {};
    this.#queue.flush();
    await this.#direct(() => this.#applyFields());
    this.#crew.start();
    await this.#direct(() => endAbandonedRuns(this.#calm, account, new Date(this.scheduler.nowMs)));
    await this.#eraseAll();
    await this.#runs.finish('sync', namesOf(this.plan));
    if (await this.#truth.hasGaps()) await this.#runs.finish('backfill', ['tickets', 'messages']);
    const { messagesEdited, customersEdited, deleted, silent } = history;
    if (customersEdited || deleted || silent.size > 0 || (await this.#truth.hasRejects())) {
      await this.#truth.compareAnnounced();
      await this.#runs.finish('sweep', ['customers', 'tickets']);
      // What one that was broken off had read, it does not read again, and says so: edits since then the next one finds.
      if (this.#runs.goesOn) await this.#runs.finish('sweep', ['customers', 'tickets']);
      // A sweep may bring a ticket that was rejected until then: its messages wait, and a worker reads them.
      await this.#runs.finish('hydrate', ['messages']);
    }
    if (deleted || messagesEdited || silent.size > 0) await this.#runs.finish('backfill', ['messages'], messagesEdited);
    if (this.plan.volumes > 0) await this.#runs.finish('backfill', ['shelves', 'volumes'], true);
    const excused = await this.#truth.excused();
    for (const what of await this.#truth.differences()) {
      const [table = '', id = ''] = what.split(/[ :]/);
      // An inbox that only deleted tickets were in is nobody's any more.
      const nobodys = table === 'inboxes' && history.deleted && what.endsWith('too many');
      const unseen = this.#runs.unreadable.has(/^(customers|contacts)$/.test(table) ? 'customers' : 'tickets');
      const hidden = unseen && (what.endsWith('too many') || /^(customers|contacts)$/.test(table));
      if (!nobodys && !hidden && !excused.has(id)) check.complain(`at rest: ${what}`);
    }
    // Times of a clock that was set back are of no time that was.
    if (this.plan.jumpMs === 0) {
      const of = { isBehind: this.plan.behindMs > 0, excused };
      for (const what of await uncertain(this.#database, history, of)) check.complain(what);
    }
    for (const what of await tracesOf(this.#database, history, check.erased)) check.complain(`at rest: ${what}`);
    for (const what of await leftOf(this.#database, history, this.plan.fields)) check.complain(`at rest: ${what}`);
    if (this.plan.volumes > 0)
      for (const what of await this.catalog.differences(this.#truth.reads()))
        check.complain(`at rest: catalog: ${what}`);
    for (const what of (await this.#lake?.wrong(textsOf(history, check.erased))) ?? [])
      check.complain(`at rest: ${what}`);
    await this.#crew.killAll();
  }

  async forget(): Promise<void> {
    await this.#lake?.close();
    this.#crew.forget();
    this.#database.watch = () => {};
  }

  told(): Told {
    const { plan, check, scheduler, history, services } = this;
    return {
      seed: plan.seed,
      complaints: check.complaints,
      hash: scheduler.hash,
      trace: scheduler.lines,
      steps: scheduler.steps,
      checks: check.checks,
      changes: history.changes,
      requests: services.helpdesk.totals.requests,
      deaths: this.#crew.deaths,
      died: this.#died,
      erased: check.erased.size,
      ruled: this.#ruled,
      catalog: this.catalog.changes,
      ahead: history.ahead.size,
      batches: check.batches,
      exports: this.#lake?.exports ?? 0,
      exportsDied: this.#lake?.deaths ?? 0,
      wrote: [...this.#wrote],
      effects: this.#effects,
      writes: this.#writes,
    };
  }

  /** Counts an effect as a write if a transaction that wrote has ended, or if it spoke to the queue. */
  async #noteWrite(by: string, label: string): Promise<void> {
    const { rows } = await this.#database.client.query(
      'select pg_snapshot_xmax(pg_current_snapshot())::text as position',
    );
    const { position } = rows[0];
    const isProcess = /^[EF]/.test(by) || this.#crew.processes.some(one => one.by.name === by);
    if (isProcess) this.#effects.push(this.scheduler.steps);
    if (isProcess && (position !== this.#position || label.startsWith('queue:')))
      this.#writes.push(this.scheduler.steps);
    this.#position = position;
  }

  // --- what goes wrong ----------------------------------------------------------------------------------------------

  #trouble(): Trouble | undefined {
    if (!this.#wild || this.#chance() * 1000 >= this.plan.troubles) return undefined;
    const kind = pick(this.#chance, ['before', 'after', 'within'] as const);
    return kind === 'within' ? { kind, statement: between(this.#chance, 1, 10) } : { kind };
  }

  async #border(name: string): Promise<boolean> {
    if (!this.#wild || this.#chance() * 2000 >= this.plan.deaths) return false;
    return this.#dieIfProcess(name);
  }

  async #dieIfProcess(name: string): Promise<boolean> {
    const command = [...this.#erasing.commands.keys()].find(by => by.name === name);
    if (command !== undefined) {
      this.#crew.deaths++;
      this.scheduler.kill(command);
      this.#erasing.died(command);
      return true;
    }
    const applying = [...this.#applying].find(by => by.name === name);
    if (applying !== undefined) {
      this.#crew.deaths++;
      this.scheduler.kill(applying);
      this.#applying.delete(applying);
      this.#ruleAgain();
      return true;
    }
    const process = this.#crew.processes.find(({ by }) => by.name === name);
    if (process === undefined || process.by.dead) return false;
    await this.#crew.die(process);
    return true;
  }

  /** The source's clock: it never shows a time that is further behind what it has shown than the seed allows. */
  #jump(ms: number): void {
    this.#sourceMs += ms;
    this.#furthestMs = Math.max(this.#furthestMs, this.#sourceMs);
    this.services.helpdesk.world.clock.jump(ms);
  }

  #stage(): Stage {
    const { plan, scheduler } = this;
    return {
      ...{ plan, scheduler, rng: this.#rng, beside: this.#beside, happens: this.#happens },
      ...{ runs: this.#runs, crew: this.#crew, queue: this.#queue },
      erase: () => this.#erase(),
      leaveOut: () => this.#leaveOut(),
      changeCatalog: () => this.catalog.change(this.#beside),
      exportLake: () => this.#exportLake(),
      jumpWithin: ms => this.#jumpWithin(ms),
      setClock: () => this.#setClock(),
      useCredits: () => this.services.helpdesk.takeCredits(plan.foreign),
      takeAway: forMs => this.#takeAway(forMs),
    };
  }

  /** As `fields apply` does, unless it has been done: from the first moment on, who begins has the rules. */
  async #applyFields(): Promise<void> {
    const { fields } = this.plan;
    if (fields.length === 0) return;
    const rules = fieldRulesOf(fields);
    this.#around.rules = rules;
    await storeRules(this.#calm, rules, this.scheduler.nowMs);
    if (!(await isApplied(this.#calm))) await applyRules(this.#calm, rules, this.scheduler.nowMs);
  }

  /** A command is a process of its own. */
  #beginCommand(letter: string) {
    const by = actor(this.#crew.nameNext(letter));
    const { databaseNow: now, trouble, lateMs, defect } = this.#around;
    const doors = { ...(defect.rewrite && { rewrite: defect.rewrite }) };
    return { by, pool: this.#database.poolFor({ by, scheduler: this.scheduler, now, trouble, lateMs, ...doors }) };
  }

  /** `fields apply` is repeated until it succeeds. Running processes do not have the rules, and are restarted a while later. */
  #leaveOut(): void {
    const { scheduler } = this;
    const { by, pool } = this.#beginCommand('F');
    this.#applying.add(by);
    const rules = fieldRulesOf(this.plan.fields);
    const startAnew = () => {
      this.#around.rules = rules;
      const old = this.#crew.living();
      const later = scheduler.nowMs + between(this.#beside, 100, 20_000);
      scheduler.at(later, this.#director, 'those without the rules end', () => {
        for (const process of old) if (!process.by.dead) this.#crew.kill(process);
      });
    };
    storeRules(pool, rules, scheduler.nowMs)
      .then(() => {
        if (this.#around.rules === undefined) startAnew();
        if (this.#wild) this.#ruled = 1;
        return applyRules(pool, rules, scheduler.nowMs);
      })
      .catch(() => this.#ruleAgain());
  }

  #ruleAgain(): void {
    const { scheduler } = this;
    if (this.#wild)
      scheduler.at(scheduler.nowMs + 5000, this.#director, 'the rules are given again', () => this.#leaveOut());
  }

  #exportLake(): void {
    this.scheduler.effect(this.#director, 'an export', () => this.#lake!.export()).catch(this.#around.failed);
  }

  #erase(): void {
    const known = [...this.services.helpdesk.world.customers.keys()].filter(id => !this.check.erased.has(id));
    if (known.length > 0) this.#erasing.erase(pick(this.#beside, known));
  }

  /** Whoever was to be erased, and was not: the command is given once more, and nothing goes wrong with it. */
  async #eraseAll(): Promise<void> {
    for (const customer of this.#erasing.pending)
      await this.#direct(async () => void (await eraseNow(this.#calm, customer, this.scheduler.nowMs)));
  }

  /** Anywhere between what it has shown at most and as far behind that as the seed allows, and back again. */
  #jumpWithin(ms: number): void {
    const to = this.#chance() < 0.5 ? this.#furthestMs - ms : Math.min(this.plan.jumpMs, this.#sourceMs + ms);
    this.#jump(to - this.#sourceMs);
  }

  #setClock(): void {
    if (this.#chance() < 0.4) this.#databaseMs = this.#crew.someMs();
    else pick(this.#chance, this.#crew.living()).clockMs = this.#crew.someMs();
  }

  #takeAway(forMs: number): void {
    const untilMs = this.scheduler.nowMs + forMs;
    this.#queue.isAway = () => this.#wild && this.scheduler.nowMs < untilMs;
  }

  /** Until it is done, with everybody else at work meanwhile. */
  async #direct(act: () => Promise<void>): Promise<void> {
    let done = false;
    let failure: unknown;
    act().then(
      () => (done = true),
      error => {
        failure = error ?? 'failed';
        done = true;
      },
    );
    await this.scheduler.run(() => done);
    if (failure !== undefined) throw failure;
  }
}

/** Which of the tables that only some runs write to a statement has written to. */
function wroteBy(text: string): string {
  if (/^\s*(with|update)\b/.test(text) && /_deleted_after = (?!null)/.test(text)) return 'tombstones';
  return /^\s*(?:insert into|update|delete from) sync\.(deletion_candidates|swept|walks)\b/.exec(text)?.[1] ?? '';
}
