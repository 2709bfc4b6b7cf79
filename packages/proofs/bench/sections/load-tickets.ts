/** Tickets from HTTP to committed rows, and the merge of their pages alone, beside COPY of the same rows. */
import { setTimeout as delay } from 'node:timers/promises';
import { sessionCpu } from '../cpu.ts';
import { openDatabase } from '../lab.ts';
import {
  besidesRuns,
  type CopyCost,
  type Cost,
  copyInto,
  countsAreIn,
  type Database,
  forget,
  rowsWritten,
  runOurs,
  type Source,
  startSandbox,
} from '../load.ts';
import { mergePages, oneSession, type Page, pagesOf } from '../merge-alone.ts';
import type { Section } from '../report.ts';

const tickets = 100_000;
const rounds = 3;
const load = ['sync', 'tickets'];

export const loadTickets: Section = {
  name: 'load-tickets',
  title: 'Tickets from HTTP to committed rows',
  about: [
    `\`shelfdesk sync tickets\` reads ${tickets.toLocaleString('en-US')} tickets from the sandbox over HTTP at no limit, into tables that were never analysed, with history,`,
    'metrics and coverage. CPU is that of the whole process and of all of PostgreSQL. Two re-reads with nothing changed follow: one directly',
    'after a checkpoint, where each touched page goes to the WAL in full, and one without. Another first load has a checkpoint in its middle',
    'and, for the pages, one behind it.',
    besidesRuns,
    'COPY loads the same rows from a file of the server into the same table with all its indexes and without triggers. The merge alone runs',
    "the product's statements over prepared pages of 100, ten pages a merge and a transaction, in one session, with all triggers; its CPU and that of",
    'COPY are those of the one session. Seconds run from the start of the stream to its end. The sandbox, Node and PostgreSQL share the cores.',
  ].join(' '),
  async run({ quick, figure }) {
    const count = quick ? tickets / 10 : tickets;
    using source = await startSandbox(count);
    const first: Cost[] = [];
    const across: (Cost & Pages)[] = [];
    const checkpointed: Cost[] = [];
    const unchanged: Cost[] = [];
    const written: number[] = [];
    const copies: CopyCost[] = [];
    const merges: number[] = [];
    for (let round = -1; round < rounds; round++) {
      await using db = await openDatabase();
      const whole = await runOurs(db, source, load);
      // The sandbox makes a ticket at its first request.
      if (round < 0) continue;
      first.push(whole);
      const before = await rowsWritten(db);
      await db.pool.query(forget);
      await db.pool.query('checkpoint');
      checkpointed.push(await runOurs(db, source, load));
      await db.pool.query(forget);
      unchanged.push(await runOurs(db, source, load));
      written.push((await rowsWritten(db)) - before);
      merges.push(await mergeAlone(await pagesOf(db)));
      copies.push(await copyInto(db, ['helpdesk.tickets']));
      across.push(await loadAcross(source, count));
    }
    const cpu = (costs: readonly Cost[], of = ({ node, postgres }: Cost) => node + postgres) =>
      costs.map(cost => (of(cost) / count) * 1e6);
    const wal = (costs: readonly Cost[]) => costs.map(cost => (cost.wal / count) * 1000);
    const rates = (costs: readonly Cost[]) => costs.map(({ seconds }) => count / seconds);
    figure({ what: 'first load: CPU, a ticket', unit: 'µs', rounds: cpu(first), atMost: 100, headline: true });
    figure({ what: 'first load: of that Node', unit: 'µs', rounds: cpu(first, ({ node }) => node) });
    figure({ what: 'first load: WAL, a ticket', unit: 'kB', rounds: wal(first), atMost: 2, headline: true });
    figure({ what: 'first load across a checkpoint: CPU, a ticket', unit: 'µs', rounds: cpu(across) });
    figure({ what: 'first load across a checkpoint: WAL, a ticket', unit: 'kB', rounds: wal(across) });
    const thousand = (of: keyof Pages) => across.map(pages => (pages[of] / count) * 1000);
    const pagesOver = 'first load across a checkpoint: pages';
    figure({ what: `${pagesOver} in full in the WAL, 1,000 tickets`, unit: 'pages', rounds: thousand('full') });
    figure({
      what: `${pagesOver} written by checkpoints, 1,000 tickets`,
      unit: 'pages',
      rounds: thousand('checkpointed'),
    });
    figure({ what: 'first load: memory of Node, at most', unit: 'MB', rounds: first.map(({ memory }) => memory) });
    figure({ what: 'first load', unit: 'rows/s', rounds: rates(first), headline: true });
    figure({ what: 'COPY of the same rows', unit: 'rows/s', rounds: rates(copies) });
    figure({
      what: 'first load to COPY',
      unit: '×',
      rounds: first.map(({ seconds }, i) => copies[i]!.seconds / seconds),
      ...{ atLeast: 0.5, headline: true },
    });
    figure({ what: 'unchanged: CPU, a ticket', unit: 'µs', rounds: cpu(unchanged), atMost: 60, headline: true });
    figure({ what: 'unchanged: of that Node', unit: 'µs', rounds: cpu(unchanged, ({ node }) => node) });
    figure({ what: 'unchanged, twice: rows written', unit: 'rows', rounds: written, atMost: 0, headline: true });
    figure({ what: 'unchanged: WAL, a ticket', unit: 'kB', rounds: wal(unchanged) });
    figure({ what: 'unchanged, after a checkpoint: CPU, a ticket', unit: 'µs', rounds: cpu(checkpointed) });
    figure({ what: 'unchanged, after a checkpoint: WAL, a ticket', unit: 'kB', rounds: wal(checkpointed) });
    figure({ what: 'unchanged', unit: 'rows/s', rounds: rates(unchanged), headline: true });
    figure({ what: 'the merge alone: CPU, a ticket', unit: 'µs', rounds: merges.map(cpu => (cpu / count) * 1e6) });
    figure({
      what: 'COPY: CPU, a ticket',
      unit: 'µs',
      rounds: copies.map(({ session }) => (session / count) * 1e6),
    });
    figure({ what: 'COPY: WAL, a ticket', unit: 'kB', rounds: wal(copies) });
    figure({
      what: 'CPU of COPY to that of the merge alone',
      unit: '×',
      rounds: copies.map(({ session }, i) => session / merges[i]!),
      ...{ atLeast: 0.7, headline: true },
    });
  },
};

