/**
 * What PostgreSQL cannot store in text: NUL and lone surrogates. They become U+FFFD, and are counted. Looking for them
 * in every page would cost more than they are worth: only a page that was refused comes here.
 */

// Not in TypeScript's library yet, in Node since 22: numbers keep the digits with which they came.
declare global {
  interface JSON {
    rawJSON(text: string): unknown;
    parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown;
  }
}

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

/** The same JSON with clean strings and keys; numbers keep their digits. */
export function cleanJson(json: string): { text: string; cleaned: number } {
  let cleaned = 0;
  const clean = (value: string) => {
    const done = cleanText(value);
    cleaned += done.cleaned;
    return done.text;
  };
  const parsed = JSON.parse(json, (_key, value, { source }) => {
    if (typeof value === 'string') return clean(value);
    if (typeof value === 'number' && source !== undefined) return JSON.rawJSON(source);
    if (isObject(value) && Object.keys(value).some(key => key.search(unstorable) >= 0)) {
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [clean(key), inner]));
    }
    return value;
  });
  return { text: JSON.stringify(parsed), cleaned };
}

/** The records at these places of a JSON array, every number as it came. */
export function pickJson(json: string, places: readonly number[]): string {
  const all = parseExactly(json) as unknown[];
  return JSON.stringify(places.map(place => all[place]));
}

/** The same object with only these places of the array in `field`. */
export function pickWithin(json: string, field: string, places: readonly number[]): string {
  const object = parseExactly(json) as Record<string, unknown[]>;
  return JSON.stringify({ ...object, [field]: places.map(place => object[field]![place]) });
}

function parseExactly(json: string): unknown {
  return JSON.parse(json, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined ? JSON.rawJSON(source) : value,
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
