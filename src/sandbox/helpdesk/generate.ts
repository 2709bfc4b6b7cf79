/**
 * A bookshop's help desk with years behind it, from a seed: who works there, who writes, when (busy mornings, quiet
 * weekends, a little more every year) and what became of it. The history ends minutes before the world's now. Tickets
 * come into the world in the order of their creation; a few bulk actions have put 60 to 150 of them into one second.
 */

import { between, makeRng, pick, type Rng, weighted } from '../random.ts';
import { busyness } from '../rhythm.ts';
import { naughtyText } from '../text.ts';
import { type Cast, castOf, makeCustomer, makeInbound, makeNote, makeOutbound, makeTicket } from './content.ts';
import { wholeNote, wholeReply } from './conversation.ts';
import { type Message, stamp, type TicketState, type TicketType } from './records.ts';
import type { WorldCustomer, WorldTicket } from './rows.ts';
import { type NewTicket, World, type WorldOptions } from './world.ts';

export interface GenerateOptions extends WorldOptions {
  /** Default 200. */
  tickets?: number;
  /** Default: about a third of the tickets. */
  customers?: number;
  /** The share of tickets with text that databases refuse; default 0. */
  naughty?: number;
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const HISTORY = 4 * 365 * DAY;

const LABELS =
  'delivery,refund,damaged,invoice,e-book,audiobook,gift card,book club,signed edition,pre-order,wholesale,school,' +
  'library,press,author event,website,password,address change,complaint,praise 💛,VIP,urgent,duplicate,follow up,Rückgabe';
const INBOXES = 'Support,Orders,Wholesale,Schools & Libraries,Events,Social';
const STAFF =
  "Ines Carvalho,Tom Ashby,Mina Sato,Oskar Lindqvist,Ruth O'Neill,Yusuf Demir,Chloé Dubois,Ravi Menon,Grace Okafor," +
  'Piotr Wójcik,Night Desk,Hannah';

export function generateWorld(options: GenerateOptions = {}): World {
  const world = new World(options);
  const rng = makeRng(world.seed);
  const latest = world.now() - 3 * MINUTE;
  const count = options.tickets ?? 200;
  addScenery(world);
  const customers = addCustomers(world, rng, options.customers ?? Math.ceil(count / 3), latest);
  addTickets(world, rng, count, customers, latest, options.naughty ?? 0);
  actInBulk(world, rng);
  // The first reader should not have to wait for what the load has left to sort.
  for (const order of [world.byUpdated, world.byCreated, world.byUser]) order.at(0);
  return world;
}

function addScenery(world: World): void {
  for (const name of LABELS.split(',')) world.addLabel({ name });
  for (const name of INBOXES.split(',')) world.addInbox({ name });
  for (const name of STAFF.split(',')) {
    const [first_name = null, last_name = null] = name.split(' ');
    world.addUser({ first_name, last_name, email: `staff${world.users.size + 1}@harbourlane.example` });
  }
}

function addCustomers(world: World, rng: Rng, count: number, latest: number): WorldCustomer[] {
  return momentsUntil(rng, count, latest).map((moment, at) => {
    const created_at = stamp(at === 0 ? latest - HISTORY - DAY : moment);
    return world.addCustomer({ ...makeCustomer(world, rng), created_at });
  });
}

/** Moments of the history, ascending. */
function momentsUntil(rng: Rng, count: number, latest: number): number[] {
  const moments = Array.from({ length: count }, () => {
    for (;;) {
      const moment = Math.floor(latest - HISTORY * (1 - rng() ** 0.7));
      if (rng() * 100 < busyness(moment)) return moment;
    }
  });
  return moments.sort((a, b) => a - b);
}

function addTickets(
  world: World,
  rng: Rng,
  count: number,
  customers: WorldCustomer[],
  latest: number,
  naughty: number,
): void {
  const cast = castOf(world);
  let known = 0;
  for (const created of momentsUntil(rng, count, latest)) {
    const created_at = stamp(created);
    while (known < customers.length && customers[known]!.created_at <= created_at) known++;
    const customer =
      known > 0
        ? customers[between(rng, 0, known - 1)]!
        : world.addCustomer({ ...makeCustomer(world, rng), created_at });
    const ticket = world.addTicket(pastTicket(world, rng, cast, customer, created, latest));
    if (rng() < naughty) spoilText(rng, ticket);
  }
}

function pastTicket(
  world: World,
  rng: Rng,
  cast: Cast,
  customer: WorldCustomer,
  created: number,
  latest: number,
): NewTicket {
  const ticket = makeTicket(world, rng, cast, customer);
  const messages: Message[] = [];
  let at = created;
  let last = created;
  for (let left = between(rng, 1, rng() < 0.1 ? 12 : 5); left > 0 && at <= latest; left--) {
    messages.push(nextMessage(world, rng, cast, ticket, customer, messages, at));
    last = at;
    at += Math.floor(-Math.log(1 - rng()) * 9 * HOUR) + MINUTE;
  }
  const updated = Math.min(latest, last + (rng() < 0.4 ? Math.floor(rng() * 20 * DAY) : 0));
  return Object.assign(ticket, makeState(rng, latest - updated, latest), {
    messages,
    created_at: stamp(created),
    updated_at: stamp(updated),
  });
}

/** The first message is the customer's, except on a call, which is noted; then both sides and notes take turns. */
function nextMessage(
  world: World,
  rng: Rng,
  cast: Cast,
  ticket: NewTicket & { type: TicketType },
  customer: WorldCustomer,
  before: readonly Message[],
  at: number,
): Message {
  const id = world.newId();
  const created_at = stamp(at);
  const calls = ticket.type === 'call' || ticket.type === 'phone';
  if (before.length === 0 ? calls : rng() < 0.15) return wholeNote(makeNote(rng, cast), id, created_at);
  const answered = before.at(-1)?.type === 'reply' ? before.at(-1)! : null;
  const inbound = before.length === 0 || (answered?.type === 'reply' && answered.direction === 'out') || rng() < 0.2;
  const reply = inbound
    ? makeInbound(world, rng, ticket, customer, answered)
    : makeOutbound(world, rng, cast, ticket, customer, answered);
  return wholeReply(reply, id, created_at);
}

function makeState(rng: Rng, quiet_ms: number, latest: number): Pick<NewTicket & object, 'state' | 'snoozed_until'> {
  const old = quiet_ms > 60 * DAY;
  const state = weighted<TicketState>(rng, [
    ['archived', old ? 75 : 2],
    ['closed', old ? 22 : 50],
    ['open', old ? 3 : 28],
    ['hold', old ? 0 : 10],
    ['snoozed', old ? 0 : 10],
  ]);
  return { state, snoozed_until: state === 'snoozed' ? stamp(latest + between(rng, 1, 14 * 24) * HOUR) : null };
}

/** Somebody selects 60 to 150 tickets that are older than the moment, and closes them with one label, in one second. */
function actInBulk(world: World, rng: Rng): void {
  const tickets = [...world.tickets.values()];
  if (tickets.length < 150) return;
  const labels = [...world.labels.keys()];
  for (let actions = Math.ceil(tickets.length / 2500); actions > 0; actions--) {
    let position = between(rng, Math.floor(tickets.length * 0.75), tickets.length - 1);
    const at = tickets[position]!.created_at;
    const label = pick(rng, labels);
    for (let left = between(rng, 60, 150); left > 0 && --position >= 0; ) {
      const { id, updated_at, label_ids } = tickets[position]!;
      if (updated_at >= at) continue;
      const labelled = [...new Set([...label_ids, label])];
      world.patchTicket(id, { state: 'closed', snoozed_until: null, label_ids: labelled }, { at });
      left--;
    }
  }
}

function spoilText(rng: Rng, ticket: WorldTicket): void {
  const message = ticket.messages[0];
  if (message && rng() < 0.5) message.body = naughtyText(rng) + (message.body ?? '');
  else ticket.subject = naughtyText(rng);
}
