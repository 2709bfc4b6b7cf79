/**
 * Records of the help desk, as the interface shows them. Messages, attachments, users, labels and inboxes are stored in
 * this form. Tickets and customers have internal fields too (see rows.ts); `ticketRecord` and `customerRecord` convert
 * them and set the order of keys.
 */

// @internal The OpenAPI document and the generated world have all of them: tests compare.
export const TICKET_STATES = ['open', 'hold', 'closed', 'snoozed', 'archived'] as const;
export type TicketState = (typeof TICKET_STATES)[number];

export const TICKET_TYPES = [
  'email',
  'twitter',
  'twitter_dm',
  'phone',
  'chat',
  'web',
  'sms',
  'whatsapp',
  'fb_messenger',
  'instagram_dm',
  'call',
] as const;
export type TicketType = (typeof TICKET_TYPES)[number];

export const CONTACT_TYPES = ['email', 'twitter', 'phone'] as const;
export type ContactType = (typeof CONTACT_TYPES)[number];

export interface Ticket {
  id: string;
  number: number;
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
}

export interface Attachment {
  id: string;
  name: string;
  size: number;
  type: string;
}

interface MessageBase {
  id: string;
  from_name: string | null;
  body: string | null;
  htmlized: boolean;
  attachments: readonly Attachment[];
  user_id: string | null;
  created_at: string;
}
/** A note lacks the keys of direction, sender and recipients; they are absent, not null. */
export interface Note extends MessageBase {
  type: 'note';
}
export interface Reply extends MessageBase {
  type: 'reply';
  direction: 'in' | 'out';
  from: string | null;
  to: string | null;
  more_body: string | null;
}
export type Message = Note | Reply;

export interface User {
  id: string;
  first_name: string | null;
  last_name: string | null;
  email: string;
}

export interface Contact {
  readonly id: string;
  readonly type: ContactType;
  readonly value: string;
}

export interface Customer {
  id: string;
  first_name: string | null;
  last_name: string | null;
  summary: string | null;
  contacts: readonly Contact[];
}

/** An inbox or a label: id and name only. */
export interface Named {
  id: string;
  name: string;
}

export function ticketRecord(ticket: Ticket): Ticket {
  return {
    id: ticket.id,
    number: ticket.number,
    customer_id: ticket.customer_id,
    user_id: ticket.user_id,
    inbox_id: ticket.inbox_id,
    label_ids: ticket.label_ids,
    state: ticket.state,
    snoozed_until: ticket.snoozed_until,
    subject: ticket.subject,
    type: ticket.type,
    spam: ticket.spam,
    trash: ticket.trash,
    updated_at: ticket.updated_at,
    created_at: ticket.created_at,
    reply_to: ticket.reply_to,
    reply_cc: ticket.reply_cc,
    summary: ticket.summary,
  };
}

export function customerRecord(customer: Customer): Customer {
  return {
    id: customer.id,
    first_name: customer.first_name,
    last_name: customer.last_name,
    summary: customer.summary,
    contacts: customer.contacts,
  };
}

const DAY_MS = 86_400_000;
/** Buffer with the last stamp; its date part is reused, since a history has hundreds of stamps per day. */
const written = Buffer.alloc(20);
let writtenDay = Number.NaN;

/** Timestamp of the help desk: UTC, whole seconds. Texts sort as their times. */
export function stamp(at: number | string): string {
  const ms = typeof at === 'string' ? Date.parse(at) : at;
  const day = Math.floor(ms / DAY_MS);
  if (day !== writtenDay) {
    written.write(`${new Date(day * DAY_MS).toISOString().slice(0, 19)}Z`, 'latin1');
    writtenDay = day;
  }
  const second = Math.floor(ms / 1000) - day * 86_400;
  writeTwo(11, Math.floor(second / 3600));
  writeTwo(14, Math.floor(second / 60) % 60);
  writeTwo(17, second % 60);
  // Built from bytes: concatenated text takes three times the memory, for a million stamps.
  return written.toString('latin1');
}

function writeTwo(place: number, number: number): void {
  written[place] = 48 + Math.floor(number / 10);
  written[place + 1] = 48 + (number % 10);
}
