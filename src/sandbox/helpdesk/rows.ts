/**
 * A ticket and a customer as the world keeps them: their record, what is never shown of them, and the orders in which
 * lists show them. Every order is total: only a row and itself compare as equal.
 */
import type { Customer, Message, Ticket } from './records.ts';

export interface WorldTicket extends Ticket {
  messages: Message[];
  /** Counts every change of `updated_at` in the world: the order within one second. */
  touched: number;
}

export interface WorldCustomer extends Customer {
  /** Real, but never shown: the interface can only filter and sort by it. */
  created_at: string;
  seq: number;
}

const byText = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);
export const byUpdate = (a: WorldTicket, b: WorldTicket) => byText(a.updated_at, b.updated_at) || a.touched - b.touched;
/** Users in the order of their ids, unassigned tickets behind them; the latest update of each user first. */
export function byUserThenLatest(a: WorldTicket, b: WorldTicket): number {
  if (a.user_id === b.user_id) return byUpdate(b, a);
  if (a.user_id === null) return 1;
  if (b.user_id === null) return -1;
  return byText(a.user_id, b.user_id);
}

export const byCreation = (a: WorldTicket, b: WorldTicket) => byText(a.created_at, b.created_at) || a.number - b.number;
export const byArrival = (a: WorldCustomer, b: WorldCustomer) => byText(a.created_at, b.created_at) || a.seq - b.seq;
