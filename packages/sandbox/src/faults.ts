/**
 * What goes wrong on purpose. A fault is decided before the request is answered: some act on the service (its clock,
 * its credits), some on what the request reads (`lag`) or does (`work: 'undone'`), the others on the reply that was
 * right. Faults of the text are done here; those of the connection and of time are marks for the server, which has the
 * socket. All but two can be written as JSON (see rules.ts); the two with functions are for tests in process.
 */
import { validateHeaderName, validateHeaderValue } from 'node:http';
import { z } from 'zod';
import { raw } from './raw-json.ts';
import type { Reply } from './request-reply.ts';

const whole = (what: string, least: number, most = Number.MAX_SAFE_INTEGER) => {
  const range = most === Number.MAX_SAFE_INTEGER ? `${least} or more` : `${least} to ${most}`;
  const error = `has to be ${what}: a whole number, ${range}`;
  return z.int({ error }).min(least, { error }).max(most, { error });
};

const seconds = (what: string, range: string, least: number, most: number) => {
  const error = `has to be ${what} in seconds: a number, ${range}`;
  return z.number({ error }).min(least, { error }).max(most, { error });
};

/** What changed within it is kept. */
const LONGEST_LAG = 3600;

const oneOf = <const T extends readonly [string, ...string[]]>(words: T) =>
  z.enum(words, { error: `has to be one of ${words.join(', ')}` });

const text = (what: string) => z.string({ error: `has to be ${what}, as text` });

const headers = z
  .record(z.string(), text('the value of a header'), {
    error: 'has to be an object of header names and their values',
  })
  .superRefine((values, { addIssue }) => {
    for (const [name, value] of Object.entries(values)) {
      const wrong = notSendable(name, value);
      if (wrong !== undefined) addIssue({ code: 'custom', path: [name], message: wrong });
    }
  });

/** Why no server can send it; undefined if it can. */
function notSendable(name: string, value: string): string | undefined {
  try {
    validateHeaderName(name);
  } catch {
    return 'has to have the name of a header: letters, digits and hyphens';
  }
  try {
    validateHeaderValue(name, value);
  } catch {
    return 'has to be a value that a header can have: one line, of Latin letters and signs';
  }
  // It announces fields behind a body in chunks, which no body has here.
  return name.toLowerCase() === 'trailer' ? 'has to be another header: no body here has a trailer' : undefined;
}

/** Whether the request had its effect before it went wrong; what only reads has none. Default done. */
const work = oneOf(['done', 'undone']).optional();

/** Which row of a list: the one with the id, or else the one at this place from 0, from the end if negative. */
const row = {
  id: text('the id of a row').or(z.number()).optional(),
  index: z.int({ error: 'has to be the place of a row: a whole number from 0, or from -1 backwards' }).optional(),
};

const PLAIN_FAULTS = [
  /** Another status: of the 500 series without a body unless there is a reason, of the 400 series with the service's. */
  z.strictObject({
    kind: z.literal('status'),
    status: whole('an HTTP status', 300, 599),
    /** What the body says: `message` of the help desk, `reason` of the catalog, `error` of the token endpoint. */
    reason: text('a reason').optional(),
    /** Such as Retry-After. */
    headers: headers.optional(),
    work,
  }),
  /** The connection is destroyed: before anything is sent, behind the headers, or halfway through the body. */
  z.strictObject({ kind: z.literal('reset'), after: oneOf(['before', 'headers', 'half']), work }),
  /** The data is read, and the reply sent this much later; its Date is that of the sending. */
  z.strictObject({ kind: z.literal('delay'), ms: whole('how late the reply is in milliseconds', 0, 2 ** 31 - 1) }),
  /** JSON that ends in the middle, in a reply that is otherwise complete. */
  z.strictObject({ kind: z.literal('truncate') }),
  z.strictObject({ kind: z.literal('html') }),
  z.strictObject({
    kind: z.literal('headers'),
    drop: z.array(text('the name of a header'), { error: 'has to be a list of header names' }).readonly().optional(),
    set: headers.optional(),
  }),
  /**
   * One record differs in one field. `field` is a path such as `subject` or `contacts.0.value`, without which the whole
   * record is replaced; without `value` the field is missing. A record, or a path to the field, that is not there stays
   * so, and the reply is right.
   */
  z.strictObject({
    kind: z.literal('set'),
    ...row,
    field: text('the path of a field such as contacts.0.value').min(1).optional(),
    value: z.json().optional(),
  }),
  /** A row of a list is shown twice, one behind the other. */
  z.strictObject({ kind: z.literal('duplicate'), ...row }),
  /** What is read comes from a copy that is this far behind: nothing of what has happened since is in it. */
  z.strictObject({
    kind: z.literal('lag'),
    seconds: seconds('how far behind the copy is', `0 to ${LONGEST_LAG}`, 0, LONGEST_LAG),
  }),
  /** The service's clock jumps, from now on; its limits go by another one. */
  z.strictObject({
    kind: z.literal('clock'),
    seconds: seconds('how far the clock jumps', 'negative for back', -1e9, 1e9),
  }),
  /** Another client of the account uses credits (of the catalog: requests of the day) just before this request's answer. */
  z.strictObject({ kind: z.literal('credits'), credits: whole('how many are used', 1) }),
] as const;

