/**
 * Judges a statement before it is planned or run: what it calls may answer, and do nothing else. A login without rights, in a
 * transaction that only reads, can still write WAL, take locks, use up numbers, tell others, and run text as SQL. Functions are judged
 * by what the catalog says of them, wherever the statement reaches them: by name, by an operator, a cast, a view, a policy, a domain, a
 * default or an aggregate.
 */
import { once } from 'node:events';
import { extname } from 'node:path';
import { MessageChannel, Worker } from 'node:worker_threads';
import type { Client } from '../engine/database/pool.ts';
import { UsageError } from '../errors.ts';

export interface Named {
  readonly kind: 'function' | 'type' | 'relation' | 'field' | 'operator';
  readonly schema: string | null;
  readonly name: string;
}

export interface Names {
  /** Commands that a question must not be. */
  readonly acts: string[];
  readonly named: Named[];
}

/** Volatile functions of PostgreSQL that only answer. The limit of time ends those that wait. */
const harmless = [
  ...['random', 'random_normal', 'setseed', 'gen_random_uuid', 'uuidv4', 'uuidv7', 'array_sample', 'array_shuffle'],
  ...['clock_timestamp', 'timeofday', 'current_query', 'pg_sleep', 'pg_sleep_for', 'pg_sleep_until'],
  ...['pg_relation_size', 'pg_table_size', 'pg_indexes_size', 'pg_total_relation_size', 'pg_database_size'],
  ...['pg_tablespace_size', 'pg_partition_tree', 'pg_partition_ancestors', 'pg_is_in_recovery', 'pg_current_wal_lsn'],
];

/**
 * Functions that are not marked volatile, but take a transaction id, run a text, or read a relation named by an
 * argument.
 */
const acting = [
  ...['txid_current', 'pg_current_xact_id', 'crosstab', 'crosstab2'],
  ...['crosstab3', 'crosstab4', 'connectby', 'xpath_table'],
  ...['table', 'schema', 'database'].flatMap(of =>
    ['xml', 'xmlschema', 'xml_and_xmlschema'].map(to => `${of}_to_${to}`),
  ),
];

/** Operators that expressions without an operator use: IN, BETWEEN, CASE, DISTINCT, GROUP BY, ORDER BY, LIKE. */
const implied = ['=', '<>', '<', '>', '<=', '>=', '~', '~~', '!~~', '~~*', '!~~*'];

/**
 * Everything that the statement reaches: functions (f), relations (r) and types (t). The trees that PostgreSQL stores of views, policies,
 * defaults, bodies and checks name what they call by number. Views of PostgreSQL itself only answer.
 */
