/**
 * Writes all tables of the warehouse into one file, without pg_dump: they are of one moment, whatever workers write meanwhile. The
 * tables of the queue are left out, because it holds nothing that is not in ours.
 */
import { createHash } from 'node:crypto';
import { link, lstat, open, rename, rm } from 'node:fs/promises';
import { resolve } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import type pg from 'pg';
import { isAway, ShelfdeskError, UsageError } from '../../../errors.ts';
import { sourceSchemas } from '../mirrors.ts';
import { ownNames } from '../pool.ts';
import { connectSession, type SessionSettings, sessionTo } from '../session/session.ts';
import { type BackupHeader, type BackupTrailer, endOfTable } from './backup-file.ts';
import { copyOut } from './copy.ts';

/** What the target of a restore has already, because it is migrated first. */
const ofMigrations = ['sync.migrations', 'sync.view_sets', 'sync.source_files'];
/** Digits that lose nothing, and no limit of a role's everyday work. */
const settings: SessionSettings = {
  ...ownNames,
  extra_float_digits: 3,
  row_security: 'off',
  statement_timeout: 0,
  lock_timeout: 0,
  idle_in_transaction_session_timeout: 0,
};
/** Progress is shown each time this many rows are written. */
const showEvery = 10_000;

export interface CopiedTable {
  readonly name: string;
  /** Columns without the generated ones, quoted where SQL needs it. */
  readonly columns: string[];
}

/** Called with the number of rows of the table so far. */
export type ShowRows = (table: string, rows: number) => void;

/** Makes the file, readable by its owner alone. It has its name once it is whole. */
export async function backUp(
  url: string,
  file: string,
  made: Pick<BackupHeader, 'shelfdesk' | 'madeAt' | 'search'>,
  { force, show, signal }: { force: boolean; show: ShowRows; signal: AbortSignal },
) {
  const path = resolve(file);
  if (!force && (await lstat(path).catch(() => undefined))) throw isThere(file);
  const unfinished = `${path}.new-${process.pid}`;
  await using session = await openCopying(url, 'shelfdesk: backs up');
  const { client } = session;
  const rows = new Map<string, number>();
  let size = 0;
  try {
    // A killed process of the same number may have left one.
    await rm(unfinished, { force: true });
    const output = (await open(unfinished, 'wx', 0o600)).createWriteStream({ flush: true });
    await client.query('begin isolation level repeatable read read only');
    const bytes = Readable.from(textOf(client, made, rows, show), { objectMode: false });
    await pipeline(bytes, createGzip(), output, { signal });
    size = output.bytesWritten;
    await putInPlace(unfinished, path, file, force);
  } catch (error) {
    await rm(unfinished, { force: true }).catch(() => {});
    signal.throwIfAborted();
    throw explain(error, file);
  }
  return { tables: rows.size, rows: [...rows.values()].reduce((sum, n) => sum + n, 0), bytes: size };
}

async function* textOf(
  client: pg.Client,
  made: Pick<BackupHeader, 'shelfdesk' | 'madeAt' | 'search'>,
  rows: Map<string, number>,
  show: ShowRows,
): AsyncGenerator<Buffer> {
  const hash = createHash('sha256');
  const hashed = (bytes: Buffer): Buffer => {
    hash.update(bytes);
    return bytes;
  };
  const tables = await copiedTables(client);
  const header: BackupHeader = {
    format: 'shelfdesk backup 1',
    ...made,
    ...(await madeFor(client)),
    sequences: await readSequences(client),
    tables,
  };
  yield hashed(Buffer.from(`${JSON.stringify(header)}\n`));
  for (const { name, columns } of tables) {
    let copied = 0;
    show(name, copied);
    for await (const row of copyOut(client, `copy ${name} (${columns.join(', ')}) to stdout`)) {
      if (++copied % showEvery === 0) show(name, copied);
      yield hashed(row);
    }
    rows.set(name, copied);
    yield hashed(endOfTable);
  }
  const trailer: BackupTrailer = { rows: Object.fromEntries(rows), sha256: hash.digest('hex') };
  yield Buffer.from(`${JSON.stringify(trailer)}\n`);
}

