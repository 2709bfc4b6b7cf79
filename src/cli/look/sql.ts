/** `sql "select …"`: runs a read-only query and prints the rows as a table. */
import { type Command, Option } from 'commander';
import pg from 'pg';
import type { Warehouse } from '../../app/context.ts';
import { systemClock } from '../../clock.ts';
import type { Client } from '../../engine/database/pool.ts';
import { exitCodes, ShelfdeskError, UsageError } from '../../errors.ts';
import { openAsker } from '../../privacy/sql-role.ts';
import { sources } from '../../sources/index.ts';
import { count } from '../../words.ts';
import { type Act, type Deps, note } from '../command.ts';
import { type Cell, print, printCsv, printJson, say, table } from '../output/terminal.ts';
import { warehouseOf } from '../warehouse.ts';

export function addSql(program: Command, deps: Deps, act: Act): void {
  program
    .command('sql')
    .summary('run a read-only SQL query')
    .description('run an SQL query on the warehouse; read-only')
    .addHelpText('after', note('The session is that of a login that can only read.'))
    .argument('<query>', 'for example: "select * from sync.status"')
    .option('--json', 'print one JSON document on stdout')
    .addOption(new Option('--csv', 'print CSV on stdout: null is empty, an empty text is ""').conflicts('json'))
    .action(
      act(async (query: string, options: { json?: boolean; csv?: boolean }) => {
        await using warehouse = await warehouseOf(deps.asked().fleet, deps.signal);
        const { fields, rows } = await ask(warehouse, query);
        const names = fields.map(field => field.name);
        if (options.json) printJson(rows.map(row => Object.fromEntries(names.map((name, i) => [name, row[i]]))));
        else if (options.csv) printCsv([names, ...rows]);
        else {
          print(table(names, rows));
          say(count(rows.length, 'row'));
        }
        return exitCodes.ok;
      }),
    );
}

/** Types returned as text: node-postgres would convert days and zoneless times to instants in this machine's time zone. */
const asTheyStand: ReadonlySet<number> = new Set([pg.types.builtins.DATE, pg.types.builtins.TIMESTAMP]);
const parserOf: pg.CustomTypesConfig['getTypeParser'] = (type, format) =>
  asTheyStand.has(type) ? String : pg.types.getTypeParser(type, format);

const pgUndefinedTable = '42P01';

export interface Answer {
  readonly fields: readonly Pick<pg.FieldDef, 'name'>[];
  readonly rows: Cell[][];
}

type Asked = Pick<Warehouse, 'pg' | 'url'>;

/**
 * Runs a query as a read-only login (privacy/sql-role.ts) in a read-only transaction. The extended protocol accepts only one
 * statement, so nothing can follow a semicolon.
 */
export const ask = (warehouse: Asked, query: string): Promise<Answer> =>
  reading(warehouse, client => answerTo(client, query));

/**
 * Runs a query for account `named`, or once for each readable account. With several accounts the rows get a column
 * `account`, unless they have one. A query that reads no account data runs once.
 */
export function askAccounts(warehouse: Asked, query: string, named: string | undefined): Promise<Named> {
  return reading(warehouse, async client => {
    const { rows } = await client.query<{ account_id: string }>(
      'select account_id from sync.readable_accounts order by account_id',
    );
    const known = rows.map(({ account_id }) => account_id);
    if (named !== undefined && !known.includes(named))
      throw new UsageError(`there is no account '${named}'`, `Choose with --account: ${known.join(', ')}.`);
    const wanted = named === undefined && (await asksOfAccounts(client, query)) ? known : [named ?? ''];
    const answers: (Named & { account: string })[] = [];
    for (const account of wanted.length > 0 ? wanted : ['']) {
      await client.query(`select set_config('shelfdesk.account', $1, true)`, [account]);
      const { fields, rows: found } = await answerTo(client, query);
      answers.push({ account, names: fields.map(({ name }) => name), rows: found });
    }
    return together(answers);
  });
}

export interface Named {
  readonly names: readonly string[];
  readonly rows: readonly (readonly Cell[])[];
}

/** Answers of several accounts as one. Their rows get a column `account`, unless they have one. */
export function together(answers: readonly (Named & { account: string })[]): Named {
  const { names = [] } = answers[0] ?? {};
  const isSaid = answers.length < 2 || names.includes('account') || names.includes('account_id');
  return {
    names: isSaid ? names : ['account', ...names],
    rows: answers.flatMap(({ account, rows }) => (isSaid ? rows : rows.map(row => [account, ...row]))),
  };
}

/** Whether the query depends on the readable accounts: then its plan scans sync.accounts. */
async function asksOfAccounts(client: Client, query: string): Promise<boolean> {
  const { rows } = await client.query<{ 'QUERY PLAN': unknown }>(`explain (verbose, format json) ${query}`);
  const plan = JSON.stringify(rows[0]!['QUERY PLAN']);
  return plan.includes('"Relation Name":"accounts","Schema":"sync"');
}

async function reading<T>(warehouse: Asked, work: (client: Client) => Promise<T>): Promise<T> {
  await using asker = await openAsker(warehouse, new Date(systemClock.now()));
  if (asker.warning !== undefined) say(asker.warning);
  const { client } = asker;
  try {
    await client.query('begin read only');
    await client.query('set local search_path = helpdesk, books, analytics, sync, public');
    return await work(client);
  } catch (error) {
    if (!(error instanceof pg.DatabaseError)) throw error;
    await client.query('rollback');
    const hint =
      error.hint ??
      (await similarTables(client, error)) ??
      `The tables are in the schemas ${sources.map(({ name }) => name).join(', ')}, analytics and sync; docs/reference/tables.md names them.`;
    throw new ShelfdeskError(`PostgreSQL says: ${error.message}`, hint, exitCodes.failed, error);
  } finally {
    await client.query('rollback').catch(() => {});
  }
}

/** "Perhaps you meant helpdesk.tickets." Undefined if no table is missing, or none has a similar name. */
async function similarTables(client: Client, { code, message }: pg.DatabaseError): Promise<string | undefined> {
  if (code !== pgUndefinedTable) return undefined;
  const missing = /"(?:[^"]*\.)?([^".]+)"/.exec(message)?.[1];
  const { rows } = await client.query<{ name: string }>(
    `select n.nspname || '.' || c.relname as name
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = any ($2) and c.relkind in ('r', 'v', 'm', 'p') and sync.similarity(c.relname, $1) >= 0.3
     order by sync.similarity(c.relname, $1) desc, n.nspname, c.relname limit 3`,
    [missing, [...sources.map(({ name }) => name), 'analytics', 'star', 'safe', 'sync']],
  );
  return rows.length === 0 ? undefined : `Perhaps you meant ${rows.map(({ name }) => name).join(' or ')}.`;
}

async function answerTo(client: Client, query: string): Promise<Answer> {
  const statement: pg.QueryArrayConfig & { queryMode: 'extended' } = {
    text: query,
    rowMode: 'array',
    queryMode: 'extended',
    types: { getTypeParser: parserOf },
  };
  const { command, fields, rows } = await client.query<Cell[]>(statement);
  if (fields.length === 0 && command !== 'SELECT') throw noQuestion(command);
  return { fields, rows };
}

/** `command` is null for an empty statement. */
const noQuestion = (command: string | null) =>
  new UsageError(
    command ? `${command} returns no rows; nothing was changed` : 'the statement is empty',
    'Write a statement that returns rows: select, values, table, with, show or explain.',
  );
