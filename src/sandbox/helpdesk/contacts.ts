/**
 * Whose contact is it? A contact is "a unique identifier of a customer" (help desk 2), by which POST /tickets looks a
 * customer up. Most worlds are only read, so the index (50 bytes a contact) is made by the first question.
 */
import type { Contact, ContactType } from './records.ts';
import type { World, WorldCustomer } from './world.ts';

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
  readonly #world: World;
  /**
   * By a hash of the contact: the id of its customer, or several where contacts are shared or hashes agree (of 600,000
   * contacts some 300 do). Hashes, because a million texts as keys would take 100 MB and seconds.
   */
  #holders: Map<number, string | string[]> | undefined;

  constructor(world: World) {
    this.#world = world;
  }

  /** The customer who has had this contact the longest. */
  holder(contact: NewContact, emailCase: EmailCase): WorldCustomer | undefined {
    this.#holders ??= this.#allHolders();
    return [this.#holders.get(hashOf(contact)) ?? []]
      .flat()
      .map(id => this.#world.customers.get(id))
      .find(customer => customer?.contacts.some(other => sameContact(other, contact, emailCase)));
  }

  /** Has to be called after a customer got these. (What it lost stays in the index, and counts no longer.) */
  add(customerId: string, contacts: readonly Contact[]): void {
    if (this.#holders) for (const contact of contacts) enter(this.#holders, customerId, contact);
  }

  #allHolders(): Map<number, string | string[]> {
    const holders = new Map<number, string | string[]>();
    for (const { id, contacts } of this.#world.customers.values()) {
      for (const contact of contacts) enter(holders, id, contact);
    }
    return holders;
  }
}

function enter(holders: Map<number, string | string[]>, customerId: string, contact: Contact): void {
  const hash = hashOf(contact);
  const known = holders.get(hash);
  if (known === undefined) holders.set(hash, customerId);
  else if (typeof known === 'string') holders.set(hash, known === customerId ? known : [known, customerId]);
  else if (!known.includes(customerId)) known.push(customerId);
}

/** FNV-1a, in 30 bits: such numbers are their own keys. */
function hashOf(contact: NewContact): number {
  const key = keyOf(contact);
  let hash = contact.type.charCodeAt(0) ^ 0x811c9dc5;
  for (let at = 0; at < key.length; at++) hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193);
  return hash >>> 2;
}
