/**
 * A request is a value: what to request, what it costs, and how one record of the reply is checked. Endpoints
 * (sources/) build requests, and http/send.ts sends them. Nothing else uses the network.
 */
import type { z } from 'zod';
import { ExactNumber } from '../exact-json.ts';

/** The name of a source: `helpdesk`. */
export type SourceName = string;

export interface Request<T> {
  /** Relative to the base address of the account, e.g. `/tickets/ab12`. */
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** Credits, known before the request: 1, +1 for each embedded type, +1 for a count (spec, Limits). */
  readonly cost: number;
  /**
   * A JSON array of records; one JSON object; or an object with the records in `items`, which is missing if there are
   * none.
   */
  readonly shape: 'list' | 'single' | 'items';
  /**
   * For a list: the field of the body that holds the records, `data` or `data.items`; undefined: the body is the list.
   */
  readonly within?: string;
  /** Of a declared service: the option that says where in the body its records are. */
  readonly selector?: 'dataSelector' | 'getSelector';
  /** For a list: the cursor of the next page in the reply; undefined at the end. `header` takes lower-case names. */
  next?(body: unknown, header: (name: string) => string | undefined): string | undefined;
  /** For a list: the number of all its records, if the body says it. */
  total?(body: unknown): number | undefined;
  /** The kind of its records, as the source's field rules name it: `tickets`. */
  readonly kind: string;
  /** For a list of one record (the volumes of a shelf): its errors concern that record only. */
  readonly ofOne?: true;
  /** Acts as the authenticated user, so it needs a token of that user. */
  readonly as?: 'user';
  /** Checks one record. Unknown fields and unknown enumeration values pass. */
  readonly record: z.ZodType<T>;
  /** When the source stamped the record, in ms; NaN if the record does not say. A witness of the source's clock. */
  stampedAt?(record: T): number;
}

/** A record that does not parse. It is rejected with its reason, and stops nothing. */
export interface Unreadable {
  /** Its place in the page, from 0. */
  readonly place: number;
  readonly id: string | undefined;
  readonly raw: unknown;
  readonly reason: string;
  /** The first wrong field; empty for the record as a whole. Undefined: its shape is right, and it cannot be stored. */
  readonly path: string | undefined;
}

export interface Reply<T> {
  /** The body as the source sent it. PostgreSQL parses it. */
  readonly text: string;
  /** The same in UTF-8, if it is what came. A text that waits is a load for the heap, and bytes are none. */
  readonly bytes?: Buffer;
  /** Readable records, in their order. */
  readonly records: readonly T[];
  readonly unreadable: readonly Unreadable[];
  /** The number of records, readable or not. It shows the end of the list. */
  readonly arrived: number;
  /**
   * The reply shows everything that happened before this time (ms since 1970, the clock that stamps records): `Date` −
   * duration − 1 s, because the data is read before the header is written, and the header has a grain of 1 s. The
   * duration is rounded up to whole seconds, like the header: of two successive requests within a second, the later one
   * must not seem older because its reply came a millisecond faster. An earlier time if another witness contradicts
   * `Date`: see budget/record-clock.ts.
   */
  readonly asOf: number;
  /**
   * By the clock of `Date`, the reply shows nothing that happened at this time or later: `Date` + 1 s, because the data is
   * read before the header is written, and the header has a grain of 1 s.
   */
  readonly trueBy: number;
  /**
   * Like `trueBy`, by the later of two clocks: it is later if `Date` is behind the database's clock (see
   * budget/clocks.ts).
   */
  readonly shownBy: number;
  /** The source's clock moved by this much, in ms. This reply, or what it continues, proves nothing. */
  readonly clockMovedMs?: number;
  /** The cursor of the next page: see `Request.next`. */
  readonly next?: string;
  /** Bytes that are not UTF-8 were replaced by U+FFFD. */
  readonly notUtf8?: true;
  /** Total-Count, if it was requested, `totalItems`, or what the request finds in the body. */
  readonly total: number | undefined;
}

/** The types that the id of a record may have. */
export type IdTypes = readonly ('string' | 'number')[];

/** The record, or the first few reasons why it is invalid. */
export function check<T>(
  schema: z.ZodType<T>,
  raw: unknown,
  place: number,
  idTypes: IdTypes = ['string'],
): { readable: T } | Unreadable {
  const checked = parsed(schema, raw, idTypes);
  if (checked.success) return { readable: checked.data };
  const issues = checked.error.issues.map(({ path, message }) => ({ path: path.map(String).join('.'), message }));
  const reason = issues.slice(0, 3).map(({ path, message }) => `${path || 'record'}: ${message}`);
  return {
    place,
    id: isObject(raw) ? idOf(raw.id, idTypes) : undefined,
    raw,
    reason: reason.join('; '),
    path: issues[0]?.path ?? '',
  };
}

/**
 * Parses a record by its schema. If the schema refuses a large number, it gets the nearest double, because the record
 * is stored from its text. Ids are never rounded.
 */
export function parsed<T>(schema: z.ZodType<T>, raw: unknown, idTypes: IdTypes): z.ZodSafeParseResult<T> {
  const checked = schema.safeParse(raw);
  if (checked.success) return checked;
  const rounded = checked.error.issues.reduce((record, { path }) => roundedAt(record, path, idTypes), raw);
  return rounded === raw ? checked : schema.safeParse(rounded);
}

function roundedAt(value: unknown, [name, ...inner]: readonly PropertyKey[], idTypes: IdTypes): unknown {
  if (name === undefined || typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return value;
  const before = (value as Record<PropertyKey, unknown>)[name];
  const after =
    inner.length > 0 || !(before instanceof ExactNumber)
      ? roundedAt(before, inner, idTypes)
      : name !== 'id'
        ? before.rounded()
        : idTypes.includes('number')
          ? String(before)
          : before;
  if (after === before) return value;
  if (Array.isArray(value)) return value.with(Number(name), after);
  return { ...value, [name]: after };
}

function idOf(id: unknown, idTypes: IdTypes): string | undefined {
  if (typeof id === 'string' && id !== '') return id;
  return idTypes.includes('number') && (Number.isInteger(id) || id instanceof ExactNumber) ? String(id) : undefined;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The address of a request. A path may have parameters of its own. */
export function urlOf(baseUrl: URL, path: string, query: Readonly<Record<string, string>>): URL {
  const url = new URL(baseUrl.href.replace(/\/$/, '') + path);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  return url;
}
