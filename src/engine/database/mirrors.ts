/**
 * What sources bring to the database. For a source that is not part of the migrations this makes the tables of its records. For every
 * source it lists the streams, comments the columns of the records, and makes their masked views. All of it is one transaction. It
 * runs again at each migration, so an upgrade may add streams and columns.
 */
import type pg from 'pg';
import { ShelfdeskError } from '../../errors.ts';
import { uncheckedColumnsOf } from '../../sources/record/columns.ts';
import { literal, type Masked, maskStatements, masksOfRecord, type Shown } from '../../sources/record/masks.ts';
import { allFields, computedOf, type Facts, fieldsThatAre } from '../../sources/record/record.ts';
import { indexStatements, tableStatements } from '../../sources/record/tables.ts';
import {
  announcedBy,
  type ListStream,
  type Row,
  type Source,
  type SourceTable,
  type Stream,
} from '../../sources/source.ts';
import { checksumOf } from './checksums.ts';
import type { Queryable } from './pool.ts';
import { query, sql } from './sql.ts';

/**
 * SQL over `pg_namespace`: true for a schema of mirrored tables. These have `_payload`. sync.sources may not exist yet.
 */
export const isMirror = (schema: string): string => `exists (
  select from pg_class m join pg_attribute a on a.attrelid = m.oid
  where m.relnamespace = ${schema}.oid and m.relkind in ('r', 'p') and a.attname = '_payload')`;

/** The schemas of mirrored tables; none before the tables exist. */
export async function sourceSchemas(client: Queryable): Promise<string[]> {
  const { rows } = await client.query("select to_regclass('sync.streams') is not null as there");
  if (!rows[0].there) return [];
  const { rows: found } = await client.query<{ source: string }>('select distinct source from sync.streams');
  return found.map(({ source }) => source);
}

export type Mirror = Pick<Source, 'name' | 'streams' | 'tables' | 'schema'>;

/** Returns what was made, as `crm: tables`. `viewsAreNew`: columns of views have no comments yet. */
export async function addMirrors(
  client: pg.Client,
  sources: readonly Mirror[],
  viewsAreNew = false,
): Promise<string[]> {
  const made: string[] = [];
  await client.query('begin');
  try {
    for (const source of sources) {
      if (await makeTables(client, source)) made.push(`${source.name}: tables`);
      for (const stream of source.streams) await addStream(client, stream);
      if (source.schema) await forgetStreams(client, source);
    }
    await describe(client, sources, viewsAreNew);
    await client.query('commit');
  } catch (error) {
    await client.query('rollback').catch(() => {});
    throw error;
  }
  return made;
}

/** Answers whether tables or columns are new. */
async function makeTables(client: pg.Client, { name: source, schema, tables = [] }: Mirror): Promise<boolean> {
  if (schema === undefined) return false;
  await refuseOtherTypes(client, tables);
  const before = await columnNames(client, tables);
  const isMade = await make(client, source, 'tables', [
    `create schema if not exists ${source}`,
    `comment on schema ${source} is ${literal(schema.says)}`,
    ...tables.flatMap(tableStatements),
  ]);
  let isNew = false;
  for (const table of isMade ? tables : [])
    isNew = (await settleColumns(client, table, before.get(table.name))) || isNew;
  for (const { name, parent = '' } of isMade ? tables : []) {
    const { rows } = await client.query<{ mirrored: boolean }>(sql`
      select exists (select from pg_attribute where attrelid = ${name}::regclass and attname = '_payload') as mirrored`);
    if (!rows[0]!.mirrored) await client.query(sql`select sync.add_mirror(${name}::regclass, ${parent})`);
  }
  await make(client, source, 'indexes', tables.flatMap(indexStatements));
  // A lake that is on has to be told of changes of the new tables.
  if (isNew) await client.query('select sync.follow_changes(true) from sync.lake');
  return isNew;
}

async function columnNames(client: pg.Client, tables: readonly SourceTable[]): Promise<Map<string, Set<string>>> {
  const { rows } = await client.query<{ name: string; columns: string[] }>(sql`
    select n.name, array_agg(a.attname::text) as columns from unnest(${tables.map(({ name }) => name)}::text[]) n (name)
    join pg_attribute a on a.attrelid = to_regclass(n.name) and a.attnum > 0 and not a.attisdropped group by 1`);
  return new Map(rows.map(({ name, columns }) => [name, new Set(columns)]));
}

/**
 * Fills a column that is new in a table in use from the records as they are stored: a record that has not changed is not written again.
 * A column that is no longer declared is emptied: nothing says any more what it tells of people. Answers whether the table, or one of
 * its columns, is new.
 */
