/**
 * A record of a source, declared once: the type of each field, its place, what it means, and what it says of people. What checks,
 * stores, masks, erases and documents the record is made of the declaration, by pure functions.
 *
 * A text does not compile as a field until it says what it tells of people: `text('Last name.').personal('name')`, or
 * `text('Currency.').plain()`.
 */

/** What a value tells of a person. A person is recognised by a `contact`: an address or a number. */
type Tells = 'name' | 'contact' | 'text';

export type SqlType = 'text' | 'text[]' | 'bigint' | 'numeric' | 'boolean' | 'timestamptz' | 'date';

/** What is known of a field at run time. */
export interface Facts {
  /**
   * `column`: a value in a column. `known`: one without. `object`, `objects`: an object whose fields may have columns, or a list of
   * objects. `texts by name`: an object of texts. `children`: records with a table of their own. `embedded`: records of another stream.
   */
  readonly is: 'column' | 'known' | 'object' | 'objects' | 'texts by name' | 'children' | 'embedded';
  readonly type: SqlType;
  /** Comment of the column. */
  readonly says?: string;
  /** A record without a valid value is rejected. */
  readonly required?: boolean;
  /** Without it nothing can be mirrored, though a record may lack it: no field rule takes it away. */
  readonly needed?: boolean;
  readonly isId?: boolean;
  /** An id that the source writes as a number. A text of at most 100 characters is an id too. */
  readonly isNumber?: boolean;
  /** Name of the column, if it is not that of the field in words with `_` between them. */
  readonly column?: string;
  /** The stream whose records the ids mean, or that are embedded. */
  readonly of?: string;
  /** Values of the specification. Any other value is drift, and is stored unchanged. */
  readonly values?: readonly string[];
  readonly tells?: Tells;
  /** The field with the contact of the person of this name. A name that holds an @ is a contact too. */
  readonly nameOf?: string;
  /** `_payload` lacks the value: a long text with a column of its own. */
  readonly apart?: boolean;
  /** It varies from reply to reply without a change: `_payload` lacks the value. */
  readonly varies?: boolean;
  /** 0 means that the number is not known. */
  readonly unlessZero?: boolean;
  /** Further columns that are computed of the value, with their comments. */
  readonly computed?: Readonly<Record<string, string>>;
  /** Only what stands before these characters tells of nobody. */
  readonly upTo?: string;
  /** A name that people give to a thing. It tells of somebody only where it looks like an address. */
  readonly isTitle?: boolean;
  /** Name of a column that shows readers without the right to personal data how long the text is. */
  readonly length?: string;
  readonly record?: AnyRecord;
  /** The fields of an object. */
  readonly fields?: Fields;
  /** Records that no request asks for: where they show up, they are drift. */
  readonly unasked?: boolean;
}

/** The name of a property that only a field has which has said what it tells: the error of the compiler shows it. */
const said = "say .personal('name' | 'contact' | 'text'), .plain() or .title()";

/** `T`: the value in a checked record. `S`: the type of the column. */
export interface Field<T, S extends SqlType = SqlType> extends Omit<Facts, 'tells'> {
  readonly type: S;
  readonly [said]: T;
}

export type Fields = Readonly<Record<string, Field<unknown>>>;

export interface RecordOf<N extends string, F extends Fields> {
  /** Name of the stream, or of the parts of a record, and of their table. */
  readonly name: N;
  /** Comment of the table. */
  readonly says: string;
  readonly fields: F;
  /** Ids and other texts may be numbers at the source. Each digit of them stays. */
  readonly mayBeNumbers?: boolean;
  /** A value of another type is drift, and stays in `_payload`. It rejects no record; only an id that cannot be read does. */
  readonly lenient?: boolean;
}
interface Lenient<N extends string, F extends Fields> extends RecordOf<N, F> {
  readonly lenient: true;
}
// biome-ignore lint/suspicious/noExplicitAny: a record of any fields
export type AnyRecord = RecordOf<string, any>;

