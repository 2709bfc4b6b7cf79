/** Clears the rows of a stream with a declaration (declared.ts), and their traces beside the mirrored tables. */

import type { Client } from '../engine/database/pool.ts';
import { cleanText } from '../engine/json-text.ts';
import { carries, patternsOf } from './contact-normalisation.ts';
import { type Declaration, tableInChanges } from './declared.ts';
import { besides, emptyAudit, emptyChanges, emptyRejects } from './personal-data-scan.ts';
import type { PersonalRules } from './redact.ts';

type Queryable = Pick<Client, 'query'>;

export interface Cleared {
  /** Of the table. */
  readonly rows: number;
  readonly changes: number;
  readonly comparisons: number;
  readonly rejects: number;
}

/** Clears the rows that hold one of the contact values, or have one of the ids. */
export async function clearRows(
  client: Queryable,
  account: string,
  { declared, rules }: { readonly declared: Declaration; readonly rules: PersonalRules },
  which: { readonly forms: readonly string[] } | { readonly ids: readonly string[] },
  now: Date,
): Promise<Cleared> {
  // What is cleared is no change of the source.
  await client.query(`select set_config('shelfdesk.merge', '', true)`);
  const forms = 'forms' in which ? which.forms : [];
  const known = 'ids' in which ? which.ids.map(id => cleanText(id).text) : [];
  const ids = [...known, ...(forms.length > 0 ? await idsOf(client, account, declared, forms) : [])];
  let rows = 0;
  if (ids.length > 0) {
    const sets = declared.cleared.map(column => `${column} = null, `).join('');
    const filled = declared.cleared.map(column => ` or t.${column} is not null`).join('');
    const { rowCount } = await client.query(
      `update ${declared.table} t set ${sets}_payload = sync.kept_of(t._payload, $3), _synced_at = $4
       where t.account_id = $1 and t.id = any ($2) and (t._payload <> sync.kept_of(t._payload, $3)${filled})`,
      [account, ids, declared.kept, now],
    );
    rows = rowCount ?? 0;
    for (const { table, parent } of declared.sets)
      await client.query(`delete from ${table} where account_id = $1 and ${parent} = any ($2)`, [account, ids]);
  }
  const name = tableInChanges(declared);
  const setNames = declared.sets.map(({ table }) => table.replace(/^.*\./, ''));
  const kept = [...declared.columns, ...declared.kept, ...besides];
  return {
    rows,
    changes: await emptyChanges(client, await changesOf(client, account, { name, setNames, ids }), {
      tables: { [name]: kept },
      others: ['id', ...besides],
    }),
    comparisons: await emptyAudit(
      client,
      account,
      { records: [{ stream: declared.stream, ids }], members: [], kept },
      [],
    ),
    rejects: await emptyRejects(client, account, { rules, ids, holding: [], own: ids }, forms),
  };
}

async function idsOf(
  client: Queryable,
  account: string,
  { table, contacts }: Declaration,
  forms: readonly string[],
): Promise<string[]> {
  const found = [
    ...contacts.columns.map(column => carries(`t.${column}::text`, forms)),
    ...contacts.fields.map(
      field => `exists (
        select from jsonb_path_query(t._payload -> '${field}', 'strict $.** ? (@.type() == "string" || @.type() == "number")') v (value),
          lateral (select v.value #>> '{}' as text) f where ${carries('f.text', forms)})`,
    ),
  ];
  const { rows } = await client.query<{ id: string }>(
    `select t.id from ${table} t where t.account_id = $1 and (${found.join(' or ')})`,
    [account, forms, patternsOf(forms)],
  );
  return rows.map(({ id }) => id);
}

/** Another source may have a table of this name: there the rows have a parent. */
async function changesOf(
  client: Queryable,
  account: string,
  {
    name,
    setNames,
    ids,
  }: { readonly name: string; readonly setNames: readonly string[]; readonly ids: readonly string[] },
): Promise<string[]> {
  if (ids.length === 0) return [];
  const { rows } = await client.query<{ id: string }>(
    `select id::text from sync.changes where account_id = $1 and (
       table_name = $2 and parent_id is null and record_id = any ($4)
       or table_name = any ($3) and parent_id = any ($4))`,
    [account, name, setNames, ids],
  );
  return rows.map(({ id }) => id);
}
