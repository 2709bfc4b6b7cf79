/**
 * What `plan` says against what the run takes: the sandbox over HTTP, PostgreSQL, the real commands, on the
 * real clock, source and ledger under the same limits. Ends with 1 where a figure is missed.
 *
 *   node bench/plan.ts [tickets] [credits a minute] [requests a second]      600 tickets at 2,400 a minute: about 3 minutes
 */
import { startSandbox } from '../src/sandbox/server.ts';
import { settingsFor, shelfdesk } from '../test/support/cli.ts';
import { limitsOf, openDatabase } from './lab.ts';

const judged = { credits: 0.05, seconds: 0.1 };
const [tickets = 600, credits = 2400, requestsPerSecond = 40] = process.argv.slice(2).map(Number);
const reserve = credits / 10;
await using database = await openDatabase();
const sandbox = await startSandbox({ tickets, credits, requestsPerSecond });
const limits = { credits, requestsPerSecond };
const settings = { ...settingsFor(database.url, sandbox), ...limitsOf(limits, reserve) };

const runs: Record<string, { args: readonly string[]; before?: () => Promise<unknown> }> = {
  'first sync': { args: ['sync'] },
  'later sync, with changes': { before: change, args: ['sync'] },
  'backfill of two holes': { before: dig, args: ['backfill'] },
  sweep: { args: ['sweep'] },
  'verify --sample 50': { args: ['verify', '--sample', '50'] },
  'verify --full': { args: ['verify', '--full'] },
};

const rows = [];
try {
  for (const [name, { args, before }] of Object.entries(runs)) {
    await before?.();
    const planned = await say(['plan', ...args]);
    const result = await say(args);
    const { rows: found } = await database.pool.query(
      `select s.stream, s.credits::int, extract(epoch from s.finished_at - s.started_at)::float8 as seconds
       from sync.stored_run_streams s where run_id = $1 order by s.started_at`,
      [result.run],
    );
    const { rows: kept } = await database.pool.query('select * from sync.forecasts where run = $1', [result.run]);
    const [used, seconds] = [Number(kept[0].credits), Number(kept[0].seconds)];
    for (const { stream, ...one } of found) {
      const { credits: c, seconds: s } = planned.streams[stream];
      console.log(
        `  ${name}: ${stream} plan ${c} credits ${s} s; run ${one.credits} credits ${one.seconds.toFixed(1)} s`,
      );
    }
    rows.push({
      run: name,
      counted: planned.counted_with_credits,
      'credits: plan': planned.credits,
      run_: used,
      ratio: round(planned.credits / used),
      'seconds: plan': planned.seconds,
      'run ': seconds,
      'ratio ': round(planned.seconds / seconds),
      ok: off(planned.credits, used) <= judged.credits && off(planned.seconds, seconds) <= judged.seconds,
    });
  }
} finally {
  await sandbox.close();
}
console.log(
  `${tickets} tickets, ${credits} credits a minute, ${requestsPerSecond} requests a second; limits 0.95 to 1.05 (credits), 0.9 to 1.1 (time)`,
);
console.table(rows);
process.exitCode = rows.every(({ ok }) => ok) ? 0 : 1;

async function say(args: readonly string[]) {
  const { code, stdout, stderr } = await shelfdesk([...args, '--json'], settings).finished;
  if (code !== 0) console.log(args.join(' '), code, stderr);
  return JSON.parse(stdout);
}

function off(planned: number, actual: number): number {
  return Math.abs(planned - actual) / actual;
}
function round(n: number): number {
  return Number(n.toFixed(3));
}

/** A tenth of the tickets gets a reply, some are new. */
async function change() {
  const { world } = sandbox;
  const all = [...world.tickets.values()];
  for (const { id } of all.filter((_, i) => i % 10 === 3)) world.addMessage(id, { body: 'A reply' });
  const customer = world.customers.add({ first_name: 'New' });
  for (let i = 0; i < 10; i++) world.addTicket({ customer_id: customer.id, subject: `New ${i}` });
}

/** What was updated in two ranges is not here any more, nor is it covered. */
async function dig() {
  const { pool } = database;
  const { rows: bounds } = await pool.query(
    `select percentile_disc(array[0.2, 0.35, 0.6, 0.8]) within group (order by updated_at) as at from helpdesk.tickets`,
  );
  const [a, b, c, d] = bounds[0].at as Date[];
  for (const [from, to] of [
    [a, b],
    [c, d],
  ]) {
    const gone = 'select id from helpdesk.tickets where updated_at >= $1 and updated_at < $2';
    for (const table of ['attachments', 'messages', 'ticket_labels'])
      await pool.query(`delete from helpdesk.${table} where ticket_id in (${gone})`, [from, to]);
    await pool.query(`delete from helpdesk.tickets where id in (${gone})`, [from, to]);
    await pool.query(
      `update sync.coverage set covered = covered - tstzmultirange(tstzrange($1, $2)) where stream = 'tickets'`,
      [from, to],
    );
  }
}
