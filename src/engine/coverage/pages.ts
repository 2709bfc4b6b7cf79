/** What is known of the pages of each list, and how far its ends are proven (see reading/ends.ts). */
import type pg from 'pg';
import type { Client } from '../database/pool.ts';
import { sourceOfKey } from '../database/stream-key.ts';
import type { Ms, Pages } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';

type Queryable = Pick<pg.ClientBase, 'query'>;
type Key = Pick<Claim, 'account' | 'stream'>;

export interface KnownPages {
  /** Most records that a page shows; undefined: as many as are asked for. */
  readonly size: number | undefined;
  readonly varies: boolean;
  /** What was covered before this time was read to the end of its list. */
  readonly provenMs: Ms | undefined;
}

export async function readPages(db: Queryable, { account, stream }: Key, list: string): Promise<KnownPages> {
  const { rows } = await db.query<{ size: number | null; varies: boolean; proven_ms: Ms | null }>(
    `select page_size as size, pages_vary as varies, extract(epoch from ends_proven_through)::float8 * 1000 as proven_ms
     from sync.coverage where (account_id, stream_key, list) = ($1, $2, $3)`,
    [account, stream, list],
  );
  const [row] = rows;
  return { size: row?.size ?? undefined, varies: row?.varies ?? false, provenMs: row?.proven_ms ?? undefined };
}

/** Pages of this list show fewer records than they are asked for. */
export async function noteSize(
  db: Queryable,
  { account, stream }: Key,
  list: string,
  { size, varies }: Pages,
): Promise<void> {
  await db.query(
    `update sync.coverage set page_size = $4, pages_vary = $5
     where (account_id, stream_key, list) = ($1, $2, $3) and (page_size, pages_vary) is distinct from ($4, $5)`,
    [account, stream, list, size, varies],
  );
}

/**
 * Pages of this list are short. The places of walks count pages of another size. What any list of the source claims beyond its proven ends may have ended too early: it is
 * taken back, so that it is read again.
 */
export async function notePages(client: Client, claim: Claim, list: string, pages: Pages): Promise<void> {
  await noteSize(client, claim, list, pages);
  await client.query(
    `with walks as (delete from sync.walks where (account_id, stream_key) = ($1, $2))
     update sync.run_lists set covered = '{}' where run_id = $3 and (account_id, stream_key) = ($1, $2)`,
    [claim.account, claim.stream, claim.run],
  );
  await client.query(
    `update sync.coverage set covered = covered - tstzmultirange(tstzrange(coalesce(ends_proven_through, '-infinity'), null))
     where account_id = $1 and source = $2`,
    [claim.account, sourceOfKey(claim.stream)],
  );
}

/** The ends of what these lists cover are proven: of one list, or of all lists of the source. */
export async function noteProven(db: Queryable, { account, stream }: Key, list?: string): Promise<void> {
  await db.query(
    `update sync.coverage set ends_proven_through = upper(covered)
     where account_id = $1 and source = $2 and not isempty(covered)
       and ($4::text is null or (stream_key, list) = ($3, $4))`,
    [account, sourceOfKey(stream), stream, list ?? null],
  );
}
