/**
 * Manages readers of the warehouse. Each reader has a login of the database server, in one of two groups that carry the
 * rights, and a row in sync.readers with its accounts. The password is generated here, shown once and stored nowhere:
 * the server gets only its SCRAM verifier, so that no statement log can contain it.
 */
import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto';
import pg from 'pg';
import { makeRoles } from '../engine/database/migrate.ts';
import { type Client, durably, transaction } from '../engine/database/pool.ts';
import { query, raw, sql } from '../engine/database/sql.ts';
import { hasLeft, noteOperation } from '../engine/runs/operations.ts';
import { ShelfdeskError, UsageError } from '../errors.ts';

export interface NewReader {
  readonly name: string;
  /** The reader also sees personal data: names, addresses and texts. */
  readonly pii: boolean;
  /** Null: all accounts, including future ones. */
  readonly accounts: readonly string[] | null;
  readonly who: string;
}

export interface Reader {
  readonly reader: string;
  readonly pii: boolean;
  readonly accounts: string[] | null;
  readonly created_at: Date;
  readonly created_by: string;
  /** `gone`: the role was dropped; `shut out`: the role may not log in, or is in none of the groups. */
  readonly state: 'let in' | 'shut out' | 'gone';
  readonly sessions: number;
}

/** A name that needs no quotes and is short enough for PostgreSQL. */
const nameLike = /^[a-z][a-z0-9_]{0,62}$/;
const reserved = /^(pg_|shelfdesk_)|^(public|none)$/;
/** Logins for questions of agents (sql-role.ts) begin with it. */
export const ofAgents = 'shelfdesk_agent';
const connections = 20;
const terminateMs = 5000;
/** A forgotten transaction would keep the server from cleaning up. */
const forgotten = '15min';
export const groupOf = (pii: boolean) => (pii ? 'shelfdesk_reader_pii' : 'shelfdesk_reader');
const id = pg.escapeIdentifier;

/** Creates the login. Returns its password. */
export async function letIn(db: pg.Pool, { name, pii, accounts, who }: NewReader, now: Date): Promise<string> {
  if (!nameLike.test(name) || reserved.test(name))
    throw new UsageError(
      `'${name}' cannot be the name of a reader`,
      'Choose small letters, digits and _, a letter first; not pg_… nor shelfdesk_….',
    );
  const password = newPassword();
  const group = groupOf(pii);
  await allowed(db, group, () =>
    transaction(db, async client => {
      await requireGroup(client, group);
      await refusePublicCreate(client);
      const { rowCount } = await client.query(sql`select from pg_roles where rolname = ${name}`);
      if (rowCount !== 0)
        throw new UsageError(
          `there is a role ${name} in this server already`,
          'Choose another name. Roles belong to the whole server: another database of it may have a reader of this name.',
        );
      await client.query(
        `create role ${id(name)} login connection limit ${connections} password ${pg.escapeLiteral(verifierOf(password))}`,
      );
      await join(client, group, name);
      const { database, may_connect } = await query(client).row<{ database: string; may_connect: boolean }>`
        select current_database() as database, has_database_privilege(${name}::name, current_database(), 'connect') as may_connect`;
      if (!may_connect) await client.query(`grant connect on database ${id(database)} to ${id(name)}`);
      const setting = `alter role ${id(name)} in database ${id(database)} set`;
      await client.query(`${setting} search_path = ${await searchPathOf(client, pii)}`);
      // Like pool.ts: the JIT compilation of a large view takes longer than the query.
      await client.query(`${setting} jit = off`);
      // Bodies of functions are read by the session's rule, which an old program of the server may have changed.
      await client.query(`${setting} standard_conforming_strings = on`);
      await client.query(`${setting} idle_in_transaction_session_timeout = '${forgotten}'`);
      await client.query(sql`
        insert into sync.readers (role_name, accounts, pii, created_at, created_by) values (${name}, ${accounts}, ${pii}, ${now}, ${who})`);
      await client.query(sql`select sync.let_into_lake(${name})`);
      const told = `done: ${pii ? 'sees names, addresses and texts' : 'sees what is masked'}`;
      await note(client, { who, action: 'let a reader in', subject: name, outcome: told }, accounts, now);
    }),
  );
  return password;
}

/** Schemas that such a reader may read. Without personal data the views of `safe` come first. */
export async function searchPathOf(client: Pick<Client, 'query'>, pii: boolean): Promise<string> {
  const schemas = await query(client).values<string>`
    select quote_ident(source) as name from sync.streams group by source having ${pii} or not bool_or(personal) order by min(place)`;
  return (pii ? [...schemas, 'analytics', 'sync'] : ['safe', 'analytics', ...schemas]).join(', ');
}

