/**
 * The steps that every request of either service passes: rate limits, fault injection, and the log with client and
 * outcome. Authentication and the wording of refusals belong to the service.
 */

import type { Clock } from '../clock.ts';
import { keep, type Reply, type SeenRequest } from '../http/request-reply.ts';
import { type ClientName, Clients } from './clients.ts';
import type { Fault } from './faults.ts';
import { type Budget, type LimitOptions, Limits } from './limits.ts';
import type { RuledService, Rules } from './rules.ts';

/** Callbacks and rules from outside the service. */
export interface Hooks {
  /** Called with each admitted request and its number from 1, before the answer. */
  before?: (request: SeenRequest, n: number) => void;
  /** Returns a fault for the request; faults of the rules come on top. */
  fault?: (request: SeenRequest, n: number) => Fault | undefined;
  rules?: Rules;
}

interface Terms extends Omit<LimitOptions, 'start'> {
  /** Whether a 4xx reply costs credits. */
  chargeErrors: boolean;
  /** Whether a request refused by a limit costs credits. */
  chargeRefused: boolean;
}

/** The part of a world that the gate uses. */
interface Timed {
  clock: Pick<Clock, 'steady' | 'jump'>;
  past: { keepFor(ms: number): void };
}

/** Budget as the reply states it; undefined where the reply is silent. */
interface SaidOfBudget {
  remaining?: number | undefined;
  resetSeconds: number | undefined;
}

/** A request in progress. `cost` is the price; `record` replaces it with the credits charged. */
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

  /** `wanted`: cost of a refused request. */
  budget(at = this.#world.clock.steady(), wanted = 0): Budget {
    return this.#limits.budget(at, wanted);
  }

  /** Lets another client use credits. */
  take(credits: number, at = this.#world.clock.steady()): void {
    this.clients.foreign += this.#limits.take(credits, at);
  }

  /** Begins a new period with a full budget. */
  beginPeriod(): void {
    const limits = { ...this.#terms, start: this.#world.clock.steady() };
    this.#limits = new Limits(limits);
    this.clients.beginPeriod(limits);
  }

  arrived(request: Pick<SeenRequest, 'method' | 'path' | 'query' | 'cost'> & { client: ClientName }): Seen {
    return { ...request, at: this.#world.clock.steady(), outcome: 'turned away' };
  }

  /** Admits the request if the limits allow it, and notes the outcome. */
  admits(seen: Seen): boolean {
    seen.outcome = this.#limits.exceeded(seen.cost, seen.at) ?? 'admitted';
    return this.#limits.admit(seen.cost, seen.at);
  }

  /** The faults of an admitted request; faults of clock and credits take effect here. */
  strike(seen: Seen): Fault[] {
    const n = ++this.#admitted;
    this.#hooks.before?.(seen, n);
    return this.faultsOf(this.#service, seen, this.#hooks.fault?.(seen, n));
  }

  /** As `strike`, for a request outside the limits; `hooked` is the first fault. */
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

  /** Charges the answered request and logs it. */
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

  /** Notes the budget that this reply tells its client; a reply that is never sent tells nothing. */
  sent(seen: Seen, reply: Reply, { remaining, resetSeconds = 0 }: SaidOfBudget): Reply {
    const { at, client } = seen;
    const refuses = reply.status === 429 || isRefused(seen);
    const said = { at, sent_at: at + (reply.delay_ms ?? 0), remaining, resetSeconds, refuses };
    if (reply.broken !== 'before') this.clients.told(client, said);
    return reply;
  }
}

/** Whether a limit refused the request. */
export const isRefused = ({ outcome }: Seen): boolean => outcome === 'credits' || outcome === 'burst';

/** Integer value of a reply header after all faults, as a client parses it; undefined if none. */
export function numberIn({ headers }: Reply, name: string): number | undefined {
  const value = Object.entries(headers).find(([one]) => one.toLowerCase() === name)?.[1];
  const number = Number.parseInt(value ?? '', 10);
  return Number.isNaN(number) ? undefined : number;
}

/**
 * The answer, or the refusal for a thrown error. An error that `refused` does not know is a bug of the sandbox: it becomes
 * a logged and charged 500, and a process warning.
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
