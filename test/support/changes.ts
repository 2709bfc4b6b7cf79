/** Changes at random moments on random tickets of a sandbox, and how long each one takes to the warehouse. */
import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import type { World } from '../../packages/sandbox/src/helpdesk/world/world.ts';
import { pick, type Rng } from '../../packages/sandbox/src/random.ts';

interface Arrival {
  readonly atMs: number;
  /** From the change to the new version of its ticket in Postgres. */
  readonly ticketMs: number;
  /** From the change to its messages being there as well. */
  readonly messagesMs: number;
}

interface Change {
  readonly ticket: string;
  readonly atMs: number;
  readonly updatedMs: number;
  /** The new message, where there is one. */
  readonly message: string | undefined;
  ticketMs?: number;
}

export interface Changes {
  /** What has arrived whole. */
  readonly arrivals: Arrival[];
  /** Made, and not arrived yet. */
  readonly pending: ReadonlyMap<string, unknown>;
  /** Makes no more changes; resolves when all have arrived, or after `patienceMs`. */
  end(patienceMs: number): Promise<void>;
}

/** How often Postgres is asked: by so much at most a time is too long. */
const lookMs = 50;

/** `perMinute` changes, at gaps of chance. A ticket is left alone until its last change has arrived. */
export function changeAndWatch(db: pg.Pool, world: World, rng: Rng, perMinute: number): Changes {
  const arrivals: Arrival[] = [];
  const pending = new Map<string, Change>();
  const ended = new AbortController();
  const watched = new AbortController();

  const making = (async () => {
    while (!ended.signal.aborted) {
      const gapMs = (-Math.log(1 - rng()) * 60_000) / perMinute;
      await delay(gapMs, undefined, { signal: ended.signal }).catch(() => {});
      if (ended.signal.aborted) return;
      const change = changeOne(world, rng, id => pending.has(id));
      pending.set(change.ticket, change);
    }
  })();

  const watching = (async () => {
    while (!watched.signal.aborted) {
      if (pending.size > 0) await look(db, pending, arrivals);
      await delay(lookMs, undefined, { signal: watched.signal }).catch(() => {});
    }
  })();

  return {
    arrivals,
    pending,
    async end(patienceMs) {
      ended.abort();
      await making;
      for (const until = Date.now() + patienceMs; pending.size > 0 && Date.now() < until; ) await delay(lookMs);
      watched.abort();
      await watching;
    },
  };
}

/** A reply, a note, another state, or a new ticket. */
export function changeOne(world: World, rng: Rng, isPending: (id: string) => boolean): Change {
  const tickets = world.byUpdated;
  let ticket = tickets.at(Math.floor(rng() * tickets.length))!;
  while (isPending(ticket.id)) ticket = tickets.at(Math.floor(rng() * tickets.length))!;
  const kind = pick(rng, ['reply', 'reply', 'note', 'state', 'new ticket'] as const);
  if (kind === 'new ticket') ticket = world.addTicket({ customer_id: ticket.customer_id, subject: 'A fresh one' });
  const atMs = world.clock.now();
  let message: string | undefined;
  if (kind === 'state') world.patchTicket(ticket.id, { state: ticket.state === 'open' ? 'closed' : 'open' });
  else if (kind === 'note') message = world.addNote(ticket.id, { body: 'A note just now' }).id;
  else message = world.addMessage(ticket.id, { body: 'A reply just now' }).id;
  return { ticket: ticket.id, atMs, updatedMs: Date.parse(ticket.updated_at), message };
}

async function look(db: pg.Pool, pending: Map<string, Change>, arrivals: Arrival[]): Promise<void> {
  const changes = [...pending.values()];
  const { rows } = await db.query<{ id: string; updated_ms: number; read: boolean; messages: string[] }>(
    `select t.id, extract(epoch from t.updated_at)::float8 * 1000 as updated_ms, t._messages_as_of >= t.updated_at as read,
       array(select m.id from helpdesk.messages m where m.account_id = t.account_id and m.id = any($2)) as messages
     from helpdesk.tickets t where t.account_id = 'default' and t.id = any($1)`,
    [changes.map(({ ticket }) => ticket), changes.map(({ message }) => message).filter(id => id !== undefined)],
  );
  const nowMs = Date.now();
  for (const { id, updated_ms, read, messages } of rows) {
    const change = pending.get(id);
    if (change === undefined || updated_ms < change.updatedMs) continue;
    change.ticketMs ??= nowMs - change.atMs;
    if (!read || (change.message !== undefined && !messages.includes(change.message))) continue;
    pending.delete(id);
    arrivals.push({ atMs: change.atMs, ticketMs: change.ticketMs, messagesMs: nowMs - change.atMs });
  }
}

/** The value that `share` of them do not exceed. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}
