/**
 * What every source needs to find erased people in its records and to redact these. The rules of a stream are pure
 * functions over JSON text; the database says who was erased (screen.ts). A text without erased people stays as it is,
 * digit by digit.
 */
import type { Client } from '../engine/database/pool.ts';
import type { StreamKey } from '../engine/database/stream-key.ts';
import { cleanText, elementsOf, fieldsOf, objectOf } from '../engine/json-text.ts';

/** Ids and values that may belong to an erased person. */
export interface Clues {
  /** Ids of people: those of sync.erased. */
  readonly customers: readonly string[];
  /** Ids of what people wrote: those of sync.erased_tickets. */
  readonly tickets: readonly string[];
  /** Contact values, and fields that hold some. */
  readonly contacts: readonly string[];
}

/** The clues that belong to erased people. */
export interface Erased {
  readonly customers: ReadonlySet<string>;
  readonly tickets: ReadonlySet<string>;
  /** Without characters that PostgreSQL cannot store. */
  readonly contacts: ReadonlySet<string>;
  /** The customers that an operator erased by id. */
  readonly asked: ReadonlySet<string>;
  /** Contact values of no erased person. */
  readonly further: ReadonlySet<string>;
}

const none: ReadonlySet<string> = new Set();
export const nobody: Erased = { customers: none, tickets: none, contacts: none, asked: none, further: none };
export const noClues: Clues = { customers: [], tickets: [], contacts: [] };

/** How a stream finds and redacts erased people. A `text` goes to the merge of the stream. */
export interface PersonalRules {
  readonly stream: StreamKey;
  cluesIn(text: string): Clues;
  /**
   * The clues of one record, readable or not. `of` holds the ids that the caller knows it by. Throws SyntaxError or
   * RangeError if the text is no JSON.
   */
  cluesOf(text: string | undefined, of: readonly (string | undefined)[]): Clues;
  /** The ids, for `cluesOf`, of a reject. */
  idsOf(recordId: string | undefined, askId: string | undefined): readonly (string | undefined)[];
  /** Erased people, and what they wrote, under ids that are not known yet. */
  foundIn(text: string, erased: Erased): Pick<Clues, 'customers' | 'tickets'>;
  /** Contact values of erased people that are not known yet. */
  furtherIn(text: string, erased: Erased): Clues;
  redact(text: string, erased: Erased): string;
  /** Clears the stored rows of the page's records that belong to erased people: they may have had other contact values. */
  clearStored?(
    client: Pick<Client, 'query'>,
    account: string,
    of: { readonly page: string; readonly erased: Erased; readonly now: Date },
  ): Promise<void>;
  /** Of new ids of `tickets`: notes those without stored rows as erased. Answers the others. */
  noteNew?(
    client: Pick<Client, 'query'>,
    account: string,
    tickets: readonly string[],
    nowMs: number,
  ): Promise<string[]>;
  /** Set where the source knows people by ids: `erase` starts from such an id. */
  readonly people?: People;
}

/** Who is removed. */
export interface Who extends Pick<Clues, 'customers' | 'tickets'> {
  /** By what their contact values are compared (sync.contact_forms). */
  readonly forms: readonly string[];
  /** Ids of the rows of sync.changes that hold such a value. */
  readonly changes: readonly string[];
}

/** The people of a source, and its tables that hold their data. */
export interface People {
  readonly source: string;
  /** As people read it: `the help desk`. */
  readonly label: string;
  /** The settings that connect it, as people read them. */
  readonly requires: string;
  /** Where an operator finds the ids of people. */
  readonly whereIds: string;
  /** Fields of its records and columns of its tables whose values may be addresses. */
  readonly addressed: readonly string[];
  isKnown(client: Client, account: string, id: string): Promise<boolean>;
  /** Contact values that these people have, or had as far as is known. */
  contactsOf(client: Client, account: string, customers: readonly string[]): Promise<readonly string[]>;
  /** People who have one of the contact values. */
  sharing(client: Client, account: string, forms: readonly string[]): Promise<string[]>;
  /** Reduces the rows of the source, and notes in sync.erased_tickets what belongs to these people. */
  remove(client: Client, account: string, who: Who, now: Date): Promise<Remains>;
}

/** What is left to be emptied beside the mirrored tables. */
export interface Remains {
  /** Of each kind how many rows were reduced, emptied, or deleted. */
  readonly rows: Readonly<Record<string, number>>;
  /** Ids of rows in sync.changes. */
  readonly changes: readonly string[];
  /** Fields that stay in sync.changes. */
  readonly keptInChanges: {
    /** By the name of the table without its schema. */
    readonly tables: Readonly<Record<string, readonly string[]>>;
    /** In any other table. */
    readonly others: readonly string[];
  };
  /** Comparisons in sync.audit. */
  readonly audits: {
    readonly records: readonly { readonly stream: StreamKey; readonly ids: readonly string[] }[];
    /** Ids by which the comparison of another record tells of members that belong to these people. */
    readonly members: readonly string[];
    /** Fields that stay. */
    readonly kept: readonly string[];
  };
  readonly rejects: readonly TheirRejects[];
}

/** Rejects of one stream that may belong to erased people. */
export interface TheirRejects {
  readonly rules: PersonalRules;
  /** Looked at closely if the record or the request has one of these ids. */
  readonly ids: readonly string[];
  /** Looked at closely if the payload holds one of these ids as a value. */
  readonly holding: readonly string[];
  /** Records of these ids belong to them. */
  readonly own: readonly string[];
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

/** Each element of a JSON array changed. */
export const eachOf = (json: string, change: (one: string) => string): string =>
  `[${elementsOf(json).map(change).join(',')}]`;

/** A JSON object with these fields only. */
export const only = (json: string, fields: readonly string[]): string =>
  objectOf([...fieldsOf(json)].filter(([field]) => fields.includes(field)));

/** A JSON object without these fields. */
export const without = (json: string, fields: readonly string[]): string =>
  fields.length === 0 ? json : objectOf([...fieldsOf(json)].filter(([field]) => !fields.includes(field)));
