/**
 * A source whose every reply the test writes, read by the real program into a real warehouse, on a clock that stands
 * still until the test moves it. For what no sandbox would say: pages from the past, broken records, odd numbers.
 */

import type pg from 'pg';
import { pino } from 'pino';
import type { Clock } from '../../src/clock.ts';
import type { JobContext } from '../../src/engine/context.ts';
import { register } from '../../src/engine/coverage/coverage.ts';
import { makePool, transaction } from '../../src/engine/database/pool.ts';
import { sweepStream } from '../../src/engine/deletions/sweep.ts';
import { fixedToken } from '../../src/engine/http/dialect.ts';
import type { Fetch } from '../../src/engine/http/fetch.ts';
import { makeSend } from '../../src/engine/http/send.ts';
import { backfillList, syncList } from '../../src/engine/load/list-loop.ts';
import { runStream } from '../../src/engine/load/run-stream.ts';
import { type Claim, takeUp } from '../../src/engine/runs/claims.ts';
import { type NewRun, openRun, readProgress, type StreamProgress } from '../../src/engine/runs/runs.ts';
import { helpdeskDialect } from '../../src/sources/helpdesk/dialect.ts';
import { hydrate, isDone } from '../../src/sources/helpdesk/messages/detail-loop.ts';
import { messages } from '../../src/sources/helpdesk/messages/messages.ts';
import { streams } from '../../src/sources/index.ts';
import { keyOf, keysOf } from './keys.ts';
import { freshDatabase } from './postgres.ts';
import { deskLists, openHelpdesk, sourcesOf } from './sources.ts';

/** Second `n` of the test's time, in ms and as the source writes it. */
export const second = (n: number): number => Date.UTC(2026, 0, 1) + n * 1000;
export const iso = (n: number): string => `${new Date(second(n)).toISOString().slice(0, 19)}Z`;
/** The same as the warehouse answers it. */
export const at = (n: number): Date => new Date(second(n));

export const ticket = (id: string, more: Record<string, unknown> = {}) => ({
  id,
  number: 7,
  customer_id: 'c1',
  user_id: null,
  inbox_id: 'i1',
  label_ids: [],
  state: 'open',
  snoozed_until: null,
  subject: 'Tea',
  type: 'email',
  spam: false,
  trash: false,
  updated_at: iso(0),
  created_at: iso(0),
  reply_to: null,
  reply_cc: null,
  summary: null,
  ...more,
});

export const message = (id: string, more: Record<string, unknown> = {}) => ({
  id,
  type: 'reply',
  direction: 'in',
  user_id: null,
  from_name: 'Ada',
  from: 'ada@example.org',
  to: 'help@example.org',
  body: `body of ${id}`,
  more_body: null,
  htmlized: false,
  created_at: iso(0),
  attachments: [],
  ...more,
});

/** Records, or the reply's text as it shall come. A function says it anew each time. */
type Says = readonly unknown[] | string | ((query: URLSearchParams) => readonly unknown[] | string);

export interface Scripted extends AsyncDisposable {
  readonly url: string;
  readonly pool: pg.Pool;
  readonly ctx: JobContext;
  /** What the lists show, by the name of the stream, or of the ticket list. */
  readonly lists: Record<string, Says>;
  /** What a request by id shows: path → record, text, or a status; or a function that says it anew each time. */
  readonly details: Record<string, unknown>;
  /** Moves the clock: a reply from now on is true as of one second before `n`. */
  goTo(n: number): void;
  /** One run of one stream; what it wrote down about itself. Throws what the run throws. */
  sync(name: string, more?: Partial<NewRun>): Promise<StreamProgress>;
  /** The right to commit to a stream of a new run. */
  claim(stream: string, more?: Partial<NewRun>): Promise<Claim>;
  rows(sql: string, ...values: unknown[]): Promise<Record<string, unknown>[]>;
}

/** The number of records; undefined if this is no list. */
function countOf(text: string): number | undefined {
  const list = JSON.parse(text) as unknown;
  return Array.isArray(list) ? list.length : undefined;
}

/** Nothing is ever claimed as covered, so that every sync asks for everything again. */
const neverCovered = 1000 * 365 * 24 * 3600 * 1000;

