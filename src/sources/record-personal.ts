/** What of a record tells of people, made of its declaration. */
import { type AnyRecord, type Facts, fieldsThatAre } from './record.ts';

/** Fields that stay where a person is erased. Unknown fields, records of other streams and children go. */
export const keptOf = (of: AnyRecord): string[] =>
  fieldsThatAre(of, 'column').flatMap(([field, { tells }]) => (tells ? [] : [field]));

/** Fields by which a person is recognised in any record. */
export const contactsOf = (of: AnyRecord): string[] =>
  fieldsThatAre(of, 'column').flatMap(([field, { tells }]) => (tells === 'contact' ? [field] : []));

/** Columns that tell of people. `apart`: only those, or none of those, whose value `_payload` lacks. */
export const tellingColumns = (of: AnyRecord, { apart }: Pick<Facts, 'apart'> = {}): string[] =>
  fieldsThatAre(of, 'column').flatMap(([field, facts]) =>
    facts.tells && (apart === undefined || apart === (facts.apart ?? false))
      ? [facts.column ?? field, ...(facts.computed ? [facts.computed] : [])]
      : [],
  );