/** A session that copies rows. Closing it ends its transaction. */
export async function openCopying(url: string, name: string): Promise<{ client: pg.Client } & AsyncDisposable> {
  const client = sessionTo(url, { application_name: name });
  await connectSession(client, url, settings);
  return { client, [Symbol.asyncDispose]: () => client.end().catch(() => {}) };
}

/** The migrations and files that made the tables. */
export async function madeFor(client: pg.Client): Promise<Pick<BackupHeader, 'migrations' | 'sourceFiles'>> {
  const { rows: migrations } = await client.query('select name, checksum from sync.migrations order by id');
  const { rows: sourceFiles } = await client.query(
    'select source, name, checksum from sync.source_files order by source, name',
  );
  return { migrations, sourceFiles };
}

/** All tables to copy. A table comes after the tables that it references. */
export async function copiedTables(client: pg.Client): Promise<CopiedTable[]> {
  const { rows } = await client.query<CopiedTable & { refers: string[] }>(
    `select format('%I.%I', n.nspname, c.relname) as name,
       array(select quote_ident(a.attname) from pg_attribute a
         where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '' order by a.attnum) as columns,
       array(select format('%I.%I', m.nspname, f.relname) from pg_constraint k
         join pg_class f on f.oid = k.confrelid join pg_namespace m on m.oid = f.relnamespace
         where k.conrelid = c.oid and k.contype = 'f' and k.confrelid <> c.oid) as refers
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = any ($1) and c.relkind = 'r' and format('%I.%I', n.nspname, c.relname) <> all ($2)
     order by 1`,
    [['analytics', 'internal', 'sync', ...(await sourceSchemas(client))], ofMigrations],
  );
  const ordered = new Map<string, CopiedTable>();
  while (ordered.size < rows.length) {
    const known = new Set(rows.map(({ name }) => name));
    const next = rows.filter(
      ({ name, refers }) => !ordered.has(name) && refers.every(one => ordered.has(one) || !known.has(one)),
    );
    if (next.length === 0) throw new Error('tables refer to each other in a circle');
    for (const { name, columns } of next) ordered.set(name, { name, columns });
  }
  return [...ordered.values()];
}

async function readSequences(client: pg.Client): Promise<BackupHeader['sequences']> {
  const { rows } = await client.query(
    `select format('%I.%I', schemaname, sequencename) as name, last_value::text as value from pg_sequences
     where schemaname = any ($1) and last_value is not null and sequencename not in ('migrations_id_seq', 'view_sets_id_seq') order by 1`,
    [['analytics', 'internal', 'sync', ...(await sourceSchemas(client))]],
  );
  return rows;
}

/** A file that came into being meanwhile is kept, unless `force`. */
async function putInPlace(unfinished: string, path: string, file: string, force: boolean): Promise<void> {
  if (force) return await rename(unfinished, path);
  try {
    await link(unfinished, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw isThere(file);
    return await rename(unfinished, path); // A file system without links.
  }
  await rm(unfinished);
}

const isThere = (file: string) =>
  new UsageError(`${file} is there already`, 'Name another file, or replace it with --force.');

function explain(error: unknown, file: string): unknown {
  const { code, syscall, message } = error as NodeJS.ErrnoException;
  if (error instanceof ShelfdeskError || isAway(error)) return error;
  if (code === '42501')
    return new ShelfdeskError(
      `this role may not read all tables: ${message}`,
      'Make the backup as the role that owns the tables, or as one with `bypassrls` that may read them.',
      { cause: error },
    );
  if (syscall === undefined && code !== 'ENOSPC') return error;
  return new ShelfdeskError(
    `the backup ${file} cannot be written: ${message}`,
    'No file has been left behind. Make room, or name a file in a folder that is there and writable.',
    { cause: error },
  );
}
