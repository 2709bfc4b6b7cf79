/**
 * How old a fresh change is when it is in PostgreSQL, while a backfill of a large desk runs at the limits of the real one: 100
 * credits a minute, 6 requests a second, 10 in reserve. On a virtual clock: the program's own code for runs, lists, messages,
 * budget and schedule slots, the sandbox in process, a real PostgreSQL; only time, network and queue are simulated. What the
 * mirror says of itself (sync.change_age) is held against what the world knows.
 *
 *   node bench/fresh-at-real-limits.ts [tickets, default 100000] [hours, default 3] [changes a minute, default 20]
 */
import pg from 'pg';
import { backfillStream } from '../jobs/backfill-stream.ts';
import { hydrateMessages } from '../jobs/hydrate-messages.ts';
import { sweepStream } from '../jobs/sweep-stream.ts';
import { syncStream } from '../jobs/sync-stream.ts';
import { plansFor } from '../src/queue/schedule.ts';
import { makeRng } from '../src/sandbox/random.ts';
import { openServices } from '../src/sandbox/services.ts';
import { streams } from '../src/streams/index.ts';
import { bindAccount } from '../src/warehouse/accounts.ts';
import { register } from '../src/warehouse/coverage.ts';
import { openBackfill } from '../src/warehouse/ranges.ts';
import { claimSlot } from '../src/warehouse/slots.ts';
import { Database } from '../test/sim/database.ts';
import { networkOf } from '../test/sim/network.ts';
import { planOf } from '../test/sim/plan.ts';
import { type Around, account, Process } from '../test/sim/process.ts';
import { Queue } from '../test/sim/queue.ts';
import { actor, Scheduler } from '../test/sim/scheduler.ts';
import { changeOne, percentile } from '../test/support/changes.ts';
import { openDatabase } from './lab.ts';

const tickets = Number(process.argv[2] ?? 100_000);
const hours = Number(process.argv[3] ?? 3);
const perMinute = Number(process.argv[4] ?? 20);
const beginMs = Date.UTC(2026, 5, 1, 12);
const minuteMs = 60_000;
/** Until then the newest hour is read, as by a mirror that is up to date. */
const warmMs = 15 * minuteMs;
const endMs = beginMs + warmMs + hours * 60 * minuteMs;
/** How often the tables are looked at. */
const lookMs = 1000;

await using lab = await openDatabase();
const database = await Database.open(lab.url);
await database.client.query(`set plan_cache_mode = force_custom_plan`);
const looks = new pg.Client({ connectionString: lab.url });
await looks.connect();

const scheduler = new Scheduler({ nowMs: beginMs, rng: makeRng(4), traced: false });
const now = () => scheduler.nowMs;
const services = openServices({ tickets, now, credits: 100, requestsPerSecond: 6, window: 'sliding', books: {} });
const { world } = services.helpdesk;
const queue = new Queue(scheduler, makeRng(7));
const plan = {
  ...planOf(1),
  limits: { credits: 100, periodMs: minuteMs, requestsPerSecond: 6, reserve: 10 },
};
const failed: unknown[] = [];
let refused = 0;
const around: Around = {
  ...{ plan, scheduler, database, defect: {}, rng: makeRng(8), databaseNow: now },
  jobs: [syncStream, backfillStream, hydrateMessages, sweepStream],
  fetchOf: networkOf({
    ...{ scheduler, services, rng: makeRng(9), slow: 0 },
    arrived: ({ status }) => {
      if (status === 429) refused++;
    },
  }),
  queueOf: by => queue.of(by),
  trouble: () => undefined,
  lateMs: () => 0,
  failed: why => failed.push(why),
};
const director = actor('director');
const calm = database.poolFor({ by: director, scheduler, now, trouble: () => undefined, lateMs: () => 0 });
const direct = async (act: () => Promise<unknown>) => {
  let done = false;
  let error: unknown;
  act().then(
    () => {
      done = true;
    },
    why => {
      done = true;
      error = why;
    },
  );
  await scheduler.run(() => done, 1e6);
  if (error !== undefined) throw error;
};
const lists = streams.flatMap(one =>
  one.source === 'helpdesk' && one.kind === 'list'
    ? one.lists.map(({ name }) => ({ stream: one.name, list: name }))
    : [],
);

await direct(async () => {
  await bindAccount(calm, account, { helpdesk: new URL('https://desk.example/api/v1') });
  await register(calm, account, beginMs - 60 * minuteMs, lists, new Date(beginMs));
});
const worker = new Process('w1', around);
let started = false;
worker.start().then(
  () => {
    started = true;
  },
  why => failed.push(why),
);
await scheduler.run(() => started);

