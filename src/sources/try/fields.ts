/** Compares records of a reply with their declaration: fields that it lacks, and types that are others. Pure. */
import { ExactNumber } from '../../engine/exact-json.ts';
import { type IdTypes, isObject, parsed } from '../../engine/http/request.ts';
import { count, nearest } from '../../words.ts';
import { checkOf, factsOf, timeOf } from '../record/check.ts';
import type { AnyRecord, Facts } from '../record/record.ts';
import { declaredBy, keyOf, saysOf, textOf } from '../skeleton/guess.ts';
import type { Notes } from './finding.ts';
import type { Places } from './places.ts';

/** The name of a field, which is no value unless a service uses values as names. */
const isPlain = (name: string) => /^[A-Za-z_][\w.-]{0,60}$/.test(name);

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'list';
  if (value instanceof ExactNumber) return 'integer beyond 2^53';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  if (typeof value === 'string') return /^-?\d+(?:\.\d+)?$/.test(value) ? 'number as text' : 'text';
  return typeof value;
}

const makers: Readonly<Record<Facts['type'], string>> = {
  text: 'text',
  'text[]': 'texts',
  bigint: 'integer',
  numeric: 'number',
  boolean: 'flag',
  timestamptz: 'time',
  date: 'date',
};
const makerOf = ({ is, isId, type, values, of }: Facts): string => {
  if (is !== 'column' && is !== 'known') return is;
  if (isId) return 'id';
  if (values) return 'oneOf';
  return of ? 'reference' : makers[type];
};

interface Judging {
  readonly notes: Notes;
  readonly places: Places;
  readonly idTypes: IdTypes;
}

/** `raws`: records as the service sent them. Notes what is wrong with each field, once. */
export function judgeFields(record: AnyRecord, raws: readonly unknown[], judging: Judging): void {
  const { notes, places } = judging;
  const all = raws.filter(isObject);
  if (all.length < raws.length)
    notes.wrong(
      `${count(raws.length - all.length, 'record')} of ${record.name} ${raws.length - all.length === 1 ? 'is' : 'are'} no object`,
      places.field(record.name),
      'see dataSelector',
    );
  if (all.length === 0) return;
  const undeclared = new Map<string, unknown[]>();
  const known = factsOf(record).fields;
  for (const one of all)
    for (const [name, value] of Object.entries(one))
      if (!known.has(name)) undeclared.set(name, [...(undeclared.get(name) ?? []), value]);
  const fields = Object.entries(record.fields as Record<string, Facts>);
  const absent: string[] = [];
  for (const [name, facts] of fields) {
    const meant = otherName(name, all, [...undeclared.keys()]);
    if (meant !== undefined) undeclared.delete(meant);
    judgeField(record, [name, facts], all, meant, judging);
    if (meant === undefined && !facts.required && all.every(one => one[name] === undefined)) absent.push(name);
  }
  // A service may leave out what is empty.
  if (absent.length > 0)
    notes.open(
      `none of ${count(all.length, 'record')} of ${record.name} has ${absent.join(', ')}, which ${absent.length === 1 ? 'is' : 'are'} declared`,
    );
  noteUndeclared(record, undeclared, judging);
}

const joined = (name: string) => name.replaceAll('_', '');
/** The field that a record has instead of a declared one that no record has. */
function otherName(
  name: string,
  all: readonly Record<string, unknown>[],
  others: readonly string[],
): string | undefined {
  if (all.some(one => one[name] !== undefined)) return undefined;
  const near = nearest(joined(name), others.map(joined));
  return others.find(one => joined(one) === near);
}

function judgeField(
  record: AnyRecord,
  [name, facts]: readonly [string, Facts],
  all: readonly Record<string, unknown>[],
  other: string | undefined,
  judging: Judging,
): void {
  const { notes, places, idTypes } = judging;
  const of = `${name} of ${record.name}`;
  const at = places.field(record.name, name);
  const values = all.map(one => one[name]);
  const there = values.filter(value => value !== null && value !== undefined);
  const missing = all.length - there.length;
  const share = (n: number) => `${n} of ${count(all.length, 'record')}`;
  if (facts.required && missing > 0) {
    const change = facts.isId
      ? 'declare the list of another stream: without an id nothing names a record'
      : `${keyOf(name)}: time(${saysOf(name)}), without .always(); a cursor is another time, which each record has`;
    notes.wrong(`${of} is missing or null in ${share(missing)}, which would be rejected`, at, change);
  } else if (other !== undefined)
    notes.wrong(
      `${of} is declared, and the service writes ${other}: the column would stay empty`,
      at,
      `${keyOf(other)}: …`,
    );
  if (there.length === 0) return;
  if (facts.is === 'embedded') return;
  if (facts.is === 'children' && there.every(Array.isArray)) {
    judgeFields(facts.record!, there.flat(), judging);
    return;
  }
  const schema = checkOf({ ...record, fields: { [name]: facts } } as AnyRecord);
  const wrong = there.filter(value => !parsed(schema, { [name]: value }, idTypes).success);
  if (wrong.length > 0) {
    const types = [...new Set(wrong.map(typeOf))].join(' and ');
    const code = facts.isId ? undefined : (declaredBy(name, there) ?? textOf('text', saysOf(name), name));
    const isMixed = wrong.length < there.length && !facts.isId;
    notes.wrong(
      `${of} is declared as ${makerOf(facts)}, and is ${types} in ${share(wrong.length)}, which would be rejected`,
      at,
      code === undefined
        ? 'an id is a text or a number'
        : `${keyOf(name)}: ${code},${isMixed ? ' or leave the field out: it stays in _payload' : ''}`,
    );
  }
  if (facts.values) {
    const unknown = new Set(there.filter(value => typeof value === 'string' && !facts.values!.includes(value)));
    // The values themselves might name people.
    if (unknown.size > 0)
      notes.note(
        `${of} has ${count(unknown.size, 'value')} that oneOf does not name`,
        at,
        'add them to oneOf, or declare a text',
      );
  }
  if (facts.type === 'timestamptz' && there.some(value => typeof value === 'string' && isWithoutZone(value)))
    notes.seen(`${of} has no time zone, and is taken as UTC`);
}

const isWithoutZone = (text: string) => !Number.isNaN(timeOf(text)) && !/(?:Z|[+-]\d\d:?\d\d)$/i.test(text);

function noteUndeclared(
  record: AnyRecord,
  undeclared: ReadonlyMap<string, unknown[]>,
  { notes, places }: Judging,
): void {
  const plain = [...undeclared].filter(([name]) => isPlain(name));
  if (undeclared.size === 0) return;
  const code = plain.flatMap(([name, values]) => {
    const declared = declaredBy(name, values);
    const isOfRecords = values.some(
      value => Array.isArray(value) && value.some(one => isObject(one) && one.id !== undefined),
    );
    return declared === undefined
      ? isOfRecords
        ? [`${keyOf(name)}: children(…),`]
        : []
      : [`${keyOf(name)}: ${declared},`];
  });
  const names = plain.map(([name, values]) => `${name} (${[...new Set(values.map(typeOf))].join(', ')})`);
  const rest = undeclared.size - plain.length;
  notes.note(
    `${count(undeclared.size, 'field')} of ${record.name} ${undeclared.size === 1 ? 'is' : 'are'} not declared: ${[...names, ...(rest > 0 ? [`${rest} with a name that is no word`] : [])].join(', ')}`,
    places.field(record.name),
    code.length > 0 ? code.join('\n') : 'nothing, if _payload is enough',
  );
}
