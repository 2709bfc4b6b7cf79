/**
 * Field rules: values of the source that are left out, hashed, shortened, or reduced to a domain. They apply to the text of a reply
 * before anything reads it, so nothing of it can be stored or logged. Pure.
 *
 * A rule names a kind of record and a path in it: `messages.body`, `customers.*_name`, `contacts.value:hash`. It applies wherever a
 * record of this kind shows up, also within another one.
 */
import { createHmac } from 'node:crypto';
import type { Table } from '../commit/merge.ts';
import { elementsOf, fieldsOf, objectOf } from '../json-text.ts';

export type Action =
  | { readonly name: 'leave out' }
  | { readonly name: 'hash' }
  | { readonly name: 'domain' }
  /** To so many characters. */
  | { readonly name: 'truncate'; readonly length: number };

export interface FieldRule {
  /** `messages` */
  readonly kind: string;
  /** Names of fields, from the record inwards. A `*` in a name stands for any text. */
  readonly path: readonly string[];
  readonly action: Action;
  /** As the operator wrote it. */
  readonly written: string;
  /** Every field of the kind: its stream is not read at all. */
  readonly whole: boolean;
}

/** The kinds of records of a source, by name. */
export type Kinds = Readonly<Record<string, Kind>>;

export interface Kind {
  /** The fields that the specification names. */
  readonly fields: readonly string[];
  /** Fields that hold records of other kinds, with the kind. */
  readonly within: Readonly<Record<string, string>>;
  /** Fields without which a record cannot be mirrored. No rule applies to them. */
  readonly needed: readonly string[];
  /** Fields that hold no text: they can only be left out. */
  readonly plain: readonly string[];
  /** Nothing else is read by way of these records, so they may be left out whole. */
  readonly omittable?: boolean;
  /** Further tables with values of its fields, in columns of the same names. What a rule concerns is left out there. */
  readonly histories?: readonly { readonly table: string; readonly columns: readonly string[] }[];
  /** By field, what works no more, or with less, where it is left out. */
  readonly uses?: Readonly<Record<string, readonly string[]>>;
  /** Tables of its records, beside that of its own name in the merge of a stream. */
  readonly tables?: readonly Stored[];
}

export type Stored = Pick<Table, 'name' | 'rows' | 'key' | 'columns' | 'leftOut'>;

export interface FieldRules {
  readonly kinds: Kinds;
  readonly rules: readonly FieldRule[];
  /** Key of the hashes of this account. */
  readonly key: string;
}

/** Throws Error that says what is wrong, for people. */
export function parseRules(text: string): FieldRule[] {
  return text
    .split(/[\s,]+/)
    .filter(part => part !== '')
    .map(written => {
      if (/^[a-z_]+$/.test(written))
        return { kind: written, path: ['*'], action: { name: 'leave out' }, written, whole: true };
      const [, kind, path, action = 'leave-out', length] =
        /^([a-z_]+)\.([^:=]+?)(?::(leave-out|hash|domain|truncate)(?:=(\d{1,6}))?)?$/.exec(written) ?? [];
      const isLong = action === 'truncate';
      if (kind === undefined || path === undefined || isLong !== (length !== undefined))
        throw new Error(
          `must list fields such as messages.body, contacts.value:hash, messages.from:domain or tickets.subject:truncate=40; ${written} is none`,
        );
      return { kind, path: path.split('.'), action: actionOf(action, Number(length)), written, whole: false };
    });
}

function actionOf(name: string, length: number): Action {
  if (name === 'truncate') return { name, length };
  return { name: name === 'leave-out' ? 'leave out' : (name as 'hash' | 'domain') };
}

/** Why a rule cannot be followed, for people; undefined if all can. */
export function wrongRule(kinds: Kinds, rules: readonly FieldRule[]): string | undefined {
  for (const { kind: name, path, action, written, whole } of rules) {
    const kind = kinds[name];
    if (kind === undefined) return `names ${name}, which is none of ${Object.keys(kinds).join(', ')}`;
    if (whole && !kind.omittable)
      return `names ${written} whole; only ${Object.keys(kinds)
        .filter(one => kinds[one]!.omittable)
        .join(', ')} can be left out whole: name fields, such as ${written}.${kind.fields[1] ?? '*'}`;
    const [field = ''] = path;
    const inner = kind.within[field];
    if (inner !== undefined && path.length > 1) return `names ${written}; write ${inner}.${path.slice(1).join('.')}`;
    if (inner !== undefined) return `names ${written}, which holds ${inner}: name fields of ${inner} instead`;
    if (kind.needed.includes(field)) return `names ${written}, without which nothing can be mirrored`;
    if (action.name !== 'leave out' && kind.plain.includes(field))
      return `names ${written}, but ${field} is no text: it can only be left out`;
    if (field.includes('*') || kind.fields.includes(field)) continue;
    const near = nearest(field, kind.fields);
    return `names ${name}.${field}, which is no field of ${name}; the nearest is ${name}.${near} (a field that the specification does not name needs a *, such as ${name}.${field}*)`;
  }
  return undefined;
}

/** The name with the fewest changes of letters. */
function nearest(name: string, names: readonly string[]): string {
  const distance = (a: string, b: string) => {
    let row = Array.from({ length: b.length + 1 }, (_, i) => i);
    for (let i = 1; i <= a.length; i++) {
      const next = [i];
      for (let j = 1; j <= b.length; j++)
        next[j] = Math.min(next[j - 1]! + 1, row[j]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1));
      row = next;
    }
    return row.at(-1)!;
  };
  return [...names].sort((a, b) => distance(name, a) - distance(name, b))[0] ?? '';
}

