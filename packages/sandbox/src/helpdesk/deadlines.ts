/**
 * What becomes due by the clock alone: a snoozed ticket wakes at its `snoozed_until`, and a closed one to which nothing
 * has happened for a settable time is archived. There is no timer: whoever is about to look at the world or to change
 * it settles it first (World.settle), so nobody can see what is overdue, and things happen at the moment they were due,
 * not when somebody came. Settling costs a glance at the top of a heap; each change of a snoozed or closed ticket an
 * entry in it, and the newest entry of a ticket counts.
 */
import type { WorldTicket } from './rows.ts';
import type { World } from './world.ts';

const HOUR = 3_600_000;

interface Due {
  at: number;
  id: string;
}

export class Deadlines {
  readonly #archiving_ms: number;
  /** A binary heap, the earliest first. */
  readonly #heap: Due[] = [];
  readonly #due = new Map<string, number>();

  /** After 0 hours nothing is archived. */
  constructor(archiveHours: number) {
    this.#archiving_ms = archiveHours * HOUR;
  }

  /**
   * Has to be called for a ticket that is new, or to which something has happened at `moment` (a timestamp). One that
   * was closed long ago, as in a history, has been archived since.
   */
  watch(ticket: WorldTicket, moment: string, now: number): void {
    const at = this.#dueAt(ticket, moment);
    const past = ticket.state === 'closed' && at <= now;
    if (past) ticket.state = 'archived';
    if (Number.isFinite(at) && !past) this.#expect(ticket.id, at);
    else this.#due.delete(ticket.id);
  }

  settle(world: World): void {
    const now = world.clock.now();
    for (let first = this.#heap[0]; first !== undefined && first.at <= now; first = this.#heap[0]) {
      takeFirst(this.#heap);
      if (this.#due.get(first.id) !== first.at) continue;
      this.#due.delete(first.id);
      const ticket = world.tickets.get(first.id);
      if (ticket) fulfil(world, ticket, first.at);
    }
  }

  #dueAt(ticket: WorldTicket, moment: string): number {
    if (ticket.state === 'snoozed' && ticket.snoozed_until !== null) return Date.parse(ticket.snoozed_until);
    if (ticket.state === 'closed' && this.#archiving_ms > 0) return Date.parse(moment) + this.#archiving_ms;
    return Number.POSITIVE_INFINITY;
  }

  #expect(id: string, at: number): void {
    if (this.#due.get(id) === at) return;
    this.#due.set(id, at);
    put(this.#heap, { at, id });
  }
}

/** Not before the last thing that is known to have happened to it. */
function fulfil(world: World, { id, state, updated_at }: WorldTicket, due: number): void {
  const at = Math.max(due, Date.parse(updated_at));
  world.clock.at(world.clock.reached(at), () => {
    if (state === 'snoozed') world.wake(id, { at });
    else if (state === 'closed') world.archive(id, { at });
  });
}

function put(heap: Due[], due: Due): void {
  let at = heap.push(due) - 1;
  while (at > 0) {
    const above = (at - 1) >>> 1;
    if (heap[above]!.at <= due.at) break;
    heap[at] = heap[above]!;
    at = above;
  }
  heap[at] = due;
}

function takeFirst(heap: Due[]): void {
  const last = heap.pop()!;
  if (heap.length === 0) return;
  let at = 0;
  for (;;) {
    const left = 2 * at + 1;
    const below = (heap[left + 1]?.at ?? Number.POSITIVE_INFINITY) < (heap[left]?.at ?? 0) ? left + 1 : left;
    if (below >= heap.length || heap[below]!.at >= last.at) break;
    heap[at] = heap[below]!;
    at = below;
  }
  heap[at] = last;
}
