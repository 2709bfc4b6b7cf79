/** What field rules know of a record (see Kind), made of its declaration. */

import type { Shape } from '../../engine/http/shapes.ts';
import type { Kind, Kinds } from '../../privacy/fields/field-rules.ts';
import { announcedBy, type Source, type Uses } from '../source.ts';
import { columnsOf, leftOutOf } from './columns.ts';
import type { AnyRecord, Facts } from './record.ts';

const shapes: Readonly<Record<Facts['type'], Shape>> = {
  text: 'text',
  'text[]': 'texts',
  bigint: 'number',
  numeric: 'number',
  boolean: 'flag',
  timestamptz: 'text',
  date: 'text',
};

// @internal A test declares a record of its own.
export function kindOf(of: AnyRecord): Kind {
  const fields = Object.entries(of.fields as Record<string, Facts>);
  const columns = fields.filter(([, { is }]) => is === 'column');
  const namesOf = (which: (facts: Facts) => unknown) =>
    columns.filter(([, facts]) => which(facts)).map(([name]) => name);
  const shapeOf = ({ type }: Facts): Shape => (type === 'text' && of.mayBeNumbers ? 'scalar' : shapes[type]);
  const needed = namesOf(facts => facts.required || facts.needed);
  return {
    fields: fields.flatMap(([name, { is }]) => (is === 'embedded' ? [] : [name])),
    ...(!of.lenient && { shapes: Object.fromEntries(columns.map(([name, facts]) => [name, shapeOf(facts)])) }),
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
    words: namesOf(
      ({ isId, of, values, type, upTo }) => isId || of || values || upTo || type === 'timestamptz' || type === 'date',
    ),
    times: namesOf(({ type }) => type === 'timestamptz'),
    needed,
    plain: namesOf(({ type, required, needed }) => type !== 'text' && !required && !needed),
  };
}

/** The kinds of a source's records, by short name. */
export function kindsOf({ tables = [], streams, uses = {} }: Pick<Source, 'tables' | 'streams' | 'uses'>): Kinds {
  const merged = streams.flatMap(({ merge }) => [merge.declared.root, ...merge.declared.others]);
  return Object.fromEntries(
    tables.map(({ name, rows = name, record, histories = [] }) => {
      const places = streams.flatMap(one =>
        one.kind === 'shelves' && one.members.key === name ? [one.members.places.declared.root] : [],
      );
      const isUnmerged = merged.every(table => table.name !== name);
      const own = { name, rows, columns: columnsOf(record), leftOut: leftOutOf(record) };
      // Other records are read by way of those that announce them, and of the places of a set.
      const isRead = streams.some(({ key }) => key === name) && places.length === 0;
      const omittable = isRead && streams.every(one => announcedBy(one) !== record.name);
      return [
        record.name,
        {
          ...kindOf(record),
          ...{ omittable, histories, tables: isUnmerged ? [own] : places, uses: usesOf(record.name, uses) },
        },
      ];
    }),
  );
}

function usesOf(record: string, uses: Uses): Record<string, readonly string[]> {
  const lost: Record<string, readonly string[]> = {};
  for (const [what, fields] of Object.entries(uses))
    for (const field of fields[record] ?? []) lost[field] = [...(lost[field] ?? []), what];
  return lost;
}
