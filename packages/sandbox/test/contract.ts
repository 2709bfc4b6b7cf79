/**
 * Holds a reply of the sandbox to its interface document (packages/sandbox/src/openapi.yaml): is there such an operation, does it
 * have this status, these headers and this body? Beyond what a document can say: embedded types and `Total-Count` are
 * there if and only if they were asked for, a request that succeeds uses the credits it says, the shape that `fields`
 * leaves comes only with `fields`, and what is inside an envelope is held to the same as if it were not.
 */

import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { inject } from 'vitest';
import type { Asked, Reply } from '../src/http/request-reply.ts';

type Json = Record<string, unknown>;
type Asking = Pick<Asked, 'method' | 'url' | 'headers'>;
type Replied = Pick<Reply, 'status' | 'headers' | 'text'>;

interface Parameter {
  name: string;
  in: string;
  schema: { items?: { enum?: string[] } };
}

interface Response {
  headers?: Record<string, unknown>;
  content?: Record<string, { schema: Json }>;
}

interface Operation {
  operationId: string;
  parameters?: unknown[];
  responses: Record<string, unknown>;
  'x-credits'?: { base: number; count?: number; embed?: number };
}

interface Path {
  pattern: RegExp;
  operations: Record<string, Operation>;
}

/** Throws with everything that is not as documented. */
export function checkReply(asked: Asking, reply: Replied): void {
  const wrong = breaches(asked, reply);
  if (wrong.length === 0) return;
  const what = `${asked.method} ${asked.url} → ${reply.status} is not as openapi.yaml has it`;
  throw new Error([`${what}:`, ...wrong.map(one => `- ${one}`), reply.text.slice(0, 500)].join('\n'));
}

/** Everything in which the reply differs from the document. */
export function breaches(asked: Asking, reply: Replied): string[] {
  const { path, query, service } = readUrl(asked.url);
  const enveloped = service === 'desk' && query.getAll('envelope').at(-1) === 'true';
  if (!enveloped) return breachesOf(place(asked, service, path), query, reply);
  const envelope = { headers: RATE_HEADERS, content: { 'application/json': { schema: { $ref: 'Envelope' } } } };
  const outside =
    reply.status === 200 ? against(envelope, reply, reply.headers) : ['an envelope always comes with 200'];
  if (outside.length > 0) return outside;
  const { status, headers, response } = JSON.parse(reply.text);
  const text = response === null ? '' : JSON.stringify(response);
  const inside = breachesOf(place(asked, service, path), query, { status, headers, text });
  return inside.map(one => `in the envelope: ${one}`);
}

// --- which operation ---------------------------------------------------------------------------------------------------

type Service = 'desk' | 'books' | 'token';