/** Into empty tables. Answers the seconds of CPU of the session. */
async function mergeAlone(pages: readonly Page[]): Promise<number> {
  await using db = await openDatabase();
  await db.pool.query(`insert into sync.accounts (account_id) values ('default')`);
  await using stack = new AsyncDisposableStack();
  const pool = stack.adopt(oneSession(db.url), one => one.end());
  const session = await sessionCpu(pool);
  await db.pool.query('checkpoint');
  const before = session();
  await mergePages(pool, pages, Date.now());
  return session() - before;
}

/** Pages of 8 kB: in full in the WAL, and written by checkpoints. */
interface Pages {
  readonly full: number;
  readonly checkpointed: number;
}

/** A first load with a checkpoint after half of it, and one behind it. */
async function loadAcross(source: Source, count: number): Promise<Cost & Pages> {
  await using db = await openDatabase();
  await db.pool.query('checkpoint');
  const before = await pagesSoFar(db);
  const run = runOurs(db, source, load);
  await Promise.race([run, untilHalf(db, count)]);
  await db.pool.query('checkpoint');
  const cost = await run;
  await db.pool.query('checkpoint');
  const after = await pagesSoFar(db);
  return { ...cost, full: after.full - before.full, checkpointed: after.checkpointed - before.checkpointed };
}

async function pagesSoFar({ pool }: Database): Promise<Pages> {
  await countsAreIn(pool);
  const { rows } = await pool.query<Pages>(
    'select wal_fpi::float8 as full, buffers_written::float8 as checkpointed from pg_stat_wal, pg_stat_checkpointer',
  );
  return rows[0]!;
}

async function untilHalf({ pool }: Database, count: number): Promise<void> {
  const half = `select from sync.stored_run_streams where seen >= ${count / 2}`;
  while ((await pool.query(half)).rowCount === 0) await delay(20);
}
