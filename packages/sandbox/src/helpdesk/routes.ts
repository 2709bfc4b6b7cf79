/**
 * The endpoints: a table with one entry for each, which says what it may embed and whether it counts (both cost
 * credits, so they have to be known before the request is let in), and a function from a call to an answer.
 */

import { list, listOf } from '../query.ts';
import { Refusal } from '../refusal.ts';
import { findAmong } from '../routing.ts';
import type { Settled } from '../switches.ts';
import { listCustomers, listTickets, totalCount } from './lists.ts';
import { customerRecord, ticketRecord } from './records.ts';
import type { WorldTicket } from './rows.ts';
import type { DeskView } from './stale-copy.ts';
import type { World } from './world.ts';
import { WRITING_ROUTES } from './write-routes.ts';

/** What nobody knows of the service. */
export type Readings = Settled<'helpdesk'>;

export interface Call {
  world: World;
  /** What a request that reads is shown: the world, or a copy of it that is behind. */
  shown: DeskView;
  readings: Readings;
  query: URLSearchParams;
  /** What stands in the place of `:id` in the path. */
  id: string;
  /** What stands in the place of every name in the path. */
  names: Readonly<Record<string, string>>;
  /** Whether `count=true` was asked for and paid. */
  counting: boolean;
  /** Of a POST, PUT or PATCH: the JSON that was sent, whatever it is; undefined where nothing was. */
  body: unknown;
  /** The base address as the client sees it, without a slash at its end, for `Location`. */
  base: string;
}

export interface Answer {
  status: number;
  /** Absent where there is none (204). */
  body?: unknown;
  headers?: Record<string, string>;
}

export interface Route {
  method: string;
  /** `:id` stands for an identifier, and so does any other name behind a colon. */
  path: string;
  embeds?: readonly string[];
  counts?: true;
  answer(call: Call): Answer;
}

const TICKET_EMBEDS = ['user', 'inbox', 'customer', 'labels', 'messages', 'group'] as const;

export const ROUTES: readonly Route[] = [
  { method: 'GET', path: '/tickets', counts: true, answer: listTickets },
  { method: 'GET', path: '/tickets/:id', embeds: TICKET_EMBEDS, answer: oneTicket },
  { method: 'GET', path: '/attachments/:id', answer: oneAttachment },
  { method: 'GET', path: '/users', counts: true, answer: listUsers },
  { method: 'GET', path: '/customers', counts: true, answer: listCustomers },
  { method: 'GET', path: '/customers/:id', answer: oneCustomer },
  ...WRITING_ROUTES,
];

/** The route of a request and the identifier in its path, or the refusal that it deserves. */
export function findRoute(method: string, path: string): { route: Route; names: Record<string, string> } | Refusal {
  const found = findAmong(ROUTES, method, path);
  if (found === 'no such path') return new Refusal(404, `There is nothing at ${path}`);
  if (found === 'another verb') {
    return new Refusal(405, `${method} is not offered at ${path}`, undefined, { Allow: verbsAt(path).join(', ') });
  }
  return found;
}

/** HTTP wants them in `Allow` beside a 405. A POST is taken in the place of any verb but GET. */
function verbsAt(path: string): string[] {
  const verbs = new Set(ROUTES.map(({ method }) => method));
  const offered = [...verbs].filter(verb => typeof findAmong(ROUTES, verb, path) !== 'string');
  return offered.some(verb => verb !== 'GET') && !offered.includes('POST') ? [...offered, 'POST'] : offered;
}

/** One credit, one more for each type embedded, one more for counting. */
export function costOf(route: Route, query: URLSearchParams): number {
  const embedded = new Set(list(query, 'embed')?.filter(type => route.embeds?.includes(type)));
  return 1 + embedded.size + (route.counts && query.getAll('count').at(-1) === 'true' ? 1 : 0);
}

// --- one of them ---------------------------------------------------------------------------------------------------

function oneTicket({ shown, id, query }: Call): Answer {
  const ticket = shown.tickets.get(id);
  if (ticket === undefined) throw new Refusal(404, `There is no ticket ${id}`);
  const embeds = listOf(query, 'embed', TICKET_EMBEDS) ?? [];
  const embedded = Object.fromEntries(embeds.map(type => [type, embed(shown, ticket, type)]));
  return { status: 200, body: { ...ticketRecord(ticket), ...embedded } };
}

/** The related objects; null for one that is not there. `group` is what inboxes were called before. */
function embed(shown: DeskView, ticket: WorldTicket, type: (typeof TICKET_EMBEDS)[number]): unknown {
  switch (type) {
    case 'user':
      return (ticket.user_id !== null && shown.users.get(ticket.user_id)) || null;
    case 'inbox':
    case 'group':
      return shown.inboxes.get(ticket.inbox_id) ?? null;
    case 'customer': {
      const customer = shown.customers.get(ticket.customer_id);
      return customer ? customerRecord(customer) : null;
    }
    case 'labels':
      return ticket.label_ids.map(id => shown.labels.get(id)).filter(label => label !== undefined);
    case 'messages':
      return ticket.messages;
  }
}

// --- the rest ------------------------------------------------------------------------------------------------------

function oneAttachment({ world, id }: Call): Answer {
  const attachment = world.uploads.get(id) ?? world.attachments.get(id);
  if (attachment === undefined) throw new Refusal(404, `There is no attachment ${id}`);
  return { status: 200, body: attachment };
}

/** All of them at once: this list has no pages. The newest come first, as in every list. */
function listUsers(call: Call): Answer {
  const users = [...call.world.users.values()].reverse();
  return { status: 200, body: users, ...totalCount(call, () => users.length) };
}

function oneCustomer({ shown, id }: Call): Answer {
  const customer = shown.customers.get(id);
  if (customer === undefined) throw new Refusal(404, `There is no customer ${id}`);
  return { status: 200, body: customerRecord(customer) };
}
