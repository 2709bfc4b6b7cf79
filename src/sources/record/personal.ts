/** The personal data of a record, derived from its declaration. */
import type { PersonalData } from '../../privacy/declared.ts';
import { type AnyRecord, computedOf, fieldsThatAre } from './record.ts';

/** Fields that stay where a person is erased. Unknown fields, objects, records of other streams and children go. */
export const keptOf = (of: AnyRecord): string[] =>
  fieldsThatAre(of, 'column').flatMap(([path, { tells }]) => (tells || path.includes('.') ? [] : [path]));

/**
 * Fields that may contain a name after certain characters, such as the type of a file. They stay up to these
 * characters.
 */
export const cutOf = (of: AnyRecord): [field: string, upTo: string][] =>
  fieldsThatAre(of, 'column').flatMap(([path, { upTo }]) => (upTo === undefined ? [] : [[path, upTo]]));

/** A field by which a person is recognised in any record. */
export interface Contact {
  readonly field: string;
  readonly column: string;
  /** The field identifies a person only if it contains an @. */
  readonly isName: boolean;
  /** The fields about the same person. */
  readonly ofSame: readonly string[];
}

export function contactsOf(of: AnyRecord): Contact[] {
  const columns = fieldsThatAre(of, 'column');
  const names = columns.filter(([, { nameOf }]) => nameOf !== undefined);
  return [...columns.filter(([, { tells }]) => tells === 'contact'), ...names].map(([field, { column, nameOf }]) => {
    const namesOfIt = names.filter(([, facts]) => facts.nameOf === field).map(([name]) => name);
    return { field, column, isName: nameOf !== undefined, ofSame: [field, ...namesOfIt] };
  });
}

/** Columns with personal data, and columns computed from them. */
export const tellingColumns = (of: AnyRecord): string[] =>
  fieldsThatAre(of, 'column').flatMap(([, facts]) =>
    facts.tells ? [facts.column, ...computedOf(facts).map(([column]) => column)] : [],
  );

/** A part of a record with an address names the person of the whole record. */
export function personalOf(record: AnyRecord): PersonalData | undefined {
  const parts = fieldsThatAre(record, 'children');
  const withContact = parts.flatMap(([name, facts]) => (contactsOf(facts.record!).length > 0 ? [name] : []));
  const outermost = contactsOf(record).map(({ field }) => field.split('.')[0]!);
  const contacts = [...new Set([...outermost, ...withContact])];
  const columns = tellingColumns(record);
  const areParts = parts.some(([, facts]) => tellingColumns(facts.record!).length > 0);
  return columns.length + contacts.length > 0 || areParts ? { columns, contacts } : undefined;
}
