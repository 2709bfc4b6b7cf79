/**
 * Migrates a database to the tables of this program, forwards only, one transaction per migration.
 *
 * Several processes start at once after a deployment. One lock lines them up, and all but the first find nothing to do.
 * During a roll-out old programs start too. A program that finds an unknown migration refuses to work, because it
 * cannot know what its statements mean on tables from the future.
 */
import { readFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { Away, isAway, isCanceled, ShelfdeskError } from '../../errors.ts';
import { keepChecksums, refuseIfEdited } from './checksums.ts';
import { addMirrors, type Mirror, sourceSchemas } from './mirrors.ts';
import { openCandidates } from './open-candidates.ts';
import { ownNames, type Queryable } from './pool.ts';
import { connectSession, sessionTo } from './session/session.ts';
import { sql } from './sql.ts';
import { applyViews, readViews, stateOfViews } from './views.ts';
import { migrationLock } from './waits.ts';

/** The files that a database is made of. */
export interface Sql {
  /** Change what holds rows, each once. */
  readonly migrations: string;
  /** Are applied whole when they change. */
  readonly views: string;
  /** Version of the program. It does not replace the views of a newer one. */
  readonly version: string;
}

const manifest = readFileSync(new URL('../../../package.json', import.meta.url), 'utf8');

export const ownSql: Sql = {
  migrations: fileURLToPath(new URL('../../../migrations/', import.meta.url)),
  views: fileURLToPath(new URL('../../../schema/views/', import.meta.url)),
  version: /"version": "(.*?)"/.exec(manifest)![1]!,
};
/** Stands for the views among the names of migrations. */
const theViews = 'schema/views';
/** SQLSTATE of a missing right. */
const mayNot = '42501';
/** SQLSTATE of an undefined object. */
const isNot = '42704';
/** The SQL that an administrator runs for a role that may not create roles. */
export const makeRoles =
  'create role shelfdesk_owner; create role shelfdesk_writer; create role shelfdesk_reader; create role shelfdesk_reader_pii; create role shelfdesk_sql';
const silent = { info: () => {}, warn: () => {}, error: () => {} };

export interface Migrated {
  readonly applied: string[];
  /** Tables without statistics that another session keeps locked. A later start analyses them. */
  readonly busy?: string[];
}

/** Applies the missing migrations, the views, and the tables of the sources. Tests pass other files. */
export async function migrate(url: string, sql: Sql = ownSql, sources: readonly Mirror[] = []): Promise<Migrated> {
  const client = await connect(url);
  const folder = sql.migrations;
  try {
    // Lifts limits that the role may have for everyday work: the lock, or an index, may take longer. A backslash is a letter,
    // whatever an old program of the same server needs.
    await client.query('set statement_timeout = 0; set lock_timeout = 0; set standard_conforming_strings = on');
    // Rows of an account that has moved are read-only for others (sync.refuse_moved).
    await client.query('set shelfdesk.migrating = on');
    await client.query('select pg_advisory_lock($1)', [migrationLock]);
    await refuseIfOlder(client, sql);
    await refuseIfEdited(client, folder);
    // A worker without the right to change tables must find nothing to change.
    const { missing } = await pendingMigrations(client, sql);
    if (missing.some(name => name !== theViews)) await applyMigrations(client, folder);
    if (missing.includes(theViews)) await applyViews(client, await readViews(sql.views, sql.version));
    const files = await addMirrors(client, sources, missing.includes(theViews));
    await openCandidates(client, sources);
    await settleMoves(client, url);
    await settleRoles(client);
    await settleJit(client);
    const leftOut = await analyzeLoaded(client);
    await keepChecksums(client, folder);
    return { applied: [...missing, ...files], ...leftOut };
  } catch (error) {
    if (error instanceof ShelfdeskError || isCanceled(error)) throw error;
    throw isAway(error) ? new Away(error) : await explain(error as pg.DatabaseError, url, sql);
  } finally {
    await client.end().catch(() => {}); // Ends an open transaction, and the lock with it.
  }
}

async function applyMigrations(client: pg.Client, folder: string): Promise<void> {
  const { runner } = await import('node-pg-migrate'); // Loaded only where a migration is missing.
  await runner({
    dbClient: client,
    dir: folder,
    direction: 'up',
    migrationsSchema: 'sync',
    migrationsTable: 'migrations',
    createMigrationsSchema: true,
    singleTransaction: false,
    noLock: true, // The lock of `migrate` is held already.
    logger: silent,
  }).catch(async error => {
    // Keeps the checksums of the migrations before the one that failed.
    await client
      .query('rollback')
      .then(() => keepChecksums(client, folder))
      .catch(() => {});
    throw error;
  });
}

/** Accounts that move, or have moved, are read-only in new tables too, and no longer where their mark is gone. */
async function settleMoves(client: pg.Client, url: string): Promise<void> {
  const { rowCount } = await client.query(
    `select from pg_trigger g join pg_class c on c.oid = g.tgrelid
     where g.tgfoid = to_regproc('sync.refuse_moved') and pg_has_role(c.relowner, 'usage') limit 1`,
  );
  if (rowCount === 0) return;
  const { settleFences } = await import('./move/fence.ts');
  await settleFences(url);
}

/**
 * Grants missing rights, if this role owns the tables: for new tables, and for roles that were created or lost
 * meanwhile.
 */
async function settleRoles(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ ours: boolean | null }>(
    `select pg_has_role(p.proowner, 'usage') as ours from pg_proc p where p.oid = to_regprocedure('sync.settle_roles()')`,
  );
  if (rows[0]?.ours) await client.query('select sync.settle_roles()');
  await keepFromEmitting(client);
}

