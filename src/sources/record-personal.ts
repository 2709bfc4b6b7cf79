/** What of a record tells of people, made of its declaration. */
import { type AnyRecord, computedOf, fieldsThatAre } from './record.ts';

/** Fields that stay where a person is erased. Unknown fields, objects, records of other streams and children go. */
export const keptOf = (of: AnyRecord): string[] =>
  fieldsThatAre(of, 'column').flatMap(([path, { tells }]) => (tells || path.includes('.') ? [] : [path]));

/** Fields by which a person is recognised in any record. */
export const contactsOf = (of: AnyRecord): string[] =>
  fieldsThatAre(of, 'column').flatMap(([path, { tells }]) => (tells === 'contact' ? [path.split('.')[0]!] : []));

/** Columns that tell of people, and those that are computed of them. */
export const tellingColumns = (of: AnyRecord): string[] =>
  fieldsThatAre(of, 'column').flatMap(([, facts]) =>
    facts.tells ? [facts.column, ...computedOf(facts).map(([column]) => column)] : [],
  );
