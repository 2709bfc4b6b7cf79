/**
 * One export: the lake becomes equal to the warehouse at one moment. Everything is read in one snapshot of PostgreSQL, and
 * written in one transaction of the lake. The pending changes that the snapshot has seen are cleared afterwards. So an
 * export that dies at any step is repeated by the next one, which writes only rows that differ.
 */
import type { Client } from '../../../src/engine/database/pool.ts';
import type { LakeTable } from '../../../src/lake/table.ts';
import type { Lake } from './duckdb.ts';
import { type Erasure, eraseFromFiles, hideBounds, keepNewest } from './erase-files.ts';
import {
  accountOf,
  creation,
  exactType,
  idIn,
  inLake,
  type LakeColumn,
  lakeType,
  literal,
  monthColumn,
  name,
  noMonth,
  order,
  type Scope,
  selection,
} from './table.ts';
import { createViews, dropOldViews, readViews } from './views.ts';

/** Records in one statement, and pairs of its accounts and records: PostgreSQL looks up each pair. */
const chunk = 2000;
const mostPairs = 50_000;
/** An account with more changed records is compared as a whole. */
const mostRecords = 50_000;

export interface Exported {
  readonly moment: Date;
  /** The snapshot of the lake; undefined if nothing had changed. */
  readonly snapshot: number | undefined;
  readonly units: number;
  readonly inserted: number;
  readonly deleted: number;
  readonly filesCleared: number;
  /** Others have written the rows to files first. */
  readonly staged: boolean;
}

/** What is pending, of one kind of record. */
interface Pending {
  readonly unit: string;
  readonly account: string;
  readonly id: string;
  /** Months of a ticket before and after its changes, and now. None and null if unknown, and for other records. */
  readonly were: readonly string[];
  readonly month: string | null;
}

interface Snapshot {
  readonly name: string;
  readonly seen: string;
  readonly moment: Date;
  readonly pending: readonly Pending[];
  readonly accounts: readonly string[];
  readonly lastExport: Date | null;
  readonly columns: ReadonlyMap<string, readonly LakeColumn[]>;
}

interface Helps {
  /** Is told the name of each table. */
  readonly show?: (table: string) => void;
  /**
   * Has the rows of all accounts written to files by others, at the moment of the snapshot. Returns the files of a table.
   */
  readonly stage?: (snapshot: string, accounts: readonly string[]) => Promise<Staged>;
}

/** The files of a table that others have written. */
type Staged = (table: LakeTable) => readonly string[];

/** `client` needs a connection of its own: its transaction holds the snapshot. */
export async function exportTo(
  lake: Lake,
  client: Client,
  tables: readonly LakeTable[],
  { show = () => {}, stage }: Helps = {},
): Promise<Exported> {
  const erasure = await eraseFromFiles(lake, client, tables);
  await client.query('begin isolation level repeatable read; set local idle_in_transaction_session_timeout = 0');
  try {
    const snapshot = await readSnapshot(client, tables);
    const counts = { inserted: 0, deleted: 0, staged: false };
    await lake.run('begin');
    try {
      await joinSnapshot(lake, snapshot.name);
      const sql = await readViews();
      const isOld = await dropOldViews(lake, sql);
      const missing = await createMissing(lake, tables, snapshot);
      // A view knows the columns that its tables had when it was made.
      if (isOld || missing.size > 0) await createViews(lake, sql);
      const isBeginning = missing.size === tables.length && snapshot.accounts.length > 1;
      const staged = isBeginning ? await stage?.(snapshot.name, snapshot.accounts) : undefined;
      counts.staged = staged !== undefined;
      for (const table of tables) {
        show(table.name);
        const one = missing.has(table.name)
          ? await insertAll(lake, table, snapshot, table.account === null ? undefined : staged)
          : await exportTable(lake, table, snapshot);
        counts.inserted += one.inserted;
        counts.deleted += one.deleted;
      }
      await lake.run(
        `call lake.set_commit_message('shelfdesk', 'the warehouse at ${snapshot.moment.toISOString()}',
           extra_info => ${literal(JSON.stringify({ moment: snapshot.moment.toISOString() }))})`,
      );
      await lake.run('commit');
    } catch (error) {
      await lake.run('rollback').catch(() => {});
      throw error;
    }
    await client.query('commit');
    if (erasure.ruled) await keepNewest(lake, client);
    await hideBounds(client, tables);
    await clear(client, snapshot, erasure);
    const [newest] = await lake.rows<{ id: string }>(`select max(snapshot_id)::varchar as id from lake.snapshots()`);
    return {
      ...{ ...counts, filesCleared: erasure.files, moment: snapshot.moment, units: snapshot.pending.length },
      snapshot: counts.inserted + counts.deleted === 0 ? undefined : Number(newest!.id),
    };
  } catch (error) {
    await client.query('rollback').catch(() => {});
    throw error;
  }
}

