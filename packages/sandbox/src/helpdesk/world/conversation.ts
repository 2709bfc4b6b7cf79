/**
 * Messages of tickets. Replies and notes have all fields; missing ones are null. Messages of the history are generated at
 * each read (history.ts); once a conversation changes, its messages and attachments are stored.
 */

import type { History } from '../content/history.ts';
import type { Attachment, Message, Note, Reply } from '../records.ts';
import { Attachments } from './attachments.ts';
import type { WorldTicket } from './rows.ts';

export type NewReply = Partial<Omit<Reply, 'type'>>;
export type NewNote = Partial<Omit<Note, 'type'>>;

/** The only place that adds, replaces and removes messages. Lists and messages that were read never change. */
export class Conversations {
  readonly attachments = new Attachments({ find: id => this.#rememberedFile(id), all: () => this.#rememberedFiles() });
  readonly #tickets: Pick<ReadonlyMap<string, WorldTicket>, 'get' | 'values'>;
  #history: History | undefined;

  constructor(tickets: Pick<ReadonlyMap<string, WorldTicket>, 'get' | 'values'>) {
    this.#tickets = tickets;
  }

  /** Adds the attachments of a history whose tickets exist already. */
  remember(history: History): void {
    this.#history = history;
    for (const ticket of this.#tickets.values()) this.attachments.remembered += history.attachmentCountOf(ticket);
  }

  /** Throws if the ticket has no such message. */
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

  /** Replaces the message with the same id. */
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

  /** Call for a new ticket: registers the attachments of its messages. */
  begin({ messages }: WorldTicket): void {
    for (const message of messages) this.#keepAttachments(message);
  }

  /** Call for a deleted ticket: drops its attachments. */
  drop(ticket: WorldTicket): void {
    if (!ticket.keepsMessages) this.#forget(ticket);
    else for (const message of ticket.messages) this.#dropAttachments(message);
  }

  /** Stores the messages of a ticket of the history, before their first change. */
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

/** A reply with null for missing fields. Fields are listed one by one: spread objects take more memory. */
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
