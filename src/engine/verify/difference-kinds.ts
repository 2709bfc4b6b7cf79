/** Classifies a difference: announced by the source, silent, or made here by hand. Pure. */

import type { ListStream, Row } from '../../sources/source.ts';
import { fieldOf, type Table } from '../commit/merge.ts';
import { jsonOf } from '../json-text.ts';
import type { Compared, Differing } from './comparison-sql.ts';

/** Longer values are truncated. People only need to recognize them. */
const longestValue = 1000;

export type Differences = Record<string, [ours: unknown, theirs: unknown]>;

/**
 * [ours, theirs] by field: columns by name, fields of `_payload` that no differing column covers, and members as
 * `contacts.value`. For members both sides are {id: value}, because several may differ.
 */
export function differencesOf(merge: Compared, found: readonly Differing[]): Differences {
  const { root } = merge.declared;
  const differences: Differences = {};
  for (const one of found) {
    if (one.at === 'payload' && columnOf(merge, one, found)) continue;
    const name = one.at === 'payload' ? `_payload.${one.field}` : one.field;
    const isMain = one.of === short(root);
    if (isMain && root.parent === undefined) {
      differences[name] = [brief(one.ours, one.at), brief(one.theirs, one.at)];
      continue;
    }
    const field = isMain ? name : `${one.of}.${name}`;
    const [ours, theirs] = differences[field] ?? [{}, {}];
    differences[field] = [
      { ...(ours as object), [one.id]: brief(one.ours, one.at) },
      { ...(theirs as object), [one.id]: brief(one.theirs, one.at) },
    ];
  }
  return differences;
}

/** A short value. For a row that one side lacks: the name of that side. */
function brief(value: unknown, at: Differing['at']): unknown {
  if (at === 'row') return value === null ? null : 'there';
  if (typeof value === 'string') return shortened(value);
  const text = jsonOf(value ?? null);
  if (text === undefined) return 'nested too deep to be shown';
  return text.length > longestValue ? shortened(text) : (value ?? null);
}

/** Does not cut a surrogate pair: PostgreSQL refuses half of one. */
const shortened = (text: string): string =>
  text.length > longestValue ? `${text.slice(0, longestValue).toWellFormed()}…` : text;

const short = ({ name }: Pick<Table, 'name'>) => name.replace(/^.*\./, '');
const tableOf = ({ declared: { root, others } }: Compared, { of }: Differing) =>
  [root, ...others].find(table => short(table) === of)!;

/** The column of this field of `_payload`, if it differs too. */
function columnOf(merge: Compared, { of, id, field }: Differing, found: readonly Differing[]): Differing | undefined {
  const sources = tableOf(merge, { of } as Differing).columns;
  const names = sources
    .filter(column => !column.apart && column.unstored === undefined && fieldOf(column) === field)
    .map(c => c.name);
  return found.find(one => one.at === 'column' && one.of === of && one.id === id && names.includes(one.field));
}

/** The row contradicts itself: a column and `_payload` differ. Only a manual change writes such a row. */
function contradicts(merge: Compared, found: readonly Differing[]): boolean {
  const { root } = merge.declared;
  const differs = (field: string, at: Differing['at'], of: string, id?: string) =>
    found.some(one => one.at === at && one.of === of && one.field === field && (id === undefined || one.id === id));
  return found.some(one => {
    const table = tableOf(merge, one);
    const columns = table.columns.filter(column => !column.apart && column.alike === undefined);
    if (one.at === 'column' && !table.columns.some(({ name }) => name === one.field)) return true;
    // Members that the record shows in its own `_payload`.
    const isWithin = one.of !== short(root) && root.parent === undefined;
    if (one.at === 'row') return isWithin && !found.some(({ at, of }) => at === 'payload' && of === short(root));
    if (one.at === 'payload') {
      const column = columns.find(column => column.path === undefined && fieldOf(column) === one.field);
      return column !== undefined && column.name !== 'id' && !columnOf(merge, one, found);
    }
    const column = columns.find(({ name }) => name === one.field);
    if (column === undefined) return one.field === 'body_text' && !differs('body', 'column', one.of, one.id);
    return !differs(fieldOf(column), 'payload', one.of, one.id);
  });
}

/** Whether the source shows what `_payload` holds, and only columns that hold the same differ: no later change made that. */
export function isMadeHere(merge: Compared, found: readonly Differing[]): boolean {
  const isOfRecord = (one: Differing) =>
    tableOf(merge, one).columns.some(({ name, apart, alike }) => name === one.field && !apart && alike === undefined);
  return found.every(({ at }) => at === 'column') && found.some(isOfRecord);
}

/** The kind of an edit of a record without a version: its source does not show when it was edited. `edited`: the kind if nothing else is known. */
export function kindOfEdit(merge: Compared, found: readonly Differing[], edited: string): string {
  const { root } = merge.declared;
  if (found.some(({ at, of }) => at === 'row' && of === short(root) && root.parent === undefined))
    return 'missing here';
  return contradicts(merge, found) ? 'changed here' : edited;
}

/** Versions of a record in ms: the stored one, and the one in the reply. */
interface Versions {
  readonly ours: number | null;
  readonly theirs: number;
}

/** The kind of a difference in a record of a list. */
export function kindOfRecord(
  { merge, edited = 'edited', quiet = {} }: Pick<ListStream<Row>, 'merge' | 'edited' | 'quiet'>,
  found: readonly Differing[],
  { ours, theirs }: Versions,
): string {
  const { version } = merge.declared.root;
  if (version === undefined) return kindOfEdit(merge, found, edited);
  const kind = kindOfEdit(merge, found, '');
  if (kind !== '') return kind;
  if (ours !== null && theirs > ours) return 'a change was missed';
  return kindsOfQuiet(
    found.map(({ field }) => quiet[field] ?? 'edits'),
    version,
  );
}

/** The kinds of edits that do not change the version of their record. */
export const kindsOfQuiet = (edits: readonly string[], version: string): string =>
  [...new Set(edits.map(edit => `${edit} do not move ${version}`))].sort().join('; ');

/** The record is only here: the source deleted it, or someone inserted it by hand. */
export const kindOfGone = (isItself: boolean | null): string => (isItself === true ? 'deleted' : 'only here');

/** The row has a tombstone, and the source shows the record. */
export const cameBack = { differences: { row: ['deleted', 'there'] as const }, kind: 'came back' };

export const byRoot = (found: readonly Differing[]): Map<string, Differing[]> => Map.groupBy(found, ({ root }) => root);
