/**
 * What truly happened in the world of a simulation, as far as its tables alone do not tell: when something was deleted, and
 * which tickets changed without moving their `updated_at`.
 */
import type { WorldTicket } from '../../sandbox/src/helpdesk/world/rows.ts';
import type { World } from '../../sandbox/src/helpdesk/world/world.ts';

/** What a ticket was, in the values that its history in the warehouse has. */
export interface Span {
  /** Nothing, while it is not there. */
  readonly was: string | undefined;
  /** Since when, by the source's clock, and since when by what the source says: a row may show up late. */
  readonly fromMs: number;
  readonly saidMs: number;
  readonly silent: boolean;
}

/** Texts that somebody wrote, by what they are. */
export type Said = 'subject' | 'body' | 'name' | 'address';

type Kept = Pick<WorldTicket, 'state' | 'user_id' | 'inbox_id' | 'label_ids' | 'spam' | 'trash'>;
export const keptOf = ({ state, user_id, inbox_id, label_ids, spam, trash }: Kept): string =>
  JSON.stringify([state, user_id, inbox_id, [...new Set(label_ids)].sort(), spam, trash]);

export class History {
  /** Tickets that changed in silence since their `updated_at` last moved: what the mirror shows of them may be older. */
  readonly silent = new Set<string>();
  /** Tickets of which a change was dated ahead: the version of one that comes next may be an earlier one. */
  readonly ahead = new Set<string>();
  /** Since when each ticket, and each customer, has been gone, by the steady clock. */
  readonly gone = new Map<string, number>();
  /** When it was away before, of what came back. */
  readonly away = new Map<string, { fromMs: number; toMs: number }[]>();
  /** Nothing announces these. */
  customersEdited = false;
  messagesEdited = false;
  deleted = false;
  renamed = false;
  /** Changes so far. */
  changes = 0;
  /** By customer, what ever was written of them, or by them, in words that nobody else has. */
  readonly texts = new Map<string, Set<string>>();
  /** All of them, by what they are. */
  readonly said: Readonly<Record<Said, Set<string>>> = {
    ...{ subject: new Set(), body: new Set() },
    ...{ name: new Set(), address: new Set() },
  };
  /** Whose each ticket is, or was. */
  readonly customerOf = new Map<string, string>();
  /** Span by span, of tickets that came, changed or went. */
  readonly lives = new Map<string, Span[]>();

