/** Rows that field rules rewrite, in small transactions, so that workers continue. */
import type pg from 'pg';
import { type Client, transaction } from '../../engine/database/pool.ts';

/** Rows of a transaction. */
const mostRows = 500;
/** Bytes of a transaction, as PostgreSQL stores them: it compresses long values. */
const mostBytes = 4 * 2 ** 20;

/** The values of a key, as text. */
export type Place = readonly string[];

export interface Batch {
  readonly seen: number;
  readonly changed: number;
  /** The last row of the batch; undefined at the end. */
  readonly last: Place | undefined;
}

export interface Rewriting {
  readonly db: pg.Pool;
  readonly account: string;
  readonly signal: AbortSignal;
}

/** Runs a transaction whose updates are not recorded as changes of the source by triggers. */
export const rewriting = <T>(db: pg.Pool, work: (client: Client) => Promise<T>): Promise<T> =>
  transaction(db, async client => {
    await client.query(`select set_config('shelfdesk.rewriting', 'on', true), set_config('shelfdesk.merge', '', true)`);
    return work(client);
  });

/** Runs `step` until the end of a table, each time in a transaction of its own. Returns the number of changed rows. */
export async function stepThrough(
  { db, signal }: Rewriting,
  step: (client: Client, after: Place) => Promise<Batch>,
  told: (seen: number, changed: number) => void = () => {},
): Promise<number> {
  let [seen, changed] = [0, 0];
  for (let after: Place | undefined = []; after !== undefined; ) {
    signal.throwIfAborted();
    const from: Place = after;
    const batch = await rewriting(db, client => step(client, from));
    seen += batch.seen;
    changed += batch.changed;
    after = batch.last;
    told(seen, changed);
  }
  return changed;
}

interface Asked {
  /** The table. Its name in the conditions is `t`. */
  readonly rows: string;
  readonly key: readonly string[];
  /** SQL of the bytes of a row. */
  readonly size: string;
  /** SQL of a further condition. `$2` and so on are its values. */
  readonly where?: string;
  readonly values?: readonly unknown[];
}

/** The rows of one batch: an SQL condition with its values, from `$1` on. */
export interface Range {
  readonly where: string;
  readonly values: readonly unknown[];
  readonly last: Place | undefined;
}

/** The next rows of an account behind a place, in the order of the key. Undefined: no row follows. */
export async function nextRange(
  client: Client,
  account: string,
  { rows: table, key, size, where = 'true', values = [] }: Asked,
  after: Place,
): Promise<Range | undefined> {
  const keys = key.map(name => `t.${name}`).join(', ');
  const given: unknown[] = [account, ...values];
  const bound = (sign: string, place: Place) => {
    if (place.length === 0) return '';
    given.push(...place);
    return ` and (${keys}) ${sign} (${place.map((_, i) => `$${given.length - place.length + 1 + i}`).join(', ')})`;
  };
  const scope = `t.account_id = $1 and ${where}${bound('>', after)}`;
  const { rows } = await client.query<{ place: string[]; bytes: number }>(
    `select array[${key.map(name => `t.${name}::text`).join(', ')}] as place, coalesce(${size}, 0)::float8 as bytes
     from ${table} t where ${scope} order by ${keys} limit ${mostRows}`,
    given,
  );
  if (rows.length === 0) return undefined;
  const count = fitting(rows.map(({ bytes }) => bytes));
  const { place } = rows[count - 1]!;
  const isEnd = count === rows.length && rows.length < mostRows;
  return { where: scope + bound('<=', place), values: given, last: isEnd ? undefined : place };
}

/** The number of rows from the first one on that fit into a transaction: at least one. */
// @internal Tests fit rows that are too large to store.
export function fitting(sizes: readonly number[]): number {
  let bytes = 0;
  const first = sizes.findIndex(size => {
    bytes += size;
    return bytes > mostBytes;
  });
  return first === -1 ? sizes.length : Math.max(1, first);
}
