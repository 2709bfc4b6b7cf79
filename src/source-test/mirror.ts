/** The engine as it is, over a real database: it reads the derived service, and its process can be killed at any request. */
import type pg from 'pg';
import { openLog, openSource } from '../app/open-context.ts';
import { settings } from '../app/settings.ts';
import type { JobContext } from '../engine/context.ts';
import { register } from '../engine/coverage/coverage.ts';
import { makeLedgerPool, makePool, transaction } from '../engine/database/pool.ts';
import { openSweep } from '../engine/deletions/swept-ranges.ts';
import { openWays } from '../engine/http/ways.ts';
import { readsOf, runStream } from '../engine/load/run-stream.ts';
import { nameAccount } from '../engine/runs/accounts/accounts.ts';
import { openRun, readProgress, type StreamProgress } from '../engine/runs/runs.ts';
import { Interrupted, Spent } from '../errors.ts';
import { OpenStack } from '../open-stack.ts';
import { filterOf } from '../privacy/fields/field-rules.ts';
import type { Connection, Source, Stream } from '../sources/source.ts';
import type { TestClock } from './clock.ts';
import { rngOf } from './rng.ts';
import { secondMs } from './world.ts';

type Kind = 'sync' | 'backfill' | 'sweep';

/** The database of a test, for any number of accounts. */
export interface Ground extends AsyncDisposable {
  readonly pool: pg.Pool;
  readonly ledger: pg.Pool;
}

