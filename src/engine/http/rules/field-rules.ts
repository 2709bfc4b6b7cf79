/**
 * Field rules: values of the source that are left out, hashed, shortened, or reduced to a domain. They apply to the text of a reply
 * before anything reads it, so nothing of it can be stored or logged. Pure.
 *
 * A rule names a kind of record and a path in it: `messages.body`, `customers.*_name`, `contacts.value:hash`. It applies wherever a
 * record of this kind shows up, also within another one. Kinds have keys, `helpdesk.messages`, because two sources may use one name.
 */

import { createHmac } from 'node:crypto';
import type { Table } from '../../commit/merge.ts';
import { sourceOfKey } from '../../database/stream-key.ts';
import { parseJson } from '../../exact-json.ts';
import { elementsOf, fieldsOf, objectOf } from '../../json-text.ts';
import { emptied, fits, type Shape } from '../shapes.ts';
import { foreignBeside, foreignField, foreignIn, isDisguised, matches } from './foreign-values.ts';

export type Action =
  | { readonly name: 'leave out' }
  | { readonly name: 'hash' }
  | { readonly name: 'domain' }
  /** Keeps the first `length` characters. */
  | { readonly name: 'truncate'; readonly length: number };

export interface FieldRule {
  /** `helpdesk.messages` */
  readonly kind: string;
  /** Names of fields, from the record inwards. A `*` in a name stands for any text. */
  readonly path: readonly string[];
  readonly action: Action;
  /** The rule in the spelling of the operator. */
  readonly written: string;
  /** The rule with the key of its kind: equal for two rules with the same meaning. */
  readonly full: string;
  /** Every field of the kind: its stream is not read at all. */
  readonly whole: boolean;
}

/** Kinds of records, by key. A source declares its own ones by short names. */
export type Kinds = Readonly<Record<string, Kind>>;

export interface Kind {
  /** The fields that the specification names. */
  readonly fields: readonly string[];
  /** Shapes of the values of these fields. A value of another shape is emptied. */
  readonly shapes?: Readonly<Record<string, Shape>>;
  /** Fields with a shape that hold ids, times, or words of a list. They are no free texts, so none of them is JSON. */
  readonly words?: readonly string[];
  /** Fields with times, among `words`. */
  readonly times?: readonly string[];
  /** Fields that hold records of other kinds, with the kind. */
  readonly within: Readonly<Record<string, string>>;
  /** Fields that hold an object, with the names of its fields. */
  readonly inside?: Readonly<Record<string, readonly string[]>>;
  /** Fields without which a record cannot be mirrored. No rule applies to them. */
  readonly needed: readonly string[];
  /** Fields that hold no text: they can only be left out. */
  readonly plain: readonly string[];
  /** No other data depends on these records, so they may be left out whole. */
  readonly omittable?: boolean;
  /** Further tables with values of its fields, in columns of the same names. Rules apply to them too. */
  readonly histories?: readonly { readonly table: string; readonly columns: readonly string[] }[];
  /** For each field, the features that stop or weaken if it is left out. */
  readonly uses?: Readonly<Record<string, readonly string[]>>;
  /** Further tables of its records, in addition to the table in the merge of a stream. */
  readonly tables?: readonly Stored[];
}

export type Stored = Pick<Table, 'name' | 'rows' | 'key' | 'columns' | 'leftOut'>;

export interface FieldRules {
  readonly kinds: Kinds;
  readonly rules: readonly FieldRule[];
  /** Key of the hashes of this account. */
  readonly key: string;
  /**
   * For stored records, some of which followed the rules on arrival: a value that already has the form of the rule
   * stays.
   */
  readonly isAgain?: boolean;
}

type Chosen = Pick<FieldRules, 'kinds' | 'rules'>;

/** The kind of the records in a field. Fields have the names of strangers: `constructor` is one. */
export const innerOf = ({ within }: Kind, field: string): string | undefined =>
  Object.hasOwn(within, field) ? within[field] : undefined;

/** The kind of records whose source declares none. */
const unknownKind: Kind = { fields: [], within: {}, needed: ['id'], plain: [] };
export const kindOf = ({ kinds }: Pick<FieldRules, 'kinds'>, key: string): Kind =>
  Object.hasOwn(kinds, key) ? kinds[key]! : unknownKind;

/** The rules of a kind: its own, and those that leave out a kind whole that has it within. */
export function rulesFor({ kinds, rules }: Chosen, kind: string): FieldRule[] {
  const holders = new Set([kind]);
  for (const holder of holders)
    for (const [name, { within }] of Object.entries(kinds))
      if (Object.values(within).includes(holder)) holders.add(name);
  return rules.filter(rule => rule.kind === kind || (rule.whole && holders.has(rule.kind)));
}

