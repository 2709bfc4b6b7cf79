/** The tables of the help desk in the lake. */
import type { LakeTable } from '../../lake/table.ts';
import { tellingColumns } from '../record-personal.ts';
import { attachment, contact, customer, message, ticket } from './records.ts';

const ofTicket = { unit: 'ticket', id: (t: string) => `${t}ticket_id` } as const;
/** Long tables have files for each month. Of the others an export reads all that the account has. */
const byMonth = true;
const tickets = { ...ofTicket, id: (t: string) => `${t}id`, key: ['id'], byMonth };
const ofCustomer = { unit: 'customer', id: (t: string) => `${t}customer_id`, key: ['id'] } as const;
const customers = { ...ofCustomer, id: (t: string) => `${t}id` };
const withPersonal = true;

const personal = {
  tickets: tellingColumns(ticket),
  messages: tellingColumns(message, { apart: false }),
  attachments: [...tellingColumns(attachment), 'type'],
  customers: tellingColumns(customer),
  contacts: tellingColumns(contact),
};

export const lakeTables: readonly LakeTable[] = [
  { ...tickets, name: 'safe.tickets', personal: personal.tickets },
  { ...ofTicket, name: 'safe.messages', key: ['id'], byMonth, personal: [...personal.messages, 'body_length'] },
  { ...ofTicket, name: 'safe.attachments', key: ['id'], personal: personal.attachments },
  { ...ofTicket, name: 'safe.ticket_labels', key: ['ticket_id', 'label_id'] },
  { ...ofTicket, name: 'safe.ticket_history', key: ['ticket_id', 'valid_from'] },
  { ...customers, name: 'safe.customers', personal: personal.customers },
  { ...ofCustomer, name: 'safe.contacts', personal: personal.contacts },
  { name: 'safe.users', unit: 'list', key: ['id'] },
  { name: 'safe.inboxes', unit: 'list', key: ['id'] },
  { name: 'safe.labels', unit: 'list', key: ['id'] },

  { ...tickets, name: 'helpdesk.tickets', withPersonal, personal: [...personal.tickets, '_payload'] },
  {
    ...{ ...ofTicket, name: 'helpdesk.messages', key: ['id'], byMonth, withPersonal },
    personal: [...tellingColumns(message), '_payload'],
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
    ...{ ...customers, name: 'helpdesk.customers', withPersonal },
    personal: [...personal.customers, '_payload'],
  },
  {
    ...{ ...ofCustomer, name: 'helpdesk.contacts', withPersonal },
    personal: [...personal.contacts, '_payload'],
  },
  { name: 'helpdesk.users', unit: 'list', key: ['id'], withPersonal },
  { name: 'helpdesk.inboxes', unit: 'list', key: ['id'], withPersonal },
  { name: 'helpdesk.labels', unit: 'list', key: ['id'], withPersonal },

  { ...ofTicket, name: 'analytics.ticket_metrics', key: ['ticket_id'] },
  { ...ofTicket, name: 'analytics.reply_turns', key: ['ticket_id', 'turn'] },
  { ...ofTicket, name: 'analytics.ticket_state_intervals', key: ['ticket_id', 'valid_from'] },
  { ...ofTicket, name: 'analytics.fact_tickets', byMonth, account: 'account_key', key: ['ticket_key'] },
  { ...ofTicket, name: 'analytics.fact_messages', byMonth, account: 'account_key', key: ['message_key'] },
  { ...ofTicket, name: 'analytics.fact_turns', account: 'account_key', key: ['turn_key'] },
  { ...ofTicket, name: 'analytics.fact_ticket_labels', account: 'account_key', key: ['ticket_label_key'] },
  { ...ofCustomer, name: 'analytics.dim_customer', account: 'account_key', key: ['customer_key'] },
  { name: 'analytics.dim_inbox', unit: 'list', account: 'account_key', key: ['inbox_key'] },
  { name: 'analytics.dim_label', unit: 'list', account: 'account_key', key: ['label_key'] },
  { name: 'analytics.dim_user', unit: 'list', account: 'account_key', key: ['user_key'] },
  { name: 'analytics.inbox_zones', unit: 'list', key: ['inbox_id'] },
  { name: 'analytics.service_targets', unit: 'status', key: ['inbox_id', 'label_id', 'metric'] },
];
