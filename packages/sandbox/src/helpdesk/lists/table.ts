/**
 * All tickets, prepared for lists. Each ticket has a slot: its index in `rows` and in the columns for filters. Orders sort
 * slots. Callers must call `takeOut` before a change of a row and `putIn` after it; otherwise lists miss the change.
 */

import { byCreation, byUpdate, byUserThenLatest, type WorldTicket } from '../world/rows.ts';
import { Columns } from './columns.ts';
import { Ordered } from './ordered-list.ts';
import type { Sequence } from './overlay.ts';

class TicketOrder implements Sequence<WorldTicket> {
  readonly places: Ordered<number>;
  readonly #rows: readonly WorldTicket[];

  constructor(rows: readonly WorldTicket[], compare: (a: WorldTicket, b: WorldTicket) => number) {
    this.#rows = rows;
    this.places = new Ordered((a, b) => compare(rows[a]!, rows[b]!));
  }

  get length(): number {
    return this.places.length;
  }

  at(position: number): WorldTicket | undefined {
    const place = this.places.at(position);
    return place === undefined ? undefined : this.#rows[place];
  }

  firstWhere(reached: (ticket: WorldTicket) => boolean): number {
    return this.places.firstWhere(place => reached(this.#rows[place]!));
  }
}

export class TicketTable {
  /** A free slot keeps its last row until it is reused. */
  readonly rows: WorldTicket[] = [];
  readonly columns = new Columns();
  readonly byUpdated = new TicketOrder(this.rows, byUpdate);
  readonly byCreated = new TicketOrder(this.rows, byCreation);
  readonly byUser = new TicketOrder(this.rows, byUserThenLatest);
  readonly #free: number[] = [];

  add(ticket: WorldTicket): void {
    ticket.slot = this.#free.pop() ?? this.rows.length;
    this.rows[ticket.slot] = ticket;
    this.byCreated.places.add(ticket.slot);
    this.putIn(ticket);
  }

  remove(ticket: WorldTicket): void {
    this.takeOut(ticket);
    this.byCreated.places.remove(ticket.slot);
    this.columns.clear(ticket.slot);
    this.#free.push(ticket.slot);
  }

  /** Call before a change. */
  takeOut({ slot }: WorldTicket): void {
    this.byUpdated.places.remove(slot);
    this.byUser.places.remove(slot);
  }

  /** Call after a change. */
  putIn(ticket: WorldTicket): void {
    this.columns.set(ticket.slot, ticket);
    this.byUpdated.places.add(ticket.slot);
    this.byUser.places.add(ticket.slot);
  }

  /** Fills an empty table with a history, in order of creation. */
  fill(tickets: readonly WorldTicket[]): void {
    for (const ticket of tickets) {
      ticket.slot = this.rows.push(ticket) - 1;
      this.columns.set(ticket.slot, ticket);
    }
    const places = tickets.map(({ slot }) => slot);
    this.byCreated.places.fill([...places]);
    places.sort((a, b) => byUpdate(tickets[a]!, tickets[b]!));
    this.byUser.places.fill(groupedByUser(places.toReversed(), tickets));
    this.byUpdated.places.fill(places);
  }
}

/** Slots grouped by user, latest first: nearly sorted, so that the sort is fast. */
function groupedByUser(latestFirst: readonly number[], tickets: readonly WorldTicket[]): number[] {
  const groups = Map.groupBy(latestFirst, place => tickets[place]!.user_id ?? '~');
  return [...groups.keys()].sort().flatMap(user => groups.get(user)!);
}
