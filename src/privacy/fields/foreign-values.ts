/**
 * Values whose place says nothing of what they are: unknown fields, and what stands in objects of any depth. A record of any kind
 * may stand there. So each rule of the source takes out what has its name, and no value of it is changed in another way. Pure.
 */
import { parseJson } from '../../engine/exact-json.ts';
import { elementsOf, fieldsOf, objectOf } from '../../engine/json-text.ts';

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
  // A `*` alone means every field of its own kind. It says nothing of one field of another kind, but all of a record in it.
  return names.some(name => name !== '*' && matches(name, field)) ? undefined : foreignIn(names, value);
}

/** A value with all that has such a name left out of it. */
export function foreignIn(names: readonly string[], json: string, depth = 0): string {
  if (json.startsWith('"')) return isDisguised(json, names) ? '""' : json;
  if (!/^[[{]/.test(json) || names.length === 0) return json;
  if (depth === deepest) return 'null';
  const inner = (one: string) => foreignIn(names, one, depth + 1);
  if (json.startsWith('[')) return `[${elementsOf(json).map(inner).join(',')}]`;
  const left = [...fieldsOf(json)].filter(([field]) => !isNamed(names, field));
  return objectOf(left.map(([field, value]) => [field, inner(value)]));
}

/** An object, or a list of them, whose fields `known` are the specification's. A `*` says nothing of what these hold. */
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
