/** What field rules know of the help desk's records: see Kind. */
import type { z } from 'zod';
import { text } from '../../../engine/commit/merge.ts';
import type { Kinds } from '../../../engine/http/rules/field-rules.ts';
import { shapesOf } from '../../../engine/http/shapes.ts';
import { attachment, contact, customer, message, name, ticket, user } from '../records.ts';
import { uses } from './field-uses.ts';

const known = (record: z.ZodObject) => ({ fields: Object.keys(record.shape), shapes: shapesOf(record) });

/** Stored by a statement of the messages, not by a merge. */
const named = (table: string) => ({ name: table, columns: [text('id'), text('name')] });

export const kinds: Kinds = {
  tickets: {
    uses: uses.tickets!,
    ...known(ticket),
    within: { messages: 'messages', labels: 'labels', inbox: 'inboxes', customer: 'customers', user: 'users' },
    // The order of the lists, which list shows it, and whose it is: an erasure asks for that.
    needed: ['id', 'created_at', 'updated_at', 'spam', 'trash', 'customer_id'],
    plain: ['number', 'label_ids', 'snoozed_until'],
    histories: [{ table: 'internal.ticket_history', columns: ['state', 'user_id', 'inbox_id', 'label_ids'] }],
  },
  messages: {
    uses: uses.messages!,
    ...known(message),
    within: { attachments: 'attachments' },
    needed: ['id'],
    plain: ['htmlized', 'created_at'],
    omittable: true,
  },
  attachments: { ...known(attachment), within: {}, needed: ['id'], plain: ['size'] },
  customers: {
    ...known(customer),
    within: { contacts: 'contacts' },
    needed: ['id'],
    plain: [],
    omittable: true,
  },
  contacts: { uses: uses.contacts!, ...known(contact), within: {}, needed: ['id'], plain: [] },
  users: { ...known(user), within: {}, needed: ['id'], plain: [], omittable: true },
  labels: {
    uses: uses.labels!,
    ...known(name),
    within: {},
    needed: ['id'],
    plain: [],
    tables: [named('helpdesk.labels')],
  },
  inboxes: {
    uses: uses.inboxes!,
    ...known(name),
    within: {},
    needed: ['id'],
    plain: [],
    tables: [named('helpdesk.inboxes')],
  },
};