type TypeOf<X> = X extends Field<infer T> ? T : never;
type Values<F> = { readonly [K in keyof F as undefined extends TypeOf<F[K]> ? never : K]: TypeOf<F[K]> } & {
  readonly [K in keyof F as undefined extends TypeOf<F[K]> ? K : never]?: TypeOf<F[K]>;
};
/** A record that was checked. */
export type Value<R extends AnyRecord> = R extends { readonly lenient: true }
  ? { id: string; readonly [field: string]: unknown }
  : Values<R['fields']> extends infer O
    ? { [K in keyof O]: O[K] }
    : never;

// --- fields --------------------------------------------------------------------------------------------------------

const field = <T, S extends SqlType>(facts: Facts & { readonly type: S }) => facts as Field<T, S>;
const column = <T, S extends SqlType>(type: S, facts: Omit<Facts, 'is' | 'type'>) =>
  field<T, S>({ is: 'column', type, ...facts });

type May<T> = T | null | undefined;
type Needed = Pick<Facts, 'needed'>;
type Named = Needed & Pick<Facts, 'column'>;
type More = Pick<Facts, 'column' | 'apart' | 'computed' | 'length' | 'nameOf'>;

/** A value that has not said yet what it tells of people. It is no field. */
interface Unsaid<T, S extends SqlType> {
  personal(tells: Tells, more?: More): Field<May<T>, S> & { readonly tells: Tells };
  plain(more?: More & Pick<Facts, 'upTo'>): Field<May<T>, S>;
  title(): Field<May<T>, S>;
}
const unsaid = <T, S extends SqlType>(type: S, says: string): Unsaid<T, S> => ({
  personal: (tells, more) => ({ ...column<May<T>, S>(type, { says, tells, ...more }), tells }),
  plain: more => column(type, { says, ...more }),
  title: () => column(type, { says, isTitle: true }),
});

export const text = (says: string) => unsaid<string, 'text'>('text', says);
export const texts = (says: string) => unsaid<readonly string[], 'text[]'>('text[]', says);

/** Opaque text. */
export const id = (more?: Pick<Facts, 'says' | 'isNumber'>) =>
  column<string, 'text'>('text', { required: true, isId: true, ...more });

/** Ids of records of a stream. */
export const reference = (of: string, says: string, more?: Needed) =>
  column<May<string>, 'text'>('text', { of, says, ...more });
export const references = (of: string, says: string) =>
  column<May<readonly string[]>, 'text[]'>('text[]', { of, says });

/** `says`: the words before the values in the comment, or with a full stop the whole comment. */
export const oneOf = <const V extends readonly string[]>(values: V, says = '') => {
  const words = `${says}${values.slice(0, -1).join(', ')} or ${values.at(-1)}. Other values are stored unchanged.`;
  const facts = { values, says: says.endsWith('.') ? says : words };
  return {
    ...column<May<string>, 'text'>('text', facts),
    personal: (tells: Tells) => column<May<string>, 'text'>('text', { ...facts, tells }),
  };
};

/** An integer of any size. */
export const integer = (says: string, more?: Needed & Pick<Facts, 'unlessZero'>) =>
  column<May<number>, 'bigint'>('bigint', { says, ...more });
export const number = (says: string, more?: Named) => column<May<number>, 'numeric'>('numeric', { says, ...more });
export const flag = (says: string, more?: Needed) => column<May<boolean>, 'boolean'>('boolean', { says, ...more });
export const time = (says: string, more?: Named) => ({
  ...column<May<string>, 'timestamptz'>('timestamptz', { says, ...more }),
  /** A record without the time is rejected. */
  always: () => column<string, 'timestamptz'>('timestamptz', { says, required: true, ...more }),
});

/** A day without a time. A birthday says `.personal('text')`. */
export const date = (says: string, more?: Named) => ({
  ...column<May<string>, 'date'>('date', { says, ...more }),
  personal: (tells: Tells) => column<May<string>, 'date'>('date', { says, tells, ...more }),
});

