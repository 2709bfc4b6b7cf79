/**
 * Questions asked of the lake as `query run` asks them of the warehouse: for one account at a time. The database `memory` gets
 * the tables of the lake with the rows of that account, and the same views and macros over them.
 */
import { type Answer, type Lake, Refused } from './duckdb.ts';
import type { Program } from './program.ts';
import { literal, name } from './table.ts';
import { readViews } from './views.ts';

interface OfAccount extends Answer {
  readonly account: string;
}

/** Functions that a question may read from, besides the macros of the lake. Others write files, or run other SQL. */
const readable = new Set([
  ...['unnest', 'range', 'generate_series', 'json_each', 'json_tree'],
  ...['snapshots', 'current_snapshot', 'last_committed_snapshot', 'table_info'],
  ...['table_changes', 'table_insertions', 'table_deletions'],
  ...['duckdb_tables', 'duckdb_views', 'duckdb_columns', 'duckdb_functions', 'duckdb_types'],
]);

/**
 * Runs one question of a person. It is one `select`, as the parser of DuckDB reads it, and reads from no other functions than
 * the known ones. Throws a refusal.
 */
export async function askOnce<T>({ refusal }: Program, lake: Lake, question: string): Promise<T[]> {
  const [parsed] = await lake.rows<{ tree: string }>(`select json_serialize_sql(${literal(question)}) as tree`);
  const tree = JSON.parse(parsed!.tree) as {
    error: boolean;
    error_type?: string;
    error_message?: string;
    statements?: object[];
  };
  if (tree.error_type === 'parser') throw refusal(`the lake: ${tree.error_message}`, ofNames);
  if (tree.error || tree.statements?.length !== 1)
    throw refusal('`lake sql` runs one select, and nothing else', 'Ask one question that only reads.');
  const macros = await lake.rows<{ name: string }>(
    `select distinct function_name as name from duckdb_functions()
     where database_name = 'lake' and function_type = 'table_macro' and not internal`,
  );
  const known = new Set([...readable, ...macros.map(one => one.name)]);
  const refused = functionsReadFrom(tree.statements).find(one => !known.has(one));
  if (refused !== undefined)
    throw refusal(
      `\`lake sql\` does not read from the function ${refused}`,
      'Read from the tables, views and macros of the lake.',
    );
  return lake.rows<T>(question).catch((error: Error) => {
    throw error instanceof Refused ? refusal(error.message, ofNames) : error;
  });
}

const ofNames = 'Tables have the names that they have in the warehouse.';

/** The functions that a parsed statement reads rows from, wherever they stand in it. */
function functionsReadFrom(node: unknown): string[] {
  if (typeof node !== 'object' || node === null) return [];
  const { type, function: read } = node as { type?: unknown; function?: { function_name: string } };
  const here = type === 'TABLE_FUNCTION' ? [read!.function_name.toLowerCase()] : [];
  return [...here, ...Object.values(node).flatMap(functionsReadFrom)];
}

/** The answer of each account, in one snapshot. A question about no account runs once. */
export async function askLake(
  program: Program,
  lake: Lake,
  question: string,
  named: string | undefined,
): Promise<OfAccount[]> {
  // One snapshot for all accounts.
  await lake.run('begin');
  try {
    return await askAccounts(program, lake, question, named);
  } finally {
    await lake.run('rollback');
  }
}

async function askAccounts(
  { refusal, choiceOf }: Program,
  lake: Lake,
  question: string,
  named: string | undefined,
): Promise<OfAccount[]> {
  const listed = await lake.rows<{ account: string }>(
    'select account_id as account from lake.analytics.dim_account order by 1',
  );
  const known = listed.map(({ account }) => account);
  if (named !== undefined && !known.includes(named))
    throw refusal(`the lake has no account '${named}'`, choiceOf(named, known, 'Choose with --account'));
  const shared = await narrow(lake);
  const isShared = [...question.matchAll(/\b(?:from|join)\s+(\w+\.\w+)/g)].every(([, read]) => shared.has(read!));
  const wanted = named !== undefined ? [named] : isShared ? known.slice(0, 1) : known;
  const answers: OfAccount[] = [];
  for (const account of wanted) {
    await lake.run(`set variable account = ${literal(account)}`);
    answers.push({ account, ...(await lake.answer(question)) });
  }
  return answers;
}

/** Returns the tables that belong to no account. */
async function narrow(lake: Lake): Promise<ReadonlySet<string>> {
  const tables = await lake.rows<{ schema: string; name: string; account: string | null }>(
    `select schema_name as schema, table_name as name, max(column_name) filter (where column_name in ('account_id', 'account_key')) as account
     from duckdb_columns() where database_name = 'lake' and (schema_name, table_name) in (
       select (schema_name, table_name) from duckdb_tables() where database_name = 'lake')
     group by all`,
  );
  for (const { schema, name: table, account } of tables) {
    const at = `${name(schema)}.${name(table)}`;
    await lake.run(
      `create schema if not exists memory.${name(schema)};
       create view memory.${at} as from lake.${at}${account === null ? '' : ` where ${account} = getvariable('account')`}`,
    );
  }
  await lake.run(await readViews());
  return new Set(tables.filter(({ account }) => account === null).map(one => `${one.schema}.${one.name}`));
}
