/**
 * Mends JSON that PostgreSQL refuses, as text: it is not parsed and written again, so every number keeps its digits,
 * and any depth works. PostgreSQL cannot store NUL and lone surrogates in text. They become U+FFFD, and are counted. To
 * search every page for them would cost too much: only a refused page comes here.
 */

// biome-ignore lint/suspicious/noControlCharactersInRegex: NUL is what this is about.
const unstorable = /\u0000|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

export function cleanText(text: string): { text: string; cleaned: number } {
  let cleaned = 0;
  const clean = text.replace(unstorable, () => {
    cleaned++;
    return '\ufffd';
  });
  return { text: clean, cleaned };
}

/** The ids that a row may have. Other ids are in no table. */
export const storableIds = (ids: readonly string[]): string[] => ids.filter(id => cleanText(id).cleaned === 0);

/**
 * A surrogate pair, else a character to replace, else any other escape (so that the u in `\\u0000` does not count as
 * one).
 */
const escapes = /\\u(d[89ab]..\\ud[c-f]..)|\\u(0000|d[89a-f]..)|\\./gi;

/** JSON text; undefined if the value is nested too deep to write. */
export function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** The same JSON with clean strings and keys. JSON writes the characters to replace as escapes. */
export function cleanJson(json: string): { text: string; cleaned: number } {
  let cleaned = 0;
  const text = json.replace(escapes, (found, _pair, unfit) => {
    if (unfit === undefined) return found;
    cleaned++;
    return '\\ufffd';
  });
  return { text, cleaned };
}

/** The texts of the elements of an array. */
export function elementsOf(json: string): string[] {
  return [...slices(json)].map(([from, to]) => json.slice(from, to).trim());
}

/** The fields of an object, and the texts of their values. If a field comes twice, the last one counts. */
export function fieldsOf(json: string): Map<string, string> {
  const fields = new Map<string, string>();
  for (const [from, to] of slices(json)) {
    const name = json.indexOf('"', from);
    const end = endOfString(json, name);
    fields.set(JSON.parse(json.slice(name, end)) as string, json.slice(json.indexOf(':', end) + 1, to).trim());
  }
  return fields;
}

export function objectOf(fields: Iterable<readonly [string, string]>): string {
  return `{${[...fields].map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`;
}

/** The ranges between the outermost commas of valid JSON. Handles any depth and any length. */
function* slices(json: string): Generator<[from: number, to: number]> {
  const marks = /["[\]{},]/g;
  let depth = 0;
  let from = 0;
  for (let found = marks.exec(json); found !== null; found = marks.exec(json)) {
    const { 0: mark, index } = found;
    if (mark === '"') marks.lastIndex = endOfString(json, index);
    else if (mark === '[' || mark === '{') {
      if (depth++ === 0) from = index + 1;
    } else if (mark !== ',') {
      if (--depth === 0 && json.slice(from, index).trim() !== '') yield [from, index];
    } else if (depth === 1) {
      yield [from, index];
      from = index + 1;
    }
  }
}

/**
 * The index behind the closing quote of the string that opens at `start`. An even number of backslashes precedes that
 * quote.
 */
function endOfString(json: string, start: number): number {
  for (let quote = json.indexOf('"', start + 1); ; quote = json.indexOf('"', quote + 1)) {
    let slash = quote;
    while (json[slash - 1] === '\\') slash--;
    if ((quote - slash) % 2 === 0) return quote + 1;
  }
}
