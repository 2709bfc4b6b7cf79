/**
 * The generated history of a help desk, a pure function of its seed: ticket n, customer n and the messages of a ticket each
 * derive from one number. A world of a million tickets therefore stores no messages of its history. Later changes (a new
 * name, another inbox) do not affect the generated history. Each ticket reserves a block of id numbers for itself and
 * its messages, so an id reveals its ticket.
 */

import { between, hexId, hexNumber, makeRng, mix32, pick, type Rng, weighted } from '../../random.ts';
import { spoil, spoilEdge } from '../../texts/naughty.ts';
import type { Contact, Customer, Message, Ticket, TicketState } from '../records.ts';
import { stamp } from '../records.ts';
import { wholeNote, wholeReply } from '../world/conversation.ts';
import { type Memories, WorldCustomer, WorldTicket } from '../world/rows.ts';
import {
  type Cast,
  type MadeTicket,
  makeCustomer,
  makeInbound,
  makeNote,
  makeOutbound,
  makeTicket,
  someFiles,
} from './content.ts';

interface HistoryOptions {
  seed: number;
  /** First of the `idsOf(…)` reserved id numbers. */
  firstId: number;
  /** Creation times in seconds since 1970, ascending. The first customer precedes all tickets. */
  created: { tickets: Float64Array; customers: Float64Array };
  /** End of the history, in seconds since 1970. */
  latest: number;
  /** Share of tickets and of customers with hostile text. */
  naughty: number;
  cast: Omit<Cast, 'newId'>;
}

/** A ticket with up to 12 messages of up to 3 attachments; a customer with up to 3 contacts. */
const IDS_OF_TICKET = 64;
const IDS_OF_CUSTOMER = 4;
const MOST_MESSAGES = 12;
const FIRST_NUMBER = 1001;

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Number of id numbers that a history reserves. */
export function idsOf(tickets: number, customers: number): number {
  return tickets * IDS_OF_TICKET + customers * IDS_OF_CUSTOMER;
}

interface Outline {
  /** Seconds since 1970. */
  at: number;
  kind: 'in' | 'out' | 'note';
  /** Number of attachments. */
  files: number;
}

interface Story {
  row: MadeTicket;
  customer: Customer;
  /** At least one message. */
  outline: Outline[];
  updated: number;
}

export class History implements Memories {
  readonly tickets: number;
  readonly customers: number;
  readonly #options: HistoryOptions;
  readonly #firstOfCustomers: number;
  /** Number of messages and attachments of each ticket, known without generating the messages. */
  readonly #messages: Uint8Array;
  readonly #files: Uint8Array;
  /** Shared label lists: equal lists are one array, which saves memory. */
  readonly #labels = new Map<string, string[]>();

  constructor(options: HistoryOptions) {
    this.#options = options;
    this.tickets = options.created.tickets.length;
    this.customers = options.created.customers.length;
    this.#messages = new Uint8Array(this.tickets);
    this.#files = new Uint8Array(this.tickets);
    this.#firstOfCustomers = options.firstId + this.tickets * IDS_OF_TICKET;
  }

