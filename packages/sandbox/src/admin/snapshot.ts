/**
 * A snapshot: the records of both worlds as JSON Lines, `{"<kind>": {record}}`, where kind and record are those of
 * `/truth/<kind>`. It can be written by hand: fields that are missing get defaults. Uploads without a message are left out.
 */
import { z } from 'zod';
import type { WorldShelf } from '../books/records.ts';
import { BooksWorld, type BooksWorldOptions, type NewVolume } from '../books/world.ts';
import type { Customer, Message, Named, User } from '../helpdesk/records.ts';
import { type NewNote, type NewReply, wholeNote, wholeReply } from '../helpdesk/world/conversation.ts';
import { World, type WorldOptions } from '../helpdesk/world/world.ts';
import { TRUTHS, type Worlds } from './truth.ts';

/** In an order in which a reader knows what a record refers to. */
const KINDS = ['inboxes', 'labels', 'users', 'customers', 'tickets', 'messages', 'volumes', 'shelves'] as const;
type Kind = (typeof KINDS)[number];

/** A line of a snapshot is wrong. */
export class SnapshotError extends Error {}

export function* snapshotOf(worlds: Worlds): Generator<object | undefined> {
  for (const kind of KINDS) for (const record of TRUTHS[kind](worlds)) yield record && { [kind]: record };
}

const id = z.string().min(1);
const message = z.looseObject({ id, type: z.enum(['reply', 'note']), created_at: z.iso.datetime() });
const shapes = {
  inboxes: z.looseObject({ id, name: z.string() }),
  labels: z.looseObject({ id, name: z.string() }),
  users: z.looseObject({ id }),
  customers: z.looseObject({
    id,
    contacts: z.array(z.looseObject({ id, type: z.string(), value: z.string() })).optional(),
  }),
  tickets: z.looseObject({ id, created_at: z.iso.datetime().optional(), updated_at: z.iso.datetime().optional() }),
  messages: message.extend({ ticket_id: id }),
  volumes: z.looseObject({ id }),
  shelves: z.looseObject({ user_id: id, id: z.number().int(), volumes: z.array(id).optional() }),
} satisfies Record<Kind, z.ZodType>;

/** Worlds with these records. A world of which the snapshot has no record is absent. Throws SnapshotError. */
export function worldsOf(
  text: string,
  options: WorldOptions,
): { helpdesk?: World; books?: (options: BooksWorldOptions) => BooksWorld } {
  const records = read(text);
  const held = KINDS.filter(kind => records[kind].length > 0);
  return {
    ...(held.some(kind => !isOfBooks(kind)) && { helpdesk: helpdeskOf(records, options) }),
    ...(held.some(isOfBooks) && { books: (those: BooksWorldOptions) => booksOf(records, those) }),
  };
}

const isOfBooks = (kind: Kind) => kind === 'volumes' || kind === 'shelves';

/** A record as it stands in a line. Its shape is checked; the worlds fill in what is missing. */
type Held = Record<string, unknown>;
type Records = Record<Kind, Held[]>;

function read(text: string): Records {
  const records = Object.fromEntries(KINDS.map(kind => [kind, []])) as unknown as Records;
  for (const [at, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue;
    const wrong = (why: string) => new SnapshotError(`line ${at + 1}: ${why}`);
    let parsed: unknown;
    try {
      parsed = JSON.parse(line);
    } catch (error) {
      throw wrong(`it is not JSON (${(error as Error).message})`);
    }
    const [kind = '', ...others] = Object.keys(Object(parsed));
    if (others.length > 0 || !Object.hasOwn(shapes, kind))
      throw wrong(`it has to be an object with one of ${KINDS.join(', ')}`);
    const found = shapes[kind as Kind].safeParse((parsed as Record<string, unknown>)[kind]);
    if (!found.success) {
      const [{ path, message } = { path: [], message: '' }] = found.error.issues;
      throw wrong(`${[kind, ...path].join('.')}: ${message}`);
    }
    records[kind as Kind].push(found.data as Held);
  }
  return records;
}

/** Ids of new records must not meet those of the snapshot, which may be of a generated world of the same seed. */
const OTHER_IDS = 0x1d5;

function helpdeskOf(records: Records, options: WorldOptions): World {
  const world = new World({ ...options, seed: (options.seed ?? 1) + OTHER_IDS });
  const messages = Map.groupBy(records.messages, one => String(one.ticket_id));
  adding('inboxes', records, one => world.addInbox(one as Partial<Named>));
  adding('labels', records, one => world.addLabel(one as Partial<Named>));
  adding('users', records, one => world.addUser(one as Partial<User>));
  adding('customers', records, one => world.customers.add(one as Partial<Customer>));
  // In the order of updates, in which lists show them.
  records.tickets.sort((a, b) => String(a.updated_at).localeCompare(String(b.updated_at)));
  adding('tickets', records, one => {
    const said = messages.get(String(one.id)) ?? [];
    messages.delete(String(one.id));
    return world.addTicket({
      ...one,
      messages: said.map(wholeMessage),
    });
  });
  const [lost] = messages.keys();
  if (lost !== undefined) throw new SnapshotError(`messages of the ticket ${lost}, which is not in it`);
  return world;
}

function wholeMessage({ ticket_id, ...given }: Held): Message {
  const [id, at] = [String(given.id), String(given.created_at)];
  return given.type === 'note' ? wholeNote(given as NewNote, id, at) : wholeReply(given as NewReply, id, at);
}

function booksOf(records: Records, options: BooksWorldOptions): BooksWorld {
  const world = new BooksWorld({ ...options, seed: (options.seed ?? 1) + OTHER_IDS });
  adding('volumes', records, one => world.addVolume(one as NewVolume));
  adding('shelves', records, ({ user_id, ...shelf }) => {
    const user = world.users.get(String(user_id)) ?? world.addUser(String(user_id));
    // Every user has the fixed shelves.
    user.shelves.delete(Number(shelf.id));
    return world.createShelf(user.id, shelf as Partial<WorldShelf>);
  });
  return world;
}

function adding(kind: Kind, records: Records, add: (record: Held) => unknown): void {
  for (const record of records[kind]) {
    try {
      add(record);
    } catch (error) {
      throw new SnapshotError(`${kind} ${String(record.id)}: ${(error as Error).message}`);
    }
  }
}
