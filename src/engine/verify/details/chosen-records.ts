/** Selects the stored records that a verification reads with their members. */

import type { Queryable } from '../../database/pool.ts';
import { query, raw } from '../../database/sql.ts';
import { type Detail, idsOf, rowsOfParent } from '../../details/detail-rows.ts';
import type { Ms } from '../../reading/reading.ts';
import type { Claim } from '../../runs/claims.ts';

/** As of when the oldest stored members were read, also those of records that wait for a newer reading; undefined if there are none. */
export async function oldestAsOf(db: Queryable, account: string, stream: Detail): Promise<Ms | undefined> {
  const { table, asOf } = rowsOfParent(stream);
  const found = await query(db).value<Ms | null>`
    select extract(epoch from min(${raw(asOf)}))::float8 * 1000 as ms from ${raw(table)}
    where account_id = ${account} and _deleted_at is null`;
  return found ?? undefined;
}

/**
 * The next ids after `after`. Excludes records first stored during the run, unless the run has reported a
 * difference.
 */
export const recordsAfter = (
  db: Queryable,
  { account, run }: Pick<Claim, 'account' | 'run'>,
  { of: { key } }: Pick<Detail, 'of'>,
  after: string,
  limit: number,
): Promise<string[]> =>
  query(db).values`
    select t.id from ${raw(key)} t
    where t.account_id = ${account} and t._deleted_at is null and t.id > ${after}
      and (t._first_seen_at < (select r.started_at from sync.stored_runs r where r.id = ${run}) or exists (
        select from sync.audit a
        where (a.account_id, a.run_id, a.stream_key) = (${account}, ${run}, ${key}) and a.record_id = t.id))
    order by t.id limit ${limit}`;

/** Chooses a record for each name in use. Returns what to embed, by the id of the record. */
export async function recordsForAllNames(
  db: Queryable,
  account: string,
  { of, names }: Pick<Detail, 'of' | 'names'>,
): Promise<Map<string, string[]>> {
  if (names.length === 0) return new Map();
  const each = names.map(
    name => `select min(t.id) as id, '${name.embed}' as embed
       from ${of.key} t, unnest(${idsOf(name)}) n (id)
       where t.account_id = $1 and t._deleted_at is null and n.id is not null group by n.id`,
  );
  const { rows } = await db.query<{ id: string; embeds: string[] }>(
    `select id, array_agg(distinct embed) as embeds from (${each.join(' union all ')}) named group by id`,
    [account],
  );
  return new Map(rows.map(({ id, embeds }) => [id, embeds]));
}
