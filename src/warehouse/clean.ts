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

/** The object with these fields only, every number as it came. */
export function keepFields(json: string, keep: (field: string) => boolean): string {
  const fields = Object.entries(parseExactly(json) as object);
  return JSON.stringify(Object.fromEntries(fields.filter(([field]) => keep(field))));
}

/** To be picked apart and written again: `JSON.stringify` gives every number as it came. */
export function parseExactly(json: string): unknown {
  return JSON.parse(json, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined ? JSON.rawJSON(source) : value,
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
