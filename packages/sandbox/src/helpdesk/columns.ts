/**
 * The fields of tickets that lists can be filtered by, side by side in typed arrays, one number for each value that
 * occurs. A filter over a million tickets that lets none through reads a few megabytes instead of a million objects
 * all over the memory: some milliseconds instead of a quarter of a second.
 */
import type { Ticket } from './records.ts';

/** What has to hold of a ticket: asked of its place in the columns, or of a ticket that has none. */
export interface Test {
  ofPlace(slot: number): boolean;
  ofTicket(ticket: Ticket): boolean;
  /** At how many places it holds, where that is known without looking. */
  total?: number;
  /** Moves those of the first `count` places of which it holds to the front: how many they are. */
  sift(places: Uint32Array, count: number): number;
}

/** The number of no value: what is written where no ticket is. */
const NOBODY = 0;

/** One field: what is written at a ticket's place is the number of its value. */
class Column<V> {
  readonly #read: (ticket: Ticket) => V;
  readonly #numbers = new Map<V, number>();
  readonly #values: (V | undefined)[] = [undefined];
  /** How many places have the value of each number. */
  readonly #tally: number[] = [0];
  #cells = new Uint32Array(1024);

  constructor(read: (ticket: Ticket) => V) {
    this.#read = read;
  }

  set(slot: number, ticket: Ticket): void {
    const value = this.#read(ticket);
    if (slot >= this.#cells.length) this.#cells = wider(this.#cells, slot);
    this.#write(slot, this.#numbers.get(value) ?? this.#add(value));
  }

  clear(slot: number): void {
    this.#write(slot, NOBODY);
  }

  #write(slot: number, number: number): void {
    const before = this.#cells[slot]!;
    this.#tally[before]!--;
    this.#tally[number]!++;
    this.#cells[slot] = number;
  }

  /** What holds of the value at a place, each value asked once. */
  where(holds: (value: V) => boolean): Test {
    const allowed = Uint8Array.from(this.#values, (value, n) => (n !== NOBODY && holds(value as V) ? 1 : 0));
    const total = allowed.reduce((sum, yes, n) => (yes === 1 ? sum + this.#tally[n]! : sum), 0);
    const cells = this.#cells;
    const sift = (places: Uint32Array, count: number) => {
      let kept = 0;
      // Without a branch, which would be guessed wrong half of the time.
      for (let n = 0; n < count; n++) {
        const place = places[n]!;
        places[kept] = place;
        kept += allowed[cells[place]!]!;
      }
      return kept;
    };
    return { ofPlace: slot => allowed[cells[slot]!] === 1, ofTicket: ticket => holds(this.#read(ticket)), total, sift };
  }

  #add(value: V): number {
    this.#numbers.set(value, this.#values.length);
    this.#tally.push(0);
    return this.#values.push(value) - 1;
  }
}

function wider<A extends Uint32Array | Float64Array>(cells: A, slot: number): A {
  const made = new (cells.constructor as new (length: number) => A)(Math.max(slot + 1, cells.length * 2));
  made.set(cells);
  return made;
}

/** Labels of a ticket are one value: sorted, and joined by what no id contains. */
const SEPARATOR = '\n';

export class Columns {
  readonly inbox = new Column(ticket => ticket.inbox_id);
  readonly user = new Column(ticket => ticket.user_id);
  readonly state = new Column<string>(ticket => ticket.state);
  readonly type = new Column<string>(ticket => ticket.type);
  readonly spam = new Column(ticket => ticket.spam);
  readonly trash = new Column(ticket => ticket.trash);
  readonly #labels = new Column(labelsOf);
  /** In milliseconds. */
  #updated = new Float64Array(1024);
  #created = new Float64Array(1024);
  #found = new Uint32Array(0);

  set(slot: number, ticket: Ticket): void {
    const { inbox, user, state, type, spam, trash } = this;
    for (const column of [inbox, user, state, type, spam, trash]) column.set(slot, ticket);
    this.#labels.set(slot, ticket);
    if (slot >= this.#updated.length) {
      this.#updated = wider(this.#updated, slot);
      this.#created = wider(this.#created, slot);
    }
    this.#updated[slot] = Date.parse(ticket.updated_at);
    this.#created[slot] = Date.parse(ticket.created_at);
  }

  updatedSince(stamp: string): Test {
    return { ...since(this.#updated, stamp), ofTicket: ticket => ticket.updated_at >= stamp };
  }

  createdSince(stamp: string): Test {
    return { ...since(this.#created, stamp), ofTicket: ticket => ticket.created_at >= stamp };
  }

  anyLabel(wanted: readonly string[]): Test {
    const parts = wanted.map(label => SEPARATOR + label + SEPARATOR);
    return this.#labels.where(labels => parts.some(part => labels.includes(part)));
  }

  /** The ticket at this place is gone. */
  clear(slot: number): void {
    const { inbox, user, state, type, spam, trash } = this;
    for (const column of [inbox, user, state, type, spam, trash]) column.clear(slot);
    this.#labels.clear(slot);
  }

  /** The places below `end` at which a ticket stands of which all holds. The next call writes over the answer. */
  find(tests: readonly Test[], end: number): Uint32Array {
    if (this.#found.length < end) this.#found = new Uint32Array(this.#updated.length);
    const all = [...tests, this.state.where(() => true)].toSorted((a, b) => sizeOf(a) - sizeOf(b));
    if (all[0]?.total === 0) return this.#found.subarray(0, 0);
    for (let place = 0; place < end; place++) this.#found[place] = place;
    return this.#found.subarray(
      0,
      all.reduce((count, test) => test.sift(this.#found, count), end),
    );
  }
}

/** The strictest first, which leaves the others little to do. */
const sizeOf = ({ total = Number.POSITIVE_INFINITY }: Test): number => total;

function labelsOf({ label_ids }: Ticket): string {
  return label_ids.length === 0 ? '' : SEPARATOR + label_ids.toSorted().join(SEPARATOR) + SEPARATOR;
}

function since(times: Float64Array, stamp: string): Omit<Test, 'ofTicket'> {
  const parsed = Date.parse(stamp);
  // A second 60 stands for later than everything.
  const first = Number.isNaN(parsed) ? Number.POSITIVE_INFINITY : parsed;
  const sift = (places: Uint32Array, count: number) => {
    let kept = 0;
    for (let n = 0; n < count; n++) {
      const place = places[n]!;
      places[kept] = place;
      kept += times[place]! >= first ? 1 : 0;
    }
    return kept;
  };
  return { ofPlace: slot => times[slot]! >= first, sift };
}
