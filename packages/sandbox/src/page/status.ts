/**
 * How the sandbox is doing, as data: what the page shows and what /status.json says. It holds no credentials, no records
 * and nothing that is counted by looking at every record, so that it may be asked for every second.
 */

import { BOOKS_ROUTES } from '../books/routes.ts';
import { BOOKS_BASE } from '../books/service.ts';
import type { BooksWorld } from '../books/world.ts';
import type { ClientUse } from '../clients.ts';
import { ROUTES } from '../helpdesk/routes.ts';
import { BASE } from '../helpdesk/service.ts';
import type { World } from '../helpdesk/world.ts';
import type { Budget } from '../limits.ts';
import type { RuleState } from '../rules.ts';
import { defaultOf, type Settled, SWITCHES, type Switch, wordFor } from '../switches.ts';

/** What the page looks at; the services are such. */
export interface Watched {
  helpdesk: Observed<'helpdesk'> & { world: Pick<World, 'tickets' | 'customers' | 'users' | 'attachments' | 'clock'> };
  books: Observed<'books'> & { world: Pick<BooksWorld, 'volumes' | 'users' | 'clock'> };
  /** What goes wrong on purpose, and how often it did. */
  rules?: { list(): readonly RuleState[] };
  /** Where it is open. */
  adminPort?: number;
}

interface Observed<S extends 'helpdesk' | 'books'> {
  readings: Settled<S>;
  totals: { requests: number; refused: number };
  budget(): Budget;
  clients?: { uses(): readonly ClientUse[] };
}

export interface Endpoint {
  method: string;
  /** With the base path. */
  path: string;
  /** What it costs, and what makes it cost more. */
  cost: string;
  /** What has to come along. */
  needs: string;
}

export interface Setting {
  flag: string;
  says: string;
  value: string;
  default: string;
  /** Of a number, in the plural; else ''. */
  unit: string;
  changed: boolean;
}

export interface ServiceStatus {
  base: string;
  holds: Record<string, number>;
  requests: number;
  /** Answered 429, or refused for a limit with 403. */
  refused: number;
  /** Of the period, or of the day. */
  budget: { limit: number; used: number; resets_in_seconds: number };
  /** Those seen last come first, at most 20 of them. */
  clients: { credential: string; agent: string; requests: number; used: number; refused: ClientUse['refused'] }[];
  /** All of them. */
  clients_seen: number;
  settings: Setting[];
  endpoints: Endpoint[];
}

export interface Status {
  /** By the clock of the help desk's world. */
  at: string;
  helpdesk: ServiceStatus;
  books: ServiceStatus;
  faults: { rule: RuleState['rule']; matched: number; fired: number }[];
  admin_port: number | null;
}

const MOST_CLIENTS = 20;

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
    admin_port: adminPort ?? null,
  };
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
