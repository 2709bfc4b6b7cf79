/**
 * The tickets of a help desk. Creating, changing or deleting a ticket here keeps orders, columns, deadlines and
 * before-images up to date. The rules for tickets are in world.ts.
 */
import type { BeforeImages } from '../../before-images.ts';
import type { Clock } from '../../clock.ts';
import type { History } from '../content/history.ts';
import { TicketTable } from '../lists/table.ts';
import { type Message, stamp, type Ticket } from '../records.ts';
import { Deadlines } from './deadlines.ts';
import { WorldTicket, wholeTicket } from './rows.ts';

export type NewTicket = Partial<Ticket> & { messages?: readonly Message[] };

/** `quiet`: leave `updated_at` alone; `moment`: timestamp of the change. */
interface Moving {
  quiet: boolean;
  moment: string;
}

interface Around {
  clock: Clock;
  past: BeforeImages<WorldTicket>;
  archiveHours: number;
}

export class Tickets {
  readonly table = new TicketTable();
  readonly deadlines: Deadlines;
  readonly #rows = new Map<string, WorldTicket>();
  readonly #clock: Clock;
  readonly #past: BeforeImages<WorldTicket>;
  #touches = 0;
  #numbers = 1000;

  constructor({ clock, past, archiveHours }: Around) {
    this.#clock = clock;
    this.#past = past;
    this.deadlines = new Deadlines(archiveHours);
  }

  get size(): number {
    return this.#rows.size;
  }

  /** Number of changes of `updated_at` so far. */
  get touches(): number {
    return this.#touches;
  }

  get(id: string): WorldTicket | undefined {
    return this.#rows.get(id);
  }

  has(id: string): boolean {
    return this.#rows.has(id);
  }

  keys(): MapIterator<string> {
    return this.#rows.keys();
  }

  /** In the order in which they came. */
  values(): MapIterator<WorldTicket> {
    return this.#rows.values();
  }

  /** Those of the years before, as the first ones. */
  remember(history: History): void {
    const tickets = Array.from({ length: history.tickets }, (_, n) => history.ticket(n));
    const now = this.#clock.now();
    for (const ticket of tickets) {
      this.#rows.set(ticket.id, ticket);
      this.deadlines.watch(ticket, ticket.updated_at, now);
    }
    this.table.fill(tickets);
    this.#touches = history.tickets;
    this.#numbers += history.tickets;
  }

  /** Adds a ticket with any times, including ties; missing fields get defaults. */
  add(ticket: NewTicket & Pick<Ticket, 'id' | 'customer_id' | 'inbox_id'>): WorldTicket {
    const created_at = stamp(ticket.created_at ?? ticket.updated_at ?? this.#clock.now());
    const row = wholeTicket({
      ...ticket,
      number: ticket.number ?? ++this.#numbers,
      updated_at: stamp(ticket.updated_at ?? created_at),
      created_at,
    });
    this.#numbers = Math.max(this.#numbers, row.number);
    if (this.#rows.has(row.id)) throw new Error(`There is a ticket ${row.id} already`);
    this.#past.note(row.id);
    const made = new WorldTicket(row, ++this.#touches, ticket.messages ?? []);
    this.#rows.set(made.id, made);
    this.deadlines.watch(made, made.updated_at, this.#clock.now());
    this.table.add(made);
    return made;
  }

  change(ticket: WorldTicket, edit: (ticket: WorldTicket) => void, { quiet, moment }: Moving): WorldTicket {
    this.#past.note(ticket.id, ticket);
    this.table.takeOut(ticket);
    edit(ticket);
    if (!quiet) {
      ticket.updated_at = moment;
      ticket.touched = ++this.#touches;
    }
    this.deadlines.watch(ticket, moment, this.#clock.now());
    this.table.putIn(ticket);
    return ticket;
  }

  delete(ticket: WorldTicket): void {
    this.#past.note(ticket.id, ticket);
    this.table.remove(ticket);
    this.#rows.delete(ticket.id);
  }
}