export const FAULT_KINDS = PLAIN_FAULTS.map(({ shape }) => shape.kind.value);

/** A fault as JSON. */
export const plainFault = z.discriminatedUnion('kind', PLAIN_FAULTS, {
  error: issue =>
    issue.code === 'invalid_union'
      ? `has to be one of ${FAULT_KINDS.join(', ')}`
      : 'has to be an object that says what goes wrong, such as {"kind": "status", "status": 503}',
});

export type PlainFault = z.infer<typeof plainFault>;

export type Fault =
  | PlainFault
  /** The JSON is parsed, changed and written again. */
  | { kind: 'body'; edit: (json: unknown) => unknown }
  | { kind: 'text'; edit: (text: string) => string };

/** How far behind the copy is that a request reads from; 0 where it is not. */
export function lagOf(faults: readonly Fault[]): number {
  return Math.max(0, ...faults.map(fault => (fault.kind === 'lag' ? fault.seconds * 1000 : 0)));
}

/** Whether a request that would change something is not to; such a one is answered with what `spoil` makes of it. */
export function leavesUndone(faults: readonly Fault[], method: string): boolean {
  return !['GET', 'HEAD'].includes(method) && faults.some(fault => 'work' in fault && fault.work === 'undone');
}

/** An error of the server has no body (help desk 7.3), unless it is to say why. */
export const hasBody = (status: number, reason?: string): boolean => status < 500 || reason !== undefined;

/** How a service writes down that a request has failed: in its own words, and in an envelope if one was asked for. */
export type Refuse = (status: number, headers: Record<string, string>, reason: string | undefined) => Reply;

/** The reply after everything that goes wrong with it, in the order of the faults. */
export function spoil(reply: Reply, faults: readonly Fault[], refuse: Refuse): Reply {
  return faults.reduce((spoilt, fault) => spoiltBy(fault, spoilt, refuse), reply);
}

const PAGE = '<!DOCTYPE html><html><head><title>One moment</title></head><body><h1>Be right back</h1></body></html>';

/** What a good reply says of its body or of what it has made. */
const OF_SUCCESS = ['content-type', 'location', 'total-count'];