/** What the transaction reads from the warehouse is of this snapshot. */
const joinSnapshot = (lake: Lake, snapshot: string): Promise<void> =>
  lake.run(`call postgres_execute('warehouse', ${literal(`set transaction snapshot ${literal(snapshot)}`)})`);

/** An erasure that came after the files were cleared stays pending. */
async function clear(client: Client, { seen }: Snapshot, erasure: Erasure): Promise<void> {
  await client.query(
    `delete from sync.lake_pending p where pg_visible_in_snapshot(p.xact, $1::pg_snapshot) and (
       pg_visible_in_snapshot(p.xact, $2::pg_snapshot)
       or p.xact not in (select e.xact from sync.lake_pending e where e.erased))`,
    [seen, erasure.seen],
  );
}

async function readSnapshot(client: Client, tables: readonly LakeTable[]): Promise<Snapshot> {
  const { rows } = await client.query<{ name: string; seen: string; moment: Date }>(
    'select pg_export_snapshot() as name, pg_current_snapshot()::text as seen, clock_timestamp() as moment',
  );
  const pending = await client.query<Pending>(
    `with changed as (
       select p.unit, p.account_id, p.id, coalesce(array_agg(distinct p.month::text) filter (where p.month is not null), '{}') as were
       from sync.lake_pending p group by p.unit, p.account_id, p.id),
     many as (
       select c.account_id from changed c where c.account_id <> '' group by 1 having count(*) > $1)
     select c.unit, c.account_id as account, c.id, c.were, u.month::text as month
     from changed c
     left join internal.lake_months u on c.unit = 'ticket' and u.account_id = c.account_id and u.id = c.id
     where c.account_id not in (select m.account_id from many m)
     union all
     select 'account', m.account_id, '', '{}', null from many m
     order by account, id`,
    [mostRecords],
  );
  const accounts = await client.query<{ account: string }>(
    'select account_id as account from sync.accounts order by 1',
  );
  const last = await client.query<{ moment: Date | null }>('select max(moment) as moment from sync.lake_exports');
  return {
    ...rows[0]!,
    pending: pending.rows,
    lastExport: last.rows[0]!.moment,
    accounts: accounts.rows.map(({ account }) => account),
    columns: await readColumns(client, tables),
  };
}

/** The columns of each table in the warehouse. */
export async function readColumns(
  client: Pick<Client, 'query'>,
  tables: readonly LakeTable[],
): Promise<Map<string, readonly LakeColumn[]>> {
  const { rows } = await client.query<LakeColumn & { relation: string }>(
    `select w.name as relation, a.attname as name, t.typname as type
     from unnest($1::text[]) w (name)
     join pg_attribute a on a.attrelid = w.name::regclass and a.attnum > 0 and not a.attisdropped
     join pg_type t on t.oid = a.atttypid
     order by a.attnum`,
    [tables.map(table => table.name)],
  );
  const exact = new Set(tables.filter(table => table.exact).map(table => table.name));
  const typed: typeof rows = [];
  for (const one of rows) {
    if (one.type !== 'numeric' || !exact.has(one.relation)) typed.push(one);
    else {
      const found = await client.query<{ type: string }>(
        `select ${exactType(name(one.name))} as type from ${one.relation}`,
      );
      typed.push({ ...one, type: found.rows[0]!.type });
    }
  }
  return new Map(tables.map(table => [table.name, typed.filter(({ relation }) => relation === table.name)]));
}

