/**
 * What is said in tickets. Replies and notes are whole: what a caller leaves out is there all the same, as null. Most
 * conversations are those of a history, which nobody keeps (history.ts); one that changes is kept from then on, and its
 * attachments with it.
 */
import { Attachments } from './attachments.ts';
import type { History } from './history.ts';
import type { Attachment, Message, Note, Reply } from './records.ts';
import type { WorldTicket } from './rows.ts';

export type NewReply = Partial<Omit<Reply, 'type'>>;
export type NewNote = Partial<Omit<Note, 'type'>>;

/** Messages are added, replaced and removed here and nowhere else; a list or a message that was read never changes. */
export class Conversations {
  readonly attachments = new Attachments({ find: id => this.#rememberedFile(id), all: () => this.#rememberedFiles() });
  readonly #tickets: Pick<ReadonlyMap<string, WorldTicket>, 'get' | 'values'>;
  #history: History | undefined;

  constructor(tickets: Pick<ReadonlyMap<string, WorldTicket>, 'get' | 'values'>) {
    this.#tickets = tickets;
  }

  /** Those of its tickets, which are there already. */
  remember(history: History): void {
    this.#history = history;
    for (const ticket of this.#tickets.values()) this.attachments.remembered += history.attachmentCountOf(ticket);
  }

  /** Throws where the ticket has no such message. */
  message(ticket: WorldTicket, id: string): Message {
    const message = ticket.messages.find(one => one.id === id);
    if (message === undefined) throw new Error(`Ticket ${ticket.id} has no message ${id}`);
    return message;
  }

  add(ticket: WorldTicket, message: Message): void {
    this.#keep(ticket);
    ticket.messages = [...ticket.messages, message];
    this.#keepAttachments(message);
  }

  /** In the place of the one with this id. */
  replace(ticket: WorldTicket, message: Message): void {
    this.#keep(ticket);
    ticket.messages = ticket.messages.map(old => (old.id === message.id ? message : old));
    this.#keepAttachments(message);
  }

  remove(ticket: WorldTicket, { id }: Message): void {
    this.#keep(ticket);
    for (const gone of ticket.messages.filter(one => one.id === id)) this.#dropAttachments(gone);
    ticket.messages = ticket.messages.filter(one => one.id !== id);
  }

  /** Has to be called for a ticket that comes with messages of its own. */
  begin({ messages }: WorldTicket): void {
    for (const message of messages) this.#keepAttachments(message);
  }

  /** Of a ticket that goes away. */
  drop(ticket: WorldTicket): void {
    if (!ticket.keepsMessages) this.#forget(ticket);
    else for (const message of ticket.messages) this.#dropAttachments(message);
  }

  /** From now on it stays. */
  #keep(ticket: WorldTicket): void {
    if (ticket.keepsMessages) return;
    this.#forget(ticket);
    ticket.messages = [...ticket.messages];
    this.begin(ticket);
  }

  #forget(ticket: WorldTicket): void {
    this.attachments.remembered -= this.#history?.attachmentCountOf(ticket) ?? 0;
  }

  #rememberedFile(id: string): Attachment | undefined {
    const ticket = this.#tickets.get(this.#history?.ticketOf(id) ?? '');
    return ticket && !ticket.keepsMessages ? filesOf(ticket).find(file => file.id === id) : undefined;
  }

  *#rememberedFiles(): Generator<Attachment> {
    for (const ticket of this.#tickets.values()) if (!ticket.keepsMessages) yield* filesOf(ticket);
  }

  #keepAttachments(message: Message): void {
    for (const attachment of message.attachments) this.attachments.set(attachment.id, attachment);
  }

  #dropAttachments(message: Message): void {
    for (const attachment of message.attachments) this.attachments.delete(attachment.id);
  }
}

function filesOf({ messages }: WorldTicket): Attachment[] {
  return messages.flatMap(({ attachments }) => attachments);
}

/** A reply with everything that was not given: unset fields are null. (Written out: spread objects take more memory.) */
export function wholeReply(reply: NewReply, id: string, created_at: string): Reply {
  return {
    id,
    type: 'reply',
    direction: reply.direction ?? 'in',
    from_name: reply.from_name ?? null,
    from: reply.from ?? null,
    to: reply.to ?? null,
    body: reply.body ?? null,
    more_body: reply.more_body ?? null,
    htmlized: reply.htmlized ?? false,
    attachments: reply.attachments ?? [],
    user_id: reply.user_id ?? null,
    created_at: reply.created_at ?? created_at,
  };
}

export function wholeNote(note: NewNote, id: string, created_at: string): Note {
  return {
    id,
    type: 'note',
    from_name: note.from_name ?? null,
    body: note.body ?? null,
    htmlized: note.htmlized ?? false,
    attachments: note.attachments ?? [],
    user_id: note.user_id ?? null,
    created_at: note.created_at ?? created_at,
  };
}
