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
import { count } from '../../words.ts';
import type { Act, Deps } from '../command.ts';
import { operator } from '../operator.ts';
import { type Cell, duration, print, printJson, say, table } from '../output/terminal.ts';
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
  let last = '';
  const show = (line: string) => {
    if (line !== last) say(line);
    last = line;
  };
  const { work } = stack.use(
    await workOnLake(
      {
        ...{ url: warehouse.url, pg: warehouse.pg, queues, log, reach: fleet.lake },
        ...{ tables: lakeTables, jobs: deps.lakeJobs, clock: systemClock, signal: deps.signal },
      },
      state,
      show,
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
  const open = async () => {
    const { fleet } = deps.asked();
    const warehouse = await tablesOf(fleet, deps.signal);
    return { fleet, warehouse, [Symbol.asyncDispose]: () => warehouse[Symbol.asyncDispose]() };
  };
  const placeOf = ({ fleet }: Awaited<ReturnType<typeof open>>, { path }: StoredLake): LakePlace => ({
    ...fleet.lake,
    path,
  });
  const json = ['--json', 'print one JSON document on stdout'] as const;

  lake
    .command('on')
    .description('note changes from now on; the first export copies everything')
    .option('--to <path>', `folder, or s3://bucket/prefix (default: ${usualFolder})`)
    .option('--pii', 'with names, addresses and texts; without it only masked views are copied')
    .option('--keep-days <days>', `days for which snapshots are kept (default: ${usualDays})`, days)
    .action(
      act(async ({ to: asked, pii = false, keepDays = usualDays }: Asked) => {
        await using opened = await open();
        const { demo } = opened.fleet;
        const to = asked ?? (demo ? join(demo.folder, 'lake') : usualFolder);
        const { pg } = opened.warehouse;
        const known = await readLake(pg);
        if (known !== undefined)
          throw new UsageError(
            `the lake is on already, at ${known.path}`,
            'To change it, run `npx shelfdesk lake off` first.',
          );
        const { isBucket, openLake, hasFiles } = await lakePackage();
        const path = isBucket(to) ? to.replace(/\/+$/, '') : resolve(to);
        {
          await using engine = await openLake(opened.warehouse.url, { ...opened.fleet.lake, path }, { mode: 'none' });
          if (await hasFiles(engine, path))
            throw new UsageError(
              `${path} has Parquet files already; the lake deletes files that are not its own`,
              'Delete them, or choose another place with --to.',
            );
        }
        const by = { who: operator(), now: new Date(systemClock.now()) };
        await turnOn(opened.warehouse.url, opened.fleet.lake, { path, personal: pii, keepDays }, by);
        say(
          `The lake is on, at ${path}. \`npx shelfdesk lake export\` fills it; so does \`start\`, as SCHEDULE_LAKE says.`,
        );
        return exitCodes.ok;
      }),
    );
  lake
    .command('export')
    .description('make the lake equal to the warehouse now')
    .option(...json)
    .action(
      act(async (asked: Asked) => {
        await using opened = await open();
        const { warehouse } = opened;
        const done = await exportNow(deps, opened, required(await readLake(warehouse.pg)));
        if (asked.json) printJson(done);
        else
          say(
            `The lake is equal to the warehouse at ${done.moment.toISOString()}: ${count(done.inserted, 'row')} written, ${done.deleted} removed or replaced, in ${duration(systemClock.now() - done.moment.getTime())}.`,
          );
        return exitCodes.ok;
      }),
    );
  lake
    .command('status')
    .description('say how far the lake is, and what is pending')
    .option(...json)
    .action(
      act(async (asked: Asked) => {
        await using opened = await open();
        const status = await readLakeStatus(opened.warehouse.pg);
        const files = status && (await readLakeFiles(opened.warehouse.pg));
        if (asked.json) printJson(status ? { ...status, ...files } : null);
        else if (status === undefined) say('The lake is off. `npx shelfdesk lake on` turns it on.');
        else showStatus(status, files);
        return exitCodes.ok;
      }),
    );
  lake
    .command('verify')
    .description('compare every row of the lake with the warehouse')
    .option(...json)
    .action(
      act(async (asked: Asked) => {
        await using opened = await open();
        const { url, pg } = opened.warehouse;
        const state = required(await readLake(pg));
        const { openLake, compareLake } = await lakePackage();
        await using engine = await openLake(url, placeOf(opened, state), { signal: deps.signal, mode: 'read' });
        const found = await alone(url, client => compareLake(engine, client, exportedTables(lakeTables, state)));
        if (asked.json) printJson(found);
        else if (found.length === 0) say('Every row of the lake is equal to the warehouse.');
        else
          print(
            table(
              ['table', 'only in the warehouse', 'only in the lake'],
              found.map(one => [one.table, one.missing, one.extra]),
            ),
          );
        return found.length === 0 ? exitCodes.ok : exitCodes.differs;
      }),
    );
  lake
    .command('sql')
    .description('run an SQL query of DuckDB on the lake')
    .argument('<query>', 'for example: "select * from analytics.completeness"')
    .option(...json)
    .action(
      act(async (query: string, asked: Asked) => {
        await using opened = await open();
        const state = required(await readLake(opened.warehouse.pg));
        const { openForQuestions, askOnce } = await lakePackage();
        await using engine = await openForQuestions(opened.warehouse.url, placeOf(opened, state), deps.signal);
        await engine.run('use lake');
        const rows = await askOnce<Record<string, Cell>>(engine, query);
        if (asked.json) printJson(rows);
        else
          print(
            table(
              Object.keys(rows[0] ?? { '': null }),
              rows.map(row => Object.values(row)),
            ),
          );
        return exitCodes.ok;
      }),
    );
  lake
    .command('files')
    .description('list the files of a snapshot, for engines that know Parquet and no DuckLake')
    .argument('[table...]', 'such as safe.tickets; without it all tables')
    .option('--snapshot <number>', 'another snapshot than the newest one', snapshotNumber)
    .option(...json)
    .action(
      act(async (tables: string[], { snapshot, json: asJson }: Asked) => {
        await using opened = await open();
        const { pg } = opened.warehouse;
        required(await readLake(pg));
        const found = await listFiles(pg, { snapshot, tables });
        if (asJson) printJson(found);
        else
          print(
            table(
              ['table', 'rows', 'deleted', 'file', 'deleted rows'],
              found.tables.flatMap(one =>
                one.files.map(file => [one.table, file.rows, file.deleted, file.path, file.deletes]),
              ),
            ),
          );
        return exitCodes.ok;
      }),
    );
  lake
    .command('off')
    .description('note changes no longer, and forget what the files mean; the files stay')
    .action(
      act(async () => {
        await using opened = await open();
        const { pg } = opened.warehouse;
        const { path } = required(await readLake(pg));
        await turnOff(opened.warehouse.url);
        say(`The lake is off. Its files are still at ${path}: delete them.`);
        return exitCodes.ok;
      }),
    );
}

function showStatus(status: LakeStatus, files: LakeFiles | undefined): void {
  const lines = {
    path: status.path,
    'personal data': status.personal ? 'yes' : 'no, masked views only',
    state: status.state,
    'equal to the warehouse at': status.moment,
    pending: count(status.pending, 'change'),
    'an export takes': status.usual_seconds === null ? null : duration(status.usual_seconds * 1000),
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

function days(text: string): number {
  if (/^[1-9]\d{0,4}$/.test(text)) return Number(text);
  throw new UsageError(`--keep-days must be a number of days, not ${text}`, 'Give a whole number, 1 or more.');
}

function snapshotNumber(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new UsageError(`--snapshot must be the number of a snapshot, not ${text}`, 'Give a whole number.');
}
