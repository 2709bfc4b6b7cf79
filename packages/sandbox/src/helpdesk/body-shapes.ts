/**
 * Shapes of the bodies that create and modify (help desk 4): their fields, required fields, and references. Where the
 * specification is silent: null unsets `user_id`, names, summary and the deprecated reply fields, and `customer_id`
 * overrides `customer`.
 */

import { type Form, shown } from './form.ts';
import { CONTACT_TYPES, type Customer } from './records.ts';
import type { Readings } from './routes.ts';
import { type EmailCase, type NewContact, sameContact } from './world/contacts.ts';
import type { WorldTicket } from './world/rows.ts';
import type { TicketPatch, World } from './world/world.ts';

// --- tickets -------------------------------------------------------------------------------------------------------

/** The fields of the ticket that the patch changes. */
export function ticketPatch(form: Form, world: World, readings: Readings, ticket: WorldTicket): TicketPatch {
  const patch: TicketPatch = {};
  if (form.has('user_id')) patch.user_id = userOrNull(form, world);
  if (form.has('inbox_id')) patch.inbox_id = form.idOf('inbox_id', world.inboxes, 'inbox');
  if (form.has('label_ids')) patch.label_ids = form.idsOf('label_ids', world.labels, 'label');
  if (form.has('subject')) patch.subject = form.text('subject');
  if (form.has('state')) {
    patch.state = form.oneOf('state', ['open', 'hold', 'closed']) ?? ticket.state;
    patch.snoozed_until = null;
  }
  if (form.has('spam')) patch.spam = form.flag('spam');
  if (form.has('trash')) patch.trash = form.flag('trash');
  exclude(form, readings, ticket, patch);
  const changed = Object.entries(patch).filter(([name, value]) => !same(value, ticket[name as keyof TicketPatch]));
  return Object.fromEntries(changed);
}

/** Spam and trash exclude each other (section 3). The specification leaves open whether a new flag replaces the stored one. */
function exclude(form: Form, readings: Readings, ticket: WorldTicket, patch: TicketPatch): void {
  const { spam = ticket.spam, trash = ticket.trash } = patch;
  if (!spam || !trash) return;
  const stored = patch.spam === undefined ? 'spam' : 'trash';
  const both = patch.spam !== undefined && patch.trash !== undefined;
  if (!both && readings.spamAndTrash === 'replaced') patch[stored] = false;
  else if (both) form.fail('spam', 'a ticket cannot be spam and trash together');
  else form.fail(stored === 'spam' ? 'trash' : 'spam', `the ticket is ${stored}, and cannot be both: lift that first`);
}

function same(a: unknown, b: unknown): boolean {
  return Array.isArray(a) && Array.isArray(b) ? a.join() === b.join() : a === b;
}

function userOrNull(form: Form, world: World): string | null {
  return form.unset('user_id') ? null : form.idOf('user_id', world.users, 'user');
}

export interface TicketBody {
  subject: string;
  customer: { id: string } | CustomerBody;
  user_id: string | null;
  inbox_id?: string;
  reply_to: string | null;
  reply_cc: string | null;
  messages: MessageBody[];
}

export function newTicket(form: Form, world: World, readings: Readings): TicketBody {
  const taken = new Set<string>();
  form.oneOf('type', ['email']);
  return {
    subject: form.text('subject'),
    customer: customerOf(form, world, readings),
    user_id: userOrNull(form, world),
    ...(form.unset('inbox_id') ? {} : { inbox_id: form.idOf('inbox_id', world.inboxes, 'inbox') }),
    reply_to: form.textOrNull('reply_to'),
    reply_cc: form.textOrNull('reply_cc'),
    messages: form.has('messages') ? form.objects('messages', one => message(one, world, taken)) : [],
  };
}

function customerOf(form: Form, world: World, readings: Readings): TicketBody['customer'] {
  if (!form.unset('customer_id')) return { id: form.idOf('customer_id', world.customers, 'customer') };
  const nobody = { contacts: [] };
  if (!form.unset('customer')) return form.object('customer', one => customer(one, readings)) ?? nobody;
  form.fail('customer_id', 'is missing: expected a string, or else a `customer`');
  return nobody;
}

// --- messages --------------------------------------------------------------------------------------------------------

interface Said {
  body: string;
  htmlized: boolean;
  attachment_ids: string[];
}

export type MessageBody = Said &
  (
    | { type: 'note'; user_id: string }
    | { type: 'reply'; direction: 'out'; user_id: string; to: string }
    | { type: 'reply'; direction: 'in'; from_name: string; from: string; to: string | null }
  );

