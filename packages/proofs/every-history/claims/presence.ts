/**
 * Who lives: all orders of what can happen to the connection of a process, with the real session, on a real PostgreSQL.
 * Each history is played from the beginning. After each event the tables and the locks must say who lives, and nobody else.
 */
import { createServer, connect as dial, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import type { Clock } from '../../../../src/clock.ts';
import { makePool } from '../../../../src/engine/database/pool.ts';
import type * as workers from '../../../../src/engine/runs/workers.ts';
import type * as living from '../../../../src/status/workers.ts';

export type PresenceProduct = Pick<typeof workers, 'attend' | 'isAlone'> &
  Pick<typeof living, 'liveWorkers' | 'workerLine'>;

/** A way to the database that can be closed, or keep silent. */
interface Door extends AsyncDisposable {
  readonly url: string;
  open: boolean;
  /** Both sides learn that the connection has ended; or only the client; or nobody, and nothing passes any more. */
  cut(sides: 'both' | 'client' | 'none'): void;
  /** The server learns it as well, and nothing is left of the connection. */
  tellServer(): void;
}

async function doorTo(url: string): Promise<Door> {
  const { hostname, port } = new URL(url);
  const pairs = new Set<{ client: Socket; server: Socket }>();
  const listener = createServer(client => {
    if (!door.open) return void client.destroy();
    const server = dial(Number(port), hostname);
    for (const one of [client, server]) one.on('error', () => {});
    client.pipe(server);
    server.pipe(client);
    pairs.add({ client, server });
  });
  await new Promise<void>(listening => listener.listen(0, '127.0.0.1', listening));
  const own = new URL(url);
  own.hostname = '127.0.0.1';
  own.port = String((listener.address() as { port: number }).port);
  const door: Door = {
    url: own.href,
    open: true,
    cut(sides) {
      for (const { client, server } of pairs) {
        client.unpipe(server);
        server.unpipe(client);
        server.resume();
        if (sides !== 'none') client.destroy();
        if (sides === 'both') server.destroy();
      }
    },
    tellServer() {
      for (const { client, server } of pairs) for (const one of [client, server]) one.destroy();
      pairs.clear();
    },
    async [Symbol.asyncDispose]() {
      for (const { client, server } of pairs) for (const one of [client, server]) one.destroy();
      await new Promise(closed => listener.close(closed));
    },
  };
  return door;
}

/** Time passes, and sleepers wake, only when they are told to. */
class Hand implements Clock {
  private nowMs = Date.UTC(2026, 0, 1);
  private sleepers: { ms: number; wake: () => void }[] = [];
  now(): number {
    return this.nowMs;
  }
  monotonic(): number {
    return this.nowMs;
  }
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      this.sleepers.push({ ms, wake: resolve });
      signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
    });
  }
  pass(ms: number): void {
    this.nowMs += ms;
  }
  /** Those who sleep for so long. */
  wake(ms: number): void {
    const due = this.sleepers.filter(one => one.ms === ms);
    this.sleepers = this.sleepers.filter(one => one.ms !== ms);
    for (const one of due) one.wake();
  }
}

const beatMs = 5000;
const againMs = 1000;
const gatheringMs = 10_000;

const events = {
  beat: 'the process asks whether its connection lives',
  cut: 'the connection ends, and none can be made',
  silent: 'nothing passes through the connection, and none can be made',
  'half cut': 'only the process learns that the connection has ended',
  again: 'a connection can be made again',
  gather: 'ten seconds pass',
  works: 'the process begins to take jobs',
  leave: 'the process leaves the first account',
  other: 'another process comes',
} as const;
type Event = keyof typeof events;

/** What must be true. */
interface Truth {
  readonly link: 'up' | 'down' | 'half';
  /** Since it came, or ten seconds after it came back. */
  readonly gathered: boolean;
  readonly works: boolean;
  readonly left: boolean;
  /** It left without a connection: its row is that of a dead one, until another process comes. */
  readonly ghost: boolean;
  /** What of the two the database knows: without a connection it is told later. */
  readonly told: { readonly works: boolean; readonly left: boolean };
  /** Whether the row of the first account is there: another process removes it from who seems dead. */
  readonly row: boolean;
  readonly other: boolean;
}
const no = { works: false, left: false };
const beginning: Truth = { link: 'up', gathered: true, ...no, ghost: false, told: no, row: true, other: false };

