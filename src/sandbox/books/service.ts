/**
 * The book catalog from a request to a reply, without a socket: who asks, is there quota left, what is the answer, how
 * is it written down, and what goes wrong on purpose. A caller without credentials and one that is refused for the
 * quota cost nothing; every other request costs one of the day.
 */
import { type Asked, keep, type Reply, type SeenRequest, takeApart } from '../exchange.ts';
import { type Fault, spoil } from '../faults.ts';
import { Limits } from '../limits.ts';
import { findAmong } from '../paths.ts';
import { hexId, makeRng, type Rng } from '../random.ts';
import { settled } from '../switches.ts';
import { asBooksError, BooksError, envelope } from './errors.ts';
import { partial } from './fields.ts';
import { BOOKS_ROUTES, type BooksAnswer, type BooksReadings } from './routes.ts';
import { TOKEN_PATH, type TokenOptions, Tokens } from './tokens.ts';
import type { BooksWorld } from './world.ts';

export const BOOKS_BASE = '/books/v1';

export interface BooksServiceOptions extends Partial<Omit<BooksReadings, 'failing'>>, TokenOptions {
  /** For public reads; default 'sandbox-books-key'. */
  key?: string;
  failing?: Iterable<string>;
  before?: (request: SeenRequest, n: number) => void;
  fault?: (request: SeenRequest, n: number) => Fault | undefined;
  /** What goes wrong with the nth request for an access token. */
  tokenFault?: (n: number) => Fault | undefined;
}

export class BooksService {
  readonly world: BooksWorld;
  readonly key: string;
  readonly tokens: Tokens;
  readonly requests: SeenRequest[] = [];
  readonly totals = { requests: 0, refused: 0 };
  readonly #options: BooksServiceOptions;
  readonly #readings: BooksReadings;
  readonly #rng: Rng;
  #limits: Limits;
  #admitted = 0;
  #shown = 0;
  #tokenRequests = 0;

  constructor(world: BooksWorld, options: BooksServiceOptions = {}) {
    this.world = world;
    this.key = options.key ?? 'sandbox-books-key';
    this.#options = options;
    this.#rng = makeRng(world.seed + 0x70741);
    this.#readings = { ...settled('books', options), failing: new Set(options.failing) };
    this.tokens = new Tokens(options, this.#readings.tokenSeconds, world.now);
    this.#limits = this.#newDay();
  }

  /** The quota of the day is whole again. */
  beginNewDay(): void {
    this.#limits = this.#newDay();
  }

  #newDay(): Limits {
    const { requestsPerDay, requestsPerSecond, daySeconds } = this.#readings;
    return new Limits({
      credits: requestsPerDay,
      periodSeconds: daySeconds,
      requestsPerSecond,
      window: 'fixed',
      start: this.world.now(),
    });
  }

  /** Whether a request is for this service. */
  static takes(url: string): boolean {
    return url.startsWith(`${BOOKS_BASE}/`) || BooksService.isForToken(url);
  }

  /** Such a request has a body that has to be read. */
  static isForToken(url: string): boolean {
    return url.split('?')[0] === TOKEN_PATH;
  }

