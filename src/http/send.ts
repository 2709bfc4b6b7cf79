/**
 * The only place that talks to a source: budget → fetch → classify → parse → settle. Retries happen here and nowhere
 * else, each one paid for from the budget, ten in a row at most, with growing, capped delays. A 429 freezes the whole
 * account in the budget, so it needs no delay of its own.
 */
import type { Logger } from 'pino';
import { type Agent, request as undiciRequest } from 'undici';
import type { Budget, Lane, RateHeaders } from '../budget/budget.ts';
import type { Clock } from '../clock.ts';
import { exitCodes, Fatal, Gone, Retry } from '../errors.ts';
import { check, isObject, type Reply, type Request, type Unreadable } from './request.ts';

/** Time-out of a request, in all. The budget holds a request's credits at least this long when its process dies. */
export const timeoutMs = 30_000;

/** 0.1 s, 0.3 s, … 30 s between tries: a blip costs nothing, an outage of two minutes is sat out. */
const firstDelayMs = 100;
const longestDelayMs = 30_000;
const mostTries = 10;

export interface RawReply {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
}

/** GET, as the simulation replaces it. Throws on resets and time-outs. */
export type Fetch = (url: URL, headers: Record<string, string>) => Promise<RawReply>;

export interface SendOptions {
  lane: Lane;
  signal?: AbortSignal;
  /** Tries before the failure is passed on; ten unless told. */
  tries?: number;
}

export interface Send {
  <T>(request: Request<T>, options: SendOptions): Promise<Reply<T>>;
  /** The source's clock now, in ms, as its last `Date` told (never ahead of it); undefined before the first reply. */
  sourceNow(): number | undefined;
  /** How long the last reply took; 0 before the first. */
  latencyMs(): number;
  /** Credits used since this was last asked, by requests that failed included. */
  takeCredits(): number;
  /** The same source, with a count of credits of its own: several jobs may be at work at a time. */
  apart(): Send;
}

export function undiciFetch(dispatcher: Agent): Fetch {
  return async (url, headers) => {
    // A timer of its own, ended with the request: AbortSignal.timeout() would live on for half a minute after each reply,
    // thousands of them at a time in a fast first load.
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(new Error(`time-out after ${timeoutMs / 1000} s`)), timeoutMs);
    try {
      const reply = await undiciRequest(url, { dispatcher, headers, signal: deadline.signal });
      // Text, decoded as UTF-8: an invalid byte becomes U+FFFD here, and nothing that follows can refuse it.
      return { status: reply.statusCode, headers: reply.headers, text: await reply.body.text() };
    } finally {
      clearTimeout(timer);
    }
  };
}

export function makeSend(deps: {
  baseUrl: URL;
  token: string;
  budget: Budget;
  clock: Clock;
  random: () => number;
  log: Logger;
  fetch: Fetch;
}): Send {
  const { budget, clock, log } = deps;
  const headers = { authorization: `Bearer ${deps.token}`, accept: 'application/json' };
  let seen: { date: number; at: number; durationMs: number } | undefined;

  async function once<T>(request: Request<T>, options: SendOptions, used: { credits: number }): Promise<Reply<T>> {
    const grant = await budget.acquire(request.cost, options.lane, options.signal);
    used.credits += request.cost;
    const started = clock.monotonic();
    let raw: RawReply;
    try {
      raw = await deps.fetch(urlOf(deps.baseUrl, request), headers);
    } catch (error) {
      await budget.settle(grant, { headers: {}, refused: false });
      throw new Retry(`${label(request)}: no reply (${reasonOf(error)})`, error);
    }
    const durationMs = Math.ceil(clock.monotonic() - started);
    const rate = rateHeaders(raw.headers);
    const refused = raw.status === 429;
    await budget.settle(grant, { headers: rate, refused });
    if (refused) used.credits -= request.cost;
    const date = Date.parse(single(raw.headers.date) ?? '');
    if (!Number.isNaN(date)) seen = { date, at: clock.monotonic(), durationMs };
    const asOf = date - Math.ceil(durationMs / 1000) * 1000 - 1000;
    classify(request, { ...raw, said: messageOf(raw.text).replaceAll(deps.token, '…') }, asOf);
    if (Number.isNaN(date)) throw new Retry(`${label(request)}: the reply has no Date header`);
    return { ...parse(request, raw), asOf, date };
  }

  async function patiently<T>(request: Request<T>, options: SendOptions, used: { credits: number }): Promise<Reply<T>> {
    const tries = options.tries ?? mostTries;
    for (let attempt = 1; ; attempt++) {
      try {
        return await once(request, options, used);
      } catch (error) {
        if (!(error instanceof Retry)) throw error;
        if (attempt >= tries) {
          throw new Retry(`${error.message}; gave up after ${attempt} tries`, error);
        }
        log.debug({ attempt, reason: error.message }, 'request failed, it is tried again');
        const delay = Math.min(longestDelayMs, firstDelayMs * 3 ** (attempt - 1));
        await clock.sleep(delay * (0.5 + deps.random() / 2), options.signal);
      }
    }
  }

  function apart(): Send {
    const used = { credits: 0 };
    const send = <T>(request: Request<T>, options: SendOptions) => patiently(request, options, used);
    return Object.assign(send, {
      sourceNow: () => (seen === undefined ? undefined : seen.date + Math.floor(clock.monotonic() - seen.at)),
      latencyMs: () => seen?.durationMs ?? 0,
      takeCredits: () => {
        const taken = used.credits;
        used.credits = 0;
        return taken;
      },
      apart,
    });
  }
  return apart();
}

