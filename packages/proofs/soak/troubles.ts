/** What goes wrong in a soak, and how soon the work goes on after each. */
import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { between, type Rng } from '../../sandbox/src/random.ts';
import type { Crew } from './crew.ts';
import { type Postgres, patiently, type RedisServer, type Served } from './servers.ts';
import { usesOf } from './truth.ts';

export interface House {
  readonly postgres: Postgres;
  readonly redis: RedisServer;
  readonly sandbox: Served;
  readonly crew: Crew;
  /** Credits that the account has in a period. */
  readonly credits: number;
}

/** Does it, and says what it did. */
export type Trouble = (house: House, rng: Rng) => Promise<string>;

export const flushRedis: Trouble = async ({ redis }) => {
  await redis.flush();
  return 'Redis flushed';
};

export const killOne: Trouble = async ({ crew }, rng) => `kill -9 of ${await crew.end(rng, 'SIGKILL')}`;

/** Each comes once before one of them comes again. */
export const troubles: readonly Trouble[] = [
  flushRedis,
  async ({ redis, crew }) => {
    await Promise.all([redis.flush(), crew.killAll()]);
    return 'Redis flushed, and kill -9 of both workers';
  },
  async ({ redis }, rng) => {
    const seconds = between(rng, 2, 8);
    await redis.end('SIGTERM');
    await delay(seconds * 1000);
    await redis.start();
    return `Redis stopped for ${seconds} s`;
  },
  async ({ redis }) => {
    await redis.end('SIGKILL');
    await redis.start();
    return 'kill -9 of Redis';
  },
  async ({ postgres }) => {
    await postgres.restart('fast');
    return 'PostgreSQL restarted';
  },
  async ({ postgres }) => {
    await postgres.restart('immediate');
    return 'PostgreSQL crashed and recovered';
  },
  async ({ crew }, rng) => `SIGTERM to ${await crew.end(rng, 'SIGTERM')}`,
  async ({ crew }, rng) => {
    const seconds = between(rng, 10, 45);
    return `${await crew.suspend(rng, seconds * 1000)} stands still for ${seconds} s`;
  },
  async ({ sandbox }, rng) => {
    const seconds = between(rng, 5, 15);
    const fault = { kind: 'status', status: 503 };
    await sandbox.ask('PUT', '/faults/outage', { service: 'helpdesk', fault });
    await delay(seconds * 1000);
    await sandbox.ask('DELETE', '/faults/outage');
    return `the help desk answers 503 for ${seconds} s`;
  },
  async ({ sandbox }, rng) => {
    const { ids } = await sandbox.ask<{ ids: string[] }>('POST', '/bulk', { count: between(rng, 100, 400) });
    return `${ids.length} tickets change in one second`;
  },
  async ({ sandbox, credits }, rng) => {
    const some = Math.round((credits * between(rng, 3, 8)) / 100);
    await sandbox.ask('POST', '/credits', { credits: some });
    return `somebody else uses ${some} credits`;
  },
];

/**
 * All the time: five of a hundred requests fail, in every way in which a request can, two are slow, and two are answered
 * from a copy that is half a minute behind.
 */
export const faults = (seed: number) =>
  [
    { share: 0.01, fault: { kind: 'status', status: 503 } },
    { share: 0.005, fault: { kind: 'status', status: 500 } },
    { share: 0.005, fault: { kind: 'reset', after: 'before' } },
    { share: 0.005, fault: { kind: 'reset', after: 'headers' } },
    { share: 0.005, fault: { kind: 'reset', after: 'half' } },
    { share: 0.01, fault: { kind: 'truncate' } },
    { share: 0.01, fault: { kind: 'html' } },
    { share: 0.02, fault: { kind: 'delay', ms: 1500 } },
    { share: 0.02, fault: { kind: 'lag', seconds: 30 } },
  ].map((rule, at) => ({ id: `soak-${at}`, service: 'helpdesk', seed: seed * 100 + at, ...rule }));

/** From now on: until a credit is used, and until something that was read is written down. `longestMs`: it is not. */
export interface Going {
  readonly creditMs: number;
  readonly commitMs: number;
}

export async function goesOn({ sandbox, postgres }: House, longestMs: number): Promise<Going> {
  const begunMs = performance.now();
  const passed = () => Math.min(longestMs, Math.round(performance.now() - begunMs));
  const grows = async (count: () => Promise<number>) => {
    for (const before = await count(); (await count()) === before && passed() < longestMs; ) await delay(50);
    return passed();
  };
  const [creditMs, commitMs] = await Promise.all([
    grows(async () => (await usesOf(sandbox)).totals.credits),
    grows(() => patiently(() => seenBy(postgres.pool))),
  ]);
  return { creditMs, commitMs };
}

async function seenBy(db: pg.Pool): Promise<number> {
  const { rows } = await db.query<{ seen: string }>('select coalesce(sum(seen), 0) as seen from sync.run_streams');
  return Number(rows[0]!.seen);
}
