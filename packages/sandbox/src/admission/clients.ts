/**
 * Usage per client, and the cause of every refusal by a limit. A client is a credential (its number or kind, never the
 * secret) together with a User-Agent. Each client has limits of its own that count only its use.
 *
 * A refusal is the client's own fault in these cases, checked in this order; otherwise it is the fault of others:
 * - 'own use': the client's use alone leaves no room for the request, in the credits of the period or in the burst of
 *   the second. A refusal that was not charged is no use.
 * - 'told': the last reply to the client stated fewer remaining credits than this request costs, and the Reset of that
 *   reply has not elapsed.
 * - 'early': the client sent the request before the Reset of an earlier refusal had elapsed (spec/help-desk-api.md,
 *   section 8: "clients must send no further requests until Rate-Limit-Reset seconds have elapsed").
 * A reply counts as known to the client from the moment it is sent.
 */

import { cut } from '../http/request-reply.ts';
import { type LimitOptions, Limits } from './limits.ts';

export interface ClientName {
  /** For example 'token 2'. */
  credential: string;
  /** User-Agent, cut to 200 characters; '' if absent. */
  agent: string;
}

/** Use by a client since the start. The sums over all clients are the totals of the service. */
export interface ClientUse extends ClientName {
  requests: number;
  /** Credits of the help desk, or requests of the day of the catalog. */
  credits: number;
  refused: { own: number; others: number };
  /** First and last request, in milliseconds of the steady clock. */
  first_at: number;
  last_at: number;
}

type Why = 'own use' | 'told' | 'early' | 'foreign use';

interface RefusedRequest {
  at: number;
  client: ClientName;
  /** For example 'GET /tickets', cut to 500 characters. */
  request: string;
  /** Credits that the request would have cost. */
  cost: number;
  limit: 'credits' | 'burst';
  fault: 'own' | 'others';
  why: Why;
}

/** Result of the limits: admitted, refused by a limit, or turned away before the limits were checked. */
export type Outcome = 'admitted' | 'credits' | 'burst' | 'turned away';

/** A finished request. */
export interface Visit {
  at: number;
  request: string;
  cost: number;
  /** Credits charged in the end. */
  charged: number;
  outcome: Outcome;
}

/** The limits as a reply states them. */
export interface Said {
  /** Time of the decision, from which `resetSeconds` counts, and time of sending. */
  at: number;
  sent_at: number;
  /** Undefined if the reply does not state it. */
  remaining?: number | undefined;
  resetSeconds: number;
  /** Whether the reply is a refusal by a limit. */
  refuses: boolean;
}

interface Client {
  use: ClientUse;
  /** Limits that count only the use of this client. */
  alone: Limits;
  /** Replies decided but not sent yet. */
  underway: Said[];
  /** Last reply sent. */
  last?: Said;
  /** End of the Reset of its refusals: it must send nothing before. */
  wait_ms: number;
}

const MOST_CLIENTS = 1000;
const LONGEST_AGENT = 200;
const LONGEST_REQUEST = 500;
const KEPT_REFUSALS = 10_000;
/** Bound for delayed replies: with a clock that stands still they would pile up. */
const MOST_UNDERWAY = 1000;
/** Stands for all clients after the first thousand. */
const OTHERS: ClientName = { credential: 'others', agent: '' };

export class Clients {
  /** The last 10,000 refusals, oldest first. */
  readonly refusals: RefusedRequest[] = [];
  /** Credits used by faults and the admin port instead of clients. */
  foreign = 0;
  readonly #known = new Map<string, Client>();
  #limits: LimitOptions;

  constructor(limits: LimitOptions) {
    this.#limits = limits;
  }

  /** Resets the limits of all clients, and forgets what replies have stated. */
  beginPeriod(limits: LimitOptions): void {
    this.#limits = limits;
    for (const client of this.#known.values()) {
      client.alone = new Limits(limits);
      client.underway = [];
      delete client.last;
      client.wait_ms = Number.NEGATIVE_INFINITY;
    }
  }

  /** Use of all clients, in the order of their first requests. */
  uses(): ClientUse[] {
    return [...this.#known.values()].map(({ use }) => ({ ...use, refused: { ...use.refused } }));
  }

  /** Logs a request; finds the cause if a limit refused it. Call once per request, in order. */
  visited(name: ClientName, visit: Visit): void {
    const client = this.#client(name, visit.at);
    const { use, alone } = client;
    hear(client, visit.at);
    use.requests++;
    use.credits += visit.charged;
    use.last_at = visit.at;
    if (visit.outcome === 'admitted') alone.admit(visit.charged, visit.at);
    if (visit.outcome !== 'credits' && visit.outcome !== 'burst') return;
    const why = whyRefused(client, visit);
    const fault = why === 'foreign use' ? 'others' : 'own';
    use.refused[fault]++;
    alone.take(visit.charged, visit.at);
    const { at, cost, outcome } = visit;
    const { credential, agent } = use;
    const request = cut(visit.request, LONGEST_REQUEST);
    const refusal = { at, client: { credential, agent }, request, cost, limit: outcome, fault, why } as const;
    if (this.refusals.push(refusal) > KEPT_REFUSALS) this.refusals.shift();
  }

  /** Notes what the final reply states. Not to be called for a reply that is never sent. */
  told(name: ClientName, said: Said): void {
    const { underway } = this.#client(name, said.at);
    if (underway.push(said) > MOST_UNDERWAY) underway.shift();
  }

  #client(name: ClientName, at: number): Client {
    const agent = name.agent.slice(0, LONGEST_AGENT);
    const key = `${name.credential}\n${agent}`;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const isOther = this.#known.size >= MOST_CLIENTS;
    if (isOther && name !== OTHERS) return this.#client(OTHERS, at);
    const use = {
      credential: name.credential,
      agent,
      requests: 0,
      credits: 0,
      refused: { own: 0, others: 0 },
      first_at: at,
      last_at: at,
    };
    const made = { use, alone: new Limits(this.#limits), underway: [], wait_ms: Number.NEGATIVE_INFINITY };
    this.#known.set(key, made);
    return made;
  }
}

export function clientName(credential: string, agent: string | string[] | undefined): ClientName {
  return { credential, agent: cut(String(agent ?? ''), LONGEST_AGENT) };
}

function whyRefused(client: Client, { at, cost }: Visit): Why {
  if (client.alone.exceeded(cost, at) !== undefined) return 'own use';
  const { last, wait_ms } = client;
  if (last?.remaining !== undefined && last.remaining < cost && at < until(last)) return 'told';
  return at < wait_ms ? 'early' : 'foreign use';
}

/** Makes replies sent by `now` known to the client. */
function hear(client: Client, now: number): void {
  const sent = client.underway.filter(({ sent_at }) => sent_at <= now);
  if (sent.length === 0) return;
  client.underway = client.underway.filter(({ sent_at }) => sent_at > now);
  for (const said of sent.toSorted((a, b) => a.sent_at - b.sent_at)) {
    client.last = said;
    if (said.refuses) client.wait_ms = Math.max(client.wait_ms, until(said));
  }
}

const until = ({ at, resetSeconds }: Said) => at + resetSeconds * 1000;
