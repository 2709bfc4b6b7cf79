/**
 * Routes that create and modify (help desk 3 and 4). Each one first looks up the ids of its path (404), then validates the
 * whole body (422 with all errors), and only then changes the world. A refused request therefore changes nothing.
 */
import { Refusal } from '../http/refusal.ts';
import * as bodies from './body-shapes.ts';
import { shopAddress } from './content/content.ts';
import { type Form, read } from './form.ts';
import { type Attachment, customerRecord, type Message, type Named, ticketRecord, type User } from './records.ts';
import type { Answer, Call, Route } from './routes.ts';
import { type NewContact, sameContact } from './world/contacts.ts';
import type { NewCustomer } from './world/customers.ts';
import type { WorldCustomer, WorldTicket } from './world/rows.ts';
import type { ChangeOptions, World } from './world/world.ts';

export const WRITING_ROUTES: readonly Route[] = [
  { method: 'POST', path: '/tickets', answer: createTicket },
  { method: 'PATCH', path: '/tickets/:id', answer: patchTicket },
  { method: 'PUT', path: '/tickets/:id/labels/:ids', answer: addLabels },
  { method: 'DELETE', path: '/tickets/:id/labels/:ids', answer: removeLabels },
  { method: 'POST', path: '/tickets/:id/messages', answer: createMessage },
  { method: 'POST', path: '/attachments', answer: upload },
  { method: 'POST', path: '/customers', answer: createCustomer },
  { method: 'PATCH', path: '/customers/:id', answer: patchCustomer },
  { method: 'POST', path: '/customers/:id/contacts', answer: createContact },
  { method: 'DELETE', path: '/customers/:id/contacts/:contact', answer: removeContact },
];

const DONE: Answer = { status: 204 };

function created({ base }: Call, path: readonly string[], body: unknown): Answer {
  return { status: 201, headers: { Location: [base, ...path.map(encodeURIComponent)].join('/') }, body };
}

function existing<T>(all: Pick<ReadonlyMap<string, T>, 'get'>, id: string, what: string): T {
  const found = all.get(id);
  if (found === undefined) throw new Refusal(404, `There is no ${what} ${id}`);
  return found;
}

// --- tickets -------------------------------------------------------------------------------------------------------

/** Creates an open ticket; without an inbox in the first one, because a ticket always has one. */
function createTicket(call: Call): Answer {
  const { world, readings } = call;
  const { customer, messages, ...rest } = read(call.body, form => bodies.newTicket(form, world, readings));
  const ticket = world.addTicket({ ...rest, customer_id: customerFor(call, customer), type: 'email' });
  for (const message of messages) say(world, ticket, message, { quiet: true });
  return created(call, ['tickets', ticket.id], ticketRecord(ticket));
}

/** The id given, or the customer of the first known contact (left unchanged), or a new customer. */
function customerFor({ world, readings }: Call, given: bodies.TicketBody['customer']): string {
  if ('id' in given) return given.id;
  for (const contact of given.contacts ?? []) {
    const holder = world.customers.byContact.holder(contact, readings.emailCase);
    if (holder) return holder.id;
  }
  return world.customers.add(withIds(world, given)).id;
}

/** A patch without effect answers 200 and leaves `updated_at` alone. */
function patchTicket({ world, readings, id, body }: Call): Answer {
  const ticket = existing(world.tickets, id, 'ticket');
  const patch = read(body, form => bodies.ticketPatch(form, world, readings, ticket));
  if (Object.keys(patch).length > 0) world.patchTicket(id, patch);
  return { status: 200, body: ticketRecord(ticket) };
}

function addLabels(call: Call): Answer {
  const { id } = existing(call.world.tickets, call.id, 'ticket');
  call.world.addLabels(id, labelIds(call, call.world.labels));
  return DONE;
}

/** Labels that the ticket lacks are no error: 204. */
function removeLabels(call: Call): Answer {
  const { id } = existing(call.world.tickets, call.id, 'ticket');
  call.world.removeLabels(id, labelIds(call, call.world.labels));
  return DONE;
}

/** Ids such as `l1,l2`. Some clients send a printed list, `['l1', 'l2']`: 422 tells them. */
function labelIds({ names }: Call, labels: ReadonlyMap<string, Named>): string[] {
  const given = names.ids ?? '';
  if (/^\[.*\]$/s.test(given.trim())) {
    const reason = `label_ids: expected ids separated by commas, without brackets and quotes, got ${given}`;
    throw new Refusal(422, 'Unprocessable Entity', [reason]);
  }
  const ids = given
    .split(',')
    .map(id => id.trim())
    .filter(id => id !== '');
  if (ids.length === 0) throw new Refusal(404, 'There is no label in the path');
  for (const id of ids) existing(labels, id, 'label');
  return ids;
}