  /** Listens to every change of the world from now on. `unevenMs`: how far copies are behind, and its clock goes back. */
  constructor(world: World, note: (line: string) => void, unevenMs: number) {
    const showsLate = (time: string) => unevenMs > 0 || Date.parse(time) < world.clock.now() - 1000;
    const { tickets, customers } = world;
    for (const one of tickets.values()) this.#remember(one);
    for (const { id } of customers.values()) this.#rememberPerson(world, id);
    const { steady } = world.clock;
    const [change, add, remove] = [
      tickets.change.bind(tickets),
      tickets.add.bind(tickets),
      tickets.delete.bind(tickets),
    ];
    tickets.change = (ticket, edit, moving) => {
      this.changes++;
      const { messages: before, updated_at: moved } = ticket;
      const was = keptOf(ticket);
      const changed = change(ticket, edit, moving);
      this.#remember(changed);
      const { quiet: silent, moment } = moving;
      this.#live(ticket.id, { was: keptOf(ticket), nowMs: world.clock.now(), saidMs: Date.parse(moment), silent }, was);
      note(`world: ticket ${ticket.id} changes${moving.quiet ? ' in silence' : `, ${ticket.updated_at}`}`);
      if (moving.quiet) {
        this.silent.add(ticket.id);
        if (ticket.messages !== before) this.messagesEdited = true;
      } else this.silent.delete(ticket.id);
      // A second change in a second whose messages may have been read: no list shows that there was another one.
      if (ticket.messages !== before && ticket.updated_at === moved && showsLate(moved)) this.messagesEdited = true;
      return changed;
    };
    tickets.add = ticket => {
      this.changes++;
      // Nothing announces it, unless its time says that it has changed.
      const isBack = this.#isBack(ticket.id, steady());
      if (isBack) this.silent.add(ticket.id);
      const added = add(ticket);
      this.#remember(added);
      const nowMs = world.clock.now();
      const saidMs = isBack ? nowMs : Date.parse(added.created_at);
      this.#live(added.id, { was: keptOf(added), nowMs, saidMs, silent: isBack }, undefined);
      note(`world: ticket ${added.id} comes, ${added.updated_at}`);
      return added;
    };
    tickets.delete = ticket => {
      this.changes++;
      this.deleted = true;
      this.gone.set(ticket.id, steady());
      const nowMs = world.clock.now();
      this.#live(ticket.id, { was: undefined, nowMs, saidMs: nowMs, silent: true }, keptOf(ticket));
      note(`world: ticket ${ticket.id} is deleted`);
      remove(ticket);
    };
    const [addCustomer, patch, setContacts, removeCustomer] = [
      customers.add.bind(customers),
      customers.patch.bind(customers),
      customers.setContacts.bind(customers),
      customers.delete.bind(customers),
    ];
    customers.add = customer => {
      this.changes++;
      if (customer?.id !== undefined) this.#isBack(customer.id, steady());
      const added = addCustomer(customer);
      this.#rememberPerson(world, added.id);
      return added;
    };
    customers.patch = (id, fields) => {
      this.changes++;
      this.customersEdited = true;
      note(`world: customer ${id} is edited`);
      const patched = patch(id, fields);
      this.#rememberPerson(world, id);
      return patched;
    };
    customers.setContacts = (id, contacts) => {
      this.changes++;
      this.customersEdited = true;
      note(`world: customer ${id} is edited`);
      setContacts(id, contacts);
      this.#rememberPerson(world, id);
    };
    customers.delete = id => {
      this.changes++;
      this.deleted = true;
      this.gone.set(id, steady());
      note(`world: customer ${id} is deleted`);
      removeCustomer(id);
    };
  }

  #remember({ id, customer_id, subject, messages }: WorldTicket): void {
    this.customerOf.set(id, customer_id);
    this.#write(customer_id, 'subject', [subject]);
    this.#write(
      customer_id,
      'body',
      messages.map(({ body }) => body),
    );
  }

  #rememberPerson(world: World, id: string): void {
    const { first_name, last_name, contacts } = world.customer(id);
    this.#write(id, 'name', [first_name, last_name]);
    this.#write(
      id,
      'address',
      contacts.map(({ value }) => value),
    );
  }

  #write(customer: string, what: Said, texts: readonly (string | null)[]): void {
    const known = this.texts.get(customer) ?? new Set();
    this.texts.set(customer, known);
    for (const text of texts) {
      if (text === null || !/~|@|^[0-9a-f]{8,}$/.test(text)) continue;
      known.add(text);
      this.said[what].add(text);
    }
  }

  #live(
    id: string,
    { nowMs, saidMs, ...is }: Pick<Span, 'was' | 'saidMs' | 'silent'> & { nowMs: number },
    before: string | undefined,
  ): void {
    const first = { was: before, fromMs: Number.NEGATIVE_INFINITY, saidMs: Number.NEGATIVE_INFINITY, silent: false };
    const life = this.lives.get(id) ?? [first];
    this.lives.set(id, life);
    if (life.at(-1)!.was !== is.was) life.push({ ...is, fromMs: nowMs, saidMs: Math.min(saidMs, nowMs) });
  }

  /** Whether it was away until now. */
  #isBack(id: string, nowMs: number): boolean {
    const fromMs = this.gone.get(id);
    if (fromMs === undefined) return false;
    this.gone.delete(id);
    this.away.set(id, [...(this.away.get(id) ?? []), { fromMs, toMs: nowMs }]);
    return true;
  }

  /** Whether it was not there at some time between these. */
  wasAway(id: string, fromMs: number, toMs: number): boolean {
    const since = this.gone.get(id);
    const times = [...(this.away.get(id) ?? []), ...(since === undefined ? [] : [{ fromMs: since, toMs: Infinity }])];
    return times.some(time => time.fromMs <= toMs && time.toMs >= fromMs);
  }
}
