/**
 * From a request to a reply, without a socket, so that a simulation can ask it directly. In this order: who asks (401,
 * 403), is there budget left (429), is it offered (404, 405), what is its body (415, 413, 400), what is the answer, how
 * is it written down, and what goes wrong on purpose. Nobody's requests cost nothing, and a refused one (429) neither,
 * unless `chargeRefused` says so.
 */

import { answerOr, Gate, type Hooks, isRefused, numberIn, type Seen } from '../admission.ts';
import { type Clients, clientName } from '../clients.ts';
import { type Fault, hasBody, lagOf, leavesUndone, type Refuse, spoil } from '../faults.ts';
import { jsonBody } from '../json-body.ts';
import type { Budget } from '../limits.ts';
import { flag, list } from '../query.ts';
import { Refusal } from '../refusal.ts';
import { type Asked, originOf, type Reply, type SeenRequest, takeApart } from '../request-reply.ts';
import { BLOCKED_TOKEN, settled, TOKEN } from '../switches.ts';
import { type Answer, costOf, findRoute, type Readings } from './routes.ts';
import { staleCopy } from './stale-copy.ts';
import type { World } from './world.ts';

export const BASE = '/api/v1';

export interface ServiceOptions extends Partial<Readings>, Hooks {
  /** All with all rights (5.1: each installed instance has its own); default one, 'sandbox-token'. '' is none. */
  tokens?: readonly string[];
  /** Of a caller who is known and has no access (5.5: 403), though it is among the others; default 'sandbox-blocked-token'. */
  blockedToken?: string;
}

/** A request on its way, and what was found out about it before anything was decided. */
interface Visit {
  asked: Asked;
  seen: Seen;
  token: string;
  found: ReturnType<typeof findRoute>;
}

export class Service {
  readonly world: World;
  readonly tokens: readonly string[];
  /** What holds here, as switches.ts has it. */
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

  /** What there is now, as the headers of a reply say it. */
  budget(): Budget {
    return this.#gate.budget();
  }

  /** Those of a reply that is no answer to a request: it used nothing. */
  limitHeaders(): Record<string, string> {
    return budgetHeaders(this.budget(), 0);
  }

  /** Whether somebody may come in, by the head of the request alone. */
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
    const found = below ? findRoute(method, path) : new Refusal(404, `There is nothing but ${BASE} here`);
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

  /** Of a POST, PUT or PATCH, also where a POST stands for it. */
  #bodyOf(asked: Asked, method: string): unknown {
    if (method !== 'POST' && method !== 'PUT' && method !== 'PATCH') return undefined;
    const untyped = method === 'PUT' && (this.readings.emptyPut === 'accepted' || TYPED_PUT);
    return jsonBody(asked, { untyped, most: this.readings.mostBodyBytes });
  }

  /** What a client is called: never its token. */
  #credential(token: string): string {
    if (token === '') return 'none';
    if (token === this.#blocked) return 'blocked token';
    const known = this.tokens.indexOf(token);
    return known < 0 ? 'none' : `token ${known + 1}`;
  }

  /** Writes the request into the log, and the answer down as HTTP. */
  #reply(seen: Seen, answer: Answer): Reply {
    const wanted = isRefused(seen) ? seen.cost : 0;
    this.#gate.record(seen, answer.status);
    const headers = {
      Date: new Date(this.world.clock.now()).toUTCString(),
      ...contentType(answer.body !== undefined),
      ...budgetHeaders(this.#gate.budget(seen.at, wanted), seen.cost),
      ...answer.headers,
    };
    return written(answer, headers, seen.query);
  }
}

/** Said to a PUT that has neither a body nor a type. */
const TYPED_PUT = 'A PUT without a body needs it too, unless the sandbox is started with --empty-put accepted';

/** As Bearer, or as the user name of Basic with any password; '' is nobody's. */
function tokenOf({ headers }: Pick<Asked, 'headers'>): string {
  const [, scheme = '', credentials = ''] = /^(\S+) +(\S+)$/.exec(String(headers.authorization ?? '')) ?? [];
  if (scheme.toLowerCase() === 'bearer') return credentials;
  if (scheme.toLowerCase() !== 'basic') return '';
  return Buffer.from(credentials, 'base64').toString().split(':')[0]!;
}

/** A POST may say that it stands for another verb. */
function verb({ method, headers }: Asked): string {
  const override = String(headers['x-http-method-override'] ?? '').toUpperCase();
  return method === 'POST' && ['PUT', 'PATCH', 'DELETE'].includes(override) ? override : method;
}

function refused(error: unknown): Answer | undefined {
  if (!(error instanceof Refusal)) return undefined;
  const { status, message, errors, headers } = error;
  return { status, headers, body: errors ? { message, errors: errors.map(message => ({ message })) } : { message } };
}

/** Of a request that was to change something, and did not: nobody sees it (see `spoil`), but half of it can be sent. */
const UNDONE: Answer = { status: 200, body: {} };

const contentType = (hasBody: boolean) => (hasBody ? { 'Content-Type': 'application/json' } : {});

/** On purpose. */
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
 * The body as text: only the fields asked for (embedded objects are fields too, and have to be named), and in an
 * envelope if the caller cannot read statuses or headers.
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
