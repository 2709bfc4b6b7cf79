/**
 * Redacts the records of erased customers: ids, times and states stay; all written text is removed. Pure functions. The
 * database knows who was erased (privacy/screen.ts). A record without erased people is returned unchanged; its
 * numbers keep all digits.
 */
import { parseJson } from '../../../engine/exact-json.ts';
import { cleanText, fieldsOf, objectOf } from '../../../engine/json-text.ts';
import {
  arrayIn,
  type Clues,
  carries,
  type Erased,
  eachOf,
  isAnybody,
  type Json,
  objectIn,
  only,
  texts,
  without,
} from '../../../privacy/redact.ts';
import { type Contact, contactsOf, cutOf, keptOf } from '../../record/personal.ts';
import { attachment, contact, customer, message, ticket } from '../records.ts';

/** Streams whose records hold customers' data. */
export type Personal = 'helpdesk.customers' | 'helpdesk.tickets' | 'helpdesk.messages';

/** Fields that stay after erasure. Unknown fields, including later additions of the source, are removed. */
export const kept = {
  customers: keptOf(customer),
  tickets: keptOf(ticket),
  messages: keptOf(message),
  attachments: keptOf(attachment),
};
/** Fields in other people's records that may name an erased person. A field is removed if it does. */
export const naming = { tickets: contactsOf(ticket), messages: contactsOf(message) };
const ofContacts = contactsOf(contact);

const contactIn = (record: Json, { field, isName }: Contact): unknown => {
  const value = record[field];
  return isName && !(typeof value === 'string' && value.includes('@')) ? undefined : value;
};
const addressesOf = (record: Json, fields: readonly Contact[]): string[] =>
  texts(...fields.map(one => contactIn(record, one)));
const addressesOfCustomer = (customer: Json): string[] =>
  arrayIn(customer.contacts).flatMap(one => addressesOf(objectIn(one), ofContacts));
/** Removes the fields that name erased people. */
const unnamed = (text: string, record: Json, fields: readonly Contact[], erased: Erased): string =>
  without(
    text,
    fields.flatMap(one => (carries(erased, contactIn(record, one)) ? one.ofSame : [])),
  );

/**
 * The clues in a text before the merge of this stream. The text is an array of records, or of tickets with their messages.
 */
export function cluesIn(stream: Personal, text: string): Clues {
  const records = (parseJson(text) as unknown[]).map(objectIn);
  if (stream === 'helpdesk.customers')
    return {
      customers: records.flatMap(({ id }) => texts(id)),
      tickets: [],
      contacts: records.flatMap(addressesOfCustomer),
    };
  const members =
    stream === 'helpdesk.messages' ? records.flatMap(({ messages }) => arrayIn(messages).map(objectIn)) : [];
  return {
    customers: stream === 'helpdesk.tickets' ? records.flatMap(one => texts(one.customer_id)) : [],
    tickets: records.flatMap(({ id }) => texts(id)),
    contacts: [
      ...(stream === 'helpdesk.tickets' ? records.flatMap(one => addressesOf(one, naming.tickets)) : []),
      ...members.flatMap(one => addressesOf(one, naming.messages)),
    ],
  };
}

/** The clues in a rejected or sample record, valid or not. `of`: the record's id, or its ticket's id. */
export function cluesOf(stream: Personal, text: string | undefined, of: readonly (string | undefined)[]): Clues {
  const record = objectIn(text === undefined ? undefined : parseJson(text));
  const members = [record, ...arrayIn(record.messages).map(objectIn)];
  const ids = texts(...of, stream === 'helpdesk.messages' ? undefined : record.id);
  return {
    customers: [...(stream === 'helpdesk.customers' ? ids : []), ...texts(record.customer_id)],
    tickets: stream === 'helpdesk.customers' ? [] : ids,
    contacts: [
      ...addressesOfCustomer(record),
      ...addressesOf(record, naming.tickets),
      ...members.flatMap(one => addressesOf(one, naming.messages)),
    ],
  };
}

