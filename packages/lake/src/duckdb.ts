/**
 * The engine of the lake: DuckDB with its extensions ducklake (the tables), postgres (the warehouse and the catalog) and
 * httpfs (buckets, encryption). `warehouse` is the warehouse, read-only; `lake` is the lake.
 */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type DuckDBConnection, DuckDBInstance, type JS } from '@duckdb/node-api';
import type { LakePlace } from '../../../src/lake/table.ts';
import { failureOfPlace } from './failures.ts';
import type { Program, WarehouseAddress } from './program.ts';
import { literal, name } from './table.ts';

/** Rows with the names of their columns. A time is a Date, a day a text, any number a number that is exact where it is whole. */
export interface Answer {
  readonly names: readonly string[];
  readonly rows: Value[][];
}
type Value = string | number | boolean | Date | null | object;

export interface Lake extends AsyncDisposable {
  run(sql: string): Promise<void>;
  rows<T>(sql: string): Promise<T[]>;
  answer(sql: string): Promise<Answer>;
}

type Mode = 'write' | 'read' | 'none';

/** DuckDB refuses a statement: it is wrong, and no failure of a place. */
export class Refused extends Error {}

/** A process may stage several parts at once, and each streams its rows. What does not fit goes to temporary files. */
const memory = { write: '256MB', read: '1GB', none: '128MB' } as const;
/** Each thread of an export holds rows of its own. */
const exportThreads = '2';
/** A group of rows is held in memory before it is written, with the whole bodies of its messages. */
const fileOptions = { parquet_compression: 'zstd', parquet_row_group_size: '20480', target_file_size: '32MB' };

/** Opens the lake; `mode` says what may be done with it; `none`: only the warehouse is open. Throws a failure if DuckDB cannot be used. */
export async function openLake(
  program: Program,
  url: string,
  place: LakePlace,
  { signal, mode = 'write' }: { signal?: AbortSignal; mode?: Mode } = {},
): Promise<Lake> {
  const { lake, temp } = await openEngine(
    program,
    { memory_limit: memory[mode], ...(mode !== 'read' && { threads: exportThreads }) },
    signal,
  );
  try {
    await loadExtensions(program, lake, ['postgres_scanner', 'ducklake'], place);
    await attach(lake, program.addressOf(url), place, mode, temp);
    return lake;
  } catch (error) {
    await lake[Symbol.asyncDispose]();
    throw error;
  }
}

/**
 * Opens the lake for questions of people. The session has a copy of the catalog and no connection to the warehouse. It reads
 * no files but those of the lake, and none of its settings can be changed.
 */
export async function openForQuestions(
  program: Program,
  url: string,
  place: LakePlace,
  signal?: AbortSignal,
): Promise<Lake> {
  const { lake, temp } = await openEngine(program, { memory_limit: memory.read }, signal);
  try {
    const copy = join(temp, 'catalog.duckdb');
    await copyCatalog(program, url, place, copy, signal);
    await loadExtensions(program, lake, ['ducklake'], place);
    if (isBucket(place.path)) await lake.run(bucketSecret(place));
    await lake.run(sessionSettings);
    await lake.run(`attach ${literal(`ducklake:${copy}`)} as lake (read_only)`);
    const folder = `${place.path.replace(/\/+$/, '')}/`;
    await lake.run(
      `set allowed_directories = [${literal(folder)}]; set enable_external_access = false; set lock_configuration = true`,
    );
    return lake;
  } catch (error) {
    await lake[Symbol.asyncDispose]();
    throw error;
  }
}

/** Copies the catalog into a file of DuckDB, as of one moment. Nothing that the copy names can be deleted by it. */
async function copyCatalog(
  program: Program,
  url: string,
  place: LakePlace,
  file: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  await using engine = await openLake(program, url, place, { mode: 'none', ...(signal && { signal }) });
  const tables = await engine.rows<{ name: string }>(
    `select table_name as name from duckdb_tables() where database_name = 'warehouse' and schema_name = 'lake'`,
  );
  await engine.run(`attach ${literal(file)} as copy`);
  await engine.run('begin');
  for (const { name: table } of tables)
    await engine.run(
      `create table copy.main.${name(table)} as from warehouse.lake.${name(table)}${table === 'ducklake_files_scheduled_for_deletion' ? ' limit 0' : ''}`,
    );
  await engine.run('commit; detach copy');
}

async function openEngine(
  program: Program,
  limits: Readonly<Record<string, string>>,
  signal: AbortSignal | undefined,
): Promise<{ lake: Lake /** A folder that ends with the engine. */; temp: string }> {
  // DuckDB names its files by no instance, and an instance that closes deletes those of others.
  const temp = await mkdtemp(join(tmpdir(), 'shelfdesk-lake-'));
  const instance = await DuckDBInstance.create(':memory:', { ...limits, temp_directory: temp });
  const connection = await instance.connect();
  const interrupt = () => connection.interrupt();
  signal?.addEventListener('abort', interrupt);
  const lake: Lake = {
    async run(sql) {
      await told(program, connection, sql, signal);
    },
    rows: async <T>(sql: string) => (await told(program, connection, sql, signal)).getRowObjectsJson() as T[],
    async answer(sql) {
      const read = await told(program, connection, sql, signal);
      const days = read.columnTypes().map(type => String(type) === 'DATE');
      const rows = read.getRowsJS().map(row => row.map((value, i) => plain(program, value, days[i]!)));
      return { names: read.columnNames(), rows };
    },
    async [Symbol.asyncDispose]() {
      signal?.removeEventListener('abort', interrupt);
      connection.closeSync();
      instance.closeSync();
      await rm(temp, { recursive: true, force: true });
    },
  };
  return { lake, temp };
}

