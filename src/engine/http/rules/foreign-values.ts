/**
 * Applies field rules to values of unknown meaning: unknown fields, and objects of any depth, which may contain records
 * of any kind. So each rule of the source removes fields of its name, and changes no value in another way. Pure.
 */
import { parseJson } from '../../exact-json.ts';
import { elementsOf, fieldsOf, objectOf } from '../../json-text.ts';

/** No record of a source is nested deeper. What is deeper is left out. */
const deepest = 30;

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

/** An unknown field of a record. `names`: patterns of the names that rules mean. Undefined: it is left out. */
export function foreignField(names: readonly string[], field: string, value: string): string | undefined {
  // The pattern `*` means every field of its own kind. So it does not match this field, but it matches all fields of a
  // record inside.
  return names.some(name => name !== '*' && matches(name, field)) ? undefined : foreignIn(names, value);
}

/** A value without the fields of these names, at any depth. */
export function foreignIn(names: readonly string[], json: string, depth = 0): string {
  if (json.startsWith('"')) return isDisguised(json, names) ? '""' : json;
  if (!/^[[{]/.test(json) || names.length === 0) return json;
  if (depth === deepest) return 'null';
  const inner = (one: string) => foreignIn(names, one, depth + 1);
  if (json.startsWith('[')) return `[${elementsOf(json).map(inner).join(',')}]`;
  const left = [...fieldsOf(json)].filter(([field]) => !isNamed(names, field));
  return objectOf(left.map(([field, value]) => [field, inner(value)]));
}

/**
 * An object, or a list of them, whose fields `known` are the specification's. The pattern `*` does not match the
 * content of these.
 */
export function foreignBeside(names: readonly string[], known: readonly string[], json: string): string {
  if (json.startsWith('['))
    return `[${elementsOf(json)
      .map(one => (one.startsWith('{') ? foreignBeside(names, known, one) : foreignIn(names, one)))
      .join(',')}]`;
  if (!json.startsWith('{')) return foreignIn(names, json);
  const named = names.filter(name => name !== '*');
  const fields = [...fieldsOf(json)].flatMap(([field, value]): [string, string][] => {
    const left = known.includes(field) ? foreignIn(named, value) : foreignField(names, field, value);
    return left === undefined ? [] : [[field, left]];
  });
  return objectOf(fields);
}

const isNamed = (names: readonly string[], field: string) => names.some(name => matches(name, field));

/** Whether a text is JSON that holds something with such a name. */
export function isDisguised(json: string, names: readonly string[]): boolean {
  if (!json.startsWith('"') || names.length === 0) return false;
  const text = (parseJson(json) as string).trim();
  if (!/^[[{"]/.test(text)) return false;
  try {
    parseJson(text);
  } catch {
    return false;
  }
  return holds(names, text, 0);
}

function holds(names: readonly string[], json: string, depth: number): boolean {
  if (depth === deepest) return true;
  if (json.startsWith('[')) return elementsOf(json).some(one => holds(names, one, depth + 1));
  if (json.startsWith('"')) return isDisguised(json, names);
  if (!json.startsWith('{')) return false;
  return [...fieldsOf(json)].some(([field, value]) => isNamed(names, field) || holds(names, value, depth + 1));
}
