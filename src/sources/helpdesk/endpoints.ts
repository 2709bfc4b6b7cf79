/**
 * Each GET of the help desk that the mirror reads (spec, Endpoints) as a pure function that builds a request value. The cost is known before
 * the request: 1 credit, +1 for each embedded type, +1 for a count.
 */
import type { z } from 'zod';
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
  state?: readonly ('open' | 'hold' | 'closed')[];
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

/** A list has the name of its kind. */
const listOf = <T>(kind: string, record: z.ZodType<T>, query: ListQuery): Request<T> => ({
  ...{ path: `/${kind}`, query: encode(query), cost: query.count ? 2 : 1, shape: 'list', kind, record },
});

const oneOf = <T>(kind: string, id: string, record: z.ZodType<T>, embed: readonly string[] = []): Request<T> => ({
  path: `/${kind}/${encodeURIComponent(id)}`,
  query: embed.length > 0 ? encode({ embed }) : {},
  cost: 1 + embed.length,
  ...{ shape: 'single', kind, record },
});

export const listTickets = (query: TicketsQuery): Request<Ticket> => ({
  ...listOf('tickets', checks.ticket, query),
  stampedAt: ({ updated_at }) => timeOf(updated_at),
});

export const getTicket = (id: string): Request<Ticket> => oneOf('tickets', id, checks.ticket);

/** Request for one ticket with all its messages and further embedded types. */
export const getTicketInDetail = (id: string, more: readonly string[] = []): Request<TicketInDetail> =>
  oneOf('tickets', id, checks.ticketInDetail, ['messages', ...more]);

/**
 * The spec defines no paging here. A source with paging understands `page`; a source without it ignores the parameter.
 */
export const listUsers = (query: { page: number; per_page: number }): Request<User> =>
  listOf('users', checks.user, query);

export const listCustomers = (query: CustomersQuery): Request<Customer> => listOf('customers', checks.customer, query);

export const getCustomer = (id: string): Request<Customer> => oneOf('customers', id, checks.customer);

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
