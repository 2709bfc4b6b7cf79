/** Shapes of values, as a specification declares them: their type of JSON, and no more. Pure. */
import { z } from 'zod';
import { elementsOf } from '../json-text.ts';

export type Shape = 'text' | 'number' | 'flag' | 'texts' | 'scalar';

/** Of the fields that hold an object, or a list of objects: the names in it. */
export function insideOf(record: z.ZodObject): Record<string, readonly string[]> {
  const inside = Object.entries(record.shape).flatMap(([name, schema]): [string, string[]][] => {
    const inner = objectIn(schema);
    return inner === undefined ? [] : [[name, Object.keys(inner.shape)]];
  });
  return Object.fromEntries(inside);
}

function objectIn(schema: z.core.$ZodType): z.ZodObject | undefined {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable) return objectIn(schema.unwrap());
  if (schema instanceof z.ZodArray) return objectIn(schema.element);
  return schema instanceof z.ZodObject ? schema : undefined;
}

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

/** A value of the same type of JSON that says nothing: it has the wrong shape still, and the record stays a reject. */
export function emptied(json: string): string {
  if (json.startsWith('{')) return '{}';
  if (json.startsWith('['))
    return `[${elementsOf(json)
      .map(one => (one.startsWith('[') ? '[]' : emptied(one)))
      .join(',')}]`;
  if (json.startsWith('"')) return '""';
  return types.number.test(json) ? '0' : json;
}