/** Lists the readers without the temporary logins of agents. */
export const readersOf = (db: pg.Pool): Promise<Reader[]> =>
  query(db).rows<Reader>`
    select r.role_name::text as reader, r.pii, r.accounts, r.created_at, r.created_by,
      case when o.oid is null then 'gone'
        when o.rolcanlogin and pg_has_role(o.oid, g.oid, 'usage') then 'let in' else 'shut out' end as state,
      (select count(*) from pg_stat_activity a where a.usesysid = o.oid) as sessions
    from sync.readers r left join pg_roles o on o.rolname = r.role_name
    left join pg_roles g on g.rolname = case when r.pii then 'shelfdesk_reader_pii' else 'shelfdesk_reader' end
    where not starts_with(r.role_name::text, '${raw(ofAgents)}_')
    order by r.role_name`;

/** Roles with the right to read everything, such as backup roles. Row-level security would stop their `pg_dump`. */
export const stoppedDumpers = (db: Pick<pg.ClientBase, 'query'>): Promise<string[]> =>
  query(db).values<string>`
    select r.rolname::text as name
    from pg_roles r, pg_class c
    where c.oid = 'sync.coverage'::regclass and c.relrowsecurity and r.rolcanlogin and not r.rolsuper and not r.rolbypassrls
      and pg_has_role(r.oid, 'pg_read_all_data', 'usage') and not pg_has_role(r.oid, c.relowner, 'usage')
    order by 1`;

/** Views that show every account to roles with a manual grant from before readers existed. Readers may not use them. */
export const unfilteredViews = (db: Pick<pg.ClientBase, 'query'>): Promise<string[]> =>
  query(db).values<string>`
    select c.oid::regclass::text as name from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where (n.nspname = 'sync' or n.nspname in (select name from sync.source_schemas)) and c.relkind = 'v'
      and not coalesce(c.reloptions && '{security_invoker=true,security_barrier=true}', false)
    order by 1`;

/** In databases that were created before PostgreSQL 15, everybody may create tables in schema public. */
export const publicMayCreate = (db: Pick<pg.ClientBase, 'query'>): Promise<boolean> =>
  query(db).value<boolean>`
    select exists (
    select from pg_namespace n cross join aclexplode(n.nspacl) a
    where n.nspname = 'public' and a.grantee = 0 and a.privilege_type = 'CREATE') as may`;

/** Throws ShelfdeskError if a reader could make tables. */
export async function refusePublicCreate(db: Pick<pg.ClientBase, 'query'>): Promise<void> {
  if (!(await publicMayCreate(db))) return;
  throw new ShelfdeskError(
    'in schema public of this database everybody who may log in can make tables: a reader could write there',
    'As its owner: `revoke create on schema public from public`. Then run the same again.',
  );
}

/**
 * Removes the reader's rights and login first, then ends its sessions and drops the role. An interrupted call can be
 * repeated. Returns the number of ended sessions.
 */
export async function revoke(db: pg.Pool, name: string, who: string, now: Date): Promise<number> {
  const readers = await readersOf(db);
  const reader = readers.find(one => one.reader === name);
  if (reader === undefined)
    throw new UsageError(
      `this warehouse has no reader ${name}`,
      readers.length > 0 ? `There are: ${readers.map(one => one.reader).join(', ')}.` : 'It has none.',
    );
  const outcome = reader.state === 'gone' ? 'done: its role was gone already' : 'done';
  const noted = { who, action: 'revoke a reader', subject: name, outcome } as const;
  return allowed(db, groupOf(reader.pii), async () => {
    let ended = 0;
    if (reader.state !== 'gone') {
      await transaction(db, async client => {
        await client.query(sql`update sync.readers set accounts = '{}' where role_name = ${name}`);
        await client.query(`alter role ${id(name)} nologin password null`);
      });
      ended = await endSessions(db, name);
    }
    const forget = async (client: Client) => {
      await client.query(sql`delete from sync.readers where role_name = ${name}`);
      if (reader.state !== 'gone') await dropLogin(client, name);
      await note(client, noted, reader.accounts, now);
    };
    await transaction(db, forget, durably);
    return ended;
  });
}

/**
 * Ending the sessions of a role requires its rights. The creator of a role may grant them to itself. `waitMs`: how long to
 * wait for the end of each; 0: not at all.
 */
export async function endSessions(db: pg.Pool, name: string, waitMs = terminateMs): Promise<number> {
  return transaction(db, async client => {
    const { rows } = await client.query(sql`select pg_has_role(${name}::name, 'usage') as ours, current_user as me`);
    if (!rows[0].ours) await join(client, name, rows[0].me);
    const { rows: ended } = await client.query(sql`
      select pg_terminate_backend(pid, ${waitMs}) from pg_stat_activity where usename = ${name}`);
    return ended.length;
  });
}