function plain({ integer }: Program, value: JS, isDay: boolean): Value {
  if (isDay && value instanceof Date) return value.toISOString().slice(0, 10);
  return typeof value === 'bigint' ? integer(String(value)) : value;
}

async function told(program: Program, connection: DuckDBConnection, sql: string, signal: AbortSignal | undefined) {
  signal?.throwIfAborted();
  try {
    return await connection.runAndReadAll(sql);
  } catch (error) {
    signal?.throwIfAborted();
    throw ofPlace(program, error) ?? new Refused(`the lake: ${(error as Error).message}`, { cause: error });
  }
}

function ofPlace({ failure }: Program, error: unknown): Error | undefined {
  const found = failureOfPlace(error as Error);
  return found && failure(found.message, found.remedy, error);
}

/** Makes the folder of a lake that is in no bucket. */
export async function makeFolder(program: Program, { path }: LakePlace): Promise<void> {
  if (!isBucket(path))
    await mkdir(path, { recursive: true }).catch(error => {
      throw ofPlace(program, error) ?? error;
    });
}

async function loadExtensions(
  program: Program,
  lake: Lake,
  wanted: readonly string[],
  { extensions }: LakePlace,
): Promise<void> {
  // httpfs also brings the encryption of temporary files: without it a statement that needs one fails.
  for (const extension of [...wanted, 'httpfs']) {
    try {
      if (extensions === undefined) await lake.run(`install ${extension}`);
      await lake.run(
        `load ${extensions === undefined ? extension : literal(join(extensions, `${extension}.duckdb_extension`))}`,
      );
    } catch (error) {
      throw program.failure(
        `DuckDB cannot load its extension ${extension}: ${saidBy(error)}`,
        'DuckDB downloads its extensions once. On a machine that cannot, set LAKE_EXTENSIONS to a folder with the files <name>.duckdb_extension.',
        error,
      );
    }
  }
}

/** What DuckDB itself said, in one line. */
const saidBy = (error: unknown): string => ((error as Error).cause as Error).message.split('\n')[0]!;

/** Whether a place has Parquet files. Tidying deletes those that the catalog does not know. */
export async function hasFiles(lake: Lake, path: string): Promise<boolean> {
  return (await lake.rows(`from glob(${literal(`${path}/**/*.parquet`)}) limit 1`)).length > 0;
}

export const isBucket = (path: string): boolean => path.startsWith('s3://');

const sessionSettings = `set TimeZone = 'UTC'; set temp_file_encryption = true; set default_null_order = 'nulls_last_on_asc_first_on_desc'`;

async function attach(
  lake: Lake,
  address: WarehouseAddress,
  place: LakePlace,
  mode: Mode,
  temp: string,
): Promise<void> {
  const options = await optionsOf(address, temp);
  const secret = Object.entries(address.login).flatMap(([key, value]) =>
    value ? [`${key} ${literal(String(value))}`] : [],
  );
  await lake.run(`create secret warehouse (type postgres, ${secret.join(', ')})`);
  if (isBucket(place.path)) await lake.run(bucketSecret(place));
  await lake.run(sessionSettings);
  await lake.run(`attach ${literal(options)} as warehouse (type postgres, secret warehouse, read_only)`);
  if (mode === 'none') return;
  await lake.run(
    `attach ${literal(`ducklake:postgres:${options}`)} as lake
     (data_path ${literal(place.path)}, meta_schema 'lake', meta_secret 'warehouse', data_inlining_row_limit 0${mode === 'read' ? ', read_only' : ''})`,
  );
  if (mode !== 'write') return;
  for (const [option, value] of Object.entries(fileOptions))
    await lake.run(`call lake.set_option(${literal(option)}, ${literal(value)})`);
}

/**
 * Of the address of the warehouse what is no secret: how the connection is encrypted, with the meaning that the other connections give
 * it. It waits while DuckDB writes files.
 */
async function optionsOf({ tls, authorities: known, isPooled }: WarehouseAddress, temp: string): Promise<string> {
  const { mode, root, cert, key } = tls;
  let authorities = root;
  if (known !== undefined) {
    authorities = join(temp, 'authorities.pem');
    await writeFile(authorities, known.join('\n'));
  }
  const told = { sslmode: mode, sslrootcert: authorities, sslcert: cert, sslkey: key };
  const kept = Object.entries(told).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}='${value.replaceAll(/['\\]/g, '\\$&')}' `],
  );
  const settings = isPooled ? '' : ` options='-c idle_in_transaction_session_timeout=0'`;
  return `${kept.join('')}application_name='shelfdesk: lake'${settings}`;
}

function bucketSecret({ endpoint, region, keyId, secret }: LakePlace): string {
  const parts = [
    ...(keyId === undefined
      ? ['provider credential_chain']
      : [`key_id ${literal(keyId)}, secret ${literal(secret ?? '')}`]),
    ...(region === undefined ? [] : [`region ${literal(region)}`]),
    ...(endpoint === undefined
      ? []
      : [`endpoint ${literal(endpoint.host)}, url_style 'path', use_ssl ${endpoint.protocol === 'https:'}`]),
  ];
  return `create secret bucket (type s3, ${parts.join(', ')})`;
}
