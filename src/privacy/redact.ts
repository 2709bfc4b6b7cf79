/**
 * Types and JSON functions for finding and redacting erased people. The rules of a stream are pure functions over JSON
 * text; the database knows who was erased (look-up.ts). A text without erased people stays unchanged, digit by digit.
 */
import type { Aside, Filter } from '../engine/commit/page.ts';
import type { Client } from '../engine/database/pool.ts';
import type { StreamKey } from '../engine/database/stream-key.ts';
import { cleanText, elementsOf, fieldsOf, objectOf } from '../engine/json-text.ts';

/** Ids and values that may belong to an erased person. */
export interface Clues {
  /** Ids of people, as in sync.erased. */
  readonly customers: readonly string[];
  /** Ids of records that people wrote, as in sync.erased_tickets. */
  readonly tickets: readonly string[];
  /** Contact values, or fields that hold several. */
  readonly contacts: readonly string[];
}

/** The clues that match erased people. */
export interface Erased {
  readonly customers: ReadonlySet<string>;
  readonly tickets: ReadonlySet<string>;
  /** Contact values, without characters that PostgreSQL cannot store. */
  readonly contacts: ReadonlySet<string>;
  /** The customers that an operator erased by id. */
  readonly asked: ReadonlySet<string>;
  /** Contact values that belong to no erased person. */
  readonly further: ReadonlySet<string>;
}

export const noClues: Clues = { customers: [], tickets: [], contacts: [] };

/**
 * Rules of a stream for finding and redacting erased people. A `text` is the JSON that goes to the merge of the stream.
 */
export interface PersonalRules {
  readonly stream: StreamKey;
  cluesIn(text: string): Clues;
  /** Returns the clues of one record, readable or not. Throws SyntaxError or RangeError if the text is no JSON. */
  cluesOf(record: Aside): Clues;
  /** Erased people, records that they wrote, and contact values of theirs, that are not in the tables of erased people yet. */
  foundIn?(text: string, erased: Erased): Clues;
  redact(text: string, erased: Erased): string;
  /**
   * Clears the stored rows of the page's records that belong to erased people, because these rows may hold other
   * contact values.
   */
  clearStored?(
    client: Pick<Client, 'query'>,
    account: string,
    of: { readonly page: string; readonly erased: Erased; readonly now: Date },
  ): Promise<void>;
  /** For new ids among `tickets`: records those without stored rows as erased, and returns the others. */
  noteNew?(client: Pick<Client, 'query'>, account: string, tickets: readonly string[], now: Date): Promise<string[]>;
  /** Of a stream that only declares its personal data. */
  readonly rows?: TheirRows;
  /** Set if the source knows people by id: `erase` starts with such an id. */
  readonly people?: People;
}

/** Rules, and the filter that is made of them. */
export type Personal = Filter & PersonalRules;

/** The people to erase. */
export interface Who extends Pick<Clues, 'customers' | 'tickets'> {
  /** Normalised forms of their contact values (sync.contact_forms). */
  readonly forms: readonly string[];
  /** Ids of rows of sync.changes that hold one of the values. */
  readonly changes: readonly string[];
}

/** Tables that hold data of people. */
interface TheirRows {
  /** Record fields and table columns that may hold addresses. */
  readonly addressed: readonly string[];
  /** Redacts the rows of these people. */
  remove(client: Client, account: string, who: Who, now: Date): Promise<Remains>;
}

/** The people of a source. `remove` also records in sync.erased_tickets what belongs to them. */
export interface People extends TheirRows {
  readonly source: string;
  /** Name for people: `the help desk`. */
  readonly label: string;
  /** Settings that connect the source, as text for people. */
  readonly requires: string;
  /** Place where an operator finds the ids of people. */
  readonly whereIds: string;
  isKnown(client: Client, account: string, id: string): Promise<boolean>;
  /** Known current and former contact values of these people. */
  contactsOf(client: Client, account: string, customers: readonly string[]): Promise<readonly string[]>;
  /** Ids of people with one of the contact values. */
  sharing(client: Client, account: string, forms: readonly string[]): Promise<string[]>;
}

/** Traces that remain to be emptied outside the mirrored tables. */
export interface Remains {
  /** Number of redacted, emptied or deleted rows per kind. */
  readonly rows: Readonly<Record<string, number>>;
  /** Ids of rows in sync.changes. */
  readonly changes: readonly string[];
  /** Fields that stay in sync.changes. */
  readonly keptInChanges: {
    /** Columns of each table. The name of a table includes its schema. */
    readonly tables: Readonly<Record<string, readonly string[]>>;
    /** For all other tables. */
    readonly others: readonly string[];
  };
  /** Comparisons in sync.audit. */
  readonly audits: {
    readonly records: readonly { readonly stream: StreamKey; readonly ids: readonly string[] }[];
    /** Ids by which the comparison of another record mentions members that belong to these people. */
    readonly members: readonly string[];
    /** Fields that stay. */
    readonly kept: readonly string[];
    /** Contact values, by which comparisons of any record are found. */
    readonly forms: readonly string[];
  };
  readonly rejects: readonly TheirRejects[];
}

/** Rejects of one stream that may belong to erased people. */
export interface TheirRejects {
  readonly rules: PersonalRules;
  /** A reject is checked in detail if its record or request has one of these ids. */
  readonly ids: readonly string[];
  /** A reject is checked in detail if its payload has one of these ids as a value. */
  readonly holding: readonly string[];
  /** Records with these ids belong to the people. `ownOf`: the records that they are parts of, if their ids are unique within these only. */
  readonly own: readonly string[];
  readonly ownOf?: readonly string[] | undefined;
}

/** Whether any of the clues belongs to an erased person. */
export const concerns = (clues: Clues, erased: Erased): boolean =>
  clues.customers.some(id => erased.customers.has(id)) ||
  clues.tickets.some(id => erased.tickets.has(id)) ||
  clues.contacts.some(value => carries(erased, value));

export const carries = ({ contacts }: Erased, value: unknown): boolean =>
  typeof value === 'string' && contacts.has(cleanText(value).text);

export const isAnybody = ({ customers, tickets, contacts }: Erased): boolean =>
  customers.size + tickets.size + contacts.size > 0;

// --- JSON of any shape -------------------------------------------------------------------------------------------

export type Json = Readonly<Record<string, unknown>>;
export const objectIn = (value: unknown): Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
export const arrayIn = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
export const texts = (...values: unknown[]): string[] =>
  values.filter(value => typeof value === 'string' && value !== '') as string[];

/** Applies a change to each element of a JSON array. */
export const eachOf = (json: string, change: (one: string) => string): string =>
  `[${elementsOf(json).map(change).join(',')}]`;

/** A JSON object with these fields only. */
export const only = (json: string, fields: readonly string[]): string =>
  objectOf([...fieldsOf(json)].filter(([field]) => fields.includes(field)));

/** A JSON object without these fields. */
export const without = (json: string, fields: readonly string[]): string =>
  fields.length === 0 ? json : objectOf([...fieldsOf(json)].filter(([field]) => !fields.includes(field)));