function spoiltBy(fault: Fault, reply: Reply, refuse: Refuse): Reply {
  switch (fault.kind) {
    case 'status': {
      const { headers, ...rest } = withHeaders(reply, OF_SUCCESS, fault.headers);
      return { ...rest, ...refuse(fault.status, headers, fault.reason) };
    }
    case 'reset':
      return { ...reply, broken: fault.after };
    case 'truncate':
      return { ...reply, text: reply.text.slice(0, reply.text.length >> 1) };
    case 'html':
      return { ...reply, status: 200, headers: { ...reply.headers, 'Content-Type': 'text/html' }, text: PAGE };
    case 'body':
      return { ...reply, text: JSON.stringify(fault.edit(JSON.parse(reply.text))) };
    case 'text':
      return { ...reply, text: fault.edit(reply.text) };
    case 'delay':
      return { ...reply, delay_ms: (reply.delay_ms ?? 0) + fault.ms };
    case 'headers':
      return withHeaders(reply, fault.drop ?? [], fault.set);
    case 'set':
      return withRows(reply, rows => replaced(rows, placeOf(rows, fault), fault.field?.split('.') ?? [], fault.value));
    case 'duplicate':
      return withRows(reply, rows => {
        const at = placeOf(rows, fault);
        return rows.toSpliced(at, 0, ...rows.slice(at, at + 1));
      });
    case 'lag':
    case 'clock':
    case 'credits':
      return reply;
  }
}

function withHeaders(reply: Reply, drop: readonly string[], set: Record<string, string> = {}): Reply {
  const gone = [...drop, ...Object.keys(set)].map(name => name.toLowerCase());
  const kept = Object.entries(reply.headers).filter(([name]) => !gone.includes(name.toLowerCase()));
  const headers = { ...Object.fromEntries(kept), ...set };
  return { ...reply, headers, ...(gone.includes('date') && { dated: true }) };
}

// --- single records -----------------------------------------------------------------------------------------------------

/** Of a good reply: the rows of its list, of the `items` of one, or its single object, also in an envelope. */
function withRows(reply: Reply, edit: (rows: unknown[]) => unknown[]): Reply {
  if (reply.status >= 300 || reply.text === '') return reply;
  let json: unknown;
  try {
    json = exactly(reply.text);
  } catch {
    return reply; // cut off or replaced by another fault
  }
  return { ...reply, text: JSON.stringify(editRows(json, edit)) ?? '' };
}

function editRows(json: unknown, edit: (rows: unknown[]) => unknown[]): unknown {
  if (Array.isArray(json)) return edit(json);
  if (!isObject(json)) return json;
  if (Array.isArray(json.items)) return { ...json, items: edit(json.items) };
  if ('response' in json && 'headers' in json && Number(written(json.status)) < 300) {
    return { ...json, response: editRows(json.response, edit) };
  }
  return 'response' in json && 'headers' in json ? json : edit([json])[0];
}

/** Numbers stay as they are written, `1.334E7` and those beyond doubles included: only what is to differ differs. */
function exactly(text: string): unknown {
  const parse = JSON.parse as (
    text: string,
    revive: (key: string, value: unknown, context: { source: string }) => unknown,
  ) => unknown;
  return parse(text, (_, value, { source }) => (typeof value === 'number' ? raw(source) : value));
}

const isObject = (json: unknown): json is Record<string, unknown> => typeof json === 'object' && json !== null;

/** Behind the last row where there is none such. */
function placeOf(
  rows: readonly unknown[],
  { id, index = 0 }: { id?: string | number | undefined; index?: number | undefined },
) {
  if (id === undefined) return index < 0 ? Math.max(0, rows.length + index) : Math.min(index, rows.length);
  const at = rows.findIndex(row => isObject(row) && written(row.id) === String(id));
  return at < 0 ? rows.length : at;
}

/** An id as text; a number is one of those that stay as they are written. */
const written = (id: unknown) => (typeof id === 'string' ? id : JSON.stringify(id));

function replaced(rows: unknown[], at: number, path: readonly string[], value: unknown): unknown[] {
  const [field, ...rest] = path;
  if (at >= rows.length) return rows;
  if (field === undefined) return value === undefined ? rows.toSpliced(at, 1) : rows.with(at, value);
  return rows.with(at, withField(rows[at], field, rest, value));
}

/** What leads nowhere is undefined, and so is not written. */
function withField(record: unknown, field: string, [next, ...rest]: readonly string[], value: unknown): unknown {
  if (!isObject(record)) return record;
  const within = next === undefined ? value : withField(record[field], next, rest, value);
  return Array.isArray(record)
    ? record.map((item, at) => (String(at) === field ? within : item))
    : { ...record, [field]: within };
}
