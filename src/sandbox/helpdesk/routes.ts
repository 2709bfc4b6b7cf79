/**
 * The endpoints: a table with one entry for each, which says what it may embed and whether it counts (both cost
 * credits, so they have to be known before the request is let in), and a function from a call to an answer.
 */

import { findAmong } from '../paths.ts';
import { EARLIEST, flag, list, listOf, Refusal, since, whole } from '../query.ts';
import type { Settled } from '../switches.ts';
import type { Shown } from './behind.ts';
import { sameContact } from './contacts.ts';
import { countAll, readPage, type Selection } from './listing.ts';
import type { Sequence } from './overlay.ts';
import { CONTACT_TYPES, customerRecord, TICKET_TYPES, ticketRecord } from './records.ts';
import type { WorldCustomer, WorldTicket } from './rows.ts';
import type { World } from './world.ts';
import { WRITING_ROUTES } from './writing.ts';

/** What nobody knows of the service. */
export type Readings = Settled<'helpdesk'>;

export interface Call {
  world: World;
  /** What a request that reads is shown: the world, or a copy of it that is behind. */
  shown: Shown;
  readings: Readings;
  query: URLSearchParams;
  /** What stands in the place of `:id` in the path. */
  id: string;
  /** What stands in the place of every name in the path. */
  names: Readonly<Record<string, string>>;
  /** Whether `count=true` was asked for and paid. */
  counting: boolean;
  /** Of a route with `body: true`: the JSON that was sent, whatever it is; undefined where nothing was. */
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
  /** Reads a body of JSON. */
  body?: true;
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
    return new Refusal(405, `${method} is not offered at ${path}`);
  }
  return found;
}

/** One credit, one more for each type embedded, one more for counting. */
export function costOf(route: Route, query: URLSearchParams): number {
  const embedded = new Set(list(query, 'embed')?.filter(type => route.embeds?.includes(type)));
  return 1 + embedded.size + (route.counts && query.getAll('count').at(-1) === 'true' ? 1 : 0);
}

// --- tickets -----------------------------------------------------------------------------------------------------

type Filter<T> = (item: T) => boolean;

function listTickets(call: Call): Answer {
  const selection = ticketOrder(call);
  selection.filters.push(...ticketFilters(call));
  return page(call, selection, ticketRecord);
}

/** `updated_at`, `created_at` (with `-` descending) or `user_id,-updated_at`; without `sort` the newest come first. */
function ticketOrder({ query, shown, readings }: Call): Selection<WorldTicket> {
  const updated = since(query, 'since_updated_at', readings.sinceInclusive);
  const created = since(query, 'since_created_at', readings.sinceInclusive);
  const updatedSince: Filter<WorldTicket> = ticket => ticket.updated_at >= updated;
  const createdSince: Filter<WorldTicket> = ticket => ticket.created_at >= created;
  const wasUpdated = updated === EARLIEST ? [] : [updatedSince];
  const wasCreated = created === EARLIEST ? [] : [createdSince];
  const sort = list(query, 'sort')?.join(',') ?? '-created_at';
  switch (sort) {
    case 'updated_at':
    case '-updated_at':
      return startingAt(shown.byUpdated, updatedSince, sort.startsWith('-'), wasCreated);
    case 'created_at':
    case '-created_at':
      return startingAt(shown.byCreated, createdSince, sort.startsWith('-'), wasUpdated);
    case 'user_id,-updated_at':
      return { order: shown.byUser, from: 0, descending: false, filters: [...wasUpdated, ...wasCreated] };
    default:
      throw new Refusal(400, `sort: tickets cannot be sorted by "${sort}"`);
  }
}

function startingAt<T>(order: Sequence<T>, first: Filter<T>, descending: boolean, filters: Filter<T>[]): Selection<T> {
  return { order, from: order.firstWhere(first), descending, filters };
}

