/** Facts about a PostgreSQL server and our role there, for the checks of the doctor. */
import type pg from 'pg';
import type { Clock } from '../../clock.ts';
import { isMirror } from './mirrors.ts';
import { sessionTo } from './session/session.ts';

export interface ServerFacts {
  /** 180004 for 18.4. */
  readonly versionNumber: number;
  readonly version: string;
  /** Quoted as in SQL where necessary, like the name of the database. */
  readonly role: string;
  readonly database: string;
  readonly encoding: string;
  readonly isSuper: boolean;
  /** The server is read-only: a standby, or set so. */
  readonly readOnly: boolean;
  readonly mayCreate: boolean;
  /** Whether btree_gist exists, or this role may create it. */
  readonly gist: 'there' | 'can be made' | 'not allowed' | 'not installed';
  /** Schemas that the role may not use, and tables that it does not own or may not write. */
  readonly closedSchemas: readonly string[];
  readonly closedTables: readonly string[];
  readonly foreignTables: readonly string[];
  /** True if the role has the rights of shelfdesk_writer and owns no table: another role migrates. */
  readonly isWriter: boolean;
  readonly connections: {
    /** For all programs together: the lowest limit of the server, the database and the role. */
    readonly most: number;
    /** Connections of other programs. */
    readonly others: number;
  };
  readonly fsync: boolean;
  readonly fullPageWrites: boolean;
  readonly autovacuum: boolean;
  readonly databaseBytes: number;
  /** How far its clock is ahead of this machine's, at least, in ms; 0 if the duration of the query hides it. */
  readonly aheadMs: number;
}

/** A server that does not answer within this time is given up. */
const patienceMs = 5000;

/** Throws as node-postgres does if the server cannot be reached. */
export const reach = (url: string): Promise<void> => briefly(url, async () => {});

/** Whether JIT is on for a login of this role that sets nothing itself. */
export const compiles = (url: string): Promise<boolean> =>
  briefly(url, async client => (await client.query('show jit')).rows[0].jit === 'on');

/** A session without our settings. */
async function briefly<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = sessionTo(url, { application_name: 'shelfdesk: doctor', connectionTimeoutMillis: patienceMs });
  try {
    await client.connect();
    return await work(client);
  } finally {
    await client.end().catch(() => {});
  }
}

interface Row extends Omit<ServerFacts, 'gist' | 'connections' | 'aheadMs'> {
  readonly gistThere: boolean;
  readonly gistKnown: boolean;
  readonly most: number;
  readonly others: number;
  readonly atMs: number;
}

const factsSql = `
with ours as (
  select c.oid, format('%I.%I', n.nspname, c.relname) as name, c.relowner
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where (n.nspname = 'sync' or ${isMirror('n')}) and c.relkind in ('r', 'p')),
me as (
  select r.*, exists (
      select from pg_roles g where g.rolname = 'shelfdesk_writer' and not g.rolcanlogin and pg_has_role(g.oid, 'usage'))
    and not exists (select from ours o where pg_has_role(o.relowner, 'usage')) as is_writer
  from pg_roles r where r.rolname = current_user)
select current_setting('server_version_num')::int as "versionNumber", current_setting('server_version') as version,
  quote_ident(current_user) as role, quote_ident(current_database()) as database, me.rolsuper as "isSuper",
  current_setting('server_encoding') as encoding,
  pg_is_in_recovery() or current_setting('transaction_read_only') = 'on' as "readOnly",
  has_database_privilege(current_database(), 'create') as "mayCreate",
  exists (select from pg_extension where extname = 'btree_gist') as "gistThere",
  exists (select from pg_available_extensions where name = 'btree_gist') as "gistKnown",
  array(
    select n.nspname::text from pg_namespace n
    where (n.nspname in ('sync', 'bullmq') or ${isMirror('n')})
      and not (has_schema_privilege(n.oid, 'usage') and (me.is_writer or has_schema_privilege(n.oid, 'create')))
    order by 1) as "closedSchemas",
  array(
    select o.name from ours o
    where not (has_table_privilege(o.oid, 'select') and has_table_privilege(o.oid, 'insert')
      and has_table_privilege(o.oid, 'update') and has_table_privilege(o.oid, 'delete'))
      -- What only the owner writes.
      and not (me.is_writer and o.name in ('sync.migrations', 'sync.view_sets', 'sync.readers', 'sync.secret_salt'))
    order by 1) as "closedTables",
  array(select o.name from ours o where not pg_has_role(o.relowner, 'usage') order by 1) as "foreignTables",
  me.is_writer as "isWriter",
  narrow.most, narrow.others,
  current_setting('fsync')::boolean as fsync, current_setting('full_page_writes')::boolean as "fullPageWrites",
  current_setting('autovacuum')::boolean as autovacuum,
  pg_database_size(d.oid)::float8 as "databaseBytes", extract(epoch from statement_timestamp())::float8 * 1000 as "atMs"
from me join pg_database d on d.datname = current_database()
cross join lateral (
  -- Of what the server, the database and the role allow, that which leaves the least room. What others hold is counted,
  -- not shown: who may not see their sessions may see how many they are.
  select most, others from (values
    (current_setting('max_connections')::int - case when me.rolsuper then 0
        else current_setting('superuser_reserved_connections')::int
          + coalesce(current_setting('reserved_connections', true), '0')::int end,
      (select sum(numbackends)::int from pg_stat_database), ''),
    (nullif(d.datconnlimit, -1), (select numbackends from pg_stat_database s where s.datid = d.oid), current_database()::text),
    (nullif(me.rolconnlimit, -1), 0, '')) one (most, all_of_them, database)
  cross join lateral (
    select greatest(0, one.all_of_them - count(*)::int) as others from pg_stat_activity a
    where a.application_name like 'shelfdesk%' and one.database in ('', a.datname)) o
  where most is not null
  order by most - others limit 1) narrow`;

export async function lookAtServer(db: pg.Pool, clock: Clock): Promise<ServerFacts> {
  await db.query('select'); // Connects first: connecting must not count as part of the query.
  const sentMs = clock.now();
  const { rows } = await db.query<Row>(factsSql);
  const answeredMs = clock.now();
  const { gistThere, gistKnown, most, others, atMs, ...facts } = rows[0]!;
  // btree_gist is a trusted extension: a role that may create schemas may create it.
  const mayMake = facts.mayCreate || facts.isSuper ? 'can be made' : 'not allowed';
  return {
    ...facts,
    gist: gistThere ? 'there' : gistKnown ? mayMake : 'not installed',
    connections: { most, others },
    aheadMs: atMs > answeredMs ? atMs - answeredMs : Math.min(0, atMs - sentMs),
  };
}
