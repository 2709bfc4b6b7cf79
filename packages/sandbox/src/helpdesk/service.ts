/**
 * The help desk without a socket: request in, reply out. The steps, in order: credentials (401, 403), budget (429), route
 * (404, 405), body (415, 413, 400), answer, HTTP form, faults. Requests without access cost nothing; a 429 costs nothing
 * unless `chargeRefused` says so.
 */

import { answerOr, Gate, type Hooks, isRefused, numberIn, type Seen } from '../admission/admission.ts';
import { type Clients, clientName } from '../admission/clients.ts';
import { type Fault, hasBody, lagOf, leavesUndone, type Refuse, spoil } from '../admission/faults.ts';
import type { Budget } from '../admission/limits.ts';
import { jsonBody } from '../http/json-body.ts';
import { flag, list } from '../http/query.ts';
import { Refusal } from '../http/refusal.ts';
import { type Asked, originOf, type Reply, type SeenRequest, takeApart } from '../http/request-reply.ts';
import { BLOCKED_TOKEN, settled, TOKEN } from '../switches.ts';
import { type Answer, costOf, findRoute, type Readings } from './routes.ts';
import { staleCopy } from './stale-copy.ts';
import type { World } from './world/world.ts';

export const BASE = '/api/v1';

export interface ServiceOptions extends Partial<Readings>, Hooks {
  /** Accepted tokens, all with full rights (5.1: one per installed instance); default 'sandbox-token'. '' never matches. */
  tokens?: readonly string[];
  /** Token without access (5.5: 403), even if it is in `tokens`; default 'sandbox-blocked-token'. */
  blockedToken?: string;
}

/** A request in progress, with its token and route. */
interface Visit {
  asked: Asked;
  seen: Seen;
  token: string;
  found: ReturnType<typeof findRoute>;
}

export class Service {
  readonly world: World;
  readonly tokens: readonly string[];
  /** Values of the switches (see switches.ts). */
  readonly readings: Readings;
  readonly #blocked: string;
  readonly #gate: Gate;

  constructor(world: World, options: ServiceOptions = {}) {
    this.world = world;
    this.tokens = options.tokens ?? [TOKEN];
    this.#blocked = options.blockedToken ?? BLOCKED_TOKEN;
    this.readings = settled('helpdesk', options);
    this.#gate = new Gate('helpdesk', world, this.readings, options);
  }

  get requests(): SeenRequest[] {
    return this.#gate.requests;
  }

  get totals(): Gate['totals'] {
    return this.#gate.totals;
  }

  get clients(): Clients {
    return this.#gate.clients;
  }

  takeCredits(credits: number): void {
    this.#gate.take(credits);
  }

  /** Current budget, as in the headers of replies. */
  budget(): Budget {
    return this.#gate.budget();
  }

  /** Rate-limit headers of a reply without a readable request; such a reply costs nothing. */
  limitHeaders(): Record<string, string> {
    return budgetHeaders(this.budget(), 0);
  }

  /** Whether the head of the request has a token with access. */
  letsIn(asked: Asked): boolean {
    return this.#hasAccess(tokenOf(asked));
  }