// The schedule, minute by minute, as `start` keeps it.
const fresh = plansFor(new Set(['helpdesk'])).find(({ schedule }) => schedule === 'fresh')!;
const everyMinute = (slotMs: number) =>
  scheduler.at(slotMs, director, 'a slot is due', () => {
    everyMinute(slotMs + minuteMs);
    claimSlot(calm, account, fresh, new Date(slotMs), worker.id, new Date(now())).then(
      () => worker.ring(),
      why => failed.push(why),
    );
  });
everyMinute(beginMs);

// What happens at the desk, and when the tables know of it.
interface Change {
  readonly atMs: number;
  readonly ticket: string;
  readonly message: string | undefined;
  readonly updatedMs: number;
  ticketMs?: number;
}
const rng = makeRng(3);
const pending = new Map<string, Change>();
const truth = { tickets: [] as number[], messages: [] as number[] };
const nextChange = () =>
  scheduler.at(now() + (-Math.log(1 - rng()) * minuteMs) / perMinute, director, 'something changes', () => {
    const change = changeOne(world, rng, id => pending.has(id));
    pending.set(change.ticket, { ...change, atMs: now() });
    if (now() < endMs) nextChange();
  });
scheduler.at(beginMs + warmMs, director, 'people begin', nextChange);

async function look(): Promise<void> {
  if (pending.size === 0) return;
  const { rows } = await looks.query<{ id: string; updated: number; read: number | null }>(
    `select id, extract(epoch from updated_at)::float8 * 1000 as updated, extract(epoch from _messages_as_of)::float8 * 1000 as read
     from helpdesk.tickets where id = any ($1)`,
    [[...pending.keys()]],
  );
  for (const { id, updated, read } of rows) {
    const change = pending.get(id)!;
    if (updated < change.updatedMs) continue;
    if (change.ticketMs === undefined) truth.tickets.push((now() - change.atMs) / 1000);
    change.ticketMs ??= now();
    if (read === null || read < updated) continue;
    truth.messages.push((now() - change.atMs) / 1000);
    pending.delete(id);
  }
}

const cells = (values: readonly number[]) =>
  `p50 ${percentile(values, 0.5).toFixed(0)} s, p95 ${percentile(values, 0.95).toFixed(0)} s, worst ${Math.max(...values).toFixed(0)} s of ${values.length}`;

async function say(): Promise<void> {
  const { rows } = await looks.query(
    `select stream, sum(changes)::int as changes,
       extract(epoch from sync.change_age($1, stream, 50, $2))::int as p50, extract(epoch from sync.change_age($1, stream, 95, $2))::int as p95
     from sync.change_ages where minute >= $2 group by stream order by stream desc`,
    [account, new Date(beginMs + warmMs)],
  );
  const { rows: left } = await looks.query(
    `select count(*)::int as here, count(*) filter (where _messages_as_of >= updated_at)::int as read from helpdesk.tickets`,
  );
  const virtual = ((now() - beginMs - warmMs) / 3_600_000).toFixed(2);
  console.log(
    `after ${virtual} h (${Math.round(performance.now() / 1000)} s of ours): ${JSON.stringify(left[0])}, ${refused} refused`,
  );
  for (const stream of ['tickets', 'messages'] as const) {
    const ours = rows.find(row => row.stream === stream);
    if (!ours) continue;
    console.log(
      `  ${stream}: the mirror says p50 ${ours.p50} s, p95 ${ours.p95} s of ${ours.changes}; the world: ${cells(truth[stream])}`,
    );
  }
}

await scheduler.run(() => now() >= beginMs + warmMs, 1e7);
await direct(async () => {
  await register(calm, account, 0, lists, new Date(now()));
  await openBackfill(
    calm,
    {
      account,
      streams: ['customers', 'tickets', 'messages'],
      opener: worker.id,
      range: { since: null, until: null, again: false },
    },
    new Date(now()),
  );
});
worker.ring();
for (let next = now() + lookMs; now() < endMs && failed.length === 0; next += lookMs) {
  scheduler.at(next, director, 'the tables are looked at', () => {});
  await scheduler.run(() => now() >= next || failed.length > 0, 1e7);
  await look();
  if (Math.round((next - beginMs) / 1000) % 600 === 0) await say();
}
await say();
for (const why of failed) console.error(why);
await looks.end();
await database.close();
process.exitCode = failed.length > 0 || percentile(truth.messages, 0.95) >= 90 ? 1 : 0;
