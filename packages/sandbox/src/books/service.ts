/**
 * The book catalog without a socket: request in, reply out. The steps, in order: credentials, quota, answer, HTTP form,
 * faults. Requests with missing or invalid credentials, refusals by a limit, and OPTIONS cost nothing; every other request
 * costs one request of the day. HEAD is answered as GET; the server omits the body.
 */

import { answerOr, Gate, type Hooks, numberIn, type Seen } from '../admission/admission.ts';
import { type ClientName, type Clients, clientName } from '../admission/clients.ts';
import { type Fault, hasBody, lagOf, leavesUndone, spoil } from '../admission/faults.ts';
import type { Budget } from '../admission/limits.ts';
import { type Asked, originOf, type Reply, type SeenRequest, takeApart } from '../http/request-reply.ts';
import { findAmong } from '../http/routing.ts';
import { hexId, makeRng, type Rng } from '../random.ts';
import { settled } from '../switches.ts';
import { type Answer, forBrowsers, notOffered, optionsOf } from './allowed-methods.ts';
import { BooksError, envelope, unauthorized } from './errors.ts';
import { type Mask, parseFields, select } from './fields.ts';
import { checkParameters, lastOf } from './parameters.ts';
import { demandShortForm, headerOf, tokensOf, verb, wholeUrl } from './request.ts';
import { BOOKS_ROUTES, type BooksAnswer, type BooksReadings } from './routes.ts';
import { staleCopy } from './stale-copy.ts';
import { TOKEN_PATH, type TokenOptions, Tokens } from './tokens.ts';
import type { BooksWorld } from './world.ts';

export const BOOKS_BASE = '/books/v1';

/** The base address and all paths below it. */
const OWN = new RegExp(`^${BOOKS_BASE}(?:[/?]|$)`);

export interface BooksServiceOptions extends Partial<Omit<BooksReadings, 'failing'>>, TokenOptions, Hooks {
  /** API key for public reads; default 'sandbox-books-key'. */
  key?: string;
  failing?: Iterable<string>;
  /** Fault of the nth request for an access token; faults of the rules come on top. */
  tokenFault?: (n: number) => Fault | undefined;
}

/** A request in progress, with its route. */
interface Visit {
  asked: Asked;
  seen: Seen;
  found: ReturnType<typeof findAmong<(typeof BOOKS_ROUTES)[number]>>;
  /** Whether the path is below mylibrary. */
  mine: boolean;
}

export class BooksService {
  readonly world: BooksWorld;
  readonly key: string;
  readonly tokens: Tokens;
  /** Values of the switches (see switches.ts). */
  readonly readings: BooksReadings;
  readonly #options: BooksServiceOptions;
  readonly #rng: Rng;
  readonly #gate: Gate;
  #shown = 0;
  #tokenRequests = 0;

  constructor(world: BooksWorld, options: BooksServiceOptions = {}) {
    this.world = world;
    this.key = options.key ?? 'sandbox-books-key';
    this.#options = options;
    this.#rng = makeRng(world.seed + 0x70741);
    this.readings = { ...settled('books', options), failing: new Set(options.failing) };
    this.tokens = new Tokens(options, this.readings.tokenSeconds, world.clock.now);
    const { requestsPerDay: credits, requestsPerSecond, daySeconds: periodSeconds } = this.readings;
    const terms = { credits, periodSeconds, requestsPerSecond, window: 'fixed' } as const;
    this.#gate = new Gate('books', world, { ...terms, chargeErrors: true, chargeRefused: false }, options);
  }

  get requests(): SeenRequest[] {
    return this.#gate.requests;
  }

  /** `credits` counts requests of the day. */
  get totals(): Gate['totals'] {
    return this.#gate.totals;
  }

  get clients(): Clients {
    return this.#gate.clients;
  }

  /** Current quota of the day. */
  budget(): Budget {
    return this.#gate.budget();
  }

  /** Lets another client use requests of the day. */
  takeRequests(requests: number): void {
    this.#gate.take(requests);
  }

  /** Begins a new day with a full quota. */
  beginNewDay(): void {
    this.#gate.beginPeriod();
  }