const reachedSql = `
  with recursive asked as (select * from jsonb_to_recordset($1) as a (kind text, schema text, name text)),
  reached (class, id) as (
    select * from (
      select 'f', p.oid from asked a join pg_proc p on p.proname = a.name join pg_namespace n on n.oid = p.pronamespace
      where a.kind = 'function' and n.nspname = coalesce(a.schema, n.nspname)
        or a.kind = 'field' and p.pronargs > 0
          and (select t.typtype in ('c', 'p') from pg_type t where t.oid = p.proargtypes[0])
      union select 'f', o.oprcode from pg_operator o
      where o.oprname in (select name from asked where kind = 'operator' union all select unnest($2::text[]))
        and o.oprnamespace <> 'pg_catalog'::regnamespace
      union select 'f', c.castfunc from pg_cast c join pg_type t on t.oid = c.casttarget
      where c.castfunc <> 0 and c.oid >= 16384
        and (c.castcontext <> 'e' or t.typname in (select name from asked where kind = 'type'))
      union select 'r', c.oid from asked a join pg_class c on c.relname = a.name join pg_namespace n on n.oid = c.relnamespace
      where a.kind = 'relation' and n.nspname = coalesce(a.schema, n.nspname)
      union select 't', t.oid from asked a join pg_type t on t.typname = a.name where a.kind = 'type' and t.typtype = 'd') first
    union
    select next.class, next.id from reached r cross join lateral (
      select case f.found[1] when 'relid' then 'r' when 'resulttype' then 't' else 'f' end, f.found[2]::oid
      from (
        select w.ev_action::text from pg_rewrite w join pg_class c on c.oid = w.ev_class
        where r.class = 'r' and c.oid = r.id and c.relkind = 'v'
          and c.relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
        union all select p.polqual::text from pg_policy p where r.class = 'r' and p.polrelid = r.id
        union all select unnest(array[p.proargdefaults::text, p.prosqlbody::text]) from pg_proc p
        where r.class = 'f' and p.oid = r.id and p.oid >= 16384
        union all select k.conbin::text from pg_constraint k where r.class = 't' and k.contypid = r.id) t (tree),
        regexp_matches(t.tree, ':(funcid|opfuncid|aggfnoid|winfnoid|relid|resulttype) ([0-9]+)', 'g') f (found)
      union all select 'f', unnest(array[g.aggtransfn, g.aggfinalfn, g.aggcombinefn, g.aggmtransfn, g.aggmfinalfn]::oid[])
        from pg_aggregate g where r.class = 'f' and g.aggfnoid = r.id and r.id >= 16384
      union all select 't', t.typbasetype from pg_type t where r.class = 't' and t.oid = r.id and t.typtype = 'd') next (class, id)
    where next.id <> 0)
  select distinct p.proname::text as name
  from reached r join pg_proc p on p.oid = r.id
  where r.class = 'f' and (p.proname = any ($4) or p.provolatile = 'v'
    and not (p.pronamespace = 'pg_catalog'::regnamespace and p.proname = any ($3)))
  order by 1 limit 5`;

/** Throws UsageError if the statement is wrong, or may do more than answer. */
export async function judge(client: Pick<Client, 'query'>, sql: string): Promise<void> {
  if (sql.includes('\0'))
    throw new UsageError('the statement has a NUL character', 'Take the character out: no text in PostgreSQL has one.');
  const { acts, named } = await namesIn(sql);
  if (acts.length > 0) throw refused(`${acts[0]} may do more than answer`);
  const { rows } = await client.query<{ name: string }>(reachedSql, [JSON.stringify(named), implied, harmless, acting]);
  if (rows.length > 0)
    throw refused(`the statement calls what may do more than answer: ${rows.map(({ name }) => name).join(', ')}`);
}

const refused = (what: string) =>
  new UsageError(
    what,
    'Leave it out. Only functions that neither write, lock, notify nor run a text as SQL may be called.',
  );

/** The ending of the program's files: it runs from its sources, or compiled. */
const ending = extname(import.meta.url);

/** One thread parses all statements of the process. It does not keep the process alive. */
let reader: Worker | undefined;

function openReader(): Worker {
  const thread = new Worker(new URL(`read-names${ending}`, import.meta.url));
  thread.unref();
  // A question that waits for it fails with the same error.
  thread.on('error', () => {});
  thread.once('exit', () => {
    if (reader === thread) reader = undefined;
  });
  return thread;
}

/** The thread ends after the statements that wait for it. */
function retire(thread: Worker): void {
  if (reader === thread) reader = undefined;
  thread.postMessage({});
}

async function namesIn(sql: string): Promise<Names> {
  reader ??= openReader();
  const thread = reader;
  const { port1, port2 } = new MessageChannel();
  const over = new AbortController();
  const { signal } = over;
  try {
    thread.postMessage({ sql, port: port2 }, [port2]);
    const ended = once(thread, 'exit', { signal }).then(() => {
      throw new Error('the parser ended');
    });
    const [found] = await Promise.race([once(port1, 'message', { signal }), ended]);
    if (!('wrong' in found)) return found;
    if (found.isSpent) retire(thread);
    throw new UsageError(`the statement cannot be read: ${found.wrong}`, 'Correct it, or make it simpler.');
  } finally {
    over.abort();
    port1.close();
  }
}
