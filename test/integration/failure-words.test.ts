/**
 * A source that quotes a person in its failures. Its words are in no table, job, event, log, page or alarm, before and after the
 * person is erased.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { describe, expect, test } from 'vitest';
import { makePool } from '../../src/engine/database/pool.ts';
import { around, type Instead, proxyTo, rowsWith } from '../support/canaries.ts';
import { settingsFor } from '../support/cli.ts';
import { here, ran } from '../support/here.ts';
import { long } from '../support/long.ts';
import { openSandbox } from '../support/open-sandbox.ts';
import { freshDatabase } from '../support/postgres.ts';
import { describeOnRedis } from '../support/redis.ts';

const name = 'Zoe Quillfeather';
const address = 'zoe@quillfeather.example';
const quote = `${name} <${address}> is unknown`;
const said = (status: number): Instead => ({ status, text: JSON.stringify({ message: quote }) });
const ofBooks = (status: number): Instead => ({
  ...{ status },
  text: JSON.stringify({ error: { code: status, message: quote, errors: [{ reason: name, message: quote }] } }),
});

interface Mirrored extends AsyncDisposable {
  readonly env: Record<string, string>;
  readonly pool: ReturnType<typeof makePool>;
  readonly queue: string;
  readonly customer: string;
  /** What the source answers to each path instead; undefined: its reply. */
  fault: (path: string) => Instead | undefined;
  /** Its exit code. */
  run(...args: string[]): Promise<number | null>;
  /** Where the person is. */
  found(): Promise<string[]>;
}

async function mirrored(redis?: string): Promise<Mirrored> {
  await using stack = new AsyncDisposableStack();
  const db = stack.use(await freshDatabase());
  const pool = makePool(db.url);
  stack.defer(() => pool.end());
  const sandbox = stack.use(
    await openSandbox({
      ...{ tickets: 30, customers: 8, seed: 3 },
      books: { requestsPerDay: 1_000_000, requestsPerSecond: 1_000_000, volumes: 10 },
    }),
  );
  const of: Pick<Mirrored, 'fault'> = { fault: () => undefined };
  const proxy = stack.use(await proxyTo(new URL(sandbox.url), (text, path) => of.fault(path) ?? text));
  const through = (url: string) => url.replace(/:\d+\//, `:${proxy.port}/`);
  const env = {
    ...settingsFor(db.url, { url: through(sandbox.url), token: sandbox.token }),
    ...{ BOOKS_BASE_URL: through(sandbox.books.url), BOOKS_API_KEY: sandbox.books.key },
    ...{ BOOKS_ACCESS_TOKEN: sandbox.books.token, BOOKS_REQUESTS_PER_SECOND: '1000', LOG_LEVEL: 'trace' },
    ...{ SCHEDULE_FRESH: '* * * * * *', SCHEDULE_NIGHTLY: '', BOOKS_AUDIT_VOLUMES_PER_HOUR: '0' },
    ...(redis !== undefined && { REDIS_URL: redis }),
  };
  const told: string[] = [];
  const run = async (...args: string[]) => {
    const { code, stdout, stderr } = await ran(args, env);
    told.push(stdout, stderr);
    return code;
  };
  expect(await run('sync')).toBe(0);
  const { rows } = await pool.query<{ queue: string; customer: string }>(
    'select a.queue, c.id as customer from sync.accounts a join helpdesk.customers c using (account_id) limit 1',
  );
  const opened = stack.move();
  return Object.assign(of, {
    ...{ env, pool, run, ...rows[0]! },
    async found() {
      const stored = [...(await rowsWith(pool, name)), ...(await rowsWith(pool, address))];
      const kept = redis === undefined ? [] : await everythingIn(redis);
      const texts = [...told, ...kept].flatMap(text => around(text, 'quillfeather') ?? []);
      return [...stored, ...texts];
    },
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  });
}

/** All keys and values of a Redis, as its own copies have them. */
async function everythingIn(url: string): Promise<string[]> {
  const redis = new Redis(url);
  try {
    const keys = await redis.keys('*');
    const values = await Promise.all(
      keys.map(async key => {
        const type = await redis.type(key);
        if (type === 'hash') return redis.hgetall(key);
        if (type === 'stream') return redis.xrange(key, '-', '+');
        if (type === 'list') return redis.lrange(key, 0, -1);
        if (type === 'zset') return redis.zrange(key, '0', '-1', 'WITHSCORES');
        return type === 'set' ? redis.smembers(key) : redis.get(key);
      }),
    );
    return values.map((value, i) => `${keys[i]} ${JSON.stringify(value)}`);
  } finally {
    redis.disconnect();
  }
}

/** Every way of failing, by every command that asks the source; with `only`, by the first ones. Then in a worker. */
async function failInEveryWay(at: Mirrored, only?: number): Promise<void> {
  const html = `<html><body>${quote}</body></html>`;
  let fifties = 0;
  const ways: [faults: Record<string, () => Instead | undefined>, ...args: string[]][] = [
    [
      {
        '/customers': () => said(422),
        '/users': () => (++fifties < 3 ? said(500) : undefined),
        '/tickets': () => ({ ...said(302), headers: { location: `/${encodeURIComponent(name)}` } }),
        '/bookshelves': () => ofBooks(403),
      },
      'sync',
    ],
    [
      { '/customers': () => ({ status: 400, text: html }), '/tickets': () => said(403) },
      'sync',
      'customers',
      'tickets',
    ],
    [{ '/tickets/': () => said(404), '/volumes': () => ofBooks(404) }, 'backfill', '--again'],
    [{ '/tickets': () => said(409) }, 'sweep', 'tickets'],
    [{ '/customers': () => said(422) }, 'verify'],
    [{ '/': () => said(422) }, 'doctor'],
  ];
  for (const [faults, ...args] of ways.slice(0, only)) {
    at.fault = path => Object.entries(faults).find(([part]) => path.includes(part))?.[1]();
    await at.run(...args);
  }
  at.fault = path => (path.includes('/customers') ? said(422) : undefined);
  const worker = here(['start'], at.env);
  const isTold = `select from sync.runs where kind = 'fresh' and state = 'failed'`;
  while ((await at.pool.query(isTold)).rowCount === 0) await delay(100);
  await at.run('status');
  await at.run('runs', 'list');
  const { stderr, stdout } = await worker.interrupt();
  expect(around(stdout + stderr, 'quillfeather')).toBeUndefined();
  expect(stderr).toMatch(/422/);
  const { rows } = await at.pool.query<{ error: string }>(
    'select distinct error from sync.stored_run_streams where error is not null',
  );
  const errors = rows.map(({ error }) => error).join('\n');
  for (const status of only === undefined ? [422, 400, 403, 302, 409] : [422, 302, 403])
    expect(errors).toMatch(new RegExp(`GET /.*: ${status}\\b`));
}

async function keepsNoWord(redis?: string): Promise<void> {
  await using at = await mirrored(redis);
  await failInEveryWay(at, redis === undefined ? undefined : 1);
  expect(await at.found()).toEqual([]);

  at.fault = () => undefined;
  expect(await at.run('erase', '--customer', at.customer, '--yes')).toBe(0);
  expect(await at.found()).toEqual([]);
  at.fault = path => (path.includes('/customers') ? said(422) : undefined);
  expect(await at.run('sync', 'customers')).toBe(1);
  expect(await at.found()).toEqual([]);
}

describe('the words of a failure', long, () => {
  test('are nowhere, with the queue in PostgreSQL', () => keepsNoWord());
});

describeOnRedis('with the queue in Redis', ({ url }) => {
  test('are nowhere, and in no key of it', () => keepsNoWord(url));
});