  /** Whether a request is for this service. */
  static takes(url: string): boolean {
    return OWN.test(url) || BooksService.isForToken(url);
  }

  /** Whether the request is for the token endpoint. */
  static isForToken(url: string): boolean {
    return url.split('?')[0] === TOKEN_PATH;
  }

  handle(asked: Asked): Reply {
    if (BooksService.isForToken(asked.url)) return this.#handToken(asked);
    const visit = this.#visit(asked);
    const { seen, mine } = visit;
    if (seen.method === 'OPTIONS') return this.#reply(asked, seen, optionsOf(asked, seen.path));
    let faults: Fault[] = [];
    const answer = answerOr<Answer>(() => {
      demandShortForm(asked);
      const known = this.#identify(asked, seen.query, mine);
      if (!this.#gate.admits(seen)) throw this.#refusal(seen, mine);
      faults = this.#gate.strike(seen);
      return leavesUndone(faults, seen.method) ? UNDONE : this.#answer(visit, known, faults);
    }, refused);
    return this.#sent(seen, spoil(this.#reply(asked, seen, answer), faults, onPurpose));
  }

  #visit(asked: Asked): Visit {
    const { path, query } = takeApart(wholeUrl(asked), BOOKS_BASE);
    const method = verb(asked);
    const found = findAmong(BOOKS_ROUTES, method === 'HEAD' ? 'GET' : method, path);
    const mine = typeof found !== 'string' && found.route.mine === true;
    const client = this.#clientOf(asked, query);
    return { asked, found, mine, seen: this.#gate.arrived({ method, path, query, cost: 1, client }) };
  }

  #answer({ asked, seen, found }: Visit, known: boolean, faults: readonly Fault[]): Answer {
    const { method, path, query } = seen;
    if (found === 'no such path') throw new BooksError(404, 'notFound', `Unknown path ${path}`);
    if (found === 'another verb') throw notOffered(method, path);
    const { route, names } = found;
    checkParameters(query, route.takes, this.readings.parametersChecked);
    const fields = lastOf(query, 'fields') || headerOf(asked, 'x-goog-fieldmask');
    const mask = fields ? parseFields(fields, this.readings.fieldsChecked ? route.shows : undefined) : undefined;
    const lag_ms = route.method === 'GET' ? lagOf(faults) : 0;
    const shown = lag_ms > 0 ? staleCopy(this.world, lag_ms) : this.world;
    return chosen(route.answer({ ...this.#surroundings(asked), shown, query, names, known }), mask);
  }

  /** Names the client by kind of credential, never by the secret; all issued tokens count as one. */
  #clientOf(asked: Asked, query: URLSearchParams): ClientName {
    const [token] = tokensOf(asked, query);
    const named = () => (token === this.tokens.token ? 'token 1' : 'refreshed token');
    const key = lastOf(query, 'key') ?? headerOf(asked, 'x-goog-api-key');
    const unnamed = key === this.key ? 'key' : 'none';
    const credential = token === undefined ? unnamed : this.tokens.accepts(token) ? named() : 'none';
    return clientName(credential, headerOf(asked, 'user-agent'));
  }

  /**
   * Notes what the reply tells the client: an exhausted day until its reset, otherwise only Retry-After. Replies of the
   * catalog do not state the remaining quota.
   */
  #sent(seen: Seen, reply: Reply): Reply {
    if (seen.outcome !== 'credits')
      return this.#gate.sent(seen, reply, { resetSeconds: numberIn(reply, 'retry-after') });
    return this.#gate.sent(seen, reply, { remaining: 0, resetSeconds: this.#gate.budget(seen.at).reset });
  }

  /** Requests for access tokens have no limits and are not logged. */
  #handToken(asked: Asked): Reply {
    const { path, query } = takeApart(asked.url, '');
    const { date, steady } = this.world.clock;
    const seen = { method: asked.method, path, query, cost: 0, at: steady() };
    const faults = this.#gate.faultsOf('token', seen, this.#options.tokenFault?.(++this.#tokenRequests));
    const undone = { status: 200, headers: { Date: new Date(date()).toUTCString() }, text: '{}' };
    const reply = leavesUndone(faults, seen.method) ? undone : this.tokens.handle(asked);
    return spoil(reply, faults, noToken);
  }

