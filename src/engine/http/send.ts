/**
 * The only place that talks to a source: budget → fetch → classify → parse → settle. Retries happen only here. The
 * budget pays for each one. At most ten follow each other, with growing, capped delays. A 429 freezes the whole account
 * in the budget, so it needs no delay here.
 */
import type { Logger } from 'pino';
import type { Clock } from '../../clock.ts';
import {
  exitCodes,
  Fatal,
  messageOf,
  noteOutage,
  quoting,
  ReplyTooLarge,
  Retry,
  type ShelfdeskError,
  Spent,
} from '../../errors.ts';
import type { Awaited, Booked, Budget, Lane } from '../budget/budget.ts';
import { streamKey } from '../database/stream-key.ts';
import {
  aCopy,
  answerOf,
  type Cause,
  causeOfError,
  causeOfReply,
  noInterface,
  type Place,
  refusedBetween,
  withoutTries,
} from './causes.ts';
import { acceptEncoding } from './decoded.ts';
import type { Dialect, Said, Token } from './dialect.ts';
import type { Fetch, RawReply } from './fetch.ts';
import { label, parse, type ReplyFilter, single } from './parse-reply.ts';
import { type Proxies, proxyFor } from './proxies.ts';
import { firstId } from './read-body.ts';
import { type Reply, type Request, type SourceName, urlOf } from './request.ts';

/** A reply that a cache kept no longer is as good as new: its time is only exact to a second. */
const freshSeconds = 1;

/** Of several caches the first figure counts. What cannot be read is no proof of freshness. */
function ageOf(header: string | undefined): number {
  if (header === undefined) return 0;
  const [, seconds] = /^\s*(\d+)\s*(?:,|$)/.exec(header) ?? [];
  return seconds === undefined ? Number.POSITIVE_INFINITY : Number(seconds);
}
/** Delays of 0.1 s, 0.3 s, … 30 s: a short failure costs nothing, and an outage of two minutes is survived. */
const firstDelayMs = 100;
const longestDelayMs = 30_000;
const mostTries = 10;

/** Characters of a failure that a terminal shows. */
const mostWords = 200;

/** A shorter secret is not removed from stored texts: it may be a word. */
const leastSecret = 8;

export interface SendOptions {
  lane: Lane;
  signal?: AbortSignal;
  /** Tries before the failure is passed on; default: ten. */
  tries?: number;
}

/** `why` and `ends`: what people read, such as `retrying (connection refused), try 4` and `next in`. */
export interface Wait {
  readonly why: string;
  readonly ends: string;
  /** How long it lasts yet; where a reply is awaited, at most. */
  readonly ms: number;
  /** How long it lasts in all, as far as is known: a reply may come at any moment. */
  readonly wholeMs: number;
  /** Whether a request has failed. Otherwise it has not been sent yet. */
  readonly isRetry: boolean;
}

type Awaits = Awaited | 'retry';
const endsOf: Readonly<Record<Awaits, string>> = { credits: 'resumes in', reply: 'resumes within', retry: 'next in' };

const whyUnsent: Readonly<Record<Awaited, string>> = {
  credits: 'waiting for credits',
  reply: 'waiting for the reply to another request',
};

/** A request, or why it is not sent yet, for the log of a run. */
export interface Heard {
  readonly request: string;
  /** HTTP status; null without a reply. */
  readonly status: number | null;
  readonly ms: number;
  readonly credits: number;
  readonly says: string | null;
}

export interface Send {
  <T>(request: Request<T>, options: SendOptions): Promise<Reply<T>>;
  /** The clock of the records now, in ms: never ahead of what replies prove. Undefined before the first reply. */
  sourceNow(): number | undefined;
  /** How far the last `Date` was behind the database's clock, in ms; 0: not behind (see Reply.shownBy). */
  dateBehindMs(): number;
  /** Duration of the last reply; 0 before the first. */
  latencyMs(): number;
  /** Books the replies of this process that are not booked yet. It never rejects. */
  book(): Promise<void>;
  /** Credits used since the last call, including those of failed requests. */
  takeCredits(): number;
  /** Why no request is sent now, and for how many ms more; undefined if one is in flight or none is wanted. */
  waits(): Wait | undefined;
  /**
   * The same source, with a count of credits of its own, because several jobs may run concurrently. `heard` is told of
   * each try and of each wait.
   */
  apart(heard?: (one: Heard) => void): Send;
}

interface Noted {
  readonly why: string;
  readonly awaits: Awaits;
  readonly sinceMs: number;
  readonly untilMs: number;
}

function waitOf({ why, awaits, sinceMs, untilMs }: Noted, nowMs: number): Wait {
  const wholeMs = (awaits === 'reply' ? nowMs : untilMs) - sinceMs;
  const ms = Math.max(0, untilMs - nowMs);
  return { why, ends: endsOf[awaits], ms, wholeMs, isRetry: awaits === 'retry' };
}

