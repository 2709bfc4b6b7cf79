/**
 * Hostile records, each from one seed: odd types, nesting, sizes, markup, ids, times and encodings, put into a record that is
 * ordinary otherwise. A record is text here, since no value of the language can say twice a field, 1e400 or half a letter.
 */

/** Text that stands in JSON as it is. */
class Raw {
  readonly json: string;
  constructor(json: string) {
    this.json = json;
  }
}

/** The fields of a record in their order; a name may come twice. */
type Fields = [name: string, value: unknown][];

/** The same numbers for the same seed. */
export class Chance {
  #state: number;

  constructor(seed: number) {
    this.#state = (seed * 2654435761) >>> 0;
    this.next();
  }

  /** From 0 (including) to 1 (excluding). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  below(n: number): number {
    return Math.floor(this.next() * n);
  }

  pick<T>(all: readonly T[]): T {
    return all[this.below(all.length)]!;
  }
}

/** Unlike JSON.stringify it takes raw text and a field twice, and halves of letters go as escapes. */
export function textOf(value: unknown): string {
  if (value instanceof Raw) return value.json;
  if (value instanceof Many)
    return `{${value.fields.map(([name, one]) => `${JSON.stringify(name)}:${textOf(one)}`).join(',')}}`;
  if (Array.isArray(value)) return `[${value.map(textOf).join(',')}]`;
  if (typeof value === 'object' && value !== null)
    return `{${Object.entries(value)
      .map(([name, one]) => `${JSON.stringify(name)}:${textOf(one)}`)
      .join(',')}}`;
  return JSON.stringify(value) ?? 'null';
}

/** An object whose fields may come twice. */
class Many {
  readonly fields: Fields;
  constructor(fields: Fields) {
    this.fields = fields;
  }
}

const nested = (open: string, close: string, n: number) => new Raw(`${open.repeat(n)}1${close.repeat(n)}`);

const numbers = [
  '0',
  '-0',
  '1e400',
  '-1e400',
  '1e200000',
  '1e-400',
  '9007199254740993',
  '1.0',
  '1e3',
  '-1',
  '99999999999999999999',
  '1.334E7',
  '2147483648',
  '0.1',
];
const ids = [
  '',
  ' ',
  '.',
  '..',
  '/',
  '%00',
  '%2e',
  'a/b',
  'a,b',
  'a?b#c',
  '\0',
  'a\0b',
  '\ud800',
  'x\udc00y',
  '😀',
  'ü',
  '\u202e',
  "'; drop table x; --",
  'null',
  '\ufffd',
];
const times = [
  '',
  'now',
  'infinity',
  '-infinity',
  'epoch',
  '0000-01-01T00:00:00Z',
  '0001-01-01T00:00:00Z',
  '9999-12-31T23:59:59Z',
  '9999-12-31T23:59:59-14:00',
  '0000-01-01T00:00:00+14:00',
  '1969-12-31T23:59:59Z',
  '2026-02-30T00:00:00Z',
  '2026-01-01T24:00:00Z',
  '2026-01-01T23:59:60Z',
  '2026-01-01T00:00:00',
  '2026-01-01 00:00:00z',
  '2026-01-01T00:00:00.123456789012Z',
  '2026-01-01T00:00:00+23:59',
  '2026-01-01T00:00:00+9999',
  '+010000-01-01T00:00:00Z',
  '2026-W01',
  '１９９９-01-01T00:00:00Z',
];
const texts = [
  '',
  '\0',
  'a\0b',
  '\ud83d',
  '\udc00\ud800',
  '😀'.repeat(40),
  '\u0085\u2028\u2029',
  '\ufeff',
  '\u202eabc',
  '\\',
  '\\u0000',
  '\\ud800',
  '"',
  '%',
  '{}',
  `${'a'.repeat(999)}😀`,
  '{"id":"x"}',
  '$1',
  '‮',
  'İ'.repeat(50),
  'ß'.repeat(30),
  '\x01\x1f\x7f',
  '1'.repeat(400),
  '@'.repeat(400),
  'a@'.repeat(200),
  'e\u0301'.repeat(300),
];
const markup = [
  '<div>',
  '<p>',
  '<b>',
  '<blockquote>',
  '<ul><li>',
  '<ol><li>',
  '<table><tr><td>',
  '<!--',
  '<![CDATA[',
  '&',
  '<',
  '&#0;',
  '&#xD800;',
  '&#x110000;',
  '<a href="',
  '<script>',
  '<title>',
  '</x>',
  '<ol type="__proto__" start="1e9"><li>',
  '<br>',
  '<hr>',
];
const names = [
  '__proto__',
  'constructor',
  'toString',
  'id',
  'extra',
  'a.b',
  'a\0b',
  '\ud800',
  '',
  'x'.repeat(300),
  'messages',
  'length',
];

function oddText(chance: Chance): string {
  const kind = chance.below(12);
  if (kind === 0) return oddMarkup(chance);
  if (kind === 1) return randomText(chance, 20);
  if (kind === 2) return randomText(chance, 3000);
  if (kind === 3) return chance.pick(texts).repeat(1 + chance.below(20));
  if (kind === 4) return `${'word '.repeat(chance.below(3000))}${chance.pick(texts)}`;
  if (kind === 5) return chance.pick(times);
  return chance.pick(texts) + (chance.next() < 0.3 ? randomText(chance, 8) : '');
}

function randomText(chance: Chance, longest: number): string {
  return Array.from({ length: 1 + chance.below(longest) }, () =>
    String.fromCharCode(chance.next() < 0.7 ? 32 + chance.below(95) : chance.below(65536)),
  ).join('');
}

function oddMarkup(chance: Chance): string {
  const n = chance.next() < 0.05 ? 20_000 : 1 + chance.below(60);
  const one = chance.pick(markup);
  const other = chance.pick(markup);
  return `${one.repeat(n)}text${chance.next() < 0.5 ? other.repeat(chance.below(n)) : ''} more ${chance.next() < 0.3 ? randomText(chance, 40) : ''}`;
}

/** Any value, at most a few kilobytes but for one in a hundred. */
function oddValue(chance: Chance, depth = 0): unknown {
  const kind = chance.below(14);
  if (kind === 0) return null;
  if (kind === 1) return chance.next() < 0.5;
  if (kind <= 3) return new Raw(chance.pick(numbers));
  if (kind === 4) return chance.pick(ids);
  if (kind === 5) return chance.pick(times);
  if (kind === 6) return nested('[', ']', chance.pick([1, 10, 100, 3000, 20_000]));
  if (kind === 7) return nested('{"a":', '}', chance.pick([1, 10, 100, 3000, 20_000]));
  if (kind === 8 && depth < 3) return Array.from({ length: chance.below(5) }, () => oddValue(chance, depth + 1));
  if (kind === 9 && depth < 3)
    return new Many(Array.from({ length: chance.below(5) }, () => [chance.pick(names), oddValue(chance, depth + 1)]));
  if (kind === 10 && chance.next() < 0.1) return 'long '.repeat(chance.pick([2000, 20_000]));
  return oddText(chance);
}

/** What a field of this name is likely to be taken for. */
function valueFor(name: string, chance: Chance): unknown {
  if (chance.next() < 0.35) return oddValue(chance);
  if (/(^|_)id$/.test(name)) return chance.next() < 0.3 ? randomText(chance, 900) : chance.pick(ids);
  if (/_at$|_until$|created|updated|publishedDate/i.test(name)) return chance.pick(times);
  if (name === 'label_ids') return Array.from({ length: chance.below(40) }, () => chance.pick(ids));
  if (name === 'body') return oddMarkup(chance);
  return oddText(chance);
}

/** One to three odd things in a copy of an ordinary record. */
export function hostile(record: Readonly<Record<string, unknown>>, seed: number): unknown {
  const chance = new Chance(seed);
  if (chance.next() < 0.03) return oddValue(chance);
  const fields: Fields = Object.entries(record).map(([name, value]) => [name, value]);
  for (let left = 1 + chance.below(3); left > 0; left--) spoil(fields, chance);
  if (chance.next() < 0.3) for (const field of fields) if (field[0] === 'htmlized') field[1] = true;
  return new Many(fields);
}

function spoil(fields: Fields, chance: Chance): void {
  if (fields.length === 0) return;
  const at = chance.below(fields.length);
  const field = fields[at]!;
  const how = chance.next();
  if (how < 0.07) fields.splice(at, 1);
  else if (how < 0.17) fields.push([chance.pick(names), oddValue(chance)]);
  else if (how < 0.22) fields.splice(chance.below(fields.length + 1), 0, [field[0], valueFor(field[0], chance)]);
  else if (how < 0.24) for (let n = 0; n < 300; n++) fields.push([`unknown${n}`, n]);
  else if (isRecord(field[1]) && how < 0.8) field[1] = new Many(spoiled(field[1], chance));
  else if (Array.isArray(field[1]) && field[1].some(isRecord) && how < 0.8) {
    const members = [...field[1]];
    const of = chance.below(members.length);
    if (isRecord(members[of])) members[of] = new Many(spoiled(members[of], chance));
    if (chance.next() < 0.2) members.push(members[of]);
    field[1] = members;
  } else field[1] = valueFor(field[0], chance);
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  !(value instanceof Raw) &&
  !(value instanceof Many);

function spoiled(record: Record<string, unknown>, chance: Chance): Fields {
  const fields: Fields = Object.entries(record);
  spoil(fields, chance);
  return fields;
}
