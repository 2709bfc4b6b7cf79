/** How old a change is when it is in PostgreSQL: while nothing else is to be read, during a backfill, during the work of a night. */
import { setTimeout as delay } from 'node:timers/promises';
import { changeAndWatch, percentile } from '../../../../test/support/changes.ts';
import { settingsFor } from '../../../../test/support/cli.ts';
import { startWorker } from '../../../../test/support/workers.ts';
import { makeRng } from '../../../sandbox/src/random.ts';
import { startSandbox } from '../../../sandbox/src/server.ts';
import { limitsOf, openDatabase } from '../lab.ts';
import type { Report, Section } from '../report.ts';
import { minuteMs, openVirtualDesk, type VirtualDesk } from '../virtual-desk.ts';

const tickets = 100_000;
const hours = 1;
const perMinute = 20;
/** p95, in seconds: a slot each minute, and half a minute to read what came in it. */
const mostSeconds = 90;

const real = { tickets: 5000, credits: 12_000, requestsPerSecond: 720, perMinute: 120, mostSeconds: 5 };

export const freshness: Section = {
  name: 'freshness',
  title: 'Freshness',
  about: `From a change at the help desk until it can be asked for in SQL. First at the limits of the real one, on a virtual clock, with the program's own code: 100 credits a minute, 6 requests a second, 10 credits in reserve, ${tickets.toLocaleString('en-US')} tickets, ${perMinute} changes a minute, a slot of the schedule each minute, so that a change waits half a minute before anybody looks. Idle and backfill: ${hours} hour of each; the night: until its lists and sweeps are done. Then in real processes: ${real.tickets.toLocaleString('en-US')} tickets at 120 times the real limits, a slot each second, as long as there is a backlog.`,
  run: async report => {
    const endless = (desk: VirtualDesk) => {
      const untilMs = desk.now() + hours * 60 * minuteMs * (report.quick ? 0.1 : 1);
      return () => desk.now() >= untilMs;
    };
    await measure(report, 'idle', async desk => {
      await desk.fill();
      return endless(desk);
    });
    await measure(report, 'during a backfill', async desk => {
      await desk.openBackfill();
      return endless(desk);
    });
    await measure(report, 'during the work of a night', async desk => {
      await desk.fill();
      await desk.openNight();
      return () => isNightOver(desk);
    });
    await inProcesses(report);
  },
};

async function measure(
  { quick, figure }: Report,
  when: string,
  begin: (desk: VirtualDesk) => Promise<() => boolean | Promise<boolean>>,
): Promise<void> {
  await using desk = await openVirtualDesk(quick ? tickets / 10 : tickets);
  // The newest hour is read, as by a mirror that is up to date.
  await desk.pass(15 * minuteMs);
  const done = await begin(desk);
  const since = new Date(desk.now());
  const ages = await desk.change(perMinute, done);
  for (const stream of ['tickets', 'messages'] as const) {
    const says = (share: number) => [percentile(ages[stream], share)];
    const judged = stream === 'messages' ? { atMost: mostSeconds, headline: true } : {};
    figure({ what: `${when}: a change's ${stream}, p50`, unit: 's', rounds: says(0.5) });
    figure({ what: `${when}: a change's ${stream}, p95`, unit: 's', rounds: says(0.95), ...judged });
  }
  const { rows } = await desk.pool.query<{ p95: number }>(
    `select extract(epoch from sync.change_latency('default', 'messages', 95, $1))::float8 as p95`,
    [since],
  );
  figure({
    what: `${when}: what the mirror says of itself (sync.change_latency, p95), of that`,
    unit: '×',
    rounds: [rows[0]!.p95 / percentile(ages.messages, 0.95)],
    ...{ atLeast: 0.9, atMost: 1.1 },
  });
  figure({ what: `${when}: changes`, unit: '', rounds: [ages.messages.length] });
  figure({ what: `${when}: requests refused`, unit: '', rounds: [desk.refused()], atMost: 0 });
}

async function isNightOver({ pool }: VirtualDesk): Promise<boolean> {
  const { rows } = await pool.query(
    `select from sync.runs where kind in ('nightly', 'sweep') and state not in ('completed', 'partial')`,
  );
  return rows.length === 0;
}

async function inProcesses({ quick, figure }: Report): Promise<void> {
  await using database = await openDatabase();
  const { pool, url } = database;
  const { credits, requestsPerSecond } = real;
  const size = quick ? real.tickets / 2 : real.tickets;
  const sandbox = await startSandbox({ credits, requestsPerSecond, window: 'sliding', tickets: size });
  const worker = startWorker({
    ...settingsFor(url, sandbox),
    ...limitsOf({ credits, requestsPerSecond }, credits / 10),
    SCHEDULE_FRESH: '* * * * * *',
  });
  try {
    // The first night is caught up: the lists of a first load, and then the messages, which are the backlog.
    const isUnderWay = `select from sync.runs n, sync.run_streams s
      where n.kind = 'nightly' and n.state = 'completed' and s.stream = 'messages' and s.state = 'running'`;
    while ((await pool.query(isUnderWay)).rows.length === 0) await delay(100);
    const changes = changeAndWatch(pool, sandbox.world, makeRng(7), real.perMinute);
    // Near its end the backlog does not take all any more.
    const isBacklog = `select from sync.status where stream = 'messages' and waiting > 200`;
    while ((await pool.query(isBacklog)).rows.length > 0) await delay(500);
    await changes.end(2 * minuteMs);
    const { arrivals, pending } = changes;
    const p = (times: number[], share: number) => [percentile(times, share) / 1000];
    const listed = arrivals.map(one => one.ticketMs);
    const read = arrivals.map(one => one.messagesMs);
    const when = 'in real processes, during a backlog';
    figure({ what: `${when}: a change's tickets, p95`, unit: 's', rounds: p(listed, 0.95) });
    figure({ what: `${when}: a change's messages, p50`, unit: 's', rounds: p(read, 0.5) });
    const judged = { atMost: real.mostSeconds, headline: true };
    figure({ what: `${when}: a change's messages, p95`, unit: 's', rounds: p(read, 0.95), ...judged });
    figure({ what: `${when}: changes`, unit: '', rounds: [arrivals.length] });
    figure({ what: `${when}: changes that never came`, unit: '', rounds: [pending.size], atMost: 0 });
    figure({ what: `${when}: requests refused`, unit: '', rounds: [sandbox.totals.refused], atMost: 0 });
  } finally {
    worker.kill('SIGTERM');
    await worker.finished;
    await sandbox.close();
  }
}