/** Ids that newly belong to erased people: a customer with an erased contact value, or a ticket of an erased customer. */
export function foundIn(stream: Personal, text: string, erased: Erased): Pick<Clues, 'customers' | 'tickets'> {
  const records = stream === 'helpdesk.messages' ? [] : (parseJson(text) as unknown[]).map(objectIn);
  const isNew = (one: Json) =>
    stream === 'helpdesk.customers'
      ? !erased.customers.has(one.id as string) && addressesOfCustomer(one).some(value => carries(erased, value))
      : !erased.tickets.has(one.id as string) && erased.customers.has(one.customer_id as string);
  const ids = records.filter(isNew).flatMap(({ id }) => texts(id));
  return { customers: stream === 'helpdesk.customers' ? ids : [], tickets: stream === 'helpdesk.tickets' ? ids : [] };
}

/** Customers erased by id whose records show contact values that are not yet erased, with these values. */
export function contactsOfAsked(text: string, { asked, further }: Erased): Clues {
  const theirs = (parseJson(text) as unknown[])
    .map(objectIn)
    .filter(({ id }) => asked.has(id as string))
    .map(one => ({ id: one.id as string, contacts: addressesOfCustomer(one).map(value => cleanText(value).text) }))
    .map(({ id, contacts }) => ({ id, contacts: contacts.filter(value => further.has(value)) }))
    .filter(({ contacts }) => contacts.length > 0);
  return { customers: theirs.map(({ id }) => id), tickets: [], contacts: theirs.flatMap(({ contacts }) => contacts) };
}

/** Removes erased people's data from JSON text: a page of records, or of tickets with their messages. */
export function redact(stream: Personal, text: string, erased: Erased): string {
  if (!isAnybody(erased)) return text;
  if (stream === 'helpdesk.messages') {
    return eachOf(text, ticket => {
      const fields = fieldsOf(ticket);
      const isErased = erased.tickets.has(String(parseJson(fields.get('id') ?? 'null')));
      const told = fields.get('messages') ?? '[]';
      return objectOf([
        ['id', fields.get('id') ?? 'null'],
        ['messages', eachOf(told, one => (isErased ? bareMessage(one) : redactMessage(one, erased)))],
      ]);
    });
  }
  return eachOf(text, one => {
    const record = objectIn(parseJson(one));
    if (stream === 'helpdesk.customers')
      return erased.customers.has(record.id as string) ? only(one, kept.customers) : one;
    if (erased.tickets.has(record.id as string)) return only(one, kept.tickets);
    return unnamed(one, record, naming.tickets, erased);
  });
}

/**
 * Redacts a message in another customer's ticket. A message written by an erased person loses its text. A message
 * written to an erased person keeps its text and loses the address.
 */
function redactMessage(text: string, erased: Erased): string {
  const record = objectIn(parseJson(text));
  if (carries(erased, record.from) && record.direction !== 'out') return bareMessage(text);
  return unnamed(text, record, naming.messages, erased);
}

function bareMessage(text: string): string {
  const attachments = fieldsOf(text).get('attachments');
  const bare = fieldsOf(only(text, kept.messages));
  if (attachments?.startsWith('['))
    bare.set(
      'attachments',
      eachOf(attachments, one => cut(only(one, kept.attachments), cutOf(attachment))),
    );
  return objectOf(bare);
}

/** Removes the part behind these characters, as in `application/pdf; name="ada.pdf"`. */
function cut(text: string, fields: readonly [field: string, upTo: string][]): string {
  const cuts = new Map(fields);
  return objectOf(
    [...fieldsOf(text)].map(([field, json]) => {
      const [upTo, value] = [cuts.get(field), json.startsWith('"') ? parseJson(json) : undefined];
      const isCut = upTo !== undefined && typeof value === 'string' && value.includes(upTo);
      return [field, isCut ? JSON.stringify(value.split(upTo)[0]) : json];
    }),
  );
}
