/**
 * Lists of tickets and customers: turns a query into an order, a start position and filters. Filters of tickets read
 * columns, and indexes find ids and contacts, so that no list scans all records.
 */

import { EARLIEST, flag, list, listOf, since, whole } from '../../http/query.ts';
import { Refusal } from '../../http/refusal.ts';
import { CONTACT_TYPES, customerRecord, TICKET_TYPES, ticketRecord } from '../records.ts';
import type { Answer, Call, Readings } from '../routes.ts';
import { reachOf, sameContact } from '../world/contacts.ts';
import { byArrival, type WorldCustomer, type WorldTicket } from '../world/rows.ts';
import type { Columns, Test } from './columns.ts';
import { countAll, readPage, type Selection } from './listing.ts';
import type { TicketTable } from './table.ts';

export function listTickets(call: Call): Answer {
  const { table } = call.shown;
  const asked = askedFor(call);
  if (table === undefined) return page(call, ofACopy(call, asked), ticketRecord);
  return page(call, ofTheWorld(call, table, asked), place => ticketRecord(table.rows[place]!));
}

/** A ticket query, for the world and for stale copies alike. */
interface AskedFor {
  /** Order of the list. */
  by: 'byUpdated' | 'byCreated' | 'byUser';
  descending: boolean;
  /** Whether the list has begun at this ticket; monotonic in the order. */
  reached: (ticket: WorldTicket) => boolean;
  /** `reached` as column tests; empty if the list begins at the start. */
  begins: Test[];
  /** Further filters. */
  tests: Test[];
  ids: readonly string[] | undefined;
}

/** `updated_at`, `created_at` (with `-` descending) or `user_id,-updated_at`; without `sort` the newest come first. */
function askedFor({ query, world, readings }: Call): AskedFor {
  const { columns, byUpdated, byCreated } = world.table;
  const updated = since(query, 'since_updated_at', readings.sinceInclusive);
  const created = since(query, 'since_created_at', readings.sinceInclusive);
  const updatedSince = (ticket: WorldTicket) => ticket.updated_at >= updated;
  const createdSince = (ticket: WorldTicket) => ticket.created_at >= created;
  const wasUpdated = updated === EARLIEST ? [] : [counted(columns.updatedSince(updated), byUpdated, updatedSince)];
  const wasCreated = created === EARLIEST ? [] : [counted(columns.createdSince(created), byCreated, createdSince)];
  const sort = list(query, 'sort')?.join(',') ?? '-created_at';
  const descending = sort.startsWith('-');
  const ids = list(query, 'id');
  const tests = ticketTests(query, columns, readings);
  switch (sort) {
    case 'updated_at':
    case '-updated_at':
      return {
        ...{ by: 'byUpdated', descending, reached: updatedSince, begins: wasUpdated },
        ...{ tests: [...tests, ...wasCreated], ids },
      };
    case 'created_at':
    case '-created_at':
      return {
        ...{ by: 'byCreated', descending, reached: createdSince, begins: wasCreated },
        ...{ tests: [...tests, ...wasUpdated], ids },
      };
    case 'user_id,-updated_at':
      return {
        ...{ by: 'byUser', descending, reached: () => true, begins: [] },
        ...{ tests: [...tests, ...wasUpdated, ...wasCreated], ids },
      };
    default:
      throw new Refusal(400, `sort: tickets cannot be sorted by "${sort}"`);
  }
}

/** Adds to a test the number of its matches, found by binary search in the order. */
function counted(test: Test, order: TicketTable['byUpdated'], reached: (ticket: WorldTicket) => boolean): Test {
  return { ...test, total: order.places.length - order.firstWhere(reached) };
}

/** Number of tickets that can be sorted within a few milliseconds. */
const FEW = 5000;

function ofTheWorld({ world }: Call, table: TicketTable, asked: AskedFor): Selection<number> {
  const { by, descending, reached, begins, tests, ids } = asked;
  const { places } = table[by];
  const { compare } = places;
  const found = ids && [...new Set(ids)].map(id => world.tickets.get(id)?.slot).filter(place => place !== undefined);
  return {
    ...{ order: places, descending, from: table[by].firstWhere(reached), filters: tests.map(({ ofPlace }) => ofPlace) },
    ...(found && { among: { items: found, compare } }),
    find: () => {
      const [only, ...others] = [...tests, ...begins];
      if (only?.total !== undefined && only.total > FEW && others.length === 0) return { count: only.total };
      const all = table.columns.find([...tests, ...begins], table.rows.length);
      return { count: all.length, few: all.length > FEW ? undefined : { items: [...all], compare } };
    },
  };
}

