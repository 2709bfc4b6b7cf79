/**
 * Says what a statement of this process waits for, and who holds it: a lock of somebody else would look like a program that hangs. After
 * an interruption such statements are canceled, so that the process ends. PostgreSQL is asked over another connection, and only about
 * statements that take long. No query text is shown: it may hold personal data.
 */
import type pg from 'pg';
import { connectSession, sessionTo, watched } from './session/session.ts';
import { sql } from './sql.ts';

const lookMs = 1000;
/** Interval of the looks after an interruption. */
const hurryMs = 250;
/** A statement that runs for this many looks is examined, and again each time the number has doubled. */
const patience = 3;
/** The same wait is told again after this many looks. */
const quiet = 300;
/** A process that still runs this long after the first canceled statement is ended. */
const endMs = 4000;

/** The lock of migrate.ts, 'SHMI'. */
export const migrationLock = 0x53_48_4d_49;

interface Wait {
  readonly pid: number;
  readonly kind: string;
  /** Name of the table; null if it is unknown, or of another database. */
  readonly relation: string | null;
  readonly key: number | null;
  /** 0: a prepared transaction. Null: unknown. */
  readonly holder: number | null;
  readonly role: string | null;
  readonly program: string | null;
  readonly backend: string | null;
  readonly since: Date | null;
}

/** Statements of these sessions that wait for a lock. Its holder is the one at the end of the line, who waits for nobody. */
const waitsSql = `
with recursive line as (
  select w.pid as waiter, b.pid as blocker from unnest($1::int[]) w (pid), unnest(pg_blocking_pids(w.pid)) b (pid)
  union
  select l.waiter, b.pid from line l, unnest(pg_blocking_pids(l.blocker)) b (pid))
select l.pid, l.locktype as kind,
  (select c.relation::regclass::text from pg_locks c
   where c.pid = l.pid and c.locktype in ('relation', 'tuple') and (c.locktype = 'tuple' or not c.granted)
     and c.database = (select d.oid from pg_database d where d.datname = current_database()) limit 1) as relation,
  case when l.locktype = 'advisory' and l.classid = 0 and l.objsubid = 1 then l.objid::bigint end as key,
  h.blocker as holder, h.usename::text as role, nullif(h.application_name, '') as program, h.backend_type as backend,
  coalesce(h.xact_start, h.backend_start) as since
from pg_locks l left join lateral (
  select n.blocker, a.* from line n left join pg_stat_activity a on a.pid = n.blocker
  where n.waiter = l.pid
  order by exists (select from pg_locks o where o.pid = n.blocker and not o.granted), a.xact_start limit 1) h on true
where l.pid = any ($1) and not l.granted`;

/** `Waits for a lock on helpdesk.tickets, which process 4711 (role ana, psql, since 2026-11-29 12:03 UTC) holds.` */
// @internal Tests word waits that are hard to bring about.
export function sentenceOf({ kind, relation, key, holder, role, program, backend, since }: Omit<Wait, 'pid'>): string {
  const what =
    key === migrationLock
      ? 'the lock of migrations'
      : kind === 'relation'
        ? `a lock on ${relation ?? 'a table'}`
        : kind === 'advisory'
          ? 'an advisory lock'
          : `a row${relation === null ? '' : ` of ${relation}`}`;
  if (holder === null) return `Waits for ${what}.`;
  if (holder === 0) return `Waits for ${what}, which a prepared transaction holds (see pg_prepared_xacts).`;
  const who = [
    ...(role === null ? [] : [`role ${role}`]),
    program ?? (backend === 'client backend' ? null : backend) ?? [],
    ...(since === null ? [] : [`since ${since.toISOString().slice(0, 16).replace('T', ' ')} UTC`]),
  ].flat();
  const end = key === migrationLock ? '' : ` \`select pg_terminate_backend(${holder})\` ends that session.`;
  return `Waits for ${what}, which process ${holder}${who.length > 0 ? ` (${who.join(', ')})` : ''} holds.${end}`;
}

/**
 * Looks every second until the process ends. `say` gets a sentence for each wait. `end` is called if the process still runs 4 s after
 * the first statement was canceled.
 */
export function tellWaits(signal: AbortSignal, say: (sentence: string) => void, end: () => void): void {
  const busy = new Map<pg.ClientBase, { statement: object; looks: number }>();
  const told = new Map<string, number>();
  let looks = 0;
  let isAsking = false;
  let isEnding = false;

  const look = async () => {
    if (isAsking) return;
    isAsking = true;
    looks += 1;
    try {
      for (const [url, pids] of longOnes(busy, signal.aborted)) await ask(url, pids);
    } finally {
      isAsking = false;
    }
  };

  const ask = async (url: string, pids: readonly number[]) => {
    // A server that takes no more connections cannot be asked. The process ends all the same.
    const waits = await askAbout(url, pids, signal.aborted).catch(() => undefined);
    if (signal.aborted && waits?.length !== 0 && !isEnding) {
      isEnding = true;
      setTimeout(end, endMs).unref();
    }
    for (const wait of signal.aborted ? [] : (waits ?? [])) {
      const sentence = sentenceOf(wait);
      const last = told.get(sentence);
      if (last !== undefined && looks - last < quiet) continue;
      told.set(sentence, looks);
      say(sentence);
    }
  };

  let timer = setInterval(() => void look(), lookMs).unref();
  const hurry = () => {
    clearInterval(timer);
    timer = setInterval(() => void look(), hurryMs).unref();
  };
  if (signal.aborted) hurry();
  else signal.addEventListener('abort', hurry, { once: true });
}

/**
 * Process ids of sessions whose statement takes long, by URL. Only a private field of node-postgres shows the running
 * statement.
 */
function longOnes(
  busy: Map<pg.ClientBase, { statement: object; looks: number }>,
  isHurried: boolean,
): Map<string, number[]> {
  const found = new Map<string, number[]>();
  for (const client of busy.keys()) if (!watched.has(client)) busy.delete(client);
  for (const [client, url] of watched) {
    const { _activeQuery: statement, processID: pid } = client as { _activeQuery?: object | null; processID?: number };
    const before = busy.get(client);
    if (!statement || !pid) {
      busy.delete(client);
      continue;
    }
    const count = before?.statement === statement ? before.looks + 1 : 0;
    busy.set(client, { statement, looks: count });
    const isDue = isHurried ? count >= 2 : count >= patience && Number.isInteger(Math.log2(count / patience));
    if (isDue) found.set(url, [...(found.get(url) ?? []), pid]);
  }
  return found;
}

async function askAbout(url: string, pids: readonly number[], cancels: boolean): Promise<Wait[]> {
  const client = sessionTo(url, {
    application_name: 'shelfdesk: waits',
    connectionTimeoutMillis: endMs,
    query_timeout: endMs,
  });
  try {
    await connectSession(client, url, {});
    const { rows } = await client.query<Wait>(waitsSql, [pids]);
    if (cancels && rows.length > 0)
      await client.query(sql`select pg_cancel_backend(one) from unnest(${rows.map(({ pid }) => pid)}::int[]) one`);
    return rows;
  } finally {
    client.end().catch(() => {});
  }
}
