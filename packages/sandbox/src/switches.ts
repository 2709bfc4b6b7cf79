/**
 * The table of switches: limits of both services, and questions that their specifications leave open. Options of the
 * services, command-line flags, the settings on the page and --help all derive from this table. To add a switch, add a
 * row to helpdesk/switches.ts or books/switches.ts and read its value in the service.
 */
import { BOOKS_SWITCHES } from './books/switches.ts';
import { HELPDESK_SWITCHES } from './helpdesk/switches.ts';

/** Default tokens of the help desk: one with access, one that gets 403. */
export const TOKEN = 'sandbox-token';
export const BLOCKED_TOKEN = 'sandbox-blocked-token';

interface Row {
  /** Name of the option of the service, or of its world. */
  name: string;
  flag: `--${string}`;
  /** One line for --help and the page. */
  says: string;
}

/** A choice of one word. */
interface Choice extends Row {
  /** Word on the command line → value of the option. */
  values: Readonly<Record<string, unknown>>;
  /** A key of `values`. */
  default: string;
}

/** A comma-separated list of words; empty by default. */
interface Several extends Row {
  of: readonly string[];
}

/** A whole number. */
interface Quantity extends Row {
  /** Plural noun, such as `credits`. */
  unit: string;
  default: number;
  /** Smallest value; default 1. */
  least?: number;
  /** Words that stand for a number, such as `unlimited`. */
  words?: Readonly<Record<string, number>>;
  /** Marks a limit of the service; the other rows are readings of its specification. */
  limit?: true;
}

export type Switch = Choice | Several | Quantity;

/** The rows of each service. */
export const SWITCHES = { helpdesk: HELPDESK_SWITCHES, books: BOOKS_SWITCHES } as const;

export type Service = keyof typeof SWITCHES;

type ValueOf<R> = R extends { values: infer V }
  ? V[keyof V]
  : R extends { of: readonly (infer W)[] }
    ? readonly W[]
    : number;

/** The value of every switch of a service. */
export type Settled<S extends Service> = {
  [R in (typeof SWITCHES)[S][number] as R['name']]: ValueOf<R>;
};

/** Default value of the option. */
export function defaultOf(row: Switch): unknown {
  if ('values' in row) return row.values[row.default];
  return 'of' in row ? [] : row.default;
}

/** Values of all switches of a service: those given in `options`, defaults for the rest. */
export function settled<S extends Service>(service: S, options: Partial<Settled<S>>): Settled<S> {
  const given = options as Record<string, unknown>;
  const values = (SWITCHES[service] as readonly Switch[]).map(row => [row.name, given[row.name] ?? defaultOf(row)]);
  return Object.fromEntries(values) as Settled<S>;
}

/** The command-line spelling of a value. */
export function wordFor(row: Switch, value: unknown): string {
  if ('of' in row) return (value as readonly string[]).join(',') || 'none';
  const named = Object.entries('values' in row ? row.values : (row.words ?? {}));
  return named.find(([, meant]) => meant === value)?.[0] ?? String(value);
}

/** Parses a command-line word. Throws an Error whose message is a sentence for the user. */
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
