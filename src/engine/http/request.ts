/**
 * A request is a value: what to ask, what it costs, and how one record of the reply is checked. Endpoints (sources/)
 * build requests, http/send.ts carries them out; nothing else touches the network.
 */
import type { z } from 'zod';

/** The name of a source: `helpdesk`. */
export type SourceName = string;

export interface Request<T> {
  /** GET unless told. */
  readonly method?: 'GET' | 'POST';
  /** Below the account's base address, e.g. `/tickets/ab12`. */
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** Credits, known before the request: 1, +1 for each embedded type, +1 for a count (spec, Limits). */
  readonly cost: number;
  /**
   * A JSON array of records; one JSON object; an object with the records in `items`, which is missing where there are
   * none; or whatever comes with a success.
   */
  readonly shape: 'list' | 'single' | 'items' | 'nothing';
  /** Of a list: the field of the body that holds the records, `data` or `data.items`; undefined: the body is the list. */
  readonly within?: string;
  /** Of a list: what the reply says of the next page; undefined at the end. `header` takes names in small letters. */
  next?(body: unknown, header: (name: string) => string | undefined): string | undefined;
  /** Acts as the authenticated user, so it needs a token of theirs. */
  readonly as?: 'user';
  /** Checks one record. Unknown fields and unknown enumeration values pass. */
  readonly record: z.ZodType<T>;
}

/** A record that does not parse: it is set aside with its reason, and stops nothing. */
export interface Unreadable {
  /** Its place in the page, from 0. */
  readonly place: number;
  readonly id: string | undefined;
  readonly raw: unknown;
  readonly reason: string;
  /** The first field that is wrong; empty for the record as a whole. */
  readonly path: string;
}

export interface Reply<T> {
  /** The body as it came; the warehouse takes it apart. */
  readonly text: string;
  /** Records that parse, in the order in which they came. */
  readonly records: readonly T[];
  readonly unreadable: readonly Unreadable[];
  /** How many records arrived, readable or not: the end of a list is judged by this. */
  readonly arrived: number;
  /**
   * Everything that had happened up to this time (ms since 1970, the source's clock) is in the reply:
   * `Date` − duration − 1 s, since the data is read before the header is written and the header has a grain of 1 s.
   * The duration is rounded up to whole seconds, as the header is: of two replies to requests made one after the other
   * within a second, the later one must not pass for the older because it came a millisecond faster.
   */
  readonly asOf: number;
  /** The `Date` header, in ms. */
  readonly date: number;
  /** The source's clock moved by so much, and this reply, or what it goes on from, proves nothing. */
  readonly clockMovedMs?: number;
  /** What the reply says of the next page: see `Request.next`. */
  readonly next?: string;
  /** Total-Count, where it was asked for, or `totalItems`. */
  readonly total: number | undefined;
}

/** The grain of the Date header. */
const grainMs = 1000;

/** A reply was true by this time, by the source's clock: its data was read before its Date was written, and the Date has a grain. */
export const trueByOf = ({ date }: Pick<Reply<unknown>, 'date'>): number => date + grainMs;

/** The record, or what is wrong with it: the first few reasons. */
export function check<T>(schema: z.ZodType<T>, raw: unknown, place: number): { readable: T } | Unreadable {
  const checked = schema.safeParse(raw);
  if (checked.success) return { readable: checked.data };
  const issues = checked.error.issues.map(({ path, message }) => ({ path: path.map(String).join('.'), message }));
  const reason = issues.slice(0, 3).map(({ path, message }) => `${path || 'record'}: ${message}`);
  const id = isObject(raw) && typeof raw.id === 'string' && raw.id !== '' ? raw.id : undefined;
  return { place, id, raw, reason: reason.join('; '), path: issues[0]?.path ?? '' };
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
