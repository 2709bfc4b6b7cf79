/**
 * Personal data that a stream declares: columns that identify a person, and fields that hold contact values. A stream
 * without rules of its own gets its rules from the declaration: a record with a contact value of an erased person keeps
 * only the fields of its other columns (id, times, states).
 */

import { type Column, fieldOf, keyOf, type Merge } from '../engine/commit/merge.ts';
import type { StreamKey } from '../engine/database/stream-key.ts';
import { parseJson } from '../engine/exact-json.ts';
import { clearRows } from './clear-rows.ts';
import { withFilter } from './filter.ts';
import { textsIn } from './look-up.ts';
import { emptyTraces } from './personal-data-scan.ts';
import {
  carries,
  eachOf,
  isAnybody,
  type Json,
  noClues,
  objectIn,
  only,
  type Personal,
  type PersonalRules,
} from './redact.ts';

/** The fields and columns of a stream that identify a person. */
export interface PersonalData {
  /**
   * Columns that are masked for readers without the right to personal data. Erasure sets them to null, so none is `not
   * null`.
   */
  readonly columns: readonly string[];
  /**
   * Top-level fields of a record that hold an email address or a phone number at any depth. Erasure recognises a person
   * by these values. The columns of these fields are personal too.
   */
  readonly contacts: readonly string[];
}

interface Declaring {
  readonly key: StreamKey;
  readonly merge: Merge;
}

/** Effects of an erasure on the tables of a stream without rules of its own. */
export interface Declaration {
  readonly stream: StreamKey;
  /** Table with schema: `crm.contacts`. */
  readonly table: string;
  /** Column and field with the id of the record that the rows are parts of: their own ids are unique within it only. */
  readonly parent?: { readonly column: string; readonly field: string };
  /** Columns that are set to null. */
  readonly cleared: readonly string[];
  /** Fields that stay in a record. */
  readonly kept: readonly string[];
  /** Columns that stay. */
  readonly columns: readonly string[];
  /** Record fields and columns that hold a contact value. */
  readonly contacts: { readonly fields: readonly string[]; readonly columns: readonly string[] };
  /** Child tables, with the column that holds the id of the record. */
  readonly sets: readonly { readonly table: string; readonly parent: string }[];
}

/**
 * The rules of a list that declares its personal data. Throws Error if erasure cannot follow it: such a list needs rules of its own.
 */
export const declaredRules = (stream: Declaring, personal: PersonalData): Personal =>
  withFilter(rulesFrom(declarationOf(stream, personal)));

/** Whether the SQL of a column reads this field of the record. */
const reads = ({ sql }: Column, field: string) =>
  [`'${field}'`, `{${field}}`, `{${field},`].some(one => sql.includes(one));

// @internal Tests say what follows from a declaration.
export function declarationOf({ key, merge }: Declaring, { columns: named, contacts }: PersonalData): Declaration {
  const { root, others } = merge.declared;
  const refuse = (why: string) => new Error(`stream ${key} ${why}: it needs rules of its own`);
  const declared = root.columns.filter(({ name }) => named.includes(name));
  const removed = [...new Set([...contacts, ...declared.map(fieldOf)])];
  const isCleared = (column: Column) => named.includes(column.name) || removed.some(field => reads(column, field));
  const cleared = root.columns.filter(isCleared);
  const fixed = [...keyOf(root), root.version, root.parent];
  const bound = cleared.find(({ name }) => fixed.includes(name));
  if (bound !== undefined) throw refuse(`has personal data in ${bound.name}, which names its rows`);
  const given = cleared.find(({ sql }) => /\$\d/.test(sql));
  if (given !== undefined) throw refuse(`has personal data in ${given.name}, which is not a field of its records`);
  const loose = others.find(({ parent }) => parent === undefined);
  if (loose !== undefined) throw refuse(`has personal data, and a table ${loose.name} without a parent`);
  const left = root.columns.filter(column => !isCleared(column));
  const within = root.columns.find(({ name }) => name === root.parent);
  return {
    ...{ stream: key, table: root.name, ...(within && { parent: { column: within.name, field: fieldOf(within) } }) },
    cleared: cleared.map(({ name }) => name),
    // The name of a derived column is no field.
    kept: [...new Set(['id', ...left.filter(column => reads(column, fieldOf(column))).map(fieldOf)])],
    columns: left.map(({ name }) => name),
    contacts: {
      fields: contacts,
      columns: cleared.filter(column => contacts.some(field => reads(column, field))).map(({ name }) => name),
    },
    sets: others.map(({ name, parent }) => ({ table: name, parent: parent! })),
  };
}

function rulesFrom(declared: Declaration): PersonalRules {
  const contactsOf = (record: Json) =>
    declared.contacts.fields.flatMap(field => textsIn(record[field])).filter(Boolean);
  const isOfErased = (record: Json, erased: Parameters<PersonalRules['redact']>[1]) =>
    contactsOf(record).some(value => carries(erased, value));
  const recordsIn = (text: string) => (parseJson(text) as unknown[]).map(objectIn);
  const rules: PersonalRules = {
    stream: declared.stream,
    cluesIn: text => ({ ...noClues, contacts: recordsIn(text).flatMap(contactsOf) }),
    cluesOf: ({ text }) => ({ ...noClues, contacts: text === undefined ? [] : contactsOf(objectIn(parseJson(text))) }),
    redact: (text, erased) =>
      isAnybody(erased)
        ? eachOf(text, one => (isOfErased(objectIn(parseJson(one)), erased) ? only(one, declared.kept) : one))
        : text,
    async clearStored(client, account, { page, erased, now }) {
      const theirs = recordsIn(page).filter(record => isOfErased(record, erased));
      const { parent } = declared;
      const rows = theirs.flatMap(one => textsIn(one.id).map(id => ({ id, of: parent && String(one[parent.field]) })));
      if (rows.length > 0)
        await emptyTraces(client, account, await clearRows(client, account, { declared, rules }, { rows }, now), []);
    },
    rows: {
      addressed: [...declared.contacts.fields, ...declared.contacts.columns],
      remove: (client, account, { forms }, now) => clearRows(client, account, { declared, rules }, { forms }, now),
    },
  };
  return rules;
}
