/**
 * Random changes of a help desk: a table of kinds with their weights. All use the operations of the world. A change
 * without a suitable record becomes a new ticket.
 */
import type { Change } from '../../activity.ts';
import { between, pick, type Rng, weighted } from '../../random.ts';
import { type Message, stamp, type TicketState } from '../records.ts';
import type { WorldTicket } from '../world/rows.ts';
import type { World } from '../world/world.ts';
import {
  castOf,
  makeContact,
  makeCustomer,
  makeInbound,
  makeNames,
  makeNote,
  makeOutbound,
  makeTicket,
} from './content.ts';

/** Returns the id of the changed record; undefined without a suitable one. */
type Happening = (world: World, rng: Rng) => string | undefined;

const HAPPENINGS: readonly (readonly [kind: string, weight: number, happen: Happening])[] = [
  ['new ticket', 12, newTicket],
  ['customer replies', 20, (world, rng) => onTicket(world, rng, ticket => converse(world, rng, ticket, 'in'))],
  ['user replies', 22, (world, rng) => onTicket(world, rng, ticket => converse(world, rng, ticket, 'out'))],
  ['note', 7, (world, rng) => onTicket(world, rng, ({ id }) => world.addNote(id, makeNote(rng, castOf(world))))],
  ['edit of a note', 2, editNote],
  ['removal of a message', 0.5, removeMessage],
  [
    'state',
    10,
    (world, rng) =>
      onTicket(world, rng, ({ id }) => world.patchTicket(id, { state: newState(rng), snoozed_until: null })),
  ],
  ['assignment', 6, assign],
  ['labels added', 6, (world, rng) => onTicket(world, rng, ({ id }) => world.addLabels(id, someLabel(world, rng)))],
  ['labels removed', 2, removeLabel],
  ['snooze', 2, snooze],
  ['end of a snooze', 1.5, endSnooze],
  ['archiving', 2, archive],
  ['spam', 1, (world, rng) => onTicket(world, rng, ({ id, spam }) => world.setSpam(id, !spam))],
  ['trash', 1, (world, rng) => onTicket(world, rng, ({ id, trash }) => world.setTrash(id, !trash))],
  ['deletion', 0.3, deleteTicket],
  ['bulk action', 0.1, actInBulk],
  ['edit of a customer', 2, editCustomer],
  ['contact added', 1, addContact],
  ['contact removed', 0.5, removeContact],
  ['rename of a label', 0.1, renameLabel],
  ['rename of an inbox', 0.1, renameInbox],
];
const KINDS = HAPPENINGS.map(happening => [happening, happening[1]] as const);

/** `without`: kinds to leave out, for tests that need stable records. */
export function mutate(world: World, rng: Rng, without: readonly string[] = []): Change {
  const [kind, , happen] = weighted(
    rng,
    KINDS.filter(([[name]]) => !without.includes(name)),
  );
  const id = happen(world, rng);
  return id === undefined ? { kind: 'new ticket', id: newTicket(world, rng) } : { kind, id };
}

function newTicket(world: World, rng: Rng): string {
  const known = someCustomer(world, rng);
  const customer = known && rng() < 0.6 ? known : world.customers.add(makeCustomer(rng, castOf(world)));
  const cast = castOf(world);
  const ticket = world.addTicket(makeTicket(rng, cast, customer));
  world.addMessage(ticket.id, makeInbound(rng, cast, ticket, customer, null));
  return ticket.id;
}

// --- tickets: recently changed ones are likely to change again -------------------------------------------------------

function someTicket(world: World, rng: Rng): WorldTicket | undefined {
  return world.byUpdated.at(Math.floor(world.byUpdated.length * (1 - rng() ** 3)));
}

function onTicket(world: World, rng: Rng, act: (ticket: WorldTicket) => unknown): string | undefined {
  const ticket = someTicket(world, rng);
  if (ticket) act(ticket);
  return ticket?.id;
}

/** A random ticket that fits, sought among a few dozen. */
function ticketWhere(world: World, rng: Rng, fits: (ticket: WorldTicket) => boolean): WorldTicket | undefined {
  for (let tries = 40; tries > 0; tries--) {
    const ticket = someTicket(world, rng);
    if (ticket && fits(ticket)) return ticket;
  }
  return undefined;
}

function converse(world: World, rng: Rng, ticket: WorldTicket, side: 'in' | 'out'): void {
  const customer = world.customers.get(ticket.customer_id) ?? { ...NOBODY, id: ticket.customer_id };
  const last: Message | undefined = ticket.messages.at(-1);
  const answered = last?.type === 'reply' ? last : null;
  const reply =
    side === 'in'
      ? makeInbound(rng, castOf(world), ticket, customer, answered)
      : makeOutbound(rng, castOf(world), ticket, customer, answered);
  world.addMessage(ticket.id, reply);
}

/** Stands for a deleted customer. */
const NOBODY = { first_name: null, last_name: null, summary: null, contacts: [] };

function editNote(world: World, rng: Rng): string | undefined {
  const ticket = ticketWhere(world, rng, ({ messages }) => messages.some(({ type }) => type === 'note'));
  const note = ticket?.messages.find(({ type }) => type === 'note');
  if (ticket && note) world.editNote(ticket.id, note.id, `${note.body ?? ''} (edited)`);
  return ticket?.id;
}