/**
 * By default every login may write unlimited messages to the write-ahead log, even in a read-only transaction. Only a
 * superuser can take that right away.
 */
async function keepFromEmitting(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ routine: string }>(
    `select p.oid::regprocedure::text as routine from pg_proc p
     where p.proname = 'pg_logical_emit_message' and p.pronamespace = 'pg_catalog'::regnamespace and pg_has_role(p.proowner, 'usage')
       and has_function_privilege('public', p.oid, 'execute')`,
  );
  for (const { routine } of rows) await client.query(`revoke execute on function ${routine} from public`);
}

/**
 * Switches JIT off for every login of the database, if this role owns the database: compiling a large view takes longer than
 * running it (pool.ts). A dump does not keep the setting, so each program that starts looks. A setting of an operator stays.
 */
async function settleJit(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ database: string }>(
    `select d.datname as database from pg_database d
     where d.datname = current_database() and pg_has_role(d.datdba, 'usage')
       and not pg_is_in_recovery() and current_setting('transaction_read_only') = 'off'
       and not exists (
         select from pg_db_role_setting s, unnest(s.setconfig) one
         where s.setdatabase = d.oid and s.setrole = 0 and one like 'jit=%')`,
  );
  if (rows[0]) await client.query(`alter database ${pg.escapeIdentifier(rows[0].database)} set jit = off`);
}

/** A smaller table is read whole by any plan. */
const leastBytes = 65_536;

/**
 * Analyses tables without statistics: they were just loaded or restored, and autovacuum has not visited them. Without
 * statistics a join of facts and dimensions may become a nested loop over all rows. `reltuples` does not tell, because
 * an index that is built after the rows sets it. Returns the tables that somebody else keeps locked.
 */
async function analyzeLoaded(client: pg.Client): Promise<{ busy?: string[] }> {
  const schemas = ['analytics', 'internal', 'sync', ...(await sourceSchemas(client))];
  // Others wait for the lock of migrations meanwhile. Asking for the size would wait for a session that locks the table.
  await client.query(`set lock_timeout = '1s'`);
  // pg_stats is asked for the few large tables alone: all of it is a join over each column of the database.
  const { rows } = await client.query<{ name: string; is_locked: boolean }>(sql`
    with large as materialized (
      select * from (
        select c.oid, n.nspname, c.relname, exists (
            select from pg_locks l where l.relation = c.oid and l.mode = 'AccessExclusiveLock' and l.pid <> pg_backend_pid()
              and l.database = (select d.oid from pg_database d where d.datname = current_database())) as is_locked
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = any (${schemas}) and c.relkind = 'r' and pg_has_role(c.relowner, 'usage') and not pg_is_in_recovery()) t
      where case when t.is_locked then true else pg_relation_size(t.oid) > ${leastBytes} end)
    select t.oid::regclass::text as name, t.is_locked from large t
    where not exists (select from pg_stats s where s.schemaname = t.nspname and s.tablename = t.relname offset 0)
    order by 1`);
  const busy: string[] = [];
  for (const { name, is_locked } of rows) {
    const analyze = () => client.query(`analyze ${name}`);
    // Autovacuum may be analysing the table just now.
    if (is_locked || !(await analyze().then(Boolean, () => false))) busy.push(name);
  }
  return busy.length > 0 ? { busy } : {};
}

