/** A process of Shelfdesk within the simulation, as `start` is one: it reconciles runs, opens some, and takes jobs. */

// The product loads these at their first use, which takes time of this machine. The simulation would not wait for it.
import 'htmlparser2';
import '../../../src/engine/load/list-loop.ts';
import '../../../src/engine/load/run-stream.ts';
import '../../../src/sources/books/shelves/shelf-loop.ts';
import '../../../src/engine/deletions/sweep.ts';
import '../../../src/engine/details/read-details.ts';
import '../../../src/engine/details/replay-reply.ts';
import '../../../src/engine/verify/audit/audit-stream.ts';
import '../../../src/engine/verify/details/verify-stream.ts';

import { setImmediate as everybodyWaits } from 'node:timers/promises';
import { pino } from 'pino';
import type { Clock } from '../../../src/clock.ts';
import { makeBudget } from '../../../src/engine/budget/budget.ts';
import type { Context } from '../../../src/engine/context.ts';
import { type Dialect, fixedToken } from '../../../src/engine/http/dialect.ts';
import { type Fetch, timeoutMs } from '../../../src/engine/http/fetch.ts';
import { makeSend, type Send } from '../../../src/engine/http/send.ts';
import type { Job } from '../../../src/engine/queue/job.ts';
import type { JobQueue } from '../../../src/engine/queue/job-queue.ts';
import { keepReconciling, openWaiting, type Reconciling, reconcile } from '../../../src/engine/queue/reconcile.ts';
import { type Working, work } from '../../../src/engine/queue/worker.ts';
import { Interrupted } from '../../../src/errors.ts';
import { type FieldRules, filterOf } from '../../../src/privacy/fields/field-rules.ts';
import { fullRulesOf } from '../../../src/privacy/fields/stored-rules.ts';
import { booksDialect } from '../../../src/sources/books/dialect.ts';
import { helpdeskDialect } from '../../../src/sources/helpdesk/dialect.ts';
import { streams } from '../../../src/sources/index.ts';
import { openBooks, openHelpdesk, sourcesOf } from '../../../test/support/sources.ts';
import type { Rng } from '../../sandbox/src/random.ts';
import type { Services } from '../../sandbox/src/services.ts';
import { TOKEN } from '../../sandbox/src/switches.ts';
import { owners } from './catalog.ts';
import type { Database, Door } from './database.ts';
import { lookbackMs, type Plan } from './plan.ts';
import { type Actor, actor, type Scheduler } from './scheduler.ts';

export const account = 'default';
/** As sync.is_alive() knows it. */
const lockClass = 0x53_48_53_57;

/** What a planted defect replaces: always a wrapper of what the product is given, never a switch in it. */
export interface Defect {
  readonly rewrite?: Door['rewrite'];
  readonly sticks?: Door['sticks'];
  /** Replaces a part of the product for as long as a seed lasts; answers how to undo it. */
  readonly install?: () => () => void;
  readonly dialect?: Dialect;
  readonly send?: (send: Send, clock: Clock) => Send;
  /** A statement that spoils the lake. */
  readonly inLake?: string;
}

export interface Around {
  readonly plan: Plan;
  readonly scheduler: Scheduler;
  readonly database: Database;
  readonly catalog: Services['books'];
  readonly fetchOf: (by: Actor) => Fetch;
  readonly queueOf: (by: Actor) => JobQueue;
  readonly jobs: readonly Job[];
  readonly rng: Rng;
  /** The field rules that a process which begins now has. */
  rules: FieldRules | undefined;
  readonly databaseNow: () => number;
  readonly trouble: Door['trouble'];
  readonly lateMs: () => number;
  readonly defect: Defect;
  readonly failed: (why: unknown) => void;
}

export const addresses = {
  helpdesk: new URL('https://desk.example/api/v1'),
  books: new URL('https://books.example/books/v1'),
};
const dayMs = 86_400_000;
const catalogLimits = { credits: 1_000_000, periodMs: dayMs, requestsPerSecond: 1_000_000, reserve: 0 };

const log = pino({ level: 'silent' });

export class Process {
  readonly by: Actor;
  readonly ctx: Context;
  /** How far its clock is from the true time. */
  clockMs = 0;
  id = 0;
  readonly #around: Around;
  readonly #leaving = new AbortController();
  #reconciling: Reconciling | undefined;
  #working: Working | undefined;

