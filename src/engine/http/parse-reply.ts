/** Makes records of the body of a reply: JSON of the requested shape, less what the rules of the account leave out. Pure. */
import { exitCodes, Fatal, Retry, type ShelfdeskError } from '../../errors.ts';
import { ExactNumber, parseJson } from '../exact-json.ts';
import { fieldsOf, objectOf } from '../json-text.ts';
import { type Place, webPage } from './causes.ts';
import type { Dialect } from './dialect.ts';
import type { RawReply } from './fetch.ts';
import { check, type IdTypes, isObject, type Reply, type Request, type Unreadable } from './request.ts';

/** The part of a request that people see. It carries no secret: token and key are not part of a request. */
export function label(request: Request<unknown>): string {
  const query = new URLSearchParams(request.query).toString();
  return `GET ${request.path}${query && `?${decodeURIComponent(query)}`}`;
}

/** The body must be JSON of the requested shape. A truncated body or an HTML page is retried. */
export function parse<T>(
  request: Request<T>,
  raw: RawReply,
  dialect: Dialect,
  filter: Filter | undefined,
  place: Place,
): Pick<Reply<T>, 'text' | 'bytes' | 'records' | 'unreadable' | 'arrived' | 'total' | 'next' | 'notUtf8'> {
  if (raw.undecoded?.lasts)
    throw new Fatal(
      `${label(request)}: ${raw.undecoded.message}`,
      `Ask who runs ${place.label}, or the proxy between.`,
    );
  if (raw.undecoded) throw new Retry(`${label(request)}: ${raw.undecoded.message}`, raw.undecoded);
  const sent = jsonIn(request, raw.text, place);
  const ruled = filter === undefined ? raw.text : minimised(filter, request, raw.text);
  const body = ruled === raw.text ? sent : parseJson(ruled);
  const header = (name: string) => single(raw.headers[name]);
  const within = valueWithin(body, request.within);
  // Some services write null for an empty list.
  const isNull = within === null && request.within !== undefined && request.shape === 'list';
  const all = isNull ? [] : recordsIn(within, request.shape, dialect.idTypes);
  if (all === undefined) throw otherShape(request, body, { dialect, place });
  const next = request.next?.(body, header);
  const text = isNull ? '[]' : request.within === undefined ? ruled : textWithin(ruled, body, request.within);
  const records: T[] = [];
  const unreadable: Unreadable[] = [];
  all.forEach((one, place) => {
    const checked = check(request.record, one, place, dialect.idTypes);
    if (!('readable' in checked)) unreadable.push(checked);
    else if (raw.notUtf8 && String((checked.readable as { id?: unknown }).id).includes('\uFFFD'))
      // Two ids that differ in such bytes would be one.
      unreadable.push({ place, id: undefined, raw: one, reason: 'id: bytes that are not UTF-8', path: 'id' });
    else records.push(checked.readable);
  });
  const counted = request.shape === 'items' ? totalItems(body) : totalCount(single(raw.headers['total-count']));
  const total = request.total?.(body) ?? counted;
  const more = {
    ...(next !== undefined && { next }),
    ...(raw.notUtf8 && { notUtf8: raw.notUtf8 }),
    ...(raw.bytes && text === raw.text && { bytes: raw.bytes }),
  };
  return { text, records, unreadable, arrived: all.length, total, ...more };
}

/** A list in an object is another interface. Any other object may be an error that came with a status of success. */
function otherShape(
  request: Request<unknown>,
  body: unknown,
  { dialect, place }: { dialect: Dialect; place: Place },
): ShelfdeskError {
  const { shape, selector, within, kind } = request;
  const at = within === undefined ? '' : ` at ${within}`;
  const message = `${label(request)}: the reply is JSON, but no ${shapes[shape]}${at}`;
  const lists = isObject(body) ? Object.values(body).filter(Array.isArray) : [];
  const isError = isObject(body) && ['message', 'error', 'errors'].some(name => name in body);
  const has = (one: unknown) => recordsIn(one, shape, dialect.idTypes) !== undefined;
  const meant =
    selector === undefined || isError ? [] : [...(has(body) ? ['the body itself'] : []), ...placesOf(body, has)];
  if (meant.length > 0)
    return new Fatal(
      message,
      `Correct ${selector} of ${kind}, where ${place.label} is declared. It may mean: ${meant.join(', ')}.`,
      exitCodes.usage,
    );
  if (shape !== 'list' || isError || lists.length === 0) return new Retry(message);
  return new Fatal(
    `${message}: it has its list in a field of an object`,
    'This is the reply of another version of the interface, or of another service: check the address, and ask its support.',
  );
}

