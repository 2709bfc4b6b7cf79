/** What field rules know of a record (see Kind), made of its declaration. */
import type { Kind } from '../engine/http/rules/field-rules.ts';
import type { Shape } from '../engine/http/shapes.ts';
import { type AnyRecord, type Facts, fieldsThatAre } from './record.ts';

const shapes: Readonly<Record<Facts['type'], Shape>> = {
  text: 'text',
  'text[]': 'texts',
  bigint: 'number',
  numeric: 'number',
  boolean: 'flag',
  timestamptz: 'text',
};

/** `needed`: fields without which a record cannot be mirrored, besides its id and the times that are always there. */
export function kindOf(
  of: AnyRecord,
  { needed: further = [], ...more }: Partial<Pick<Kind, 'needed' | 'histories' | 'omittable' | 'tables' | 'uses'>> = {},
): Kind {
  const columns = fieldsThatAre(of, 'column');
  const children = fieldsThatAre(of, 'children');
  const needed = [...columns.flatMap(([name, { required }]) => (required ? [name] : [])), ...further];
  return {
    fields: [...columns, ...children].map(([name]) => name),
    shapes: Object.fromEntries(columns.map(([name, { type }]) => [name, shapes[type]])),
    within: Object.fromEntries([
      ...children.map(([name, { record }]) => [name, record!.name]),
      ...fieldsThatAre(of, 'embedded').flatMap(([name, { of: stream }]) => (stream ? [[name, stream]] : [])),
    ]),
    needed,
    plain: columns.flatMap(([name, { type }]) => (type === 'text' || needed.includes(name) ? [] : [name])),
    ...more,
  };
}