  constructor(name: string, around: Around) {
    this.by = actor(name);
    this.#around = around;
    const { scheduler, database, plan, rng, defect } = around;
    const { by } = this;
    const clock: Clock = {
      now: () => scheduler.nowMs + this.clockMs,
      monotonic: () => scheduler.nowMs,
      sleep: (ms, signal) => scheduler.sleep(by, ms, signal),
    };
    const pg = database.poolFor({
      ...{ by, scheduler, now: around.databaseNow, trouble: around.trouble, lateMs: around.lateMs },
      ...(defect.rewrite && { rewrite: defect.rewrite }),
      ...(defect.sticks && { sticks: defect.sticks }),
    });
    const own = { pg, clock, log, random: rng };
    const sender = () => this.id || undefined;
    const fetch = around.fetchOf(by);
    const { rules } = around;
    const send = makeSend({
      source: 'helpdesk',
      ...{ ...own, fetch, filter: filterOf(rules) },
      baseUrl: addresses.helpdesk,
      dialect: defect.dialect ?? helpdeskDialect,
      token: fixedToken(TOKEN),
      budget: makeBudget({ ...own, sender, account, source: 'helpdesk', limits: plan.limits, timeoutMs }),
    });
    const desk = openHelpdesk(defect.send ? defect.send(send, clock) : send, { lookbackMs });
    const { key, tokens } = around.catalog;
    const sendToCatalog = makeSend({
      source: 'books',
      ...{ ...own, fetch, filter: filterOf(rules) },
      baseUrl: addresses.books,
      dialect: booksDialect({ apiKey: key, hasToken: true }),
      token: fixedToken(tokens.token),
      budget: makeBudget({ ...own, sender, account, source: 'books', limits: catalogLimits, timeoutMs }),
    });
    // Nothing is read again for its age.
    const ages = { shelfAgeMs: 365 * dayMs, volumeAgeMs: 365 * dayMs };
    const catalog = openBooks(sendToCatalog, { owners, ...ages });
    this.ctx = {
      ...{ account, pg, clock, log, random: rng, rules: fullRulesOf(rules) },
      signal: this.#leaving.signal,
      streams,
      sources: sourcesOf(desk, ...(plan.volumes > 0 ? [catalog] : [])),
      sweep: { ageMs: 0, mostDeleted: 1 },
    };
  }

  /** Enters the list of the living, as warehouse/workers.ts does, and works. */
  async start(): Promise<void> {
    const { scheduler, database, queueOf, jobs } = this.#around;
    await scheduler.effect(this.by, 'begins to live', async () => {
      const { rows } = await database.query(
        {
          text: `insert into sync.workers (account_id, works, host, pid, version, started_at)
            values ($1, true, $2, 1, 'sim', $3) returning id`,
          values: [account, this.by.name, new Date(scheduler.nowMs)],
        },
        0,
      );
      this.id = rows[0]!.id;
      await database.client.query(`select pg_advisory_lock(${lockClass}, ${this.id})`);
    });
    const queue = queueOf(this.by);
    const { ctx, id } = this;
    const reconciling = keepReconciling(ctx, async () => {
      await openWaiting(ctx, id);
      await reconcile(ctx.pg, [{ ctx, queue, worker: id, jobs: working.jobs }]);
    });
    const working: Working = work(ctx, queue, jobs, { worker: id, afterEach: reconciling.ring });
    reconciling.failed.catch(this.#around.failed);
    this.#reconciling = reconciling;
    this.#working = working;
  }

  /** Somebody has opened a run. */
  ring(): void {
    this.#reconciling?.ring();
  }

  /** As SIGSTOP does, and SIGCONT after a while. */
  stop(forMs: number): void {
    this.by.stoppedUntilMs = this.#around.scheduler.nowMs + forMs;
  }

  /** As SIGTERM does. */
  async leave(): Promise<void> {
    this.#leaving.abort(new Interrupted());
    this.#reconciling?.stop();
    await this.#working?.[Symbol.asyncDispose]();
    await this.#around.scheduler.effect(actor('goodbye'), `${this.by.name} has left`, () => this.kill());
  }

  /** After the seed, when nothing of it happens any more: Node keeps whatever listens to a signal that may come. */
  forget(): void {
    this.by.dead = true;
    this.#leaving.abort(new Interrupted());
    this.#reconciling?.stop();
  }

  /** As `kill -9` does: its lock ends with it. */
  async kill(): Promise<void> {
    if (this.by.dead) return;
    this.#around.scheduler.kill(this.by);
    await this.#around.database.client.query(`select pg_advisory_unlock(${lockClass}, ${this.id})`);
    // What it was at comes to nothing first.
    await everybodyWaits();
  }
}