function urlOf(baseUrl: URL, request: Request<unknown>): URL {
  const url = new URL(baseUrl.href.replace(/\/$/, '') + request.path);
  for (const [name, value] of Object.entries(request.query)) url.searchParams.set(name, value);
  return url;
}

/** What people are shown of a request. Carries no secret: the token travels in a header. */
function label(request: Request<unknown>): string {
  const query = new URLSearchParams(request.query).toString();
  return `GET ${request.path}${query && `?${decodeURIComponent(query)}`}`;
}

/** Throws unless the reply is a 200. `said`: its message, without our token, which a source may echo. `asOf` dates a 404. */
function classify(request: Request<unknown>, raw: RawReply & { said: string }, asOf: number): void {
  const { status } = raw;
  if (status === 200) return;
  const what = `${label(request)}: ${status}${raw.said}`;
  if (status === 401)
    throw new Fatal(
      `${what}: the source does not accept the token`,
      'Set HELPDESK_TOKEN to a valid token.',
      exitCodes.refused,
    );
  if (status === 403)
    throw new Fatal(
      `${what}: the token may not read this`,
      'Install the API app with access to all data.',
      exitCodes.refused,
    );
  if (status === 404) throw new Gone(what, asOf);
  if (status === 429) throw new Retry(what);
  if (status >= 500 || status === 408) throw new Retry(what);
  throw new Fatal(what, 'Check that HELPDESK_BASE_URL is the API of the help desk and ends in /api/v1.');
}

/** The body must be JSON of the shape that was asked for; a truncated body or a page of HTML is tried again. */
function parse<T>(
  request: Request<T>,
  raw: RawReply,
): Pick<Reply<T>, 'text' | 'records' | 'unreadable' | 'arrived' | 'total'> {
  let body: unknown;
  try {
    body = JSON.parse(raw.text);
  } catch (error) {
    throw new Retry(`${label(request)}: the reply is not JSON (${raw.text.length} characters)`, error);
  }
  if (request.shape === 'list' ? !Array.isArray(body) : !(isObject(body) && typeof body.id === 'string')) {
    const what = request.shape === 'list' ? 'array' : 'object with an id';
    throw new Retry(`${label(request)}: the reply is JSON, but no ${what}`);
  }
  const all = Array.isArray(body) ? body : [body];
  const records: T[] = [];
  const unreadable: Unreadable[] = [];
  all.forEach((one, place) => {
    const checked = check(request.record, one, place);
    if ('readable' in checked) records.push(checked.readable);
    else unreadable.push(checked);
  });
  const total = single(raw.headers['total-count']);
  return {
    text: raw.text,
    records,
    unreadable,
    arrived: all.length,
    total: total !== undefined && /^\d+$/.test(total) ? Number(total) : undefined,
  };
}

function rateHeaders(headers: RawReply['headers']): RateHeaders {
  const number = (name: string) => {
    const value = single(headers[name]);
    return value !== undefined && /^\d+(\.\d+)?$/.test(value.trim()) ? Number(value) : undefined;
  };
  const rate: RateHeaders = {};
  const [limit, remaining, used, resetSeconds] = ['limit', 'remaining', 'used', 'reset'].map(n =>
    number(`rate-limit-${n}`),
  );
  if (limit !== undefined) rate.limit = limit;
  if (remaining !== undefined) rate.remaining = remaining;
  if (used !== undefined) rate.used = used;
  if (resetSeconds !== undefined) rate.resetSeconds = resetSeconds;
  return rate;
}

function single(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}

/** 400-series errors carry `message` (spec, Errors). */
function messageOf(text: string): string {
  try {
    const body: unknown = JSON.parse(text);
    if (isObject(body) && typeof body.message === 'string') return ` ${body.message.slice(0, 200)}`;
  } catch {
    // No JSON: the status alone has to do.
  }
  return '';
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? ('code' in error ? String(error.code) : error.message) : String(error);
}
