/** What field rules know of a record (see Kind), made of its declaration. */
import type { Kind } from '../engine/http/rules/field-rules.ts';
import type { Shape } from '../engine/http/shapes.ts';
import type { AnyRecord, Facts } from './record.ts';

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
  const fields = Object.entries(of.fields as Record<string, Facts>);
  const columns = fields.filter(([, { is }]) => is === 'column');
  const needed = [...columns.flatMap(([name, { required }]) => (required ? [name] : [])), ...further];
  return {
    fields: fields.flatMap(([name, { is }]) => (is === 'embedded' ? [] : [name])),
    ...(!of.lenient && { shapes: Object.fromEntries(columns.map(([name, { type }]) => [name, shapes[type]])) }),
    within: Object.fromEntries(
      fields.flatMap(([name, { is, record, of: stream }]) => {
        const kind = is === 'children' ? record!.name : is === 'embedded' ? stream : undefined;
        return kind === undefined ? [] : [[name, kind]];
      }),
    ),
    inside: Object.fromEntries(
      fields.flatMap(([name, { is, fields: inner = {} }]) =>
        /^objects?$/.test(is) ? [[name, Object.keys(inner)]] : [],
      ),
    ),
    needed,
    plain: columns.flatMap(([name, { type }]) => (type === 'text' || needed.includes(name) ? [] : [name])),
    ...more,
  };
}