/** Filters ticket by ticket: slower, but only the lag fault reads stale copies. */
function ofACopy({ shown }: Call, asked: AskedFor): Selection<WorldTicket> {
  const { by, descending, reached, tests, ids } = asked;
  const order = shown[by];
  const filters = tests.map(({ ofTicket }) => ofTicket);
  if (ids) filters.push(({ id }) => ids.includes(id));
  return { order, descending, from: order.firstWhere(reached), filters };
}

function ticketTests(query: URLSearchParams, columns: Columns, readings: Readings): Test[] {
  const inboxes = list(query, 'inbox_id');
  const states = listOf(query, 'state', ['open', 'hold', 'closed']);
  const types = listOf(query, 'type', TICKET_TYPES);
  const users = assignees(query);
  const labels = list(query, 'label_id');
  const spam = flag(query, 'spam') ?? (readings.spamListed ? undefined : false);
  const trash = flag(query, 'trash') ?? (readings.trashListed ? undefined : false);
  const tests: (Test | undefined)[] = [
    inboxes && columns.inbox.where(inbox => inboxes.includes(inbox)),
    states ? columns.state.where(state => states.some(one => one === state)) : unlessHidden(columns, readings),
    types && columns.type.where(type => types.some(one => one === type)),
    users && columns.user.where(user => users.includes(user)),
    labels && columns.anyLabel(labels),
    spam === undefined ? undefined : columns.spam.where(value => value === spam),
    trash === undefined ? undefined : columns.trash.where(value => value === trash),
  ];
  return tests.filter(test => test !== undefined);
}

/** Hides archived and snoozed tickets if configured. The parameter `state` has no word for them, so they stay hidden. */
function unlessHidden(columns: Columns, { archivedListed, snoozedListed }: Readings): Test | undefined {
  if (archivedListed && snoozedListed) return undefined;
  return columns.state.where(
    state => (archivedListed || state !== 'archived') && (snoozedListed || state !== 'snoozed'),
  );
}

/** The word `null` and an empty value select unassigned tickets. */
function assignees(query: URLSearchParams): (string | null)[] | undefined {
  if (!query.has('user_id')) return undefined;
  const named = (list(query, 'user_id') ?? []).map(user => (user === 'null' ? null : user));
  return query.getAll('user_id').includes('') ? [...named, null] : named;
}

export function listCustomers(call: Call): Answer {
  const { query, shown, readings } = call;
  const created = since(query, 'since_created_at', readings.sinceInclusive);
  const sort = list(query, 'sort')?.join(',') ?? '-created_at';
  if (sort !== 'created_at' && sort !== '-created_at') {
    throw new Refusal(400, `sort: customers cannot be sorted by "${sort}"`);
  }
  const order = shown.customers.byCreated;
  const from = order.firstWhere(customer => customer.created_at >= created);
  return page(call, { order, from, descending: sort.startsWith('-'), ...customersReached(call) }, customerRecord);
}

/** Filter by contact: type and value must match the same contact. */
function customersReached({
  query,
  world,
  shown,
  readings,
}: Call): Pick<Selection<WorldCustomer>, 'filters' | 'among'> {
  const types = listOf(query, 'contacts.type', CONTACT_TYPES);
  const value = query.getAll('contacts.value').at(-1);
  const bits = reachOf((types ?? []).map(type => ({ type })));
  if (value === undefined) return { filters: types ? [customer => (customer.reach & bits) !== 0] : [] };
  const has = ({ contacts }: WorldCustomer) =>
    contacts.some(contact => {
      if (types && !types.includes(contact.type)) return false;
      return sameContact(contact, { type: contact.type, value }, readings.emailCase);
    });
  if (shown.table === undefined) return { filters: [has] };
  return {
    filters: [has],
    among: { items: world.customers.byContact.holders(types ?? CONTACT_TYPES, value), compare: byArrival },
  };
}

function page<T>(call: Call, selection: Selection<T>, show: (item: T) => unknown): Answer {
  const { query, readings } = call;
  const number = whole(query, 'page', 1, Number.MAX_SAFE_INTEGER, 1);
  const size = Math.min(whole(query, 'per_page', 0, 100, 10), readings.pageCap);
  const skip = (number - 1) * size;
  const tooDeep = skip >= readings.depth;
  if (tooDeep && readings.beyondDepth === 'error') {
    const reason = `page: lists are ${readings.depth} deep; use since_created_at to read on`;
    throw new Refusal(422, 'Unprocessable Entity', [reason]);
  }
  const rows = tooDeep ? [] : readPage(selection, skip, size).map(show);
  return { status: 200, body: rows, ...totalCount(call, () => countAll(selection)) };
}

export function totalCount({ counting, readings }: Call, count: () => number): Pick<Answer, 'headers'> {
  if (!counting) return {};
  return { headers: { 'Total-Count': String(Math.min(count(), readings.totalCountCap)) } };
}
