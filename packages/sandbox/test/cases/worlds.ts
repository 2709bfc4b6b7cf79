/**
 * The two small worlds that every case begins with, with ids that a case can name. Tickets t1 to t12 were created in
 * this order, a day apart, and updated in the opposite one, so that no order can be mistaken for another.
 */

import type { BooksWorldOptions } from '../../src/books/world.ts';
import type { Reply, Ticket, TicketState, TicketType } from '../../src/helpdesk/records.ts';
import type { WorldOptions } from '../../src/helpdesk/world/world.ts';
import { emptyBooks } from '../books-in-process.ts';
import { emptyWorld } from '../in-process.ts';

const dayOf = (day: number) => `2024-04-${String(day).padStart(2, '0')}T08:00:00Z`;

interface Row extends Partial<Ticket> {
  type: TicketType;
  state: TicketState;
}
/** Of t4 to t12; t1 to t3 are written out below. */
const ROWS: readonly Row[] = [
  { type: 'twitter', state: 'open', spam: true },
  { type: 'web', state: 'open', trash: true },
  { type: 'whatsapp', state: 'snoozed', snoozed_until: '2024-06-01T00:00:00Z' },
  { type: 'sms', state: 'archived' },
  { type: 'twitter_dm', state: 'open' },
  { type: 'fb_messenger', state: 'open' },
  { type: 'instagram_dm', state: 'open' },
  { type: 'call', state: 'open', customer_id: 'c3', subject: null },
  { type: 'email', state: 'open', user_id: 'u3', subject: '' },
];

const REPLY_IN: Reply = {
  id: 'm1',
  from_name: 'Nina Nord',
  body: 'Where is my order?',
  htmlized: false,
  attachments: [],
  user_id: null,
  type: 'reply',
  created_at: '2024-04-01T08:00:00Z',
  direction: 'in',
  from: 'nina@example.com',
  to: 'support@desk.example',
  more_body: null,
};

export const T1: Ticket = {
  id: 't1',
  number: 101,
  customer_id: 'c1',
  user_id: 'u1',
  inbox_id: 'i1',
  label_ids: ['l1', 'l2'],
  state: 'open',
  snoozed_until: null,
  subject: 'An order that did not come',
  type: 'email',
  spam: false,
  trash: false,
  updated_at: '2024-04-24T08:00:00Z',
  created_at: '2024-04-01T08:00:00Z',
  reply_to: 'nina@example.com',
  reply_cc: 'nils@example.com',
  summary: 'She asks where it is.',
};

export const MESSAGES = [
  REPLY_IN,
  {
    ...REPLY_IN,
    id: 'm2',
    from_name: 'Ada Lovelace',
    body: '<p>On its way.</p>',
    htmlized: true,
    attachments: [{ id: 'a1', name: 'label.pdf', size: 1234, type: 'application/pdf' }],
    user_id: 'u1',
    created_at: '2024-04-01T09:00:00Z',
    direction: 'out',
    from: 'support@desk.example',
    to: 'nina@example.com',
    more_body: 'Ada, Support',
  } as Reply,
  {
    id: 'm3',
    from_name: 'Ada Lovelace',
    body: 'Ask the carrier.',
    htmlized: false,
    attachments: [],
    user_id: 'u1',
    type: 'note' as const,
    created_at: '2024-04-01T10:00:00Z',
  },
];

export const USERS = [
  { id: 'u1', first_name: 'Ada', last_name: 'Lovelace', email: 'ada@desk.example' },
  { id: 'u2', first_name: 'Grace', last_name: 'Hopper', email: 'grace@desk.example' },
  { id: 'u3', first_name: null, last_name: '', email: 'third@desk.example' },
];