/**
 * Whether any rule concerns a record of this kind: one of its source. A record of any kind may show a value of another shape than
 * the specification's, or an unknown field, and in it any other record.
 */
export const concernsKind = ({ rules }: Chosen, kind: string): boolean =>
  rules.some(rule => sourceOfKey(rule.kind) === sourceOfKey(kind));

/** The names of the values that the rules of the source of a kind mean. */
const foreignOf = ({ rules }: Chosen, kind: string): string[] =>
  rules.filter(rule => sourceOfKey(rule.kind) === sourceOfKey(kind)).map(({ path }) => path.at(-1)!);

/** The text of a record, or of an array of them, as the rules want it. The text must be valid JSON. */
export function applyRules(of: FieldRules, kind: string, json: string): string {
  const text = json.trim();
  if (!concernsKind(of, kind) || text === 'null') return text;
  if (!text.startsWith('[')) return recordOf(of, kind, text);
  return `[${elementsOf(text)
    .map(one => recordOf(of, kind, one))
    .join(',')}]`;
}

/** A value that is no record may hold anything, so it is left out. */
function recordOf(of: FieldRules, kind: string, text: string): string {
  if (!text.startsWith('{')) return 'null';
  const fields = fieldsOf(text);
  if (!/^["\d-]/.test(fields.get('id') ?? '')) return 'null';
  if (isDisguised(fields.get('id')!, foreignOf(of, kind))) return 'null';
  const rules = rulesFor(of, kind);
  return objectOf(
    [...fields].flatMap(([name, value]): [string, string][] => {
      const ruled = ruledField(of, rules, kind, name, value);
      return ruled === undefined ? [] : [[name, ruled]];
    }),
  );
}

/** Whether a rule concerns the field at this path of a record, something around it, or something in it. */
export function isRuled(of: Chosen, kind: string, ...at: readonly string[]): boolean {
  const [field = '', ...inner] = at;
  const within = inner.length > 0 ? innerOf(kindOf(of, kind), field) : undefined;
  if (within !== undefined && isRuled(of, within, ...inner)) return true;
  return rulesFor(of, kind).some(({ path }) => path.every((name, i) => at[i] === undefined || matches(name, at[i])));
}

/** A value of a field, as the rules of its record want it. Undefined: it is left out. */
export const ruledValue = (of: FieldRules, kind: string, field: string, value: string): string | undefined =>
  ruledField(of, rulesFor(of, kind), kind, field, value);

/** Applies the rules of a record to the old and the new value of a field, an array. Undefined: both are left out. */
export function ruledValues(of: FieldRules, kind: string, field: string, values: string): string | undefined {
  const ruled = elementsOf(values).map(one => ruledValue(of, kind, field, one));
  return ruled.every(one => one === undefined) ? undefined : `[${ruled.map(one => one ?? 'null').join(',')}]`;
}

/** The value of a field; undefined: it is left out. */
function ruledField(
  of: FieldRules,
  all: readonly FieldRule[],
  name: string,
  field: string,
  value: string,
): string | undefined {
  const kind = kindOf(of, name);
  const inner = innerOf(kind, field);
  if (inner !== undefined) return applyRules(of, inner, value);
  const rules = all.filter(({ path }) => matches(path[0]!, field));
  const shape = kind.shapes !== undefined && Object.hasOwn(kind.shapes, field) ? kind.shapes[field] : undefined;
  const isNeeded = kind.needed.includes(field);
  if (shape !== undefined && !fits(shape, value))
    return !isNeeded && rules.some(leavesOut) ? undefined : emptied(value);
  if (isNeeded && rules.length > 0 && /^[[{]/.test(value)) return undefined;
  const isPlain = kind.plain.includes(field) && value !== 'null';
  if (isPlain && rules.some(({ path, action }) => path.length === 1 && action.name !== 'leave out')) return undefined;
  const ruled = isNeeded ? value : ruledBy(of, rules, field, value);
  if (ruled === undefined) return undefined;
  const foreign = foreignOf(of, name);
  if (shape === undefined && rules.some(({ path }) => path.length === 1)) return ruled;
  const inside = kind.inside !== undefined && Object.hasOwn(kind.inside, field) ? kind.inside[field] : undefined;
  if (inside !== undefined) return foreignBeside(foreign, inside, ruled);
  if (shape === undefined) {
    if (kind.fields.includes(field)) return foreignIn(foreign, ruled);
    return foreignField(foreign, field, likeRecords(of, name, field, ruled));
  }
  if (!kind.words?.includes(field)) return ruled;
  const isTime = foreign.length > 0 && kind.times?.includes(field);
  const isOther = (one: string) => isDisguised(one, foreign) || (isTime && !isDate(one));
  return eachOf(ruled, one => (isOther(one) ? emptied('{}') : one));
}

const isDate = (json: string) => !json.startsWith('"') || !Number.isNaN(Date.parse(parseJson(json) as string));

/**
 * Applies rules to an unknown field that has the name of a kind. Values that are no records of that kind are left out.
 */
function likeRecords(of: FieldRules, name: string, field: string, value: string): string {
  const source = sourceOfKey(name);
  const isLike = ([key, kind]: [string, Kind]) => {
    const like = key === `${source}.${field}` ? key : innerOf(kind, field);
    return sourceOfKey(key) === source && like !== undefined && rulesFor(of, like).length > 0;
  };
  return Object.entries(of.kinds).some(isLike) ? onlyRecords(value) : value;
}

const onlyRecords = (value: string): string => eachOf(value, one => (one.startsWith('{') ? one : 'null')) ?? 'null';

const leavesOut = ({ path, action }: Part) => path.length === 1 && action.name === 'leave out';

type Part = Pick<FieldRule, 'path' | 'action'>;

function ruledBy(of: FieldRules, rules: readonly Part[], name: string, value: string): string | undefined {
  const inner: Part[] = [];
  let text: string | undefined = value;
  for (const { path, action } of rules) {
    if (!matches(path[0]!, name)) continue;
    if (path.length > 1) inner.push({ path: path.slice(1), action });
    else if (text !== undefined) text = changed(of, action, text);
  }
  if (text === undefined || inner.length === 0) return text;
  return eachOf(text, one => deeper(of, inner, one));
}

/** An array directly within another one is another shape than any value has, and may be of any depth. */
function eachOf(value: string, act: (one: string) => string | undefined): string | undefined {
  if (!value.startsWith('[')) return act(value);
  return `[${elementsOf(value)
    .map(one => (one.startsWith('[') ? 'null' : (act(one) ?? 'null')))
    .join(',')}]`;
}

function deeper(of: FieldRules, rules: readonly Part[], value: string): string | undefined {
  // A value that has no fields is not what the rule means by its path, and may hold the same.
  if (!value.startsWith('{')) return value === 'null' ? value : undefined;
  return objectOf(
    [...fieldsOf(value)].flatMap(([name, text]): [string, string][] => {
      const ruled = ruledBy(of, rules, name, text);
      return ruled === undefined ? [] : [[name, ruled]];
    }),
  );
}

function changed(of: FieldRules, action: Action, value: string): string | undefined {
  if (action.name === 'leave out') return undefined;
  return eachOf(value, one => changedOne(of, action, one));
}

function changedOne(of: FieldRules, action: Exclude<Action, { name: 'leave out' }>, value: string): string | undefined {
  if (value === 'null') return value;
  const text = value.startsWith('"') ? (parseJson(value) as string) : undefined;
  if (action.name === 'hash') {
    const isHash = of.isAgain && text !== undefined && /^h:[0-9a-f]{32}$/.test(text);
    return isHash
      ? value
      : JSON.stringify(
          `h:${createHmac('sha256', of.key)
            .update(formOf(text ?? value))
            .digest('hex')
            .slice(0, 32)}`,
        );
  }
  if (text === undefined) return undefined;
  if (action.name === 'truncate') return JSON.stringify([...text].slice(0, action.length).join(''));
  const domains = of.isAgain && alone.test(text) ? text : domainsOf(text);
  return domains === undefined ? undefined : JSON.stringify(domains);
}

/** As sync.contact_form in SQL: all spellings of an address have one hash, so that tables join by it. */
// @internal Tests hold it against sync.contact_form.
export function formOf(value: string): string {
  const text = value.replace(/^ +| +$/g, '');
  if (/^\+?[0-9 ()./-]{3,}$/.test(text)) return (text.startsWith('+') ? '+' : '') + text.replace(/[^0-9]/g, '');
  return lower(text.replace(/^@+/, ''));
}

/** As PostgreSQL's own collation does: letter by letter, each into one. */
const lower = (text: string): string =>
  Array.from(text, letter => String.fromCodePoint(letter.toLowerCase().codePointAt(0)!)).join('');

const domain = String.raw`@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+`;
const alone = new RegExp(`^${domain}(?:, ${domain})*$`, 'u');
const addresses = new RegExp(`(?<=[^\\s@<>",;])${domain}`, 'gu');

/** `@b.com, @c.de`; undefined if there is none. */
function domainsOf(text: string): string | undefined {
  const found = [...text.matchAll(addresses)].map(([one]) => lower(one));
  return found.length === 0 ? undefined : [...new Set(found)].join(', ');
}
