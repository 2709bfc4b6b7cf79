/**
 * Runs SQL that a person typed, as a login that can only read, created for one statement and dropped afterwards. The
 * role of DATABASE_URL may have any right, and a statement can take back what its session gave up: with `reset role`, a
 * new transaction, or a function. A login without rights cannot.
 */
import pg from 'pg';
import { isMirror } from '../engine/database/mirrors.ts';
import { type Client, sessionSettings, streamOf, transaction } from '../engine/database/pool.ts';
import { lineFor } from '../engine/database/session/connection-url.ts';
import { isPooled } from '../engine/database/session/pooler.ts';
import { connectSession, type SessionSettings, sessionTo, watch } from '../engine/database/session/session.ts';
import { query, raw, sql } from '../engine/database/sql.ts';
import { isAway, ShelfdeskError } from '../errors.ts';
import {
  dropLogin,
  endSessions,
  groupOf,
  join,
  newName,
  newPassword,
  ofAgents,
  refusePublicCreate,
  searchPathOf,
  verifierOf,
} from './readers.ts';

const group = 'shelfdesk_sql';
/** Lifetime of a login. A login that a killed process left behind expires after it, and the next command drops it. */
const validMs = 3_600_000;
const id = pg.escapeIdentifier;

export interface Asker extends AsyncDisposable {
  readonly client: Client;
  /** A missing protection, and its remedy. */
  readonly warning?: string;
}

/** A login of one question, apart from all others. */
export interface OwnReader extends Asker {
  readonly client: pg.Client;
  /** The schemas of plain names. */
  readonly path: string;
  /** Ends the session, whatever it does. Its statement fails immediately. */
  stop(): void;
}

interface Login {
  /** The group that carries the rights, and the first part of the name. */
  readonly group: string;
  readonly prefix: string;
  /** Further settings of the session. */
  readonly settings?: SessionSettings;
  /** Within the transactions that create and drop the login. */
  enter?(client: Client, name: string): Promise<void>;
  leave?(client: Client, name: string): Promise<void>;
}

interface Role {
  readonly me: string;
  /** The role has rights beyond the database: files and programs of the server, sessions of others. */
  readonly reaches: boolean;
  readonly writes: boolean;
}

const ours = `n.nspname in ('sync', 'analytics', 'internal', 'bullmq') or ${isMirror('n')}`;
const rolesSql = `
  select quote_ident(current_user) as me,
    r.rolsuper or r.rolreplication or exists (
      select from pg_roles p
      where p.rolname in ('pg_write_server_files', 'pg_read_server_files', 'pg_execute_server_program', 'pg_signal_backend', 'pg_maintain')
        and pg_has_role(p.oid, 'member')) as reaches,
    r.rolcreaterole or r.rolcreatedb or has_database_privilege(current_database(), 'create') or exists (
      select from pg_namespace n where (n.nspname in ('safe', 'public') or ${ours})
        and has_schema_privilege(n.oid, 'create')) or exists (
      select from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where (${ours}) and c.relkind in ('r', 'p')
        and has_table_privilege(c.oid, 'insert, update, delete, truncate')) as writes
  from pg_roles r where r.rolname = current_user`;

/** Throws if only a role with rights beyond the database could run the statement. */
export async function openAsker({ pg: db, url }: { pg: pg.Pool; url: string }, now: Date): Promise<Asker> {
  const { me, reaches, writes } = (await db.query<Role>(rolesSql)).rows[0]!;
  if (!reaches && !writes) return ofPool(db);
  let why: string;
  try {
    return await asLogin(db, url, now, { group, prefix: group });
  } catch (error) {
    if (!(error instanceof pg.DatabaseError) && !(error instanceof ShelfdeskError)) throw error;
    why = error.message;
  }
  const remedy = `As a superuser: \`create role ${group}\`, \`alter role ${me} createrole\` and \`grant ${group} to ${me} with admin option\`; then run \`npx shelfdesk migrate\`. Or set DATABASE_URL to the line of a reader (\`npx shelfdesk warehouse reader create\`).`;
  if (reaches)
    throw new ShelfdeskError(
      `role ${me} may do more than use this database, and no login that can only read could be made: ${why}`,
      remedy,
    );
  return {
    ...(await ofPool(db)),
    warning: `This asks as role ${me}, in a transaction that only reads: no login that can only read could be made (${why}). ${remedy}`,
  };
}

async function ofPool(db: pg.Pool): Promise<Asker> {
  const client = await db.connect();
  // A session that ran such a statement is never reused.
  return { client, [Symbol.asyncDispose]: async () => client.release(true) };
}

/**
 * Opens a reader for one question: a login of its own in the group of readers, masked unless `pii`, that sees these accounts,
 * or all. PostgreSQL ends each of its statements after `ms`. Throws ShelfdeskError where no such login can be made: no other
 * role takes its place.
 */
