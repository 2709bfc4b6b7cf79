/** `db`: runs the embedded server until Ctrl-C, backs up and restores the warehouse, and runs programs of PostgreSQL on it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Command } from 'commander';
import { readSearch } from '../../analytics/search.ts';
import { commandEnvironment } from '../../app/config.ts';
import type { Warehouse } from '../../app/context.ts';
import { migrateWarehouse } from '../../app/migrate.ts';
import { systemClock } from '../../clock.ts';
import { backUp, type ShowRows } from '../../engine/database/backup/backup.ts';
import { restore } from '../../engine/database/backup/restore.ts';
import { settleFences } from '../../engine/database/move/fence.ts';
import { programEnvironment } from '../../engine/database/session/connection-url.ts';
import { exitCodes, ShelfdeskError, UsageError } from '../../errors.ts';
import { amount, count } from '../../words.ts';
import { type Act, type Deps, jsonOption } from '../command.ts';
import { type Line, showLine } from '../output/line.ts';
import { print, printJson, say } from '../output/terminal.ts';
import { tablesOf, warehouseOf } from '../warehouse.ts';

export function addDb(program: Command, deps: Deps, act: Act): void {
  const db = program
    .command('db')
    .summary('run, back up and restore the database')
    .description('start the embedded PostgreSQL, print its URL and stay until Ctrl-C')
    .option(...jsonOption)
    .action(act((options: { json?: boolean }) => serve(deps, options.json === true)));

  db.command('backup')
    .argument('<file>', 'file to make: gzip, readable by you alone')
    .description('write all tables into one file, without pg_dump, while workers run')
    .option('--force', 'replace the file if it is there')
    .action(
      act(async (file: string, { force = false }: { force?: boolean }) => {
        await using warehouse = await tablesOf(deps.asked().fleet, deps.signal);
        await requireRows(warehouse);
        const search = (await readSearch(warehouse.pg)).some(({ state }) => state === 'on');
        const made = { shelfdesk: program.version() ?? '', madeAt: new Date(systemClock.now()).toISOString(), search };
        const progress = showLine();
        const done = await backUp(warehouse.url, file, made, {
          force,
          show: rowsOn(progress),
          signal: deps.signal,
        }).finally(progress.end);
        const lake = await warehouse.pg.query<{ path: string }>('select path from sync.lake');
        print(`${file}: ${count(done.rows, 'row')} of ${count(done.tables, 'table')}, ${megabytes(done.bytes)}`);
        for (const { path } of lake.rows) say(`Not in it: the files of the lake in ${path}. Copy them too.`);
      }),
    );

  db.command('restore')
    .argument('<file>', 'file of `db backup`')
    .description('fill an empty database from a backup, whole or not at all')
    .action(
      act(async (file: string) => {
        await using warehouse = await warehouseOf(deps.asked().fleet, deps.signal);
        const migrate = () => migrateWarehouse(warehouse.url);
        const progress = showLine();
        const done = await restore(warehouse.url, file, migrate, {
          show: rowsOn(progress),
          signal: deps.signal,
        }).finally(progress.end);
        await migrate(); // Rights of roles, and statistics of the new rows.
        await settleFences(warehouse.url); // Of accounts that have moved.
        print(`restored ${count(done.rows, 'row')} of ${count(done.tables, 'table')}, from ${done.madeAt}`);
        if (done.search) say('Search was on. Make its indexes: npx shelfdesk warehouse search on');
        if (done.missingReaders.length > 0)
          say(
            `This server has no login ${done.missingReaders.join(', ')}. Let them in anew: docs/how-to/let-readers-in.md`,
          );
        say('Wait a minute before you start a worker: a backup does not know which credits were spent since.');
      }),
    );

  db.command('run')
    .argument('<command...>', 'program and its arguments, after --')
    .description('run psql, pg_dump or another program on the warehouse: PGHOST, PGPASSWORD and the like are set')
    .action(
      act(async ([name = '', ...args]: string[]) => {
        await using warehouse = await warehouseOf(deps.asked().fleet, deps.signal);
        const { rows } = await warehouse.pg.query("select to_regclass('sync.accounts') is not null as there");
        if (!rows[0].there) throw empty(warehouse, 'has no tables of Shelfdesk');
        const env = { ...commandEnvironment(), ...programEnvironment(warehouse.url) };
        const child = spawn(name, args, { stdio: 'inherit', env });
        // Ctrl-C reaches the program too. It may need it for itself, as psql does.
        deps.signal.addEventListener('abort', () => child.kill('SIGTERM'), { once: true });
        const [code] = await once(child, 'close').catch(error => {
          throw new UsageError(`${name} cannot be run: ${error.message}`, 'Install it, or write its whole path.');
        });
        return code ?? exitCodes.failed;
      }),
    );
}

/** A backup of an empty warehouse would be believed until it is needed. */
async function requireRows(warehouse: Warehouse): Promise<void> {
  const { rows } = await warehouse.pg.query('select exists (select from sync.accounts) as there');
  if (!rows[0].there) throw empty(warehouse, 'is empty: no account was ever read into it');
}

const empty = ({ folder }: Warehouse, what: string) =>
  new ShelfdeskError(
    `the database ${what}`,
    folder === undefined
      ? 'Check DATABASE_URL, in the environment or in .env.'
      : 'DATABASE_URL is not set, so this is the embedded one of this folder. Set it, or run in the folder of the warehouse.',
  );

async function serve(deps: Deps, json: boolean): Promise<void> {
  const { fleet } = deps.asked();
  if (fleet.databaseUrl !== undefined) {
    throw new UsageError(
      'DATABASE_URL is set, so there is no embedded server',
      'Connect to that URL with psql, or unset DATABASE_URL.',
    );
  }
  await using warehouse = await warehouseOf(fleet, deps.signal);
  if (json) printJson({ url: warehouse.url, folder: warehouse.folder });
  else print(warehouse.url);
  say('Press Ctrl-C to stop.');
  await new Promise(ended => deps.signal.addEventListener('abort', ended, { once: true }));
}

const rowsOn =
  ({ show }: Line): ShowRows =>
  (table, rows) =>
    show(`${table}: ${count(rows, 'row')}`);

const megabytes = (bytes: number): string => `${amount(Math.max(0.1, Math.round(bytes / 1e5) / 10))} MB`;
