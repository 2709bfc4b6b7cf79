/**
 * A whole help desk of the sandbox, read by the real jobs into a real warehouse, in one process without sockets, on a
 * clock that moves only as the test and the requests move it. What goes wrong is told by rules.
 */

import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { pino } from 'pino';
import type { FaultRule } from '../../packages/sandbox/src/admission/rules.ts';
import type { World } from '../../packages/sandbox/src/helpdesk/world/world.ts';
import { openServices, type Services, type ServicesOptions } from '../../packages/sandbox/src/services.ts';
import type { Clock } from '../../src/clock.ts';
import { type Budget, makeBudget } from '../../src/engine/budget/budget.ts';
import type { JobContext } from '../../src/engine/context.ts';
import { register } from '../../src/engine/coverage/coverage.ts';
import { makePool } from '../../src/engine/database/pool.ts';
import { sweepStream } from '../../src/engine/deletions/sweep.ts';
import { readDetails } from '../../src/engine/details/read-details.ts';
import { fixedToken } from '../../src/engine/http/dialect.ts';
import { timeoutMs } from '../../src/engine/http/fetch.ts';
import { makeSend } from '../../src/engine/http/send.ts';
import { backfillList, syncList } from '../../src/engine/load/list-loop.ts';
import { runStream } from '../../src/engine/load/run-stream.ts';
import { type NewRun, readProgress, type StreamProgress } from '../../src/engine/runs/runs.ts';
import { type FieldRules, filterOf } from '../../src/privacy/fields/field-rules.ts';
import { fullRulesOf, keepFieldRules } from '../../src/privacy/fields/stored-rules.ts';
import { helpdeskDialect } from '../../src/sources/helpdesk/dialect.ts';
import { messages } from '../../src/sources/helpdesk/messages/messages.ts';
import { streams } from '../../src/sources/index.ts';
import { keyOf } from './keys.ts';
import { freshDatabase } from './postgres.ts';
import { open } from './scripted.ts';
import { listStream, openHelpdesk, sourcesOf } from './sources.ts';

/** One request as the source saw it. */
interface Exchange {
  readonly path: string;
  readonly query: URLSearchParams;
  readonly status: number;
}

export interface InProcess extends AsyncDisposable {
  readonly pool: pg.Pool;
  readonly url: string;
  readonly services: Services;
  readonly world: World;
  /** May be replaced: with a signal, for one. */
  ctx: JobContext;
  /** Of the source, in ms. */
  nowMs: number;
  readonly asked: Exchange[];
  /** Called before each request is answered: the source answers a status instead, or what it has at another path; or somebody on the way does. */
  before: (path: string, query: URLSearchParams) => number | string | { status: number; text: string } | undefined;
  /** What becomes of the text of a reply on its way. */
  reword: (text: string, path: string) => string;
  /** Called before each request is sent: it may wait for a credit. */
  between: () => void | Promise<void>;
  readonly rules: { set(rules: readonly FaultRule[]): void; clear(): void };
  rows(sql: string, ...values: unknown[]): Promise<Record<string, unknown>[]>;
  /** A run, stream by stream; what the last one wrote down. Throws nothing that a stream failed with. */
  run(kind: NewRun['kind'], streams: readonly string[], more?: Partial<NewRun>): Promise<StreamProgress>;
  /** A run whose streams wait. */
  open(kind: NewRun['kind'], streams: readonly string[], more?: Partial<NewRun>): Promise<number>;
  /** Goes on with a run. */
  goOn(run: number, stream: string): Promise<StreamProgress>;
  /** Reads what is new. */
  sync(names?: readonly string[]): Promise<void>;
}

/** How long a request takes. */
const latencyMs = 40;
const lookbackMs = 120_000;