// --- messages --------------------------------------------------------------------------------------------------------

/** `Location` names the message, as for every 201, although no endpoint shows a single message. */
function createMessage(call: Call): Answer {
  const ticket = existing(call.world.tickets, call.id, 'ticket');
  const body = read(call.body, form => bodies.message(form, call.world, new Set()));
  const message = say(call.world, ticket, body);
  return created(call, ['tickets', ticket.id, 'messages', message.id], message);
}

/** Adds a message. Messages of users get the user's name; outgoing replies the address of the ticket's inbox. */
function say(world: World, ticket: WorldTicket, said: bodies.MessageBody, options: ChangeOptions = {}): Message {
  const attachments = said.attachment_ids.map(id => world.uploads.take(id));
  if (said.type === 'reply' && said.direction === 'in') {
    return world.addMessage(ticket.id, { ...said, attachments }, options);
  }
  const from_name = nameOf(world.users.get(said.user_id));
  if (said.type === 'note') return world.addNote(ticket.id, { ...said, attachments, from_name }, options);
  return world.addMessage(
    ticket.id,
    { ...said, attachments, from_name, from: shopAddress(world.inboxes.values(), ticket) },
    options,
  );
}

function nameOf(user: User | undefined): string | null {
  return [user?.first_name, user?.last_name].filter(Boolean).join(' ') || null;
}

function upload(call: Call): Answer {
  const { world } = call;
  const { name, size, type } = read(call.body, bodies.attachment);
  const attachment: Attachment = { id: world.newId(), name, size, type };
  world.uploads.add(attachment, world.clock.now());
  return created(call, ['attachments', attachment.id], attachment);
}

// --- customers -------------------------------------------------------------------------------------------------------

function createCustomer(call: Call): Answer {
  const { world } = call;
  const customer = world.customers.add(
    withIds(
      world,
      read(call.body, form => customerBody(form, call)),
    ),
  );
  return created(call, ['customers', customer.id], customerRecord(customer));
}

function patchCustomer(call: Call): Answer {
  const { world, id } = call;
  const customer = existing(world.customers, id, 'customer');
  const { contacts, ...patch } = read(call.body, form => customerBody(form, call, id));
  world.customers.patch(id, patch);
  if (contacts) patchContacts(call, customer, contacts);
  return { status: 200, body: customerRecord(customer) };
}

/** `owner`: id of the customer who may already have these contacts. */
function customerBody(form: Form, { world, readings }: Call, owner?: string): bodies.CustomerBody {
  const body = bodies.customer(form, readings);
  for (const [at, contact] of (body.contacts ?? []).entries()) {
    bodies.unowned(form, `contacts[${at}]`, contact, world, readings, owner);
  }
  return body;
}

/** Replaces or adds contacts, as `patchedContacts` says; an equal contact keeps its id. */
function patchContacts({ world, readings }: Call, customer: WorldCustomer, wanted: readonly NewContact[]): void {
  const before = customer.contacts;
  const kept = new Set<string>();
  const given = wanted.map(({ type, value }) => {
    const old = before.find(one => !kept.has(one.id) && sameContact(one, { type, value }, readings.emailCase));
    if (old) kept.add(old.id);
    return { id: old?.id ?? world.newId(), type, value };
  });
  const stay = readings.patchedContacts === 'added' ? before : [];
  const known = stay.map(old => given.find(({ id }) => id === old.id) ?? old);
  const more = given.filter(({ id }) => !known.some(old => old.id === id));
  world.customers.setContacts(customer.id, [...known, ...more]);
}

function createContact(call: Call): Answer {
  const { world, readings } = call;
  const customer = existing(world.customers, call.id, 'customer');
  const made = read(call.body, form => {
    const contact = bodies.contact(form);
    bodies.unowned(form, 'value', contact, world, readings);
    return contact;
  });
  const contact = world.customers.addContact(customer.id, made);
  return created(call, ['customers', customer.id, 'contacts', contact.id], contact);
}

function removeContact({ world, id, names }: Call): Answer {
  const { contacts } = existing(world.customers, id, 'customer');
  const contact = contacts.find(one => one.id === names.contact);
  if (contact === undefined) throw new Refusal(404, `Customer ${id} has no contact ${names.contact}`);
  world.customers.removeContact(id, contact.id);
  return DONE;
}

function withIds(world: World, { contacts = [], ...customer }: bodies.CustomerBody): NewCustomer {
  return { ...customer, contacts: contacts.map(({ type, value }) => ({ id: world.newId(), type, value })) };
}