const lives = ({ link }: Truth) => link !== 'down';

/** Undefined: it cannot happen now. */
function following(event: Event, before: Truth): Truth | undefined {
  const after = changed(event, before);
  if (after === undefined || after.ghost || after.link !== 'up') return after;
  return { ...after, told: { works: after.works, left: after.left } };
}

function changed(event: Event, before: Truth): Truth | undefined {
  const isUp = before.link === 'up';
  switch (event) {
    case 'beat':
      return isUp ? before : undefined;
    case 'cut':
    case 'silent':
      return isUp ? { ...before, link: 'down', gathered: false } : undefined;
    case 'half cut':
      return isUp ? { ...before, link: 'half', gathered: false } : undefined;
    case 'again':
      return isUp ? undefined : { ...before, link: 'up', gathered: false, row: before.row || !before.ghost };
    case 'gather':
      return isUp && !before.gathered ? { ...before, gathered: true } : undefined;
    case 'works':
      return before.works || before.left ? undefined : { ...before, works: true };
    case 'leave':
      return before.left ? undefined : { ...before, left: true, ghost: before.link === 'down' };
    case 'other':
      return before.other ? undefined : { ...before, other: true, row: before.row && lives(before) && !before.ghost };
  }
}

/** All histories of `most` events, or of fewer where nothing more can happen. Each event happens once. */
function* historiesOf(most: number, before: Truth, so: readonly Event[]): Generator<readonly Event[]> {
  const next = (Object.keys(events) as Event[]).filter(one => !so.includes(one) && following(one, before));
  if (so.length === most || next.length === 0) return yield so;
  for (const one of next) yield* historiesOf(most, following(one, before)!, [...so, one]);
}

const process = { works: false, host: 'here', pid: 1, version: 'now', page: { url: 'http://here' } };
const late = { works: true, host: 'there', pid: 2, version: 'now' };
const accounts = ['default', 'other'] as const;

export interface PresencePlayed {
  readonly histories: number;
  readonly complaint?: { readonly what: string; readonly story: readonly string[] };
}

/** All histories of `most` events, after `first`. */
export interface PresencePlays {
  readonly most: number;
  readonly first?: readonly Event[];
}

/** Two events find nearly all. The others need that a connection is away while something happens. */
export const presencePlays: readonly PresencePlays[] = [
  { most: 1 },
  { most: 1, first: ['works', 'cut', 'other'] },
  { most: 2, first: ['cut'] },
  { most: 2 },
];

/** On a database with all tables and no workers. */
export async function playPresence(
  url: string,
  product: PresenceProduct,
  { most, first = [] }: PresencePlays,
): Promise<PresencePlayed> {
  const pool = makePool(url);
  let histories = 0;
  try {
    const before = first.reduce((truth, event) => following(event, truth)!, beginning);
    for (const history of historiesOf(first.length + most, before, first)) {
      histories++;
      const wrong = await play(url, pool, product, history);
      if (wrong === undefined) continue;
      return {
        histories,
        complaint: { what: wrong.what, story: history.slice(0, wrong.at + 1).map(one => events[one]) },
      };
    }
    return { histories };
  } finally {
    await pool.end();
  }
}

