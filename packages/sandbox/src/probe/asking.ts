/**
 * Sends the requests of a probe: only GET, one after the other, slower than the limit, and with a tenth of the credits left to
 * others. A 429 is waited out, a 5xx asked again.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Clock } from '../clock.ts';
import { SandboxUsageError } from '../usage-error.ts';

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Undefined if the text is no JSON. */
  readonly json: unknown;
  /** When it came, in milliseconds since 1970 by the clock of this machine. */
  readonly at: number;
}

export interface Access {
  /** Base address of the help desk, such as https://desk.example/api/v1. */
  readonly url: string;
  readonly token: string;
  readonly signal?: AbortSignal;
  /** Milliseconds from one request to the next. */
  readonly everyMs?: number;
  /** Called before a wait of this many seconds. */
  readonly onWait?: (seconds: number, why: string) => void;
}

type Query = Readonly<Record<string, string | number | boolean>>;

/** Five requests a second, of the six that are allowed. */
const EVERY_MS = 200;
const TIMEOUT_MS = 30_000;
const TRIES = 4;
/** Wait after a 429 that names none, and after a 5xx, in seconds. */
const PERIOD_S = 60;
const FAILED_S = 2;

export class Asking {
  requests = 0;
  /** As the replies tell; a reply that tells nothing counts as one. */
  credits = 0;
  readonly #access: Access;
  readonly #clock = new Clock();
  #nextAt = 0;

  constructor(access: Access) {
    this.#access = access;
  }

  async get(path: string, query: Query = {}): Promise<Reply> {
    for (let left = TRIES; ; left--) {
      const reply = await this.#send(path, query);
      const { status, headers } = reply;
      if (status === 401 || status === 403)
        throw new SandboxUsageError(
          `the help desk refuses the token (${status})`,
          'Give a token that may read everything.',
        );
      if (left > 1 && status === 429) await this.#wait(numberOf(headers, 'rate-limit-reset') ?? PERIOD_S, 'it refuses');
      else if (left > 1 && status >= 500) await this.#wait(FAILED_S, `it answers ${status}`);
      else return reply;
    }
  }

  /** The records of a list, or of one page of it. */
  async list<T = Record<string, unknown>>(path: string, query: Query = {}): Promise<T[]> {
    const { status, json } = await this.get(path, query);
    if (status === 200 && Array.isArray(json)) return json as T[];
    throw new SandboxUsageError(
      `GET ${path} answers ${status} without a list`,
      'Check the address: it ends with /api/v1.',
    );
  }

  async #send(path: string, query: Query): Promise<Reply> {
    const { url, token, signal, everyMs = EVERY_MS } = this.#access;
    await sleep(Math.max(0, this.#nextAt - this.#clock.steady()), undefined, { signal });
    this.#nextAt = this.#clock.steady() + everyMs;
    const address = new URL(`${url.replace(/\/+$/, '')}${path}`);
    for (const [name, value] of Object.entries(query)) address.searchParams.set(name, String(value));
    const signals = [AbortSignal.timeout(TIMEOUT_MS), ...(signal ? [signal] : [])];
    try {
      const response = await fetch(address, {
        headers: { Authorization: `Bearer ${token}`, Accept: 'application/json' },
        redirect: 'error',
        signal: AbortSignal.any(signals),
      });
      const text = await response.text();
      const { status, headers } = response;
      this.requests++;
      this.credits += numberOf(headers, 'rate-limit-used') ?? 1;
      await this.#leaveSome(headers);
      return { status, headers, text, json: parsed(text), at: this.#clock.steady() };
    } catch (error) {
      if (signal?.aborted || error instanceof SandboxUsageError) throw error;
      const { message, cause } = error as Error;
      const why = cause instanceof Error ? cause.message || (cause as NodeJS.ErrnoException).code : message;
      throw new SandboxUsageError(
        `${address.origin} does not answer: ${why}`,
        'Check the address and the network.',
        error,
      );
    }
  }

  async #leaveSome(headers: Headers): Promise<void> {
    const [limit, remaining, reset] = ['limit', 'remaining', 'reset'].map(name =>
      numberOf(headers, `rate-limit-${name}`),
    );
    if (limit === undefined || remaining === undefined || remaining >= limit / 10) return;
    await this.#wait(reset ?? PERIOD_S, 'a tenth of the credits stays for others');
  }

  async #wait(seconds: number, why: string): Promise<void> {
    const { onWait, signal } = this.#access;
    onWait?.(seconds, why);
    await sleep(seconds * 1000, undefined, { signal });
  }
}

export function numberOf(headers: Headers, name: string): number | undefined {
  const value = headers.get(name);
  return value !== null && /^\d+$/.test(value) ? Number(value) : undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
