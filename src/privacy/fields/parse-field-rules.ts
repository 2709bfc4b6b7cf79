/** Field rules as an operator writes them: their text, and why a rule cannot be followed. Pure. */
import { shortOfKey } from '../../engine/database/stream-key.ts';
import { nearest } from '../../words.ts';
import { type Action, type FieldRule, innerOf, type Kinds } from './field-rules.ts';
import { matches } from './foreign-values.ts';

/** Throws Error that says what is wrong, for people. */
export function parseRules(text: string, kinds: Kinds): FieldRule[] {
  return text
    .split(/[\s,]+/)
    .filter(part => part !== '')
    .map(written => {
      const [, names, action, length] =
        /^([a-z][a-z0-9_]*(?:\.[^:=.]+)*)(?::(leave-out|hash|domain|truncate)(?:=(\d{1,6}))?)?$/.exec(written) ?? [];
      const { kind, path } = meant(kinds, names?.split('.') ?? [], written);
      const isLong = action === 'truncate';
      const whole = path.length === 0;
      if (names === undefined || isLong !== (length !== undefined) || (whole && action !== undefined))
        throw new Error(
          `must list fields such as messages.body, contacts.value:hash, messages.from:domain or tickets.subject:truncate=40; ${written} is none`,
        );
      const how = action === undefined || action === 'leave-out' ? '' : written.slice(names.length);
      return {
        ...{ kind, path: whole ? ['*'] : path, action: actionOf(action, Number(length)) },
        ...{ written, full: [kind, ...path].join('.') + how, whole },
      };
    });
}

/**
 * The kind that a rule names, by its key or by a short name that one source alone has, and the path behind it. A key of no kind is
 * returned too.
 */
function meant(kinds: Kinds, names: readonly string[], written: string): Pick<FieldRule, 'kind' | 'path'> {
  const [first = '', ...inner] = names;
  const key = names.slice(0, 2).join('.');
  const byKey = { kind: key, path: names.slice(2) };
  const isKey = Object.hasOwn(kinds, key);
  // A source may have the name of a kind. Then a key means a field of that kind too only where it has one.
  const found = Object.keys(kinds)
    .filter(kind => shortOfKey(kind) === first && (!isKey || kinds[kind]!.fields.includes(inner[0]!)))
    .map(kind => ({ kind, path: inner }));
  if (isKey) found.push(byKey);
  if (found.length > 1) {
    const each = found.map(({ kind, path }) => [kind, ...path].join('.') + written.slice(names.join('.').length));
    throw new Error(`must name the source, because ${written} may mean ${each.join(' or ')}`);
  }
  const isOfSource = inner.length > 0 && Object.keys(kinds).some(kind => kind.startsWith(`${first}.`));
  return found[0] ?? (isOfSource ? byKey : { kind: first, path: inner });
}

/** The short name of a kind, or its key if another source has the name too. */
const nameIn = (kinds: Kinds, key: string): string => {
  const name = shortOfKey(key);
  return Object.keys(kinds).filter(kind => shortOfKey(kind) === name).length > 1 ? key : name;
};

function actionOf(name: string | undefined, length: number): Action {
  if (name === 'truncate') return { name, length };
  return { name: name === 'hash' || name === 'domain' ? name : 'leave out' };
}

/** Why a rule cannot be followed, for people; undefined if all can. */
export function wrongRule(kinds: Kinds, rules: readonly FieldRule[]): string | undefined {
  for (const rule of rules) {
    const wrong = wrongName(kinds, rule) ?? wrongAction(kinds, rule) ?? wrongPair(kinds, rule, rules);
    if (wrong !== undefined) return `names ${wrong}`;
  }
  return undefined;
}

function wrongName(kinds: Kinds, { kind: key, path, written, whole }: FieldRule): string | undefined {
  const names = (keys: readonly string[]) => keys.map(one => nameIn(kinds, one));
  if (!Object.hasOwn(kinds, key)) return `${key}, which is none of ${names(Object.keys(kinds)).join(', ')}`;
  const kind = kinds[key]!;
  const name = nameIn(kinds, key);
  const omittable = Object.keys(kinds).filter(one => kinds[one]!.omittable);
  if (whole && !kind.omittable)
    return `${written} whole; only ${names(omittable).join(', ')} can be left out whole: name fields, such as ${written}.${kind.fields[1] ?? '*'}`;
  const [field = '', inside] = path;
  const innerKey = innerOf(kind, field);
  const inner = innerKey && nameIn(kinds, innerKey);
  if (inner !== undefined && path.length > 1) return `${written}; write ${inner}.${path.slice(1).join('.')}`;
  if (inner !== undefined) return `${written}, which holds ${inner}: name fields of ${inner} instead`;
  if (kind.needed.includes(field)) return `${written}, without which nothing can be mirrored`;
  if (field.includes('*')) return undefined;
  if (!kind.fields.includes(field)) return unknown(name, field, kind.fields);
  if (inside === undefined) return undefined;
  const fields = kind.inside?.[field];
  if (fields === undefined) return `${written}, but ${name}.${field} has no fields of its own`;
  return inside.includes('*') || fields.includes(inside) ? undefined : unknown(`${name}.${field}`, inside, fields);
}

const unknown = (of: string, field: string, names: readonly string[]) =>
  `${of}.${field}, which is no field of ${of}; the nearest is ${of}.${nearest(field, names, Infinity)} (a field that the specification does not name needs a *, such as ${of}.${field}*)`;

function wrongAction(kinds: Kinds, { kind, path: [field = ''], action, written }: FieldRule): string | undefined {
  return action.name !== 'leave out' && kinds[kind]!.plain.includes(field)
    ? `${written}, but ${field} is no text: it can only be left out`
    : undefined;
}

/** Two rules whose result would depend on their order. */
function wrongPair(kinds: Kinds, rule: FieldRule, rules: readonly FieldRule[]): string | undefined {
  const other = rules.find(
    ({ kind, path, action }) =>
      kind === rule.kind &&
      [action, rule.action].every(({ name }) => name !== 'leave out') &&
      JSON.stringify(action) !== JSON.stringify(rule.action) &&
      path.length === rule.path.length &&
      path.every((one, i) => overlap(one, rule.path[i]!, kinds[kind]!.fields)),
  );
  return other && `${rule.written} and ${other.written}, which change the same field: keep one of them`;
}

const overlap = (one: string, other: string, names: readonly string[]) =>
  matches(one, other) || matches(other, one) || names.some(name => matches(one, name) && matches(other, name));
