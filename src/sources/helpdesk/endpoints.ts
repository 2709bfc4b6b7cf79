/**
 * Each GET of the help desk that the mirror reads (spec, Endpoints) as a pure function that builds a request value. The cost is known before
 * the request: 1 credit, +1 for each embedded type, +1 for a count.
 */
import type { Request } from '../../engine/http/request.ts';
import { timeOf } from '../record/check.ts';
import { type Customer, checks, type Ticket, type TicketInDetail, type User } from './records.ts';

/**
 * Largest page size, and the number of records that offset paging reaches. Deeper records are requested by time (spec,
 * Limits).
 */
export const paging = { perPage: 100, depth: 10_000 };

interface ListQuery {
  page?: number;
  /** 0 to 100. */
  per_page?: number;
  /** ms since 1970; sent in whole seconds. */
  since_created_at?: number;
  /** Requests the Total-Count header for one more credit. */
  count?: boolean;
}

export interface TicketsQuery extends ListQuery {
  id?: readonly string[];
  inbox_id?: readonly string[];
  state?: readonly ('open' | 'hold')[];
  /** The word `null` selects unassigned tickets. */
  user_id?: readonly string[];
  type?: readonly string[];
  spam?: boolean;
  trash?: boolean;
  since_updated_at?: number;
  sort?: 'updated_at' | '-updated_at' | 'created_at';
}

export interface CustomersQuery extends ListQuery {
  sort?: 'created_at';
}

export function listTickets(query: TicketsQuery): Request<Ticket> {
  return {
    path: '/tickets',
    query: encode(query),
    cost: query.count ? 2 : 1,
    shape: 'list',
    kind: 'tickets',
    record: checks.ticket,
    stampedAt: ({ updated_at }) => timeOf(updated_at),
  };
}

export function getTicket(id: string): Request<Ticket> {
  return {
    path: `/tickets/${encodeURIComponent(id)}`,
    query: {},
    cost: 1,
    shape: 'single',
    kind: 'tickets',
    record: checks.ticket,
  };
}

/** Request for one ticket with all its messages and further embedded types. */
export function getTicketInDetail(id: string, more: readonly ('labels' | 'inbox')[] = []): Request<TicketInDetail> {
  const embed = ['messages', ...more];
  return {
    path: `/tickets/${encodeURIComponent(id)}`,
    query: encode({ embed }),
    cost: 1 + embed.length,
    shape: 'single',
    kind: 'tickets',
    record: checks.ticketInDetail,
  };
}

/**
 * The spec defines no paging here. A source with paging understands `page`; a source without it ignores the parameter.
 */
export function listUsers(query: { page: number; per_page: number }): Request<User> {
  return { path: '/users', query: encode(query), cost: 1, shape: 'list', kind: 'users', record: checks.user };
}

export function listCustomers(query: CustomersQuery): Request<Customer> {
  return {
    path: '/customers',
    query: encode(query),
    cost: query.count ? 2 : 1,
    shape: 'list',
    kind: 'customers',
    record: checks.customer,
  };
}

export function getCustomer(id: string): Request<Customer> {
  return {
    path: `/customers/${encodeURIComponent(id)}`,
    query: {},
    cost: 1,
    shape: 'single',
    kind: 'customers',
    record: checks.customer,
  };
}

/** Encodes query parameters. Lists are comma separated, times are UTC in whole seconds, undefined values are omitted. */
function encode(query: object): Record<string, string> {
  const encoded: Record<string, string> = {};
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue;
    if (name.startsWith('since_')) encoded[name] = isoSecond(value);
    else encoded[name] = Array.isArray(value) ? value.join(',') : String(value);
  }
  return encoded;
}

/** Formats ms as a UTC time in whole seconds: `2026-11-20T18:26:38Z`. */
function isoSecond(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
