/**
 * What sources bring to the database. For a source that is not part of the migrations this applies its schema files, turns its
 * tables into mirrored ones, and lists its streams. For every source it comments the columns of its records, and makes their masked
 * views. All of it is one transaction. It runs again at each migration, so an upgrade may add streams and columns.
 */
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import type pg from 'pg';
import { exitCodes, ShelfdeskError } from '../../errors.ts';
import { masksOf } from '../../privacy/declared.ts';
import { allFields, computedOf, type Facts } from '../../sources/record.ts';
import { literal, type Masked, maskStatements, masksOfRecord, type Shown } from '../../sources/record-masks.ts';
import { announcedBy, type Source, type SourceTable, type Stream } from '../../sources/source.ts';
import { checksumOf } from './checksums.ts';

/**
 * SQL over `pg_namespace`: true for a schema of mirrored tables. These have `_payload`. sync.sources may not exist yet.
 */
export const isMirror = (schema: string): string => `exists (
  select from pg_class m join pg_attribute a on a.attrelid = m.oid
  where m.relnamespace = ${schema}.oid and m.relkind in ('r', 'p') and a.attname = '_payload')`;

export type Mirror = Pick<Source, 'name' | 'streams' | 'tables' | 'schemaFiles'>;

/**
 * Returns the applied files, as `crm/crm.sql`. Throws ShelfdeskError if a file was edited after it was applied. `viewsAreNew`: columns
 * of views have no comments yet.
 */
export async function addMirrors(
  client: pg.Client,
  sources: readonly Mirror[],
  viewsAreNew = false,
): Promise<string[]> {
  const applied: string[] = [];
  await client.query('begin');
  try {
    for (const source of sources) {
      for (const file of source.schemaFiles ?? []) applied.push(...(await apply(client, source.name, file)));
      for (const stream of source.streams) await addStream(client, stream);
      if (source.schemaFiles !== undefined) for (const stream of source.streams) await addTables(client, stream);
    }
    await describe(client, sources, viewsAreNew);
    await client.query('commit');
  } catch (error) {
    await client.query('rollback').catch(() => {});
    throw error;
  }
  return applied;
}

async function apply(client: pg.Client, source: string, file: URL): Promise<string[]> {
  const name = basename(fileURLToPath(file));
  const text = await readFile(file, 'utf8');
  const checksum = checksumOf(text);
  const { rows } = await client.query<{ checksum: string }>(
    'select checksum from sync.source_files where (source, name) = ($1, $2)',
    [source, name],
  );
  const [known] = rows;
  if (known?.checksum === checksum) return [];
  if (known !== undefined)
    throw new ShelfdeskError(
      `the schema file ${name} of source ${source} was edited after it was applied`,
      'Restore the file, and put the change into a new file of the source.',
      exitCodes.failed,
    );
  await client.query(text);
  await client.query('insert into sync.source_files (source, name, checksum) values ($1, $2, $3)', [
    source,
    name,
    checksum,
  ]);
  return [`${source}/${name}`];
}

async function addStream(client: pg.Client, stream: Stream): Promise<void> {
  const { deletions } = stream as { deletions?: 'whole list' | { unknown: string } };
  const unknown = typeof deletions === 'object' ? deletions.unknown : null;
  await client.query(
    `insert into sync.streams as s (stream, source, place, follows, one_reader, personal, swept, deletions)
     select $1, $2, coalesce(max(k.place), 0) + 1, $3, true, $4, $5, $6 from sync.streams k
     on conflict (source, stream) do update set
       personal = s.personal or excluded.personal, swept = excluded.swept, deletions = excluded.deletions
     where (s.personal or excluded.personal, excluded.swept, excluded.deletions)
       is distinct from (s.personal, s.swept, s.deletions)`,
    [
      stream.name,
      stream.source,
      announcedBy(stream),
      stream.personal !== undefined,
      stream.jobs.sweep !== undefined,
      unknown,
    ],
  );
}

