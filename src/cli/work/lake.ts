/** `lake on | export | status | verify | sql | files | off`: a copy of the warehouse in Parquet files. */

import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import { openGround } from '../../app/account.ts';
import type { Fleet } from '../../app/config.ts';
import type { Warehouse } from '../../app/context.ts';
import { systemClock } from '../../clock.ts';
import { exitCodes, UsageError } from '../../errors.ts';
import { listFiles } from '../../lake/files.ts';
import { lakePackage } from '../../lake/package.ts';
import { type Done, runExport } from '../../lake/run-export.ts';
import {
  alone,
  type LakeFiles,
  type LakeStatus,
  readLake,
  readLakeFiles,
  readLakeStatus,
  type StoredLake,
  turnOff,
  turnOn,
} from '../../lake/state.ts';
import { exportedTables, type LakePlace } from '../../lake/table.ts';
import { workOnLake } from '../../lake/work.ts';
import { OpenStack } from '../../open-stack.ts';
import { lakeTables } from '../../sources/index.ts';
import { count, duration } from '../../words.ts';
import { parseNumber } from '../arguments.ts';
import { type Act, type Deps, jsonOption } from '../command.ts';
import { operator } from '../operator.ts';
import { type Cell, print, printJson, printList, say, sayOnce, table } from '../output/terminal.ts';
import { tablesOf } from '../warehouse.ts';

const usualFolder = '.shelfdesk/lake';
const usualDays = 30;

interface Asked {
  json?: boolean;
  to?: string;
  pii?: boolean;
  keepDays?: number;
  snapshot?: number;
}

/** Makes the lake equal to the warehouse, and shows the tables meanwhile. */
export async function exportNow(
  deps: Deps,
  { fleet, warehouse }: { fleet: Fleet; warehouse: Warehouse },
  state: StoredLake,
): Promise<Done> {
  await using stack = new OpenStack();
  const { queues, log } = stack.use(await openGround(fleet, warehouse));
  const { work } = stack.use(
    await workOnLake(
      {
        ...{ url: warehouse.url, pg: warehouse.pg, queues, log, reach: fleet.lake },
        ...{ tables: lakeTables, jobs: deps.lakeJobs, clock: systemClock, signal: deps.signal },
      },
      state,
      sayOnce(),
    ),
  );
  return await runExport(work);
}

export function addLake(program: Command, deps: Deps, act: Act): void {
  const lake = program
    .command('lake')
    .summary('keep a copy of the warehouse in Parquet files')
    .description(
      'keep a copy of the warehouse in Parquet files, for engines that spread over machines; it needs the package shelfdesk-lake (`npm install shelfdesk-lake`)',
    );
  lake
    .command('on')
    .description('note changes from now on; the first export copies everything')
    .option('--to <path>', `folder, or s3://bucket/prefix (default: ${usualFolder})`)
    .option('--pii', 'with names, addresses and texts; without it only masked views are copied')
    .option(
      '--keep-days <days>',
      `days for which snapshots are kept (default: ${usualDays})`,
      parseNumber('a number of days, 1 to 99999', { most: 99_999 }),
    )
    .action(act((asked: Asked) => on(deps, asked)));
  lake
    .command('export')
    .description('make the lake equal to the warehouse now')
    .option(...jsonOption)
    .action(act((asked: Asked) => exportOnce(deps, asked)));
  lake
    .command('status')
    .description('say how far the lake is, and what is pending')
    .option(...jsonOption)
    .action(act((asked: Asked) => status(deps, asked)));
  lake
    .command('verify')
    .description('compare every row of the lake with the warehouse')
    .option(...jsonOption)
    .action(act((asked: Asked) => verify(deps, asked)));
  lake
    .command('sql')
    .description('run an SQL query of DuckDB on the lake')
    .argument('<query>', 'for example: "select * from analytics.completeness"')
    .option(...jsonOption)
    .action(act((query: string, asked: Asked) => sql(deps, query, asked)));
  lake
    .command('files')
    .description('list the files of a snapshot, for engines that know Parquet and no DuckLake')
    .argument('[table...]', 'such as safe.tickets; without it all tables')
    .option('--snapshot <number>', 'another snapshot than the newest one', parseNumber('the number of a snapshot'))
    .option(...jsonOption)
    .action(act((tables: string[], asked: Asked) => files(deps, tables, asked)));
  lake
    .command('off')
    .description('note changes no longer, and forget what the files mean; the files stay')
    .action(act(() => off(deps)));
}

async function on(deps: Deps, { to: asked, pii = false, keepDays = usualDays }: Asked): Promise<void> {
  const { fleet } = deps.asked();
  await using warehouse = await tablesOf(fleet, deps.signal);
  const to = asked ?? (fleet.demo ? join(fleet.demo.folder, 'lake') : usualFolder);
  const known = await readLake(warehouse.pg);
  if (known !== undefined)
    throw new UsageError(
      `the lake is on already, at ${known.path}`,
      'To change it, run `npx shelfdesk lake off` first.',
    );
  const { isBucket, openLake, hasFiles } = await lakePackage();
  const path = isBucket(to) ? to.replace(/\/+$/, '') : resolve(to);
  {
    await using engine = await openLake(warehouse.url, { ...fleet.lake, path }, { mode: 'none' });
    if (await hasFiles(engine, path))
      throw new UsageError(
        `${path} has Parquet files already; the lake deletes files that are not its own`,
        'Delete them, or choose another place with --to.',
      );
  }
  const by = { who: operator(), now: new Date(systemClock.now()) };
  await turnOn(warehouse.url, fleet.lake, { path, personal: pii, keepDays }, by);
  say(`The lake is on, at ${path}. \`npx shelfdesk lake export\` fills it; so does \`start\`, as SCHEDULE_LAKE says.`);
}