  /**
   * Checks the credentials, from headers or query. A token gives access to everything, a key to public reads. An invalid
   * key or token is always refused. Returns whether the request has a token.
   */
  #identify(asked: Asked, query: URLSearchParams, mine: boolean): boolean {
    const keys = [lastOf(query, 'key'), headerOf(asked, 'x-goog-api-key')].filter(key => key !== undefined);
    if (keys.some(key => key === '' || key !== this.key)) {
      throw new BooksError(400, 'keyInvalid', 'API key not valid. Please pass a valid API key.');
    }
    const tokens = tokensOf(asked, query);
    if (!tokens.every(token => this.tokens.accepts(token))) {
      throw unauthorized('authError', 'Invalid Credentials', 'invalid_token');
    }
    if (tokens.length > 0) return true;
    if (mine) throw unauthorized('required', 'Login Required.');
    if (keys.length === 0 && this.readings.keyNeeded) {
      throw new BooksError(403, 'forbidden', 'The request is missing a valid API key.');
    }
    return false;
  }

  #refusal(seen: Seen, mine: boolean): BooksError {
    const after = (seconds: number) =>
      this.readings.retryAfter ? { headers: { 'Retry-After': String(seconds) } } : {};
    const { remaining, reset } = this.#gate.budget(seen.at);
    if (remaining === 0) return new BooksError(403, 'dailyLimitExceeded', 'Daily Limit Exceeded', after(reset));
    const reason = mine ? 'userRateLimitExceeded' : 'rateLimitExceeded';
    return new BooksError(this.readings.tooFast, reason, 'Rate Limit Exceeded', after(1));
  }

  #surroundings(asked: Asked) {
    return {
      world: this.world,
      readings: this.readings,
      base: originOf(asked, 'books.example') + BOOKS_BASE,
      token: () => hexId(this.world.seed, ++this.#shown),
      rng: this.#rng,
    };
  }

  /** Logs the request and turns the answer into HTTP. */
  #reply(asked: Asked, seen: Seen, answer: Answer): Reply {
    this.#gate.record(seen, answer.status);
    const { status, body } = answer;
    const sent = { Date: new Date(this.world.clock.date()).toUTCString(), ...forBrowsers(asked), ...answer.headers };
    if (body === undefined) return { status, headers: sent, text: '' };
    const indent = /^(true|1)$/i.test(lastOf(seen.query, 'prettyPrint') ?? '') ? 2 : 0;
    const headers = { ...sent, 'Content-Type': 'application/json; charset=UTF-8' };
    return { status, headers, text: JSON.stringify(body, null, indent) };
  }
}

function refused(error: unknown): Answer | undefined {
  if (!(error instanceof BooksError)) return undefined;
  const { status, reason, message, headers, blamed } = error;
  return { status, headers, body: envelope(status, reason, message, blamed) };
}

/** Placeholder answer of a write without effect (`work: 'undone'`): a fault replaces it or breaks it off. */
const UNDONE: Answer = { status: 200, body: {} };

function chosen(answer: BooksAnswer, mask: Mask | undefined): BooksAnswer {
  return mask && answer.body !== undefined ? { ...answer, body: select(answer.body, mask) } : answer;
}

function onPurpose(status: number, headers: Record<string, string>, reason?: string): Reply {
  const body = envelope(status, reason ?? 'backendError', `Status ${status} on purpose`);
  return asJson(status, headers, hasBody(status, reason) ? body : undefined);
}

function noToken(status: number, headers: Record<string, string>, reason?: string): Reply {
  return asJson(status, headers, hasBody(status, reason) ? { error: reason ?? 'temporarily_unavailable' } : undefined);
}

function asJson(status: number, headers: Record<string, string>, body: unknown): Reply {
  if (body === undefined) return { status, headers, text: '' };
  const typed = { ...headers, 'Content-Type': 'application/json; charset=UTF-8' };
  return { status, headers: typed, text: JSON.stringify(body) };
}
