/**
 * Views and macros of the lake: SQL files in the dialect of DuckDB. The catalog keeps them, so every engine that speaks this
 * dialect has them. An export makes them anew when this version has other ones.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Lake } from './duckdb.ts';
import { literal, name } from './table.ts';

/** A macro that says of which text the others were made. It comes and goes with them, in the same transaction. */
const version = 'views_version';

/** In the order in which they are made. */
const files = ['own', 'helpdesk', 'integrity'].map(one => new URL(`./views/${one}.sql`, import.meta.url));

export const readViews = async (): Promise<string> =>
  (await Promise.all(files.map(file => readFile(file, 'utf8')))).join('\n');

const versionOf = (sql: string): string => createHash('sha256').update(sql).digest('hex');

/** Drops the views and macros if they were made of another text. Returns whether they are to be made. */
export async function dropOldViews(lake: Lake, sql: string): Promise<boolean> {
  const there = await lake.rows<{ kind: string; schema: string; name: string; definition: string }>(
    `select 'view' as kind, schema_name as schema, view_name as name, sql as definition from duckdb_views() where database_name = 'lake'
     union all
     select distinct case function_type when 'table_macro' then 'macro table' else 'macro' end, schema_name, function_name, macro_definition
     from duckdb_functions() where database_name = 'lake' and function_type in ('macro', 'table_macro') and not internal`,
  );
  const made = there.find(one => one.name === version);
  if (made?.definition === literal(versionOf(sql))) return false;
  for (const one of there) await lake.run(`drop ${one.kind} lake.${name(one.schema)}.${name(one.name)}`);
  return true;
}

/** Makes the views and macros. */
export async function createViews(lake: Lake, sql: string): Promise<void> {
  await lake.run('use lake');
  try {
    await lake.run(sql);
    await lake.run(`create or replace macro analytics.${version}() as ${literal(versionOf(sql))}`);
  } finally {
    await lake.run('use memory');
  }
}
