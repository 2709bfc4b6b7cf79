/**
 * Customers and their contacts: by id, by contact, and in list order. Changes of customers are silent: customers have no
 * `updated_at`, and no ticket moves. Read records freely; change them through the operations only, which keep the contact
 * index and the before-images up to date.
 */

import type { BeforeImages } from '../../before-images.ts';
import type { Clock } from '../../clock.ts';
import type { History } from '../content/history.ts';
import { Ordered } from '../lists/ordered-list.ts';
import { type Contact, type Customer, stamp } from '../records.ts';
import { ContactBook, reachOf } from './contacts.ts';
import { byArrival, WorldCustomer } from './rows.ts';

export type NewCustomer = Partial<Customer & { created_at: string }>;
type CustomerPatch = Partial<Pick<Customer, 'first_name' | 'last_name' | 'summary'>>;

interface Around {
  clock: Clock;
  past: BeforeImages<WorldCustomer>;
  newId(): string;
}

export class Customers {
  readonly byCreated = new Ordered<WorldCustomer>(byArrival);
  readonly byContact = new ContactBook(this);
  readonly #rows = new Map<string, WorldCustomer>();
  readonly #around: Around;
  /** Number of customers ever created. */
  #came = 0;

  constructor(around: Around) {
    this.#around = around;
  }

  get size(): number {
    return this.#rows.size;
  }

  get(id: string): WorldCustomer | undefined {
    return this.#rows.get(id);
  }

  has(id: string): boolean {
    return this.#rows.has(id);
  }

  keys(): MapIterator<string> {
    return this.#rows.keys();
  }

  /** In order of creation. */
  values(): MapIterator<WorldCustomer> {
    return this.#rows.values();
  }

  /** Adds the customers of a history. */
  remember(history: History): void {
    const customers = Array.from({ length: history.customers }, (_, n) => history.customer(n));
    for (const customer of customers) {
      const { contacts } = customer;
      customer.reach = reachOf(contacts);
      this.#know(customer, contacts);
    }
    this.byCreated.fill(customers);
    this.#came = history.customers;
  }

  /** Missing fields get defaults. */
  add(customer: NewCustomer = {}): WorldCustomer {
    const contacts = customer.contacts ?? [];
    const made = new WorldCustomer(
      {
        id: customer.id ?? this.#around.newId(),
        first_name: customer.first_name ?? null,
        last_name: customer.last_name ?? null,
        summary: customer.summary ?? null,
        created_at: stamp(customer.created_at ?? this.#around.clock.now()),
      },
      ++this.#came,
      contacts,
    );
    if (this.#rows.has(made.id)) throw new Error(`There is a customer ${made.id} already`);
    this.#around.past.note(made.id);
    this.#know(made, contacts);
    this.byCreated.add(made);
    return made;
  }

  patch(id: string, patch: CustomerPatch): WorldCustomer {
    return Object.assign(this.#aboutToChange(id), patch);
  }

  /** Deletes the customer; its tickets keep the dangling id. */
  delete(id: string): void {
    this.byCreated.remove(this.#aboutToChange(id));
    this.#rows.delete(id);
  }

  /** Appends a contact. */
  addContact(id: string, { type, value, ...contact }: Omit<Contact, 'id'> & { id?: string }): Contact {
    const made = { id: contact.id ?? this.#around.newId(), type, value };
    this.setContacts(id, [...this.#existing(id).contacts, made]);
    return made;
  }

  removeContact(id: string, contactId: string): void {
    const { contacts } = this.#existing(id);
    const left = contacts.filter(contact => contact.id !== contactId);
    if (left.length === contacts.length) throw new Error(`Customer ${id} has no contact ${contactId}`);
    this.setContacts(id, left);
  }

  /** Replaces all contacts. */
  setContacts(id: string, contacts: readonly Contact[]): void {
    this.#aboutToChange(id).contacts = contacts;
    this.byContact.add(id, contacts);
  }

  #existing(id: string): WorldCustomer {
    const customer = this.#rows.get(id);
    if (customer === undefined) throw new Error(`There is no customer ${id}`);
    return customer;
  }

  #aboutToChange(id: string): WorldCustomer {
    const customer = this.#existing(id);
    this.#around.past.note(id, customer);
    return customer;
  }

  #know(customer: WorldCustomer, contacts: readonly Contact[]): void {
    this.#rows.set(customer.id, customer);
    this.byContact.add(customer.id, contacts);
  }
}
