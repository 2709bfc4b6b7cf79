/** By what a contact value is compared (sync.contact_forms), and SQL that finds fields which hold one. */
import type { Client } from '../engine/database/pool.ts';

/** Of contact values, or of fields that hold some. */
export async function formsIn(client: Client, values: readonly string[]): Promise<string[]> {
  const { rows } = await client.query<{ forms: string[] }>(
    'select array(select distinct f.form from unnest($1::text[]) v (value), unnest(sync.contact_forms(v.value)) f (form)) as forms',
    [values],
  );
  return rows[0]!.forms;
}

const escaped = (text: string): string => text.replaceAll(/[\\%_]/g, found => `\\${found}`);
const isPhone = (form: string): boolean => /^\d+$/.test(form);

/** LIKE patterns of the e-mail addresses among them. */
export const patternsOf = (forms: readonly string[]): string[] =>
  forms.filter(form => form.includes('@')).map(form => `%${escaped(form)}%`);

/** LIKE patterns of their phone numbers, for a text without the signs between digits. */
export const digitsOf = (forms: readonly string[]): string[] => forms.filter(isPhone).map(form => `%${form}%`);

/** LIKE patterns of JSON in which one of the ids is a value. */
export const holdingOf = (ids: readonly string[]): string[] => ids.map(id => `%${escaped(JSON.stringify(id))}%`);

/**
 * SQL: whether a field holds one of the forms $2, whose patterns are $3. What cannot is told first, and cheaply: no index helps,
 * and there may be millions. Letters that nobody sees may stand within an address: what is not plain is looked at closely.
 */
export function carries(field: string, forms: readonly string[]): string {
  const may = [
    `cardinality($3::text[]) > 0 and lower(${field}) like any ($3::text[])`,
    `octet_length(${field}) > length(${field})`,
  ];
  if (forms.some(isPhone)) may.push(`${field} ~ '^([A-Za-z]+:)?[-0-9+()./,;[:space:]]+$'`);
  if (forms.some(form => !isPhone(form) && !form.includes('@')))
    may.push(`lower(btrim(${field}, ' @')) = any ($2::text[])`);
  return `(${field} is not null and (${may.join(' or ')}) and sync.contact_forms(${field}) && $2::text[])`;
}

/** SQL: the same of a field that is no address unless there is an @ in it, such as a name. */
export const carriesAddress = (field: string, forms: readonly string[]): string =>
  `(strpos(${field}, '@') > 0 and ${carries(field, forms)})`;
