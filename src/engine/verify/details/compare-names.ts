/** Reads and repairs the stored names that a verification compares. */

import type { Name } from '../../../sources/source.ts';
import { isAhead } from '../../commit/merge.ts';
import type { Queryable } from '../../database/pool.ts';
import { raw, sql } from '../../database/sql.ts';
import { type Detail, idsOf } from '../../details/detail-rows.ts';
import type { Ms } from '../../reading/reading.ts';

/** A name as a reply shows it. `record`: its JSON text. */
export interface Shown {
  readonly id: string;
  readonly name: string | null | undefined;
  readonly record: string;
}

/**
 * Names whose stored rows differ from those that a record embedded. Excludes names that were never
 * read. Shelfdesk writes no tombstones for names, so a tombstone is a manual edit and counts as a difference.
 */
export async function differingNames(
  client: Queryable,
  account: string,
  { name: { table, ids, many }, of }: { readonly name: Name; readonly of: Pick<Detail, 'key'> },
  shown: readonly Shown[],
  nowMs: Ms,
): Promise<{ id: string; differences: Record<string, [ours: unknown, theirs: unknown]> }[]> {
  const isUsed = many ? `u._deleted_at is null and s.id = any (u.${ids})` : `s.id = u.${ids}`;
  const { rows } = await client.query<{ id: string; differences: Record<string, [ours: unknown, theirs: unknown]> }>(
    `select s.id, jsonb_object_agg(d.field, jsonb_build_array(d.ours, d.theirs)) as differences
     from unnest($2::text[], $3::text[], $4::text[]) s (id, name, record)
     left join ${table} t on (t.account_id, t.id) = ($1, s.id)
     cross join lateral (values
       ('name', to_jsonb(t.name), to_jsonb(s.name), t.name is distinct from s.name or t.id is null),
       ('row', '"deleted"', '"there"', t._deleted_at is not null),
       ('_payload', t._payload, s.record::jsonb, t.id is not null and t._payload is distinct from s.record::jsonb),
       ('_synced_at', to_jsonb(t._synced_at), 'null', ${isAhead('t._synced_at', '$5')})) d (field, ours, theirs, differs)
     where d.differs and case when t.id is null then exists (
         select from ${of.key} u where u.account_id = $1 and ${isUsed})
       else t._observed_at is not null or t._deleted_at is not null end
     group by s.id order by s.id`,
    [
      account,
      shown.map(({ id }) => id),
      shown.map(({ name }) => name ?? null),
      shown.map(({ record }) => record),
      new Date(nowMs),
    ],
  );
  return rows;
}

/** SQL over `n`, a name: a record has it, or had it. Only a manual edit can have created any other. */
export function isNamed({ of, former }: Pick<Detail, 'of' | 'former'>, name: Name): string {
  const used = [of.key, former].filter(table => table !== undefined);
  const ids = used.map(table => `select unnest(${idsOf(name)}) as id from ${table} t where t.account_id = $1`);
  return `n.id in (select id from (${ids.join(' union ')}) u where id is not null)`;
}

/** Resets these names to never read. */
export async function forgetNames(
  client: Queryable,
  account: string,
  { table }: Name,
  ids: readonly string[],
): Promise<void> {
  await client.query(sql`
    update ${raw(table)} set _observed_at = null, name = null, _payload = null, _deleted_at = null
    where account_id = ${account} and id = any(${ids})`);
}
