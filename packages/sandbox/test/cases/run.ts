/** Runs a case on its own world, without a socket, on a clock that only the case moves. */
import { expect } from 'vitest';
import { askingBooks } from '../books-in-process.ts';
import { asking, type Got } from '../in-process.ts';
import { type BooksCase, type DeskCase, type Step, someDigits, someText, stepsOf } from './case.ts';
import { booksOfCases, deskOfCases } from './worlds.ts';

type Ask = (method: string, path: string, headers: Record<string, string>, body?: string | Buffer) => Got;
interface Service {
  ask: Ask;
  /** The path of the base address. */
  base: string;
  /** What the requests that name no credentials bring. */
  as: string;
  clock: { ms: number };
  /** What holds for every reply. */
  always: (got: Got) => void;
}

export function runDeskCase(one: DeskCase): void {
  const { clock, world } = deskOfCases(one.options);
  const { exactly: ask, service } = asking(world, one.options);
  const as = `Bearer ${service.tokens[0]}`;
  runSteps(stepsOf(one), { ask, base: '/api/v1', as, clock, always: holdsForTheDesk });
}

export function runBooksCase(one: BooksCase): void {
  const { clock, world } = booksOfCases(one.options);
  const { exactly: ask, service } = askingBooks(world, one.options);
  const as = `Bearer ${service.tokens.token}`;
  runSteps(stepsOf(one), { ask, base: '/books/v1', as, clock, always: holdsForTheBooks });
}

function runSteps(steps: readonly Step[], service: Service): void {
  const kept: Record<string, string | number> = {};
  for (const step of steps) {
    service.clock.ms += (step.later ?? 0) * 1000;
    for (let i = 0; i < (step.times ?? 1); i++) {
      const got = asked(filled(step, kept), service);
      service.always(got);
      compare(got, filled(step, kept));
      for (const [name, path] of Object.entries(step.keep ?? {})) {
        kept[name] = (path === 'location' ? withSmallNames(got.headers).location : at(got.json, path)) as string;
      }
    }
  }
}

function asked(step: Step, { ask, base, as }: Service): Got {
  const [method, path] = step.ask.split(/ (.*)/s) as [string, string];
  const body = step.raw ?? (step.body === undefined ? undefined : JSON.stringify(step.body));
  const type = step.type === undefined && body !== undefined ? 'application/json' : step.type;
  const headers = {
    host: 'desk.example',
    ...(type && { 'content-type': type }),
    ...(step.as !== null && { authorization: step.as ?? as }),
    ...step.headers,
  };
  // A Location is absolute; what the service is asked with stands below the base address or anywhere.
  const whole = path.replace(/^https?:\/\/[^/]+/, '');
  return ask(method, step.anywhere || whole !== path ? whole : base + path, headers, body);
}

function compare(got: Got, step: Step): void {
  const status = step.status ?? (step.errors ? 422 : 200);
  expect(got.status, `${step.ask}: ${got.text.slice(0, 300)}`).toBe(status);
  if ('is' in step) expect(got.json, step.ask).toEqual(step.is);
  if ('has' in step) expect(got.json, step.ask).toMatchObject(step.has as object);
  if (step.ids !== undefined) expect(got.json.map(({ id }: { id: string }) => id).join(' '), step.ask).toBe(step.ids);
  if (step.text) expect(got.text, step.ask).toMatch(step.text);
  for (const path of step.lacks ?? []) expect(at(got.json, path), `${path} of ${step.ask}`).toBeUndefined();
  for (const [path, value] of Object.entries(step.differs ?? {})) {
    expect(at(got.json, path), `${path} of ${step.ask}`).toBeTypeOf('string');
    expect(at(got.json, path), `${path} of ${step.ask}`).not.toBe(value);
  }
  const headers = withSmallNames(got.headers);
  for (const [name, value] of Object.entries(step.answers ?? {})) {
    if (value === null) expect(headers, step.ask).not.toHaveProperty(name);
    else expect({ [name]: headers[name] }, step.ask).toEqual({ [name]: value });
  }
  if (step.errors) {
    const messages: string[] = got.json.errors.map(({ message }: { message: string }) => message);
    expect(messages, step.ask).toHaveLength(step.errors.length);
    for (const name of step.errors) expect(messages.join('\n'), step.ask).toContain(name);
  }
}

/** Sections 1, 4, 7 and 8, for every reply of the help desk. */
function holdsForTheDesk(got: Got): void {
  const headers = withSmallNames(got.headers);
  for (const name of ['limit', 'remaining', 'used', 'reset']) {
    expect({ [name]: headers[`rate-limit-${name}`] }).toEqual({ [name]: someDigits });
  }
  if (got.status === 201) expect(headers.location).toEqual(someText);
  if (got.status === 204 || got.status >= 500) expect(got.text).toBe('');
  else expect(headers['content-type']).toMatch(/^application\/json\b/);
  if (got.status >= 400 && got.status < 500) expect(got.json).toMatchObject({ message: someText });
  if (got.status === 422) expect(got.json.errors[0]).toMatchObject({ message: someText });
}

/** Errors of the catalog have one shape, and what has no body says so. */
function holdsForTheBooks(got: Got): void {
  if (got.status === 204) expect(got.text).toBe('');
  else expect(withSmallNames(got.headers)['content-type']).toMatch(/^application\/json\b/);
  if (got.status < 400 || typeof got.json.error === 'string') return;
  const { message, errors } = got.json.error;
  expect(errors).toHaveLength(1);
  expect(got.json.error).toMatchObject({
    code: got.status,
    message: someText,
    errors: [{ domain: someText, reason: someText, message }],
  });
}

const withSmallNames = (headers: Record<string, string>) =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));

/** `items.0.id` of something, or undefined. */
function at(value: unknown, path: string): unknown {
  return path.split('.').reduce((part, key) => (part as Record<string, unknown> | null | undefined)?.[key], value);
}

/** A step with `{name}` replaced by what was kept, in every text of it. */
function filled<T>(value: T, kept: Record<string, string | number>): T {
  if (typeof value === 'string') {
    const alone = /^\{(\w+)\}$/.exec(value)?.[1];
    if (alone !== undefined && Object.hasOwn(kept, alone)) return kept[alone] as T;
    return value.replaceAll(/\{(\w+)\}/g, (all, name) => String(kept[name] ?? all)) as T;
  }
  if (Array.isArray(value)) return value.map(item => filled(item, kept)) as T;
  const plain = value !== null && typeof value === 'object' && Object.getPrototypeOf(value) === Object.prototype;
  if (!plain || 'asymmetricMatch' in value) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, filled(item, kept)])) as T;
}
