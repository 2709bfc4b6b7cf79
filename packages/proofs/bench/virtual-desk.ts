/**
 * A help desk and a mirror of it on a virtual clock (virtual.ts), at the limits of the real one, with the usual schedule. People
 * change tickets, and the tables are looked at each second.
 */

import type pg from 'pg';
import { register } from '../../../src/engine/coverage/coverage.ts';
import { plansFor } from '../../../src/engine/queue/schedule.ts';
import { openBackfill } from '../../../src/engine/runs/ranges.ts';
import { claimSlot } from '../../../src/engine/runs/slots.ts';
import { streams, streamsOf } from '../../../src/sources/index.ts';
import { changeOne } from '../../../test/support/changes.ts';
import { makeRng } from '../../sandbox/src/random.ts';
import { lookbackMs } from '../sim/plan.ts';
import { account } from '../sim/process.ts';
import { openDatabase } from './lab.ts';
import { openVirtual } from './virtual.ts';

export const minuteMs = 60_000;
const lookMs = 1000;
const limits = { credits: 100, periodMs: minuteMs, requestsPerSecond: 6, reserve: 10 };
const lists = streams.flatMap(one =>
  one.source === 'helpdesk' && one.kind === 'list'
    ? one.lists.map(({ name }) => ({ stream: one.key, list: name }))
    : [],
);
const plans = plansFor(streamsOf(new Set(['helpdesk'])));

/** Seconds from each change to the tables. */
interface Ages {
  readonly tickets: number[];
  readonly messages: number[];
}

export interface VirtualDesk extends AsyncDisposable {
  readonly pool: pg.Pool;
  readonly now: () => number;
  /** All tickets are here, with their messages read: of a mirror that has no history left to read. The next sweep makes them whole. */
  fill(): Promise<void>;
  /** What the schedule opens each night: lists, names, sweeps. */
  openNight(): Promise<void>;
  openBackfill(): Promise<void>;
  /** So long nobody changes anything. */
  pass(ms: number): Promise<void>;
  /** `perMinute` changes at gaps of chance, until `done`, and then until all of them have arrived. */
  change(perMinute: number, done: () => boolean | Promise<boolean>): Promise<Ages>;
  /** Requests that the source refused for want of credits. */
  refused(): number;
}

/** The newest hour is wanted, and nothing else yet. */
export async function openVirtualDesk(tickets: number): Promise<VirtualDesk> {
  await using stack = new AsyncDisposableStack();
  const { pool, url } = stack.use(await openDatabase());
  const latencyMs = (chance: number) => 10 + 250 * chance;
  const virtual = stack.use(await openVirtual({ url, limits, latencyMs, tickets, window: 'sliding' }));
  const { scheduler, services, worker, director, direct, until, counted } = virtual;
  const { world } = services.helpdesk;
  const now = () => scheduler.nowMs;
  const pass = (ms: number) => until(now() + ms);
  const claim = (schedule: string) =>
    claimSlot(virtual.pg, account, plans.find(plan => plan.schedule === schedule)!, {
      slot: new Date(now()),
      opener: worker.id,
      now: new Date(now()),
    }).then(() => worker.ring());

  await direct(db => register(db, { account, sinceMs: now() - 60 * minuteMs }, lists, new Date(now())));
  const everyMinute = () => {
    scheduler.at(now() + minuteMs, director, 'a slot is due', everyMinute);
    virtual.background(claim('fresh'));
  };
  scheduler.at(now(), director, 'a slot is due', everyMinute);

  const rng = makeRng(3);
  async function change(perMinute: number, done: () => boolean | Promise<boolean>): Promise<Ages> {
    const pending = new Map<string, { atMs: number; updatedMs: number; listed: boolean }>();
    const ages: Ages = { tickets: [], messages: [] };
    let ended = false;
    const next = () =>
      scheduler.at(now() + (-Math.log(1 - rng()) * minuteMs) / perMinute, director, 'something changes', () => {
        if (ended) return;
        const { ticket, updatedMs } = changeOne(world, rng, id => pending.has(id));
        pending.set(ticket, { atMs: now(), updatedMs, listed: false });
        next();
      });
    next();
    while (!ended || pending.size > 0) {
      await pass(lookMs);
      ended ||= await done();
      if (pending.size === 0) continue;
      const { rows } = await pool.query<{ id: string; updated: number; read: number | null }>(
        `select id, extract(epoch from updated_at)::float8 * 1000 as updated, extract(epoch from _messages_as_of)::float8 * 1000 as read
         from helpdesk.tickets where account_id = $1 and id = any ($2)`,
        [account, [...pending.keys()]],
      );
      for (const { id, updated, read } of rows) {
        const one = pending.get(id)!;
        if (updated < one.updatedMs) continue;
        if (!one.listed) ages.tickets.push((now() - one.atMs) / 1000);
        one.listed = true;
        if (read === null || read < updated) continue;
        ages.messages.push((now() - one.atMs) / 1000);
        pending.delete(id);
      }
    }
    return ages;
  }

  async function fill(): Promise<void> {
    const all = [...world.tickets.values()].map(({ id, number, created_at, updated_at }) => ({
      ...{ id, number, created_at, updated_at },
    }));
    const client = await pool.connect();
    try {
      // Without history and metrics, which the first change of a ticket gives it.
      await client.query('set session_replication_role = replica');
      await client.query(
        `insert into helpdesk.tickets (account_id, id, number, created_at, updated_at, _messages_as_of, _first_seen_at, _synced_at, _observed_at, _payload)
         select $1, t.id, t.number, t.created_at, t.updated_at, $2, $2, $2, $2, '{}'
         from jsonb_to_recordset($3::jsonb) t (id text, number bigint, created_at timestamptz, updated_at timestamptz)
         on conflict do nothing`,
        [account, new Date(now()), JSON.stringify(all)],
      );
      await register(pool, { account, sinceMs: 0 }, lists, new Date(now()));
      await client.query(
        `update sync.coverage set covered = covered + tstzmultirange(tstzrange('1970-01-01', $2)) where account_id = $1 and stream = 'tickets'`,
        [account, new Date(now() - lookbackMs)],
      );
    } finally {
      client.release(true);
    }
  }

  const opened = stack.move();
  return {
    ...{ pool, now, fill, pass, change },
    openNight: () => direct(() => claim('nightly')),
    openBackfill: () =>
      direct(async db => {
        await register(db, { account, sinceMs: 0 }, lists, new Date(now()));
        const range = { since: null, until: null, again: false };
        const wanted = {
          account,
          streams: ['helpdesk.customers', 'helpdesk.tickets', 'helpdesk.messages'] as const,
          opener: worker.id,
          range,
        };
        await openBackfill(db, wanted, new Date(now()));
        worker.ring();
      }),
    refused: () => counted.refused,
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}
