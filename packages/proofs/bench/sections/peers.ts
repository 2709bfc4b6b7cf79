/** Beside dlt and Stripe's sync engine, the newest of each: the same list of tickets, the same PostgreSQL. */
import { type ExecFileOptions, execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import pg from 'pg';
import { endedCpu } from '../cpu.ts';
import { openDatabase } from '../lab.ts';
import { type Cost, costOf, type Database, forget, runOurs, type Source, startSandbox } from '../load.ts';
import { writeTickets } from '../peers/source.ts';
import type { Asked, Section } from '../report.ts';

/** Enough that what a process does once is small even in a load of ours. */
const tickets = 50_000;
const rounds = 3;
/** npm and pip have tried often enough by then. */
const longestInstallMs = 300_000;

/** `node` is the CPU of the whole process, whatever it runs on. */
interface Load extends Pick<Cost, 'seconds' | 'node' | 'postgres'> {
  /** What was measured, as the installed package says it. */
  readonly versions?: string;
}

/** `nothing`: what the same load of an empty list costs. */
interface Measured extends Load {
  readonly nothing: Load;
}

interface Lab {
  readonly source: Source;
  readonly database: Database;
  /** Of this tool alone. */
  readonly folder: string;
}

interface Loader {
  readonly name: string;
  readonly tool: Tool;
  /** All tickets, in a process of its own. */
  readonly load: (lab: Lab) => Promise<Load>;
  /** Where they are then. */
  readonly table: string;
  /** What makes it read all of them once more. */
  readonly forget?: string;
}

interface Peer extends Loader {
  /** Of our rate to its own, and of our CPU to its own. */
  readonly asked: Readonly<Record<Kind, { readonly rate?: Asked; readonly cpu?: Asked }>>;
}

const kinds = ['first load', 'unchanged'] as const;
type Kind = (typeof kinds)[number];
type Tool = keyof typeof installs;

const fileOf = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const { PATH = '' } = process.env;

const installs = {
  ours: async () => {},
  async dlt(folder: string) {
    const options = { cwd: folder, timeout: longestInstallMs };
    await outputOf('python3', ['-m', 'venv', 'venv'], options);
    await outputOf('venv/bin/pip', ['install', '--quiet', '--only-binary', ':all:', 'dlt[postgres,parquet]'], options);
  },
  async stripe(folder: string) {
    writeFileSync(join(folder, 'package.json'), '{"private":true}');
    const quietly = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
    const options = { cwd: folder, timeout: longestInstallMs };
    await outputOf('npm', ['install', ...quietly, '@stripe/sync-engine@latest'], options);
  },
};

const ours: Loader = {
  ...{ name: 'ours', tool: 'ours', table: 'helpdesk.tickets', forget },
  load: ({ source, database }) => runOurs(database, source, ['sync', 'tickets']),
};

const dlt = (strategy: string): Peer => ({
  ...{ name: `dlt, ${strategy}`, tool: 'dlt', table: 'helpdesk.tickets' },
  asked: { 'first load': { cpu: { atMost: 1.4 } }, unchanged: { cpu: { atMost: 1 } } },
  load: lab => loadWith(lab, join(lab.folder, 'venv/bin/python'), '../peers/load-with-dlt.py', strategy),
});

const others: readonly Peer[] = [
  dlt('delete-insert'),
  dlt('upsert'),
  {
    ...{ name: 'the Stripe engine', tool: 'stripe', table: 'stripe.reviews' },
    asked: { 'first load': { rate: { atLeast: 1.8 } }, unchanged: { rate: { atLeast: 3.5 } } },
    load: lab => loadWith(lab, process.execPath, '../peers/load-with-stripe-engine.ts'),
  },
];

const loaders = [ours, ...others];

export const peers: Section = {
  name: 'peers',
  title: 'Beside others',
  about: [
    `${tickets.toLocaleString('en-US')} tickets from the sandbox over HTTP at no limit, 100 a page, into one PostgreSQL server`,
    '(embedded, as it comes): by ours (`shelfdesk sync tickets`, with history, coverage and metrics); by dlt at its best, as its manual',
    'advises (Arrow tables of many pages, COPY of CSV that is not compressed, rows known to be distinct), with either strategy of a merge',
    "by id; and by Stripe's sync engine (its own migration and `upsertManyWithTimestampProtection`, 20 pages at a time as its 20",
    'workers would; one of its resources is told to have the properties of a ticket, since its own reader knows one service only).',
    'The newest of each is installed for the run, in a folder that goes with it. A first load begins in an empty database;',
    'unchanged: all tickets are read once more. Each load is a process of its own, and its seconds are those from the first request',
    'to the last commit. CPU is that of the whole process and of all of PostgreSQL, alike for all. Without start-up: less what the same',
    'load of an empty list costs, which makes the tables too where it is the first. In each round one follows the other, and ratios are of one round. The others keep no history, no metrics and no',
    'proof of what they cover; they write every row anew when nothing has changed; and dlt keeps no payload, and commits all at the end.',
  ].join(' '),
  async run({ quick, figure, note }) {
    await using stack = new AsyncDisposableStack();
    const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-peers-'));
    stack.defer(() => rmSync(folder, { recursive: true, force: true }));
    const folderOf = ({ tool }: Loader) => join(folder, tool);
    // What cannot be measured is missed, and said: without the network, or where a newer version wants to be used in another way.
    const lacking = new Map<Loader, string>();
    const unless = (loader: Loader, what: string) => (error: Error) => {
      if (loader === ours) throw error;
      console.error(error.message);
      lacking.set(loader, what);
      return [];
    };
    const installed = new Map<Tool, Promise<unknown>>();
    for (const loader of loaders) {
      const { tool } = loader;
      mkdirSync(folderOf(loader), { recursive: true });
      if (!installed.has(tool)) installed.set(tool, installs[tool](folderOf(loader)));
      await installed.get(tool)!.catch(unless(loader, 'could not be installed'));
    }
    const count = quick ? tickets / 10 : tickets;
    const server = stack.use(await openDatabase({ empty: true }));
    const source = stack.use(await startSandbox(count));
    const none = stack.use(await startSandbox(0));
    // It makes a ticket when it is first asked for it: the first of the round is not to pay for that.
    for (let time = 0; time < 2; time++) await writeTickets(source, 1, async () => {});

    const costs = new Map(
      loaders.map(loader => [loader, { 'first load': [] as Measured[], unchanged: [] as Measured[] }]),
    );
    const versions = new Set<string>();
    for (let round = 0; round < rounds; round++) {
      for (const [place, loader] of loaders.entries()) {
        if (lacking.has(loader)) continue;
        const lab = { source, folder: folderOf(loader) };
        const name = `round_${round}_${place}`;
        const both = async () => {
          const nothing = await loadTwice(server, `${name}_none`, loader, { ...lab, source: none }, 0);
          return { nothing, loads: await loadTwice(server, name, loader, lab, count) };
        };
        const measured = await both().catch(unless(loader, 'could not be measured'));
        if (Array.isArray(measured)) continue;
        for (const [n, kind] of kinds.entries()) {
          const { versions: said, ...cost } = measured.loads[n]!;
          costs.get(loader)![kind].push({ ...cost, nothing: measured.nothing[n]! });
          if (said) versions.add(said);
        }
      }
    }
    const rates = (loader: Loader, kind: Kind) => costs.get(loader)![kind].map(({ seconds }) => count / seconds);
    const micros = ({ node, postgres }: Load) => ((node + postgres) / count) * 1e6;
    const cpu = (loader: Loader, kind: Kind) => costs.get(loader)![kind].map(micros);
    const withoutStart = (loader: Loader, kind: Kind) =>
      costs.get(loader)![kind].map(({ nothing, ...load }) => micros(load) - micros(nothing));
    for (const loader of loaders) {
      if (lacking.has(loader)) continue;
      for (const kind of kinds) {
        figure({ what: `${loader.name}, ${kind}`, unit: 'rows/s', rounds: rates(loader, kind) });
        const what = `${loader.name}, ${kind}: CPU, a ticket`;
        figure({ what, unit: 'µs', rounds: cpu(loader, kind) });
        figure({ what: `${what}, without start-up`, unit: 'µs', rounds: withoutStart(loader, kind) });
      }
    }
    for (const peer of others) {
      const ratio = (kind: Kind, of: typeof rates) => {
        const theirs = of(peer, kind);
        return lacking.has(peer) ? [Number.NaN] : of(ours, kind).map((own, round) => own / theirs[round]!);
      };
      for (const kind of kinds) {
        const what = `ours to ${peer.name}, ${kind}`;
        const asked = peer.asked[kind];
        figure({ what: `${what}: rows a second`, unit: '×', rounds: ratio(kind, rates), ...asked.rate });
        figure({ what: `${what}: CPU`, unit: '×', rounds: ratio(kind, cpu) });
        const rounds = ratio(kind, withoutStart);
        figure({ what: `${what}: CPU without start-up`, unit: '×', rounds, ...asked.cpu, headline: !!asked.cpu });
      }
    }
    for (const [{ name }, what] of lacking)
      note(`${name} ${what}: nothing beside it is measured, and that counts as missed.`);
    if (versions.size > 0) note(`Measured: ${[...versions].join(', ')}.`);
  },
};

/** Both kinds of load, the first one first, in a database that goes afterwards. */
async function loadTwice(
  { url: serverUrl, pool: server }: { url: string; pool: pg.Pool },
  name: string,
  loader: Loader,
  lab: Omit<Lab, 'database'>,
  count: number,
): Promise<Load[]> {
  const url = Object.assign(new URL(serverUrl), { pathname: name }).href;
  await server.query(`create database ${name}`);
  const pool = new pg.Pool({ connectionString: url }).on('error', () => {}); // The database goes before its sessions do.
  try {
    const loads: Load[] = [];
    for (const kind of kinds) {
      if (kind === 'unchanged' && loader.forget) await pool.query(loader.forget);
      await pool.query('checkpoint'); // Nobody pays for what another one wrote.
      loads.push(await loader.load({ ...lab, database: { url, pool } }));
      if (count === 0) continue; // Not all make a table for nothing.
      const { rows } = await pool.query<{ count: number }>(`select count(*)::int from ${loader.table}`);
      if (rows[0]!.count !== count) throw new Error(`${loader.name}: ${rows[0]!.count} of ${count} tickets`);
    }
    return loads;
  } finally {
    await pool.end();
    await server.query(`drop database ${name} with (force)`);
  }
}

async function loadWith({ source, database, folder }: Lab, command: string, script: string, ...more: string[]) {
  const env = {
    ...{ PATH, HOME: folder, DATA_WRITER__DISABLE_COMPRESSION: 'true' },
    // What dlt keeps stays here (but for the random name that it gives to root), and it tells nobody that it was used.
    ...{ DLT_DATA_DIR: folder, RUNTIME__DLTHUB_TELEMETRY: 'false' },
  };
  const args = [fileOf(script), database.url, source.url, source.token, ...more];
  return await costOf(database, async (): Promise<Omit<Load, 'postgres'>> => {
    const before = endedCpu();
    const said = JSON.parse(await outputOf(command, args, { cwd: folder, env }));
    return { ...said, node: endedCpu() - before };
  });
}

/** Rejects with what it wrote to stderr, unless it ends well. */
async function outputOf(command: string, args: readonly string[], options: ExecFileOptions): Promise<string> {
  return (await promisify(execFile)(command, args, { ...options, encoding: 'utf8' })).stdout;
}
