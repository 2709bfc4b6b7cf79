/**
 * The data of the help desk, without HTTP: records, orders of lists, and operations that change them. A change sets
 * `updated_at` from the world's clock and moves the ticket to the end of that order; within one second, later changes
 * sort later. With `quiet` a change leaves `updated_at` alone: the specification does not say which changes move it.
 *
 * Read maps and records freely. Change tickets and customers through the operations only: orders, filters and
 * before-images notice nothing else. Exceptions are a ticket's subject, summary and addresses, which may be set directly.
 */
import type { Change } from '../../activity.ts';
import { Clock } from '../../clock.ts';
import { hexId, makeRng, type Rng } from '../../random.ts';
import { type Settled, settled } from '../../switches.ts';
import { closeInBulk, mutate } from '../content/changes.ts';
import type { History } from '../content/history.ts';
import type { Sequence } from '../lists/overlay.ts';
import {
  type Attachment,
  type Message,
  type Named,
  type Note,
  type Reply,
  stamp,
  type Ticket,
  type User,
} from '../records.ts';
import { HelpdeskBeforeImages } from '../stale-copy.ts';
import { Conversations, type NewNote, type NewReply, wholeNote, wholeReply } from './conversation.ts';
import { Customers } from './customers.ts';
import type { WorldCustomer, WorldTicket } from './rows.ts';
import { type NewTicket, Tickets } from './tickets.ts';
import { Uploads } from './uploads.ts';

/** Kinds of change for which the specification leaves open whether they move `updated_at`. */
type Quietable = Settled<'helpdesk'>['quietly'][number];

/** Behaviour over time and at replies; see the switches of these names. */
type Habits = Pick<Settled<'helpdesk'>, 'archiveHours' | 'archivedReopens' | 'attachmentHours'>;

export interface WorldOptions extends Partial<Habits> {
  /** Seed of the ids; default 1. */
  seed?: number;
  /** Clock in milliseconds; default the machine's. */
  now?: () => number;
  /** Tickets per bulk action, times a random factor of 0.6 to 1.5; default 100. */
  bulkSize?: number;
  /** Kinds of change that leave `updated_at` alone unless an operation says otherwise; default none. */
  quietly?: readonly Quietable[];
}

export interface ChangeOptions {
  /** Leave `updated_at` as it is. */
  quiet?: boolean;
  /** Time of the change, in milliseconds or as a timestamp; default now. */
  at?: number | string;
}

export type TicketPatch = Partial<Omit<Ticket, 'id' | 'number' | 'created_at' | 'updated_at'>>;

export class World {
  readonly clock: Clock;
  /** Before-images for stale copies; empty until a lag fault asks for them. */
  readonly past: HelpdeskBeforeImages;
  readonly tickets: Tickets;
  readonly customers: Customers;
  readonly users = new Map<string, User>();
  readonly labels = new Map<string, Named>();
  readonly inboxes = new Map<string, Named>();
  /** Attachments without a message; all others are in `attachments`. */
  readonly uploads: Uploads;

  readonly seed: number;
  readonly bulkSize: number;
  readonly #conversations: Conversations;
  readonly #quietly: ReadonlySet<Quietable>;
  readonly #archivedReopens: boolean;
  #ids = 0;

  /** Creates an empty world. */
  constructor(options: WorldOptions = {}) {
    this.seed = options.seed ?? 1;
    this.bulkSize = options.bulkSize ?? 100;
    const clock = new Clock(options.now);
    const { archiveHours, archivedReopens, attachmentHours }: Habits = settled('helpdesk', options);
    this.clock = clock;
    this.past = new HelpdeskBeforeImages(clock.steady);
    this.tickets = new Tickets({ clock, past: this.past.tickets, archiveHours });
    this.customers = new Customers({ clock, past: this.past.customers, newId: () => this.newId() });
    this.#conversations = new Conversations(this.tickets);
    this.uploads = new Uploads(attachmentHours);
    this.#quietly = new Set(options.quietly ?? []);
    this.#archivedReopens = archivedReopens;
  }

  /** Orders and columns for lists of tickets. */
  get table() {
    return this.tickets.table;
  }

  get byUpdated(): Sequence<WorldTicket> {
    return this.table.byUpdated;
  }

  get byCreated(): Sequence<WorldTicket> {
    return this.table.byCreated;
  }

  get byUser(): Sequence<WorldTicket> {
    return this.table.byUser;
  }

  get attachments() {
    return this.#conversations.attachments;
  }

  /** Adds a generated history; throws if the world already has tickets or customers. */
  remember(history: History): void {
    if (this.tickets.size + this.customers.size > 0)
      throw new Error('A history must be added before tickets and customers');
    this.customers.remember(history);
    this.tickets.remember(history);
    this.#conversations.remember(history);
  }

  /** Reserves `count` id numbers and returns the first; `newId` skips them. */
  reserveIds(count: number): number {
    this.#ids += count;
    return this.#ids - count;
  }

  newId(): string {
    return hexId(this.seed, this.#ids++);
  }

  // --- creation -----------------------------------------------------------------------------------

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

  /** As `Tickets.add`; without customer or inbox it takes an existing one or creates one. */
  addTicket(ticket: NewTicket = {}): WorldTicket {
    notBoth({ spam: ticket.spam ?? false, trash: ticket.trash ?? false });
    const made = this.tickets.add({
      ...ticket,
      id: ticket.id ?? this.newId(),
      customer_id: ticket.customer_id ?? this.#anyCustomer(),
      inbox_id: ticket.inbox_id ?? this.#anyInbox(),
    });
    this.#conversations.begin(made);
    return made;
  }

  #anyCustomer(): string {
    return (this.customers.byCreated.at(0) ?? this.customers.add()).id;
  }