/** The paths of such values in a body, a few levels deep. */
function placesOf(body: unknown, is: (value: unknown) => boolean, depth = 3): string[] {
  if (depth === 0 || !isObject(body)) return [];
  return Object.entries(body).flatMap(([name, value]) => [
    ...(is(value) ? [name] : []),
    ...placesOf(value, is, depth - 1).map(inner => `${name}.${inner}`),
  ]);
}

function jsonIn(request: Request<unknown>, text: string, place: Place): unknown {
  try {
    return parseJson(text);
  } catch {
    if (text.trimStart().startsWith('<')) {
      const { what, remedy } = webPage(place);
      throw new Retry(`${label(request)}: ${what}`, undefined, undefined, remedy);
    }
    // The error of the parser quotes the text.
    throw new Retry(`${label(request)}: the reply is not JSON (${text.length} characters)`);
  }
}

/** What is kept of a record, or of an array of them: text to text. */
type Filter = (json: string) => string;
/** By the key of the kind of the records. Undefined: all of them is kept. */
export type ReplyFilter = (kind: string) => Filter | undefined;

/** The body with the records that the rules of the account leave. The other parts of it stay. */
function minimised(filter: Filter, { shape, within }: Request<unknown>, text: string): string {
  const names = [...(within?.split('.') ?? []), ...(shape === 'items' ? ['items'] : [])];
  const at = (json: string, [name, ...rest]: readonly string[]): string => {
    if (name === undefined) return filter(json);
    if (!json.trimStart().startsWith('{')) return json;
    return objectOf([...fieldsOf(json)].map(([field, value]) => [field, field === name ? at(value, rest) : value]));
  };
  return at(text, names);
}

/** The value at `data.items`. */
function valueWithin(body: unknown, path = ''): unknown {
  const names = path === '' ? [] : path.split('.');
  return names.reduce((value, name) => (isObject(value) ? value[name] : undefined), body);
}

/** The text of that value as the source sent it: a number keeps its digits. */
function textWithin(text: string, body: unknown, path: string): string {
  if (valueWithin(body, path) === undefined) return text;
  return path.split('.').reduce((outer, name) => fieldsOf(outer).get(name) ?? '[]', text);
}

const shapes = { list: 'array', single: 'object with an id', items: 'list of items' } as const;

/** Undefined if the body has another shape. */
function recordsIn(body: unknown, shape: keyof typeof shapes, idTypes: IdTypes): readonly unknown[] | undefined {
  if (shape === 'list') return Array.isArray(body) ? body : undefined;
  if (!isObject(body)) return undefined;
  const idType = body.id instanceof ExactNumber ? 'number' : typeof body.id;
  if (shape === 'single') return idTypes.some(type => idType === type) ? [body] : undefined;
  if (Array.isArray(body.items)) return body.items;
  // An empty list has no `items`. But not every object without `items` is an empty list: taking it for one would remove
  // all records of the list.
  const isList = typeof body.kind === 'string' || totalItems(body) !== undefined || Object.keys(body).length === 0;
  return (body.items ?? undefined) === undefined && isList ? [] : undefined;
}

function totalItems(body: unknown): number | undefined {
  return isObject(body) && typeof body.totalItems === 'number' ? body.totalItems : undefined;
}

function totalCount(value: string | undefined): number | undefined {
  return value !== undefined && /^\d+$/.test(value) ? Number(value) : undefined;
}

export function single(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}
