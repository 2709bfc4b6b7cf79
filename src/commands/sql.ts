/** `sql "select …"`: the answer of the warehouse as a table. Reads only. */
import type { Command } from 'commander';
import pg from 'pg';
import { exitCodes, ShelfdeskError } from '../errors.ts';
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
        await using warehouse = await warehouseOf(deps.fleet(), deps.signal);
        const { fields, rows } = await ask(warehouse.pg, query);
        const names = fields.map(field => field.name);
        if (options.json) printJson(rows.map(row => Object.fromEntries(names.map((name, i) => [name, row[i]]))));
        else {
          print(table(names, rows));
          say(`${rows.length} ${rows.length === 1 ? 'row' : 'rows'}`);
        }
        return exitCodes.ok;
      }),
    );
}

/** A day, and a time without a zone, as they stand there: node-postgres makes instants of them, by the clock of this machine. */
const asTheyStand: ReadonlySet<number> = new Set([pg.types.builtins.DATE, pg.types.builtins.TIMESTAMP]);
const parserOf: pg.CustomTypesConfig['getTypeParser'] = (type, format) =>
  asTheyStand.has(type) ? String : pg.types.getTypeParser(type, format);

/** In a read-only transaction: the mirror is written by the worker alone. */
export async function ask(db: pg.Pool, query: string): Promise<{ fields: pg.FieldDef[]; rows: Cell[][] }> {
  const client = await db.connect();
  try {
    await client.query('begin read only');
    await client.query('set local search_path = helpdesk, books, analytics, sync, public');
    // The extended protocol takes one statement: nothing can follow behind a semicolon.
    const statement: pg.QueryArrayConfig & { queryMode: 'extended' } = {
      text: query,
      rowMode: 'array',
      queryMode: 'extended',
      types: { getTypeParser: parserOf },
    };
    return await client.query<Cell[]>(statement);
  } catch (error) {
    if (!(error instanceof pg.DatabaseError)) throw error;
    const hint =
      error.hint ?? 'The tables are in the schemas helpdesk, books, analytics and sync; docs/DATA.md names them.';
    throw new ShelfdeskError(`PostgreSQL says: ${error.message}`, hint, exitCodes.failed, error);
  } finally {
    await client.query('rollback').catch(() => {});
    client.release();
  }
}
