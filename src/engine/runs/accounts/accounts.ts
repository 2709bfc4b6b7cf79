/** An account, and the addresses of the sources that it is bound to. */
import type pg from 'pg';
import { UsageError, unlessMoved } from '../../../errors.ts';
import type { Queryable } from '../../database/pool.ts';
import { query, sql } from '../../database/sql.ts';

/** A configured source: its address, the setting that holds the address, and its label. */
export interface Bound {
  readonly name: string;
  readonly address: URL;
  readonly setting: string;
  readonly label: string;
}

/**
 * Makes the account known. Returns the name of its job queue. Throws UsageError if it has moved to
 * another warehouse, or is bound to another address of one of these sources. A source that is not configured stays bound.
 */
export async function nameAccount(db: pg.Pool, account: string, sources: readonly Bound[]): Promise<{ queue: string }> {
  await db
    .query(sql`insert into sync.accounts (account_id) values (${account}) on conflict do nothing`)
    .catch(error => {
      throw unlessMoved(error);
    });
  const elsewhere = boundElsewhere(await addressesOf(db, account), account, sources);
  if (elsewhere !== undefined) throw elsewhere;
  return query(db).row<{ queue: string }>`
    select queue from sync.accounts where account_id = ${account}`;
}

/**
 * Binds the account to the address of a source, in the transaction of the first rows or proof from there. So an address
 * that nothing was read from binds nothing. Rows of one help desk say nothing about another, and shared coverage would
 * claim ranges that were never read. Throws UsageError if another process has bound the account elsewhere meanwhile.
 */
export async function bindSource(client: Queryable, account: string, source: Bound): Promise<void> {
  await client.query(sql`
    insert into sync.sources (account_id, source, address) values (${account}, ${source.name}, ${source.address.href}) on conflict do nothing`);
  // Of two concurrent transactions, the second waits for the first and then sees its row.
  const elsewhere = boundElsewhere(await addressesOf(client, account), account, [source]);
  if (elsewhere !== undefined) throw elsewhere;
}

/** The addresses that the account is bound to, by source. */
export async function addressesOf(db: Queryable, account: string): Promise<ReadonlyMap<string, URL>> {
  return addressesIn(
    await query(db).value<[string, string][] | null>`
      select array_agg(array[source, address]) from sync.sources where account_id = ${account}`,
  );
}

/** Of pairs of source and address. */
export const addressesIn = (pairs: readonly [string, string][] | null): ReadonlyMap<string, URL> =>
  new Map(pairs?.map(([source, address]) => [source, new URL(address)]));

/**
 * The error if the settings name another address than the account is bound to. Addresses of this machine are tests, and
 * may replace each other.
 */
export function boundElsewhere(
  addresses: ReadonlyMap<string, URL>,
  account: string,
  sources: readonly Bound[],
): UsageError | undefined {
  for (const { name, address, setting, label } of sources) {
    const bound = addresses.get(name);
    if (bound === undefined || bound.href === address.href || (isLoopback(bound) && isLoopback(address))) continue;
    return new UsageError(
      `this warehouse holds account '${account}' of ${bound.host}, and ${setting} names ${address.host}`,
      `Correct ${setting}, or use another database. If ${label} has moved to the new address: \`npx shelfdesk account move ${account} --to ${address.href}\`.`,
    );
  }
  return undefined;
}

const isLoopback = ({ hostname }: URL) => /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);

/** The sources that an account was read from, and their lists. */
export interface ReadFrom {
  readonly addresses: ReadonlyMap<string, URL>;
  /** The coverage lists of each stream, by its key. */
  readonly lists: ReadonlyMap<string, readonly string[]>;
  readonly sinceMs: number;
  readonly lookbackMs: number;
}

/** Undefined if the warehouse does not know the account. */
export async function readFrom(db: pg.Pool, account: string): Promise<ReadFrom | undefined> {
  const row = await query(db).first<{ since: Date; ms: number }>`
    select since, (extract(epoch from lookback) * 1000)::float8 as ms from sync.accounts where account_id = ${account}`;
  if (row === undefined) return undefined;
  const { rows: lists } = await db.query<{ key: string; lists: string[] }>(sql`
    select stream_key as key, array_agg(list order by list) as lists from sync.coverage where account_id = ${account} group by 1`);
  return {
    addresses: await addressesOf(db, account),
    lists: new Map(lists.map(({ key, lists }) => [key, lists])),
    sinceMs: row.since.getTime(),
    lookbackMs: row.ms,
  };
}