export async function inProcess(
  options: ServicesOptions & {
    sweep?: JobContext['sweep'];
    lookbackMs?: number;
    /** The mirror begins here. */
    sinceMs?: number;
    /** The source's clock is watched, by a clock of our own that is so far from it; and credits are counted. */
    ours?: () => number;
    /** With `ours`: asks and settles one after the other, so that nobody has to try again, and the same happens each time. */
    inTurn?: boolean;
    /** Fields that are kept only in part. */
    fieldRules?: FieldRules;
    /** Smaller pages, so that a small world has many of them. */
    paging?: { perPage: number; depth: number };
  } = {},
): Promise<InProcess> {
  const db = await freshDatabase();
  const pool = makePool(db.url);
  const begun = Date.UTC(2026, 2, 1, 12);
  let nowMs = begun;
  const services = openServices({ credits: 1e9, requestsPerSecond: 1e9, ...options, now: () => nowMs });
  /** Resolves when nobody has asked the database for a while. A transaction that waits for the clock itself ends it as well. */
  const stored = async () => {
    for (let tries = 0, quiet = 0; tries < 500 && quiet < 3; tries++) {
      await delay(2);
      quiet = pool.idleCount === pool.totalCount && pool.waitingCount === 0 ? quiet + 1 : 0;
    }
  };
  const clock: Clock = {
    now: () => nowMs,
    monotonic: () => nowMs - begun,
    sleep: async (ms, signal) => {
      signal?.throwIfAborted();
      // Whoever looks again every few seconds must not make minutes of the moment in which others store a page, on any machine.
      if (ms >= 1000) await stored();
      signal?.throwIfAborted();
      nowMs += Math.ceil(ms);
    },
  };
  const log = pino({ level: 'silent' });
  const { ours } = options;
  const watching =
    ours &&
    makeBudget({
      ...{ pg: pool, clock, account: 'default', source: 'helpdesk', timeoutMs, random: Math.random },
      limits: { credits: 1e9, periodMs: 60_000, requestsPerSecond: 1e9, reserve: 0 },
      clockToleranceMs: options.lookbackMs ?? lookbackMs,
      now: () => nowMs + ours(),
    });
  const budget = watching && (options.inTurn ? inTurn(watching) : watching);
  const send = makeSend({
    source: 'helpdesk',
    baseUrl: new URL('https://desk.example/api/v1'),
    dialect: helpdeskDialect,
    token: fixedToken(services.helpdesk.tokens[0]!),
    budget: budget ?? {
      acquire: async (cost, lane) => {
        await here.between();
        return { id: '', cost, lane };
      },
      settle: async () => ({}),
      book: async () => {},
      thaw: async () => {},
    },
    clock,
    random: () => 0,
    log,
    filter: filterOf(options.fieldRules),
    fetch: async (url, headers) => {
      const path = decodeURIComponent(url.pathname.replace('/api/v1', ''));
      nowMs += latencyMs / 2;
      const instead = here.before(path, url.searchParams);
      const target = typeof instead === 'string' ? `/api/v1${instead}` : url.pathname + url.search;
      const asked = { method: 'GET', url: target, headers: { ...headers, host: url.host } };
      const reply = services.handle(asked);
      const refused = { status: instead as number, text: '{"message":"No"}' };
      const said = typeof instead === 'number' ? refused : typeof instead === 'object' ? instead : reply;
      const { status, text } = said;
      here.asked.push({ path, query: url.searchParams, status });
      nowMs += latencyMs / 2 + (reply.delay_ms ?? 0);
      if (reply.broken) throw Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' });
      const lower = Object.fromEntries(
        Object.entries(reply.headers).map(([name, value]) => [name.toLowerCase(), value]),
      );
      return { status, headers: lower, text: here.reword(text, path) };
    },
  });
  const account = 'default';
  const ctx: JobContext = {
    account,
    pg: pool,
    clock,
    random: () => 0,
    log,
    signal: new AbortController().signal,
    streams,
    sources: sourcesOf(openHelpdesk(send, { lookbackMs: options.lookbackMs ?? lookbackMs })),
    sweep: options.sweep ?? { ageMs: 7 * 86_400_000, mostDeleted: 0.2 },
    claimant: { worker: 0, job: 'job', rules: fullRulesOf(options.fieldRules) },
  };
  const lists = streams.flatMap(one =>
    one.kind === 'list' ? one.lists.map(({ name }) => ({ stream: one.key, list: name })) : [],
  );
  await register(pool, { account, sinceMs: options.sinceMs ?? 0 }, lists, new Date(nowMs));
  await keepFieldRules(pool, account, options.fieldRules, new Date(nowMs));

  const here: InProcess = {
    pool,
    url: db.url,
    services,
    world: services.helpdesk.world,
    ctx,
    get nowMs() {
      return nowMs;
    },
    set nowMs(ms) {
      nowMs = ms;
    },
    asked: [],
    before: () => undefined,
    reword: text => text,
    between: () => {},
    rules: services.rules,
    rows: async (sql, ...values) => (await pool.query<Record<string, unknown>>(sql, values)).rows,
    open: (kind, names, more = {}) => open(pool, names, new Date(nowMs), { kind, ...more }),
    async run(kind, names, more = {}) {
      const run = await here.open(kind, names, more);
      let last: StreamProgress | undefined;
      for (const stream of names) last = await here.goOn(run, stream);
      return last!;
    },
    async goOn(run, stream) {
      const work = { account, run, stream: keyOf(stream) };
      await runStream(here.ctx, work, {
        read: (job, claim) => {
          if (stream === 'messages') return readDetails(job, claim, messages);
          const read = { sweep: sweepStream, backfill: backfillList }[claim.kind as string] ?? syncList;
          const list = listStream(keyOf(stream));
          return read(job, claim, { ...list, paging: options.paging ?? list.paging });
        },
      }).catch((error: Error) => {
        if (error.name !== 'StreamFailed' && error.name !== 'Interrupted') throw error;
      });
      return (await readProgress(pool, run)).streams.find(one => one.stream === stream)!;
    },
    async sync(names = ['users', 'customers', 'tickets', 'messages']) {
      for (const stream of names) await here.run('sync', [stream]);
    },
    async [Symbol.asyncDispose]() {
      await pool.end();
      await db.drop();
    },
  };
  return here;
}

function inTurn(budget: Budget): Budget {
  let before: Promise<unknown> = Promise.resolve();
  const next = <T>(act: () => Promise<T>): Promise<T> => {
    const done = before.then(act);
    before = done.catch(() => {});
    return done;
  };
  return {
    acquire: (...asked) => next(() => budget.acquire(...asked)),
    settle: (...said) => next(() => budget.settle(...said)),
    book: () => next(() => budget.book()),
    thaw: () => next(() => budget.thaw()),
  };
}
