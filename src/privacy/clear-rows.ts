/** Erases people from a stream with a declaration (declared.ts): from its rows. */
import type { Queryable } from '../engine/database/pool.ts';
import { raw, sql } from '../engine/database/sql.ts';
import { sourceAndStream } from '../engine/database/stream-key.ts';
import { cleanText } from '../engine/json-text.ts';
import { carries, patternsOf } from './contact-normalisation.ts';
import type { Declaration } from './declared.ts';
import { besides } from './personal-data-scan.ts';
import type { PersonalRules, Remains } from './redact.ts';

/** A row, and the record that it is part of, if its id is unique within that only. */
interface Place {
  readonly id: string;
  readonly of: string | undefined;
}

/** Clears the rows that hold one of the contact values, or are given. */
export async function clearRows(
  client: Queryable,
  account: string,
  { declared, rules }: { readonly declared: Declaration; readonly rules: PersonalRules },
  which: { readonly forms: readonly string[] } | { readonly rows: readonly Place[] },
  now: Date,
): Promise<Remains> {
  // An earlier merge of the transaction enabled sync.changes. There these updates would keep the old values.
  await client.query(`select set_config('shelfdesk.merge', '', true)`);
  const their = 'forms' in which ? await placesOf(client, account, declared, which.forms) : which.rows;
  const ids = their.map(({ id }) => cleanText(id).text);
  const of = declared.parent && their.map(one => cleanText(one.of!).text);
  const rows: Record<string, number> = { [declared.table]: await clear(client, account, declared, { ids, of }, now) };
  const changes = [await changesOf(client, account, declared.table, { ids, of })];
  for (const { table, parent } of declared.sets) {
    const gone = await client.query<{ id: string }>(sql`
      delete from ${raw(table)} where account_id = ${account} and ${raw(parent)} = any (${ids}) returning id`);
    rows[table] = gone.rows.length;
    const members = gone.rows.map(({ id }) => id);
    changes.push(await changesOf(client, account, table, { ids: members }, { parent, ids }));
  }
  const kept = [...declared.columns, ...declared.kept, ...besides];
  return {
    rows,
    changes: changes.flat(),
    keptInChanges: { tables: { [declared.table]: kept }, others: ['id', ...besides] },
    // Details are compared with all others of their record.
    audits: { records: [{ stream: declared.stream, ids: of ?? ids }], members: [], kept, forms: [] },
    rejects: [{ rules, ids, holding: [], own: ids, ownOf: of }],
  };
}

interface Ids {
  readonly ids: readonly string[];
  /** The records that they are parts of. */
  readonly of?: readonly string[] | undefined;
}

/** Skips rows that are clear already. */
async function clear(
  client: Queryable,
  account: string,
  { table, parent, cleared, kept }: Declaration,
  { ids, of }: Ids,
  now: Date,
): Promise<number> {
  if (ids.length === 0) return 0;
  const sets = cleared.map(column => `${column} = null, `).join('');
  const filled = cleared.map(column => ` or t.${column} is not null`).join('');
  const theirs = parent
    ? `(t.${parent.column}, t.id) in (select * from unnest($5::text[], $2::text[]))`
    : 't.id = any ($2)';
  const { rowCount } = await client.query(
    `update ${table} t set ${sets}_payload = sync.kept_of(t._payload, $3), _synced_at = $4
     where t.account_id = $1 and ${theirs} and (t._payload <> sync.kept_of(t._payload, $3)${filled})`,
    [account, ids, kept, now, ...(of ? [of] : [])],
  );
  return rowCount ?? 0;
}

async function placesOf(
  client: Queryable,
  account: string,
  { table, parent, contacts }: Declaration,
  forms: readonly string[],
): Promise<Place[]> {
  // Fields and columns may be arrays and objects. A column may hold values that `_payload` lacks.
  const values = [
    ...contacts.columns.map(column => `to_jsonb(t.${column})`),
    ...contacts.fields.map(field => `t._payload -> '${field}'`),
  ];
  const holds = values.map(
    value => `exists (
      select from jsonb_path_query(${value}, 'strict $.** ? (@.type() == "string" || @.type() == "number")') v (value),
        lateral (select v.value #>> '{}' as text) f where ${carries('f.text', forms)})`,
  );
  if (forms.length === 0 || holds.length === 0) return [];
  const { rows } = await client.query<Place>(
    `select t.id, ${parent ? `t.${parent.column}` : 'null'} as of from ${table} t where t.account_id = $1 and (${holds.join(' or ')})`,
    [account, forms, patternsOf(forms)],
  );
  return rows;
}

/**
 * Ids of rows of sync.changes about these records, or about members that one of these ids had as parent. A row may lack its parent:
 * its trigger may be one without.
 */
async function changesOf(
  client: Queryable,
  account: string,
  table: string,
  records: Ids,
  { parent, ids }: { readonly parent: string; readonly ids: readonly string[] } = { parent: '', ids: [] },
): Promise<string[]> {
  if (records.ids.length + ids.length === 0) return [];
  const { rows } = await client.query<{ id: string }>(
    `select id::text from sync.changes where account_id = $1 and (source, table_name) = (${sourceAndStream('$2')})
       and (record_id = any ($3) and (cardinality($6::text[]) = 0 or parent_id is null or (record_id, parent_id) in (select * from unnest($3::text[], $6::text[])))
         or cardinality($5::text[]) > 0 and (parent_id = any ($5) or changes -> $4 ->> 0 = any ($5)))`,
    [account, table, records.ids, parent, ids, records.of ?? []],
  );
  return rows.map(({ id }) => id);
}