async function settleColumns(client: pg.Client, table: SourceTable, before?: ReadonlySet<string>): Promise<boolean> {
  if (before === undefined) return true;
  const { name, record, parent } = table;
  const declared = uncheckedColumnsOf(record).filter(({ name: column }) => column !== 'id');
  const known = new Set(['account_id', 'id', parent, ...declared.map(column => column.name)]);
  const filled = declared.filter(column => !before.has(column.name));
  const emptied = [...before].filter(column => !column.startsWith('_') && !known.has(column));
  const sets = [
    ...filled.map(column => `${column.name} = (select ${column.sql} from (select t._payload) r (record))`),
    ...emptied.map(column => `${column} = null`),
  ];
  const isDue = filled.length > 0 ? 'true' : emptied.map(column => `${column} is not null`).join(' or ');
  if (sets.length > 0) await client.query(`update ${name} t set ${sets.join(', ')} where ${isDue}`);
  return filled.length > 0;
}

/** A column keeps its type: the values that it has would have to be read again. */
async function refuseOtherTypes(client: pg.Client, tables: readonly SourceTable[]): Promise<void> {
  const declared = tables.flatMap(({ name, record }) =>
    fieldsThatAre(record, 'column').map(([, { column, type }]) => ({ table: name, column, type })),
  );
  const other = await query(client).first<{ table: string; column: string; type: string; stored: string }>`
    select d."table", d."column", d.type, format_type(a.atttypid, a.atttypmod) as stored
    from jsonb_to_recordset(${JSON.stringify(declared)}) d ("table" text, "column" text, type text)
    join pg_attribute a on a.attrelid = to_regclass(d."table") and a.attname = d."column" and not a.attisdropped
    where a.atttypid <> d.type::regtype limit 1`;
  if (other !== undefined)
    throw new ShelfdeskError(
      `the column ${other.column} of ${other.table} is ${other.stored}, and its record declares ${other.type}`,
      "Give the field another column, as in time('…', { column: 'born_at' }): it is filled from the stored records, and this one is emptied.",
    );
}

async function addStream(client: pg.Client, stream: Stream): Promise<void> {
  const { deletions, datedBy } = stream as Pick<ListStream<Row>, 'deletions' | 'datedBy'>;
  const unknown = typeof deletions === 'object' ? deletions.unknown : null;
  await client.query(sql`
    insert into sync.streams as s (stream, source, place, follows, one_reader, personal, swept, deletions, dated_by)
    select ${stream.name}, ${stream.source}, coalesce(max(k.place), 0) + 1, ${announcedBy(stream)}, true,
      ${stream.personal !== undefined}, ${stream.jobs.sweep !== undefined}, ${unknown},
      ${datedBy ?? stream.merge.declared.root.version ?? null} from sync.streams k
    on conflict (source, stream) do update set
      personal = s.personal or excluded.personal, swept = excluded.swept, deletions = excluded.deletions, dated_by = excluded.dated_by
    where (s.personal or excluded.personal, excluded.swept, excluded.deletions, excluded.dated_by)
      is distinct from (s.personal, s.swept, s.deletions, s.dated_by)`);
}

/** Of a stream that is declared no more the rows stay, with their rights. Nothing is claimed of it, so nothing is told of it. */
const forgetStreams = (client: pg.Client, { name, streams }: Mirror) =>
  client.query(sql`
    delete from sync.coverage where source = ${name} and stream <> all (${streams.map(stream => stream.name)})`);

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
  const { rowCount } = await client.query(sql`
    select from sync.source_files where (source, name, checksum) = (${source}, ${name}, ${checksum})`);
  if (rowCount !== 0 || text === '') return false;
  await client.query(text);
  await client.query(sql`
    insert into sync.source_files as f (source, name, checksum) values (${source}, ${name}, ${checksum})
    on conflict (source, name) do update set checksum = excluded.checksum`);
  return true;
}

/** The columns of each table, in the order of the database. */
async function columnsOf(client: pg.Client, masked: readonly Masked[]): Promise<Map<string, Shown[]>> {
  const { rows } = await client.query<{ rows: string; columns: Shown[] }>(sql`
    select w.rows, json_agg(json_build_object('name', a.attname, 'comment', col_description(a.attrelid, a.attnum),
      'isList', a.atttypid = 'text[]'::regtype, 'type', format_type(a.atttypid, a.atttypmod)) order by a.attnum) as columns
    from unnest(${masked.map(one => one.rows)}::text[]) w (rows) join pg_attribute a on a.attrelid = to_regclass(w.rows)
      and a.attnum > 0 and not a.attisdropped
    group by w.rows`);
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

/**
 * The masked views of a source. If the migrations have its tables (`schema` undefined), a view has the name of its
 * table, and a table without personal data has no view.
 */
const maskedOf = ({ tables = [], schema }: Mirror): Masked[] =>
  tables
    .map(({ name, rows = name, record, parent = 'id' }) => {
      const view = schema === undefined ? record.name : name.replace('.', '_');
      const own = ['account_id', 'id', parent, ...fieldsThatAre(record, 'column').map(([, { column }]) => column)];
      const declared = schema === undefined ? {} : { declared: new Set(own) };
      return { table: name, rows, view: `safe.${view}`, masks: masksOfRecord(record), ...declared };
    })
    .filter(({ masks }) => schema !== undefined || masks.size > 0);
