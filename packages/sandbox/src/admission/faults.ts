/**
 * Injected faults. The service picks the faults of a request before it answers. Some faults act on the service (its clock,
 * its credits), some on what the request reads (`lag`) or does (`work: 'undone'`), the rest change a correct reply. This
 * file changes texts and headers; a broken or late reply is only marked here, because the server owns the socket. JSON
 * can express all faults (see rules.ts) except `body` and `text`, whose functions serve tests without a socket.
 */
import { validateHeaderName, validateHeaderValue } from 'node:http';
import { z } from 'zod';
import { raw } from '../http/raw-json.ts';
import type { Reply } from '../http/request-reply.ts';

const whole = (what: string, least: number, most = Number.MAX_SAFE_INTEGER) => {
  const range = most === Number.MAX_SAFE_INTEGER ? `${least} or more` : `${least} to ${most}`;
  const error = `has to be ${what}: a whole number, ${range}`;
  return z.int({ error }).min(least, { error }).max(most, { error });
};

const seconds = (what: string, range: string, least: number, most: number) => {
  const error = `has to be ${what} in seconds: a number, ${range}`;
  return z.number({ error }).min(least, { error }).max(most, { error });
};

/** Seconds; services keep before-images at most this long. */
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

/** Why a server cannot send the header; undefined if it can. */
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
  // Trailer announces fields after a chunked body; bodies here are never chunked.
  return name.toLowerCase() === 'trailer' ? 'has to be another header: no body here has a trailer' : undefined;
}

/** Whether the request takes effect before the fault; default 'done'. Reads have no effect. */
const work = oneOf(['done', 'undone']).optional();

/** A row of a list: by id, or by index from 0 (negative: from the end). */
const row = {
  id: text('the id of a row').or(z.number()).optional(),
  index: z.int({ error: 'has to be the place of a row: a whole number from 0, or from -1 backwards' }).optional(),
};

const PLAIN_FAULTS = [
  /** Another status. A 5xx has a body only with a reason; a 4xx has the service's error body. */
  z.strictObject({
    kind: z.literal('status'),
    status: whole('an HTTP status', 300, 599),
    /** Goes into `message` (help desk), `reason` (catalog) or `error` (token endpoint). */
    reason: text('a reason').optional(),
    headers: headers.optional(),
    work,
  }),
  /** Destroys the connection: before the reply, after its headers, or halfway through its body. */
  z.strictObject({ kind: z.literal('reset'), after: oneOf(['before', 'headers', 'half']), work }),
  /** Sends the reply later than its data was read; Date is the time of sending. */
  z.strictObject({ kind: z.literal('delay'), ms: whole('how late the reply is in milliseconds', 0, 2 ** 31 - 1) }),
  /** Cuts the JSON in half; headers and length fit the shorter text. */
  z.strictObject({ kind: z.literal('truncate') }),
  z.strictObject({ kind: z.literal('html') }),
  z.strictObject({
    kind: z.literal('headers'),
    drop: z.array(text('the name of a header'), { error: 'has to be a list of header names' }).readonly().optional(),
    set: headers.optional(),
  }),
  /**
   * Changes one field of one record. `field` is a path such as `subject` or `contacts.0.value`; without `field` the whole
   * record changes. Without `value` the field (or record) is removed. If record or path do not exist, the reply stays
   * correct.
   */
  z.strictObject({
    kind: z.literal('set'),
    ...row,
    field: text('the path of a field such as contacts.0.value').min(1).optional(),
    value: z.json().optional(),
  }),
  /** Repeats a row of a list, right after itself. */
  z.strictObject({ kind: z.literal('duplicate'), ...row }),
  /** Reads from a copy that lacks all changes of the last `seconds`. */
  z.strictObject({
    kind: z.literal('lag'),
    seconds: seconds('how far behind the copy is', `0 to ${LONGEST_LAG}`, 0, LONGEST_LAG),
  }),
  /** Makes the service's clock jump, permanently; limits use the steady clock. */
  z.strictObject({
    kind: z.literal('clock'),
    seconds: seconds('how far the clock jumps', 'negative for back', -1e9, 1e9),
  }),
  /** Lets another client use credits (catalog: requests of the day) right before the answer. */
  z.strictObject({ kind: z.literal('credits'), credits: whole('how many are used', 1) }),
] as const;

