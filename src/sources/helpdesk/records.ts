/** The help desk's records (spec, Resources and their fields), one declaration for each table. */
import { z } from 'zod';
import { checkOf } from '../record/check.ts';
import {
  children,
  embedded,
  flag,
  id,
  integer,
  oneOf,
  record,
  reference,
  references,
  text,
  time,
  unasked,
  type Value,
} from '../record/record.ts';
import type { SourceTable } from '../source.ts';
import { rowsOf } from './rows-of.ts';

export const user = record('users', 'The team: people who answer tickets.', {
  id: id(),
  first_name: text('First name.').personal('name'),
  last_name: text('Last name.').personal('name'),
  email: text('E-mail address.').personal('contact'),
});

export const contact = record(
  'contacts',
  'Addresses of customers. The contacts of a customer are replaced as a set: contacts that the source no longer shows are removed.',
  {
    id: id(),
    type: oneOf(['email', 'twitter', 'phone']),
    value: text('The address, screen name or number as the source spells it.').personal('contact', {
      computed: {
        value_normalized:
          'value, normalised for comparison: e-mail in lower case; screen name in lower case without @; phone number as digits, with the leading + if value has one.',
      },
    }),
  },
);

export const customer = record(
  'customers',
  'People who write in. New customers arrive with the next sync. The source does not announce edits of known customers; see _observed_at.',
  {
    id: id(),
    first_name: text("First name. The source distinguishes '' from null, and so does this column.").personal('name'),
    last_name: text('Last name.').personal('name'),
    summary: text('Short summary of the customer, if the source has one.').personal('text'),
    contacts: children(contact),
  },
);

export const channels = [
  ...(['email', 'twitter', 'twitter_dm', 'phone', 'chat', 'web', 'sms', 'whatsapp', 'fb_messenger'] as const),
  ...(['instagram_dm', 'call'] as const),
] as const;

export const ticket = record(
  'tickets',
  'Conversations with customers, one row per ticket, in the last version that the source showed.',
  {
    id: id(),
    number: integer('Friendly ticket number, unique across the help desk.'),
    // An erasure needs the customer of a ticket.
    customer_id: reference('customers', 'The customer', { needed: true }),
    user_id: reference('users', 'The assigned user; null while unassigned.'),
    inbox_id: reference('inboxes', 'The inbox'),
    label_ids: references('labels', 'Labels on the ticket, as in helpdesk.ticket_labels.'),
    state: oneOf(['open', 'hold', 'closed', 'snoozed', 'archived']),
    type: oneOf(channels, 'Channel: '),
    subject: text("Subject. The source distinguishes '' from null, and so does this column.").personal('text'),
    summary: text('Short summary of the conversation that the source writes.').personal('text'),
    // The list that shows a ticket depends on these flags.
    spam: flag('True if the ticket is marked as spam.', { needed: true }),
    trash: flag('True if the ticket is in the trash.', { needed: true }),
    snoozed_until: time('When a snoozed ticket reopens.'),
    reply_to: text('Default To of a new reply (deprecated at the source).').personal('contact'),
    reply_cc: text('Default Cc of a new reply (deprecated at the source).').personal('contact'),
    // The order of lists.
    created_at: time('Creation time at the source.', { needed: true }),
    updated_at: time('Time of the last update at the source, in whole seconds.').always(),
    messages: embedded('messages'),
    labels: embedded('labels'),
    inbox: embedded('inboxes'),
    customer: unasked('customers'),
    user: unasked('users'),
    group: unasked(),
  },
);

export const attachment = record(
  'attachments',
  'Metadata of files attached to messages. The content is not mirrored.',
  {
    id: id(),
    name: text('File name.').personal('text'),
    // A parameter behind the semicolon may hold the file's name: text/plain; name="…".
    type: text('MIME type.').plain({ upTo: ';' }),
    size: integer('Size in bytes.'),
  },
);

export const message = record('messages', 'Stored rows of helpdesk.messages. Read helpdesk.messages instead.', {
  id: id(),
  type: oneOf(['reply', 'note']),
  direction: oneOf(['in', 'out'], 'in (from a customer) or out (to a customer); null on notes.'),
  user_id: reference('users', 'Author, if a team member; null for customers and automatic replies.'),
  // Mailing lists may put an address into it.
  from_name: text('Display name of the sender.').personal('name', { nameOf: 'from' }),
  from: text('Contact information of the sender (from at the source).').personal('contact', {
    column: 'from_address',
  }),
  to: text('Contact information of the recipient (to at the source).').personal('contact', { column: 'to_address' }),
  body: text('The text as the source sent it: HTML if htmlized is true.').personal('text', {
    apart: true,
    computed: { body_text: 'body as plain text, where it differs from body; else null.' },
    length: 'body_length',
  }),
  more_body: text('The signature that the source cut from body.').personal('text', { apart: true }),
  htmlized: flag('True if body is HTML.'),
  created_at: time('Creation time at the source. Order equal times by position.'),
  attachments: children(attachment),
});

const named = { id: id(), name: text('Name; null until a reply has shown it.').title() };
const label = record('labels', 'Labels of tickets.', named);
const inbox = record('inboxes', 'Inboxes that tickets belong to.', named);

export const tables: readonly SourceTable[] = [
  ...[ticket, message, attachment, customer, contact, user, label, inbox],
].map(record => ({
  ...{ name: `helpdesk.${record.name}`, rows: rowsOf(record.name), record },
  ...(record === ticket && {
    histories: [{ table: 'internal.ticket_history', columns: ['state', 'user_id', 'inbox_id', 'label_ids'] }],
  }),
}));

const ofTicket = checkOf(ticket);
export const checks = {
  ticket: ofTicket,
  /** Messages and names are checked one by one, so that one invalid record does not reject the others. */
  ticketInDetail: ofTicket.extend({ messages: z.array(z.unknown()) }) as unknown as z.ZodType<TicketInDetail>,
  message: checkOf(message),
  user: checkOf(user),
  customer: checkOf(customer),
  name: checkOf(label),
};

export type Ticket = Value<typeof ticket>;
export type TicketInDetail = Ticket & { readonly messages: readonly unknown[] };
export type Message = Value<typeof message>;
export type User = Value<typeof user>;
export type Customer = Value<typeof customer>;
