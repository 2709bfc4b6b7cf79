/**
 * The book catalog from a request to a reply, without a socket: who asks, is there quota left, what is the answer, how
 * is it written down, and what goes wrong on purpose. A caller without credentials, one that is refused for the quota,
 * and a browser that asks whether it may ask cost nothing; every other request costs one of the day. HEAD is answered
 * as GET; whoever has the socket leaves the body away.
 */
import { type ClientName, Clients, clientName } from '../clients.ts';
import { type Asked, keep, originOf, type Reply, type SeenRequest, takeApart } from '../exchange.ts';
import { type Fault, hasBody, lagOf, leavesUndone, spoil } from '../faults.ts';
import { type Budget, type LimitOptions, Limits } from '../limits.ts';
import { findAmong } from '../paths.ts';
import { hexId, makeRng, type Rng } from '../random.ts';
import type { RuledService, Rules } from '../rules.ts';
import { settled } from '../switches.ts';
import { demandShortForm, headerOf, tokensOf, verb, wholeUrl } from './asked.ts';
import { behind } from './behind.ts';
import { BooksError, envelope, unauthorized } from './errors.ts';
import { type Mask, parseFields, select } from './fields.ts';
import { type Answer, forBrowsers, notOffered, optionsOf } from './offered.ts';
import { checkParameters, lastOf } from './parameters.ts';
import { BOOKS_ROUTES, type BooksAnswer, type BooksReadings } from './routes.ts';
import { TOKEN_PATH, type TokenOptions, Tokens } from './tokens.ts';
import type { BooksWorld } from './world.ts';

export const BOOKS_BASE = '/books/v1';

/** Every address at or below it. */
const OWN = new RegExp(`^${BOOKS_BASE}(?:[/?]|$)`);

export interface BooksServiceOptions extends Partial<Omit<BooksReadings, 'failing'>>, TokenOptions {
  /** For public reads; default 'sandbox-books-key'. */
  key?: string;
  failing?: Iterable<string>;
  before?: (request: SeenRequest, n: number) => void;
  fault?: (request: SeenRequest, n: number) => Fault | undefined;
  /** What goes wrong with the nth request for an access token. */
  tokenFault?: (n: number) => Fault | undefined;
  /** Asked as well, for this service and for its access tokens. */
  rules?: Rules;
}

type Seen = SeenRequest & Required<Pick<SeenRequest, 'client' | 'outcome'>>;

