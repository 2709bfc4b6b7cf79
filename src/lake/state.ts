/** The lake in the warehouse: whether it is on, and its exports. */
import pg from 'pg';
import { ownNames } from '../engine/database/pool.ts';
import { connectSession, sessionTo } from '../engine/database/session/session.ts';
import { sql } from '../engine/database/sql.ts';
import { ShelfdeskError } from '../errors.ts';
import { openLake } from './package.ts';
import { catalogSchema, type LakePlace } from './table.ts';

export interface LakeState {
  readonly path: string;
  readonly personal: boolean;
  readonly keepDays: number;
}

export interface StoredLake extends LakeState {
  readonly queue: string;
  /** Time of the last tidying; at first the time at which the lake was turned on. */
  readonly tidiedAt: Date;
}

export async function readLake(db: Pick<pg.Pool, 'query'>): Promise<StoredLake | undefined> {
  const { rows } = await db.query<StoredLake>(
    'select path, personal, keep_days as "keepDays", queue, coalesce(tidied_at, turned_on_at) as "tidiedAt" from sync.lake',
  );
  return rows[0];
}

/** A row of sync.lake_status. */
export interface LakeStatus {
  readonly path: string;
  readonly personal: boolean;
  readonly keep_days: number;
  readonly state: 'empty' | 'current' | 'failing';
  readonly moment: Date | null;
  readonly behind_seconds: number | null;
  readonly pending: number;
  readonly usual_seconds: number | null;
  readonly last_error: string | null;
}

/** Undefined if the lake is off. */
export async function readLakeStatus(db: Pick<pg.ClientBase, 'query'>): Promise<LakeStatus | undefined> {
  const { rows } = await db.query<LakeStatus>(
    `select path, personal, keep_days, state, moment, extract(epoch from behind)::float8 as behind_seconds, pending::int,
       usual_seconds, last_error
     from sync.lake_status`,
  );
  return rows[0];
}

export interface LakeFiles {
  readonly snapshots: number;
  readonly oldest_snapshot: Date | null;
  readonly files: number;
  readonly bytes: number;
}

/** Facts about the files from the catalog of the lake; undefined before the first export. */
export async function readLakeFiles(db: Pick<pg.ClientBase, 'query'>): Promise<LakeFiles | undefined> {
  const { rows: made } = await db.query(`select to_regclass('${catalogSchema}.ducklake_snapshot') is not null as made`);
  if (!made[0].made) return undefined;
  const { rows } = await db.query<LakeFiles>(
    `select (select count(*)::int from ${catalogSchema}.ducklake_snapshot) as snapshots,
       (select min(snapshot_time) from ${catalogSchema}.ducklake_snapshot) as oldest_snapshot,
       count(*)::int as files, coalesce(sum(f.bytes), 0)::bigint as bytes
     from (select file_size_bytes as bytes from ${catalogSchema}.ducklake_data_file
       union all select file_size_bytes from ${catalogSchema}.ducklake_delete_file) f`,
  );
  return rows[0];
}

/** Makes the catalog, as the owner, so that any worker can write to it. From then on changes are noted for the lake. */
export async function turnOn(
  url: string,
  reach: Omit<LakePlace, 'path'>,
  state: LakeState,
  { who, now }: { who: string; now: Date },
): Promise<void> {
  await alone(url, async client => {
    await inOwnersName(client, async () => {
      if ((await readLake(client)) !== undefined)
        throw new ShelfdeskError('the lake is on already', 'Look at `npx shelfdesk lake status`.');
      await makeSchema(client);
    });
    const made = await openLake(url, { ...reach, path: state.path });
    await made[Symbol.asyncDispose]();
    await inOwnersName(client, async () => {
      await handOver(client);
      await client.query(
        `do $$ begin
           if exists (select from pg_roles where rolname = 'shelfdesk_writer') then
             grant usage on schema ${catalogSchema} to shelfdesk_writer;
             grant select, insert, update, delete on all tables in schema ${catalogSchema} to shelfdesk_writer;
           end if;
         end $$`,
      );
      await client.query(sql`
        insert into sync.lake (path, personal, keep_days, turned_on_at, turned_on_by)
          values (${state.path}, ${state.personal}, ${state.keepDays}, ${now}, ${who})`);
      await client.query('select sync.follow_changes(true)');
      await client.query('select sync.let_into_lake()');
    });
  });
}

