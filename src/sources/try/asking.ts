/**
 * Sends the requests of a try: one after the other, within the declared limits, and as patient as the service wants. It needs no
 * database, so it knows nothing of what other processes of the account spend.
 */
import type { Clock } from '../../clock.ts';
import { parseJson } from '../../engine/exact-json.ts';
import { causeOfError, type Place, withoutTries } from '../../engine/http/causes.ts';
import type { Fetch } from '../../engine/http/fetch.ts';
import { label, single } from '../../engine/http/parse-reply.ts';
import { type Request, urlOf } from '../../engine/http/request.ts';
import { exitCodes, ShelfdeskError } from '../../errors.ts';
import { duration } from '../../words.ts';
import type { Connection } from '../source.ts';

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** Undefined if the body is no JSON. */
  readonly json: unknown;
  /** When it came, by the clock of this machine. */
  readonly atMs: number;
}

/** The service cannot be tried, or no longer. */
export class CannotTry extends ShelfdeskError {
  constructor(message: string, remedy: string, cause?: unknown) {
    super(message, remedy, { exitCode: exitCodes.usage, cause });
  }
}

interface AskingDeps {
  readonly fetch: Fetch;
  readonly connection: Connection;
  readonly clock: Clock;
  readonly place: Place;
  readonly signal: AbortSignal;
  /** Called before a wait that people notice. */
  readonly onWait: (seconds: number, why: string) => void;
}

/** A longer wait is left to another time. */
const longestWaitMs = 60_000;
const noticedMs = 3000;
const tries = 3;
const afterFailureMs = 2000;

/** Requests of one stream. A question more would need a reason. */
const mostOfStream = 20;

export class Asking {
  requests = 0;
  /** How often the service has refused a request at its limit, and whether it said for how long. */
  readonly refusals: { status: number; says: boolean }[] = [];
  /** Names of the headers of all replies, in small letters. */
  readonly headers = new Map<string, string>();
  readonly #deps: AskingDeps;
  readonly #sentMs: number[] = [];
  #notBeforeMs = 0;
  #ofStream = 0;

  constructor(deps: AskingDeps) {
    this.#deps = deps;
  }

  beginStream(): void {
    this.#ofStream = 0;
  }

  /** Throws CannotTry if the service does not answer, or only later. */
  async get(request: Request<unknown>, { withKey = true } = {}): Promise<Answer> {
    for (let attempt = 1; ; attempt++) {
      if (++this.#ofStream > mostOfStream)
        throw new CannotTry(`${label(request)}: ${mostOfStream} requests of this stream are sent`, 'Try it again.');
      const answer = await this.#send(request, withKey);
      const header = (name: string) => single(answer.headers[name]);
      const { dialect } = this.#deps.connection;
      const { status, text } = answer;
      const refusal =
        status === 200 ? undefined : dialect.refusal({ status, header, text, withToken: withKey }, attempt);
      const { remaining, resetSeconds = Number.POSITIVE_INFINITY } = dialect.rate(header);
      const { monotonic } = this.#deps.clock;
      if (remaining !== undefined && remaining <= 0) this.#notBeforeMs = monotonic() + resetSeconds * 1000;
      if (refusal !== undefined) {
        this.refusals.push({ status, says: header('retry-after') !== undefined });
        const freezeMs = refusal.spent ? Number.POSITIVE_INFINITY : (refusal.freezeMs ?? resetSeconds * 1000);
        this.#notBeforeMs = Math.max(this.#notBeforeMs, monotonic() + freezeMs);
        if (attempt < tries) continue;
        throw new CannotTry(`${label(request)}: the service refuses at its limit (${status})`, 'Try it again later.');
      }
      if (status < 500 || attempt >= tries) return answer;
      this.#notBeforeMs = monotonic() + afterFailureMs;
    }
  }

  async #send(request: Request<unknown>, withKey: boolean): Promise<Answer> {
    const { fetch: exchange, connection, clock, place } = this.#deps;
    const { dialect, baseUrl } = connection;
    await this.#pace(request);
    const key = withKey && dialect.needsToken(request) ? await connection.token?.get() : undefined;
    const headers = {
      ...(key !== undefined && (dialect.authorization?.(key) ?? { authorization: `Bearer ${key}` })),
      ...{ accept: 'application/json', 'cache-control': 'no-cache' },
    };
    const url = urlOf(baseUrl, request.path, { ...request.query, ...(withKey && dialect.query(request)) });
    this.requests++;
    try {
      const reply = await exchange(url, headers);
      for (const [name, value] of Object.entries(reply.headers)) this.headers.set(name, single(value) ?? '');
      const { status, headers: said, text, tooLarge, undecoded } = reply;
      if (tooLarge || undecoded)
        throw new CannotTry(
          `${label(request)}: ${undecoded?.message ?? 'the reply is too large'}`,
          'Declare a lower limit of a page.',
        );
      return { status, headers: said, text, json: jsonOf(text), atMs: clock.now() };
    } catch (error) {
      if (error instanceof CannotTry) throw error;
      const { what, remedy } = causeOfError(error, place);
      throw new CannotTry(`${label(request)}: ${what}`, withoutTries(remedy), error);
    }
  }

  /** Waits until each declared limit, and the last refusal, let one more request through. */
  async #pace(request: Request<unknown>): Promise<void> {
    const { clock, connection, onWait, signal } = this.#deps;
    const { credits, periodMs, requestsPerSecond, further = [] } = connection.limits;
    const windows = [{ ms: 1000, requests: requestsPerSecond }, { ms: periodMs, requests: credits }, ...further];
    const free = windows.map(({ ms, requests }) => (this.#sentMs.at(-requests) ?? Number.NEGATIVE_INFINITY) + ms);
    const waitMs = Math.max(...free, this.#notBeforeMs) - clock.monotonic();
    if (waitMs > longestWaitMs) {
      const when = Number.isFinite(waitMs) ? `for ${duration(waitMs / 1000)}` : 'for now';
      throw new CannotTry(`${label(request)}: the limit of the service is used up ${when}`, 'Try it again later.');
    }
    if (waitMs > noticedMs) onWait(Math.ceil(waitMs / 1000), 'the limit of the service');
    if (waitMs > 0) await clock.sleep(waitMs, signal);
    signal.throwIfAborted();
    this.#sentMs.push(clock.monotonic());
  }
}

function jsonOf(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}
