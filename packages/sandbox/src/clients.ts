/**
 * Who used how much of what all share, and whose fault it was when somebody was refused. A client is a credential (by
 * its number or kind, never itself) together with a User-Agent. Of each one there is a second ledger of the limits that
 * holds nothing but its own use: what that one would have refused too is its own doing.
 *
 * A refusal is the client's own fault if one of these holds, looked at in this order; otherwise it was others':
 * - 'own use': its own use alone, without everybody else's, leaves no room for this request, in the credits of the
 *   period or in the burst of the second. Only what it used counts: a refusal that was not charged is no use.
 * - 'told': the last reply that it had got said that fewer credits remain than this request costs, and the Reset of that
 *   reply is not over. That is how a client can know a period, fixed or sliding; a reply says nothing beyond it.
 * - 'early': it had got a refusal, and sent again before the Reset of that was over (spec/help-desk-api.md, section 8:
 *   "clients must send no further requests until Rate-Limit-Reset seconds have elapsed").
 * A reply counts as got when it is sent: a request that was on its way at that moment is judged as if it knew.
 */

import { type LimitOptions, Limits } from './limits.ts';
import { cut } from './request-reply.ts';

export interface ClientName {
  /** For example 'token 2'. */
  credential: string;
  /** Its User-Agent, cut to 200 characters; '' where there is none. */
  agent: string;
}

/** What a client did since the start. Sums over all clients are the totals of the service. */
export interface ClientUse extends ClientName {
  requests: number;
  /** Credits of the help desk, or requests of the day of the catalog. */
  credits: number;
  refused: { own: number; others: number };
  /** Milliseconds of the clock that the limits run on. */
  first_at: number;
  last_at: number;
}

export type Why = 'own use' | 'told' | 'early' | 'foreign use';

interface RefusedRequest {
  at: number;
  client: ClientName;
  /** For example 'GET /tickets', cut to 500 characters. */
  request: string;
  /** What it would have used. */
  cost: number;
  limit: 'credits' | 'burst';
  fault: 'own' | 'others';
  why: Why;
}

/** A request came in, ran into a limit, or was turned away before any limit was asked. */
export type Outcome = 'admitted' | 'credits' | 'burst' | 'turned away';

/** What became of a request. */
export interface Visit {
  at: number;
  request: string;
  cost: number;
  /** What it used in the end. */
  charged: number;
  outcome: Outcome;
}

/** What a reply lets its reader know about the limits. */
export interface Said {
  /** When it was decided, which is when its seconds begin to count, and when it was sent. */
  at: number;
  sent_at: number;
  /** Undefined where it does not say. */
  remaining?: number | undefined;
  resetSeconds: number;
  /** Whether it refuses. */
  refuses: boolean;
}

interface Client {
  use: ClientUse;
  /** The limits as they would be without everybody else. */
  alone: Limits;
  /** Replies that are decided and not sent yet. */
  underway: Said[];
  /** The last one that was sent. */
  last?: Said;
  /** Until when it has been told to send nothing. */
  wait_ms: number;
}

const MOST_CLIENTS = 1000;
const LONGEST_AGENT = 200;
const LONGEST_REQUEST = 500;
const KEPT_REFUSALS = 10_000;
/** Replies that are held back on purpose by a clock that stands still would never leave. */
const MOST_UNDERWAY = 1000;
/** All clients beyond the first thousand, as one. */
const OTHERS: ClientName = { credential: 'others', agent: '' };

export class Clients {
  /** Of many the last 10,000, oldest first. */
  readonly refusals: RefusedRequest[] = [];
  /** Credits that were used and belong to none of them: somebody else's, who does not ask here. */
  foreign = 0;
  readonly #known = new Map<string, Client>();
  #limits: LimitOptions;

  constructor(limits: LimitOptions) {
    this.#limits = limits;
  }

  /** Everybody's limits begin anew: nothing is used, and what was told before is told no more. */
  beginPeriod(limits: LimitOptions): void {
    this.#limits = limits;
    for (const client of this.#known.values()) {
      client.alone = new Limits(limits);
      client.underway = [];
      delete client.last;
      client.wait_ms = Number.NEGATIVE_INFINITY;
    }
  }

  /** In the order in which they came. */
  uses(): ClientUse[] {
    return [...this.#known.values()].map(({ use }) => ({ ...use, refused: { ...use.refused } }));
  }

  /** Writes a request down, and judges it if a limit has refused it. To be called once for each, in their order. */
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

  /** What the reply to it says, once it is known what goes out. Nothing to be called for a reply that never leaves. */
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

/** What has been sent by now is known by now. */
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