export async function openGround(url: string): Promise<Ground> {
  await using stack = new OpenStack();
  const pool = makePool(url);
  stack.defer(() => pool.end());
  const ledger = makeLedgerPool(url);
  stack.defer(() => ledger.end());
  const opened = stack.move();
  return { pool, ledger, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

export function connectionTo(source: Source, url: string, account: string): Connection {
  const values = Object.fromEntries(
    Object.entries(source.settings).map(([name, { schema }]) => [name, schema.safeParse(undefined).data]),
  );
  const key = Object.keys(values).find(name => name.endsWith('_KEY'))!;
  const of = { account, whereIs: () => 'the test', whereTo: 'in the test' };
  const configured = source.configure({ ...values, [source.address]: new URL(url), [key]: 'key-of-a-test' }, of);
  return source.connect(configured)!;
}

/** A process that reads. Killed, it writes and asks nothing any more, and what it had begun is rolled back. */
class Life {
  readonly gone = new AbortController();
  get isOver(): boolean {
    return this.gone.signal.aborted;
  }
}

const never = 0;
const numberOf = (name: string): number => Number(settings[name]!.default);
const sweep = {
  ageMs: numberOf('SWEEP_AGE_DAYS') * 86_400_000,
  mostDeleted: numberOf('SWEEP_MOST_DELETED_PERCENT') / 100,
};
const replyBytes = 100_000_000;

/** A stream that its limits put off so often is read to no end. */
const mostPutOff = 100;

interface Place {
  readonly url: string;
  readonly account: string;
  readonly signal: AbortSignal | undefined;
}

export class Mirror {
  readonly #ground: Ground;
  readonly #source: Source;
  readonly #clock: TestClock;
  readonly #url: string;
  readonly account: string;
  readonly connection: Connection;
  readonly #signal: AbortSignal | undefined;
  #life = new Life();
  /** Until when the engine has put its work off. */
  #untilMs: number | undefined;

  constructor(ground: Ground, source: Source, clock: TestClock, { url, account, signal }: Place) {
    this.#ground = ground;
    this.#source = source;
    this.#clock = clock;
    this.#url = url;
    this.account = account;
    this.#signal = signal;
    this.connection = connectionTo(source, url, account);
  }

  async open(lookbackMs: number): Promise<void> {
    const { pool } = this.#ground;
    const { name, address, label, streams } = this.#source;
    await nameAccount(pool, this.account, [{ name, setting: address, label, address: new URL(this.#url) }]);
    const lists = streams.flatMap(stream =>
      stream.kind === 'list' ? stream.lists.map(({ name: list }) => ({ stream: stream.key, list, lookbackMs })) : [],
    );
    await register(pool, { account: this.account, sinceMs: 0 }, lists, new Date(this.#clock.now()));
  }

  /** kill -9 of the process that reads now. */
  kill(): void {
    this.#life.gone.abort(new Interrupted());
  }

  /** Reads a stream to its end. What the engine puts off until the limits allow it is read then. */
  async read(stream: Stream, kind: Kind): Promise<StreamProgress> {
    for (let putOff = 0; ; putOff++) {
      const read = await this.#read(stream, kind);
      if (this.#untilMs === undefined || putOff === mostPutOff) return read;
      this.#clock.move(Math.max(secondMs, this.#untilMs - this.#clock.now()));
      this.#untilMs = undefined;
    }
  }

  /** A process that is killed is followed by another one. */
  async #read(stream: Stream, kind: Kind): Promise<StreamProgress> {
    const { pool } = this.#ground;
    const { account } = this;
    const now = new Date(this.#clock.now());
    const of = { account, streams: [stream.key], opener: never };
    const run =
      kind === 'sweep'
        ? (await openSweep(pool, { ...of, acceptDeletions: false }, now)).run
        : await transaction(pool, client => openRun(client, { ...of, kind }, now));
    do {
      this.#signal?.throwIfAborted();
      const life = new Life();
      this.#life = life;
      const end = () => life.gone.abort(new Interrupted());
      this.#signal?.addEventListener('abort', end, { once: true });
      await this.#live(life, run, stream, kind);
      this.#signal?.removeEventListener('abort', end);
    } while (this.#life.isOver);
    return (await readProgress(pool, run)).streams[0]!;
  }

  async #live(life: Life, run: number, stream: Stream, kind: Kind): Promise<void> {
    const source = this.#source;
    const clock = this.#clock;
    const { pool, ledger } = this.#ground;
    const random = rngOf(run);
    const log = openLog({ logLevel: 'silent' });
    await using ways = openWays();
    const open = openSource(source, this.connection, {
      ...{ account: this.account, ledger: mortal(ledger, life, clock), log, clock, random, ways, replyBytes },
      filter: filterOf(undefined),
      now: () => clock.now(),
    });
    const ctx: JobContext = {
      ...{ account: this.account, pg: mortal(pool, life, clock), clock, random, log, signal: life.gone.signal },
      ...{ sources: new Map([[source.name, open]]), streams: source.streams, sweep },
      claimant: { worker: never, job: 'test' },
    };
    const work = { account: this.account, run, stream: stream.key };
    await runStream(ctx, work, readsOf(stream, kind)).catch(({ cause }: Error) => {
      if (cause instanceof Spent) this.#untilMs = cause.until.getTime();
    });
    if (!life.isOver) await open.send.book();
  }
}

/** The pool of a process: once that is killed, nothing of it reaches the database. */
function mortal(pool: pg.Pool, life: Life, clock: TestClock): pg.Pool {
  const alive = <T>(work: () => Promise<T>): Promise<T> =>
    life.isOver ? Promise.reject(new Interrupted()) : clock.during(work);
  const session = (client: pg.PoolClient): pg.PoolClient =>
    new Proxy(client, {
      get(target, name) {
        if (name === 'query')
          return (...args: Parameters<typeof client.query>) => alive(() => target.query(...args) as never);
        // Without its session a transaction that was begun is rolled back.
        if (name === 'release') return (error?: Error | boolean) => target.release(life.isOver || error);
        const value = Reflect.get(target, name, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
  return new Proxy(pool, {
    get(target, name) {
      if (name === 'query')
        return (...args: Parameters<typeof pool.query>) => alive(() => target.query(...args) as never);
      if (name === 'connect') return () => alive(async () => session(await target.connect()));
      const value = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
