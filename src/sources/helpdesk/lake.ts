/** The tables of the help desk in the lake. */
import type { LakeTable } from '../../lake/table.ts';

const ofTicket = { unit: 'ticket', byMonth: true, id: 'ticket_id' } as const;
const tickets = { ...ofTicket, id: 'id', key: ['id'] };
const withPersonal = true;

const personal = {
  tickets: ['subject', 'summary', 'reply_to', 'reply_cc'],
  messages: ['from_name', 'from_address', 'to_address'],
  attachments: ['name', 'type'],
  customers: ['first_name', 'last_name', 'summary'],
  contacts: ['value', 'value_normalized'],
};

export const lakeTables: readonly LakeTable[] = [
  { ...tickets, name: 'safe.tickets', personal: personal.tickets },
  { ...ofTicket, name: 'safe.messages', key: ['id'], personal: [...personal.messages, 'body_length'] },
  { ...ofTicket, name: 'safe.attachments', key: ['id'], personal: personal.attachments },
  { ...ofTicket, name: 'safe.ticket_labels', key: ['ticket_id', 'label_id'] },
  { ...ofTicket, name: 'safe.ticket_history', key: ['ticket_id', 'valid_from'] },
  { name: 'safe.customers', unit: 'customer', id: 'id', key: ['id'], personal: personal.customers },
  { name: 'safe.contacts', unit: 'customer', id: 'customer_id', key: ['id'], personal: personal.contacts },
  { name: 'safe.users', unit: 'list', key: ['id'] },
  { name: 'safe.inboxes', unit: 'list', key: ['id'] },
  { name: 'safe.labels', unit: 'list', key: ['id'] },

  { ...tickets, name: 'helpdesk.tickets', withPersonal, personal: [...personal.tickets, '_payload'] },
  {
    ...{ ...ofTicket, name: 'helpdesk.messages', key: ['id'], withPersonal },
    personal: [...personal.messages, 'body', 'more_body', 'body_text', '_payload'],
  },
  {
    ...ofTicket,
    name: 'helpdesk.attachments',
    key: ['id'],
    withPersonal,
    personal: [...personal.attachments, '_payload'],
  },
  { ...ofTicket, name: 'helpdesk.ticket_labels', key: ['ticket_id', 'label_id'], withPersonal },
  { ...ofTicket, name: 'helpdesk.ticket_history', key: ['ticket_id', 'valid_from'], withPersonal },
  {
    ...{ name: 'helpdesk.customers', unit: 'customer', id: 'id', key: ['id'], withPersonal },
    personal: [...personal.customers, '_payload'],
  },
  {
    ...{ name: 'helpdesk.contacts', unit: 'customer', id: 'customer_id', key: ['id'], withPersonal },
    personal: [...personal.contacts, '_payload'],
  },
  { name: 'helpdesk.users', unit: 'list', key: ['id'], withPersonal },
  { name: 'helpdesk.inboxes', unit: 'list', key: ['id'], withPersonal },
  { name: 'helpdesk.labels', unit: 'list', key: ['id'], withPersonal },

  { ...ofTicket, name: 'analytics.ticket_metrics', key: ['ticket_id'] },
  { ...ofTicket, name: 'analytics.reply_turns', key: ['ticket_id', 'turn'] },
  { ...ofTicket, name: 'analytics.ticket_state_intervals', key: ['ticket_id', 'valid_from'] },
  { ...ofTicket, name: 'analytics.fact_tickets', account: 'account_key', key: ['ticket_key'] },
  {
    name: 'analytics.dim_customer',
    unit: 'customer',
    account: 'account_key',
    id: 'customer_id',
    key: ['customer_key'],
  },
  { name: 'analytics.dim_inbox', unit: 'list', account: 'account_key', key: ['inbox_key'] },
  { name: 'analytics.dim_label', unit: 'list', account: 'account_key', key: ['label_key'] },
  { name: 'analytics.dim_agent', unit: 'list', account: 'account_key', key: ['agent_key'] },
];