function removeMessage(world: World, rng: Rng): string | undefined {
  const ticket = ticketWhere(world, rng, ({ messages }) => messages.length > 1);
  if (ticket) world.removeMessage(ticket.id, ticket.messages.at(-1)!.id);
  return ticket?.id;
}

function newState(rng: Rng): TicketState {
  return weighted<TicketState>(rng, [
    ['closed', 60],
    ['open', 25],
    ['hold', 15],
  ]);
}

function assign(world: World, rng: Rng): string | undefined {
  const users = [null, ...world.users.keys()];
  return onTicket(world, rng, ({ id }) => world.patchTicket(id, { user_id: pick(rng, users) }));
}

function someLabel(world: World, rng: Rng): string[] {
  return world.labels.size === 0 ? [] : [pick(rng, [...world.labels.keys()])];
}

function removeLabel(world: World, rng: Rng): string | undefined {
  const ticket = ticketWhere(world, rng, ({ label_ids }) => label_ids.length > 0);
  if (ticket) world.removeLabels(ticket.id, [pick(rng, ticket.label_ids)]);
  return ticket?.id;
}

function snooze(world: World, rng: Rng): string | undefined {
  const snoozed_until = stamp(world.clock.now() + between(rng, 1, 200) * 3_600_000);
  return onTicket(world, rng, ({ id }) => world.patchTicket(id, { state: 'snoozed', snoozed_until }));
}

function endSnooze(world: World, rng: Rng): string | undefined {
  const ticket = ticketWhere(world, rng, ({ state }) => state === 'snoozed');
  if (ticket) world.wake(ticket.id);
  return ticket?.id;
}

function archive(world: World, rng: Rng): string | undefined {
  const ticket = ticketWhere(world, rng, ({ state }) => state === 'closed');
  if (ticket) world.archive(ticket.id);
  return ticket?.id;
}

function deleteTicket(world: World, rng: Rng): string | undefined {
  const ticket = ticketWhere(world, rng, ({ spam, trash }) => spam || trash);
  if (ticket) world.deleteTicket(ticket.id);
  return ticket?.id;
}

/** Returns the id of the first ticket. */
function actInBulk(world: World, rng: Rng): string | undefined {
  return closeInBulk(world, rng, bulkOf(rng, world), someLabel(world, rng))[0];
}

/** Random number of tickets for a bulk action: 60 to 150 by default. */
export function bulkOf(rng: Rng, { bulkSize }: Pick<World, 'bulkSize'>): number {
  return between(rng, Math.ceil(bulkSize * 0.6), Math.ceil(bulkSize * 1.5));
}

/** Closes up to `most` neighbours in the order of updates within one second, and adds the labels. */
export function closeInBulk(world: World, rng: Rng, most: number, labels: readonly string[]): string[] {
  const count = Math.min(most, world.byUpdated.length);
  const first = between(rng, 0, world.byUpdated.length - count);
  const chosen = Array.from({ length: count }, (_, at) => world.byUpdated.at(first + at)!);
  const at = world.clock.now();
  for (const { id, label_ids } of chosen) {
    const labelled = [...new Set([...label_ids, ...labels])];
    world.patchTicket(id, { state: 'closed', snoozed_until: null, label_ids: labelled }, { at });
  }
  return chosen.map(({ id }) => id);
}

// --- customers and names: silent changes -------------------------------------------------------------------

function someCustomer(world: World, rng: Rng) {
  return world.customers.byCreated.at(Math.floor(rng() * world.customers.byCreated.length));
}

function editCustomer(world: World, rng: Rng): string | undefined {
  const customer = someCustomer(world, rng);
  if (!customer) return undefined;
  const { first_name, last_name } = makeNames(rng, customer.id);
  const summary = rng() < 0.5 ? 'Likes to be called in the morning.' : null;
  world.customers.patch(customer.id, pick(rng, [{ first_name }, { last_name }, { summary }]));
  return customer.id;
}

function addContact(world: World, rng: Rng): string | undefined {
  const customer = someCustomer(world, rng);
  const type = pick(rng, ['email', 'phone', 'twitter'] as const);
  if (customer) world.customers.addContact(customer.id, makeContact(rng, castOf(world), type, customer));
  return customer?.id;
}

function removeContact(world: World, rng: Rng): string | undefined {
  const customer = someCustomer(world, rng);
  if (!customer || customer.contacts.length < 2) return undefined;
  world.customers.removeContact(customer.id, pick(rng, customer.contacts).id);
  return customer.id;
}

function renameLabel(world: World, rng: Rng): string | undefined {
  const [id] = someLabel(world, rng);
  if (id !== undefined) world.renameLabel(id, renamed(world.labels.get(id)!.name));
  return id;
}

function renameInbox(world: World, rng: Rng): string | undefined {
  if (world.inboxes.size === 0) return undefined;
  const id = pick(rng, [...world.inboxes.keys()]);
  world.renameInbox(id, renamed(world.inboxes.get(id)!.name));
  return id;
}

/** 'refund', 'refund 2', 'refund 3' … */
function renamed(name: string): string {
  const [, stem = name, number = '1'] = /^(.*) (\d+)$/.exec(name) ?? [];
  return `${stem} ${+number + 1}`;
}