// @internal The README names each of them: a test compares.
export const FAULT_KINDS = PLAIN_FAULTS.map(({ shape }) => shape.kind.value);

/** Schema of a fault in JSON. */
export const plainFault = z.discriminatedUnion('kind', PLAIN_FAULTS, {
  error: issue =>
    issue.code === 'invalid_union'
      ? `has to be one of ${FAULT_KINDS.join(', ')}`
      : 'has to be an object that says what goes wrong, such as {"kind": "status", "status": 503}',
});

export type PlainFault = z.infer<typeof plainFault>;

export type Fault =
  | PlainFault
  /** Edits the parsed JSON of the reply. */
  | { kind: 'body'; edit: (json: unknown) => unknown }
  | { kind: 'text'; edit: (text: string) => string };

/** Lag of the copy that the request reads, in milliseconds; 0 for current data. */
export function lagOf(faults: readonly Fault[]): number {
  return Math.max(0, ...faults.map(fault => (fault.kind === 'lag' ? fault.seconds * 1000 : 0)));
}

/** Whether a writing request must have no effect; `spoil` makes its reply. */
export function leavesUndone(faults: readonly Fault[], method: string): boolean {
  return !['GET', 'HEAD'].includes(method) && faults.some(fault => 'work' in fault && fault.work === 'undone');
}

/** A 5xx has no body (help desk 7.3), unless the fault gives a reason. */
export const hasBody = (status: number, reason?: string): boolean => status < 500 || reason !== undefined;

/** Builds the service's own error reply, in an envelope if the request asks for one. */
export type Refuse = (status: number, headers: Record<string, string>, reason: string | undefined) => Reply;

/** Applies the faults to the reply, in their order. */
export function spoil(reply: Reply, faults: readonly Fault[], refuse: Refuse): Reply {
  return faults.reduce((spoilt, fault) => spoiltBy(fault, spoilt, refuse), reply);
}

const PAGE = '<!DOCTYPE html><html><head><title>One moment</title></head><body><h1>Be right back</h1></body></html>';

/** Headers that only a successful reply has. */
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

/** Edits the rows of a successful reply: its list, its `items`, or its single object; also inside an envelope. */
function withRows(reply: Reply, edit: (rows: unknown[]) => unknown[]): Reply {
  if (reply.status >= 300 || reply.text === '') return reply;
  let json: unknown;
  try {
    json = exactly(reply.text);
  } catch {
    return reply; // An earlier fault has cut or replaced the JSON.
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

/** Parses JSON and keeps the spelling of numbers (`1.334E7`, numbers beyond doubles): only the faulty field may change. */
function exactly(text: string): unknown {
  const parse = JSON.parse as (
    text: string,
    revive: (key: string, value: unknown, context: { source: string }) => unknown,
  ) => unknown;
  return parse(text, (_, value, { source }) => (typeof value === 'number' ? raw(source) : value));
}

const isObject = (json: unknown): json is Record<string, unknown> => typeof json === 'object' && json !== null;

/** Index of the row; the length of the list if no row matches. */
function placeOf(
  rows: readonly unknown[],
  { id, index = 0 }: { id?: string | number | undefined; index?: number | undefined },
) {
  if (id === undefined) return index < 0 ? Math.max(0, rows.length + index) : Math.min(index, rows.length);
  const at = rows.findIndex(row => isObject(row) && written(row.id) === String(id));
  return at < 0 ? rows.length : at;
}

/** An id as text; numbers keep their spelling (see `exactly`). */
const written = (id: unknown) => (typeof id === 'string' ? id : JSON.stringify(id));

function replaced(rows: unknown[], at: number, path: readonly string[], value: unknown): unknown[] {
  const [field, ...rest] = path;
  if (at >= rows.length) return rows;
  if (field === undefined) return value === undefined ? rows.toSpliced(at, 1) : rows.with(at, value);
  return rows.with(at, withField(rows[at], field, rest, value));
}

/** A field with the value undefined is left out of the JSON. */
function withField(record: unknown, field: string, [next, ...rest]: readonly string[], value: unknown): unknown {
  if (!isObject(record)) return record;
  const within = next === undefined ? value : withField(record[field], next, rest, value);
  return Array.isArray(record)
    ? record.map((item, at) => (String(at) === field ? within : item))
    : { ...record, [field]: within };
}
