/** One account: where it is read from, and everything that the warehouse holds of it. */
import type pg from 'pg';
import { UsageError } from '../../errors.ts';
import { transaction } from '../database/pool.ts';

type Sources = Partial<Record<'helpdesk' | 'books', URL>>;

const sourcesOf = {
  helpdesk: { column: 'source', setting: 'HELPDESK_BASE_URL', name: 'help desk' },
  books: { column: 'books_source', setting: 'BOOKS_BASE_URL', name: 'catalog' },
} as const;

/**
 * Binds the account to its sources: what was read from one help desk says nothing about another, and coverage of both in
 * one would claim what nobody read. Addresses of this machine are tests, and pass for one another. Answers the name of
 * the account's job queue. A source that is not configured now stays bound as it was.
 */
export async function bindAccount(db: pg.Pool, account: string, sources: Sources): Promise<{ queue: string }> {
  await db.query(
    `insert into sync.accounts as a (account_id, source, books_source) values ($1, $2, $3)
     on conflict (account_id) do update set
       source = coalesce(nullif(a.source, ''), excluded.source),
       books_source = coalesce(nullif(a.books_source, ''), excluded.books_source)
     where (a.source = '' and excluded.source <> '') or (a.books_source = '' and excluded.books_source <> '')`,
    [account, sources.helpdesk?.href ?? '', sources.books?.href ?? ''],
  );
  return boundAccount(db, account, sources);
}

/** The same for who only looks ahead: an account that is not known yet is known then, and stays free for any source. */
export async function nameAccount(db: pg.Pool, account: string, sources: Sources): Promise<{ queue: string }> {
  await db.query('insert into sync.accounts (account_id) values ($1) on conflict do nothing', [account]);
  return boundAccount(db, account, sources);
}

async function boundAccount(db: pg.Pool, account: string, sources: Sources): Promise<{ queue: string }> {
  const { rows } = await db.query<{ source: string; books_source: string; queue: string }>(
    'select source, books_source, queue from sync.accounts where account_id = $1',
    [account],
  );
  const row = rows[0]!;
  const elsewhere = boundElsewhere(row, account, sources);
  if (elsewhere !== undefined) throw elsewhere;
  return { queue: row.queue };
}

/** What is wrong where the account was bound to another source than the settings name; '' is none. */
export function boundElsewhere(
  row: { source: string; books_source: string },
  account: string,
  sources: Sources,
): UsageError | undefined {
  for (const source of ['helpdesk', 'books'] as const) {
    const { column, setting, name } = sourcesOf[source];
    const url = sources[source];
    if (url === undefined || row[column] === '') continue;
    const bound = new URL(row[column]);
    if (bound.href === url.href || (isLoopback(bound) && isLoopback(url))) continue;
    return new UsageError(
      `this warehouse holds account '${account}' of ${bound.host}, and ${setting} names ${url.host}`,
      `Use another database. If it is the same ${name} under a new address: update sync.accounts set ${column} = '${url.href}' where account_id = '${account}'.`,
    );
  }
  return undefined;
}

const isLoopback = ({ hostname }: URL) => /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);

/** What the account was read from, and how: the sources that it is bound to, if any, and whose shelves. */
export interface ReadFrom {
  readonly helpdesk: URL | undefined;
  readonly books: URL | undefined;
  readonly owners: readonly string[];
  readonly sinceMs: number;
  readonly lookbackMs: number;
}

export async function readFrom(db: pg.Pool, account: string): Promise<ReadFrom | undefined> {
  const { rows } = await db.query<{ source: string; books_source: string; owners: string[]; since: Date; ms: number }>(
    `select a.source, a.books_source, a.since, (extract(epoch from a.lookback) * 1000)::float8 as ms, coalesce((
       select array_agg(c.list order by c.list) from sync.coverage c
       where c.account_id = a.account_id and c.stream_key = 'books.shelves'), '{}') as owners
     from sync.accounts a where a.account_id = $1`,
    [account],
  );
  const [row] = rows;
  const url = (text: string) => (text === '' ? undefined : new URL(text));
  return (
    row && {
      helpdesk: url(row.source),
      books: url(row.books_source),
      owners: row.owners,
      sinceMs: row.since.getTime(),
      lookbackMs: row.ms,
    }
  );
}

/** Removes all rows of the account, in every table that knows accounts. */
export async function forgetAccount(db: pg.Pool, account: string): Promise<void> {
  await transaction(db, async client => {
    const { rows } = await client.query<{ name: string }>(
      `select format('%I.%I', table_schema, table_name) as name
       from information_schema.columns join information_schema.tables using (table_schema, table_name)
       where table_schema in ('helpdesk', 'books', 'sync', 'analytics') and column_name = 'account_id' and table_type = 'BASE TABLE'`,
    );
    for (const { name } of rows) await client.query(`delete from ${name} where account_id = $1`, [account]);
  });
}
