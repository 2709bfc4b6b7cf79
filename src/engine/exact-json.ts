/**
 * Reads JSON without rounding. A double holds integers up to 2^53, and prints 1024.0 as 1024. An id that was read as a double
 * could name another record. PostgreSQL parses the same text and keeps each digit.
 */

/**
 * A number that a double would change. Its text has the digits that PostgreSQL writes; in JSON it keeps the digits that
 * were read.
 */
export class ExactNumber {
  readonly #source: string;
  constructor(source: string) {
    this.#source = source;
  }
  toString(): string {
    return digitsOf(this.#source);
  }
  toJSON(): unknown {
    return (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(this.#source);
  }
  /** The nearest double. A schema that wants a number accepts it. */
  rounded(): number {
    return Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, Number(this.#source)));
  }
}

type Reviver = (key: string, value: unknown, of: { readonly source?: string }) => unknown;
const parse = JSON.parse as (text: string, reviver?: Reviver) => unknown;

/** Numbers that are needed in full: integers that a double cannot hold, and ids. */
const large: Reviver = (key, value, { source = '' }) =>
  typeof value === 'number' && (key === 'id' || (Number.isInteger(value) && !Number.isSafeInteger(value)))
    ? exactly(value, source)
    : value;
const each: Reviver = (_key, value, { source = '' }) => (typeof value === 'number' ? exactly(value, source) : value);
const exactly = (value: number, source: string) => (String(value) === source ? value : new ExactNumber(source));

/**
 * A parser with a reviver recurses. It overflows the stack at a few thousand levels, which a parser without a reviver
 * can read.
 */
function parseWith(text: string, reviver: Reviver): unknown {
  try {
    return parse(text, reviver);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return parseDeep(text);
  }
}

/** Numbers that a double would change become marked strings for the parser, and exact numbers afterwards. */
function parseDeep(text: string): unknown {
  let mark = '#';
  while (text.includes(mark)) mark += '#';
  const marked = text.replace(/"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/gs, token =>
    token.startsWith('"') || String(Number(token)) === token ? token : `"${mark}${token}"`,
  );
  const whole = { value: parse(marked) };
  const open: object[] = [whole];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    for (const [key, value] of Object.entries(node)) {
      if (typeof value === 'object' && value !== null) open.push(value);
      else if (typeof value === 'string' && value.startsWith(mark))
        Object.defineProperty(node, key, { value: new ExactNumber(value.slice(mark.length)) });
    }
  }
  return whole.value;
}

const isDigit = (text: string, at: number): boolean => {
  const code = text.charCodeAt(at);
  return code >= 48 && code <= 57;
};

/** Looks at each 16th character: a run of 16 digits has one of them. A pattern alone takes half as long as the parser. */
function hasLongRun(text: string): boolean {
  for (let at = 15; at < text.length; at += 16) {
    if (!isDigit(text, at)) continue;
    let [from, to] = [at, at];
    while (isDigit(text, from - 1)) from--;
    while (isDigit(text, to + 1)) to++;
    if (to - from >= 15) return true;
  }
  return false;
}

/** False for usual replies, at a tenth of the cost of their parser. */
const mayRound = (text: string): boolean =>
  /"id"\s*:\s*-?\d+[.eE]/.test(text) || (hasLongRun(text) && /(?:^|[:,[])\s*-?\d{16}/.test(text));

/** Like JSON.parse, with an ExactNumber if a double would round an integer or change an id. */
export const parseJson = (text: string): unknown => (mayRound(text) ? parseWith(text, large) : parse(text));

/** Like JSON.parse, with an ExactNumber if a double would change any digit. For JSON that is shown or stored again. */
export const parseEachDigit = (text: string): unknown => parseWith(text, each);

/** The value of an integer, as a number if that is exact. */
export const integerOf = (digits: string): number | ExactNumber => {
  const value = Number(digits);
  return Number.isSafeInteger(value) ? value : new ExactNumber(digits);
};

/** No id has more zeros than this. */
const mostZeros = 1000;

/** The number as PostgreSQL writes it: without an exponent, with its zeros behind the point. */
function digitsOf(source: string): string {
  const [, sign = '', whole = '', part = '', power = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(source) ?? [];
  const point = whole.length + Number(power);
  if (Math.abs(point) > mostZeros) return source;
  const digits = (whole + part).padEnd(point, '0').padStart((whole + part).length - Math.min(0, point - 1), '0');
  const at = Math.max(1, point);
  const number = `${digits.slice(0, at).replace(/^0+(?=\d)/, '')}${digits.length > at ? `.${digits.slice(at)}` : ''}`;
  return /[1-9]/.test(number) ? sign + number : number;
}
