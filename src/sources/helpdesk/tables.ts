/** The tables of the help desk's records. */
import type { SourceTable } from '../source.ts';
import { attachment, contact, customer, inbox, label, message, ticket, user } from './records.ts';
import { rowsOf } from './rows-of.ts';

export const tables: readonly SourceTable[] = [
  ...[user, inbox, label, customer, contact, ticket, message, attachment],
].map(record => ({ name: `helpdesk.${record.name}`, rows: rowsOf(record.name), record }));
