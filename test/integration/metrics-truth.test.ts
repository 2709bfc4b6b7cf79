/**
 * The metrics of a whole help desk, mirrored by the real program while it changes between one reading and the next, against
 * the same definitions in plain code (metrics-in-words.ts) over what the help desk truly holds.
 */
import type pg from 'pg';
import { describe, expect, test } from 'vitest';
import { ticketRecord } from '../../packages/sandbox/src/helpdesk/records.ts';
import type { World } from '../../packages/sandbox/src/helpdesk/world/world.ts';
import { makeRng } from '../../packages/sandbox/src/random.ts';
import { startSandbox } from '../../packages/sandbox/src/server.ts';
import { makePool } from '../../src/engine/database/pool.ts';
import { weekdays } from '../support/business-in-words.ts';
import type { Look } from '../support/history-in-words.ts';
import { amount, long } from '../support/long.ts';
import { type Metrics, metricsInWords } from '../support/metrics-in-words.ts';
import { configFor, noSandboxLimits, syncOnce, unannounced } from '../support/mirror.ts';
import { freshDatabase } from '../support/postgres.ts';
import { told } from '../support/told.ts';

const zone = 'Europe/Berlin';

/** When the mirror began changes no metric. */
const known = { lookbackMs: 120_000, sinceMs: 0 };

const round = (value: unknown) => (typeof value === 'number' ? Math.round(value * 1000) / 1000 : value);
const shown = (value: unknown) => (value instanceof Date ? value.toISOString() : round(value));

/** Each metric of each ticket that is not what plain code makes of it. */
async function differences(db: pg.Pool, expected: ReadonlyMap<string, Metrics>): Promise<string[]> {
  const { rows } = await db.query<Record<string, unknown>>('select * from analytics.ticket_metrics');
  const found: string[] = [];
  for (const row of rows) {
    const words = expected.get(String(row.ticket_id));
    if (!words) found.push(`${row.ticket_id}: too many`);
    for (const [metric, value] of Object.entries(words ?? {})) {
      if (round(value) !== shown(row[metric]))
        found.push(`${row.ticket_id} ${metric}: ${shown(row[metric])} instead of ${round(value)}`);
    }
  }
  if (rows.length !== expected.size) found.push(`${rows.length} tickets instead of ${expected.size}`);
  return found;
}

/** Without requests, for the time that 20,000 of them take: what has changed, as a reply in detail shows it. */
async function readAll(url: string, world: World, touched: Map<string, number>): Promise<void> {
  const pool = makePool(url);
  try {
    await pool.query(`insert into sync.accounts (account_id) values ('default') on conflict do nothing`);
    const waiting = [...world.tickets.values()].filter(({ id, touched: now }) => touched.get(id) !== now);
    const asOfMs = world.clock.now();
    const work = async () => {
      for (let ticket = waiting.pop(); ticket; ticket = waiting.pop()) {
        await told(pool, 'default', asOfMs, ticketRecord(ticket), ticket.messages);
        touched.set(ticket.id, ticket.touched);
      }
    };
    await Promise.all([work(), work(), work(), work()]);
  } finally {
    await pool.end();
  }
}

const worlds = [
  { tickets: amount(250, 100, 30), changes: amount(200, 80, 25), rounds: 2, way: 'by HTTP', takes: {} },
  // TRUTH_TICKETS=20000 takes seven minutes.
  {
    tickets: Number(process.env.TRUTH_TICKETS || amount(2000, 500)),
    changes: amount(1000, 250),
    rounds: 3,
    way: 'ticket by ticket',
    takes: { ...long, timeout: 1_200_000 },
  },
];

describe.each(worlds)(
  '$tickets tickets with years of history, read $way',
  ({ tickets, changes, rounds, way, takes }) => {
    test('every metric of every ticket is what plain code makes of it, while they change', takes, async () => {
      await using db = await freshDatabase();
      const sandbox = await startSandbox({ ...noSandboxLimits, tickets, seed: 11 });
      try {
        await db.pool.query(`
      insert into analytics.calendars values ('office', '${zone}');
      insert into analytics.calendar_hours select 'office', d, '09:00', '17:00' from generate_series(1, 5) d;
      insert into internal.stored_calendar_assignments values ('default', null, 'office')`);
        const business = weekdays(zone, 9, 17);
        const config = configFor(db.url, sandbox);
        const { world } = sandbox;
        const rng = makeRng(5);
        const looks = new Map<string, Look[]>();
        const touched = new Map<string, number>();
        for (let n = 0; n <= rounds; n++) {
          for (let left = n === 0 ? 0 : changes; left > 0; left--) {
            const { id } = world.mutate(rng, unannounced);
            // A machine acknowledges, and now and then a message is taken back.
            const ticket = left % 5 === 0 ? world.tickets.get(id) : undefined;
            if (ticket && left % 2 === 0)
              world.addMessage(id, { direction: 'out', user_id: null, body: 'We have it.' });
            else if (ticket?.messages[1]) world.removeMessage(id, ticket.messages[1].id);
          }
          // One is given from hand to hand, whatever chance brings.
          const [given] = world.tickets.keys();
          world.patchTicket(given!, { user_id: [...world.users.keys()][n]! });
          if (way === 'by HTTP') expect((await syncOnce(config)).exitCode).toBe(0);
          else await readAll(config.databaseUrl!, world, touched);
          // When it was read is the mirror's to say; what was read, the world's.
          const { rows } = await db.pool.query<{ id: string; _observed_at: Date; by: Date }>(
            'select id, _observed_at, sync.true_by(_true_by, _observed_at) as by from helpdesk.tickets',
          );
          for (const { id, _observed_at, by } of rows) {
            const seen = looks.get(id) ?? [];
            const observedMs = _observed_at.getTime();
            if (seen.at(-1)?.observedMs === observedMs) continue;
            const ticket = structuredClone(ticketRecord(world.ticket(id)));
            looks.set(id, [...seen, { ticket, observedMs, byMs: by.getTime() }]);
          }
          const expected = new Map(
            [...looks].map(
              ([id, all]) => [id, metricsInWords(all, world.ticket(id).messages, business, known)] as const,
            ),
          );
          expect(await differences(db.pool, expected)).toEqual([]);
        }
        // It was about something: each kind of ticket is among them.
        const { rows } = await db.pool.query(`
      select count(*) filter (where reopen_count > 0) > 0 as reopened, count(*) filter (where is_outbound_initiated) > 0 as opened_by_team,
        count(*) filter (where is_one_touch) > 0 as one_touch, count(*) filter (where is_unreplied) > 0 as unreplied,
        count(*) filter (where turns > 1) > 0 as turns, count(*) filter (where assignment_count > 1) > 0 as reassigned,
        count(*) filter (where automatic_count > 0) > 0 as automatic, bool_and(messages_complete) as complete,
        count(*) filter (where first_response_business_seconds between 1 and first_response_seconds - 1) > 0 as business
      from analytics.ticket_metrics`);
        expect(rows[0]).toEqual({
          reopened: true,
          opened_by_team: true,
          one_touch: true,
          unreplied: true,
          turns: true,
          reassigned: true,
          automatic: true,
          complete: true,
          business: true,
        });
      } finally {
        await sandbox.close();
      }
    });
  },
);