type Beside = Pick<Facts, 'varies' | 'computed'>;
const beside = (is: Facts['is'], facts: Beside & Pick<Facts, 'fields'> = {}, type: SqlType = 'text') =>
  field<unknown, SqlType>({ is, type, ...facts });

/** A field that the source is known to have, without a column. */
export const known = (type: SqlType, more?: Beside) => beside('known', more, type);
/** Erasure does not look into an object, so nothing in it is personal. */
type Impersonal = Readonly<Record<string, Field<unknown> & { readonly tells?: never }>>;
export const object = (fields: Impersonal, more?: Beside) => beside('object', { fields, ...more });
export const objects = (fields: Impersonal, more?: Beside) => beside('objects', { fields, ...more });
export const textsByName = (more?: Beside) => beside('texts by name', more);

/** Records within the record, which have a table of their own and are replaced as a set. */
export const children = <R extends AnyRecord>(record: R) =>
  field<May<readonly Value<R>[]>, 'text'>({ is: 'children', type: 'text', record });

/** Records of another stream within the record. They have no column, and `_payload` lacks them. */
export const embedded = (of: string) => field<unknown, 'text'>({ is: 'embedded', type: 'text', of });
/** The same, if no request asks for them: where they show up, they are drift. Without a stream, nothing is known of them. */
export const unasked = (of?: string) =>
  field<unknown, 'text'>({ is: 'embedded', type: 'text', ...(of !== undefined && { of }), unasked: true });

type WithId<F extends Fields> = F & { readonly id: Field<string> };
export const record = <const N extends string, F extends Fields>(
  name: N,
  says: string,
  fields: WithId<F>,
): RecordOf<N, F> => ({ name, says, fields });

/** Words that SQL reserves, and what merges call a record and its place: no names of columns and tables. */
const reserved = new Set(
  [
    'all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation column concurrently',
    'constraint create cross default',
    'deferrable desc distinct do else end except false fetch for foreign freeze from full grant group having ilike in initially inner',
    'intersect into is isnull join lateral leading left like limit localtime localtimestamp natural not notnull null offset on only or',
    'order outer overlaps placing primary references returning right select session_user similar some symmetric system_user table',
    'tablesample then to trailing true union unique user using variadic verbose when where window with xmin xmax cmin cmax ctid tableoid',
    'record n',
  ]
    .join(' ')
    .split(' '),
);

/** `firstName` → `first_name`, `order` → `order_` */
export function columnNameOf(field: string): string {
  const name = field
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replace(/\W+/g, '_')
    .toLowerCase();
  const isReserved = reserved.has(name) || /^current_(catalog|date|role|schema|time|timestamp|user)$/.test(name);
  return isReserved ? `${name}_` : name;
}

/** A record of a source that names no types: see `lenient`. */
export const lenientRecord = <const N extends string, F extends Fields>(
  name: N,
  says: string,
  fields: WithId<F>,
): Lenient<N, F> => ({ name, says, fields, lenient: true });

type Placed = readonly [path: string, facts: Facts & { readonly column: string }];

/** The fields of a record and of the objects in it, by their paths: `info.title`. */
export const allFields = ({ fields }: Pick<AnyRecord, 'fields'>, within = ''): Placed[] =>
  Object.entries(fields as Fields).flatMap(([name, facts]): Placed[] => {
    const column = facts.column ?? columnNameOf(name);
    const inner = facts.is === 'object' ? allFields(facts as { fields: Fields }, `${within}${name}.`) : [];
    return [[within + name, { ...facts, column }], ...inner];
  });

export const fieldsThatAre = (of: AnyRecord, is: Facts['is']): Placed[] =>
  allFields(of).filter(([, facts]) => facts.is === is);

/** Columns that are computed of others, with their comments. */
export const computedOf = ({ computed = {} }: Facts): [column: string, says: string][] => Object.entries(computed);
