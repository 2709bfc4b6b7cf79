/**
 * Whose contact is it? A contact is "a unique identifier of a customer" (help desk 2), by which POST /tickets looks a
 * customer up. Most worlds are only read, so the index (50 bytes a contact) is made by the first question.
 */
import { CONTACT_TYPES, type Contact, type ContactType } from './records.ts';
import type { WorldCustomer } from './rows.ts';

/** A contact that may have no id yet. */
export interface NewContact {
  type: ContactType;
  value: string;
}

export type EmailCase = 'ignored' | 'exact';

/** Only mail addresses may differ in case; screen names and phone numbers are what they are. */
export function sameContact(a: NewContact, b: NewContact, emailCase: EmailCase): boolean {
  if (a.type !== b.type || a.value === b.value) return a.type === b.type;
  return emailCase === 'ignored' && keyOf(a) === keyOf(b);
}

function keyOf({ type, value }: NewContact): string {
  return type === 'email' ? value.toLowerCase() : value;
}

export class ContactBook {
  readonly #customers: Pick<ReadonlyMap<string, WorldCustomer>, 'get'>;
  /**
   * By a hash of the contact: the id of its customer, or several where contacts are shared or hashes agree (of 600,000
   * contacts some 170 do). Hashes, because a million texts as keys would take 100 MB and seconds.
   */
  readonly #holders = new Map<number, string | string[]>();

  constructor(customers: Pick<ReadonlyMap<string, WorldCustomer>, 'get'>) {
    this.#customers = customers;
  }

  /** The customer who has had this contact the longest. */
  holder(contact: NewContact, emailCase: EmailCase): WorldCustomer | undefined {
    return this.holders([contact.type], contact.value).find(customer =>
      customer.contacts.some(other => sameContact(other, contact, emailCase)),
    );
  }

  /** Everyone who may have a contact of one of these types and of this value, each once; has to be looked at. */
  holders(types: readonly ContactType[], value: string): WorldCustomer[] {
    const ids = types.flatMap(type => this.#holders.get(hashOf({ type, value })) ?? []);
    return [...new Set(ids)].map(id => this.#customers.get(id)).filter(customer => customer !== undefined);
  }

  /** Has to be called after a customer got these. (What it lost stays in the index, and counts no longer.) */
  add(customerId: string, contacts: readonly Contact[]): void {
    for (const contact of contacts) {
      const hash = hashOf(contact);
      const known = this.#holders.get(hash);
      if (known === undefined) this.#holders.set(hash, customerId);
      else if (typeof known === 'string') this.#holders.set(hash, known === customerId ? known : [known, customerId]);
      else if (!known.includes(customerId)) known.push(customerId);
    }
  }
}

/** The types of some contacts as bits, for a filter over all customers that reads no contact. */
export function reachOf(contacts: readonly Pick<Contact, 'type'>[]): number {
  return contacts.reduce((bits, { type }) => bits | (1 << CONTACT_TYPES.indexOf(type)), 0);
}

/** FNV-1a, in 30 bits: such numbers are their own keys. */
function hashOf(contact: NewContact): number {
  const key = keyOf(contact);
  let hash = contact.type.charCodeAt(0) ^ 0x811c9dc5;
  for (let at = 0; at < key.length; at++) hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193);
  return hash >>> 2;
}
