/** The columns of a record's table, and the fields that `_payload` leaves out, made of the declaration of the record. */
import {
  apart,
  bigint,
  bigintAt,
  boolean,
  booleanAt,
  type Column,
  dateAt,
  numericAt,
  text,
  textAt,
  texts,
  textsAt,
  time,
  timeAt,
  unlessZero,
} from '../../engine/commit/merge.ts';
import { type AnyRecord, allFields, type Facts } from './record.ts';

/** For a value that was checked. */
const strict: Partial<Record<Facts['type'], (field: string) => Column>> = {
  'text[]': texts,
  bigint,
  boolean,
  timestamptz: time,
};
const lenient = {
  text: textAt,
  'text[]': textsAt,
  bigint: bigintAt,
  numeric: numericAt,
  boolean: booleanAt,
  timestamptz: timeAt,
  date: dateAt,
} as const satisfies Record<Facts['type'], (path: string, name: string) => Column>;

function columnOf(path: string, { type, column, apart: isApart, unlessZero: isUnlessZero }: Facts, isChecked: boolean) {
  const isOutermost = !path.includes('.');
  const checked = isChecked && isOutermost ? strict[type]?.(path) : undefined;
  const plain = checked && column !== path ? { ...checked, name: column!, field: path } : checked;
  const read = plain ?? (type === 'text' && isOutermost ? text(path, column) : lenient[type](path, column!));
  const known = isUnlessZero ? unlessZero(read) : read;
  return isApart ? apart(known) : known;
}

/** In the order of the fields. `behind`: columns of our own, by the field before them. */
export const columnsOf = (of: AnyRecord, behind: Readonly<Record<string, readonly Column[]>> = {}): Column[] =>
  allFields(of).flatMap(([path, facts]) => [
    ...(facts.is === 'column' ? [columnOf(path, facts, !of.lenient)] : []),
    ...(Object.hasOwn(behind, path) ? behind[path]! : []),
  ]);

/** The same columns, which read null of a value that was never checked. */
export const uncheckedColumnsOf = (of: AnyRecord): Column[] => columnsOf({ ...of, lenient: true });

/** Records of other streams, long texts, and what varies without a change. */
export const leftOutOf = (of: AnyRecord): string[] =>
  allFields(of).flatMap(([path, { is, apart, varies }]) => (is === 'embedded' || apart || varies ? [path] : []));
