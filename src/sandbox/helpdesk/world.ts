/**
 * The help desk itself, without HTTP: what it holds, the order in which lists show it, and the ways in which it
 * changes. A change takes its time from the world's clock and moves its ticket to the end of the order by `updated_at`;
 * with `quiet` it leaves `updated_at` alone, because no specification says which changes move it. Within one second the
 * later change stands later.
 *
 * Read the maps and their records freely; change tickets and customers through the operations only, since orders, filters
 * and the history would not notice anything else (of a ticket only its subject, summary and addresses may be set directly).
 */
import type { Change } from '../activity.ts';
import { Clock } from '../clock.ts';
import { hexId, makeRng, type Rng } from '../random.ts';
import { type Settled, settled } from '../switches.ts';
import { Attachments } from './attachments.ts';
import { HelpdeskPast } from './behind.ts';
import { closeInBulk, mutate } from './changes.ts';
import { ContactBook, reachOf } from './contacts.ts';
import { type NewNote, type NewReply, wholeNote, wholeReply } from './conversation.ts';
import { Deadlines } from './deadlines.ts';
import type { History } from './history.ts';
import { Ordered } from './ordered.ts';
import {
  type Attachment,
  type Contact,
  type Customer,
  type Message,
  type Named,
  type Note,
  type Reply,
  stamp,
  type Ticket,
  type User,
} from './records.ts';
import { byArrival, WorldCustomer, WorldTicket, wholeTicket } from './rows.ts';
import { TicketTable } from './table.ts';

import { Uploads } from './uploads.ts';

export type { WorldCustomer, WorldTicket } from './rows.ts';

/** The kinds of change of which nobody knows whether they move `updated_at`. */
export type Quietable = Settled<'helpdesk'>['quietly'][number];

/** What becomes of things with time, and at a reply: see the switches of these names. */
type Habits = Pick<Settled<'helpdesk'>, 'archiveHours' | 'archivedReopens' | 'attachmentHours'>;

export interface WorldOptions extends Partial<Habits> {
  /** Names the ids; default 1. */
  seed?: number;
  /** The world's clock in milliseconds; default the machine's. */
  now?: () => number;
  /** About how many tickets a bulk action takes: from 0.6 to 1.5 times as many; default 100. */
  bulkSize?: number;
  /** Kinds of change that leave `updated_at` alone unless an operation says otherwise; default none. */
  quietly?: readonly Quietable[];
}

export interface ChangeOptions {
  /** Leave `updated_at` as it is. */
  quiet?: boolean;
  /** When it happens, instead of now: milliseconds, or a timestamp. */
  at?: number | string;
}

export type TicketPatch = Partial<Omit<Ticket, 'id' | 'number' | 'created_at' | 'updated_at'>>;
export type NewCustomer = Partial<Customer & { created_at: string }>;
export type NewTicket = Partial<Ticket> & { messages?: Message[] };