/** Creates the tables that the lake lacks, or has with other columns, and drops those that it has no longer. Returns the names of the new ones. */
async function createMissing(lake: Lake, tables: readonly LakeTable[], { columns }: Snapshot): Promise<Set<string>> {
  const there = await lake.rows<{ relation: string; listed: string }>(
    `select table_schema || '.' || table_name as relation, string_agg(column_name || ' ' || data_type, ',' order by ordinal_position) as listed
     from information_schema.columns
     where (table_catalog, table_schema, table_name) in (select (database_name, schema_name, table_name) from duckdb_tables() where database_name = 'lake')
     group by 1`,
  );
  const listed = new Map(there.map(one => [one.relation, one.listed]));
  const missing = new Set<string>();
  const wantedTables = new Set(tables.map(table => table.name));
  for (const old of listed.keys()) if (!wantedTables.has(old)) await lake.run(`drop table lake.${old}`);
  for (const table of tables) {
    const wanted = columns.get(table.name)!.map(column => `${column.name} ${lakeType(column)}`);
    if (table.byMonth) wanted.push(`${monthColumn} DATE`);
    if (listed.get(table.name) === wanted.join(',')) continue;
    await lake.run(`create schema if not exists lake.${table.name.split('.')[0]}`);
    await lake.run(`drop table if exists ${inLake(table)}`);
    await lake.run(creation(table, columns.get(table.name)!));
    missing.add(table.name);
  }
  return missing;
}

interface Counts {
  readonly inserted: number;
  readonly deleted: number;
}

async function exportTable(lake: Lake, table: LakeTable, snapshot: Snapshot): Promise<Counts> {
  const { pending, lastExport } = snapshot;
  const columns = snapshot.columns.get(table.name)!;
  const of = (unit: string) => pending.filter(one => one.unit === unit);
  const whole = new Set(of('account').map(({ account }) => account));
  if (table.unit === 'all') return of('all').length === 0 ? none : replace(lake, table, columns, {});
  if (table.unit === 'status') {
    const isPart = table.changing !== undefined && lastExport !== null && whole.size === 0;
    const at = (time: Date) => `timestamptz ${literal(time.toISOString())}`;
    const among = isPart ? table.changing(at(lastExport), at(snapshot.moment)) : 'true';
    return replace(lake, table, columns, { among });
  }
  if (table.unit === 'list') for (const { account } of pending) if (account !== '') whole.add(account);
  let counts = whole.size === 0 ? none : await replace(lake, table, columns, { accounts: [...whole] });
  for (const records of inChunks(of(table.unit).filter(({ account }) => !whole.has(account))))
    counts = sum(counts, await replaceRecords(lake, table, columns, records));
  return counts;
}

/** Records are in the order of their accounts. */
function inChunks(records: readonly Pending[]): Pending[][] {
  const chunks: Pending[][] = [];
  let accounts = new Set<string>();
  for (const record of records) {
    const length = (chunks.at(-1)?.length ?? chunk) + 1;
    accounts.add(record.account);
    if (length > chunk || accounts.size * length > mostPairs) {
      accounts = new Set([record.account]);
      chunks.push([]);
    }
    chunks.at(-1)!.push(record);
  }
  return chunks;
}

const none: Counts = { inserted: 0, deleted: 0 };
const sum = (a: Counts, b: Counts): Counts => ({ inserted: a.inserted + b.inserted, deleted: a.deleted + b.deleted });

/** The rows of the warehouse, as a table of DuckDB. */
const fromWarehouse = (table: LakeTable, columns: readonly LakeColumn[], scope: Scope): string =>
  `postgres_query('warehouse', ${literal(selection(table, columns, scope))})`;

const listed = (columns: readonly LakeColumn[]): string => columns.map(column => `r.${name(column.name)}`).join(', ');

/**
 * Writes the rows of some accounts, as of a snapshot of PostgreSQL, to files for an export that begins the lake. `client` reads
 * what the tables are. False if the export has ended: then no more files are written.
 */
export async function stagePart(
  lake: Lake,
  client: Pick<Client, 'query'>,
  tables: readonly LakeTable[],
  part: { readonly snapshot: string; readonly accounts: readonly string[] },
  { fileOf, isWanted }: { fileOf: (table: LakeTable) => string; isWanted: () => Promise<boolean> },
): Promise<boolean> {
  const columns = await readColumns(client, tables);
  await lake.run('begin');
  await joinSnapshot(lake, part.snapshot);
  for (const table of tables) {
    if (table.account === null) continue;
    if (!(await isWanted())) return false;
    const rows = rowsOf(table, columns.get(table.name)!, { accounts: part.accounts });
    await lake.run(`copy (${rows}) to ${literal(fileOf(table))} (format parquet, compression zstd)`);
  }
  await lake.run('rollback');
  return true;
}