/** Drops a login with all that was granted to it. */
export async function dropLogin(client: Client, name: string): Promise<void> {
  try {
    const { rows } = await client.query<{ database: string; granted: boolean }>(sql`
      select datname as database, exists (
        select from aclexplode(datacl) a join pg_roles r on r.oid = a.grantee where r.rolname = ${name}) as granted
      from pg_database where datname = current_database()`);
    if (rows[0]!.granted) await client.query(`revoke all on database ${id(rows[0]!.database)} from ${id(name)}`);
    const { rows: lake } = await client.query(sql`
      select from pg_namespace n cross join aclexplode(n.nspacl) a join pg_roles r on r.oid = a.grantee
      where n.nspname = 'lake' and r.rolname = ${name}`);
    if (lake.length > 0) {
      await client.query(`revoke all on all tables in schema lake from ${id(name)}`);
      await client.query(`revoke all on schema lake from ${id(name)}`);
    }
    // Everybody may create large objects, and a role that owns some cannot be dropped.
    await client.query(sql`
      select lo_unlink(l.oid) from pg_largeobject_metadata l join pg_roles r on r.oid = l.lomowner where r.rolname = ${name}`);
    await client.query(`drop role ${id(name)}`);
  } catch (error) {
    if (!(error instanceof pg.DatabaseError) || error.code !== '2BP01') throw error;
    throw new ShelfdeskError(
      `${name} can log in no more, but its role cannot be removed: ${error.detail ?? error.message}`,
      `The role that granted more must take it back (\`reassign owned by ${name} to …\`, \`drop owned by ${name}\`); then run the same again.`,
      { cause: error },
    );
  }
}

/** In PostgreSQL 16 a member can have the rights of a group without the right to become it. */
export async function join(client: Client, group: string, member: string): Promise<void> {
  const { rows } = await client.query(`select current_setting('server_version_num')::int >= 160000 as told`);
  await client.query(`grant ${id(group)} to ${id(member)}${rows[0].told ? ' with inherit true, set false' : ''}`);
}

async function requireGroup(client: Client, group: string): Promise<void> {
  const { rows } = await client.query<{ missing: string[] }>(
    `select case when pg_has_role(p.proowner, 'usage') then sync.settle_roles() else '{}' end as missing
     from pg_proc p where p.oid = 'sync.settle_roles()'::regprocedure`,
  );
  const { rowCount } = await client.query(sql`select from pg_roles where rolname = ${group} and not rolcanlogin`);
  if (rowCount !== 0) return;
  throw new ShelfdeskError(
    rows[0]!.missing.find(one => one.includes(`${group},`) || one.startsWith(`${group} `)) ??
      `there is no role ${group}`,
    `As a superuser: \`${makeRoles}\`. Then run \`npx shelfdesk migrate\` and the same again.`,
  );
}

/** Writes one operation per affected account. Rows of one that has left for another warehouse are read-only. */
async function note(
  client: Client,
  operation: Pick<Parameters<typeof noteOperation>[1], 'who' | 'action' | 'subject' | 'outcome'>,
  accounts: readonly string[] | null,
  now: Date,
): Promise<void> {
  const { rows } = await client.query<{ account: string; left: boolean }>(sql`
    select account_id as account, ${raw(hasLeft('a'))} as left from sync.accounts a
    where ${accounts}::text[] is null or account_id = any (${accounts}) order by 1`);
  const here = rows.filter(one => !one.left);
  const nobody = { account: rows.length > 0 ? '' : (accounts?.[0] ?? '') };
  for (const { account } of here.length > 0 ? here : [nobody])
    await noteOperation(client, { account, ...operation }, now);
}

/** Turns a missing right into an error that names the grant. */
async function allowed<T>(db: pg.Pool, group: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof pg.DatabaseError) || error.code !== '42501') throw error;
    const me = (await db.query<{ me: string }>('select quote_ident(current_user) as me')).rows[0]!.me;
    throw new ShelfdeskError(
      `role ${me} may not do that: ${error.message}`,
      `Run it as the role that owns the tables. It has to make roles; as a superuser: \`alter role ${me} createrole\`, and \`grant ${group} to ${me} with admin option\`.`,
      { cause: error },
    );
  }
}

export const newPassword = (): string => randomBytes(24).toString('base64url');

/** A name that nobody can guess, of small letters and digits. */
export const newName = (): string => randomBytes(6).toString('hex');

/** SCRAM verifier of a password, RFC 5803. */
export function verifierOf(password: string): string {
  const rounds = 4096;
  const salt = randomBytes(16);
  const salted = pbkdf2Sync(password, salt, rounds, 32, 'sha256');
  const keyOf = (use: string) => createHmac('sha256', salted).update(use).digest();
  const stored = createHash('sha256').update(keyOf('Client Key')).digest('base64');
  return `SCRAM-SHA-256$${rounds}:${salt.toString('base64')}$${stored}:${keyOf('Server Key').toString('base64')}`;
}
