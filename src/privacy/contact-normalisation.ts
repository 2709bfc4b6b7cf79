/** Normalised forms of contact values (sync.contact_forms), and SQL that finds fields with such a value. */
import type { Client } from '../engine/database/pool.ts';
import { query } from '../engine/database/sql.ts';

/** Normalised forms of contact values, or of fields that hold several. */
export const formsIn = (client: Client, values: readonly string[]): Promise<string[]> =>
  query(client).value`
    select array(select distinct f.form from unnest(${values}::text[]) v (value), unnest(sync.contact_forms(v.value)) f (form)) as forms`;

const escaped = (text: string): string => text.replaceAll(/[\\%_]/g, found => `\\${found}`);
const isPhone = (form: string): boolean => /^\d+$/.test(form);

/** LIKE patterns of the e-mail addresses among the forms. */
export const patternsOf = (forms: readonly string[]): string[] =>
  forms.filter(form => form.includes('@')).map(form => `%${escaped(form)}%`);

/** LIKE patterns of the phone numbers among the forms, for text without separators between digits. */
export const digitsOf = (forms: readonly string[]): string[] => forms.filter(isPhone).map(form => `%${form}%`);

/** LIKE patterns for JSON that has one of the ids as a value. */
export const holdingOf = (ids: readonly string[]): string[] => ids.map(id => `%${escaped(JSON.stringify(id))}%`);

/**
 * SQL condition: the field holds one of the forms $2, whose patterns are $3. A cheap test comes first, because no index
 * helps and there may be millions of rows. Invisible characters may split an address, so text with non-ASCII
 * characters always gets the full check.
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

/** The same SQL condition for a field that holds an address only if it contains an @, such as a name. */
export const carriesAddress = (field: string, forms: readonly string[]): string =>
  `(strpos(${field}, '@') > 0 and ${carries(field, forms)})`;
