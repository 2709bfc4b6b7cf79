/**
 * Changes of tickets that only the clock triggers: a snooze ends at `snoozed_until`, and a closed ticket is archived after
 * a configured time without changes. No timer runs: every reader and writer calls World.settle first, which applies
 * overdue deadlines at the time they were due. The deadlines form a heap. Each change of a snoozed or closed ticket
 * adds an entry; only the newest entry of a ticket counts.
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
  /** Binary heap, earliest deadline first. */
  readonly #heap: Due[] = [];
  readonly #due = new Map<string, number>();

  /** 0 hours: tickets are never archived. */
  constructor(archiveHours: number) {
    this.#archiving_ms = archiveHours * HOUR;
  }

  /**
   * Call for a new ticket and after each change; `moment`: timestamp of the change. A ticket that was closed long enough
   * ago, as in a history, is archived immediately.
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

/** Applies a deadline, not earlier than the ticket's last update. */
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
