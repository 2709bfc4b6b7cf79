/**
 * The data that a request reads: the world, or a stale copy of it, as a lagging replica would have. In the copy, tickets
 * (with messages) and customers (with contacts) have their old content and place; later records are missing and deleted
 * ones still exist. Users, names of labels and inboxes, and attachments by id are always current.
 */
import { BeforeImages } from '../before-images.ts';
import { Overlay, type Sequence } from './lists/overlay.ts';
import type { TicketTable } from './lists/table.ts';
import {
  byArrival,
  byCreation,
  byUpdate,
  byUserThenLatest,
  type WorldCustomer,
  type WorldTicket,
} from './world/rows.ts';
import type { World } from './world/world.ts';

interface Lookup<T> {
  get(id: string): T | undefined;
}

/** The readable part of a world. A stale copy has no `table`: columns hold current values only. */
export interface DeskView extends Pick<World, 'users' | 'labels' | 'inboxes' | 'attachments'> {
  readonly table?: TicketTable;
  readonly tickets: Lookup<WorldTicket>;
  readonly customers: Lookup<WorldCustomer> & { readonly byCreated: Sequence<WorldCustomer> };
  readonly byUpdated: Sequence<WorldTicket>;
  readonly byCreated: Sequence<WorldTicket>;
  readonly byUser: Sequence<WorldTicket>;
}

/** Before-images of tickets and customers. */
export class HelpdeskBeforeImages {
  readonly tickets: BeforeImages<WorldTicket>;
  readonly customers: BeforeImages<WorldCustomer>;

  constructor(steady: () => number) {
    this.tickets = new BeforeImages<WorldTicket>(steady, ticket => ticket.copy());
    this.customers = new BeforeImages<WorldCustomer>(steady, customer => customer.copy());
  }

  keepFor(ms: number): void {
    this.tickets.keepFor(ms);
    this.customers.keepFor(ms);
  }

  forget(): void {
    this.tickets.forget();
    this.customers.forget();
  }
}

export function staleCopy(world: World, lag_ms: number): DeskView {
  const moment = world.clock.steady() - lag_ms;
  const tickets = over(world.tickets, world.past.tickets.asOf(moment));
  const customers = over(world.customers, world.past.customers.asOf(moment));
  const { users, labels, inboxes, attachments } = world;
  return {
    ...{ users, labels, inboxes, attachments },
    tickets,
    customers: {
      get: customers.get,
      get byCreated() {
        return customers.order(world.customers.byCreated, byArrival);
      },
    },
    // Getters: a request uses one of the orders, and building one takes time.
    get byUpdated() {
      return tickets.order(world.byUpdated, byUpdate);
    },
    get byCreated() {
      return tickets.order(world.byCreated, byCreation);
    },
    get byUser() {
      return tickets.order(world.byUser, byUserThenLatest);
    },
  };
}

function over<T>(now: Lookup<T>, then: ReadonlyMap<string, T | undefined>) {
  const present = <V>(value: V | undefined): value is V => value !== undefined;
  return {
    get: (id: string) => (then.has(id) ? then.get(id) : now.get(id)),
    order: (order: Sequence<T>, compare: (a: T, b: T) => number): Sequence<T> => {
      const gone = [...then.keys()].map(id => now.get(id)).filter(present);
      return new Overlay(order, compare, gone, [...then.values()].filter(present));
    },
  };
}
