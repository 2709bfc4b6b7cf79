/** The tables of the help desk in the lake: those of its records, and tables derived from them. */
import type { LakeTable } from '../../lake/table.ts';
import { withMasked } from '../record/lake.ts';
import type { AnyRecord } from '../record/record.ts';
import { tables } from './records.ts';

type Place = Pick<LakeTable, 'unit' | 'id' | 'byMonth'>;

/** Long tables have files for each month. An export reads other tables whole, for each account. */
const byMonth = true;
const ofTicket = { unit: 'ticket', id: (t: string) => `${t}ticket_id` } as const;
const ofCustomer = { unit: 'customer', id: (t: string) => `${t}customer_id` } as const;
const list = { unit: 'list' } as const;
const own = { id: (t: string) => `${t}id` } as const;

const placeOf: Readonly<Record<string, Place>> = {
  ...{ tickets: { ...ofTicket, ...own, byMonth }, messages: { ...ofTicket, byMonth }, attachments: ofTicket },
  ...{ customers: { ...ofCustomer, ...own }, contacts: ofCustomer },
};

const twice = (name: string, place: Omit<LakeTable, 'name'>, record?: AnyRecord) =>
  withMasked(`safe.${name}`, `helpdesk.${name}`, place, record);

/** Short lists contain no erasable data. */
const ofRecords = tables.flatMap(({ record }) => {
  const place = placeOf[record.name];
  return twice(record.name, { ...(place ?? list), key: ['id'] }, place && record);
});

export const lakeTables: readonly LakeTable[] = [
  ...ofRecords,
  ...twice('ticket_labels', { ...ofTicket, key: ['ticket_id', 'label_id'] }),
  ...twice('ticket_history', { ...ofTicket, key: ['ticket_id', 'valid_from'] }),

  { ...ofTicket, name: 'analytics.ticket_metrics', key: ['ticket_id'] },
  { ...ofTicket, name: 'analytics.reply_turns', key: ['ticket_id', 'turn'] },
  { ...ofTicket, name: 'analytics.ticket_state_intervals', key: ['ticket_id', 'valid_from'] },
  { ...ofTicket, name: 'analytics.fact_tickets', byMonth, account: 'account_key', key: ['ticket_key'] },
  { ...ofTicket, name: 'analytics.fact_messages', byMonth, account: 'account_key', key: ['message_key'] },
  { ...ofTicket, name: 'analytics.fact_turns', account: 'account_key', key: ['turn_key'] },
  { ...ofTicket, name: 'analytics.fact_ticket_events', account: 'account_key', key: ['event_key'] },
  { ...ofTicket, name: 'analytics.fact_ticket_labels', account: 'account_key', key: ['ticket_label_key'] },
  { ...ofCustomer, name: 'analytics.dim_customer', account: 'account_key', key: ['customer_key'] },
  { ...list, name: 'analytics.dim_inbox', account: 'account_key', key: ['inbox_key'] },
  { ...list, name: 'analytics.dim_label', account: 'account_key', key: ['label_key'] },
  { ...list, name: 'analytics.dim_user', account: 'account_key', key: ['user_key'] },
  { ...list, name: 'analytics.inbox_zones', key: ['inbox_id'] },
  { name: 'analytics.service_targets', unit: 'status', key: ['inbox_id', 'label_id', 'metric', 'valid_to'] },
];