/** Replaces what an interrupted call has left: empty tables of a catalog. Throws ShelfdeskError if the schema has more. */
async function makeSchema(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ name: string }>(sql`
    select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = ${catalogSchema} and not starts_with(c.relname, 'ducklake_') and c.relkind not in ('i', 'I')
    union all
    select p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = ${catalogSchema}
    limit 1`);
  const { rows: catalog } = await client.query<{ made: boolean }>('select to_regclass($1) is not null as made', [
    `${catalogSchema}.ducklake_table`,
  ]);
  const { rows: others } = catalog[0]!.made
    ? await client.query(`select 'the catalog of another lake' as name from ${catalogSchema}.ducklake_table limit 1`)
    : { rows: [] };
  const [found] = [...rows, ...others];
  if (found !== undefined)
    throw new ShelfdeskError(
      `the catalog of the lake needs the schema ${catalogSchema}, and that has ${found.name}`,
      `Give the schema another name: \`alter schema ${catalogSchema} rename to …\`.`,
    );
  await client.query(`drop schema if exists ${catalogSchema} cascade`);
  await client.query(`create schema ${catalogSchema}`);
}

/** Gives the catalog to the owner of the other tables, which may be a group of logins. */
async function handOver(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ owner: string; tables: string[] }>(sql`
    select quote_ident(r.rolname) as owner,
      array(select c.oid::regclass::text from pg_class c where c.relnamespace = ${catalogSchema}::regnamespace and c.relkind = 'r') as tables
    from pg_namespace n join pg_roles r on r.oid = n.nspowner where n.nspname = 'sync' and r.rolname <> current_user`);
  for (const { owner, tables } of rows) {
    await client.query(`alter schema ${catalogSchema} owner to ${owner}`);
    for (const table of tables) await client.query(`alter table ${table} owner to ${owner}`);
  }
}

/** Drops the catalog. The files stay, until the operator deletes them. */
export async function turnOff(url: string): Promise<void> {
  await alone(url, client =>
    inOwnersName(client, async () => {
      await client.query('select sync.follow_changes(false)');
      await client.query(`drop schema if exists ${catalogSchema} cascade`);
      await client.query('truncate sync.lake, sync.lake_pending, sync.lake_exports, sync.lake_parts');
    }),
  );
}

/** Runs the work in one transaction with the rights of the owner. Throws ShelfdeskError if the role lacks a right. */
async function inOwnersName(client: pg.Client, work: () => Promise<void>): Promise<void> {
  await client.query('begin');
  try {
    await work();
    await client.query('commit');
  } catch (error) {
    await client.query('rollback').catch(() => {});
    if (!(error instanceof pg.DatabaseError) || error.code !== '42501') throw error;
    throw new ShelfdeskError(
      `this role may not turn the lake on or off: ${error.message}`,
      'Run it as the role that owns the tables; it needs the right to create a schema in the database.',
      { cause: error },
    );
  }
}

/** Runs one piece of work on the lake at a time. Throws ShelfdeskError if another process is at it. */
export async function alone<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = sessionTo(url, { application_name: 'shelfdesk: lake' });
  try {
    await connectSession(client, url, ownNames);
    const { rows } = await client.query<{ free: boolean }>(
      `select pg_try_advisory_lock(hashtextextended('shelfdesk lake', 0)) as free`,
    );
    if (!rows[0]!.free)
      throw new ShelfdeskError(
        'another process is working on the lake',
        'Wait until it is done: `npx shelfdesk lake status` shows what it does.',
      );
    return await work(client);
  } finally {
    await client.end();
  }
}