/**
 * A note, an incoming or an outgoing reply, by `type` and `direction`; without valid ones only the common fields are
 * checked. `taken`: attachments that other messages of the body already use.
 */
export function message(form: Form, world: World, taken: Set<string>): MessageBody {
  const type = form.oneOf('type', ['note', 'reply']);
  const direction = type === 'reply' ? form.oneOf('direction', ['in', 'out']) : undefined;
  const said: Said = {
    body: form.text('body'),
    htmlized: form.flag('htmlized'),
    attachment_ids: form.has('attachment_ids') ? attachments(form, world, taken) : [],
  };
  switch (direction ?? type) {
    case 'in': {
      const [from_name, from, to] = [form.text('from_name'), form.text('from'), form.textOrNull('to')];
      return { type: 'reply', direction: 'in', ...said, from_name, from, to };
    }
    case 'out': {
      const user_id = form.idOf('user_id', world.users, 'user');
      return { type: 'reply', direction: 'out', ...said, user_id, to: form.text('to') };
    }
    case 'note':
      return { type: 'note', ...said, user_id: form.idOf('user_id', world.users, 'user') };
    default:
      return { type: 'note', ...said, user_id: '' };
  }
}

/** An attachment belongs to one message only (section 2). */
function attachments(form: Form, world: World, taken: Set<string>): string[] {
  const ids = form.texts('attachment_ids');
  for (const id of ids) {
    if (taken.has(id) || world.attachments.has(id)) {
      form.fail('attachment_ids', `attachment ${shown(id)} belongs to another message`);
    } else if (world.uploads.get(id) === undefined) {
      form.fail('attachment_ids', `there is no attachment ${shown(id)}`);
    }
    taken.add(id);
  }
  return ids;
}

// --- attachments -----------------------------------------------------------------------------------------------------

interface AttachmentBody {
  name: string;
  type: string;
  /** Length of the content in bytes. */
  size: number;
}

export function attachment(form: Form): AttachmentBody {
  const type = form.name('type');
  if (type !== '' && !/^[^\s/;]+\/[^\s/;]+\s*(;.*)?$/s.test(type)) {
    form.fail('type', 'expected a MIME type such as "text/plain"');
  }
  return { name: form.name('name'), type, size: contentSize(form) };
}

/**
 * Length of the Base64 content in bytes. Encoding the decoded bytes again checks alphabet, padding and unused bits. Line
 * breaks are allowed, because mail encoders insert them.
 */
function contentSize(form: Form): number {
  const data = form.text('data').replaceAll(/\r?\n/g, '');
  const content = Buffer.from(data, 'base64');
  if (content.toString('base64') !== data) form.fail('data', 'expected Base64 (RFC 4648, padded)');
  return content.length;
}

// --- customers -------------------------------------------------------------------------------------------------------

export type CustomerBody = Partial<Pick<Customer, 'first_name' | 'last_name' | 'summary'>> & {
  contacts?: NewContact[];
};

export function customer(form: Form, readings: Readings): CustomerBody {
  const body: CustomerBody = {};
  for (const name of ['first_name', 'last_name', 'summary'] as const) {
    if (form.has(name)) body[name] = form.textOrNull(name);
  }
  if (form.has('contacts')) {
    body.contacts = form.objects('contacts', contact);
    if (readings.contactsUnique) noneTwice(form, body.contacts, readings.emailCase);
  }
  return body;
}

export function contact(form: Form): NewContact {
  return { type: form.oneOf('type', CONTACT_TYPES) ?? 'email', value: form.name('value') };
}

function noneTwice(form: Form, contacts: readonly NewContact[], emailCase: EmailCase): void {
  for (const [at, one] of contacts.entries()) {
    const first = contacts.findIndex(other => sameContact(one, other, emailCase));
    if (first < at) form.fail(`contacts[${at}]`, `is the same contact as contacts[${first}]`);
  }
}

/** A contact is a unique identifier of a customer (section 2): fails if a customer other than `owner` has it. */
export function unowned(
  form: Form,
  name: string,
  contact: NewContact,
  world: World,
  readings: Readings,
  owner?: string,
): void {
  if (!readings.contactsUnique) return;
  const holder = world.customers.byContact.holder(contact, readings.emailCase);
  if (holder === undefined || holder.id === owner) return;
  form.fail(name, `${contact.type} ${shown(contact.value)} is a contact of customer ${holder.id}`);
}