  handle(asked: Asked): Reply {
    const visit = this.#visit(asked);
    const { seen } = visit;
    let faults: Fault[] = [];
    const answer = answerOr<Answer>(() => {
      this.#demandAccess(visit.token);
      if (!this.#gate.admits(seen)) throw new Refusal(429, 'Too Many Requests');
      faults = this.#gate.strike(seen);
      return leavesUndone(faults, seen.method) ? UNDONE : this.#answer(visit, faults);
    }, refused);
    const reply = spoil(this.#reply(seen, answer), faults, failing(seen.query));
    const remaining = numberIn(reply, 'rate-limit-remaining');
    return this.#gate.sent(seen, reply, { remaining, resetSeconds: numberIn(reply, 'rate-limit-reset') });
  }

  #visit(asked: Asked): Visit {
    const { path, query, below } = takeApart(asked.url, BASE);
    const method = verb(asked);
    const found = below ? findRoute(method, path) : new Refusal(404, `Unknown path; all paths begin with ${BASE}`);
    const cost = found instanceof Refusal ? 1 : costOf(found.route, query);
    const token = tokenOf(asked);
    const client = clientName(this.#credential(token), asked.headers['user-agent']);
    return { asked, found, token, seen: this.#gate.arrived({ method, path, query, cost, client }) };
  }

  #hasAccess(token: string): boolean {
    return token !== '' && token !== this.#blocked && this.tokens.includes(token);
  }

  #demandAccess(token: string): void {
    if (this.#hasAccess(token)) return;
    if (token !== '' && token === this.#blocked) throw new Refusal(403, 'Forbidden');
    throw new Refusal(401, 'Unauthorized', undefined, { 'WWW-Authenticate': 'Bearer' });
  }

  #answer({ asked, seen, found }: Visit, faults: readonly Fault[]): Answer {
    if (found instanceof Refusal) throw found;
    const { route, names } = found;
    const { world, readings } = this;
    const { method, query } = seen;
    const counting = route.counts === true && flag(query, 'count') === true;
    flag(query, 'envelope');
    if (query.has('embed') && !route.embeds && readings.strayEmbed === 'refused') {
      throw new Refusal(400, `embed: nothing can be embedded in ${method} ${seen.path}`);
    }
    const body = this.#bodyOf(asked, method);
    const base = originOf(asked, 'desk.example') + BASE;
    world.settle();
    const lag_ms = method === 'GET' ? lagOf(faults) : 0;
    const shown = lag_ms > 0 ? staleCopy(world, lag_ms) : world;
    return route.answer({ world, shown, readings, query, id: names.id ?? '', names, counting, body, base });
  }

  /** JSON body of a POST, PUT or PATCH (after X-HTTP-Method-Override). */
  #bodyOf(asked: Asked, method: string): unknown {
    if (method !== 'POST' && method !== 'PUT' && method !== 'PATCH') return undefined;
    const untyped = method === 'PUT' && (this.readings.emptyPut === 'accepted' || TYPED_PUT);
    return jsonBody(asked, { untyped, most: this.readings.mostBodyBytes });
  }

  /** Name of the credential for logs; never the token itself. */
  #credential(token: string): string {
    if (token === '') return 'none';
    if (token === this.#blocked) return 'blocked token';
    const known = this.tokens.indexOf(token);
    return known < 0 ? 'none' : `token ${known + 1}`;
  }

  /** Logs the request and turns the answer into HTTP. */
  #reply(seen: Seen, answer: Answer): Reply {
    const wanted = isRefused(seen) ? seen.cost : 0;
    this.#gate.record(seen, answer.status);
    const headers = {
      Date: new Date(this.world.clock.date()).toUTCString(),
      ...contentType(answer.body !== undefined),
      ...budgetHeaders(this.#gate.budget(seen.at, wanted), seen.cost),
      ...answer.headers,
    };
    return written(answer, headers, seen.query);
  }
}

/** Hint in the 415 of a PUT without body and content type. */
const TYPED_PUT = 'A PUT without a body needs it too, unless the sandbox is started with --empty-put accepted';

/** Token from Bearer, or from the user name of Basic; '' if none. */
function tokenOf({ headers }: Pick<Asked, 'headers'>): string {
  const [, scheme = '', credentials = ''] = /^(\S+) +(\S+)$/.exec(String(headers.authorization ?? '')) ?? [];
  if (scheme.toLowerCase() === 'bearer') return credentials;
  if (scheme.toLowerCase() !== 'basic') return '';
  return Buffer.from(credentials, 'base64').toString().split(':')[0]!;
}

/** Method after X-HTTP-Method-Override, which only POST can use. */
function verb({ method, headers }: Asked): string {
  const override = String(headers['x-http-method-override'] ?? '').toUpperCase();
  return method === 'POST' && ['PUT', 'PATCH', 'DELETE'].includes(override) ? override : method;
}

function refused(error: unknown): Answer | undefined {
  if (!(error instanceof Refusal)) return undefined;
  const { status, message, errors, headers } = error;
  return { status, headers, body: errors ? { message, errors: errors.map(message => ({ message })) } : { message } };
}

/** Placeholder answer of a write without effect (`work: 'undone'`): a fault replaces it or breaks it off. */
const UNDONE: Answer = { status: 200, body: {} };

const contentType = (hasBody: boolean) => (hasBody ? { 'Content-Type': 'application/json' } : {});

/** Builds the error replies of `status` faults. */
function failing(query: URLSearchParams): Refuse {
  return (status, headers, reason) => {
    const message = reason ?? `Status ${status} on purpose`;
    const body = hasBody(status, reason) ? { message, ...(status === 422 && { errors: [{ message }] }) } : undefined;
    return written({ status, body }, { ...headers, ...contentType(body !== undefined) }, query);
  };
}

function budgetHeaders({ limit, remaining, reset }: Budget, used: number): Record<string, string> {
  return {
    'Rate-Limit-Limit': String(limit),
    'Rate-Limit-Remaining': String(remaining),
    'Rate-Limit-Used': String(used),
    'Rate-Limit-Reset': String(reset),
  };
}

/**
 * The reply with the body as JSON text. `fields` selects fields, embedded objects included. `envelope=true` wraps status
 * and headers into the body, for callers that cannot read them.
 */
function written(answer: Answer, headers: Record<string, string>, query: URLSearchParams): Reply {
  const fields = list(query, 'fields');
  const filtered = fields !== undefined && answer.status < 400 && answer.body !== undefined;
  const body = filtered ? onlyFields(answer.body, new Set(fields)) : answer.body;
  if (query.getAll('envelope').at(-1) === 'true') {
    const text = JSON.stringify({ status: answer.status, headers, response: body ?? null });
    return { status: 200, headers: { ...headers, 'Content-Type': 'application/json' }, text };
  }
  return { status: answer.status, headers, text: JSON.stringify(body) ?? '' };
}

function onlyFields(body: unknown, fields: ReadonlySet<string>): unknown {
  if (Array.isArray(body)) return body.map(item => onlyFields(item, fields));
  return Object.fromEntries(Object.entries(body as object).filter(([name]) => fields.has(name)));
}
