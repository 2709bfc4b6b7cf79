/**
 * From a request to a reply, without a socket, so that a simulation can ask it directly. In this order: who asks (401,
 * 403), is there budget left (429), is it offered (404, 405), what is its body (415, 413, 400), what is the answer, how
 * is it written down, and what goes wrong on purpose. Nobody's requests cost nothing, and a refused one (429) neither,
 * unless `chargeRefused` says so.
 */
import { jsonBody } from '../body.ts';
import { Clients, clientName, type Said } from '../clients.ts';
import { type Asked, keep, originOf, type Reply, type SeenRequest, takeApart } from '../exchange.ts';
import { type Fault, hasBody, lagOf, leavesUndone, spoil } from '../faults.ts';
import { type Budget, Limits } from '../limits.ts';
import { flag, list } from '../query.ts';
import { Refusal } from '../refusal.ts';
import type { Rules } from '../rules.ts';
import { settled } from '../switches.ts';
import { behind } from './behind.ts';
import { type Answer, costOf, findRoute, type Readings } from './routes.ts';
import type { World } from './world.ts';

export const BASE = '/api/v1';

export interface ServiceOptions extends Partial<Readings> {
  /** All with all rights (5.1: each installed instance has its own); default one, 'sandbox-token'. */
  tokens?: readonly string[];
  /** Of a caller who is known and has no access (5.5: 403); default 'sandbox-blocked-token'. */
  blockedToken?: string;
  before?: (request: SeenRequest, n: number) => void;
  /** Asked before the request is answered; what the rules say comes on top. */
  fault?: (request: SeenRequest, n: number) => Fault | undefined;
  rules?: Rules;
}

type Seen = SeenRequest & Required<Pick<SeenRequest, 'client' | 'outcome'>>;

export class Service {
  readonly world: World;
  readonly tokens: readonly string[];
  readonly requests: SeenRequest[] = [];
  readonly totals = { requests: 0, credits: 0, refused: 0 };
  readonly clients: Clients;
  /** What holds here, as switches.ts has it. */
  readonly readings: Readings;
  readonly #options: ServiceOptions;
  readonly #limits: Limits;
  readonly #blocked: string;
  #admitted = 0;

  constructor(world: World, options: ServiceOptions = {}) {
    this.world = world;
    this.tokens = options.tokens ?? ['sandbox-token'];
    this.#blocked = options.blockedToken ?? 'sandbox-blocked-token';
    this.#options = options;
    this.readings = settled('helpdesk', options);
    const limits = { ...this.readings, start: world.clock.steady() };
    this.#limits = new Limits(limits);
    this.clients = new Clients(limits);
    options.rules?.watch(() => world.past.keepFor(options.rules?.longestLag_ms('helpdesk') ?? 0));
  }

  takeCredits(credits: number): void {
    this.clients.foreign += this.#limits.take(credits, this.world.clock.steady());
  }

  /** What there is now, as the headers of a reply say it. */
  budget(): Budget {
    return this.#limits.budget(this.world.clock.steady());
  }

  handle(asked: Asked): Reply {
    const { path, query, below } = takeApart(asked.url, BASE);
    const found = below ? findRoute(verb(asked), path) : new Refusal(404, `There is nothing but ${BASE} here`);
    const cost = found instanceof Refusal ? 1 : costOf(found.route, query);
    const token = tokenOf(asked);
    const client = clientName(this.#credential(token), asked.headers['user-agent']);
    const at = this.world.clock.steady();
    const seen: Seen = { method: verb(asked), path, query, cost, at, client, outcome: 'turned away' };

    if (token === this.#blocked) return this.#sent(seen, this.#reply(seen, refused(new Refusal(403, 'Forbidden')), 0));
    if (!this.tokens.includes(token)) {
      const challenge = { 'WWW-Authenticate': 'Bearer' };
      return this.#sent(seen, this.#reply(seen, refused(new Refusal(401, 'Unauthorized')), 0, challenge));
    }
    seen.outcome = this.#limits.exceeded(cost, at) ?? 'admitted';
    if (!this.#limits.admit(cost, at)) {
      const charged = this.readings.chargeRefused ? this.#limits.take(cost, seen.at) : 0;
      return this.#sent(seen, this.#reply(seen, refused(new Refusal(429, 'Too Many Requests')), charged));
    }
    const n = ++this.#admitted;
    this.#options.before?.(seen, n);
    const faults = this.#faultsOf(seen, n);
    const answer = answerTo(() => {
      if (leavesUndone(faults, seen.method)) return UNDONE;
      if (found instanceof Refusal) throw found;
      const { route, names } = found;
      const counting = route.counts === true && flag(query, 'count') === true;
      const body = this.#bodyOf(asked, seen.method);
      const base = originOf(asked, 'desk.example') + BASE;
      const { world, readings } = this;
      world.settle();
      const lag_ms = lagOf(faults);
      const shown = lag_ms > 0 ? behind(world, lag_ms) : world;
      return route.answer({ world, shown, readings, query, id: names.id ?? '', names, counting, body, base });
    });
    const free = answer.status >= 400 && !this.readings.chargeErrors;
    if (free) this.#limits.giveBack(cost, seen.at);
    const reply = this.#reply(seen, answer, free ? 0 : cost);
    const onPurpose = (status: number, headers: Record<string, string>, reason?: string) =>
      written(failure(status, reason), { ...headers, ...contentType(hasBody(status, reason)) }, query);
    return this.#sent(seen, spoil(reply, faults, onPurpose));
  }

  /** Of a POST, PUT or PATCH, also where a POST stands for it. */
  #bodyOf(asked: Asked, method: string): unknown {
    if (method !== 'POST' && method !== 'PUT' && method !== 'PATCH') return undefined;
    const untyped = method === 'PUT' && this.readings.emptyPut === 'accepted';
    return jsonBody(asked, { untyped, most: this.readings.mostBodyBytes });
  }

  /** What goes wrong with this request; what happens to the service itself happens now. */
  #faultsOf(seen: Seen, n: number): Fault[] {
    const hooked = this.#options.fault?.(seen, n);
    const struck = this.#options.rules?.strike('helpdesk', seen) ?? [];
    if (struck.length > 0) seen.rules = struck.map(({ id }) => id);
    const faults = [...(hooked ? [hooked] : []), ...struck.map(({ fault }) => fault)];
    for (const fault of faults) {
      if (fault.kind === 'clock') this.world.clock.jump(fault.seconds * 1000);
      if (fault.kind === 'credits') this.takeCredits(fault.credits);
    }
    return faults;
  }

