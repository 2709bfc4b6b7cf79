/** Beside dlt and Stripe's sync engine, the newest of each: the same list of tickets, the same PostgreSQL. */
import { type ExecFileOptions, execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import pg from 'pg';
import { settingsFor } from '../../test/support/cli.ts';
import { openDatabase } from '../lab.ts';
import { byFirstLine, type Source, startSandbox } from '../load.ts';
import { writeTickets } from '../peers/source.ts';
import type { Section } from '../report.ts';

/** Enough that what a process does once is small even in a load of ours. */
const tickets = 50_000;
const rounds = 3;
/** npm and pip have tried often enough by then. */
const longestInstallMs = 300_000;

interface Load {
  /** From the first request to the last commit. */
  readonly seconds: number;
  /** What was measured, as the installed package says it. */
  readonly versions?: string;
}

interface Lab {
  readonly source: Source;
  readonly database: string;
  /** Of this loader alone. */
  readonly folder: string;
}

interface Loader {
  readonly name: string;
  readonly install: (folder: string) => Promise<unknown>;
  /** All tickets, in a process of its own. */
  readonly load: (lab: Lab) => Promise<Load>;
  /** Where they are then. */
  readonly table: string;
  /** What makes it read all of them once more. */
  readonly forget?: string;
}

interface Peer extends Loader {
  /** The least ratio of our rate to its own. */
  readonly asked: Record<Kind, number>;
}

const kinds = ['first load', 'unchanged'] as const;
type Kind = (typeof kinds)[number];

const fileOf = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const { PATH = '' } = process.env;

const ours: Loader = {
  name: 'ours',
  install: async () => {},
  async load({ source, database, folder }) {
    const env = { ...byFirstLine, ...settingsFor(database, source) };
    await outputOf(fileOf('../../src/main.ts'), ['sync', 'tickets'], { cwd: folder, env });
    const [load] = await ask<Load>(
      database,
      `select extract(epoch from finished_at - started_at)::float8 as seconds
       from sync.stored_run_streams where state = 'completed' order by run_id desc limit 1`,
    );
    return load!;
  },
  table: 'helpdesk.tickets',
  forget: `update sync.coverage set covered = '{}'`,
};

const others: readonly Peer[] = [
  {
    name: 'dlt',
    asked: { 'first load': 12, unchanged: 20 },
    async install(folder) {
      const options = { cwd: folder, timeout: longestInstallMs };
      await outputOf('python3', ['-m', 'venv', 'venv'], options);
      await outputOf('venv/bin/pip', ['install', '--quiet', '--only-binary', ':all:', 'dlt[postgres]'], options);
    },
    load: lab => loadWith(lab, join(lab.folder, 'venv/bin/python'), '../peers/load-with-dlt.py'),
    table: 'helpdesk.tickets',
  },
  {
    name: 'the Stripe engine',
    asked: { 'first load': 1.8, unchanged: 3.5 },
    async install(folder) {
      writeFileSync(join(folder, 'package.json'), '{"private":true}');
      const quietly = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
      const options = { cwd: folder, timeout: longestInstallMs };
      await outputOf('npm', ['install', ...quietly, '@stripe/sync-engine@latest'], options);
    },
    load: lab => loadWith(lab, process.execPath, '../peers/load-with-stripe-engine.ts'),
    table: 'stripe.reviews',
  },
];

const loaders = [ours, ...others];

export const peers: Section = {
  name: 'peers',
  title: 'Beside others',
  about: [
    `${tickets.toLocaleString('en-US')} tickets from the sandbox over HTTP at no limit, 100 a page, into one PostgreSQL server`,
    '(embedded, as it comes): by ours (`shelfdesk sync tickets`, with history, coverage and metrics), by dlt (a merge by id, with its',
    "defaults), and by Stripe's sync engine (its own migration and `upsertManyWithTimestampProtection`, 20 pages at a time as its 20",
    'workers would; one of its resources is told to have the properties of a ticket, since its own reader knows one service only).',
    'The newest of each is installed for the run, in a folder that goes with it. A first load begins in an empty database;',
    'unchanged: all tickets are read once more. Each load is a process of its own, and its seconds are those from the first request',
    'to the last commit: starting the process is not among them. In each round one follows the other, and ratios are of one round.',
  ].join(' '),
  async run({ quick, figure, note }) {
    await using stack = new AsyncDisposableStack();
    const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-peers-'));
    stack.defer(() => rmSync(folder, { recursive: true, force: true }));
    const folderOf = ({ name }: Loader) => join(folder, name);
    // What cannot be measured is missed, and said: without the network, or where a newer version wants to be used in another way.
    const lacking = new Map<Loader, string>();
    const unless = (loader: Loader, what: string) => (error: Error) => {
      if (loader === ours) throw error;
      console.error(error.message);
      lacking.set(loader, what);
      return [];
    };
    for (const loader of loaders) {
      mkdirSync(folderOf(loader));
      await loader.install(folderOf(loader)).catch(unless(loader, 'could not be installed'));
    }
    const count = quick ? tickets / 10 : tickets;
    const server = stack.use(await openDatabase({ empty: true }));
    const source = stack.use(await startSandbox(count));
    // It makes a ticket when it is first asked for it: the first of the round is not to pay for that.
    for (let time = 0; time < 2; time++) await writeTickets(source, 1, async () => {});

    const rates = new Map<Loader, Record<Kind, number[]>>(
      loaders.map(loader => [loader, { 'first load': [], unchanged: [] }]),
    );
    const versions = new Set<string>();
    for (let round = 0; round < rounds; round++) {
      for (const loader of loaders.filter(one => !lacking.has(one))) {
        const lab = { source, folder: folderOf(loader) };
        const loads = await loadTwice(server, `round_${round}`, loader, lab, count).catch(
          unless(loader, 'could not be measured'),
        );
        for (const { kind, seconds, versions: said } of loads) {
          rates.get(loader)![kind].push(count / seconds);
          if (said) versions.add(said);
        }
      }
    }
    for (const loader of loaders) {
      if (lacking.has(loader)) continue;
      for (const kind of kinds)
        figure({ what: `${loader.name}, ${kind}`, unit: 'rows/s', rounds: rates.get(loader)![kind] });
    }
    for (const peer of others) {
      for (const kind of kinds) {
        const own = rates.get(ours)![kind];
        const theirs = rates.get(peer)![kind];
        figure({
          what: `ours to ${peer.name}, ${kind}`,
          unit: '×',
          rounds: lacking.has(peer) ? [Number.NaN] : own.map((rate, round) => rate / theirs[round]!),
          atLeast: peer.asked[kind],
        });
      }
    }
    for (const [{ name }, what] of lacking)
      note(`${name} ${what}: nothing beside it is measured, and that counts as missed.`);
    if (versions.size > 0) note(`Measured: ${[...versions].join(', ')}.`);
  },
};

/** Both kinds of load, in a database that goes afterwards. */
async function loadTwice(
  { url, pool }: { url: string; pool: pg.Pool },
  name: string,
  loader: Loader,
  lab: Omit<Lab, 'database'>,
  count: number,
): Promise<(Load & { kind: Kind })[]> {
  const database = Object.assign(new URL(url), { pathname: name }).href;
  await pool.query(`create database ${name}`);
  try {
    const loads = [];
    for (const kind of kinds) {
      if (kind === 'unchanged' && loader.forget) await ask(database, loader.forget);
      await pool.query('checkpoint'); // Nobody pays for what another one wrote.
      loads.push({ ...(await loader.load({ ...lab, database })), kind });
      const [found] = await ask<{ count: number }>(database, `select count(*)::int from ${loader.table}`);
      if (found!.count !== count) throw new Error(`${loader.name}: ${found!.count} of ${count} tickets`);
    }
    return loads;
  } finally {
    await pool.query(`drop database ${name} with (force)`);
  }
}

async function loadWith({ source, database, folder }: Lab, command: string, script: string): Promise<Load> {
  // What dlt keeps stays here (but for the random name that it gives to root), and it tells nobody that it was used.
  const env = { PATH, HOME: folder, DLT_DATA_DIR: folder, RUNTIME__DLTHUB_TELEMETRY: 'false' };
  const args = [fileOf(script), database, source.url, source.token];
  return JSON.parse(await outputOf(command, args, { cwd: folder, env }));
}

async function ask<T extends pg.QueryResultRow>(database: string, sql: string): Promise<T[]> {
  const client = new pg.Client(database);
  await client.connect();
  try {
    return (await client.query<T>(sql)).rows;
  } finally {
    await client.end();
  }
}

/** Rejects with what it wrote to stderr, unless it ends well. */
async function outputOf(command: string, args: readonly string[], options: ExecFileOptions): Promise<string> {
  return (await promisify(execFile)(command, args, { ...options, encoding: 'utf8' })).stdout;
}