export class BooksService {
  readonly world: BooksWorld;
  readonly key: string;
  readonly tokens: Tokens;
  readonly requests: SeenRequest[] = [];
  readonly totals = { requests: 0, refused: 0 };
  readonly clients: Clients;
  /** What holds here, as switches.ts has it. */
  readonly readings: BooksReadings;
  readonly #options: BooksServiceOptions;
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
    this.readings = { ...settled('books', options), failing: new Set(options.failing) };
    this.tokens = new Tokens(options, this.readings.tokenSeconds, world.clock.now);
    const limits = this.#newDay();
    this.#limits = new Limits(limits);
    this.clients = new Clients(limits);
    options.rules?.watch(() => world.past.keepFor(options.rules?.longestLag_ms('books') ?? 0));
  }

  /** What there is of the day now. */
  budget(): Budget {
    return this.#limits.budget(this.world.clock.steady());
  }

  /** The quota of the day is whole again. */
  beginNewDay(): void {
    const limits = this.#newDay();
    this.#limits = new Limits(limits);
    this.clients.beginPeriod(limits);
  }

  #newDay(): LimitOptions {
    const { requestsPerDay, requestsPerSecond, daySeconds } = this.readings;
    return {
      credits: requestsPerDay,
      periodSeconds: daySeconds,
      requestsPerSecond,
      window: 'fixed',
      start: this.world.clock.steady(),
    };
  }

  /** Whether a request is for this service. */
  static takes(url: string): boolean {
    return OWN.test(url) || BooksService.isForToken(url);
  }

  /** Such a request has a body that has to be read. */
  static isForToken(url: string): boolean {
    return url.split('?')[0] === TOKEN_PATH;
  }

  handle(asked: Asked): Reply {
    if (BooksService.isForToken(asked.url)) return this.#handToken(asked);
    const { path, query } = takeApart(wholeUrl(asked), BOOKS_BASE);
    const client = this.#clientOf(asked, query);
    const at = this.world.clock.steady();
    const seen: Seen = { method: verb(asked), path, query, cost: 0, at, client, outcome: 'turned away' };
    if (seen.method === 'OPTIONS') return this.#reply(asked, seen, optionsOf(asked, path));
    const found = findAmong(BOOKS_ROUTES, seen.method === 'HEAD' ? 'GET' : seen.method, path);
    let faults: Fault[] = [];
    const answer = answerTo(() => {
      demandShortForm(asked);
      const mine = typeof found !== 'string' && found.route.mine === true;
      const known = this.#identify(asked, query, mine);
      this.#charge(seen, mine);
      const n = ++this.#admitted;
      this.#options.before?.(seen, n);
      faults = this.#faultsOf('books', seen, this.#options.fault?.(seen, n));
      if (leavesUndone(faults, seen.method)) return { status: 200, body: {} };
      if (found === 'no such path') throw new BooksError(404, 'notFound', `There is nothing at ${path}`);
      if (found === 'another verb') throw notOffered(seen.method, path);
      const { route, names } = found;
      checkParameters(query, route.takes, this.readings.parametersChecked);
      const fields = lastOf(query, 'fields') || headerOf(asked, 'x-goog-fieldmask');
      const mask = fields ? parseFields(fields, this.readings.fieldsChecked ? route.shows : undefined) : undefined;
      const { world } = this;
      const lag_ms = route.method === 'GET' ? lagOf(faults) : 0;
      const shown = lag_ms > 0 ? behind(world, lag_ms) : world;
      return chosen(route.answer({ ...this.#surroundings(asked), shown, query, names, known }), mask);
    });
    return this.#sent(seen, spoil(this.#reply(asked, seen, answer), faults, onPurpose));
  }

  /** By kind of credential, never by itself; all tokens that were given for the refresh token are one. */
  #clientOf(asked: Asked, query: URLSearchParams): ClientName {
    const [token] = tokensOf(asked, query);
    const named = () => (token === this.tokens.token ? 'token 1' : 'refreshed token');
    const key = lastOf(query, 'key') ?? headerOf(asked, 'x-goog-api-key');
    const unnamed = key === this.key ? 'key' : 'none';
    const credential = token === undefined ? unnamed : this.tokens.accepts(token) ? named() : 'none';
    return clientName(credential, headerOf(asked, 'user-agent'));
  }

  /**
   * What the client knows from now on: that the day is used up, until the next one, and otherwise no more than what
   * Retry-After says, for replies of the catalog do not tell what is left.
   */
  #sent(seen: Seen, reply: Reply): Reply {
    if (reply.broken === 'before') return reply;
    const { at, client, outcome } = seen;
    const spent = outcome === 'credits';
    const after = Object.entries(reply.headers).find(([name]) => name.toLowerCase() === 'retry-after')?.[1];
    this.clients.told(client, {
      at,
      sent_at: at + (reply.delay_ms ?? 0),
      remaining: spent ? 0 : undefined,
      resetSeconds: spent ? this.#limits.budget(at).reset : Number.parseInt(after ?? '', 10) || 0,
      refuses: spent || outcome === 'burst' || reply.status === 429,
    });
    return reply;
  }

  #handToken(asked: Asked): Reply {
    const { path, query } = takeApart(asked.url, '');
    const seen = { method: asked.method, path, query, cost: 0, at: this.world.clock.steady() };
    const faults = this.#faultsOf('token', seen, this.#options.tokenFault?.(++this.#tokenRequests));
    const undone = { status: 200, headers: { Date: new Date(this.world.clock.now()).toUTCString() }, text: '{}' };
    const reply = leavesUndone(faults, seen.method) ? undone : this.tokens.handle(asked);
    return spoil(reply, faults, noToken);
  }

  /** What goes wrong with a request; what happens to the service itself happens now. */
  #faultsOf(service: RuledService, seen: SeenRequest, hooked: Fault | undefined): Fault[] {
    const struck = this.#options.rules?.strike(service, seen) ?? [];
    if (struck.length > 0) seen.rules = struck.map(({ id }) => id);
    const faults = [...(hooked ? [hooked] : []), ...struck.map(({ fault }) => fault)];
    for (const fault of faults) {
      if (fault.kind === 'clock') this.world.clock.jump(fault.seconds * 1000);
      if (fault.kind === 'credits') this.takeRequests(fault.credits);
    }
    return faults;
  }

  /** Another client uses requests of the day. */
  takeRequests(requests: number): void {
    this.clients.foreign += this.#limits.take(requests, this.world.clock.steady());
  }

  /**
   * A key is enough for what is public, where one is needed at all, a token for everything; a wrong one of either is
   * refused in any case. Both may stand in a header or in the query. Returns whether there was a token.
   */
  #identify(asked: Asked, query: URLSearchParams, mine: boolean): boolean {
    const keys = [lastOf(query, 'key'), headerOf(asked, 'x-goog-api-key')].filter(key => key !== undefined);
    if (keys.some(key => key !== this.key)) {
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

  #charge(seen: Seen, mine: boolean): void {
    seen.outcome = this.#limits.exceeded(1, seen.at) ?? 'admitted';
    if (this.#limits.admit(1, seen.at)) {
      seen.cost = 1;
      return;
    }
    this.totals.refused++;
    const { remaining, reset } = this.#limits.budget(seen.at);
    const after = (seconds: number) =>
      this.readings.retryAfter ? { headers: { 'Retry-After': String(seconds) } } : {};
    if (remaining === 0) throw new BooksError(403, 'dailyLimitExceeded', 'Daily Limit Exceeded', after(reset));
    const reason = mine ? 'userRateLimitExceeded' : 'rateLimitExceeded';
    throw new BooksError(this.readings.tooFast, reason, 'Rate Limit Exceeded', after(1));
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

  /** Writes the answer down as HTTP, and the request into the log. */
  #reply(asked: Asked, seen: Seen, answer: Answer): Reply {
    const { at, client, cost: charged, outcome } = seen;
    this.clients.visited(client, { at, request: `${seen.method} ${seen.path}`, cost: 1, charged, outcome });
    seen.status = answer.status;
    this.totals.requests++;
    keep(this.requests, seen);
    const { status, body } = answer;
    const sent = { Date: new Date(this.world.clock.now()).toUTCString(), ...forBrowsers(asked), ...answer.headers };
    if (body === undefined) return { status, headers: sent, text: '' };
    const indent = /^(true|1)$/i.test(lastOf(seen.query, 'prettyPrint') ?? '') ? 2 : 0;
    const headers = { ...sent, 'Content-Type': 'application/json; charset=UTF-8' };
    return { status, headers, text: JSON.stringify(body, null, indent) };
  }
}

function answerTo(answer: () => BooksAnswer): Answer {
  try {
    return answer();
  } catch (error) {
    if (!(error instanceof BooksError)) throw error;
    const { status, reason, message, headers, blamed } = error;
    return { status, headers, body: envelope(status, reason, message, blamed) };
  }
}

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
