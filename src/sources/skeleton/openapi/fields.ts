/** The fields of a record in a draft, made of its schema. Pure. */
import { columnNameOf } from '../../record/record.ts';
import { isName } from '../../service/names.ts';
import { type Line, quoted } from '../draft.ts';
import { keyOf, saysOf, textOf } from '../guess.ts';
import type { Schema } from './document.ts';
import { isTime } from './pages.ts';

export interface FieldsDeps {
  /** Name of the record. */
  readonly record: string;
  /** Column of the id of the record that these are part of. */
  readonly parent: string | undefined;
  /** Names of times that each record has. */
  readonly always: ReadonlySet<string>;
  /** The stream that ids of this field mean. */
  readonly streamOf: (field: string) => string | undefined;
  /** Declares records within the record, and says the name of their constant. Undefined: they have no table. */
  readonly children: ((field: string, schema: Schema) => string) | undefined;
}

const mostValues = 60;
const longestSays = 160;

/** The first sentence of a description, or words made of the name. */
function says(field: string, { description = '' }: Schema): string {
  const [first = ''] = description
    .replaceAll(/\s+/g, ' ')
    .trim()
    .split(/(?<=[.!?])\s/);
  const words = first
    .replaceAll(/[`*_]{2,}|[`*]/g, '')
    .replaceAll("'", '’')
    .slice(0, longestSays)
    .trim();
  return words === '' ? saysOf(field) : quoted(/[.!?…]$/.test(words) ? words : `${words}.`);
}

const guessed = (code: string) => (code.includes('.personal(') ? 'a guess by its name' : undefined);
const isOpaque = /^(?:uuid|uri|url|byte|binary|color)$/;

/** One field; undefined: it stays in `_payload`, with other objects. */
function lineOf(field: string, schema: Schema, deps: FieldsDeps): Line | undefined {
  const { type, format = '', values, items } = schema;
  const words = says(field, schema);
  const to = /(?:string|integer|undefined)/.test(String(type)) ? deps.streamOf(field) : undefined;
  const text = (asks: readonly string[] = []): Line => {
    if (format === 'email') return { code: `text(${words}).personal('contact')` };
    const code = isOpaque.test(format) ? `text(${words}).plain()` : textOf('text', words, field);
    return { code, asks, tail: guessed(code) };
  };
  if (field === 'id') return { code: 'id()' };
  if (to !== undefined) return { code: `reference(${quoted(to)}, ${words})` };
  if (isTime(field, schema))
    return {
      code: `time(${words})${deps.always.has(field) ? '.always()' : ''}`,
      asks: format === '' ? ['Is it a time such as 2026-03-01T12:00:00Z? The document does not say.'] : [],
    };
  if (type === 'string' && format === 'date') {
    const isBirth = /birth/i.test(field);
    return { code: `date(${words})${isBirth ? ".personal('text')" : ''}` };
  }
  if (
    values !== undefined &&
    values.length > 1 &&
    values.length <= mostValues &&
    (type === 'string' || type === undefined)
  )
    return { code: `oneOf([${values.map(quoted).join(', ')}])` };
  if (type === 'string') return text();
  if (type === 'integer') return { code: `integer(${words})` };
  if (type === 'number') return { code: `number(${words})` };
  if (type === 'boolean') return { code: `flag(${words})` };
  if (type === 'array') {
    const inner = items?.();
    if (inner?.type === 'object' || inner?.properties.size) {
      const hasId = inner.properties.has('id');
      if (hasId && deps.children !== undefined) return { code: `children(${deps.children(field, inner)})` };
      return {
        code: 'objects({})',
        tail: 'they stay in _payload: does one tell of a person?',
      };
    }
    if (inner === undefined || inner.type === 'array') return undefined;
    const code = textOf('texts', words, field);
    return { code, tail: guessed(code) };
  }
  if (type === 'object') return { code: 'object({})', tail: 'it stays in _payload: does it tell of a person?' };
  return text(['Of which type is it? The document does not say.']);
}

/** The mirror has a column of this name itself. */
function movedLine(field: string, schema: Schema, record: string): Line | undefined {
  const column = `{ column: '${record}_${field}' }`;
  if (!isName(`${record}_${field}`)) return undefined;
  if (schema.type === 'string') return { code: `${field}: text(${says(field, schema)}).plain(${column}),` };
  return schema.type === 'integer' ? { code: `${field}: number(${says(field, schema)}, ${column}),` } : undefined;
}

/** Lines of all fields, and the names of those that no column can hold. */
export function linesOf(schema: Schema, deps: FieldsDeps): { lines: Line[]; leftOut: string[] } {
  const met = new Set(['account_id', ...(deps.parent === undefined ? [] : [deps.parent])]);
  const lines: Line[] = [];
  const leftOut: string[] = [];
  const fields = [...schema.properties].sort(([a], [b]) => Number(b === 'id') - Number(a === 'id'));
  for (const [field, make] of fields) {
    const column = columnNameOf(field);
    const isFree = field === 'id' || (isName(column) && !met.has(column) && column !== 'id');
    const line = isFree && !/['"\\\n]/.test(field) ? lineOf(field, make(), deps) : undefined;
    if (line === undefined) {
      const moved = field === 'account_id' ? movedLine(field, make(), deps.record) : undefined;
      if (moved !== undefined) lines.push(moved);
      else leftOut.push(field);
      continue;
    }
    met.add(column);
    lines.push({ ...line, code: `${keyOf(field)}: ${line.code},` });
  }
  return { lines, leftOut };
}