/** A shorter wait is not worth a line in the log of a run. */
const toldMs = 1000;

/** As the log of a run has it. */
const inLog = ({ why, ends, ms }: Wait): string => `${why}, ${ends} ${Math.ceil(ms / 1000)} s`;

/** Credits of a job, and how often the source's clock had moved at its last reply. */
interface Used {
  credits: number;
  moves?: number;
  readonly heard: (one: Heard) => void;
}

/** One request, over all its tries. */
interface Call {
  readonly used: Used;
  /** Refusals at the limits of the source so far, and the end of the pause that the last try was told. */
  refusals: number;
  pausedUntil: Date | undefined;
  /** Of the last reply; undefined if none came. */
  status: number | undefined;
  /** A refused token is replaced once. */
  renewed: boolean;
}

export function makeSend(deps: {
  source: SourceName;
  /** The source as people call it. */
  label?: string;
  baseUrl: URL;
  /** The setting that has the address. */
  address?: string;
  proxies?: Proxies;
  dialect: Dialect;
  token: Token | undefined;
  budget: Budget;
  clock: Clock;
  random: () => number;
  log: Logger;
  fetch: Fetch;
  /** Default: everything is kept. */
  filter?: ReplyFilter | undefined;
}): Send {
  const { budget, clock, log, dialect, filter } = deps;
  const place: Place = {
    ...{ label: deps.label ?? 'the source', address: deps.baseUrl, setting: deps.address ?? 'its address' },
    proxy: deps.proxies && proxyFor(deps.baseUrl, deps.proxies),
  };
  let dateBehindMs = 0;
  let seen: { provenMs: number; at: number; durationMs: number } | undefined;
  const waits = new Set<Noted>();
  let inFlight = 0;

  /** Notes the wait while `work` lasts. */
  async function noting<T>(work: (note: (why: string, ms: number, awaits: Awaits) => Wait) => Promise<T>): Promise<T> {
    let noted: Noted | undefined;
    const forget = () => noted !== undefined && waits.delete(noted);
    try {
      return await work((why, ms, awaits) => {
        forget();
        const nowMs = clock.monotonic();
        const sinceMs = noted?.awaits === awaits ? noted.sinceMs : nowMs;
        noted = { why, awaits, sinceMs, untilMs: nowMs + ms };
        waits.add(noted);
        return waitOf(noted, nowMs);
      });
    } finally {
      forget();
    }
  }

  async function once<T>(request: Request<T>, options: SendOptions, call: Call): Promise<Reply<T>> {
    const bearer = dialect.needsToken(request) ? await deps.token?.get() : undefined;
    const headers = {
      ...(bearer !== undefined && (dialect.authorization?.(bearer) ?? { authorization: `Bearer ${bearer}` })),
      accept: 'application/json',
      'accept-encoding': acceptEncoding,
      'cache-control': 'no-cache',
    };
    const hear = (one: Partial<Heard>) =>
      call.used.heard({ request: label(request), status: null, ms: 0, credits: 0, says: null, ...one });
    let isTold = false;
    const grant = await noting(note =>
      budget.acquire(request.cost, options.lane, options.signal, (ms, awaits) => {
        const wait = note(whyUnsent[awaits], ms, awaits);
        if (isTold || wait.wholeMs < toldMs) return;
        hear({ says: inLog(wait) });
        isTold = true;
      }),
    );
    call.pausedUntil = undefined;
    call.status = undefined;
    const started = clock.monotonic();
    let raw: RawReply;
    inFlight++;
    try {
      const url = urlOf(deps.baseUrl, request.path, { ...request.query, ...dialect.query(request) });
      raw = await deps.fetch(url, headers);
    } catch (error) {
      call.used.credits += request.cost;
      await budget.settle(grant, { headers: {}, refused: false });
      const cause = causeOfError(error, place);
      hear({ ms: Math.ceil(clock.monotonic() - started), credits: request.cost, says: cause.short ?? cause.what });
      throw ended(request, cause, error);
    } finally {
      inFlight--;
    }
    const durationMs = Math.ceil(clock.monotonic() - started);
    call.status = raw.status;
    const header = (name: string) => single(raw.headers[name]);
    const said: Said = { status: raw.status, header, text: raw.text, withToken: bearer !== undefined };
    const isSuccess = raw.status === 200;
    const refusal = isSuccess ? undefined : dialect.refusal(said, call.refusals + 1);
    const refused = refusal !== undefined;
    // Only now: a sum that goes down again could take back what was stored with another reply.
    if (!refused) call.used.credits += request.cost;
    const date = Date.parse(header('date') ?? '');
    const isDated = isSuccess && !Number.isNaN(date);
    const cleaned = isSuccess ? clean(raw.text, leastSecret) : raw.text;
    const kept = cleaned === raw.text ? raw : { ...raw, text: cleaned, bytes: undefined };
    const rules = filter?.(streamKey(deps.source, request.kind));
    const parsed = isDated ? attempt(() => parse(request, kept, dialect, rules, place)) : undefined;
    const dateMs = isDated ? { dateMs: date, stampMs: secondNewest(request, parsed?.value?.records) } : {};
    const booked = await budget.settle(grant, { headers: dialect.rate(header), refused, ...refusal, ...dateMs });
    const { until } = booked;
    hear({ status: raw.status, ms: durationMs, credits: refused ? 0 : request.cost });
    const clockMovedMs = movedSince(call.used, booked.clock);
    const earlierMs = Math.ceil(durationMs / 1000) * 1000 + 1000;
    const asOf = Math.min(date - earlierMs, booked.asOfMs ?? Number.POSITIVE_INFINITY);
    if (!Number.isNaN(date)) seen = { provenMs: asOf + earlierMs, at: clock.monotonic(), durationMs };
    if (refusal?.spent && until) throw new Spent(until, 'day', deps.label);
    if (refusal) call.refusals++;
    if (refusal?.freezeMs !== undefined) call.pausedUntil = until;
    if (raw.status === 401 && bearer !== undefined && deps.token?.renew && !call.renewed) {
      call.renewed = true;
      await deps.token.renew(bearer);
      return once(request, options, call);
    }
    const ageSeconds = ageOf(header('age'));
    if (ageSeconds > freshSeconds && (isSuccess || raw.status === 404)) throw ended(request, aCopy(ageSeconds, place));
    if (!isSuccess) throw failure(request, said, asOf);
    const trueBy = date + 1000;
    const shownBy = booked.shownByMs ?? trueBy;
    const { tooLarge: large } = raw;
    if (large)
      throw new ReplyTooLarge(label(request), {
        ...{ ...large, id: firstId(large.head, request.shape), shown: { asOf, trueBy, shownBy } },
      });
    if (parsed === undefined) throw new Retry(`${label(request)}: the reply has no Date header`);
    if (parsed.value === undefined) throw parsed.error;
    dateBehindMs = shownBy - trueBy;
    return { ...parsed.value, asOf, trueBy, shownBy, ...(clockMovedMs !== undefined && { clockMovedMs }) };
  }

  /** No reply, or one of something else than the interface. */
  function ended(request: Request<unknown>, { what, remedy, lasts, short }: Cause, error?: unknown): ShelfdeskError {
    const message = clean(`${label(request)}: ${what}`);
    if (lasts) return new Fatal(message, clean(remedy));
    const failed = new Retry(message, error, undefined, clean(remedy));
    if (short !== undefined) shortly.set(failed, short);
    return failed;
  }

  /** Removes our secrets, which a source may echo, also as they stand in a URL or in JSON. */
  function clean(text: string, least = 1): string {
    const secrets = [...dialect.secrets, ...(deps.token?.secrets() ?? [])].filter(({ length }) => length >= least);
    const hidden = [...new Set(secrets.flatMap(spellings))].sort((a, b) => b.length - a.length);
    return hidden.reduce((shown, secret) => shown.replaceAll(secret, '…'), text);
  }

  function failure(request: Request<unknown>, said: Said, asOf: number): ShelfdeskError {
    // The interface itself may ask for a login, in its own words.
    const isOurs = said.status === 401 && Boolean(dialect.words?.(said));
    const strange = isOurs ? undefined : causeOfReply({ ...said, path: request.path }, place);
    if (strange !== undefined) {
      const failed = ended(request, { ...strange, what: `${said.status}, ${strange.what}` });
      return strange.quote === undefined || filter ? failed : quoting(failed, clean(strange.quote).slice(0, mostWords));
    }
    const error = elsewhere(request, said, dialect.failure(request, said, { shown: label(request), asOf }));
    // What a source says of an error may hold what a rule leaves out.
    const words = filter ? undefined : dialect.words?.(said);
    const failed = words ? quoting(error, clean(words).slice(0, mostWords)) : error;
    const isOfOne = request.shape === 'single' || request.ofOne === true;
    const isRefused = said.status >= 400 && said.status < 500 && said.status !== 403;
    return isOfOne && isRefused && failed instanceof Fatal && failed.exitCode !== exitCodes.refused
      ? new Retry(`${label(request)}: the source refuses this record (${said.status})`, undefined, failed)
      : failed;
  }

  /** What is not of the interface: a list that each has is not there, or a dialect does not know the words of a 403. */
  function elsewhere(request: Request<unknown>, said: Said, error: ShelfdeskError): ShelfdeskError {
    const { status } = said;
    if (status === 403 && error instanceof Retry && !error.everywhere && !dialect.words?.(said)) {
      const { what, remedy } = refusedBetween(place);
      return new Retry(`${label(request)}: 403, ${what}`, error, undefined, remedy);
    }
    if (status !== 404 || request.shape !== 'list' || request.ofOne) return error;
    const { what, remedy } = noInterface(place);
    if (request.selector !== undefined)
      return new Fatal(
        `${label(request)}: 404, ${place.label} has no such list`,
        `Correct the path of ${request.kind}, where ${place.label} is declared; or: ${remedy}`,
        exitCodes.usage,
      );
    const message = `${label(request)}: 404, ${what}`;
    return error instanceof Retry ? new Retry(message, error, undefined, remedy) : new Fatal(message, remedy);
  }

  async function patiently<T>(request: Request<T>, options: SendOptions, used: Used): Promise<Reply<T>> {
    const tries = options.tries ?? mostTries;
    const call: Call = { used, refusals: 0, pausedUntil: undefined, status: undefined, renewed: false };
    let sinceMs: number | undefined;
    for (let attempt = 1; ; attempt++) {
      try {
        return await once(request, options, call);
      } catch (error) {
        if (error instanceof ReplyTooLarge) throw error;
        sinceMs ??= clock.now();
        const reason = shortly.get(error as Error) ?? messageOf(error).replace(`${label(request)}: `, '');
        const answer = answerOf(error, call.status, reason);
        if (answer !== undefined) noteOutage(error as Error, { label: deps.label ?? 'the source', answer, sinceMs });
        if (!(error instanceof Retry) || error.everywhere) throw error;
        if (attempt >= tries) {
          if (call.pausedUntil) throw new Spent(call.pausedUntil, 'pause', deps.label);
          const message = attempt === 1 ? error.message : `${error.message}; gave up after ${attempt} tries`;
          throw new Retry(message, error, undefined, withoutTries(error.remedy));
        }
        log.debug({ attempt, reason: error.message }, 'request failed, it is tried again');
        const delay = Math.min(longestDelayMs, firstDelayMs * 3 ** (attempt - 1));
        const waitMs = delay * (0.5 + deps.random() / 2);
        await noting(async note => {
          const says = inLog(note(`retrying (${reason}), try ${attempt + 1}`, waitMs, 'retry'));
          used.heard({ request: label(request), status: null, ms: 0, credits: 0, says });
          await clock.sleep(waitMs, options.signal);
        });
      }
    }
  }

  function apart(heard: (one: Heard) => void = () => {}): Send {
    const used: Used = { credits: 0, heard };
    const send = <T>(request: Request<T>, options: SendOptions) => patiently(request, options, used);
    return Object.assign(send, {
      sourceNow: () => seen && seen.provenMs + Math.floor(clock.monotonic() - seen.at),
      dateBehindMs: () => dateBehindMs,
      latencyMs: () => seen?.durationMs ?? 0,
      book: () => budget.book(),
      takeCredits: () => {
        const taken = used.credits;
        used.credits = 0;
        return taken;
      },
      waits: () => {
        const [first] = waits;
        return first === undefined || inFlight > 0 ? undefined : waitOf(first, clock.monotonic());
      },
      apart,
    });
  }
  return apart();
}

