/**
 * A ticket and a customer as the world keeps them: their record, what is never shown of them, and where their lists
 * stand. A row of the history (history.ts) holds no messages and no contacts: they are made again whenever somebody reads
 * them, always the same, and are kept from the first change on. So reading lets no memory grow.
 */
import { reachOf } from './contacts.ts';
import {
  type Contact,
  type Customer,
  type Message,
  type Ticket,
  type TicketState,
  type TicketType,
  ticketRecord,
} from './records.ts';

/** Where the messages and contacts come from that no row keeps. */
export interface Memories {
  messagesOf(ticket: WorldTicket): Message[];
  messageCountOf(ticket: WorldTicket): number;
  contactsOf(customer: WorldCustomer): readonly Contact[];
}

/** Every field is written out, the same for all: a million rows are to have one shape. */
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
  /** Counts every change of `updated_at` in the world: the order within one second. */
  touched: number;
  /** Its place in the columns. */
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

  /** Oldest first. Neither a list nor a message in it ever changes: others take their place, and stay from then on. */
  get messages(): readonly Message[] {
    return isKept(this.#said) ? this.#said : this.#said.messagesOf(this);
  }

  set messages(messages: readonly Message[]) {
    this.#said = messages;
  }

  /** Without making them. */
  get messageCount(): number {
    return isKept(this.#said) ? this.#said.length : this.#said.messageCountOf(this);
  }

  get keepsMessages(): boolean {
    return isKept(this.#said);
  }

  /** As it is now, whatever becomes of this one. Messages that are not kept are not made for it. */
  copy(): WorldTicket {
    return new WorldTicket(this, this.touched, this.#said);
  }
}

export class WorldCustomer implements Customer {
  readonly id: string;
  first_name: string | null;
  last_name: string | null;
  summary: string | null;
  /** Real, but never shown: the interface can only filter and sort by it. */
  readonly created_at: string;
  readonly seq: number;
  /** The types of its contacts, as bits (see contacts.ts). */
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

  /** As with messages: a list never changes, another one takes its place. */
  get contacts(): readonly Contact[] {
    return isKept(this.#reached) ? this.#reached : this.#reached.contactsOf(this);
  }

  set contacts(contacts: readonly Contact[]) {
    this.#reached = contacts;
    this.reach = reachOf(contacts);
  }

  /** As it is now, without contacts that are not kept. */
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

/** A ticket with everything that was not given, made up plainly. */
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

/** Lists show rows in these orders. Every one is total: only a row and itself compare as equal. */
export const byUpdate = (a: WorldTicket, b: WorldTicket) => byText(a.updated_at, b.updated_at) || a.touched - b.touched;
export const byCreation = (a: WorldTicket, b: WorldTicket) => byText(a.created_at, b.created_at) || a.number - b.number;
export const byArrival = (a: WorldCustomer, b: WorldCustomer) => byText(a.created_at, b.created_at) || a.seq - b.seq;

/** Users in the order of their ids, unassigned tickets behind them; the latest update of each user first. */
export function byUserThenLatest(a: WorldTicket, b: WorldTicket): number {
  if (a.user_id === b.user_id) return byUpdate(b, a);
  if (a.user_id === null) return 1;
  if (b.user_id === null) return -1;
  return byText(a.user_id, b.user_id);
}
