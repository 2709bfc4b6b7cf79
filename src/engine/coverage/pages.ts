/** Page sizes of each list as they were learned, and how far its ends are proven (see reading/ends.ts). */
import { byKey, type Client, type Queryable } from '../database/pool.ts';
import { raw, sql } from '../database/sql.ts';
import { sourceOfKey } from '../database/stream-key.ts';
import type { Ms, Pages } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';

type Key = Pick<Claim, 'account' | 'stream'>;

export interface KnownPages {
  /** Most records that a page shows, of this list or else of any list of the source; undefined: as many as are asked for. */
  readonly size: number | undefined;
  readonly varies: boolean;
  /** Pages of another list of the source vary. */
  readonly othersVary: boolean;
  /** Ranges synced before this time were read to the end of the list. */
  readonly provenMs: Ms | undefined;
}

export interface PagesRow {
  readonly size: number | null;
  readonly varies: boolean;
  readonly others_vary: boolean;
  readonly proven_ms: Ms | null;
}

/** SQL: a PagesRow. */
export function selectPages({ account, stream }: Key, list: string) {
  const own = sql`filter (where (stream_key, list) = (${stream}, ${list}))`;
  return sql`
    select coalesce(min(page_size) ${own}, min(page_size)) as size, coalesce(bool_or(pages_vary) ${own}, false) as varies,
      coalesce(bool_or(pages_vary), false) as others_vary,
      extract(epoch from min(ends_proven_through) ${own})::float8 * 1000 as proven_ms
    from sync.coverage where account_id = ${account} and source = ${sourceOfKey(stream)}`;
}

export const pagesIn = ({ size, varies, others_vary, proven_ms }: PagesRow): KnownPages => ({
  size: size ?? undefined,
  varies,
  othersVary: others_vary,
  provenMs: proven_ms ?? undefined,
});

export const readPages = async (db: Queryable, key: Key, list: string): Promise<KnownPages> =>
  pagesIn(await byKey(db, 'pages').row<PagesRow>`${selectPages(key, list)}`);

/** Pages of this list show fewer records than they are asked for. */
export async function noteSize(
  db: Queryable,
  { account, stream }: Key,
  list: string,
  { size, varies }: Pages,
): Promise<void> {
  await db.query(sql`
    update sync.coverage set page_size = ${size}, pages_vary = ${varies}
    where (account_id, stream_key, list) = (${account}, ${stream}, ${list}) and (page_size, pages_vary) is distinct from (${size}, ${varies})`);
}

/**
 * Pages of this list are short. The places of walks count pages of another size, and what the lists of the stream claim beyond
 * their proven ends may have ended too early: it is taken back, so that it is read again. Other streams may be reading: they
 * follow when they begin (`adoptPages`).
 */
export async function notePages(client: Client, claim: Claim, list: string, pages: Pages): Promise<void> {
  await noteSize(client, claim, list, pages);
  const key = sql`(${claim.account}, ${claim.stream})`;
  await client.query(sql`
    with walks as (delete from sync.walks where (account_id, stream_key) = ${key}),
    again as (update sync.run_lists set covered = '{}' where run_id = ${claim.run} and (account_id, stream_key) = ${key})
    update sync.coverage set covered = ${proven} where (account_id, stream_key) = ${key}`);
}

const proven = raw(`covered - tstzmultirange(tstzrange(coalesce(ends_proven_through, '-infinity'), null))`);

/** Takes back what the lists of this stream claim beyond their proven ends, once another list of the source has short pages. */
export async function adoptPages(db: Queryable, { account, stream }: Key): Promise<void> {
  await byKey(db, 'adopt pages').count`
    update sync.coverage set covered = ${proven}, page_size = known.size
    from (
      select min(page_size) as size from sync.coverage where account_id = ${account} and source = ${sourceOfKey(stream)}) known
    where (account_id, stream_key) = (${account}, ${stream}) and page_size is null and known.size is not null`;
}

/** A list was read to its end for certain. */
export async function noteProven(db: Queryable, { account, stream }: Key, list: string): Promise<void> {
  await byKey(db, 'end is proven').count`
    update sync.coverage set ends_proven_through = upper(covered)
    where (account_id, stream_key, list) = (${account}, ${stream}, ${list}) and not isempty(covered)`;
}

/** Pages of the source are as long as known: what its lists claim ended where they end. `areWhole`: they are as asked for. */
export async function noteLook(db: Queryable, { account, stream }: Key, areWhole: boolean): Promise<void> {
  await db.query(sql`
    update sync.coverage set ends_proven_through = upper(covered),
      page_size = case when pages_vary or not ${areWhole} then page_size end
    where account_id = ${account} and source = ${sourceOfKey(stream)} and not isempty(covered) and ends_proven_through is not null`);
}