  customer(n: number): WorldCustomer {
    const made = this.#customer(n);
    const created_at = stamp(this.#options.created.customers[n]! * 1000);
    return new WorldCustomer({ ...made, ...this.#spoiledName(n, made), created_at }, n + 1, this);
  }

  ticket(n: number): WorldTicket {
    const { row, outline, updated } = this.#story(n);
    this.#messages[n] = outline.length;
    this.#files[n] = outline.reduce((sum, { files }) => sum + files, 0);
    const rng = this.#chance('fate', n);
    const quiet = this.#options.latest - updated;
    const ticket: Ticket = {
      ...(row as Ticket),
      number: FIRST_NUMBER + n,
      ...makeState(rng, quiet, this.#options.latest),
      updated_at: stamp(updated * 1000),
      created_at: stamp(this.#options.created.tickets[n]! * 1000),
    };
    if (this.#isNaughty('subject', n)) ticket.subject = spoil(this.#chance('naughty', n), ticket.subject);
    return new WorldTicket(ticket, n + 1, this);
  }

  messagesOf({ number }: Pick<Ticket, 'number'>): Message[] {
    const n = number - FIRST_NUMBER;
    const story = this.#story(n);
    const rng = this.#chance('talk', n);
    const cast = this.#cast(this.#options.firstId + n * IDS_OF_TICKET + 1);
    const messages: Message[] = [];
    for (const said of story.outline) messages.push(makeMessage(rng, cast, story, said, messages.at(-1)));
    if (this.#isNaughty('talk', n)) spoilOne(this.#chance('naughty', n), messages);
    return messages;
  }

  messageCountOf({ number }: Pick<Ticket, 'number'>): number {
    return this.#messages[number - FIRST_NUMBER]!;
  }

  attachmentCountOf({ number }: Pick<Ticket, 'number'>): number {
    return this.#files[number - FIRST_NUMBER]!;
  }

  contactsOf({ seq }: Pick<WorldCustomer, 'seq'>): readonly Contact[] {
    const n = seq - 1;
    const { contacts } = this.#customer(n);
    const [first, ...others] = contacts;
    const rng = this.#chance('contact', n);
    if (first === undefined || rng() >= this.#options.naughty) return contacts;
    return [{ ...first, value: spoilEdge(rng, first.value) }, ...others];
  }

  /** Id of the ticket that owns the record with this id; undefined if no ticket of the history does. */
  ticketOf(id: string): string | undefined {
    const { seed, firstId } = this.#options;
    const number = hexNumber(seed, id);
    if (number === undefined || number < firstId || number >= this.#firstOfCustomers) return undefined;
    return hexId(seed, number - ((number - firstId) % IDS_OF_TICKET));
  }

  /** The customer without hostile text, as messages address them. */
  #customer(n: number): Customer {
    return makeCustomer(this.#chance('customer', n), this.#cast(this.#firstOfCustomers + n * IDS_OF_CUSTOMER));
  }

  #spoiledName(n: number, { first_name, last_name }: Customer): Pick<Customer, 'first_name' | 'last_name'> {
    const rng = this.#chance('name', n);
    if (rng() >= this.#options.naughty) return { first_name, last_name };
    return rng() < 0.5
      ? { first_name: spoil(rng, first_name), last_name }
      : { first_name, last_name: spoil(rng, last_name) };
  }

  /** The outline of a ticket: when who writes what kind of message. */
  #story(n: number): Story {
    const { created, latest, firstId } = this.#options;
    const rng = this.#chance('story', n);
    const begun = created.tickets[n]!;
    const customer = this.#customer(between(rng, 0, this.#customersUntil(begun) - 1));
    const row = makeTicket(rng, this.#cast(firstId + n * IDS_OF_TICKET), customer);
    row.label_ids = this.#sameList(row.label_ids ?? []);
    const outline: Outline[] = [];
    let at = begun;
    for (let left = between(rng, 1, rng() < 0.1 ? MOST_MESSAGES : 5); left > 0 && at <= latest; left--) {
      const kind = nextKind(rng, row, outline.at(-1)?.kind);
      outline.push({ at, kind, files: kind === 'note' ? 0 : someFiles(rng) });
      at += Math.floor(-Math.log(1 - rng()) * 9 * HOUR) + MINUTE;
    }
    const after = rng() < 0.4 ? Math.floor(rng() * 20 * DAY) : 0;
    return { row, customer, outline, updated: Math.min(latest, outline.at(-1)!.at + after) };
  }

  #sameList(labels: string[]): string[] {
    const key = labels.join();
    const known = this.#labels.get(key);
    if (known === undefined && labels.length < 3) this.#labels.set(key, labels);
    return known ?? labels;
  }

  /** Number of customers at that second, at least one. */
  #customersUntil(second: number): number {
    const { customers } = this.#options.created;
    let low = 1;
    let high = customers.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (customers[middle]! > second) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** Half of the naughty tickets have hostile text in the subject, half in a message. */
  #isNaughty(where: 'subject' | 'talk', n: number): boolean {
    const rng = this.#chance('share', n);
    return rng() < this.#options.naughty && rng() < 0.5 === (where === 'subject');
  }

  #cast(nextId: number): Cast {
    let next = nextId;
    return { ...this.#options.cast, newId: () => hexId(this.#options.seed, next++) };
  }

  /** An independent random source for each aspect of record n. */
  #chance(what: keyof typeof STREAMS, n: number): Rng {
    return makeRng(mix32(mix32(this.#options.seed ^ STREAMS[what]) + n));
  }
}

const STREAMS = { customer: 1, name: 2, contact: 3, story: 4, fate: 5, talk: 6, share: 7, naughty: 8 } as const;

/** The first message is the customer's, except on a call, which is noted; then both sides and notes take turns. */
function nextKind(rng: Rng, { type }: MadeTicket, before: Outline['kind'] | undefined): Outline['kind'] {
  if (before === undefined) return type === 'call' || type === 'phone' ? 'note' : 'in';
  if (rng() < 0.15) return 'note';
  return before === 'out' || rng() < 0.2 ? 'in' : 'out';
}

function makeMessage(rng: Rng, cast: Cast, { row, customer }: Story, said: Outline, before?: Message): Message {
  const id = cast.newId();
  const created_at = stamp(said.at * 1000);
  if (said.kind === 'note') return wholeNote(makeNote(rng, cast), id, created_at);
  const answered = before?.type === 'reply' ? before : null;
  const make = said.kind === 'in' ? makeInbound : makeOutbound;
  return wholeReply(make(rng, cast, row, customer, answered, said.files), id, created_at);
}

/** In a body, or sometimes in the name of its author. */
function spoilOne(rng: Rng, messages: readonly Message[]): void {
  const message = pick(rng, messages);
  if (rng() < 0.8) message.body = spoil(rng, message.body);
  else message.from_name = spoil(rng, message.from_name);
}

function makeState(rng: Rng, quiet: number, latest: number): Pick<Ticket, 'state' | 'snoozed_until'> {
  const state = weighted<TicketState>(rng, quiet > 60 * DAY ? LONG_AGO : LATELY);
  return {
    state,
    snoozed_until: state === 'snoozed' ? stamp((latest + between(rng, 1, 14 * 24) * HOUR) * 1000) : null,
  };
}

const LONG_AGO = [
  ['archived', 75],
  ['closed', 22],
  ['open', 3],
] as const;
const LATELY = [
  ['archived', 2],
  ['closed', 50],
  ['open', 28],
  ['hold', 10],
  ['snoozed', 10],
] as const;