async function connect(url: string): Promise<pg.Client> {
  const client = sessionTo(url, { application_name: 'shelfdesk: migrates' });
  try {
    await connectSession(client, url, ownNames);
    return client;
  } catch (cause) {
    client.end().catch(() => {});
    if (cause instanceof ShelfdeskError) throw cause;
    const where = `database ${client.database} on ${client.host}:${client.port}`;
    const remedy = 'Check DATABASE_URL, and that the server runs and lets this machine in.';
    if (isAway(cause)) throw new Away(cause, where, remedy);
    const { message, code } = cause as NodeJS.ErrnoException;
    throw new ShelfdeskError(`no connection to ${where}: ${message || code}`, remedy, { cause });
  }
}

/** The migrations that are missing in the database, and those that this program does not know, or newer views. */
export async function pendingMigrations(
  db: Queryable,
  sql: Sql = ownSql,
): Promise<{ missing: string[]; unknown: string[] }> {
  const files = await readdir(sql.migrations);
  const known = files.filter(name => name.endsWith('.sql')).map(name => name.slice(0, -4));
  const { rows: tables } = await db.query("select to_regclass('sync.migrations') is not null as there");
  const { rows } = tables[0].there
    ? await db.query<{ name: string }>('select name from sync.migrations order by id')
    : { rows: [] };
  const applied = new Set(rows.map(({ name }) => name));
  const views = await stateOfViews(db, await readViews(sql.views, sql.version));
  return {
    missing: [...known.filter(name => !applied.has(name)).sort(), ...(views === 'missing' ? [theViews] : [])],
    unknown: [...[...applied].filter(name => !known.includes(name)), ...(views === 'newer' ? [theViews] : [])],
  };
}

async function refuseIfOlder(client: pg.Client, sql: Sql): Promise<void> {
  const { unknown } = await pendingMigrations(client, sql);
  if (unknown.length === 0) return;
  throw new ShelfdeskError(
    `the database has been migrated by a newer Shelfdesk: this one does not know ${unknown.join(', ')}`,
    'Upgrade Shelfdesk to the version that made these changes, or newer. Nothing has been changed.',
  );
}

/**
 * Names the failed migration and its line. It is the first one missing now, because each migration is applied whole or
 * not at all.
 */
async function explain(error: pg.DatabaseError, url: string, sql: Sql): Promise<ShelfdeskError> {
  const name = await firstMissing(url, sql).catch(() => undefined);
  const text =
    name && name !== theViews && error.position ? await readFile(join(sql.migrations, `${name}.sql`), 'utf8') : '';
  const line = error.position ? `, line ${text.slice(0, Number(error.position)).split('\n').length}` : '';
  const detail = error.detail ? ` (${error.detail})` : '';
  if (error.code === mayNot)
    return new ShelfdeskError(
      `migration ${name ?? 'of the database'} failed${line}: ${error.message}`,
      'This role may not do that. Run `npx shelfdesk migrate` as the role that owns the tables; for an extension, as one that may create it in this database.',
      { cause: error },
    );
  if (error.code === isNot && /role "?shelfdesk_/.test(error.message))
    return new ShelfdeskError(
      `migration ${name ?? 'of the database'} failed: ${error.message}, and this role may not make one`,
      `As a superuser: \`${makeRoles}\`. Then run \`npx shelfdesk migrate\` again (docs/how-to/let-readers-in.md).`,
      { cause: error },
    );
  return new ShelfdeskError(
    `migration ${name ?? 'of the database'} failed${line}: ${error.message}${detail}`,
    'The migrations before it are applied, of this one nothing is. Remove the cause and run the same command again.',
    { cause: error },
  );
}

async function firstMissing(url: string, sql: Sql): Promise<string | undefined> {
  const client = await connect(url);
  const { missing } = await pendingMigrations(client, sql).finally(() => client.end());
  return missing[0];
}
