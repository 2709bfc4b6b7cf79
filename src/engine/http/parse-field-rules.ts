/** Field rules as an operator writes them: their text, and why a rule cannot be followed. Pure. */
import { type Action, type FieldRule, innerOf, type Kinds, matches } from './field-rules.ts';

/** Throws Error that says what is wrong, for people. */
export function parseRules(text: string): FieldRule[] {
  return text
    .split(/[\s,]+/)
    .filter(part => part !== '')
    .map(written => {
      if (/^[a-z_]+$/.test(written))
        return { kind: written, path: ['*'], action: { name: 'leave out' }, written, whole: true };
      const [, kind, path, action = 'leave-out', length] =
        /^([a-z_]+)\.([^:=.]+(?:\.[^:=.]+)*?)(?::(leave-out|hash|domain|truncate)(?:=(\d{1,6}))?)?$/.exec(written) ??
        [];
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
  for (const rule of rules) {
    const wrong = wrongName(kinds, rule) ?? wrongAction(kinds, rule) ?? wrongPair(kinds, rule, rules);
    if (wrong !== undefined) return `names ${wrong}`;
  }
  return undefined;
}

function wrongName(kinds: Kinds, { kind: name, path, written, whole }: FieldRule): string | undefined {
  if (!Object.hasOwn(kinds, name)) return `${name}, which is none of ${Object.keys(kinds).join(', ')}`;
  const kind = kinds[name]!;
  if (whole && !kind.omittable)
    return `${written} whole; only ${Object.keys(kinds)
      .filter(one => kinds[one]!.omittable)
      .join(', ')} can be left out whole: name fields, such as ${written}.${kind.fields[1] ?? '*'}`;
  const [field = '', inside] = path;
  const inner = innerOf(kind, field);
  if (inner !== undefined && path.length > 1) return `${written}; write ${inner}.${path.slice(1).join('.')}`;
  if (inner !== undefined) return `${written}, which holds ${inner}: name fields of ${inner} instead`;
  if (kind.needed.includes(field)) return `${written}, without which nothing can be mirrored`;
  if (field.includes('*')) return undefined;
  if (!kind.fields.includes(field)) return unknown(name, field, kind.fields);
  if (inside === undefined) return undefined;
  const names = kind.inside?.[field];
  if (names === undefined) return `${written}, but ${name}.${field} has no fields of its own`;
  return inside.includes('*') || names.includes(inside) ? undefined : unknown(`${name}.${field}`, inside, names);
}

const unknown = (of: string, field: string, names: readonly string[]) =>
  `${of}.${field}, which is no field of ${of}; the nearest is ${of}.${nearest(field, names)} (a field that the specification does not name needs a *, such as ${of}.${field}*)`;

function wrongAction(kinds: Kinds, { kind, path: [field = ''], action, written }: FieldRule): string | undefined {
  return action.name !== 'leave out' && kinds[kind]!.plain.includes(field)
    ? `${written}, but ${field} is no text: it can only be left out`
    : undefined;
}

/** What two rules make of a value would depend on their order. */
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

/** The name with the fewest changes of letters. */
export function nearest(name: string, names: readonly string[]): string {
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
