/**
 * The data of the page and of /status.json: settings, counts, clients and fault rules. It holds no credentials and no
 * records, and computes nothing by scanning all records: the page asks for it every second.
 */

import type { ClientUse } from '../admission/clients.ts';
import type { Budget } from '../admission/limits.ts';
import type { RuleState } from '../admission/rules.ts';
import { BOOKS_ROUTES } from '../books/routes.ts';
import { BOOKS_BASE } from '../books/service.ts';
import type { BooksWorld } from '../books/world.ts';
import { ROUTES } from '../helpdesk/routes.ts';
import { BASE } from '../helpdesk/service.ts';
import type { World } from '../helpdesk/world/world.ts';
import type { SeenRequest } from '../http/request-reply.ts';
import { defaultOf, type Settled, SWITCHES, type Switch, wordFor } from '../switches.ts';

/** The parts of the services that the page reads. */
export interface Watched {
  helpdesk: Observed<'helpdesk'> & { world: Pick<World, 'tickets' | 'customers' | 'users' | 'attachments' | 'clock'> };
  books: Observed<'books'> & { world: Pick<BooksWorld, 'volumes' | 'users' | 'clock'> };
  /** Fault rules and their counts. */
  rules?: { list(): readonly RuleState[] };
  /** Port number of the admin port, if open. */
  adminPort?: number;
}

interface Observed<S extends 'helpdesk' | 'books'> {
  readings: Settled<S>;
  totals: { requests: number; refused: number };
  budget(): Budget;
  clients?: { uses(): readonly ClientUse[] };
  requests?: readonly SeenRequest[];
}

export interface Endpoint {
  method: string;
  /** With the base path. */
  path: string;
  /** Cost in words, with the surcharges. */
  cost: string;
  /** Required credentials and content type, in words. */
  needs: string;
}

export interface Setting {
  flag: string;
  says: string;
  value: string;
  default: string;
  /** Plural noun of a number; otherwise ''. */
  unit: string;
  changed: boolean;
}

export interface ServiceStatus {
  base: string;
  holds: Record<string, number>;
  requests: number;
  /** Refused by a limit: 429, or 403 in the catalog. */
  refused: number;
  /** Budget of the period (help desk) or of the day (catalog). */
  budget: { limit: number; used: number; resets_in_seconds: number };
  /** The 20 clients seen last, latest first. */
  clients: { credential: string; agent: string; requests: number; used: number; refused: ClientUse['refused'] }[];
  /** Number of all clients. */
  clients_seen: number;
  settings: Setting[];
  endpoints: Endpoint[];
}

export interface Status {
  /** Time of the help desk's clock. */
  at: string;
  helpdesk: ServiceStatus;
  books: ServiceStatus;
  faults: { rule: RuleState['rule']; matched: number; fired: number }[];
  /** The last 20 requests of both services, latest first. */
  last_requests: { at: string; service: string; method: string; path: string; status: number | null; cost: number }[];
  admin_port: number | null;
}

const MOST_CLIENTS = 20;
const MOST_REQUESTS = 20;

export function statusOf({ helpdesk, books, rules, adminPort }: Watched): Status {
  const { tickets, customers, users, attachments } = helpdesk.world;
  const shelves = [...books.world.users.values()].reduce((sum, user) => sum + user.shelves.size, 0);
  return {
    at: new Date(helpdesk.world.clock.now()).toISOString(),
    helpdesk: {
      base: BASE,
      holds: {
        tickets: tickets.size,
        customers: customers.size,
        users: users.size,
        attachments: attachments.size,
      },
      ...doing(helpdesk),
      settings: settingsOf('helpdesk', helpdesk.readings),
      endpoints: helpdeskEndpoints(),
    },
    books: {
      base: BOOKS_BASE,
      holds: { volumes: books.world.volumes.size, shelves, readers: books.world.users.size },
      ...doing(books),
      settings: settingsOf('books', books.readings),
      endpoints: booksEndpoints(books.readings.keyNeeded),
    },
    faults: [...(rules?.list() ?? [])],
    last_requests: [...lastOf('help desk', helpdesk.requests), ...lastOf('catalog', books.requests)]
      .sort((a, b) => b.at.localeCompare(a.at))
      .slice(0, MOST_REQUESTS),
    admin_port: adminPort ?? null,
  };
}

/** Without the query, which can hold credentials. */
function lastOf(service: string, requests: readonly SeenRequest[] = []): Status['last_requests'] {
  return requests.slice(-MOST_REQUESTS).map(({ at, method, path, status, cost }) => ({
    ...{ at: new Date(at).toISOString(), service, method, path, status: status ?? null, cost },
  }));
}

function doing(service: Pick<Observed<'helpdesk'>, 'totals' | 'budget' | 'clients'>) {
  const { totals, clients } = service;
  const { limit, remaining, reset } = service.budget();
  const uses = clients?.uses() ?? [];
  const latest = uses.toSorted((a, b) => b.last_at - a.last_at).slice(0, MOST_CLIENTS);
  return {
    requests: totals.requests,
    refused: totals.refused,
    budget: { limit, used: limit - remaining, resets_in_seconds: reset },
    clients: latest.map(({ credential, agent, requests, credits, refused }) => ({
      ...{ credential, agent, requests, used: credits, refused },
    })),
    clients_seen: uses.length,
  };
}

function settingsOf(service: 'helpdesk' | 'books', readings: object): Setting[] {
  const values = readings as Record<string, unknown>;
  return (SWITCHES[service] as readonly Switch[]).map(row => {
    const value = wordFor(row, values[row.name]);
    const usual = wordFor(row, defaultOf(row));
    const unit = 'unit' in row && /^\d/.test(value) ? row.unit : '';
    return { flag: row.flag, says: row.says, value, default: usual, unit, changed: value !== usual };
  });
}

function helpdeskEndpoints(): Endpoint[] {
  return ROUTES.map(({ method, path, embeds = [], counts }) => ({
    method,
    path: BASE + path,
    cost: [
      '1 credit',
      ...(embeds.length > 0 ? [`1 more for each type of embed (${embeds.join(', ')})`] : []),
      ...(counts ? ['1 more with count=true'] : []),
    ].join(', '),
    needs: method === 'GET' || method === 'DELETE' ? 'a token' : 'a token, JSON',
  }));
}

function booksEndpoints(keyNeeded: boolean): Endpoint[] {
  return BOOKS_ROUTES.map(({ method, path, mine }) => ({
    method,
    path: BOOKS_BASE + path,
    cost: '1 request of the day',
    needs: mine ? 'an access token' : keyNeeded ? 'key=, or an access token' : 'nothing',
  }));
}