async function play(url: string, pool: pg.Pool, product: PresenceProduct, history: readonly Event[]) {
  await using stack = new AsyncDisposableStack();
  await pool.query('truncate sync.workers restart identity');
  // Two that are dead: one goes when a process comes to its account, one stays.
  await pool.query(
    `insert into sync.workers (account_id, works, host, pid, version, started_at)
     values ('default', true, 'gone', 9, 'old', '2025-01-01'), ('third', true, 'gone', 9, 'old', '2025-01-01')`,
  );
  const door = stack.use(await doorTo(url));
  const clock = new Hand();
  const attendance = await product.attend(door.url, clock);
  let ended = false;
  stack.defer(async () => {
    door.open = true;
    if (!ended) await attendance[Symbol.asyncDispose]();
  });
  const mine = [
    await attendance.enter({ ...process, account: 'default' }),
    await attendance.enter({ ...process, account: 'other' }),
  ];
  const ids = mine.map(one => one.id);
  let others: { id: number } | undefined;
  let truth = beginning;

  /** What the database says, and what the process says of itself. */
  const found = async () => {
    const { rows } = await pool.query(
      `select id, account_id, works, host, pid, page_url, started_at::date::text as day, sync.is_alive(id) as alive,
         id in (select id from sync.live_workers) as listed from sync.workers order by id`,
    );
    const { rows: locks } = await pool.query('select n from generate_series(1, 9) n where sync.is_alive(n) order by 1');
    const named = async (account: string) =>
      (await product.liveWorkers(pool, [account])).map(({ id, pid }) => [id, pid]);
    return JSON.stringify({
      rows: rows.map(row => Object.values(row)),
      alive: locks.map(({ n }) => n),
      takeJobs: [await named('default'), await named('other')],
      together: (await product.liveWorkers(pool, ['default', 'third', 'other'])).map(one =>
        Object.values(product.workerLine(one)),
      ),
      alone: [await product.isAlone(pool, 'default', ids[0]!), await product.isAlone(pool, 'other', ids[1]!)],
      seesAll: mine.map(one => one.seesAll()),
    });
  };
  const wanted = () => {
    const { told, ghost, row, other, gathered, link } = truth;
    const alive = (n: number) => lives(truth) && !(n === 0 && ghost);
    const day = '2026-01-01';
    const own = ids.map((id, n) => [
      id,
      accounts[n],
      n === 0 && told.works,
      'here',
      1,
      'http://here',
      day,
      alive(n),
      alive(n),
    ]);
    const there = own.filter((_, n) => n > 0 || (row && !told.left));
    const newcomer = other ? [[others!.id, 'default', true, 'there', 2, null, day, true, true]] : [];
    const dead = [[2, 'third', true, 'gone', 9, null, '2025-01-01', false, false]];
    const living = [...there.filter(one => one.at(-1)), ...newcomer];
    const taking = living.filter(one => one[2]).map(one => one as unknown[]);
    return JSON.stringify({
      rows: [...dead, ...there, ...newcomer].sort((a, b) => Number(a[0]) - Number(b[0])),
      alive: living.map(([id]) => id).sort(),
      takeJobs: ['default', 'other'].map(its => taking.filter(one => one[1] === its).map(one => [one[0], one[4]])),
      together: taking.map(one => [one[1], one[0], one[3], one[4]]).sort(),
      alone: [!other, true],
      seesAll: mine.map(() => link === 'up' && gathered),
    });
  };
  /** A connection that ends or is made takes a moment. */
  const settled = async () => {
    const must = wanted();
    let is = '';
    for (let looks = 0; looks < 60; looks++) {
      is = await found();
      if (is === must) return undefined;
      if (door.open) clock.wake(againMs);
      await delay(looks);
    }
    return `it is ${is}, and should be ${must}`;
  };
  const carryOut: Record<Event, () => unknown> = {
    beat: () => clock.wake(beatMs),
    cut() {
      door.open = false;
      door.cut('both');
      door.tellServer();
    },
    async silent() {
      door.open = false;
      door.cut('none');
      // It asks, and then its patience ends.
      for (let times = 0; times < 3; times++) {
        clock.wake(beatMs);
        await delay(5);
      }
      for (let looks = 0; looks < 30 && mine[0]!.seesAll(); looks++) await delay(looks);
      const waits = mine[0]!.seesAll();
      door.tellServer();
      return waits ? 'it waits for an answer for ever' : undefined;
    },
    'half cut': () => door.cut('client'),
    again() {
      door.open = true;
      door.tellServer();
    },
    gather: () => clock.pass(gatheringMs),
    works: () => mine[0]!.works(),
    leave: () => mine[0]![Symbol.asyncDispose](),
    async other() {
      const late_ = stack.use(await product.attend(url, new Hand()));
      others = await late_.enter({ ...late, account: 'default' });
    },
  };
  for (const [at, event] of history.entries()) {
    const after = following(event, truth)!;
    const refused = await carryOut[event]();
    if (typeof refused === 'string') return { at, what: refused };
    truth = after;
    const what = await settled();
    if (what) return { at, what };
  }
  if (truth.link !== 'up') return undefined;
  ended = true;
  await attendance[Symbol.asyncDispose]();
  const { rows } = await pool.query('select from sync.workers where id = any($1)', [truth.ghost ? ids.slice(1) : ids]);
  return rows.length > 0 ? { at: history.length - 1, what: 'it has ended, and its row is still there' } : undefined;
}
