/** The streams, in the order of a full sync: people first, then the lists, then what is asked for one by one. */

import { shelves } from './books/shelves.ts';
import { volumes } from './books/volumes.ts';
import { customers } from './helpdesk/customers.ts';
import { messages } from './helpdesk/messages/messages.ts';
import { tickets } from './helpdesk/tickets.ts';
import { users } from './helpdesk/users.ts';
import type { ListStream, Row, Stream } from './source.ts';

export const streams: readonly Stream[] = [users, customers, tickets, messages, shelves, volumes];

export const streamNames = streams.map(stream => stream.name);

/** Throws on a name that is none of a list stream: the job of a newer version. */
export function listStream(name: string): ListStream<Row> {
  const stream = streams.find(one => one.name === name);
  if (stream?.kind === 'list') return stream;
  throw new Error(`this version of Shelfdesk knows no list stream ${name}`);
}
