/**
 * All records of the sandbox for comparison with a mirror: every field that the interfaces show, and fields that they only
 * filter or sort by. Records are streamed, so a million tickets need the memory of one text piece. The stream is no
 * snapshot: changes can come between two records, never within one.
 */
import type { BooksWorld } from '../books/world.ts';
import { customerRecord, ticketRecord } from '../helpdesk/records.ts';
import type { World } from '../helpdesk/world/world.ts';

export interface Worlds {
  helpdesk: World;
  books: BooksWorld;
}

/** Records of each kind in order of creation. Yields undefined after work without a record, so that the reader can pause. */
export const TRUTHS = {
  tickets: ({ helpdesk }) => each(helpdesk.tickets.values(), ticketRecord),
  messages: ({ helpdesk }) => messages(helpdesk),
  /** With the real `created_at`, which the interface only sorts and filters by. */
  customers: ({ helpdesk }) =>
    each(helpdesk.customers.values(), customer => ({ ...customerRecord(customer), created_at: customer.created_at })),
  users: ({ helpdesk }) => helpdesk.users.values(),
  labels: ({ helpdesk }) => helpdesk.labels.values(),
  inboxes: ({ helpdesk }) => helpdesk.inboxes.values(),
  /** Attachments of messages. */
  attachments: ({ helpdesk }) => attachments(helpdesk),
  /** Attachments without a message. */
  uploads: ({ helpdesk }) => helpdesk.uploads.values(),
  volumes: ({ books }) => books.volumes.values(),
  shelves: ({ books }) => shelves(books),
} satisfies Record<string, (worlds: Worlds) => Iterable<object | undefined>>;

type TruthKind = keyof typeof TRUTHS;

export const isTruth = (kind: string): kind is TruthKind => Object.hasOwn(TRUTHS, kind);

/** Number of records of each kind. */
export function countTruths({ helpdesk, books }: Worlds): Record<TruthKind, number> {
  let messages = 0;
  for (const ticket of helpdesk.tickets.values()) messages += ticket.messageCount;
  let shelves = 0;
  for (const user of books.users.values()) shelves += user.shelves.size;
  return {
    tickets: helpdesk.tickets.size,
    messages,
    customers: helpdesk.customers.size,
    users: helpdesk.users.size,
    labels: helpdesk.labels.size,
    inboxes: helpdesk.inboxes.size,
    attachments: helpdesk.attachments.size,
    uploads: helpdesk.uploads.size,
    volumes: books.volumes.size,
    shelves,
  };
}

/** JSON Lines in pieces, possibly empty; each piece takes at most a few milliseconds. */
export function* linesOf(records: Iterable<object | undefined>, most = 100): Generator<string> {
  let piece = '';
  let steps = 0;
  for (const record of records) {
    if (record !== undefined) piece += `${JSON.stringify(record)}\n`;
    if (++steps < most && piece.length < LONGEST_PIECE) continue;
    yield piece;
    piece = '';
    steps = 0;
  }
  yield piece;
}

const LONGEST_PIECE = 65_536;

function* each<T>(records: Iterable<T>, show: (record: T) => object): Generator<object> {
  for (const record of records) yield show(record);
}

function* messages(world: World): Generator<object> {
  for (const ticket of world.tickets.values()) {
    for (const message of ticket.messages) yield { ticket_id: ticket.id, ...message };
  }
}

function* attachments(world: World): Generator<object | undefined> {
  for (const { messages } of world.tickets.values()) {
    for (const message of messages) yield* message.attachments;
    yield undefined;
  }
}

function* shelves(world: BooksWorld): Generator<object> {
  for (const user of world.users.values()) {
    for (const shelf of user.shelves.values()) yield { user_id: user.id, ...shelf };
  }
}