async function insertAll(
  lake: Lake,
  table: LakeTable,
  { columns, accounts }: Snapshot,
  staged: Staged | undefined,
): Promise<Counts> {
  if (table.account !== null && accounts.length === 0) return none;
  const scope = table.account === null ? {} : { accounts };
  const rows = staged
    ? `select * from read_parquet([${staged(table).map(literal).join(', ')}], hive_partitioning = false)`
    : rowsOf(table, columns.get(table.name)!, scope);
  const inserted = await count(lake, `insert into ${inLake(table)} by name ${rows}`);
  // Only now: PostgreSQL has sorted these rows. DuckDB sorts later ones, which are few, in memory.
  if (order(table).length > 0)
    await lake.run(`alter table ${inLake(table)} set sorted by (${order(table).join(', ')})`);
  return { inserted, deleted: 0 };
}

/** The rows of a scope, each with the month of its ticket. Those of whole accounts are in the order of the lake. */
function rowsOf(table: LakeTable, columns: readonly LakeColumn[], scope: Scope): string {
  const ordered = scope.ids === undefined;
  const rows = fromWarehouse(table, columns, { ...scope, ordered });
  if (!table.byMonth || ordered) return `from ${rows}`;
  // A message may be left whose ticket is not here.
  return `select ${listed(columns)}, coalesce(u.month, ${noMonth}) as ${monthColumn} from ${rows} r
    left join (select distinct account, id, month from chosen) u on u.account = r.${accountOf(table)} and u.id = ${idIn(table, 'r')}`;
}

/** Replaces all rows of a scope: of these accounts, or of the whole table. */
async function replace(lake: Lake, table: LakeTable, columns: readonly LakeColumn[], scope: Scope): Promise<Counts> {
  const { accounts, among = 'true' } = scope;
  const of = accounts === undefined ? 'true' : `t.${accountOf(table)} in (${accounts.map(literal).join(', ')})`;
  const where = `${of} and ${among}`;
  return differences(lake, table, rowsOf(table, columns, scope), where);
}

async function replaceRecords(
  lake: Lake,
  table: LakeTable,
  columns: readonly LakeColumn[],
  records: readonly Pending[],
): Promise<Counts> {
  const distinct = (values: readonly string[]) => [...new Set(values)];
  const accounts = distinct(records.map(({ account }) => account));
  const ids = distinct(records.map(({ id }) => id));
  const values = records.map(
    ({ account, id, month }) =>
      `(${literal(account)}, ${literal(id)}, ${month === null ? 'null' : literal(month)}::date)`,
  );
  await lake.run(
    `create or replace temp table chosen as select * from (values ${values.join(', ')}) v (account, id, month)`,
  );
  const among = [`t.${accountOf(table)} in (${accounts.map(literal).join(', ')})`];
  if (table.byMonth) {
    const dates = distinct(records.flatMap(({ were, month }) => (month === null ? were : [...were, month])));
    among.push(`t.${monthColumn} in (${[noMonth, ...dates.map(date => `date ${literal(date)}`)].join(', ')})`);
  }
  const id = idIn(table, 't');
  among.push(`(t.${accountOf(table)}, ${id}) in (select account, id from chosen)`);
  const rows = `select * from (${rowsOf(table, columns, { accounts, ids })}) r
    where (r.${accountOf(table)}, ${idIn(table, 'r')}) in (select account, id from chosen)`;
  return differences(lake, table, rows, among.join(' and '));
}

/** Removes the rows that the warehouse does not have, and inserts those that the lake does not have. */
async function differences(lake: Lake, table: LakeTable, rows: string, where: string): Promise<Counts> {
  await lake.run(`create or replace temp table fresh as ${rows}`);
  await lake.run(`create or replace temp table old as select t.* from ${inLake(table)} t where ${where}`);
  const except = (kept: string, other: string) => `as select * from ${kept} except select * from ${other}`;
  const deleted = await count(lake, `create or replace temp table gone ${except('old', 'fresh')}`);
  const inserted = await count(lake, `create or replace temp table added ${except('fresh', 'old')}`);
  if (deleted > 0) {
    const keys = [...(table.account === null ? [] : [accountOf(table)]), ...table.key.map(name)];
    // Of a ticket that moved to another month, the row of the other month stays.
    if (table.byMonth) keys.push(monthColumn);
    const same = keys.map(key => `t.${key} is not distinct from g.${key}`).join(' and ');
    await lake.run(`delete from ${inLake(table)} t where ${where} and exists (select 1 from gone g where ${same})`);
  }
  if (inserted > 0) await lake.run(`insert into ${inLake(table)} select * from added`);
  return { inserted, deleted };
}

/** The number of rows that a statement has written. */
async function count(lake: Lake, sql: string): Promise<number> {
  const [row] = await lake.rows<{ Count: string }>(sql);
  return Number(row?.Count ?? 0);
}