  /** What a client is called: never its token. */
  #credential(token: string): string {
    if (token === this.#blocked) return 'blocked token';
    const known = this.tokens.indexOf(token);
    return known < 0 ? 'none' : `token ${known + 1}`;
  }

  /** The client knows from now on what this reply says of its budget; one that never leaves tells nothing. */
  #sent(seen: Seen, reply: Reply): Reply {
    if (reply.broken !== 'before') this.clients.told(seen.client, saidBy(reply, seen));
    return reply;
  }

  /** Writes the answer down as HTTP, and the request into the books. */
  #reply(seen: Seen, answer: Answer, charged: number, more: Record<string, string> = {}): Reply {
    const budget = this.#limits.budget(seen.at, answer.status === 429 ? seen.cost : 0);
    const headers = {
      Date: new Date(this.world.clock.now()).toUTCString(),
      ...contentType(answer.body !== undefined),
      ...budgetHeaders(budget, charged),
      ...answer.headers,
      ...more,
    };
    const { client, at, cost, outcome } = seen;
    this.clients.visited(client, { at, request: `${seen.method} ${seen.path}`, cost, charged, outcome });
    seen.cost = charged;
    seen.status = answer.status;
    this.#record(seen);
    return written(answer, headers, seen.query);
  }

  #record(seen: SeenRequest): void {
    this.totals.requests++;
    this.totals.credits += seen.cost;
    if (seen.status === 429) this.totals.refused++;
    keep(this.requests, seen);
  }
}

/** As Bearer, or as the user name of Basic with any password; '' is nobody's. */
function tokenOf({ headers }: Asked): string {
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

function answerTo(answer: () => Answer): Answer {
  try {
    return answer();
  } catch (error) {
    if (error instanceof Refusal) return refused(error);
    throw error;
  }
}

function refused({ status, message, errors, headers }: Refusal): Answer {
  return { status, headers, body: errors ? { message, errors: errors.map(message => ({ message })) } : { message } };
}

/** Of a request that was to change something, and did not: nobody sees it (see `spoil`), but half of it can be sent. */
const UNDONE: Answer = { status: 200, body: {} };

const contentType = (hasBody: boolean) => (hasBody ? { 'Content-Type': 'application/json' } : {});

/** On purpose. */
function failure(status: number, reason?: string): Answer {
  const message = reason ?? `Status ${status} on purpose`;
  if (!hasBody(status, reason)) return { status, body: undefined };
  return { status, body: { message, ...(status === 422 && { errors: [{ message }] }) } };
}

function budgetHeaders({ limit, remaining, reset }: Budget, used: number): Record<string, string> {
  return {
    'Rate-Limit-Limit': String(limit),
    'Rate-Limit-Remaining': String(remaining),
    'Rate-Limit-Used': String(used),
    'Rate-Limit-Reset': String(reset),
  };
}

/** As its client reads it, whatever a fault has made of its headers. */
function saidBy({ status, headers, delay_ms = 0 }: Reply, { at, outcome }: Seen): Said {
  const sent = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  const remaining = Number.parseInt(sent.get('rate-limit-remaining') ?? '', 10);
  return {
    at,
    sent_at: at + delay_ms,
    remaining: Number.isNaN(remaining) ? undefined : remaining,
    resetSeconds: Number.parseInt(sent.get('rate-limit-reset') ?? '', 10) || 0,
    refuses: status === 429 || outcome === 'credits' || outcome === 'burst',
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
