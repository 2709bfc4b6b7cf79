/**
 * Whose contact is it? A contact is "a unique identifier of a customer" (help desk 2), by which POST /tickets looks a
 * customer up. Most worlds are only read, so the index (some 100 bytes a contact) is made by the first question.
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
  return type + (type === 'email' ? value.toLowerCase() : value);
}

export class ContactBook {
  readonly #world: World;
  /** Ids of customers: mostly one, more where contacts may be shared. */
  #holders: Map<string, string[]> | undefined;

  constructor(world: World) {
    this.#world = world;
  }

  /** The customer who has had this contact the longest. */
  holder(contact: NewContact, emailCase: EmailCase): WorldCustomer | undefined {
    this.#holders ??= this.#allHolders();
    return this.#holders
      .get(keyOf(contact))
      ?.map(id => this.#world.customers.get(id))
      .find(customer => customer?.contacts.some(other => sameContact(other, contact, emailCase)));
  }

  /** Has to be called after a customer got these. (What it lost stays in the index, and counts no longer.) */
  add(customerId: string, contacts: readonly Contact[]): void {
    if (this.#holders) for (const contact of contacts) enter(this.#holders, customerId, contact);
  }

  #allHolders(): Map<string, string[]> {
    const holders = new Map<string, string[]>();
    for (const { id, contacts } of this.#world.customers.values()) {
      for (const contact of contacts) enter(holders, id, contact);
    }
    return holders;
  }
}

function enter(holders: Map<string, string[]>, customerId: string, contact: Contact): void {
  const key = keyOf(contact);
  const known = holders.get(key);
  if (known === undefined) holders.set(key, [customerId]);
  else if (!known.includes(customerId)) known.push(customerId);
}
