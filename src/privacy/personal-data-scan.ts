/**
 * Finds and empties traces of erased people outside the mirrored tables: old values, comparisons, rejects, drift
 * samples. An index finds traces by id. For contact values it scans all rows of the account, and only if there are any
 * values.
 */

import { ofErased } from '../engine/commit/rejects.ts';
import type { Queryable } from '../engine/database/pool.ts';
import { query, sql } from '../engine/database/sql.ts';
import { carries, digitsOf, patternsOf } from './contact-normalisation.ts';
import { concerning } from './look-up.ts';
import type { Remains, TheirRejects } from './redact.ts';

/** Names in old values and comparisons, of any source, that hold no personal data. */
export const besides = ['_deleted_at', '_deleted_after', '_removed_at', 'row', 'position'];

/** Rejects per batch. */
const batchSize = 200;

const valuesOf = (field: string) =>
  `jsonb_array_elements_text(case when jsonb_typeof(c.changes -> ${field}) = 'array' then c.changes -> ${field} end)`;

/** Ids of the rows of sync.changes that hold one of the contact values. `fields`: the fields that may hold addresses. */
export async function changesNaming(
  client: Queryable,
  account: string,
  forms: readonly string[],
  fields: readonly string[],
): Promise<string[]> {
  if (forms.length === 0) return [];
  const { rows } = await client.query<{ id: string }>(
    `select c.id::text from sync.changes c
     where c.account_id = $1 and (cardinality($3::text[]) > 0 and strpos(c.changes::text, '@') > 0 and lower(c.changes::text) like any ($3)
       or c.changes ?| $4::text[] and exists (
         select from unnest($4::text[]) f (name), ${valuesOf('f.name')} v (value) where ${carries('v.value', forms)}))`,
    [account, forms, patternsOf(forms), fields],
  );
  return rows.map(({ id }) => id);
}

/** Without `forms` it checks only rejects with one of the ids. Returns the number of emptied rows per kind. */
export async function emptyTraces(
  client: Queryable,
  account: string,
  { changes, keptInChanges, audits, rejects }: Remains,
  forms: readonly string[],
): Promise<Record<'changes' | 'comparisons' | 'rejects', number>> {
  let emptied = 0;
  for (const one of rejects) emptied += await emptyRejects(client, account, one, forms);
  return {
    changes: await emptyChanges(client, [...new Set(changes)], keptInChanges),
    comparisons: await emptyAudit(client, account, audits),
    rejects: emptied,
  };
}

/** Empties these rows of sync.changes, except for fields that also stay in their tables. Returns the number of rows. */
const emptyChanges = (
  client: Queryable,
  ids: readonly string[],
  { tables, others }: Remains['keptInChanges'],
): Promise<number> =>
  query(client).count`
    with emptied as (
      select c.id, sync.kept_of(c.changes,
        array(select jsonb_array_elements_text(coalesce(${JSON.stringify(tables)}::jsonb -> (c.source || '.' || c.table_name),
        ${JSON.stringify(others)})))) as left
      from sync.changes c where c.id = any (${ids}::bigint[]))
    update sync.changes c set changes = e.left from emptied e where c.id = e.id and c.changes <> e.left`;

/**
 * Removes values from comparisons. The fact that a record differed stays, because it is counted. Returns the number of
 * changed comparisons.
 */