function ticketFilters({ query, readings }: Call): Filter<WorldTicket>[] {
  const users = assignees(query);
  const labels = list(query, 'label_id');
  const spam = flag(query, 'spam') ?? (readings.spamListed ? undefined : false);
  const trash = flag(query, 'trash') ?? (readings.trashListed ? undefined : false);
  const filters: (Filter<WorldTicket> | undefined)[] = [
    among(list(query, 'id'), ticket => ticket.id),
    among(list(query, 'inbox_id'), ticket => ticket.inbox_id),
    among(listOf(query, 'state', ['open', 'hold', 'closed']), ticket => ticket.state),
    among(listOf(query, 'type', TICKET_TYPES), ticket => ticket.type),
    among(users, ticket => ticket.user_id),
    labels && (ticket => labels.some(label => ticket.label_ids.includes(label))),
    spam === undefined ? undefined : ticket => ticket.spam === spam,
    trash === undefined ? undefined : ticket => ticket.trash === trash,
  ];
  return filters.filter(filter => filter !== undefined);
}

function among<T>(values: readonly unknown[] | undefined, of: (item: T) => unknown): Filter<T> | undefined {
  if (values === undefined) return undefined;
  const wanted = new Set(values);
  return item => wanted.has(of(item));
}

/** The word `null` selects tickets that nobody is assigned to, and so does an empty value. */
function assignees(query: URLSearchParams): (string | null)[] | undefined {
  if (!query.has('user_id')) return undefined;
  const named = (list(query, 'user_id') ?? []).map(user => (user === 'null' ? null : user));
  return query.getAll('user_id').includes('') ? [...named, null] : named;
}

function oneTicket({ shown, id, query }: Call): Answer {
  const ticket = shown.tickets.get(id);
  if (ticket === undefined) throw new Refusal(404, `There is no ticket ${id}`);
  const embeds = listOf(query, 'embed', TICKET_EMBEDS) ?? [];
  const embedded = Object.fromEntries(embeds.map(type => [type, embed(shown, ticket, type)]));
  return { status: 200, body: { ...ticketRecord(ticket), ...embedded } };
}

/** The related objects; null for one that is not there. `group` is what inboxes were called before. */
function embed(shown: Shown, ticket: WorldTicket, type: (typeof TICKET_EMBEDS)[number]): unknown {
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

function listCustomers(call: Call): Answer {
  const { query, shown, readings } = call;
  const created = since(query, 'since_created_at', readings.sinceInclusive);
  const sort = list(query, 'sort')?.join(',') ?? '-created_at';
  if (sort !== 'created_at' && sort !== '-created_at') {
    throw new Refusal(400, `sort: customers cannot be sorted by "${sort}"`);
  }
  const contacts = contactFilter(call);
  const filters = contacts ? [contacts] : [];
  const order = shown.customersByCreated;
  const selection = startingAt(order, customer => customer.created_at >= created, sort.startsWith('-'), filters);
  return page(call, selection, customerRecord);
}

/** One contact has to have both the type and the value. */
function contactFilter({ query, readings }: Call): Filter<WorldCustomer> | undefined {
  const types = listOf(query, 'contacts.type', CONTACT_TYPES);
  const value = query.getAll('contacts.value').at(-1);
  if (types === undefined && value === undefined) return undefined;
  return customer =>
    customer.contacts.some(contact => {
      if (types && !types.includes(contact.type)) return false;
      return value === undefined || sameContact(contact, { type: contact.type, value }, readings.emailCase);
    });
}

function oneCustomer({ shown, id }: Call): Answer {
  const customer = shown.customers.get(id);
  if (customer === undefined) throw new Refusal(404, `There is no customer ${id}`);
  return { status: 200, body: customerRecord(customer) };
}

// --- pages ---------------------------------------------------------------------------------------------------------

function page<T>(call: Call, selection: Selection<T>, show: (item: T) => unknown): Answer {
  const { query, readings } = call;
  const number = whole(query, 'page', 1, Number.MAX_SAFE_INTEGER, 1);
  const size = whole(query, 'per_page', 0, 100, 10);
  const skip = (number - 1) * size;
  const tooDeep = skip >= readings.depth;
  if (tooDeep && readings.beyondDepth === 'error') {
    const reason = `page: lists are ${readings.depth} deep; use since_created_at to read on`;
    throw new Refusal(422, 'Unprocessable Entity', [reason]);
  }
  const rows = tooDeep ? [] : readPage(selection, skip, size).map(show);
  return { status: 200, body: rows, ...totalCount(call, () => countAll(selection)) };
}

function totalCount({ counting, readings }: Call, count: () => number): Pick<Answer, 'headers'> {
  if (!counting) return {};
  return { headers: { 'Total-Count': String(Math.min(count(), readings.totalCountCap)) } };
}