export async function openOwnReader(
  { pg: db, url }: { pg: pg.Pool; url: string },
  { now, pii, accounts, ms }: { now: Date; pii: boolean; accounts: readonly string[] | null; ms: number },
): Promise<OwnReader> {
  const login: Login = {
    ...{ group: groupOf(pii), prefix: ofAgents, settings: { statement_timeout: ms } },
    async enter(client, name) {
      await client.query(sql`
        insert into sync.readers (role_name, accounts, pii, created_at, created_by) values (${name}, ${accounts}, ${pii}, ${now}, ${'mcp'})`);
    },
    async leave(client, name) {
      await client.query(sql`delete from sync.readers where role_name = ${name}`);
    },
  };
  try {
    await refusePublicCreate(db);
    const path = await searchPathOf(db, pii);
    return { ...(await asLogin(db, url, now, login)), path };
  } catch (error) {
    const isGone: boolean = isAway(error);
    if (isGone || !(error instanceof pg.DatabaseError)) throw error;
    throw new ShelfdeskError(
      `no reader could be made for this question: ${error.message}`,
      'DATABASE_URL has to be a role that owns the tables and may create readers (docs/how-to/let-readers-in.md).',
      { cause: error },
    );
  }
}

async function asLogin(db: pg.Pool, url: string, now: Date, login: Login): Promise<Omit<OwnReader, 'path'>> {
  await removeForgotten(db, now, login);
  const name = `${login.prefix}_${newName()}`;
  const password = newPassword();
  const line = lineFor(url, name, password);
  const until = new Date(now.getTime() + validMs).toISOString();
  await transaction(db, async client => {
    await requireRights(client, login.group);
    await client.query(
      `create role ${id(name)} login connection limit 1 valid until '${until}' password ${pg.escapeLiteral(verifierOf(password))}`,
    );
    await join(client, login.group, name);
    await login.enter?.(client, name);
  });
  const client = sessionTo(line, { application_name: 'shelfdesk: sql' });
  let stopping: Promise<unknown> | undefined;
  const close = async () => {
    // A login that is gone could not be named to end its session.
    await stopping;
    await client.end().catch(() => {});
    await drop(db, name, login);
  };
  try {
    await connectSession(client, line, { ...sessionSettings, ...login.settings });
    watch(client, url);
    if (isPooled(line)) await requireUser(client, name);
  } catch (error) {
    await close();
    throw error;
  }
  const stop = () => {
    stopping ??= endSessions(db, name, 0).catch(() => {});
    // The session may be in a step that cannot be interrupted. The process does not wait for it.
    streamOf(client).destroy();
  };
  return { client, stop, [Symbol.asyncDispose]: close };
}

/** A pooler may log everybody in as one user, with its rights. */
async function requireUser(client: pg.Client, name: string): Promise<void> {
  const { rows } = await client.query<{ user: string }>('select session_user::text as user');
  if (rows[0]!.user === name) return;
  throw new ShelfdeskError(
    `the pooler at DATABASE_URL logs everybody in as ${rows[0]!.user}`,
    'Take user= out of the database in pgbouncer.ini and set auth_query (docs/how-to/use-tls.md), or name the address of PostgreSQL itself.',
  );
}

const drop = (db: pg.Pool, name: string, { leave }: Login) =>
  transaction(db, async client => {
    await dropLogin(client, name);
    await leave?.(client, name);
  });

/** If the role, or its rights on new tables, are missing, the owner of the tables grants them. */
async function requireRights(client: Client, group: string): Promise<void> {
  const { there, settles, may_connect, database } = await query(client).row<{
    there: boolean;
    settles: boolean | null;
    may_connect: boolean;
    database: string;
  }>`
    select exists (select from pg_roles where rolname = ${group} and not rolcanlogin) as there, current_database() as database,
    coalesce((select has_database_privilege(oid, current_database(), 'connect') from pg_roles where rolname = ${group}), true) as may_connect,
    (select pg_has_role(p.proowner, 'usage') from pg_proc p where p.oid = to_regprocedure('sync.settle_roles()')) as settles`;
  if (!there && settles) await client.query('select sync.settle_roles()');
  // Rights are checked only if the tables exist.
  if (!there && settles === null) await client.query(`create role ${group} nologin`);
  if (!may_connect) await client.query(`grant connect on database ${id(database)} to ${group}`);
}

async function removeForgotten(db: pg.Pool, now: Date, login: Login): Promise<void> {
  const { rows } = await db.query<{ name: string }>(sql`
    select r.rolname::text as name from pg_roles r
    where r.rolname ~ '^${raw(login.prefix)}_[a-z0-9]+$' and r.rolvaliduntil < ${now}
      and not exists (select from pg_stat_activity a where a.usesysid = r.oid)`);
  // Logins of a concurrent command, or of another owner on this server, stay.
  for (const { name } of rows) await drop(db, name, login).catch(() => {});
}
