/**
 * Removes an account from the warehouse. Its rows are found by the catalog: all tables of ours with an account_id, and all
 * lists of accounts. Each batch is a transaction, and the row of sync.accounts goes last. So a removal that dies is
 * repeated by the same command.
 */
import type pg from 'pg';
import { UsageError } from '../../../errors.ts';
import { moveLock } from '../../database/move/fence.ts';
import { type Client, type Queryable, transaction } from '../../database/pool.ts';
import { query, raw, sql } from '../../database/sql.ts';
import { withAccount } from '../runs.ts';

/** Rows in one transaction. */
const batch = 5000;

/** The schemas that the migrations and the sources own. */
const ours = `n.nspname in ('sync', 'analytics', 'internal') or n.nspname in (select s.name from sync.source_schemas s)`;

/** Tables with an account_id. Tables of streams come first, because their triggers write rows into other tables. */
const accountTables = (db: Queryable): Promise<string[]> =>
  query(db).values<string>`
    select format('%I.%I', n.nspname, c.relname) as name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute a on a.attrelid = c.oid and a.attname = 'account_id' and not a.attisdropped
    left join sync.streams k on k.stream_key = n.nspname || '.' || c.relname
    where (${raw(ours)}) and c.relkind in ('r', 'p') and not c.relispartition and c.oid <> 'sync.moves'::regclass
    order by n.nspname || '.' || c.relname = 'sync.accounts', k.place nulls last, n.nspname = 'sync', 1`;

export interface Held {
  readonly table: string;
  readonly rows: number;
}

/** Where the account moved, if this warehouse is not to read it any more. */
export const movedTo = (db: Queryable, account: string): Promise<string | undefined> =>
  query(db).value<string>`
    select place from sync.moves where account_id = ${account} and state = 'moved'`;

/** Whence the account was to come, if that move was given up before its first row, or has just begun. */
export const comingFrom = (db: Queryable, account: string): Promise<string | undefined> =>
  query(db).value<string>`
    select place from sync.moves where account_id = ${account} and state = 'arriving'`;

/** The tables that hold rows of the account. */
export async function rowsOf(db: Queryable, account: string): Promise<Held[]> {
  const held: Held[] = [];
  for (const table of await accountTables(db)) {
    const { rows } = await db.query<{ n: number }>(sql`
      select count(*) as n from ${raw(table)} where account_id = ${account}`);
    if (rows[0]!.n > 0) held.push({ table, rows: rows[0]!.n });
  }
  return held;
}

/** Ends all runs of the account, and pauses it. Throws UsageError while a process serves it. */
export async function beginRemoval(db: pg.Pool, { account, who }: { account: string; who: string }, now: Date) {
  await withAccount(db, account, async client => {
    await requireUnserved(client, account, 'removed');
    await client.query(removing);
    await requireAtRest(client, account);
    await client.query(sql`
      insert into sync.paused (account_id, source, stream, paused_at, paused_by, reason)
      values (${account}, '', '', ${now}, ${who}, 'the account is being removed') on conflict do nothing`);
    // Without its run, a process that still holds a claim cannot commit.
    await client.query(sql`delete from sync.stored_runs where account_id = ${account}`);
  });
}

/** An account that has moved is read-only for everybody else. Metrics are not kept for rows that are removed. */
const removing = 'set local shelfdesk.copying = on';

/** Throws UsageError while the account moves. */
async function requireAtRest(client: Client, account: string): Promise<void> {
  const move = await query(client).first<{ state: string; place: string; free: boolean }>`
    select state, place, pg_try_advisory_xact_lock(${raw(moveLock)}, hashtext(account_id)) as free from sync.moves where account_id = ${account}`;
  if (move?.state === 'leaving')
    throw new UsageError(
      `account '${account}' is moving to ${move.place}`,
      `Let it arrive, or run \`npx shelfdesk account move ${account} --give-up\` first.`,
    );
  if (move?.state === 'arriving' && !move.free)
    throw new UsageError(`account '${account}' is just coming from ${move.place}`, 'Stop that move first.');
}

export async function requireUnserved(client: Queryable, account: string, what: 'removed' | 'moved'): Promise<void> {
  const serving = await query(client).first<{ host: string; pid: number }>`
    select host, pid from sync.live_workers where account_id = ${account} order by id limit 1`;
  if (serving === undefined) return;
  throw new UsageError(
    `account '${account}' is not ${what}: process ${serving.pid} on ${serving.host} serves it`,
    'Stop that process, or take the account out of its settings, and run the same command again.',
  );
}

/** Removes the rows in batches, except what keeps other processes away. `told` gets each table with its removed rows. */
export async function clearAccount(
  db: pg.Pool,
  account: string,
  { signal, told }: { signal: AbortSignal; told: (one: Held) => void },
): Promise<void> {
  const last = ['sync.accounts', 'sync.paused', 'sync.workers'];
  for (const table of await accountTables(db)) {
    if (last.includes(table)) continue;
    let rows = 0;
    for (let removed = batch; removed === batch; rows += removed) {
      signal.throwIfAborted();
      removed = await transaction(db, client => removeFrom(client, table, account), `begin; ${removing}`);
    }
    if (rows > 0) told({ table, rows });
  }
}

const removeFrom = (client: Client, table: string, account: string, limit = String(batch)): Promise<number> =>
  query(client).count`
    delete from ${raw(table)} where ctid = any (array(select ctid from ${raw(table)} where account_id = ${account} limit ${raw(limit)}))`;

/**
 * Removes what is left, with the account itself, in one transaction. If the lake is on, its next export takes the account
 * out of all files. `keepsMark`: nobody reads it anew here, because it moved.
 */
export async function endRemoval(db: pg.Pool, account: string, keepsMark: boolean): Promise<void> {
  await withAccount(db, account, async client => {
    await requireUnserved(client, account, 'removed');
    await client.query(removing);
    await requireAtRest(client, account);
    await forget(client, account);
    if (!keepsMark) await client.query(sql`delete from sync.moves where account_id = ${account}`);
    for (const table of await listsOfAccounts(client))
      await client.query(sql`
        update ${raw(table)} set accounts = array_remove(accounts, ${account}) where ${account} = any (accounts)`);
    // `rules` makes the newest snapshot the only one.
    await client.query(sql`
      insert into sync.lake_pending (unit, account_id, id, erased)
      select u.unit, ${account}, '', u.unit = 'rules' from unnest(array['account', 'rules']) u (unit)
      where exists (select from sync.lake)`);
  });
}

/** A reader of no account is left with an empty list, which lets it see nothing. */
const listsOfAccounts = (db: Queryable): Promise<string[]> =>
  query(db).values<string>`
    select format('%I.%I', n.nspname, c.relname) as name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute a on a.attrelid = c.oid and a.attname = 'accounts' and a.atttypid = 'text[]'::regtype
    where (${raw(ours)}) and c.relkind in ('r', 'p')`;

/** Removes all rows of the account in one transaction. */
export const forgetAccount = (db: pg.Pool, account: string): Promise<void> =>
  transaction(db, client => forget(client, account));

/** Triggers may write into a table that was cleared before: at most once, because what they write has no triggers. */
async function forget(client: Client, account: string): Promise<void> {
  const tables = await accountTables(client);
  for (let round = 1; round <= 3; round++) {
    let removed = 0;
    for (const table of tables) removed += await removeFrom(client, table, account, 'all');
    if (removed === 0) return;
  }
}
