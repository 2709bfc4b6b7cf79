/** Shapes of values, as a specification declares them: their type of JSON, and no more. Pure. */
import { elementsOf } from '../json-text.ts';

export type Shape = 'text' | 'number' | 'flag' | 'texts' | 'scalar';

const types: Record<Exclude<Shape, 'texts'>, RegExp> = {
  text: /^"/,
  number: /^[-\d]/,
  flag: /^[tf]/,
  scalar: /^[^[{]/,
};

/** `null` fits everywhere. */
export function fits(shape: Shape, json: string): boolean {
  if (json === 'null') return true;
  if (shape !== 'texts') return types[shape].test(json);
  return json.startsWith('[') && elementsOf(json).every(one => one.startsWith('"'));
}

/** An empty value of the same JSON type. Its shape is still wrong, so the record stays a reject. */
export function emptied(json: string): string {
  if (json.startsWith('{')) return '{}';
  if (json.startsWith('['))
    return `[${elementsOf(json)
      .map(one => (one.startsWith('[') ? '[]' : emptied(one)))
      .join(',')}]`;
  if (json.startsWith('"')) return '""';
  return types.number.test(json) ? '0' : json;
}
