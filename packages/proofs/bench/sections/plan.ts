/**
 * What `plan` says against what the run takes: the sandbox over HTTP, PostgreSQL, the real commands, on the real clock,
 * source and ledger under the same limits.
 */
import type pg from 'pg';
import { settingsFor, shelfdesk } from '../../../../test/support/cli.ts';
import { type Sandbox, startSandbox } from '../../../sandbox/src/server.ts';
import { limitsOf, openDatabase } from '../lab.ts';
import type { Report, Section } from '../report.ts';

const tickets = 500;
const limits = { credits: 2000, requestsPerSecond: 34 };
/** Of a shorter run the beginning of processes and streams, which no ledger knows, is too large a part. */
const judgedSeconds = 15;

export const plan: Section = {
  name: 'plan',
  title: 'What a run will take',
  about: `What \`plan\` tells, divided by what the run then takes: a sandbox of ${tickets} tickets over HTTP, ${limits.credits.toLocaleString('en-US')} credits a minute of which a tenth are reserved, each command a process of its own. The time is judged where the run takes more than ${judgedSeconds} seconds.`,
  run: measure,
};

interface Run {
  readonly args: readonly string[];
  readonly before?: (pool: pg.Pool, sandbox: Sandbox) => unknown;
}

const runs: Record<string, Run> = {
  'a first sync': { args: ['sync'] },
  'a later sync, with changes': { before: (_, sandbox) => change(sandbox), args: ['sync'] },
  'a backfill of two gaps': { before: dig, args: ['backfill'] },
};

async function measure({ quick, figure }: Report): Promise<void> {
  await using database = await openDatabase();
  const { pool } = database;
  const sandbox = await startSandbox({ ...limits, tickets: quick ? tickets / 10 : tickets });
  const settings = { ...settingsFor(database.url, sandbox), ...limitsOf(limits, limits.credits / 10) };
  const say = async (args: readonly string[]) => {
    const { stdout, stderr } = await shelfdesk([...args, '--json'], settings).finished;
    if (stdout === '') throw new Error(`${args.join(' ')}: ${stderr}`);
    return JSON.parse(stdout);
  };
  try {
    for (const [name, { args, before }] of Object.entries(runs)) {
      await before?.(pool, sandbox);
      const planned = await say(['plan', ...args]);
      const { run } = await say(args);
      const { rows } = await pool.query<{ credits: number; seconds: number }>(
        'select credits::int, seconds::float8 from sync.forecasts where run = $1',
        [run],
      );
      const [used] = rows;
      figure({
        what: `${name}: credits told, of those used`,
        unit: '×',
        rounds: [planned.credits / used!.credits],
        ...{ atLeast: 0.95, atMost: 1.05 },
      });
      figure({
        what: `${name}: time told, of that taken`,
        unit: '×',
        rounds: [planned.seconds / used!.seconds],
        ...(used!.seconds > judgedSeconds && { atLeast: 0.9, atMost: 1.1 }),
      });
    }
  } finally {
    await sandbox.close();
  }
}

/** A tenth of the tickets gets a reply, some are new. */
function change({ world }: Sandbox): void {
  const all = [...world.tickets.values()];
  for (const { id } of all.filter((_, i) => i % 10 === 3)) world.addMessage(id, { body: 'A reply' });
  const customer = world.customers.add({ first_name: 'New' });
  for (let i = 0; i < 10; i++) world.addTicket({ customer_id: customer.id, subject: `New ${i}` });
}

/** What was updated in two ranges is not here any more, nor is it covered. */
async function dig(pool: pg.Pool): Promise<void> {
  const { rows: bounds } = await pool.query(
    `select percentile_disc(array[0.2, 0.35, 0.6, 0.8]) within group (order by updated_at) as at from helpdesk.tickets`,
  );
  const [a, b, c, d] = bounds[0].at as Date[];
  for (const [from, to] of [
    [a, b],
    [c, d],
  ]) {
    const gone = 'select id from helpdesk.tickets where updated_at >= $1 and updated_at < $2';
    for (const table of ['helpdesk.attachments', 'internal.messages'])
      await pool.query(`delete from ${table} where ticket_id in (${gone})`, [from, to]);
    await pool.query(`delete from helpdesk.tickets where id in (${gone})`, [from, to]);
    await pool.query(
      `update sync.coverage set covered = covered - tstzmultirange(tstzrange($1, $2)) where stream = 'tickets'`,
      [from, to],
    );
  }
}
