/** What field rules know of the help desk's records: see Kind. */
import { text } from '../../../engine/commit/merge.ts';
import type { Kinds } from '../../../engine/http/rules/field-rules.ts';
import { kindOf } from '../../record-kinds.ts';
import { attachment, contact, customer, inbox, label, message, ticket, user } from '../records.ts';
import { uses } from './field-uses.ts';

/** Stored by a statement of the messages, not by a merge. */
const named = (table: string) => ({ name: table, columns: [text('id'), text('name')] });

export const kinds: Kinds = {
  tickets: kindOf(ticket, {
    uses: uses.tickets!,
    // The order of the lists, which list shows it, and whose it is: an erasure asks for that.
    needed: ['created_at', 'spam', 'trash', 'customer_id'],
    histories: [{ table: 'internal.ticket_history', columns: ['state', 'user_id', 'inbox_id', 'label_ids'] }],
  }),
  messages: kindOf(message, { uses: uses.messages!, omittable: true }),
  attachments: kindOf(attachment),
  customers: kindOf(customer, { omittable: true }),
  contacts: kindOf(contact, { uses: uses.contacts! }),
  users: kindOf(user, { omittable: true }),
  labels: kindOf(label, { uses: uses.labels!, tables: [named('helpdesk.labels')] }),
  inboxes: kindOf(inbox, { uses: uses.inboxes!, tables: [named('helpdesk.inboxes')] }),
};
