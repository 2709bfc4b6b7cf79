/**
 * The single things of a believable world: a customer, a ticket, a reply, a note. Used for the history (generate.ts)
 * and for what happens later (changes.ts). Nothing here knows the time or changes the world.
 */
import { type Language, pickLanguage } from '../languages.ts';
import { between, makeRng, pick, type Rng, weighted } from '../random.ts';
import * as text from '../text.ts';
import type { NewNote, NewReply } from './conversation.ts';
import {
  type Attachment,
  type Contact,
  type ContactType,
  type Customer,
  type Named,
  TICKET_TYPES,
  type Ticket,
  type TicketType,
  type User,
} from './records.ts';
import type { NewTicket } from './tickets.ts';
import type { World } from './world.ts';

/** What a world offers to choose from (arrays, since maps cannot be picked from), and its next id. */
export interface Cast {
  users: readonly User[];
  labels: readonly Named[];
  inboxes: readonly Named[];
  newId(): string;
}

export function castOf(world: World): Cast {
  return {
    users: [...world.users.values()],
    labels: [...world.labels.values()],
    inboxes: [...world.inboxes.values()],
    newId: () => world.newId(),
  };
}

const FILES: readonly (readonly [name: string, type: string])[] = [
  ['invoice.pdf', 'application/pdf'],
  ['IMG_2047.jpeg', 'image/jpeg'],
  ['Büchersendung (1).png', 'image/png'],
  ['写真.heic', 'image/heic'],
  ['order lines.csv', 'text/csv'],
  ['winmail.dat', 'application/ms-tnef'],
];

const FREQUENT: Partial<Record<TicketType, number>> = { email: 70, chat: 8, web: 6, whatsapp: 4, phone: 3 };
const TYPES = TICKET_TYPES.map(type => [type, FREQUENT[type] ?? 1.5] as const);

const CHANNEL: Partial<Record<TicketType, ContactType>> = {
  phone: 'phone',
  sms: 'phone',
  whatsapp: 'phone',
  call: 'phone',
  twitter: 'twitter',
  twitter_dm: 'twitter',
};

/** A customer writes in one language always: its id says which. */
function languageOf(customer: Pick<Customer, 'id'>): Language {
  return pickLanguage(makeRng(Number.parseInt(customer.id.slice(0, 8), 16) || 0));
}

export function makeCustomer(rng: Rng, cast: Pick<Cast, 'newId'>): Customer {
  const id = cast.newId();
  const language = languageOf({ id });
  const chance = rng();
  return {
    id,
    first_name: chance < 0.03 ? null : chance < 0.05 ? '' : pick(rng, language.firstNames),
    last_name: chance < 0.08 ? null : pick(rng, language.lastNames),
    summary: rng() < 0.08 ? 'Orders for a school, pays by invoice.' : null,
    contacts: makeContacts(rng, cast, id),
  };
}

function makeContacts(rng: Rng, cast: Pick<Cast, 'newId'>, customerId: string): Contact[] {
  const name = customerId.slice(0, 6);
  const contacts: Contact[] = [];
  if (rng() < 0.92) contacts.push({ id: cast.newId(), type: 'email', value: `reader.${name}@mail.example` });
  if (rng() < 0.3) contacts.push(makeContact(rng, cast, 'phone'));
  if (rng() < 0.08) contacts.push({ id: cast.newId(), type: 'twitter', value: `reads_${name}` });
  return contacts;
}

export function makeContact(rng: Rng, cast: Pick<Cast, 'newId'>, type: ContactType): Contact {
  const id = cast.newId();
  const values = {
    email: `second.${id.slice(0, 6)}@post.example`,
    phone: `+4420794${between(rng, 60_000, 69_999)}`,
    twitter: `also_${id.slice(0, 6)}`,
  };
  return { id, type, value: values[type] };
}

/** What there is of a ticket before there are times, a state and messages. */
export type MadeTicket = NewTicket & Pick<Ticket, 'id' | 'type'>;

