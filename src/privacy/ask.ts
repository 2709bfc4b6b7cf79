/**
 * Runs SQL that somebody else wrote, on the session of a login that can only read (sql-role.ts), in a transaction that only
 * reads. The extended protocol accepts only one statement, so nothing can follow a semicolon.
 */
import pg from 'pg';
import { type Client, eachDigit } from '../engine/database/pool.ts';
import { query, sql } from '../engine/database/sql.ts';
import { UsageError } from '../errors.ts';
import { choiceOf } from '../words.ts';

/** Types returned as text: node-postgres would convert days and zoneless times to instants in this machine's time zone. */
const asTheyStand: ReadonlySet<number> = new Set([pg.types.builtins.DATE, pg.types.builtins.TIMESTAMP]);
const parserOf: pg.CustomTypesConfig['getTypeParser'] = (type, format) =>
  asTheyStand.has(type) ? String : eachDigit.getTypeParser(type, format);

export type Value = string | number | boolean | bigint | Date | null | undefined | object;

export interface Answer {
  readonly fields: readonly Pick<pg.FieldDef, 'name'>[];
  readonly rows: Value[][];
}

export interface Named {
  readonly names: readonly string[];
  readonly rows: readonly (readonly Value[])[];
}

/** The rows as objects, by column. */
export const objectsOf = ({ names, rows }: Named): Record<string, Value>[] =>
  rows.map(row => Object.fromEntries(names.map((name, i) => [name, row[i]])));

/** Runs `work` in a transaction that only reads, and rolls it back. `path`: the schemas of plain names. */
export async function readOnly<T>(client: Client, path: string, work: () => Promise<T>): Promise<T> {
  try {
    await client.query('begin read only');
    await client.query(`set local search_path = ${path}`);
    return await work();
  } finally {
    await client.query('rollback').catch(() => {});
  }
}

/** One statement of the extended protocol, with rows as arrays. */
export const statementOf = (text: string): pg.QueryArrayConfig & { queryMode: 'extended' } => ({
  ...{ text, rowMode: 'array', queryMode: 'extended' },
  types: { getTypeParser: parserOf },
});

/**
 * PostgreSQL reports a parameter without a value as a violation of the protocol, whose code has the same class as a
 * broken connection.
 */
const isUnbound = (error: unknown) => error instanceof pg.DatabaseError && error.code === '08P01';

/** Runs a statement that somebody else wrote. Throws UsageError where the protocol has no place for it. */
export async function runAsked<T>(client: Client, text: string): Promise<pg.QueryArrayResult<T[]>> {
  try {
    return await client.query<T[]>(statementOf(text));
  } catch (error) {
    if (!isUnbound(error)) throw error;
    const remedy = 'Write the value in the place of $1: nothing else can give it.';
    throw new UsageError('the statement has a parameter without a value', remedy);
  }
}

export async function answerTo(client: Client, query: string): Promise<Answer> {
  const { command, fields, rows } = await runAsked<Value>(client, query);
  if (fields.length === 0 && command !== 'SELECT') throw noQuestion(command);
  return { fields, rows };
}

/** The accounts that the role of a session may read. Not every reader may ask for them itself. */
export const accountsOf = (client: Pick<Client, 'query'>): Promise<string[]> =>
  query(client).values<string>`select account_id from sync.readable_accounts order by account_id`;

/**
 * Asks for account `named`, or once for each of the `known` accounts, which the session may read. With several accounts the
 * rows get a column `account`, unless they have one. A query that reads no account data runs once.
 */
export async function answerForEach(
  client: Client,
  query: string,
  { named, known }: { named: string | undefined; known: readonly string[] },
  answer: (client: Client, query: string) => Promise<Answer> = answerTo,
): Promise<Named> {
  if (named !== undefined && !known.includes(named))
    throw new UsageError(`there is no account '${named}'`, choiceOf(named, known, 'Choose with --account'));
  const isOfAll = named === undefined && known.length > 1 && asksOfAccounts(await planOf(client, query));
  const wanted = isOfAll ? known : [named ?? ''];
  const answers: (Named & { account: string })[] = [];
  for (const account of wanted) {
    await client.query(sql`select set_config('shelfdesk.account', ${account}, true)`);
    const { fields, rows: found } = await answer(client, query);
    answers.push({ account, names: fields.map(({ name }) => name), rows: found });
  }
  return together(answers);
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

/** The plan of one query, as JSON. Runs nothing: as one statement of the extended protocol, it cannot end the transaction. */
export async function planOf(client: Client, query: string): Promise<string> {
  const { rows } = await runAsked<unknown>(client, `explain (verbose, format json) ${query}`);
  return JSON.stringify(rows[0]![0]);
}

/** Whether the query depends on the readable accounts: then its plan scans sync.accounts. */
const asksOfAccounts = (plan: string) => plan.includes('"Relation Name":"accounts","Schema":"sync"');

/** `command` is null for an empty statement. */
const noQuestion = (command: string | null) =>
  new UsageError(
    command ? `${command} returns no rows; nothing was changed` : 'the statement is empty',
    'Write a statement that returns rows: select, values, table, with, show or explain.',
  );