  #anyInbox(): string {
    return (this.inboxes.values().next().value ?? this.addInbox()).id;
  }

  // --- changes of a ticket ----------------------------------------------------------------------------------

  /** Changes `updated_at` only. */
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

  /** Ends a snooze. */
  wake(id: string, options: ChangeOptions = {}): WorldTicket {
    return this.patchTicket(id, { state: 'open', snoozed_until: null }, this.#maybeQuiet('wake', options));
  }

  /** Adds labels; if the ticket has all of them already, `updated_at` stays. */
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

  /** Deletes the ticket with its messages and attachments. */
  deleteTicket(id: string): void {
    const ticket = this.ticket(id);
    this.tickets.delete(ticket);
    this.#conversations.drop(ticket);
  }

  // --- changes of messages ---------------------------------------------------------------------------

  /** Adds a reply. A customer's reply opens a held, snoozed or closed ticket, and an archived one with `archivedReopens`. */
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
    const edit = (ticket: WorldTicket) => this.#conversations.replace(ticket, { ...note, body });
    this.#change(ticketId, edit, this.#maybeQuiet('note', options));
  }

  removeMessage(ticketId: string, messageId: string, options: ChangeOptions = {}): void {
    const message = this.#message(ticketId, messageId);
    const remove = (ticket: WorldTicket) => this.#conversations.remove(ticket, message);
    this.#change(ticketId, remove, this.#maybeQuiet(message.type, options));
  }

  /** Adds an attachment to an existing message; the ticket's `updated_at` stays. */
  addAttachment(ticketId: string, messageId: string, attachment: Partial<Attachment> = {}): Attachment {
    const made = { id: this.newId(), name: 'file.bin', size: 0, type: 'application/octet-stream', ...attachment };
    const message = this.#message(ticketId, messageId);
    const attachments = [...message.attachments, made];
    const attach = (ticket: WorldTicket) => this.#conversations.replace(ticket, { ...message, attachments });
    this.#change(ticketId, attach, { quiet: true });
    return made;
  }

  // --- other changes ---------------------------------------------------------------------------------------

  /** A silent change: tickets keep `updated_at`, only the embedded name differs. */
  renameLabel(id: string, name: string): void {
    known(this.labels, id, 'label').name = name;
  }

  renameInbox(id: string, name: string): void {
    known(this.inboxes, id, 'inbox').name = name;
  }

  /** Applies overdue deadlines. Call before reading or changing the world. */
  settle(): void {
    this.tickets.deadlines.settle(this);
    this.uploads.settle(this.clock.now());
    this.past.forget();
  }

  /** Makes one random change. `without`: kinds to leave out. */
  mutate(rng: Rng, without: readonly string[] = []): Change {
    this.settle();
    return mutate(this, rng, without);
  }

  /**
   * Closes up to `count` tickets that are neighbours in the order of updates, in one second, and adds `label` if given.
   * One request to the real service can do this. Returns the ids of the tickets.
   */
  actInBulk(count: number, label?: string): string[] {
    return closeInBulk(this, makeRng(this.seed ^ this.tickets.touches), count, label === undefined ? [] : [label]);
  }

  ticket(id: string): WorldTicket {
    return known(this.tickets, id, 'ticket');
  }

  customer(id: string): WorldCustomer {
    return known(this.customers, id, 'customer');
  }

  // --- internals ------------------------------------------------------------------------------------------------------------

  #change(id: string, edit: (ticket: WorldTicket) => void, options: ChangeOptions): WorldTicket {
    const moving = { quiet: options.quiet ?? false, moment: this.#moment(options) };
    return this.tickets.change(this.ticket(id), edit, moving);
  }

  /** A patch is quiet if all of its fields are. */
  #movesNothing(patch: TicketPatch): boolean {
    const fields = Object.keys(patch);
    return fields.length > 0 && fields.every(field => this.#quietly.has(KIND_OF[field] as Quietable));
  }

  #maybeQuiet(kind: Quietable, options: ChangeOptions): ChangeOptions {
    return { quiet: this.#quietly.has(kind), ...options };
  }

  #moment({ at }: ChangeOptions): string {
    return stamp(at ?? this.clock.now());
  }

  #converse(ticketId: string, message: Message, options: ChangeOptions): void {
    const fromCustomer = message.type === 'reply' && message.direction === 'in';
    const say = (ticket: WorldTicket) => {
      this.#conversations.add(ticket, message);
      if (!fromCustomer || (ticket.state === 'archived' && !this.#archivedReopens)) return;
      ticket.state = 'open';
      ticket.snoozed_until = null;
    };
    this.#change(ticketId, say, options);
  }

  #message(ticketId: string, messageId: string): Message {
    return this.#conversations.message(this.ticket(ticketId), messageId);
  }
}

/** Kind of change of each field that can be quiet; other fields always move `updated_at`. */
const KIND_OF: Readonly<Record<string, Quietable>> = { label_ids: 'labels', state: 'state', snoozed_until: 'state' };

function addNamed(all: Map<string, Named>, named: Named): Named {
  all.set(named.id, named);
  return named;
}

function known<T>(all: Pick<ReadonlyMap<string, T>, 'get'>, id: string, what: string): T {
  const found = all.get(id);
  if (found === undefined) throw new Error(`There is no ${what} ${id}`);
  return found;
}

function notBoth(ticket: Pick<Ticket, 'spam' | 'trash'>): void {
  if (ticket.spam && ticket.trash) throw new Error('A ticket cannot be spam and trash together');
}