export function makeTicket(rng: Rng, cast: Cast, customer: Customer): MadeTicket {
  const type = weighted(rng, TYPES);
  const fate = rng();
  const spam = fate < 0.03;
  return {
    id: cast.newId(),
    customer_id: customer.id,
    user_id: rng() < 0.75 && cast.users.length > 0 ? pick(rng, cast.users).id : null,
    ...(cast.inboxes.length > 0 ? { inbox_id: inboxFor(rng, cast, type).id } : {}),
    label_ids: makeLabels(rng, cast),
    subject: spam ? text.spamSubject(rng) : text.subject(rng, languageOf(customer)),
    type,
    spam,
    trash: !spam && fate < 0.055,
    reply_to: addressOf(customer, type),
    reply_cc: rng() < 0.1 ? 'accounts@partner.example' : null,
    summary: rng() < 0.15 ? 'Asks about a late parcel; the carrier was called.' : null,
  };
}

/** Social channels come in at the last inbox, all else anywhere, mostly at the first ones. */
function inboxFor(rng: Rng, { inboxes }: Cast, type: TicketType): Named {
  if (CHANNEL[type] === 'twitter' || type === 'instagram_dm' || type === 'fb_messenger') return inboxes.at(-1)!;
  return inboxes[Math.floor(rng() ** 2 * inboxes.length)]!;
}

function makeLabels(rng: Rng, { labels }: Cast): string[] {
  if (labels.length === 0) return [];
  const count = weighted(rng, [
    [0, 35],
    [1, 40],
    [2, 18],
    [4, 7],
  ]);
  return [...new Set(Array.from({ length: count }, () => pick(rng, labels).id))];
}

function addressOf(customer: Customer, type: TicketType): string | null {
  const channel = CHANNEL[type] ?? 'email';
  const contact = customer.contacts.find(contact => contact.type === channel) ?? customer.contacts[0];
  return contact?.value ?? null;
}

type TicketOf = Pick<Ticket, 'type'> & Partial<Pick<Ticket, 'inbox_id'>>;

/** What the shop's address is called in replies: named after the inbox. */
export function shopAddress(inboxes: Iterable<Named>, ticket: TicketOf): string {
  const name = [...inboxes].find(({ id }) => id === ticket.inbox_id)?.name ?? 'support';
  return `${name.toLowerCase().replaceAll(/[^a-z]+/g, '-')}@harbourlane.example`;
}

export function makeInbound(
  rng: Rng,
  cast: Cast,
  ticket: TicketOf,
  customer: Customer,
  answered: text.Written | null,
  files = someFiles(rng),
): NewReply {
  const name = `${customer.first_name ?? ''} ${customer.last_name ?? ''}`.trim();
  return {
    ...text.letter(rng, languageOf(customer), 'in', name, answered),
    direction: 'in',
    from_name: name === '' ? null : name,
    from: addressOf(customer, ticket.type),
    to: shopAddress(cast.inboxes, ticket),
    more_body: text.signature(rng),
    attachments: makeAttachments(rng, cast, files),
  };
}

/** Somebody of the shop answers, or, one time in ten, a machine: then nobody is its user. */
export function makeOutbound(
  rng: Rng,
  cast: Cast,
  ticket: TicketOf,
  customer: Customer,
  answered: text.Written | null,
  files = someFiles(rng),
): NewReply {
  const user = cast.users.length === 0 || rng() < 0.1 ? null : pick(rng, cast.users);
  const name = user ? `${user.first_name ?? ''} ${user.last_name ?? ''}`.trim() : 'Harbour Lane Books';
  const written = user
    ? text.letter(rng, languageOf(customer), 'out', name, answered)
    : { body: text.automaticText(rng), htmlized: false };
  return {
    ...written,
    direction: 'out',
    user_id: user?.id ?? null,
    from_name: name,
    from: shopAddress(cast.inboxes, ticket),
    to: addressOf(customer, ticket.type),
    more_body: null,
    attachments: makeAttachments(rng, cast, files),
  };
}

export function makeNote(rng: Rng, cast: Cast): NewNote {
  const user = cast.users.length === 0 ? null : pick(rng, cast.users);
  return { body: text.noteText(rng), user_id: user?.id ?? null, from_name: user?.first_name ?? null };
}

/** How many attachments a reply has: mostly none. */
export function someFiles(rng: Rng): number {
  return rng() < 0.06 ? between(rng, 1, 3) : 0;
}

function makeAttachments(rng: Rng, cast: Cast, count: number): Attachment[] {
  return Array.from({ length: count }, () => {
    const [name, type] = pick(rng, FILES);
    return { id: cast.newId(), name, size: Math.floor(2 ** (rng() * 24)), type };
  });
}