export const CUSTOMERS = [
  {
    id: 'c1',
    first_name: 'Nina',
    last_name: 'Nord',
    summary: 'A good customer.',
    contacts: [
      { id: 'k1', type: 'email' as const, value: 'nina@example.com' },
      { id: 'k2', type: 'twitter' as const, value: 'nina_t' },
    ],
  },
  {
    id: 'c2',
    first_name: 'Omar',
    last_name: '',
    summary: null,
    contacts: [{ id: 'k3', type: 'phone' as const, value: '+4930123456' }],
  },
  { id: 'c3', first_name: null, last_name: null, summary: null, contacts: [] },
];

export const LABELS = [
  { id: 'l1', name: 'billing' },
  { id: 'l2', name: 'urgent' },
  { id: 'l3', name: 'bug' },
];

/** What every case of the help desk begins with. */
export function deskOfCases(options: WorldOptions = {}) {
  const { clock, world } = emptyWorld(options);
  for (const user of USERS) world.addUser(user);
  for (const label of LABELS) world.addLabel(label);
  world.addInbox({ id: 'i1', name: 'Support' });
  world.addInbox({ id: 'i2', name: 'Sales' });
  CUSTOMERS.forEach((customer, i) => {
    world.customers.add({ ...structuredClone(customer), created_at: dayOf(i + 1) });
  });
  world.addTicket({ ...structuredClone(T1), messages: structuredClone(MESSAGES) });
  const common = { customer_id: 'c2', inbox_id: 'i2', user_id: null, label_ids: [] };
  const times = (day: number) => ({ created_at: dayOf(day), updated_at: dayOf(25 - day) });
  world.addTicket({ ...common, id: 't2', number: 102, type: 'phone', state: 'hold', ...times(2) });
  const third = { customer_id: 'c1', user_id: 'u2', inbox_id: 'i1', label_ids: ['l2'] };
  world.addTicket({ ...third, id: 't3', number: 103, type: 'chat', state: 'closed', ...times(3) });
  ROWS.forEach((row, i) => {
    world.addTicket({ ...common, id: `t${i + 4}`, number: 104 + i, user_id: 'u2', ...row, ...times(i + 4) });
  });
  return { clock, world };
}

/** The owner of public shelves. */
export const OWNER = '9007199254740993';

/** What every case of the book catalog begins with. */
export function booksOfCases(options: Partial<BooksWorldOptions> = {}) {
  const { clock, world } = emptyBooks(options);
  const info = {
    ...{ language: 'en', publishedDate: '1999-05', pageCount: 0, description: 'Of whales. '.repeat(60) },
    ...{ publisher: 'Saltmarsh Press', categories: ['Fiction / Sea Stories'] },
    industryIdentifiers: [{ type: 'ISBN_10', identifier: '155404295X' }],
  };
  world.addVolume({ id: 'v1', info: { ...info, title: 'The Whale', authors: ['Herman Melville'] } });
  world.addVolume({ id: 'v2', info: { title: 'Whale Songs', authors: ['Ada Lovelace', 'Grace Hopper'] } });
  world.addVolume({
    id: 'v3',
    info: { title: 'Prices of Tea' },
    saleInfo: {
      saleability: 'FOR_SALE',
      isEbook: true,
      listPrice: { amount: '1.334E7', currencyCode: 'IDR' },
      retailPrice: { amount: '24.99', currencyCode: 'IDR' },
    },
  });
  for (let i = 10; i < 60; i++) world.addVolume({ id: `v${i}`, info: { title: `Numbered ${i}` } });
  world.addUser(OWNER);
  world.createShelf(OWNER, { id: 1001, title: 'Of the sea', access: 'PUBLIC', volumes: ['v1', 'v2', 'v3'] });
  world.createShelf(OWNER, { id: 1002, title: 'Secret', access: 'PRIVATE', volumes: ['v1'] });
  world.createShelf(OWNER, { id: 1003, title: 'Nothing yet', access: 'PUBLIC' });
  world.addUser('88');
  for (const shelf of world.user('88').shelves.values()) shelf.access = 'PRIVATE';
  world.createShelf(world.me, { id: 1001, title: 'Mine', access: 'PRIVATE', volumes: ['v1', 'v2', 'v3'] });
  return { clock, world };
}
