/**
 * Views, functions, triggers and comments: the files of schema/views, in the order of their names. They hold no rows, so they are
 * applied whole, in one transaction, whenever their text has changed, after the migrations. What can be replaced is replaced. A
 * view whose columns change, and a function whose result changes, are dropped first, with what reads them: ours is made anew by
 * the files, and that of others from what the database knows of it (dependents.ts).
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type pg from 'pg';
import { ShelfdeskError } from '../../errors.ts';
import { checksumOf } from './checksums.ts';
import { dependentsOf, grantsOn, restore } from './dependents.ts';
import type { Queryable } from './pool.ts';
import { query, sql } from './sql.ts';

export interface Views {
  readonly checksum: string;
  /** Version of the program that has these views. */
  readonly version: string;
  /** Each makes one view or function, with its comments and triggers. They run in this order. */
  readonly parts: readonly string[];
}

export async function readViews(folder: string, version: string): Promise<Views> {
  const files = (await readdir(folder)).filter(name => name.endsWith('.sql')).sort();
  const texts = await Promise.all(files.map(name => readFile(join(folder, name), 'utf8')));
  const text = texts.join('\n').replaceAll('\r\n', '\n');
  return {
    ...{ checksum: checksumOf(text), version },
    parts: text.split(/^(?=create or replace (?:view|function|procedure) )/m),
  };
}

/**
 * `newer`: a program of a newer version has applied its views. Two commits of one version replace each other's views. A
 * database before migration 0002 has no version.
 */
export async function stateOfViews(
  db: Queryable,
  { checksum, version }: Views,
): Promise<'applied' | 'missing' | 'newer'> {
  const { rows: tables } = await db.query("select to_regclass('sync.view_sets') is not null as there");
  if (!tables[0].there) return 'missing';
  const last = await query(db).first<{ checksum: string; newer: boolean }>`
    select checksum, string_to_array(split_part(coalesce(to_jsonb(v) ->> 'version', ''), '-', 1),
      '.')::int[] > string_to_array(split_part(${version}, '-', 1), '.')::int[] as newer
    from sync.view_sets v order by id desc limit 1`;
  if (last?.checksum === checksum) return 'applied';
  return last?.newer ? 'newer' : 'missing';
}

/** SQLSTATEs of what cannot be replaced: a view with other columns, a function with another result. */
const irreplaceable = ['42P16', '42P13'];

/** Throws ShelfdeskError, and changes nothing, if objects of others that depend on our views cannot be kept. */
export async function applyViews(client: pg.Client, views: Views): Promise<void> {
  const dropped = new Set<string>();
  for (;;) {
    const stuck = await inTransaction(client, () => applyAll(client, views, [...dropped]));
    if (stuck === undefined) return;
    dropped.add(stuck);
  }
}

async function inTransaction<T>(client: pg.Client, work: () => Promise<T>): Promise<T | undefined> {
  await client.query('begin');
  const done = await work().catch(async error => {
    await client.query('rollback').catch(() => {});
    throw error;
  });
  await client.query(done === undefined ? 'commit' : 'rollback');
  return done;
}

/** The name of what has to be dropped first, as `view sync.status`; undefined once everything is applied. */
async function applyAll(client: pg.Client, { checksum, version, parts }: Views, drop: readonly string[]) {
  // Names are written with their schema, whatever the role has set.
  await client.query('set local search_path = pg_catalog, pg_temp; set local check_function_bodies = off');
  const { rows: before } = await client.query<{ made: string[] }>(
    'select made from sync.view_sets order by id desc limit 1',
  );
  const ours = before[0]?.made ?? [];
  const others = drop.length > 0 ? await dependentsOf(client, drop, ours) : [];
  const grants = drop.length > 0 ? await grantsOn(client, ours) : [];
  for (const name of drop) await client.query(`drop ${name} cascade`);
  // Comments and views of sources are made again together with the views.
  if (before[0]) await client.query(`${forgetComments}; delete from sync.source_files where name !~ '[.]sql$'`);
  for (const part of parts) {
    try {
      await client.query(part);
    } catch (error) {
      const name = irreplaceable.includes((error as pg.DatabaseError).code ?? '') && nameOf(part, error);
      if (name && !drop.includes(name)) return name;
      throw failed(part, error as pg.DatabaseError);
    }
  }
  const { rows: made } = await client.query<{ name: string }>(madeNow);
  const names = made.map(({ name }) => name);
  await restore(client, others, grants);
  for (const name of ours.filter(one => !names.includes(one))) await dropOld(client, name);
  await client.query(sql`
    insert into sync.view_sets (checksum, version, made) values (${checksum}, ${version}, ${names})`);
  return undefined;
}

/** PostgreSQL names the function with its types in the hint, and no view. */
function nameOf(part: string, error: unknown): string | undefined {
  const [, of] = /^Use DROP (FUNCTION .+) first\.$/.exec((error as pg.DatabaseError).hint ?? '') ?? [];
  const [, view] = /^create or replace (view [\w.]+)/.exec(part) ?? [];
  return of ?? view;
}

/** `migrate` reports the missing rights of a role. */
function failed(part: string, error: pg.DatabaseError): Error {
  if (['42501', '42704'].includes(error.code ?? '')) return error;
  const [name] = /(?<=^create or replace )\w+ [\w.]+/m.exec(part) ?? ['a comment'];
  return new ShelfdeskError(
    `the views cannot be made: ${name}: ${error.message}${error.detail ? ` (${error.detail})` : ''}`,
    'Nothing of them was changed. Remove the cause and run the same command again.',
    { cause: error },
  );
}

/**
 * Drops a view or function that the files no longer have. The error of PostgreSQL names objects of others that depend
 * on it.
 */
async function dropOld(client: pg.Client, name: string): Promise<void> {
  try {
    await client.query(`drop ${name.replace(/^(view|function|procedure) /, '$1 if exists ')}`);
  } catch (error) {
    const { detail, message } = error as pg.DatabaseError;
    throw new ShelfdeskError(
      `${name} goes, and something of yours reads it: ${detail ?? message}`,
      'Nothing was changed. Drop what is named, run the same command again, and create it again without what goes.',
      { cause: error },
    );
  }
}

/** The views and functions that this transaction has created or replaced. */
const madeNow = `
  select format('view %s', c.oid::regclass) as name from pg_class c
  where c.relkind = 'v' and c.xmin::text = pg_current_xact_id()::xid::text
  union all
  select format('%s %s', case p.prokind when 'p' then 'procedure' else 'function' end, p.oid::regprocedure) from pg_proc p
  where p.xmin::text = pg_current_xact_id()::xid::text
  order by 1`;

/** sync.settle_comments comments only columns without a comment. */
const forgetComments = `do $$
declare
  one record;
begin
  for one in
    select format('%s.%I', c.oid::regclass, a.attname) as name
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relkind in ('r', 'v') and col_description(c.oid, a.attnum) is not null
      and c.relnamespace::regnamespace::text in ('sync', 'helpdesk', 'books', 'analytics', 'internal', 'safe')
  loop
    execute format('comment on column %s is null', one.name);
  end loop;
end
$$`;