/** Whether any rule concerns a record of this kind, or one within it. */
export function concernsKind({ kinds, rules }: Pick<FieldRules, 'kinds' | 'rules'>, kind: string): boolean {
  const found = new Set<string>();
  const look = (one: string): boolean => {
    if (found.has(one)) return false;
    found.add(one);
    return rules.some(rule => rule.kind === one) || Object.values(kinds[one]?.within ?? {}).some(look);
  };
  return look(kind);
}

/** The text of a record, or of an array of them, as the rules want it. The text must be valid JSON. */
export function applyRules(of: FieldRules, kind: string, json: string): string {
  const text = json.trim();
  if (text === 'null') return text;
  if (text.startsWith('['))
    return `[${elementsOf(text)
      .map(one => applyRules(of, kind, one))
      .join(',')}]`;
  // What has another shape than a record may hold anything.
  if (!text.startsWith('{')) return concernsKind(of, kind) ? 'null' : text;
  const { within, needed } = of.kinds[kind]!;
  const rules = of.rules.filter(rule => rule.kind === kind).map(({ path, action }) => ({ path, action }));
  const kept = [...fieldsOf(text)].flatMap(([name, value]): [string, string][] => {
    if (within[name] !== undefined) return [[name, applyRules(of, within[name], value)]];
    if (needed.includes(name)) return [[name, value]];
    const ruled = ruledBy(of, rules, name, value);
    return ruled === undefined ? [] : [[name, ruled]];
  });
  return objectOf(kept);
}

/** Whether a rule concerns this field of a record. */
export const isRuled = ({ rules }: Pick<FieldRules, 'rules'>, kind: string, field: string): boolean =>
  rules.some(rule => rule.kind === kind && matches(rule.path[0]!, field));

/** A value of a field, or an array of them, as the rules of its record want it. Undefined: it is left out. */
export function ruledValue(of: FieldRules, kind: string, field: string, json: string): string | undefined {
  const { within, needed } = of.kinds[kind]!;
  if (within[field] !== undefined) return applyRules(of, within[field], json);
  if (needed.includes(field)) return json;
  return ruledBy(
    of,
    of.rules.filter(rule => rule.kind === kind),
    field,
    json,
  );
}

type Part = Pick<FieldRule, 'path' | 'action'>;

/** The value of a field; undefined: it is left out. */
function ruledBy(of: FieldRules, rules: readonly Part[], name: string, value: string): string | undefined {
  const inner: Part[] = [];
  let text: string | undefined = value;
  for (const { path, action } of rules) {
    if (!matches(path[0]!, name)) continue;
    if (path.length > 1) inner.push({ path: path.slice(1), action });
    else if (text !== undefined) text = changed(of, action, text);
  }
  return text === undefined || inner.length === 0 ? text : deeper(of, inner, text);
}

function deeper(of: FieldRules, rules: readonly Part[], value: string): string | undefined {
  if (value.startsWith('['))
    return `[${elementsOf(value)
      .map(one => deeper(of, rules, one) ?? 'null')
      .join(',')}]`;
  // A value that has no fields is not what the rule means by its path, and may hold the same.
  if (!value.startsWith('{')) return value === 'null' ? value : undefined;
  return objectOf(
    [...fieldsOf(value)].flatMap(([name, text]): [string, string][] => {
      const ruled = ruledBy(of, rules, name, text);
      return ruled === undefined ? [] : [[name, ruled]];
    }),
  );
}

export const matches = (pattern: string, name: string): boolean =>
  pattern === name ||
  (pattern.includes('*') &&
    new RegExp(
      `^${pattern
        .split('*')
        .map(part => part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
        .join('.*')}$`,
      's',
    ).test(name));

/** What is changed already stays: rules apply to stored records too, and to some of them again. */
function changed(of: FieldRules, action: Action, value: string): string | undefined {
  if (action.name === 'leave out') return undefined;
  if (value === 'null') return value;
  if (value.startsWith('['))
    return `[${elementsOf(value)
      .map(one => changed(of, action, one) ?? 'null')
      .join(',')}]`;
  const text = value.startsWith('"') ? (JSON.parse(value) as string) : undefined;
  if (action.name === 'hash') return JSON.stringify(hashOf(of.key, text ?? value));
  if (text === undefined) return undefined;
  if (action.name === 'truncate') return JSON.stringify([...text].slice(0, action.length).join(''));
  const domains = domainsOf(text);
  return domains === undefined ? undefined : JSON.stringify(domains);
}

const hashOf = (key: string, text: string): string =>
  /^h:[0-9a-f]{32}$/.test(text) ? text : `h:${createHmac('sha256', key).update(text).digest('hex').slice(0, 32)}`;

const domain = String.raw`@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+`;
const alone = new RegExp(`^${domain}(?:, ${domain})*$`, 'u');
const addresses = new RegExp(`(?<=[^\\s@<>",;])${domain}`, 'gu');

/** `@b.com, @c.de`; undefined if there is none. */
function domainsOf(text: string): string | undefined {
  if (alone.test(text)) return text;
  const found = [...text.matchAll(addresses)].map(([one]) => one.toLowerCase());
  return found.length === 0 ? undefined : [...new Set(found)].join(', ');
}