  handle(asked: Asked): Reply {
    if (BooksService.isForToken(asked.url)) return this.#handToken(asked);
    const { path, query } = takeApart(asked.url, BOOKS_BASE);
    const seen: SeenRequest = { method: asked.method, path, query, cost: 0, at: this.world.now() };
    let n = 0;
    const answer = answerTo(query, () => {
      const found = findAmong(BOOKS_ROUTES, asked.method, path);
      const mine = typeof found !== 'string' && found.route.mine === true;
      this.#identify(asked, query, mine);
      this.#charge(seen, mine);
      n = ++this.#admitted;
      this.#options.before?.(seen, n);
      if (found === 'no such path') throw new BooksError(404, 'notFound', `There is nothing at ${path}`);
      if (found === 'another verb') {
        throw new BooksError(405, 'httpMethodNotAllowed', `${asked.method} is not offered at ${path}`);
      }
      return found.route.answer({ ...this.#surroundings(asked), query, names: found.names });
    });
    const reply = this.#reply(seen, answer);
    const fault = n > 0 ? this.#options.fault?.(seen, n) : undefined;
    return fault ? spoil(reply, fault, onPurpose) : reply;
  }

  #handToken(asked: Asked): Reply {
    const fault = this.#options.tokenFault?.(++this.#tokenRequests);
    const reply = this.tokens.handle(asked);
    return fault ? spoil(reply, fault, (_, error = 'temporarily_unavailable') => ({ error })) : reply;
  }

  /** A key is enough for what is public, a token for everything; a wrong one of either is refused in any case. */
  #identify({ headers }: Asked, query: URLSearchParams, mine: boolean): void {
    const key = query.getAll('key').at(-1);
    const [, token] = /^Bearer +(\S+)$/i.exec(String(headers.authorization ?? '')) ?? [];
    if (key !== undefined && key !== this.key) {
      throw new BooksError(400, 'keyInvalid', 'API key not valid. Please pass a valid API key.');
    }
    if (token !== undefined && this.tokens.accepts(token)) return;
    if (token !== undefined || headers.authorization !== undefined) {
      const challenge = { 'WWW-Authenticate': 'Bearer realm="books", error="invalid_token"' };
      throw new BooksError(401, 'authError', 'Invalid Credentials', challenge);
    }
    if (mine) throw new BooksError(401, 'required', 'Login Required.', { 'WWW-Authenticate': 'Bearer realm="books"' });
    if (key === undefined) throw new BooksError(403, 'forbidden', 'The request is missing a valid API key.');
  }

  #charge(seen: SeenRequest, mine: boolean): void {
    if (this.#limits.admit(1, seen.at)) {
      seen.cost = 1;
      return;
    }
    this.totals.refused++;
    const { remaining, reset } = this.#limits.budget(seen.at);
    const after = (seconds: number) => (this.#readings.retryAfter ? { 'Retry-After': String(seconds) } : {});
    if (remaining === 0) throw new BooksError(403, 'dailyLimitExceeded', 'Daily Limit Exceeded', after(reset));
    const reason = mine ? 'userRateLimitExceeded' : 'rateLimitExceeded';
    throw new BooksError(this.#readings.tooFast, reason, 'Rate Limit Exceeded', after(1));
  }

  #surroundings({ headers }: Asked) {
    return {
      world: this.world,
      readings: this.#readings,
      base: `http://${headers.host ?? 'books.example'}${BOOKS_BASE}`,
      token: () => hexId(this.world.seed, ++this.#shown),
      rng: this.#rng,
    };
  }

  /** Writes the answer down as HTTP, and the request into the log. */
  #reply(seen: SeenRequest, answer: Answer): Reply {
    seen.status = answer.status;
    this.totals.requests++;
    keep(this.requests, seen);
    const { status, body } = answer;
    const sent = { Date: new Date(this.world.now()).toUTCString(), ...answer.headers };
    if (body === undefined) return { status, headers: sent, text: '' };
    const indent = seen.query.getAll('prettyPrint').at(-1) === 'true' ? 2 : 0;
    const headers = { ...sent, 'Content-Type': 'application/json; charset=UTF-8' };
    return { status, headers, text: JSON.stringify(body, null, indent) };
  }
}

type Answer = BooksAnswer & { headers?: Record<string, string> };

function answerTo(query: URLSearchParams, answer: () => BooksAnswer): Answer {
  try {
    const whole = answer();
    const fields = query.getAll('fields').at(-1);
    return fields && whole.body !== undefined ? { ...whole, body: partial(whole.body, fields) } : whole;
  } catch (error) {
    const { status, reason, message, headers } = asBooksError(error);
    return { status, headers, body: envelope(status, reason, message) };
  }
}

function onPurpose(status: number, reason = 'backendError'): unknown {
  return envelope(status, reason, `Status ${status} on purpose`);
}