function readUrl(url: string) {
  const [path = '', ...query] = url.split('?');
  const service: Service = path === '/oauth/token' ? 'token' : /^\/books\/v1(\/|$)/.test(path) ? 'books' : 'desk';
  return { path: decoded(path), query: new URLSearchParams(query.join('?')), service };
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

interface Place {
  service: Service;
  /** Undefined where the document has no such verb, or no such path. */
  operation: Operation | undefined;
  responses: Record<string, unknown>;
}

const ref = (name: string) => ({ $ref: `#/components/responses/${name}` });

/** What holds for verbs and paths that the document does not have, since credentials and limits come first. */
const BEFORE: Record<Service, Record<string, unknown>> = {
  desk: {
    401: ref('Unauthorized'),
    403: ref('Forbidden'),
    429: ref('TooManyRequests'),
    '5XX': ref('ServerError'),
  },
  books: {
    400: ref('BooksBadRequest'),
    401: ref('BooksUnauthorized'),
    403: ref('BooksForbidden'),
    429: ref('BooksTooManyRequests'),
    '5XX': ref('BooksServerError'),
  },
  token: {},
};
/** What browsers and curious clients ask; it has no place in the document. */
const OPTIONS = { 204: { headers: { Allow: { $ref: '#/components/headers/Allow' } } } };

function place(asked: Asking, service: Service, path: string): Place {
  const found = contract().paths.find(({ pattern }) => pattern.test(path));
  const elsewhere = contract().elsewhere[service];
  if (found === undefined) {
    return { service, operation: undefined, responses: { ...BEFORE[service], 404: elsewhere[404] } };
  }
  const verb = verbOf(asked, service);
  const operation = found.operations[verb.toLowerCase()];
  // Only a form that stands for the query of a GET can be too long for the catalog.
  const form = verb === 'GET' && asked.method === 'POST' ? { 413: elsewhere[413] } : {};
  if (operation) return { service, operation, responses: { ...operation.responses, ...form } };
  const options = verb === 'OPTIONS' && service === 'books' ? OPTIONS : {};
  return { service, operation: undefined, responses: { ...BEFORE[service], 405: elsewhere[405], ...options } };
}

/** The catalog answers HEAD as GET, and lets a POST stand for GET too. */
function verbOf({ method, headers }: Asking, service: Service): string {
  if (service === 'books' && method === 'HEAD') return 'GET';
  const override = String(headers['x-http-method-override'] ?? '').toUpperCase();
  const known = ['PUT', 'PATCH', 'DELETE', ...(service === 'books' ? ['GET'] : [])];
  return method === 'POST' && known.includes(override) ? override : method;
}

// --- status, headers, body ---------------------------------------------------------------------------------------------

function breachesOf({ service, operation, responses }: Place, query: URLSearchParams, reply: Replied): string[] {
  const known = responses[reply.status] ?? responses[`${String(reply.status)[0]}XX`];
  if (known === undefined) return [`status ${reply.status} is not documented`];
  const response = resolved(known) as Response;
  const shortened = Boolean(query.get('fields')) && reply.status < 400;
  const forPages = (name: string) => service === 'books' && /^(access-control-|vary$)/i.test(name);
  const visible = Object.fromEntries(Object.entries(reply.headers).filter(([name]) => !forPages(name)));
  const wrong = against(response, reply, visible, shortened);
  if (wrong.length > 0 || operation === undefined || reply.status >= 300) return wrong;
  return beyondSchemas(operation, query, reply);
}

const RATE_HEADERS = Object.fromEntries(
  ['Limit', 'Remaining', 'Used', 'Reset'].map(name => [
    `Rate-Limit-${name}`,
    { $ref: `#/components/headers/Rate-Limit-${name}` },
  ]),
);

/** On every reply, and not worth documenting. */
const PLAIN = ['date', 'content-type', 'content-length'];

function against(
  response: Response,
  { text, status }: Replied,
  headers: Replied['headers'],
  shortened = false,
): string[] {
  const sent = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  const documented = Object.entries(response.headers ?? {});
  const names = documented.map(([name]) => name.toLowerCase());
  const type = sent.get('content-type')?.split(';')[0];
  const wrong = [
    ...documented.flatMap(([name, header]) => aboutHeader(name, resolved(header), sent.get(name.toLowerCase()))),
    ...[...sent.keys()]
      // An envelope repeats the headers of what it holds.
      .filter(name => !PLAIN.includes(name) && !names.includes(name) && !isEnvelope(response))
      .map(name => `header ${name} is not documented for ${status}`),
  ];
  if (response.content === undefined) {
    return text === '' && type === undefined ? wrong : [...wrong, `${status} has no body and no Content-Type`];
  }
  const schema = type === undefined ? undefined : response.content[type]?.schema;
  if (schema === undefined) return [...wrong, `Content-Type ${type} is not documented for ${status}`];
  try {
    return [...wrong, ...aboutBody(schema, JSON.parse(text), shortened)];
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return [...wrong, `the body is not JSON: ${error.message}`];
  }
}

const isEnvelope = ({ content }: Response) => content?.['application/json']?.schema.$ref === 'Envelope';

function aboutHeader(name: string, header: Json, value: string | undefined): string[] {
  if (value === undefined) return header.required === true ? [`header ${name} is missing`] : [];
  const schema = header.schema as Json;
  const read = schema.type === 'integer' && /^-?\d+$/.test(value) ? Number(value) : value;
  return failures(compiled(schema), read).map(failure => `header ${name}: ${failure}`);
}

/**
 * Of the shapes that the document has for a body, the one that was asked for: an envelope without `envelope=true` would
 * be wrong, and so would a part without `fields`.
 */
function aboutBody(schema: Json, body: unknown, shortened: boolean): string[] {
  const shapes = schema.anyOf as Json[] | undefined;
  const wanted = shapes?.find(shape => shape.$ref !== 'Envelope' && isPart(shape) === shortened);
  return failures(compiled(wanted ?? schema), body);
}

/** What `fields` leaves of a record, or a list of such. */
function isPart({ $ref, items }: Json): boolean {
  return /Part$/.test(String($ref ?? (items as Json | undefined)?.$ref));
}

/** Credits, `Total-Count` and embedded types, by what was asked. */
function beyondSchemas(operation: Operation, query: URLSearchParams, { headers, text }: Replied): string[] {
  const wrong: string[] = [];
  const credits = operation['x-credits'];
  const counting = credits?.count !== undefined && query.getAll('count').at(-1) === 'true';
  if (credits) {
    const embeds = new Set(listed(query, 'embed'));
    const cost = credits.base + (counting ? credits.count! : 0) + embeds.size * (credits.embed ?? 0);
    const used = headers['Rate-Limit-Used'];
    if (used !== String(cost)) wrong.push(`it costs ${cost}, and says that it used ${used}`);
    if (text !== '' && !query.get('fields')) wrong.push(...aboutEmbeds(operation, embeds, JSON.parse(text)));
  }
  const counted = headers['Total-Count'] !== undefined;
  if (counted !== counting) wrong.push(`Total-Count is ${counted ? 'there' : 'missing'} with count=${counting}`);
  return wrong;
}

const listed = (query: URLSearchParams, name: string) =>
  query
    .getAll(name)
    .flatMap(value => value.split(','))
    .map(value => value.trim())
    .filter(value => value !== '');

function aboutEmbeds(operation: Operation, wanted: ReadonlySet<string>, body: unknown): string[] {
  const isTicket = (row: unknown): row is Json => typeof row === 'object' && row !== null && 'snoozed_until' in row;
  const rows = (Array.isArray(body) ? body : [body]).filter(isTicket);
  const offered = operation['x-credits']?.embed !== undefined;
  return contract().embeds.flatMap(type => {
    const due = offered && wanted.has(type);
    return rows.every(row => type in row === due) ? [] : [`${type} is ${due ? 'not embedded' : 'embedded unasked'}`];
  });
}

// --- the document ------------------------------------------------------------------------------------------------------

interface Contract {
  ajv: Ajv2020;
  components: Record<string, Record<string, Json>>;
  paths: Path[];
  elsewhere: Record<Service, Record<number, unknown>>;
  /** Types that a ticket can bring along. */
  embeds: string[];
}

let read: Contract | undefined;

/** Read once in each process, and only where somebody asks. */
function contract(): Contract {
  read ??= readContract();
  return read;
}

/** Schemas of the document go by their bare names, so that each is compiled once and not for every place that uses it. */
function readContract(): Contract {
  const text = JSON.stringify(inject('openapi')).replaceAll('"#/components/schemas/', '"');
  const document = JSON.parse(text);
  const { components, 'x-elsewhere': elsewhere } = document;
  const paths: Record<string, object> = document.paths;
  const ajv = new Ajv2020({ strict: true, meta: false, validateSchema: false });
  addFormats.default(ajv, ['date-time', 'uri']);
  ajv.addVocabulary(['discriminator', 'example', 'x-sandbox']);
  for (const [name, schema] of Object.entries(components.schemas!)) ajv.addSchema(schema as Json, name);
  const all = Object.entries(paths).map(([path, operations]) => ({
    pattern: new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`),
    operations: operations as Path['operations'],
  }));
  const embed = (paths['/api/v1/tickets/{ticket_id}'] as Path['operations']).get!.parameters as Parameter[];
  const embeds = embed.find(({ name }) => name === 'embed')?.schema.items?.enum ?? [];
  return { ajv, components, paths: all, elsewhere, embeds };
}

function resolved(node: unknown): Json {
  const { $ref } = node as { $ref?: string };
  const [, kind, name] = /^#\/components\/(\w+)\/(.+)$/.exec($ref ?? '') ?? [];
  return kind === undefined ? (node as Json) : contract().components[kind]![name!]!;
}

const known = new Map<Json, ValidateFunction>();

function compiled(schema: Json): ValidateFunction {
  const validate = known.get(schema) ?? contract().ajv.compile(schema);
  known.set(schema, validate);
  return validate;
}

function failures(validate: ValidateFunction, value: unknown): string[] {
  if (validate(value)) return [];
  const told = (validate.errors ?? []).map(({ instancePath, message, params }) => {
    const more = Object.values(params).filter(value => typeof value === 'string');
    return `${instancePath || 'the body'} ${message} ${more.join(' ')}`.trim();
  });
  return [...new Set(told)];
}
