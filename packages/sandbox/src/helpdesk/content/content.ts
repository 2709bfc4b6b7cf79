/**
 * Random content: customers, contacts, tickets, replies and notes, for the history (history.ts) and for later changes
 * (changes.ts). The functions read no clock and change no world.
 */

import { between, hexNumber, makeRng, pick, type Rng, weighted } from '../../random.ts';
import { type Language, pickLanguage } from '../../texts/languages.ts';
import * as text from '../../texts/letters.ts';
import { agreeing, inLatin } from '../../texts/names.ts';
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
} from '../records.ts';
import type { NewNote, NewReply } from '../world/conversation.ts';
import type { NewTicket } from '../world/tickets.ts';
import type { World } from '../world/world.ts';

/** Records to choose from, as arrays, with the seed and the id generator of the world. */
export interface Cast {
  seed: number;
  users: readonly User[];
  labels: readonly Named[];
  inboxes: readonly Named[];
  newId(): string;
}

export function castOf(world: World): Cast {
  return {
    seed: world.seed,
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

const HABITS = [
  'Orders for a school, pays by invoice.',
  'Collects first editions.',
  'Prefers to be called.',
  'Runs a reading circle of twelve.',
  'Moved lately; check the address.',
  'Reads large print only.',
  'Was at the opening of the shop.',
];
const MATTERS = [
  'Asks about a late parcel; the carrier was called.',
  'Wants the money back for a damaged copy.',
  'Needs an invoice in another name.',
  'A download that does not open; the publisher knows.',
  'Looks for a book that is out of print.',
  'Was charged twice; one was a reservation.',
  'Orders for a whole class.',
];
const COPIES = [
  'accounts@partner.example',
  'library@school.example',
  'office@reading.example',
  'orders@wholesale.example',
];
const DOMAINS = [
  ...['mail.example', 'post.example', 'inbox.example', 'letters.example', 'fastpost.example', 'webmail.example'],
  ...['paperplane.example', 'home-office.example', 'uni.example', 'quickmail.example', 'nordpost.example'],
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

/** The language of a customer, derived from the id. */
function languageOf(customer: Pick<Customer, 'id'>): Language {
  return pickLanguage(makeRng(Number.parseInt(customer.id.slice(0, 8), 16) || 0));
}

type Naming = Pick<Cast, 'seed' | 'newId'>;

/** The customer whose name a contact contains. */
type Bearer = Pick<Customer, 'id' | 'first_name' | 'last_name'>;

export function makeCustomer(rng: Rng, cast: Naming): Customer {
  const customer = makeNames(rng, cast.newId());
  return {
    ...customer,
    summary: rng() < 0.08 ? pick(rng, HABITS) : null,
    contacts: makeContacts(rng, cast, customer),
  };
}

/** A name in the language of the customer with this id. */
export function makeNames(rng: Rng, id: string): Bearer {
  const language = languageOf({ id });
  const chance = rng();
  const first_name = chance < 0.03 ? null : chance < 0.05 ? '' : pick(rng, language.firstNames);
  return { id, first_name, last_name: chance < 0.08 ? null : agreeing(first_name, pick(rng, language.lastNames)) };
}

function makeContacts(rng: Rng, cast: Naming, customer: Bearer): Contact[] {
  const contacts: Contact[] = [];
  if (rng() < 0.92) contacts.push(makeContact(rng, cast, 'email', customer));
  if (rng() < 0.3) contacts.push(makeContact(rng, cast, 'phone', customer));
  if (rng() < 0.08) contacts.push(makeContact(rng, cast, 'twitter', customer));
  return contacts;
}

/**
 * A contact is "a unique identifier of a customer" (help desk 2). Contacts of a world differ because each encodes the number
 * of its id (phone numbers repeat after 400 million). Names have no digits, so the digits of an address are the number.
 */
export function makeContact(rng: Rng, cast: Naming, type: ContactType, customer: Bearer): Contact {
  const id = cast.newId();
  const number = hexNumber(cast.seed, id);
  if (number === undefined) throw new Error(`${id} is no id of this world`);
  const value = { email: addressFor, phone: phoneFor, twitter: screenNameFor }[type](rng, number, customer);
  return { id, type, value };
}

function addressFor(rng: Rng, number: number, { first_name, last_name }: Bearer): string {
  const first = inLatin(first_name) || 'reader';
  const last = inLatin(last_name) || pick(rng, ['books', 'post', 'home']);
  const mixed = shuffled(number);
  if (rng() < 0.1) return `${first}@${last}${mixed}.example`;
  const name = pick(rng, [
    `${first}.${last}`,
    `${first}.${last}`,
    `${first[0]}.${last}`,
    `${last}.${first}`,
    first + last,
  ]);
  const digits = Math.floor(mixed / DOMAINS.length);
  return `${name}${pick(rng, ['', '.', '_'])}${digits}@${DOMAINS[mixed % DOMAINS.length]}`;
}

/** Shuffles each block of 10,000 numbers, so that successive customers get unrelated numbers. */
function shuffled(number: number): number {
  const last = number % 10_000;
  return number - last + ((last * 3571) % 10_000);
}

function phoneFor(_: Rng, number: number, customer: Bearer): string {
  const { dialling } = languageOf(customer);
  const scattered = scatter(number % (dialling.length * 1e8), dialling.length * 1e8);
  return `${dialling[scattered % dialling.length]}${String(Math.floor(scattered / dialling.length)).padStart(8, '0')}`;
}

/** A bijection of the numbers below `size`. Applied twice: once would leave equal distances between neighbours. */
function scatter(number: number, size: number): number {
  const once = (number * 4_194_301) % size;
  const turned = (once % 20_000) * (size / 20_000) + Math.floor(once / 20_000);
  return (turned * 4_194_301) % size;
}

/** At most 15 characters; the number follows the only `_`. */
function screenNameFor(rng: Rng, number: number, { first_name, last_name }: Bearer): string {
  const name = (rng() < 0.5 ? inLatin(first_name) : inLatin(last_name)) || 'reads';
  return `${name.slice(0, 7)}_${shuffled(number).toString(36)}`;
}

/** A ticket without times, state and messages. */
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
    reply_cc: rng() < 0.1 ? pick(rng, COPIES) : null,
    summary: rng() < 0.15 ? pick(rng, MATTERS) : null,
  };
}

/** Social channels use the last inbox; other types any inbox, mostly the first ones. */
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

/** Sender address of the shop, named after the ticket's inbox. */
export function shopAddress(inboxes: Iterable<Named>, ticket: TicketOf): string {
  const name = [...inboxes].find(({ id }) => id === ticket.inbox_id)?.name ?? 'support';
  return `${name.toLowerCase().replaceAll(/[^a-z]+/g, '-')}@harbourlane.example`;
}

export function makeInbound(
  rng: Rng,
  cast: Cast,
  ticket: TicketOf,
  customer: Customer,
  answered: text.Answered | null,
  files = someFiles(rng),
): NewReply {
  const name = `${customer.first_name ?? ''} ${customer.last_name ?? ''}`.trim();
  return {
    ...text.letter(rng, languageOf(customer), 'in', name, answered),
    direction: 'in',
    from_name: name === '' ? null : name,
    from: addressOf(customer, ticket.type),
    to: shopAddress(cast.inboxes, ticket),
    more_body: text.signature(rng, languageOf(customer)),
    attachments: makeAttachments(rng, cast, files),
  };
}

/**
 * A reply of the shop, every tenth an automatic one. It always has a user: only replies of customers have none (help
 * desk 2).
 */
export function makeOutbound(
  rng: Rng,
  cast: Cast,
  ticket: TicketOf,
  customer: Customer,
  answered: text.Answered | null,
  files = someFiles(rng),
): NewReply {
  const automatic = cast.users.length === 0 || rng() < 0.1;
  const user = automatic ? nightDesk(cast) : pick(rng, cast.users);
  const name = automatic ? 'Harbour Lane Books' : `${user?.first_name ?? ''} ${user?.last_name ?? ''}`.trim();
  const written = automatic
    ? { body: text.automaticText(rng), htmlized: false }
    : text.letter(rng, languageOf(customer), 'out', name, answered);
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

function nightDesk({ users }: Cast): User | undefined {
  return users.find(user => user.first_name === 'Night') ?? users.at(-1);
}

export function makeNote(rng: Rng, cast: Cast): NewNote {
  const user = cast.users.length === 0 ? null : pick(rng, cast.users);
  return { body: text.noteText(rng), user_id: user?.id ?? null, from_name: user?.first_name ?? null };
}

/** Random number of attachments of a reply: mostly 0. */
export function someFiles(rng: Rng): number {
  return rng() < 0.06 ? between(rng, 1, 3) : 0;
}

function makeAttachments(rng: Rng, cast: Cast, count: number): Attachment[] {
  return Array.from({ length: count }, () => {
    const [name, type] = pick(rng, FILES);
    return { id: cast.newId(), name, size: Math.floor(2 ** (rng() * 24)), type };
  });
}