/** Failures in a few words, for a line that is rewritten. */
const shortly = new WeakMap<Error, string>();

/** The budget books a reply before its error is thrown. */
function attempt<T>(work: () => T): { value?: T; error?: unknown } {
  try {
    return { value: work() };
  } catch (error) {
    return { error };
  }
}

/** A source may date one record ahead of its change. */
function secondNewest<T>({ stampedAt }: Request<T>, records: readonly T[] = []): number | undefined {
  const stamps = stampedAt ? records.map(record => stampedAt(record)).filter(ms => !Number.isNaN(ms)) : [];
  return stamps.sort((a, b) => b - a)[1];
}

/** How far the clock has moved, if it moved since the last reply of this job, or is not trusted yet. */
function movedSince(used: Used, clock: Booked['clock']): number | undefined {
  if (clock === undefined) return undefined;
  const { moves = clock.moves } = used;
  used.moves = clock.moves;
  return clock.steady && moves === clock.moves ? undefined : clock.byMs;
}

/** URLs write `%2F` or `%2f`, and JSON may escape a slash. */
function spellings(secret: string): string[] {
  const encoded = encodeURIComponent(secret);
  const lower = encoded.replace(/%[0-9A-F]{2}/g, hex => hex.toLowerCase());
  return [secret, encoded, lower, JSON.stringify(secret).slice(1, -1), secret.replaceAll('/', '\\/')];
}