async function exportOnce(deps: Deps, { json }: Asked): Promise<void> {
  const { fleet } = deps.asked();
  await using warehouse = await tablesOf(fleet, deps.signal);
  const done = await exportNow(deps, { fleet, warehouse }, required(await readLake(warehouse.pg)));
  if (json) return printJson(done);
  say(
    `The lake is equal to the warehouse at ${done.moment.toISOString()}: ${count(done.inserted, 'row')} written, ${done.deleted} removed or replaced, in ${duration((systemClock.now() - done.moment.getTime()) / 1000)}.`,
  );
}

async function status(deps: Deps, { json }: Asked): Promise<void> {
  await using warehouse = await tablesOf(deps.asked().fleet, deps.signal);
  const { pg } = warehouse;
  const status = await readLakeStatus(pg);
  const files = status && (await readLakeFiles(pg));
  if (json) printJson(status ? { ...status, ...files } : null);
  else if (status === undefined) say('The lake is off. `npx shelfdesk lake on` turns it on.');
  else showStatus(status, files);
}

async function verify(deps: Deps, asked: Asked): Promise<number> {
  const { fleet } = deps.asked();
  await using warehouse = await tablesOf(fleet, deps.signal);
  const { url, pg } = warehouse;
  const state = required(await readLake(pg));
  const { openLake, compareLake } = await lakePackage();
  await using engine = await openLake(url, placeOf(fleet, state), { signal: deps.signal, mode: 'read' });
  const found = await alone(url, client => compareLake(engine, client, exportedTables(lakeTables, state)));
  printList(found, asked, {
    none: 'Every row of the lake is equal to the warehouse.',
    columns: ['table', 'only in the warehouse', 'only in the lake'],
    row: one => [one.table, one.missing, one.extra],
  });
  return found.length === 0 ? exitCodes.ok : exitCodes.differs;
}

async function sql(deps: Deps, query: string, asked: Asked): Promise<void> {
  const { fleet } = deps.asked();
  await using warehouse = await tablesOf(fleet, deps.signal);
  const state = required(await readLake(warehouse.pg));
  const { openForQuestions, askOnce } = await lakePackage();
  await using engine = await openForQuestions(warehouse.url, placeOf(fleet, state), deps.signal);
  await engine.run('use lake');
  const rows = await askOnce<Record<string, Cell>>(engine, query);
  printList(rows, asked, { columns: Object.keys(rows[0] ?? { '': null }), row: Object.values });
}

async function files(deps: Deps, tables: string[], { snapshot, json }: Asked): Promise<void> {
  await using warehouse = await tablesOf(deps.asked().fleet, deps.signal);
  required(await readLake(warehouse.pg));
  const found = await listFiles(warehouse.pg, { snapshot, tables });
  if (json) return printJson(found);
  const columns = ['table', 'rows', 'deleted', 'file', 'deleted rows'];
  const rows = found.tables.flatMap(one =>
    one.files.map(file => [one.table, file.rows, file.deleted, file.path, file.deletes]),
  );
  print(table(columns, rows));
}

async function off(deps: Deps): Promise<void> {
  await using warehouse = await tablesOf(deps.asked().fleet, deps.signal);
  const { path } = required(await readLake(warehouse.pg));
  await turnOff(warehouse.url);
  say(`The lake is off. Its files are still at ${path}: delete them.`);
}

const placeOf = ({ lake }: Fleet, { path }: StoredLake): LakePlace => ({ ...lake, path });

function showStatus(status: LakeStatus, files: LakeFiles | undefined): void {
  const lines = {
    path: status.path,
    'personal data': status.personal ? 'yes' : 'no, masked views only',
    state: status.state,
    'equal to the warehouse at': status.moment,
    pending: count(status.pending, 'change'),
    'an export takes': status.usual_seconds === null ? null : duration(status.usual_seconds),
    'snapshots kept for': count(status.keep_days, 'day'),
    snapshots: files?.snapshots,
    'oldest snapshot': files?.oldest_snapshot,
    files: files?.files,
    MB: files && Math.ceil(files.bytes / 1e6),
    'last error': status.last_error,
  };
  print(
    table(
      ['lake', ''],
      Object.entries(lines).map(([name, value]) => [name, value ?? null]),
    ),
  );
  if (status.state === 'failing') say('Run `npx shelfdesk lake export` to see the export fail, or succeed.');
}

/** Throws UsageError if the lake is off. */
export function required(state: StoredLake | undefined): StoredLake {
  if (state !== undefined) return state;
  throw new UsageError('the lake is off', 'Turn it on with `npx shelfdesk lake on`.');
}
