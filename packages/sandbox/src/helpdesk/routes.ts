/**
 * The routes of the help desk. Each row declares its embeds and whether it counts: both cost credits, so the price is
 * known before the request is admitted.
 */

import { list, listOf, whole } from '../http/query.ts';
import { Refusal } from '../http/refusal.ts';
import { findAmong } from '../http/routing.ts';
import type { Settled } from '../switches.ts';
import { listCustomers, listTickets, totalCount } from './lists/lists.ts';
import { customerRecord, ticketRecord } from './records.ts';
import type { DeskView } from './stale-copy.ts';
import type { WorldTicket } from './world/rows.ts';
import type { World } from './world/world.ts';
import { WRITING_ROUTES } from './write-routes.ts';

/** Values of the help desk's switches. */
export type Readings = Settled<'helpdesk'>;

export interface Call {
  world: World;
  /** Data for reads: the world, or a stale copy of it. */
  shown: DeskView;
  readings: Readings;
  query: URLSearchParams;
  /** Value of `:id` in the path. */
  id: string;
  /** Values of all names in the path. */
  names: Readonly<Record<string, string>>;
  /** Whether the request has `count=true` and the route counts. */
  counting: boolean;
  /** Parsed JSON of a POST, PUT or PATCH, not validated; undefined without a body. */
  body: unknown;
  /** Base address as the client sees it, without trailing slash; for `Location`. */
  base: string;
}

export interface Answer {
  status: number;
  /** Absent for 204. */
  body?: unknown;
  headers?: Record<string, string>;
}

export interface Route {
  method: string;
  /** A name after a colon, such as `:id`, matches one path segment. */
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

/** The route of a request and the values in its path, or the refusal (404, 405). */
export function findRoute(method: string, path: string): { route: Route; names: Record<string, string> } | Refusal {
  const found = findAmong(ROUTES, method, path);
  if (found === 'no such path') return new Refusal(404, `Unknown path ${path}`);
  if (found === 'another verb') {
    return new Refusal(405, `${method} is not offered at ${path}`, undefined, { Allow: verbsAt(path).join(', ') });
  }
  return found;
}

/** Methods for `Allow`. A POST can override any method but GET. */
function verbsAt(path: string): string[] {
  const verbs = new Set(ROUTES.map(({ method }) => method));
  const offered = [...verbs].filter(verb => typeof findAmong(ROUTES, verb, path) !== 'string');
  return offered.some(verb => verb !== 'GET') && !offered.includes('POST') ? [...offered, 'POST'] : offered;
}

/** Credits: one, plus one per embedded type, plus one for counting. */
export function costOf(route: Route, query: URLSearchParams): number {
  const embedded = new Set(list(query, 'embed')?.filter(type => route.embeds?.includes(type)));
  return 1 + embedded.size + (route.counts && query.getAll('count').at(-1) === 'true' ? 1 : 0);
}

// --- single tickets ---------------------------------------------------------------------------------------------------

function oneTicket({ shown, id, query }: Call): Answer {
  const ticket = shown.tickets.get(id);
  if (ticket === undefined) throw new Refusal(404, `There is no ticket ${id}`);
  const embeds = listOf(query, 'embed', TICKET_EMBEDS) ?? [];
  const embedded = Object.fromEntries(embeds.map(type => [type, embed(shown, ticket, type)]));
  return { status: 200, body: { ...ticketRecord(ticket), ...embedded } };
}

/** The embedded objects; null for a missing one. `group` is the former name of `inbox`. */
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

// --- other resources ------------------------------------------------------------------------------------------------------

function oneAttachment({ world, id }: Call): Answer {
  const attachment = world.uploads.get(id) ?? world.attachments.get(id);
  if (attachment === undefined) throw new Refusal(404, `There is no attachment ${id}`);
  return { status: 200, body: attachment };
}

/** All users in one reply, newest first: this list has no pages, unless pages are capped. */
function listUsers(call: Call): Answer {
  const { world, query } = call;
  const users = [...world.users.values()].reverse();
  const { pageCap } = call.readings;
  const from = pageCap < users.length ? (whole(query, 'page', 1, Number.MAX_SAFE_INTEGER, 1) - 1) * pageCap : 0;
  return { status: 200, body: users.slice(from, from + pageCap), ...totalCount(call, () => users.length) };
}

function oneCustomer({ shown, id }: Call): Answer {
  const customer = shown.customers.get(id);
  if (customer === undefined) throw new Refusal(404, `There is no customer ${id}`);
  return { status: 200, body: customerRecord(customer) };
}
