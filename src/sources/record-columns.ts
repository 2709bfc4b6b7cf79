/** The columns of a record's table, and the fields that `_payload` leaves out, made of the declaration of the record. */
import { apart, bigint, boolean, type Column, numericAt, text, texts, time } from '../engine/commit/merge.ts';
import { type AnyRecord, type Facts, fieldsThatAre } from './record.ts';

const readers = {
  text,
  'text[]': texts,
  bigint,
  numeric: field => numericAt(field, field),
  boolean,
  timestamptz: time,
} as const satisfies Record<Facts['type'], (field: string) => Column>;

function columnOf(field: string, { type, column = field, apart: isApart }: Facts): Column {
  const read = { ...readers[type](field), ...(column !== field && { name: column, field }) };
  return isApart ? apart(read) : read;
}

/** In the order of the fields. `behind`: columns of our own, by the field before them. */
export const columnsOf = (of: AnyRecord, behind: Readonly<Record<string, readonly Column[]>> = {}): Column[] =>
  fieldsThatAre(of, 'column').flatMap(([field, facts]) => [columnOf(field, facts), ...(behind[field] ?? [])]);

/** Records of other streams, and long texts. */
export const leftOutOf = (of: AnyRecord): string[] => [
  ...fieldsThatAre(of, 'embedded').map(([field]) => field),
  ...fieldsThatAre(of, 'column').flatMap(([field, facts]) => (facts.apart ? [field] : [])),
];
