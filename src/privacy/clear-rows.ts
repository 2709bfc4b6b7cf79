/** Erases people from a stream with a declaration (declared.ts): from its rows. */
import type { Queryable } from '../engine/database/pool.ts';
import { sourceAndStream } from '../engine/database/stream-key.ts';
import { cleanText } from '../engine/json-text.ts';
import { carries, patternsOf } from './contact-normalisation.ts';
import type { Declaration } from './declared.ts';
import { besides } from './personal-data-scan.ts';
import type { PersonalRules, Remains } from './redact.ts';

/** Clears the rows that hold one of the contact values, or have one of the ids. */
export async function clearRows(
  client: Queryable,
  account: string,
  { declared, rules }: { readonly declared: Declaration; readonly rules: PersonalRules },
  which: { readonly forms: readonly string[] } | { readonly ids: readonly string[] },
  now: Date,
): Promise<Remains> {
  // An earlier merge of the transaction enabled sync.changes. There these updates would keep the old values.
  await client.query(`select set_config('shelfdesk.merge', '', true)`);
  const forms = 'forms' in which ? which.forms : [];
  const ids = 'ids' in which ? which.ids.map(id => cleanText(id).text) : await idsOf(client, account, declared, forms);
  const rows: Record<string, number> = { [declared.table]: await clear(client, account, declared, ids, now) };
  const changes = [await changesOf(client, account, declared.table, ids)];
  for (const { table, parent } of declared.sets) {
    const gone = await client.query<{ id: string }>(
      `delete from ${table} where account_id = $1 and ${parent} = any ($2) returning id`,
      [account, ids],
    );
    rows[table] = gone.rows.length;
    const members = gone.rows.map(({ id }) => id);
    changes.push(await changesOf(client, account, table, members, { parent, ids }));
  }
  const kept = [...declared.columns, ...declared.kept, ...besides];
  return {
    rows,
    changes: changes.flat(),
    keptInChanges: { tables: { [declared.table]: kept }, others: ['id', ...besides] },
    audits: { records: [{ stream: declared.stream, ids }], members: [], kept, forms: [] },
    rejects: [{ rules, ids, holding: [], own: ids }],
  };
}

/** Skips rows that are clear already. */
async function clear(
  client: Queryable,
  account: string,
  { table, cleared, kept }: Declaration,
  ids: readonly string[],
  now: Date,
): Promise<number> {
  if (ids.length === 0) return 0;
  const sets = cleared.map(column => `${column} = null, `).join('');
  const filled = cleared.map(column => ` or t.${column} is not null`).join('');
  const { rowCount } = await client.query(
    `update ${table} t set ${sets}_payload = sync.kept_of(t._payload, $3), _synced_at = $4
     where t.account_id = $1 and t.id = any ($2) and (t._payload <> sync.kept_of(t._payload, $3)${filled})`,
    [account, ids, kept, now],
  );
  return rowCount ?? 0;
}

async function idsOf(
  client: Queryable,
  account: string,
  { table, contacts }: Declaration,
  forms: readonly string[],
): Promise<string[]> {
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
  const { rows } = await client.query<{ id: string }>(
    `select t.id from ${table} t where t.account_id = $1 and (${holds.join(' or ')})`,
    [account, forms, patternsOf(forms)],
  );
  return rows.map(({ id }) => id);
}

/**
 * Ids of rows of sync.changes about these records, or about members that one of these ids had as parent. A row may lack its parent:
 * its trigger may be one without.
 */
async function changesOf(
  client: Queryable,
  account: string,
  table: string,
  records: readonly string[],
  { parent, ids }: { readonly parent: string; readonly ids: readonly string[] } = { parent: '', ids: [] },
): Promise<string[]> {
  if (records.length + ids.length === 0) return [];
  const { rows } = await client.query<{ id: string }>(
    `select id::text from sync.changes where account_id = $1 and (source, table_name) = (${sourceAndStream('$2')})
       and (record_id = any ($3) or cardinality($5::text[]) > 0 and (parent_id = any ($5) or changes -> $4 ->> 0 = any ($5)))`,
    [account, table, records, parent, ids],
  );
  return rows.map(({ id }) => id);
}
