/**
 * Tickets and customers as the world stores them: the record plus internal fields. Rows of the history (history.ts) store
 * no messages and contacts. These are generated at every read, always the same, and stored from their first change on,
 * so that reads use no memory.
 */

import {
  type Contact,
  type Customer,
  type Message,
  type Ticket,
  type TicketState,
  type TicketType,
  ticketRecord,
} from '../records.ts';
import { reachOf } from './contacts.ts';

/** Generates messages and contacts that rows do not store. */
export interface Memories {
  messagesOf(ticket: WorldTicket): Message[];
  messageCountOf(ticket: WorldTicket): number;
  contactsOf(customer: WorldCustomer): readonly Contact[];
}

/** The constructor sets every field, so that a million rows share one hidden class. */
export class WorldTicket implements Ticket {
  readonly id: string;
  readonly number: number;
  customer_id: string;
  user_id: string | null;
  inbox_id: string;
  label_ids: string[];
  state: TicketState;
  snoozed_until: string | null;
  subject: string | null;
  type: TicketType;
  spam: boolean;
  trash: boolean;
  updated_at: string;
  created_at: string;
  reply_to: string | null;
  reply_cc: string | null;
  summary: string | null;
  /** World-wide number of the last change of `updated_at`: the order within one second. */
  touched: number;
  /** Index in the columns (see table.ts). */
  slot = -1;
  #said: readonly Message[] | Memories;

  constructor(ticket: Ticket, touched: number, said: readonly Message[] | Memories) {
    this.id = ticket.id;
    this.number = ticket.number;
    this.customer_id = ticket.customer_id;
    this.user_id = ticket.user_id;
    this.inbox_id = ticket.inbox_id;
    this.label_ids = ticket.label_ids;
    this.state = ticket.state;
    this.snoozed_until = ticket.snoozed_until;
    this.subject = ticket.subject;
    this.type = ticket.type;
    this.spam = ticket.spam;
    this.trash = ticket.trash;
    this.updated_at = ticket.updated_at;
    this.created_at = ticket.created_at;
    this.reply_to = ticket.reply_to;
    this.reply_cc = ticket.reply_cc;
    this.summary = ticket.summary;
    this.touched = touched;
    this.#said = said;
  }

  /** Oldest first. Lists and messages are immutable: a change sets a new list, which is stored. */
  get messages(): readonly Message[] {
    return isKept(this.#said) ? this.#said : this.#said.messagesOf(this);
  }

  set messages(messages: readonly Message[]) {
    this.#said = messages;
  }

  /** Number of messages, without generating them. */
  get messageCount(): number {
    return isKept(this.#said) ? this.#said.length : this.#said.messageCountOf(this);
  }

  get keepsMessages(): boolean {
    return isKept(this.#said);
  }

  /** A copy that later changes do not affect. Does not generate messages. */
  copy(): WorldTicket {
    return new WorldTicket(this, this.touched, this.#said);
  }
}

export class WorldCustomer implements Customer {
  readonly id: string;
  first_name: string | null;
  last_name: string | null;
  summary: string | null;
  /** Never shown; the interface only filters and sorts by it. */
  readonly created_at: string;
  readonly seq: number;
  /** Types of the contacts as bits (see contacts.ts). */
  reach = 0;
  #reached: readonly Contact[] | Memories;

  constructor(
    customer: Omit<Customer, 'contacts'> & { created_at: string },
    seq: number,
    reached: readonly Contact[] | Memories,
  ) {
    this.id = customer.id;
    this.first_name = customer.first_name;
    this.last_name = customer.last_name;
    this.summary = customer.summary;
    this.created_at = customer.created_at;
    this.seq = seq;
    this.#reached = reached;
    if (isKept(reached)) this.reach = reachOf(reached);
  }

  /** Immutable, as messages: a change sets a new list. */
  get contacts(): readonly Contact[] {
    return isKept(this.#reached) ? this.#reached : this.#reached.contactsOf(this);
  }

  set contacts(contacts: readonly Contact[]) {
    this.#reached = contacts;
    this.reach = reachOf(contacts);
  }

  /** A copy that later changes do not affect. Does not generate contacts. */
  copy(): WorldCustomer {
    const made = new WorldCustomer(this, this.seq, this.#reached);
    made.reach = this.reach;
    return made;
  }
}

function isKept<T>(list: readonly T[] | Memories): list is readonly T[] {
  return Array.isArray(list);
}

type Needed = 'id' | 'number' | 'customer_id' | 'inbox_id' | 'updated_at' | 'created_at';

/** A ticket with defaults for all missing fields. */
export function wholeTicket(ticket: Partial<Ticket> & Pick<Ticket, Needed>): Ticket {
  return ticketRecord({
    ...ticket,
    user_id: ticket.user_id ?? null,
    label_ids: ticket.label_ids ?? [],
    state: ticket.state ?? 'open',
    snoozed_until: ticket.snoozed_until ?? null,
    subject: ticket.subject ?? null,
    type: ticket.type ?? 'email',
    spam: ticket.spam ?? false,
    trash: ticket.trash ?? false,
    reply_to: ticket.reply_to ?? null,
    reply_cc: ticket.reply_cc ?? null,
    summary: ticket.summary ?? null,
  });
}

const byText = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

/** Orders of lists. Each order is total: no two rows compare as equal. */
export const byUpdate = (a: WorldTicket, b: WorldTicket) => byText(a.updated_at, b.updated_at) || a.touched - b.touched;
export const byCreation = (a: WorldTicket, b: WorldTicket) => byText(a.created_at, b.created_at) || a.number - b.number;
export const byArrival = (a: WorldCustomer, b: WorldCustomer) => byText(a.created_at, b.created_at) || a.seq - b.seq;

/** By user id, unassigned tickets last; within a user the latest update first. */
export function byUserThenLatest(a: WorldTicket, b: WorldTicket): number {
  if (a.user_id === b.user_id) return byUpdate(b, a);
  if (a.user_id === null) return 1;
  if (b.user_id === null) return -1;
  return byText(a.user_id, b.user_id);
}
