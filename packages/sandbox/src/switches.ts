/**
 * Everything on which the specifications are silent, and every number that somebody may want otherwise, in one table:
 * the services have their options and defaults from it, the command line its flags, the page and the documents their
 * rows. A new switch is a row in helpdesk/switches.ts or books/switches.ts and its use.
 */
import { BOOKS_SWITCHES } from './books/switches.ts';
import { HELPDESK_SWITCHES } from './helpdesk/switches.ts';

/** Of the help desk, where nobody orders others. */
export const TOKEN = 'sandbox-token';
export const BLOCKED_TOKEN = 'sandbox-blocked-token';

interface Row {
  /** The option of the service (of its world, where it is the world that differs). */
  name: string;
  flag: `--${string}`;
  /** What it decides, in a line. */
  says: string;
}

/** One of a few words. */
interface Choice extends Row {
  /** The word on the command line → the value of the option. */
  values: Readonly<Record<string, unknown>>;
  /** One of the words. */
  default: string;
}

/** Any number of the words, comma separated; none by default. */
export interface Several extends Row {
  of: readonly string[];
}

/** A whole number. */
interface Quantity extends Row {
  /** Of what, in the plural. */
  unit: string;
  default: number;
  /** Default 1. */
  least?: number;
  /** Words that stand for a number, such as `unlimited`. */
  words?: Readonly<Record<string, number>>;
  /** Whether it is a limit of the service rather than a reading of its specification. */
  limit?: true;
}

export type Switch = Choice | Several | Quantity;

/** The table: a half for each service, beside it. */
export const SWITCHES = { helpdesk: HELPDESK_SWITCHES, books: BOOKS_SWITCHES } as const;

export type Service = keyof typeof SWITCHES;

type ValueOf<R> = R extends { values: infer V }
  ? V[keyof V]
  : R extends { of: readonly (infer W)[] }
    ? readonly W[]
    : number;

/** All switches of a service, each with a value. */
export type Settled<S extends Service> = {
  [R in (typeof SWITCHES)[S][number] as R['name']]: ValueOf<R>;
};

/** What holds where nobody says otherwise, as a value of the option. */
export function defaultOf(row: Switch): unknown {
  if ('values' in row) return row.values[row.default];
  return 'of' in row ? [] : row.default;
}

/** Each switch of a service as the options have it, or else by default. */
export function settled<S extends Service>(service: S, options: Partial<Settled<S>>): Settled<S> {
  const given = options as Record<string, unknown>;
  const values = (SWITCHES[service] as readonly Switch[]).map(row => [row.name, given[row.name] ?? defaultOf(row)]);
  return Object.fromEntries(values) as Settled<S>;
}

/** A value as it is written on the command line. */
export function wordFor(row: Switch, value: unknown): string {
  if ('of' in row) return (value as readonly string[]).join(',') || 'none';
  const named = Object.entries('values' in row ? row.values : (row.words ?? {}));
  return named.find(([, meant]) => meant === value)?.[0] ?? String(value);
}

/** Reads a word of the command line. Throws what is wrong with it, as a sentence. */
export function readWord(row: Switch, word: string): unknown {
  if ('values' in row) {
    if (Object.hasOwn(row.values, word)) return row.values[word];
    throw new Error(`It must be one of ${Object.keys(row.values).join(', ')}.`);
  }
  if ('of' in row) {
    const words = word === 'none' ? [] : word.split(',').map(one => one.trim());
    if (words.every(one => row.of.includes(one))) return words;
    throw new Error(`It must be some of ${row.of.join(', ')}, comma separated, or none.`);
  }
  if (row.words && Object.hasOwn(row.words, word)) return row.words[word];
  const least = row.least ?? 1;
  if (/^\d{1,15}$/.test(word) && Number(word) >= least) return Number(word);
  const others = Object.keys(row.words ?? {}).map(one => ` or "${one}"`);
  throw new Error(`It must be a whole number of ${row.unit}, ${least} or more${others.join('')}.`);
}
