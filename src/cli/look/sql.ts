/** `sql "select …"`: runs a read-only query and prints the rows as a table. */
import { type Command, Option } from 'commander';
import pg from 'pg';
import type { Warehouse } from '../../app/context.ts';
import { systemClock } from '../../clock.ts';
import type { Client } from '../../engine/database/pool.ts';
import { sql } from '../../engine/database/sql.ts';
import { ShelfdeskError } from '../../errors.ts';
import {
  type Answer,
  accountsOf,
  answerForEach,
  answerTo,
  type Named,
  objectsOf,
  readOnly,
} from '../../privacy/ask.ts';
import { judge } from '../../privacy/judge.ts';
import { openAsker } from '../../privacy/sql-role.ts';
import { sources } from '../../sources/index.ts';
import { count } from '../../words.ts';
import { demoHasEnded, hasEnded } from '../choose-account.ts';
import { type Act, type Deps, jsonOption, note } from '../command.ts';
import { print, printCsv, printJson, say, table } from '../output/terminal.ts';
import { warehouseOf } from '../warehouse.ts';

export function addSql(program: Command, deps: Deps, act: Act): void {
  program
    .command('sql')
    .summary('run a read-only SQL query')
    .description('run an SQL query on the warehouse; read-only')
    .addHelpText('after', note('The session is that of a login that can only read.'))
    .argument('<query>', 'for example: "select * from sync.status"')
    .option(...jsonOption)
    .addOption(new Option('--csv', 'print CSV on stdout: null is empty, an empty text is ""').conflicts('json'))
    .action(
      act(async (query: string, options: { json?: boolean; csv?: boolean }) => {
        const { fleet } = deps.asked();
        await using warehouse = await warehouseOf(fleet, deps.signal);
        const { fields, rows } = await ask(warehouse, query).catch(error => {
          throw hasEnded(fleet) && /npx shelfdesk sync/.test(error.remedy)
            ? new ShelfdeskError(error.message, demoHasEnded)
            : error;
        });
        const names = fields.map(field => field.name);
        if (options.json) printJson(objectsOf({ names, rows }));
        else if (options.csv) printCsv([names, ...rows]);
        else {
          print(table(names, rows));
          say(count(rows.length, 'row'));
        }
      }),
    );
}

const pgUndefinedTable = '42P01';

type Asked = Pick<Warehouse, 'pg' | 'url'>;

/** Tables of these need no schema in a query. */
const schemas = [...sources.map(({ name }) => name), 'analytics', 'sync'];

/** Runs a query as a login that can only read. */
export const ask = (warehouse: Asked, query: string): Promise<Answer> =>
  reading(warehouse, async client => {
    await judge(client, query);
    return answerTo(client, query);
  });

/** Runs a query for account `named`, or once for each readable account. */
export const askAccounts = (warehouse: Asked, query: string, named: string | undefined): Promise<Named> =>
  reading(warehouse, async client => {
    await judge(client, query);
    return answerForEach(client, query, { named, known: await accountsOf(client) });
  });

async function reading<T>(warehouse: Asked, work: (client: Client) => Promise<T>): Promise<T> {
  await using asker = await openAsker(warehouse, new Date(systemClock.now()));
  if (asker.warning !== undefined) say(asker.warning);
  const { client } = asker;
  try {
    return await readOnly(client, [...schemas, 'public'].join(', '), () => work(client));
  } catch (error) {
    if (!(error instanceof pg.DatabaseError)) throw error;
    const hint =
      error.hint ??
      (await similarTables(client, error)) ??
      `The tables are in the schemas ${schemas.slice(0, -1).join(', ')} and ${schemas.at(-1)}; docs/reference/tables.md names them.`;
    throw new ShelfdeskError(`PostgreSQL says: ${error.message}`, hint, { cause: error });
  }
}

/** "Perhaps you meant helpdesk.tickets." Undefined if no table is missing, or none has a similar name. */
async function similarTables(client: Client, { code, message }: pg.DatabaseError): Promise<string | undefined> {
  if (code !== pgUndefinedTable) return undefined;
  const { rows: tables } = await client.query("select to_regclass('sync.streams') is not null as there");
  if (!tables[0].there) return 'The tables are missing: run `npx shelfdesk sync` or `npx shelfdesk migrate`.';
  const missing = /"(?:[^"]*\.)?([^".]+)"/.exec(message)?.[1];
  const { rows } = await client.query<{ name: string }>(sql`
    select n.nspname || '.' || c.relname as name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = any (${[...schemas, 'safe']}) and c.relkind in ('r', 'v', 'm', 'p') and sync.similarity(c.relname, ${missing}) >= 0.3
    order by sync.similarity(c.relname, ${missing}) desc, n.nspname, c.relname limit 3`);
  return rows.length === 0 ? undefined : `Perhaps you meant ${rows.map(({ name }) => name).join(' or ')}.`;
}
