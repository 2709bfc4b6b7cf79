/**
 * Finds customers by contact. A contact is "a unique identifier of a customer" (help desk 2); POST /tickets looks customers
 * up by it. The first lookup builds the index (50 bytes per contact), because most worlds are only read.
 */
import { CONTACT_TYPES, type Contact, type ContactType } from '../records.ts';
import type { WorldCustomer } from './rows.ts';

/** A contact that may have no id yet. */
export interface NewContact {
  type: ContactType;
  value: string;
}

export type EmailCase = 'ignored' | 'exact';

/** Whether two contacts are equal. Letter case can be ignored in email addresses only. */
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
   * Hash of a contact → id of its customer, or several ids for shared contacts and hash collisions (about 170 among 600,000
   * contacts). Hashes, because a million texts as keys would take 100 MB and seconds.
   */
  readonly #holders = new Map<number, string | string[]>();

  constructor(customers: Pick<ReadonlyMap<string, WorldCustomer>, 'get'>) {
    this.#customers = customers;
  }

  /** The customer with this contact; the earliest if several share it. */
  holder(contact: NewContact, emailCase: EmailCase): WorldCustomer | undefined {
    return this.holders([contact.type], contact.value).find(customer =>
      customer.contacts.some(other => sameContact(other, contact, emailCase)),
    );
  }

  /** Candidates for this value and types, without duplicates; the caller must check their contacts. */
  holders(types: readonly ContactType[], value: string): WorldCustomer[] {
    const ids = types.flatMap(type => this.#holders.get(hashOf({ type, value })) ?? []);
    return [...new Set(ids)].map(id => this.#customers.get(id)).filter(customer => customer !== undefined);
  }

  /** Call after a customer got contacts. Lost contacts stay in the index; lookups check them. */
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

/** Types of the contacts as bits, so that a filter by type need not read contacts. */
export function reachOf(contacts: readonly Pick<Contact, 'type'>[]): number {
  return contacts.reduce((bits, { type }) => bits | (1 << CONTACT_TYPES.indexOf(type)), 0);
}

/** FNV-1a in 30 bits: small integers, which the engine stores without boxing. */
function hashOf(contact: NewContact): number {
  const key = keyOf(contact);
  let hash = contact.type.charCodeAt(0) ^ 0x811c9dc5;
  for (let at = 0; at < key.length; at++) hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193);
  return hash >>> 2;
}