async function emptyAudit(
  client: Queryable,
  account: string,
  { records, members, kept, forms }: Remains['audits'],
): Promise<number> {
  const all = records.flatMap(({ stream, ids }) => ids.map(id => ({ stream, id })));
  const { rowCount } = await client.query(
    `with theirs (id) as (
       select a.id from unnest($5::text[], $6::text[]) w (stream_key, record_id) join sync.audit a using (stream_key, record_id)
         where a.account_id = $1
       union select id from sync.audit a where cardinality($2::text[]) > 0 and a.account_id = $1 and a.differences <> '{}' and (
         exists (select from jsonb_path_query(a.differences, '$.*[*]') v (value)
           where jsonb_typeof(v.value) = 'object' and v.value ?| $4::text[])
         or lower(a.differences::text) like any ($3::text[])
         or exists (select from jsonb_path_query(a.differences, 'strict $.** ? (@.type() == "string")') v (value),
           lateral (select v.value #>> '{}' as text) t where ${carries('t.text', forms)}))),
     emptied as (
       select a.id, (
         select jsonb_object_agg(d.key, case when d.key = any ($7) then d.value else '["erased", "erased"]' end)
         from jsonb_each(a.differences) d) as left
       from sync.audit a join theirs t on t.id = a.id where a.account_id = $1 and a.differences <> '{}')
     update sync.audit a set differences = e.left from emptied e
     where (a.account_id, a.id) = ($1, e.id) and a.differences <> e.left`,
    [
      ...[account, forms, patternsOf(forms), members],
      ...[all.map(({ stream }) => stream), all.map(({ id }) => id), kept],
    ],
  );
  return rowCount ?? 0;
}

/** Returns the number of emptied rejects. */
async function emptyRejects(
  client: Queryable,
  account: string,
  { rules, ids, holding, own, ownOf = [] }: TheirRejects,
  forms: readonly string[],
): Promise<number> {
  let emptied = 0;
  for (let after = 0; ; ) {
    const { rows } = await client.query<{
      id: number;
      record_id: string | null;
      ask_id: string | null;
      payload: string | null;
      named: boolean;
    }>(sql`
      select id, record_id, ask_id, payload, lower(t.text) like any (${patternsOf(forms)})
        or translate(t.text, ' ()+-./', '') like any (${digitsOf(forms)})
        or exists (select from unnest(${own}::text[], ${ownOf}::text[]) o (id, of) where o.id = record_id and (o.of is null
          or o.of = ask_id)) as named
      -- Only the taken ones are looked at closely.
      from (
        select id, record_id, ask_id, payload, reason from sync.rejects
        where account_id = ${account} and stream_key = ${rules.stream} and id > ${after} and (payload is not null or reason <> ${ofErased})
          and (cardinality(${forms}::text[]) > 0 or record_id = any (${ids}) or ask_id = any (${ids}) or payload like any (${holding}))
        order by id limit ${batchSize}) r, lateral (select concat(payload, ' ', reason) as text) t
      order by id`);
    if (rows.length === 0) return emptied;
    const all = rows.map(({ payload, record_id, ask_id }) => ({
      ...{ text: payload ?? undefined, recordId: record_id ?? undefined, askId: ask_id ?? undefined },
    }));
    const known = await concerning(client, account, rules, all);
    const gone = rows.filter(({ named }, i) => named || known.has(i)).map(({ id }) => id);
    await client.query(sql`
      update sync.rejects set payload = null, replayable = false, reason = ${ofErased}, path = null where id = any (${gone})`);
    emptied += gone.length;
    after = rows.at(-1)!.id;
  }
}

/**
 * Empties all drift samples, because a sample is cut and cannot be assigned to a person. The next drifting record gives
 * a new sample.
 */
export async function emptyDrift(
  client: Queryable,
  account: string,
  streams: readonly string[],
  forms: readonly string[],
): Promise<number> {
  const { rowCount } = await client.query(sql`
    update sync.drift set sample = null where account_id = ${account} and stream_key = any (${streams}) and sample is not null`);
  if (forms.length === 0) return rowCount ?? 0;
  const named = await client.query(
    `delete from sync.drift where account_id = $1 and stream_key = any ($4) and (${carries('value', forms)} or ${carries('path', forms)})`,
    [account, forms, patternsOf(forms), streams],
  );
  return (rowCount ?? 0) + (named.rowCount ?? 0);
}

/** The log of requests proves nothing, and may be lost. */
export async function forgetRequests(client: Queryable, account: string): Promise<void> {
  await client.query(sql`delete from sync.request_logs where account_id = ${account}`);
}