export async function scripted(
  options: {
    lookbackMs?: number;
    database?: { url: string; drop: () => Promise<void> };
    account?: string;
    /** Second of the test's time at which the mirror begins. */
    begins?: number;
    /** Sends requests elsewhere. */
    fetch?: Fetch;
    /** Share of the tickets that a sweep may find deleted. */
    mostDeleted?: number;
  } = {},
): Promise<Scripted> {
  const db = options.database ?? (await freshDatabase());
  const pool = makePool(db.url);
  const lists: Record<string, Says> = { tickets: [], spam: [], trash: [], customers: [], users: [] };
  const details: Record<string, unknown> = {};
  let nowMs = second(options.begins ?? 0);
  const clock: Clock = {
    now: () => nowMs,
    monotonic: () => nowMs,
    sleep: async ms => {
      nowMs += Math.ceil(ms);
    },
  };
  const refused = JSON.stringify({ message: 'No' });
  const answer = (path: string, query: URLSearchParams): { status: number; text: string } => {
    if (path in details) {
      const says = details[path];
      const said = typeof says === 'function' ? says() : says;
      if (typeof said === 'number') return { status: said, text: refused };
      return { status: 200, text: typeof said === 'string' ? said : JSON.stringify(said) };
    }
    const name = query.has('spam') ? 'spam' : query.has('trash') ? 'trash' : path.slice(1);
    const says = lists[name];
    if (says === undefined) return { status: 404, text: refused };
    const said = typeof says === 'function' ? says(query) : Number(query.get('page') ?? 1) > 1 ? [] : says;
    return { status: 200, text: typeof said === 'string' ? said : JSON.stringify(said) };
  };
  const send = makeSend({
    source: 'helpdesk',
    baseUrl: new URL('https://desk.example/api/v1'),
    dialect: helpdeskDialect,
    token: fixedToken('none'),
    budget: {
      acquire: async (cost, lane) => ({ id: '', cost, lane }),
      settle: async () => ({}),
      book: async () => {},
      thaw: async () => {},
    },
    clock,
    random: () => 0,
    log: pino({ level: 'silent' }),
    fetch:
      options.fetch ??
      (async url => {
        const path = decodeURIComponent(url.pathname.replace('/api/v1', ''));
        const answered = answer(path, url.searchParams);
        // All of a list is on its first page.
        const count = url.searchParams.get('count') === 'true' && countOf(answered.text);
        const counted = typeof count === 'number' && { 'total-count': String(count) };
        return { ...answered, headers: { date: new Date(nowMs).toUTCString(), ...counted } };
      }),
  });
  const account = options.account ?? 'default';
  const ctx: JobContext = {
    account,
    pg: pool,
    clock,
    random: () => 0,
    log: pino({ level: 'silent' }),
    signal: new AbortController().signal,
    streams,
    sources: sourcesOf(openHelpdesk(send, { lookbackMs: options.lookbackMs ?? neverCovered })),
    sweep: { ageMs: 7 * 86_400_000, mostDeleted: options.mostDeleted ?? 0.2 },
    claimant: { worker: 0, job: 'job' },
  };
  await register(
    pool,
    { account, sinceMs: 0 },
    deskLists.flatMap(stream => stream.lists.map(list => ({ stream: stream.key, list: list.name }))),
    new Date(nowMs),
  );
  return {
    url: db.url,
    pool,
    ctx,
    lists,
    details,
    goTo: n => {
      nowMs = second(n);
    },
    async sync(name, more = {}) {
      const run = await open(pool, [name], new Date(nowMs), { account, ...more });
      const list = deskLists.find(stream => stream.name === name);
      const read = more.kind === 'sweep' ? sweepStream : more.kind === 'backfill' ? backfillList : syncList;
      await runStream(
        ctx,
        { account, run, stream: keyOf(name) },
        { read: (job, claim) => (list ? read(job, claim, list) : hydrate(job, claim, messages)), isDone },
      );
      return (await readProgress(pool, run)).streams[0]!;
    },
    async claim(stream, more = {}) {
      const run = await open(pool, [stream], new Date(nowMs), { account, ...more });
      return take(pool, { account, run, stream: keyOf(stream) }, new Date(nowMs));
    },
    rows: async (sql, ...values) => (await pool.query<Record<string, unknown>>(sql, values)).rows,
    async [Symbol.asyncDispose]() {
      await pool.end();
      await db.drop();
    },
  };
}

/** A run of nobody who lives. */
export const open = (pool: pg.Pool, names: readonly string[], now: Date, more: Partial<NewRun> = {}): Promise<number> =>
  transaction(pool, client =>
    openRun(client, { account: 'default', kind: 'sync', streams: keysOf(names), opener: 0, ...more }, now),
  );

/** Takes the stream up, as a job that is delivered; throws if it is over or in other hands. */
export async function take(pool: pg.Pool, work: Omit<Claim, 'token' | 'kind' | 'again'>, now: Date): Promise<Claim> {
  const up = await takeUp(pool, work, { worker: 0, job: 'job' }, () => now);
  if ('taken' in up) return up.taken;
  throw new Error(`not taken up: ${JSON.stringify(up)}`);
}

const counters = ['seen', 'inserted', 'updated', 'unchanged', 'deleted', 'rejected', 'cleaned'] as const;
type Counts = Record<(typeof counters)[number], number>;
const each = (of: Partial<Counts>) => Object.fromEntries(counters.map(name => [name, of[name] ?? 0])) as Counts;

/** What a run counted, without the rest that it says of itself. */
export const counts = (progress: StreamProgress): Counts => each(progress);

export const counted = (more: Partial<Counts>): Counts => each(more);