export class World {
  readonly tickets = new Map<string, WorldTicket>();
  readonly customers = new Map<string, WorldCustomer>();
  readonly attachments = new Attachments({ find: id => this.#rememberedFile(id), all: () => this.#rememberedFiles() });
  readonly users = new Map<string, User>();
  readonly labels = new Map<string, Named>();
  readonly inboxes = new Map<string, Named>();

  /** What lists are read from. */
  readonly table = new TicketTable();
  readonly byUpdated = this.table.byUpdated;
  readonly byCreated = this.table.byCreated;
  readonly byUser = this.table.byUser;
  readonly customersByCreated = new Ordered<WorldCustomer>(byArrival);

  /** What was uploaded and belongs to no message yet; all other attachments are among `attachments`. */
  readonly uploads: Uploads;
  readonly contacts = new ContactBook(this);

  readonly seed: number;
  readonly bulkSize: number;
  readonly steady: () => number;
  readonly now: () => number;
  readonly jump: (ms: number) => void;
  readonly at: Clock['at'];
  /** What tickets and customers were, once somebody wants to read from a copy that is behind. */
  readonly past: HelpdeskPast;
  readonly #quietly: ReadonlySet<Quietable>;
  readonly #deadlines: Deadlines;
  readonly #archivedReopens: boolean;
  #history: History | undefined;
  #ids = 0;
  #touches = 0;
  #numbers = 1000;

  /** Holds nothing yet. */
  constructor(options: WorldOptions = {}) {
    this.seed = options.seed ?? 1;
    this.bulkSize = options.bulkSize ?? 100;
    const { steady, now, jump, at } = new Clock(options.now ?? Date.now);
    this.steady = steady;
    this.now = now;
    this.jump = jump;
    this.at = at;
    this.past = new HelpdeskPast(steady);
    this.#quietly = new Set(options.quietly ?? []);
    const habits: Habits = settled('helpdesk', options);
    this.#deadlines = new Deadlines(habits.archiveHours);
    this.#archivedReopens = habits.archivedReopens;
    this.uploads = new Uploads(habits.attachmentHours);
  }

  /** The years before, into a world that has no tickets and customers of its own yet. */
  remember(history: History): void {
    if (this.tickets.size + this.customers.size > 0) throw new Error('A history has to come before everything else');
    this.#history = history;
    const customers = Array.from({ length: history.customers }, (_, n) => history.customer(n));
    for (const customer of customers) this.#knowCustomer(customer);
    this.customersByCreated.fill(customers);
    const tickets = Array.from({ length: history.tickets }, (_, n) => history.ticket(n));
    const now = this.now();
    for (const ticket of tickets) {
      this.tickets.set(ticket.id, ticket);
      this.#deadlines.watch(ticket, ticket.updated_at, now);
      this.attachments.remembered += history.attachmentCountOf(ticket);
    }
    this.table.fill(tickets);
    this.#touches = Math.max(history.tickets, history.customers);
    this.#numbers += history.tickets;
  }

  /** The first of so many numbers of ids that `newId` will not give. */
  reserveIds(count: number): number {
    this.#ids += count;
    return this.#ids - count;
  }

  newId(): string {
    return hexId(this.seed, this.#ids++);
  }

  // --- what comes into being -----------------------------------------------------------------------------------

  addUser(user: Partial<User> = {}): User {
    const id = user.id ?? this.newId();
    const made = { id, first_name: null, last_name: null, email: `${id}@desk.example`, ...user };
    this.users.set(id, made);
    return made;
  }

  addLabel(label: Partial<Named> = {}): Named {
    return addNamed(this.labels, { id: this.newId(), name: 'label', ...label });
  }

  addInbox(inbox: Partial<Named> = {}): Named {
    return addNamed(this.inboxes, { id: this.newId(), name: 'Support', ...inbox });
  }

  addCustomer(customer: NewCustomer = {}): WorldCustomer {
    const made = new WorldCustomer(
      {
        id: customer.id ?? this.newId(),
        first_name: customer.first_name ?? null,
        last_name: customer.last_name ?? null,
        summary: customer.summary ?? null,
        created_at: stamp(customer.created_at ?? this.now()),
      },
      ++this.#touches,
      customer.contacts ?? [],
    );
    if (this.customers.has(made.id)) throw new Error(`There is a customer ${made.id} already`);
    this.past.customers.note(made.id);
    this.#knowCustomer(made);
    this.customersByCreated.add(made);
    return made;
  }

  #knowCustomer(customer: WorldCustomer): void {
    this.customers.set(customer.id, customer);
    const { contacts } = customer;
    customer.reach = reachOf(contacts);
    this.contacts.add(customer.id, contacts);
  }

  /** A ticket with any times, past ones and thousands in one second included. What is not given is made up plainly. */
  addTicket(ticket: NewTicket = {}): WorldTicket {
    const created_at = stamp(ticket.created_at ?? ticket.updated_at ?? this.now());
    const row = wholeTicket({
      ...ticket,
      id: ticket.id ?? this.newId(),
      number: ticket.number ?? ++this.#numbers,
      customer_id: ticket.customer_id ?? this.#anyCustomer(),
      inbox_id: ticket.inbox_id ?? this.#anyInbox(),
      updated_at: stamp(ticket.updated_at ?? created_at),
      created_at,
    });
    notBoth(row);
    if (this.tickets.has(row.id)) throw new Error(`There is a ticket ${row.id} already`);
    this.past.tickets.note(row.id);
    const made = new WorldTicket(row, ++this.#touches, ticket.messages ?? []);
    this.tickets.set(made.id, made);
    this.#deadlines.watch(made, made.updated_at, this.now());
    this.table.add(made);
    for (const message of made.messages) this.#keepAttachments(message);
    return made;
  }

  #anyCustomer(): string {
    return (this.customersByCreated.at(0) ?? this.addCustomer()).id;
  }

  #anyInbox(): string {
    return (this.inboxes.values().next().value ?? this.addInbox()).id;
  }

  // --- what happens to a ticket ----------------------------------------------------------------------------------

  /** An update that changes nothing but `updated_at`. */
  touch(id: string, at?: number | string): WorldTicket {
    return this.#change(id, () => {}, at === undefined ? {} : { at });
  }

  patchTicket(id: string, patch: TicketPatch, options: ChangeOptions = {}): WorldTicket {
    const ticket = this.ticket(id);
    notBoth({ spam: patch.spam ?? ticket.spam, trash: patch.trash ?? ticket.trash });
    return this.#change(id, () => Object.assign(ticket, patch), { quiet: this.#movesNothing(patch), ...options });
  }

  setSpam(id: string, spam: boolean, options: ChangeOptions = {}): WorldTicket {
    return this.patchTicket(id, spam ? { spam, trash: false } : { spam }, options);
  }

  setTrash(id: string, trash: boolean, options: ChangeOptions = {}): WorldTicket {
    return this.patchTicket(id, trash ? { trash, spam: false } : { trash }, options);
  }

  archive(id: string, options: ChangeOptions = {}): WorldTicket {
    return this.patchTicket(id, { state: 'archived', snoozed_until: null }, this.#maybeQuiet('archive', options));
  }

  /** The end of a snooze. */
  wake(id: string, options: ChangeOptions = {}): WorldTicket {
    return this.patchTicket(id, { state: 'open', snoozed_until: null }, this.#maybeQuiet('wake', options));
  }

  /** Labels that are there already stay; where none is new, nothing has changed and nothing moves. */
  addLabels(id: string, labelIds: readonly string[], options: ChangeOptions = {}): WorldTicket {
    const ticket = this.ticket(id);
    const label_ids = [...new Set([...ticket.label_ids, ...labelIds])];
    if (label_ids.length === ticket.label_ids.length) return ticket;
    return this.patchTicket(id, { label_ids }, this.#maybeQuiet('labels', options));
  }

  removeLabels(id: string, labelIds: readonly string[], options: ChangeOptions = {}): WorldTicket {
    const ticket = this.ticket(id);
    const label_ids = ticket.label_ids.filter(label => !labelIds.includes(label));
    if (label_ids.length === ticket.label_ids.length) return ticket;
    return this.patchTicket(id, { label_ids }, this.#maybeQuiet('labels', options));
  }

  /** Gone for good: from the lists, by id, and its messages and attachments with it. */
  deleteTicket(id: string): void {
    const ticket = this.ticket(id);
    this.past.tickets.note(id, ticket);
    this.table.remove(ticket);
    for (const message of this.#keptMessages(ticket)) this.#dropAttachments(message);
    this.tickets.delete(id);
  }

  // --- what happens in its conversation ---------------------------------------------------------------------------

  /** A reply; one from the customer opens a ticket that was held, snoozed or closed (or archived: `archivedReopens`). */
  addMessage(ticketId: string, reply: NewReply = {}, options: ChangeOptions = {}): Reply {
    const made = wholeReply(reply, reply.id ?? this.newId(), this.#moment(options));
    this.#converse(ticketId, made, this.#maybeQuiet('reply', options));
    return made;
  }

  addNote(ticketId: string, note: NewNote = {}, options: ChangeOptions = {}): Note {
    const made = wholeNote(note, note.id ?? this.newId(), this.#moment(options));
    this.#converse(ticketId, made, this.#maybeQuiet('note', options));
    return made;
  }

  editNote(ticketId: string, messageId: string, body: string | null, options: ChangeOptions = {}): void {
    const note = this.#message(ticketId, messageId);
    if (note.type !== 'note') throw new Error(`Message ${messageId} is a reply: only notes can be edited`);
    this.#change(ticketId, () => Object.assign(note, { body }), this.#maybeQuiet('note', options));
  }

  removeMessage(ticketId: string, messageId: string, options: ChangeOptions = {}): void {
    const message = this.#message(ticketId, messageId);
    const messages = this.#keptMessages(this.ticket(ticketId));
    this.#change(
      ticketId,
      () => messages.splice(messages.indexOf(message), 1),
      this.#maybeQuiet(message.type, options),
    );
    this.#dropAttachments(message);
  }

  /** An attachment of a message that is there already (its ticket does not move). */
  addAttachment(ticketId: string, messageId: string, attachment: Partial<Attachment> = {}): Attachment {
    const made = { id: this.newId(), name: 'file.bin', size: 0, type: 'application/octet-stream', ...attachment };
    this.#message(ticketId, messageId).attachments.push(made);
    this.attachments.set(made.id, made);
    return made;
  }

  // --- what happens elsewhere ---------------------------------------------------------------------------------------

  /** Nothing announces it: tickets do not move, only the embedded name differs. */
  renameLabel(id: string, name: string): void {
    known(this.labels, id, 'label').name = name;
  }

  renameInbox(id: string, name: string): void {
    known(this.inboxes, id, 'inbox').name = name;
  }

  patchCustomer(id: string, patch: Partial<Pick<Customer, 'first_name' | 'last_name' | 'summary'>>): WorldCustomer {
    return Object.assign(this.#aboutToChange(id), patch);
  }

  addContact(customerId: string, contact: Omit<Contact, 'id'> & { id?: string }): Contact {
    const made = { id: contact.id ?? this.newId(), type: contact.type, value: contact.value };
    const customer = this.#aboutToChange(customerId);
    customer.keepContacts().push(made);
    customer.reach = reachOf(customer.contacts);
    this.contacts.add(customerId, [made]);
    return made;
  }

  removeContact(customerId: string, contactId: string): void {
    const customer = this.#aboutToChange(customerId);
    const contacts = customer.keepContacts();
    const at = contacts.findIndex(contact => contact.id === contactId);
    if (at < 0) throw new Error(`Customer ${customerId} has no contact ${contactId}`);
    contacts.splice(at, 1);
    customer.reach = reachOf(contacts);
  }

  /** Gone for good; its tickets keep an id that leads nowhere. */
  deleteCustomer(id: string): void {
    this.customersByCreated.remove(this.#aboutToChange(id));
    this.customers.delete(id);
  }

  /** Lets happen what has become due by now: has to come before whatever looks at the world or changes it. */
  settle(): void {
    this.#deadlines.settle(this);
    this.uploads.settle(this.now());
  }

  /** One random believable change, now. */
  mutate(rng: Rng, without: readonly string[] = []): Change {
    this.settle();
    return mutate(this, rng, without);
  }

  /**
   * What one request to the real service can do: closes so many tickets that stand next to each other in the order of
   * updates, in one second, with one label if it is given. The ids are those of the tickets.
   */
  actInBulk(count: number, label?: string): string[] {
    return closeInBulk(this, makeRng(this.seed ^ this.#touches), count, label === undefined ? [] : [label]);
  }

  ticket(id: string): WorldTicket {
    return known(this.tickets, id, 'ticket');
  }

  customer(id: string): WorldCustomer {
    return known(this.customers, id, 'customer');
  }

  // --- how ------------------------------------------------------------------------------------------------------------

  #change(id: string, edit: (ticket: WorldTicket) => void, options: ChangeOptions): WorldTicket {
    const ticket = this.ticket(id);
    this.past.tickets.note(id, ticket);
    this.table.takeOut(ticket);
    edit(ticket);
    if (!options.quiet) {
      ticket.updated_at = this.#moment(options);
      ticket.touched = ++this.#touches;
    }
    this.#deadlines.watch(ticket, this.#moment(options), this.now());
    this.table.putIn(ticket);
    return ticket;
  }

  /** A patch is as quiet as everything in it. */
  #movesNothing(patch: TicketPatch): boolean {
    const fields = Object.keys(patch);
    return fields.length > 0 && fields.every(field => this.#quietly.has(KIND_OF[field] as Quietable));
  }

  #aboutToChange(customerId: string): WorldCustomer {
    const customer = this.customer(customerId);
    this.past.customers.note(customerId, customer);
    return customer;
  }

  #maybeQuiet(kind: Quietable, options: ChangeOptions): ChangeOptions {
    return { quiet: this.#quietly.has(kind), ...options };
  }

  #moment({ at }: ChangeOptions): string {
    return stamp(at ?? this.now());
  }

  #converse(ticketId: string, message: Message, options: ChangeOptions): void {
    const fromCustomer = message.type === 'reply' && message.direction === 'in';
    const say = (ticket: WorldTicket) => {
      this.#keptMessages(ticket).push(message);
      if (!fromCustomer || (ticket.state === 'archived' && !this.#archivedReopens)) return;
      ticket.state = 'open';
      ticket.snoozed_until = null;
    };
    this.#change(ticketId, say, options);
    this.#keepAttachments(message);
  }

  #message(ticketId: string, messageId: string): Message {
    const message = this.#keptMessages(this.ticket(ticketId)).find(({ id }) => id === messageId);
    if (message === undefined) throw new Error(`Ticket ${ticketId} has no message ${messageId}`);
    return message;
  }

  /** The conversation of a ticket that is about to change: it has to stay from now on. */
  #keptMessages(ticket: WorldTicket): Message[] {
    if (ticket.keepsMessages) return ticket.keepMessages();
    const messages = ticket.keepMessages();
    this.attachments.remembered -= this.#history?.attachmentCountOf(ticket) ?? 0;
    for (const message of messages) this.#keepAttachments(message);
    return messages;
  }

  #rememberedFile(id: string): Attachment | undefined {
    const ticket = this.tickets.get(this.#history?.ticketOf(id) ?? '');
    return ticket && !ticket.keepsMessages ? filesOf(ticket).find(file => file.id === id) : undefined;
  }

  *#rememberedFiles(): Generator<Attachment> {
    for (const ticket of this.tickets.values()) if (!ticket.keepsMessages) yield* filesOf(ticket);
  }

  #keepAttachments(message: Message): void {
    for (const attachment of message.attachments) this.attachments.set(attachment.id, attachment);
  }

  #dropAttachments(message: Message): void {
    for (const attachment of message.attachments) this.attachments.delete(attachment.id);
  }
}

/** Which fields change in which kind of change; changes of all others move `updated_at` always. */
const KIND_OF: Readonly<Record<string, Quietable>> = { label_ids: 'labels', state: 'state', snoozed_until: 'state' };

function filesOf({ messages }: WorldTicket): Attachment[] {
  return messages.flatMap(({ attachments }) => attachments);
}

function addNamed(all: Map<string, Named>, named: Named): Named {
  all.set(named.id, named);
  return named;
}

function known<T>(all: Map<string, T>, id: string, what: string): T {
  const found = all.get(id);
  if (found === undefined) throw new Error(`There is no ${what} ${id}`);
  return found;
}

function notBoth(ticket: Pick<Ticket, 'spam' | 'trash'>): void {
  if (ticket.spam && ticket.trash) throw new Error('A ticket cannot be spam and trash together');
}
