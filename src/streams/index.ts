/** The streams, in the order of a full sync: people first, then the lists, then what is asked for one by one. */
import { customers } from './customers.ts';
import { messages } from './messages.ts';
import type { DetailStream, ListStream, Row } from './stream.ts';
import { tickets } from './tickets.ts';
import { users } from './users.ts';

export const streams: readonly (ListStream<Row> | DetailStream<Row, Row>)[] = [users, customers, tickets, messages];

export const streamNames = streams.map(stream => stream.name);
