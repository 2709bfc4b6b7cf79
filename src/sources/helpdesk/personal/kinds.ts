/** What field rules know of the help desk's records: see Kind. */
import { text } from '../../../engine/commit/merge.ts';
import type { Kinds } from '../../../engine/http/field-rules.ts';
import { attachment, contact, customer, message, name, ticket, user } from '../records.ts';
import { uses } from './field-uses.ts';

const fieldsOf = (schema: { readonly shape: object }) => Object.keys(schema.shape);

/** Stored by a statement of the messages, not by a merge. */
const named = (table: string) => ({ name: table, columns: [text('id'), text('name')] });

export const kinds: Kinds = {
  tickets: {
    uses: uses.tickets!,
    fields: fieldsOf(ticket),
    within: { messages: 'messages', labels: 'labels', inbox: 'inboxes', customer: 'customers', user: 'users' },
    // The order of the lists, which list shows it, and whose it is: an erasure asks for that.
    needed: ['id', 'created_at', 'updated_at', 'spam', 'trash', 'customer_id'],
    plain: ['number', 'label_ids', 'snoozed_until'],
    histories: [{ table: 'internal.ticket_history', columns: ['state', 'user_id', 'inbox_id', 'label_ids'] }],
  },
  messages: {
    uses: uses.messages!,
    fields: fieldsOf(message),
    within: { attachments: 'attachments' },
    needed: ['id'],
    plain: ['htmlized', 'created_at'],
    omittable: true,
  },
  attachments: { fields: fieldsOf(attachment), within: {}, needed: ['id'], plain: ['size'] },
  customers: {
    fields: fieldsOf(customer),
    within: { contacts: 'contacts' },
    needed: ['id'],
    plain: [],
    omittable: true,
  },
  contacts: { uses: uses.contacts!, fields: fieldsOf(contact), within: {}, needed: ['id'], plain: [] },
  users: { fields: fieldsOf(user), within: {}, needed: ['id'], plain: [], omittable: true },
  labels: {
    uses: uses.labels!,
    fields: fieldsOf(name),
    within: {},
    needed: ['id'],
    plain: [],
    tables: [named('helpdesk.labels')],
  },
  inboxes: {
    uses: uses.inboxes!,
    fields: fieldsOf(name),
    within: {},
    needed: ['id'],
    plain: [],
    tables: [named('helpdesk.inboxes')],
  },
};
