/**
 * What happens to a request in either service, whatever it asks: it is counted against the limits that all share, things
 * go wrong with it on purpose, and it is written down with who asked and what became of it. Who may come in, and in
 * which words somebody is refused, is the service's own.
 */
import { type ClientName, Clients } from './clients.ts';
import type { Clock } from './clock.ts';
import type { Fault } from './faults.ts';
import { type Budget, type LimitOptions, Limits } from './limits.ts';
import { keep, type Reply, type SeenRequest } from './request-reply.ts';
import type { RuledService, Rules } from './rules.ts';

/** What others do with the requests of a service. */
export interface Hooks {
  /** Called with the nth request that was let in, before it is answered. */
  before?: (request: SeenRequest, n: number) => void;
  /** Asked before the request is answered; what the rules say comes on top. */
  fault?: (request: SeenRequest, n: number) => Fault | undefined;
  rules?: Rules;
}

interface Terms extends Omit<LimitOptions, 'start'> {
  /** Whether an answer of the 400 series uses what the request costs. */
  chargeErrors: boolean;
  /** Whether a request that is refused for a limit does all the same. */
  chargeRefused: boolean;
}

/** What it needs of a world. */
interface Timed {
  clock: Pick<Clock, 'steady' | 'jump'>;
  past: { keepFor(ms: number): void };
}

/** What a reply says of what is left; a part that it does not say is undefined. */
interface SaidOfBudget {
  remaining?: number | undefined;
  resetSeconds: number | undefined;
}

/** A request on its way: until it is written down, `cost` is what it wants to use, and then what it has used. */
export type Seen = SeenRequest & Required<Pick<SeenRequest, 'client' | 'outcome'>>;

export class Gate {
  readonly requests: SeenRequest[] = [];
  readonly totals = { requests: 0, credits: 0, refused: 0 };
  readonly clients: Clients;
  readonly #service: RuledService;
  readonly #world: Timed;
  readonly #terms: Terms;
  readonly #hooks: Hooks;
  #limits: Limits;
  #admitted = 0;

  constructor(service: 'helpdesk' | 'books', world: Timed, terms: Terms, hooks: Hooks) {
    this.#service = service;
    this.#world = world;
    this.#terms = terms;
    this.#hooks = hooks;
    const limits = { ...terms, start: world.clock.steady() };
    this.#limits = new Limits(limits);
    this.clients = new Clients(limits);
    const { rules } = hooks;
    rules?.watch(() => world.past.keepFor(rules.longestLag_ms(service)));
  }

  /** `wanted`: the cost of a request that was refused. */
  budget(at = this.#world.clock.steady(), wanted = 0): Budget {
    return this.#limits.budget(at, wanted);
  }

  /** Somebody else uses so much of what all share. */
  take(credits: number, at = this.#world.clock.steady()): void {
    this.clients.foreign += this.#limits.take(credits, at);
  }

  /** Nothing is used any more, and a period begins now. */
  beginPeriod(): void {
    const limits = { ...this.#terms, start: this.#world.clock.steady() };
    this.#limits = new Limits(limits);
    this.clients.beginPeriod(limits);
  }

  arrived(request: Pick<SeenRequest, 'method' | 'path' | 'query' | 'cost'> & { client: ClientName }): Seen {
    return { ...request, at: this.#world.clock.steady(), outcome: 'turned away' };
  }

  /** Lets it in if there is enough left for it. */
  admits(seen: Seen): boolean {
    seen.outcome = this.#limits.exceeded(seen.cost, seen.at) ?? 'admitted';
    return this.#limits.admit(seen.cost, seen.at);
  }

  /** What goes wrong with a request that was let in; what happens to the service itself happens now. */
  strike(seen: Seen): Fault[] {
    const n = ++this.#admitted;
    this.#hooks.before?.(seen, n);
    return this.faultsOf(this.#service, seen, this.#hooks.fault?.(seen, n));
  }

  /** The same for one that goes by no limits; `hooked` comes first. */
  faultsOf(service: RuledService, seen: SeenRequest, hooked: Fault | undefined): Fault[] {
    const struck = this.#hooks.rules?.strike(service, seen) ?? [];
    if (struck.length > 0) seen.rules = struck.map(({ id }) => id);
    const faults = [...(hooked ? [hooked] : []), ...struck.map(({ fault }) => fault)];
    for (const fault of faults) {
      if (fault.kind === 'clock') this.#world.clock.jump(fault.seconds * 1000);
      if (fault.kind === 'credits') this.take(fault.credits, seen.at);
    }
    return faults;
  }

  /** Charges for it now that it is answered, and writes it down. */
  record(seen: Seen, status: number): void {
    const { client, at, cost, outcome } = seen;
    seen.status = status;
    seen.cost = this.#charged(seen, status);
    this.clients.visited(client, { at, request: `${seen.method} ${seen.path}`, cost, charged: seen.cost, outcome });
    this.totals.requests++;
    this.totals.credits += seen.cost;
    if (isRefused(seen)) this.totals.refused++;
    keep(this.requests, seen);
  }

  #charged({ outcome, cost, at }: Seen, status: number): number {
    if (outcome === 'turned away') return 0;
    if (outcome !== 'admitted') return this.#terms.chargeRefused ? this.#limits.take(cost, at) : 0;
    if (this.#terms.chargeErrors || status < 400 || status >= 500) return cost;
    this.#limits.giveBack(cost, at);
    return 0;
  }

  /** The client knows from now on what this reply says of its budget; one that never leaves tells nothing. */
  sent(seen: Seen, reply: Reply, { remaining, resetSeconds = 0 }: SaidOfBudget): Reply {
    const { at, client } = seen;
    const refuses = reply.status === 429 || isRefused(seen);
    const said = { at, sent_at: at + (reply.delay_ms ?? 0), remaining, resetSeconds, refuses };
    if (reply.broken !== 'before') this.clients.told(client, said);
    return reply;
  }
}

/** For a limit. */
export const isRefused = ({ outcome }: Seen): boolean => outcome === 'credits' || outcome === 'burst';

/** A header as its client reads it, whatever a fault has made of it. */
export function numberIn({ headers }: Reply, name: string): number | undefined {
  const value = Object.entries(headers).find(([one]) => one.toLowerCase() === name)?.[1];
  const number = Number.parseInt(value ?? '', 10);
  return Number.isNaN(number) ? undefined : number;
}

/**
 * An answer, or what the service makes of what was thrown instead. What it cannot make anything of is a mistake of the
 * sandbox's own: a 500 as any other, which costs and is written down, and is told where the sandbox runs.
 */
export function answerOr<A>(answer: () => A, refused: (error: unknown) => A | undefined): A | { status: number } {
  try {
    return answer();
  } catch (error) {
    const refusal = refused(error);
    if (refusal !== undefined) return refusal;
    process.emitWarning(error instanceof Error ? error : String(error));
    return { status: 500 };
  }
}
