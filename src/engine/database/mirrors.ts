/**
 * The tables that sources bring. The tables of the first sources are part of the migrations. For another source this
 * applies its schema files, turns its tables into mirrored ones, creates their masked views, and lists its streams. All
 * of it is one transaction. It runs again at each migration, so an upgrade may add streams.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import type pg from 'pg';
import { exitCodes, ShelfdeskError } from '../../errors.ts';
import { type Mask, masksOf } from '../../privacy/declared.ts';
import { announcedBy, type Source, type Stream } from '../../sources/source.ts';

/**
 * SQL over `pg_namespace`: true for a schema of mirrored tables. These have `_payload`. sync.sources may not exist yet.
 */
export const isMirror = (schema: string): string => `exists (
  select from pg_class m join pg_attribute a on a.attrelid = m.oid
  where m.relnamespace = ${schema}.oid and m.relkind in ('r', 'p') and a.attname = '_payload')`;

export type Mirror = Pick<Source, 'name' | 'streams' | 'schemaFiles'>;

/** Returns the applied files, as `crm/crm.sql`. Throws ShelfdeskError if a file was edited after it was applied. */
export async function addMirrors(client: pg.Client, sources: readonly Mirror[]): Promise<string[]> {
  const applied: string[] = [];
  await client.query('begin');
  try {
    for (const source of sources) {
      for (const file of source.schemaFiles ?? []) applied.push(...(await apply(client, source.name, file)));
      for (const stream of source.streams) await addStream(client, stream);
      if (source.schemaFiles === undefined) continue;
      for (const stream of source.streams) await addTables(client, stream);
    }
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
  const checksum = createHash('sha256').update(text).digest('hex');
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

async function addTables(client: pg.Client, stream: Stream): Promise<void> {
  const { root, others } = stream.merge.declared;
  const masks = masksOf(stream);
  for (const { name, parent = '' } of [root, ...others]) {
    const { rows } = await client.query<{ mirrored: boolean }>(
      `select exists (select from pg_attribute where attrelid = to_regclass($1) and attname = '_payload') as mirrored`,
      [name],
    );
    if (!rows[0]!.mirrored) await client.query('select sync.add_mirror($1::regclass, $2)', [name, parent]);
    await addMask(client, name, masks.get(name)!);
  }
}

/** Creates the masked view of a table: a keyed hash replaces each personal value, and `_payload` is left out. */
async function addMask(client: pg.Client, table: string, masks: ReadonlyMap<string, Mask>): Promise<void> {
  const view = `safe.${table.replace('.', '_')}`;
  const { rows } = await client.query<{ name: string; comment: string | null; list: boolean; one: boolean }>(
    `select a.attname as name, col_description(a.attrelid, a.attnum) as comment, a.atttypid = 'text[]'::regtype as list,
       coalesce(v.atttypid = 'text'::regtype, false) as one
     from pg_attribute a left join pg_attribute v on v.attrelid = to_regclass($2) and v.attname = a.attname
     where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped and a.attname <> '_payload' order by a.attnum`,
    [table, view],
  );
  const keys = ['inner_key', 'outer_key'].map(which => `(select ${which} from sync.secret_salt)`).join(', ');
  const hash = (name: string, value: string) =>
    masks.get(name) === 'address'
      ? `sync.masked_contact(${value}, ${keys})`
      : `sync.masked('${name}', ${value}, ${keys})`;
  const hashes = (name: string) =>
    `case when t.${name} is not null then array(select ${hash(name, 'u.one')} from unnest(t.${name}) with ordinality u (one, n) order by u.n) end`;
  const columns = rows.map(({ name, list }) => {
    if (!masks.has(name)) return `t.${name}`;
    return `${list ? hashes(name) : hash(name, `t.${name}::text`)} as ${name}`;
  });
  // A view of before shows one hash of a whole list, and cannot be replaced.
  if (rows.some(({ name, list, one }) => masks.has(name) && list && one)) await client.query(`drop view ${view}`);
  await client.query(`create or replace view ${view} with (security_barrier = true) as
    select ${columns.join(', ')} from ${table} t
    where t.account_id = any (array(select account_id from sync.readable_accounts))`);
  await client.query(
    `comment on view ${view} is 'The rows of ${table}, with a hash in place of each value that tells who somebody is.'`,
  );
  for (const { name, comment } of rows) {
    const mask = masks.get(name);
    const said = mask === undefined ? (comment ?? '') : told[mask];
    await client.query(`comment on column ${view}.${name} is '${said.replaceAll("'", "''")}'`);
  }
}

const told: Record<Mask, string> = {
  address: 'A hash of the address: all spellings of an address have one hash, in the views of all sources.',
  value: 'A hash of the value: equal values have equal hashes.',
};