async function addTables(client: pg.Client, { merge }: Stream): Promise<void> {
  const { root, others } = merge.declared;
  for (const { name, parent = '' } of [root, ...others]) {
    const { rows } = await client.query<{ mirrored: boolean }>(
      `select exists (select from pg_attribute where attrelid = to_regclass($1) and attname = '_payload') as mirrored`,
      [name],
    );
    if (!rows[0]!.mirrored) await client.query('select sync.add_mirror($1::regclass, $2)', [name, parent]);
  }
}

/**
 * Comments on columns, and masked views. What was made of the same declarations and columns is not made again. A column without a
 * comment of its own gets that of its name before a masked view shows it.
 */
async function describe(client: pg.Client, sources: readonly Mirror[], viewsAreNew: boolean): Promise<void> {
  let isNew = viewsAreNew;
  const settle = async () => {
    if (isNew) await client.query('select sync.settle_comments()');
  };
  for (const { name, tables = [] } of sources)
    isNew = (await make(client, name, 'comments', tables.flatMap(commentsOf))) || isNew;
  await settle();
  for (const source of sources) {
    const masked = maskedOf(source);
    const viewOf = (table: string) => masked.find(one => one.table === table)?.view ?? table;
    const columns = await columnsOf(client, masked);
    for (const one of masked) {
      const statements = maskStatements(one, columns.get(one.rows) ?? [], viewOf);
      isNew = (await make(client, source.name, one.view, statements)) || isNew;
    }
  }
  await settle();
}

async function make(client: pg.Client, source: string, name: string, statements: readonly string[]): Promise<boolean> {
  const text = statements.join(';\n');
  const checksum = checksumOf(text);
  // A worker that may not write must find nothing to write.
  const { rowCount } = await client.query(
    'select from sync.source_files where (source, name, checksum) = ($1, $2, $3)',
    [source, name, checksum],
  );
  if (rowCount !== 0 || text === '') return false;
  await client.query(text);
  await client.query(
    `insert into sync.source_files as f (source, name, checksum) values ($1, $2, $3)
     on conflict (source, name) do update set checksum = excluded.checksum`,
    [source, name, checksum],
  );
  return true;
}

/** By table, in the order of the catalog. */
async function columnsOf(client: pg.Client, masked: readonly Masked[]): Promise<Map<string, Shown[]>> {
  const { rows } = await client.query<{ rows: string; columns: Shown[] }>(
    `select w.rows, json_agg(json_build_object('name', a.attname, 'comment', col_description(a.attrelid, a.attnum),
       'isList', a.atttypid = 'text[]'::regtype) order by a.attnum) as columns
     from unnest($1::text[]) w (rows) join pg_attribute a on a.attrelid = to_regclass(w.rows) and a.attnum > 0 and not a.attisdropped
     group by w.rows`,
    [masked.map(one => one.rows)],
  );
  return new Map(rows.map(one => [one.rows, one.columns]));
}

const commentOf = ({ of, type, says }: Facts, schema: string): string => {
  if (of === undefined || type !== 'text') return says!;
  return `${says}${says!.endsWith('.') ? ' Joins' : '; joins'} ${schema}.${of}.id.`;
};

function commentsOf({ name, rows = name, record }: SourceTable): string[] {
  const [schema] = name.split('.');
  const said = allFields(record).flatMap(([, facts]): [string, string][] => {
    const own = facts.is === 'column' && facts.says !== undefined;
    return own ? [[facts.column, commentOf(facts, schema!)], ...computedOf(facts)] : computedOf(facts);
  });
  return [
    `comment on table ${rows} is ${literal(record.says)}`,
    ...said.map(([column, says]) => `comment on column ${rows}.${column} is ${literal(says)}`),
  ];
}

/** A table that tells of nobody has no masked view. Those of the help desk have the names of its tables. */
function maskedOf({ tables = [], streams, schemaFiles }: Mirror): Masked[] {
  if (schemaFiles === undefined)
    return tables
      .map(({ name, rows = name, record }) => {
        return { table: name, rows, view: `safe.${record.name}`, masks: masksOfRecord(record) };
      })
      .filter(({ masks }) => masks.size > 0);
  return streams.flatMap(stream =>
    [...masksOf(stream)].map(([table, masks]) => {
      return { table, rows: table, view: `safe.${table.replace('.', '_')}`, masks };
    }),
  );
}
