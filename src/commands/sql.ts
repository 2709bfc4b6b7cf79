/** `sql "select …"`: the answer of the warehouse as a table. Reads only. */
import type { Command } from 'commander';
import pg from 'pg';
import { systemClock } from '../clock.ts';
import type { Warehouse } from '../context.ts';
import { exitCodes, ShelfdeskError, UsageError } from '../errors.ts';
import { openAsker } from '../warehouse/asker.ts';
import { count } from '../words.ts';
import type { Act, Deps } from './command.ts';
import { type Cell, print, printJson, say, table } from './terminal.ts';
import { warehouseOf } from './warehouse.ts';

export function addSql(program: Command, deps: Deps, act: Act): void {
  program
    .command('sql')
    .description('ask the warehouse, in SQL; reads only')
    .argument('<query>', 'for example: "select * from sync.status"')
    .option('--json', 'print one JSON document on stdout')
    .action(
      act(async (query: string, options: { json?: boolean }) => {
        await using warehouse = await warehouseOf(deps.asked().fleet, deps.signal);
        const { fields, rows } = await ask(warehouse, query);
        const names = fields.map(field => field.name);
        if (options.json) printJson(rows.map(row => Object.fromEntries(names.map((name, i) => [name, row[i]]))));
        else {
          print(table(names, rows));
          say(count(rows.length, 'row'));
        }
        return exitCodes.ok;
      }),
    );
}

/** A day, and a time without a zone, as they stand there: node-postgres makes instants of them, by the clock of this machine. */
const asTheyStand: ReadonlySet<number> = new Set([pg.types.builtins.DATE, pg.types.builtins.TIMESTAMP]);
const parserOf: pg.CustomTypesConfig['getTypeParser'] = (type, format) =>
  asTheyStand.has(type) ? String : pg.types.getTypeParser(type, format);

/**
 * Asks as a login that can only read (warehouse/asker.ts), in a transaction that only reads as well. The extended protocol takes
 * one statement: nothing can follow behind a semicolon.
 */
export async function ask(
  warehouse: Pick<Warehouse, 'pg' | 'url'>,
  query: string,
): Promise<{ fields: pg.FieldDef[]; rows: Cell[][] }> {
  await using asker = await openAsker(warehouse, new Date(systemClock.now()));
  if (asker.warning !== undefined) say(asker.warning);
  const { client } = asker;
  try {
    await client.query('begin read only');
    await client.query('set local search_path = helpdesk, books, analytics, sync, public');
    const statement: pg.QueryArrayConfig & { queryMode: 'extended' } = {
      text: query,
      rowMode: 'array',
      queryMode: 'extended',
      types: { getTypeParser: parserOf },
    };
    const { command, fields, rows } = await client.query<Cell[]>(statement);
    if (fields.length === 0 && command !== 'SELECT') throw noQuestion(command);
    return { fields, rows };
  } catch (error) {
    if (!(error instanceof pg.DatabaseError)) throw error;
    const hint =
      error.hint ?? 'The tables are in the schemas helpdesk, books, analytics and sync; docs/DATA.md names them.';
    throw new ShelfdeskError(`PostgreSQL says: ${error.message}`, hint, exitCodes.failed, error);
  } finally {
    await client.query('rollback').catch(() => {});
  }
}

/** PostgreSQL names no command where there is no statement. */
const noQuestion = (command: string | null) =>
  new UsageError(
    command ? `${command} has no rows to show: nothing was changed` : 'the statement is empty',
    'Write a statement that asks: select, values, table, with, show or explain.',
  );
