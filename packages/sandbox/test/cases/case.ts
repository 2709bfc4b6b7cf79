/**
 * What a case is: something that the specifications say, as data. A case names its rule (rules.ts) and holds one
 * request with its reply, or several in a row, against the small worlds of worlds.ts. What holds for every reply
 * (the four headers, the shape of errors, nothing behind a 204 or a 5xx) is held by the runner and by no case.
 */
import type { BooksServiceOptions } from '../../src/books/service.ts';
import type { BooksWorldOptions } from '../../src/books/world.ts';
import type { ServiceOptions } from '../../src/helpdesk/service.ts';
import type { WorldOptions } from '../../src/helpdesk/world/world.ts';

export interface Step {
  /** Method and path below the base address. `{name}` stands for what an earlier step has kept, here and below. */
  ask: string;
  /** Whether the path is a whole one, not below the base address. */
  anywhere?: true;
  headers?: Record<string, string>;
  /** Sent as JSON. */
  body?: unknown;
  /** Sent as it is, instead of `body`. */
  raw?: string | Buffer;
  /** The content type; default `application/json` where there is a body, otherwise none. Null sends none. */
  type?: string | null;
  /** Whose credentials: default the service's token. Null sends none. */
  as?: string | null;
  /** Seconds that pass before the request. */
  later?: number;
  /** Asks this often; every reply has to be as expected. */
  times?: number;

  /** Default 200, or 422 beside `errors`. */
  status?: number;
  /** The ids of the items, in their order: `t1 t2`. */
  ids?: string;
  /** The whole body. */
  is?: unknown;
  /** A part of the body. */
  has?: unknown;
  /** Paths at which the body must not be what it was before. */
  differs?: Record<string, string>;
  /** What the text of the body must match. */
  text?: RegExp;
  /** Paths of keys that the body must not have. */
  lacks?: readonly string[];
  /** Headers of the reply by lower-case name; null for one that must not be there. */
  answers?: Record<string, unknown>;
  /** Of a 422: as many errors as names, each name in one of them. */
  errors?: readonly string[];
  /** Keeps parts of the reply under a name: a path into the body, or `location`. */
  keep?: Record<string, string>;
}

interface Named {
  /** The id of a rule in rules.ts, which begins with the section. */
  rule: string;
  /** Other rules that it holds too. */
  also?: readonly string[];
  /** What is tried, unlike that of any other case of the rule. */
  what: string;
}

type Steps = Step | { steps: readonly Step[] };

/** A case of the help desk. `options` switches what the specification leaves open; limits are off unless they say so. */
export type DeskCase = Named & Steps & { options?: ServiceOptions & WorldOptions };
/** A case of the book catalog. */
export type BooksCase = Named & Steps & { options?: BooksServiceOptions & Partial<BooksWorldOptions> };

export const stepsOf = (one: Steps): readonly Step[] => ('steps' in one ? one.steps : [one]);

/** Something in place of a value, which vitest asks whether it fits. */
const fitting = (what: string, fits: (value: unknown) => boolean) => ({
  asymmetricMatch: fits,
  toString: () => what,
  toAsymmetricMatcher: () => `<${what}>`,
});

export const matching = (pattern: RegExp) =>
  fitting(String(pattern), value => typeof value === 'string' && pattern.test(value));
export const someText = matching(/./s);
export const someTime = matching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
export const someInteger = fitting('an integer', Number.isInteger);
export const someList = fitting('a list', Array.isArray);
/** Digits, as the values of the four headers are written. */
export const someDigits = matching(/^\d+$/);
export const notBefore = (least: number) => fitting(`at least ${least}`, value => Number(value) >= least);
export const between = (least: number, most: number) =>
  fitting(`${least} to ${most}`, value => value !== '' && Number(value) >= least && Number(value) <= most);
export const ofLength = (length: number) =>
  fitting(`a list of ${length}`, value => Array.isArray(value) && value.length === length);
/** A list of the same items, all of them plain, in any order. */
export const anyOrderOf = (items: readonly unknown[]) => {
  const sorted = (list: readonly unknown[]) =>
    list
      .map(item => JSON.stringify(item))
      .sort()
      .join();
  return fitting(`${items.length} items`, value => Array.isArray(value) && sorted(value) === sorted(items));
};
/** A list of shelves with these titles among them, and without those. */
export const titled = (titles: readonly string[], without: readonly string[]) =>
  fitting(`shelves ${titles}, not ${without}`, value => {
    const all = Array.isArray(value) ? value.map(({ title }) => title) : [];
    return titles.every(title => all.includes(title)) && !without.some(title => all.includes(title));
  });
/** An object of headers that has these, whatever else, whether values are text or numbers. */
export const headersWith = (expected: Record<string, RegExp>) =>
  fitting(JSON.stringify(Object.keys(expected)), value => {
    const headers = Object.entries((value ?? {}) as Record<string, unknown>);
    return Object.entries(expected).every(([name, pattern]) =>
      headers.some(([key, text]) => key === name && pattern.test(String(text))),
    );
  });
export const FOUR_HEADERS = {
  'Rate-Limit-Limit': /^\d+$/,
  'Rate-Limit-Remaining': /^\d+$/,
  'Rate-Limit-Used': /^\d+$/,
  'Rate-Limit-Reset': /^\d+$/,
} as const;
/** For a parameter with a value that it does not have. The specification names no status: its 422 is for what is written. */
export const REFUSED = 400;
/** For a method that a path does not know. The specification has no word on it. */
export const NO_SUCH_METHOD = 405;
