/**
 * How soon changes are in Postgres while a backlog of messages takes all the credits there are: real processes, the
 * sandbox, PostgreSQL. Figures beside their limits; ends with 1 where the judged one is missed.
 *
 *   node bench/fresh-during-backfill.ts             20,000 tickets at 120 times the real limits: about 4 minutes
 *   node bench/fresh-during-backfill.ts real        5 minutes at the real limits, 10 changes a minute
 *   … [credits a minute] [fixed | sliding] [changes a minute] [tickets] [seconds between the slots of the schedule]
 *
 * At the real limits a slot each second would cost more than there is: a look at the lists costs two credits or more. There
 * the schedule is that of every minute, and what is judged is counted from the slot that follows the change.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { makeRng } from '../src/sandbox/random.ts';
import { type SeenRequest, startSandbox } from '../src/sandbox/server.ts';
import { changeAndWatch, percentile } from '../test/support/changes.ts';
import { settingsFor } from '../test/support/cli.ts';
import { startWorker } from '../test/support/workers.ts';
import { limitsOf, openDatabase, secondsOf } from './lab.ts';

const judgedMs = 5000;
const periodMs = 60_000;
const args = process.argv.slice(2);
const real = args[0] === 'real';
const [credits, window, perMinute, tickets] = [
  Number((real ? args[1] : args[0]) ?? (real ? 100 : 12_000)),
  ((real ? args[2] : args[1]) ?? 'sliding') as 'fixed' | 'sliding',
  Number((real ? args[3] : args[2]) ?? (real ? 10 : 120)),
  Number((real ? args[4] : args[3]) ?? (real ? 2000 : 20_000)),
];
const slotMs = Number((real ? args[5] : args[4]) ?? (real ? 60 : 1)) * 1000;
const limits = { credits, requestsPerSecond: Math.max(6, Math.round((credits * 6) / 100)) };
const reserve = credits / 10;

await using database = await openDatabase();
const { pool, url } = database;
const requests: SeenRequest[] = [];
const sandbox = await startSandbox({ ...limits, window, tickets, before: request => void requests.push(request) });
const begunMs = Date.now();
const worker = startWorker({
  ...settingsFor(url, sandbox),
  ...limitsOf(limits, reserve),
  SCHEDULE_FRESH: slotMs === periodMs ? '* * * * *' : `*/${slotMs / 1000} * * * * *`,
});
try {
  // The first night is caught up: the lists of a first load, and then the messages, which are the backlog.
  while (!(await isUnderWay())) await delay(100);
  const fromMs = Date.now();
  const before = await waiting();
  const changes = changeAndWatch(pool, sandbox.world, makeRng(7), perMinute);
  const untilMs = real ? fromMs + 5 * periodMs : Number.POSITIVE_INFINITY;
  let left = before;
  // Near its end the backlog does not take all any more.
  while (left > 200 && Date.now() < untilMs) {
    await delay(500);
    left = await waiting();
  }
  const toMs = Date.now();
  await changes.end(2 * periodMs);

  const { arrivals, pending } = changes;
  const times = (values: number[]) => {
    const [p50, p95, max] = [0.5, 0.95, 1].map(share => secondsOf(percentile(values, share)));
    return { p50, p95, limit: secondsOf(judgedMs), 'p95 / limit': ratio(p95! * 1000, judgedMs), max };
  };
  /** Until the schedule looks at the lists. */
  const toSlotMs = (atMs: number) => slotMs - (atMs % slotMs);
  const judged = arrivals.map(one => one.messagesMs - (real ? toSlotMs(one.atMs) : 0));
  console.log(
    `${tickets} tickets, ${credits} credits a minute (${window}), reserve ${reserve}, ${perMinute} changes a minute, a slot every ${slotMs / 1000} s`,
  );
  console.log(
    `lists read after ${secondsOf(fromMs - begunMs)} s; backlog ${before} → ${left} tickets in ${secondsOf(toMs - fromMs)} s`,
  );
  console.log(`${arrivals.length} changes arrived, ${pending.size} did not; seconds from the change until`);
  console.table({
    'its ticket is there': times(arrivals.map(one => one.ticketMs)),
    'its messages are there': times(arrivals.map(one => one.messagesMs)),
    'ticket, from the next slot on': times(arrivals.map(one => one.ticketMs - toSlotMs(one.atMs))),
    'messages, from the next slot on': times(arrivals.map(one => one.messagesMs - toSlotMs(one.atMs))),
  });
  console.log(
    'credits in each minute of the backlog, against what is allowed (limit − reserve); the first one has less, by what the lists took before it',
  );
  console.table(minutes(fromMs, toMs));
  console.log(`429: ${sandbox.totals.refused} of ${sandbox.totals.requests} requests (limit 0)`);
  const missed = percentile(judged, 0.95) > judgedMs || pending.size > 0;
  process.exitCode = missed || sandbox.totals.refused > 0 ? 1 : 0;
} finally {
  worker.kill('SIGTERM');
  const { code, stderr } = await worker.finished;
  if (code !== 0) console.log(stderr);
  await sandbox.close();
}

/** The lists have been read, and somebody reads messages. */
async function isUnderWay(): Promise<boolean> {
  const { rows } = await pool.query(
    `select from sync.runs n, sync.run_streams s
     where n.kind = 'nightly' and n.state = 'completed' and s.stream = 'messages' and s.state = 'running'`,
  );
  return rows.length > 0;
}

async function waiting(): Promise<number> {
  const { rows } = await pool.query<{ waiting: string }>(`select waiting from sync.status where stream = 'messages'`);
  return Number(rows[0]!.waiting);
}

function minutes(fromMs: number, toMs: number) {
  const found = [];
  for (let at = fromMs; at + periodMs <= toMs; at += periodMs) {
    const used = requests.reduce((sum, one) => (one.at >= at && one.at < at + periodMs ? sum + one.cost : sum), 0);
    found.push({ used, allowed: credits - reserve, ratio: ratio(used, credits - reserve) });
  }
  return found;
}

function ratio(one: number, other: number): number {
  return Number((one / other).toFixed(3));
}
