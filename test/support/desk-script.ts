/**
 * Help desks as a script makes them: what happens to their tickets, by chance, and what each reply shows. The script knows
 * everything that happened, and writes down what it has shown.
 */
import type { Ticket } from '../../packages/sandbox/src/helpdesk/records.ts';
import { between, pick, type Rng } from '../../packages/sandbox/src/random.ts';
import { type Told, wordsOfTicket } from './history-in-words.ts';
import { iso, message, type Scripted, second, ticket } from './scripted.ts';

/** A reply of the source: the tickets and the messages that it held, by ticket. */
export interface Shown {
  readonly ticket: Ticket;
  readonly asOfMs: number;
  readonly byMs: number;
}

interface One {
  ticket: Ticket;
  messages: Told[];
  /** The source writes a field of it wrongly: nobody can store the ticket, or one of its messages. */
  broken: 'ticket' | { message: string } | undefined;
}

/** A message, and its place in its ticket. */
export type Said = Told & { readonly position: number };

/** What a ticket was from some time on; undefined while it is not there. */
export interface Span {
  readonly fromMs: number;
  readonly was: string | undefined;
  /** The change did not move `updated_at`. */
  readonly silent: boolean;
}

const states = ['open', 'open', 'closed', 'closed', 'archived', 'hold', 'snoozed'];
const users = ['u1', 'u2', 'u3', null];
const inboxes = ['i1', 'i2', 'i3', null];
const types = ['email', 'chat', 'phone'];

export class Desk {
  /** The clock of the source, in seconds of the test's time. */
  now: number;
  readonly tickets = new Map<string, One>();
  /** All that any reply has shown of each ticket, and the messages that the last one in detail held. */
  readonly shown = new Map<string, Shown[]>();
  readonly said = new Map<string, { asOfMs: number; messages: Said[]; whole: boolean }>();
  /** Tickets whose record the last reply showed broken. */
  readonly unreadable = new Set<string>();
  /** When a list was asked for. */
  readonly listed: number[] = [];
  readonly lives = new Map<string, Span[]>();
  #program: Scripted | undefined;
  readonly #rng: Rng;
  #made = 0;
  #said = 0;
  readonly #deleted: One[] = [];

  constructor(rng: Rng, now: number) {
    this.#rng = rng;
    this.now = now;
  }

  /** Answers the requests of the program from now on. */
  answerIn(s: Scripted): void {
    s.lists.tickets = query => this.#list(query);
    s.lists.spam = query => this.#list(query, one => one.spam);
    s.lists.trash = query => this.#list(query, one => one.trash);
    this.#program = s;
    for (const id of this.tickets.keys()) this.#answer(id);
  }

  #answer(id: string): void {
    if (this.#program) this.#program.details[`/tickets/${id}`] = () => this.#detail(id);
  }

  #list(query: URLSearchParams, filter: (one: Ticket) => boolean = () => true): unknown[] {
    this.listed.push(this.#asOfMs);
    if (Number(query.get('page') ?? 1) > 1) return [];
    const order = query.get('sort')?.includes('created') ? 'created_at' : 'updated_at';
    const wanted = [...query.entries()].filter(([name]) => /^id(\[\])?$/.test(name)).map(([, id]) => id);
    const since = (['created_at', 'updated_at'] as const).map(
      field => [field, query.get(`since_${field}`) ?? ''] as const,
    );
    const listed = [...this.tickets.values()]
      .filter(({ ticket }) => filter(ticket) && (wanted.length === 0 || wanted.includes(ticket.id)))
      .filter(({ ticket }) => since.every(([field, time]) => ticket[field] >= time))
      .sort((a, b) => (a.ticket[order] < b.ticket[order] ? -1 : a.ticket[order] > b.ticket[order] ? 1 : 0));
    return listed.map(one => this.#show(one));
  }

  #detail(id: string): unknown {
    const one = this.tickets.get(id);
    if (!one) {
      this.unreadable.delete(id);
      return 404;
    }
    const { broken } = one;
    const isBroken = (one: Told) => typeof broken === 'object' && one.id === broken.message;
    if (broken !== 'ticket') {
      const ids = one.messages.map(({ id }) => id);
      // While one cannot be read, none is removed.
      const kept = one.messages.some(isBroken)
        ? (this.said.get(id)?.messages ?? []).filter(({ id }) => !ids.includes(id))
        : [];
      this.said.set(id, {
        ...{ asOfMs: this.#asOfMs, whole: !one.messages.some(isBroken) },
        messages: [
          ...kept,
          ...one.messages.map((said, i) => ({ ...said, position: i + 1 })).filter(said => !isBroken(said)),
        ].sort((a, b) => a.position - b.position),
      });
    }
    const messages = one.messages.map(one => (isBroken(one) ? { ...one, created_at: '2026-02-30T00:00:00Z' } : one));
    return { ...(this.#show(one) as object), messages };
  }

  /** The date of a reply is that of its second; the reply is complete up to the second before. */
  get #asOfMs(): number {
    // The program may have waited before it asked again.
    return Math.floor(this.#program!.ctx.clock.now() / 1000) * 1000 - 1000;
  }

  #show({ ticket, broken }: One): unknown {
    const before = this.shown.get(ticket.id) ?? [];
    this.unreadable.delete(ticket.id);
    if (broken === 'ticket') this.unreadable.add(ticket.id);
    else
      this.shown.set(ticket.id, [
        ...before,
        { ticket: structuredClone(ticket), asOfMs: this.#asOfMs, byMs: this.#asOfMs + 2000 },
      ]);
    return broken === 'ticket' ? { ...ticket, user_id: 12 } : ticket;
  }

  #live(id: string, silent = false): void {
    const one = this.tickets.get(id);
    const was = one && wordsOfTicket(one.ticket);
    const life = this.lives.get(id) ?? [];
    if (life.length === 0 || life.at(-1)!.was !== was)
      this.lives.set(id, [...life, { fromMs: second(this.now), was, silent }]);
  }

  create(): void {
    // Each help desk has a ticket of this id.
    const id = `t${++this.#made}`;
    const made = iso(this.now);
    this.tickets.set(id, {
      ticket: ticket(id, {
        ...{ number: this.#made, created_at: made, updated_at: made, customer_id: `c${between(this.#rng, 1, 5)}` },
        ...{ inbox_id: pick(this.#rng, inboxes), type: pick(this.#rng, types) },
        label_ids: ['l1', 'l2', 'l3'].filter(() => this.#rng() < 0.3),
        // The first reply shows that the list holds both: no other list is read then.
        ...{ spam: this.#made === 1, trash: this.#made === 2 },
      }) as unknown as Ticket,
      messages: [],
      broken: undefined,
    });
    if (this.#rng() < 0.9) this.say(id);
    this.#answer(id);
    this.#live(id);
  }

  /** One team member answers every customer who wrote last: in one day, and in several inboxes. */
  answer(): void {
    for (const { ticket, messages } of this.tickets.values()) {
      const last = messages.at(-1);
      if (last?.type !== 'reply' || last.direction !== 'in') continue;
      this.say(ticket.id, ['reply', 'out', 'u1']);
      this.tickets.get(ticket.id)!.ticket = { ...ticket, updated_at: iso(this.now) };
    }
  }

  say(id: string, what?: readonly [string, string | null, string | null]): void {
    const one = this.tickets.get(id)!;
    const [type, direction, user_id] =
      what ??
      pick(this.#rng, [
        ...[['reply', 'in', null] as const, ['reply', 'in', null] as const, ['note', null, 'u2'] as const],
        ...[
          ['reply', 'out', 'u1'] as const,
          ['reply', 'out', 'u1'] as const,
          ['reply', 'out', 'u3'] as const,
          ['reply', 'out', null] as const,
        ],
        ['odd', null, null] as const,
      ]);
    const mid = `${id}-m${++this.#said}`;
    const files = this.#rng() < 0.2 ? [{ id: `${mid}-f`, name: 'f', type: 'text/plain', size: 1 }] : [];
    one.messages.push(
      message(mid, {
        ...{ type, direction, user_id, attachments: files },
        // The source shows some without their time.
        created_at: this.#rng() < 0.06 ? null : iso(this.now),
      }) as unknown as Told,
    );
  }

  /** What happens now to a ticket. Most changes move `updated_at`; some do not. */
  change(id: string): void {
    const rng = this.#rng;
    const one = this.tickets.get(id)!;
    const kind = pick(rng, [
      'say',
      'say',
      'say',
      'state',
      'state',
      'state',
      'say',
      'say',
      'say',
      'unsay',
      'user',
      'inbox',
      'label',
      'flag',
      'subject',
    ]);
    const edit: Partial<Ticket> = {};
    if (kind === 'state') edit.state = pick(rng, states) as Ticket['state'];
    else if (kind === 'user') edit.user_id = pick(rng, users);
    else if (kind === 'inbox') edit.inbox_id = pick(rng, inboxes) as Ticket['inbox_id'];
    else if (kind === 'label') edit.label_ids = ['l1', 'l2', 'l3'].filter(() => rng() < 0.4);
    else if (kind === 'flag') {
      const flag = pick(rng, ['spam', 'trash', undefined]);
      Object.assign(edit, { spam: flag === 'spam', trash: flag === 'trash' });
    } else if (kind === 'subject') edit.subject = `at ${this.now}`;
    else if (kind === 'unsay' && one.messages.length > 1)
      one.messages.splice(between(rng, 0, one.messages.length - 1), 1);
    else this.say(id);
    const silent = rng() < 0.15 && !['say', 'unsay'].includes(kind);
    one.ticket = { ...one.ticket, ...edit, ...(!silent && { updated_at: iso(this.now) }) };
    this.#live(id, silent);
  }

  /** From now on nobody can read the ticket, or a message that is new. */
  break(id: string, how: 'ticket' | 'message'): void {
    const one = this.tickets.get(id)!;
    if (one.broken) return;
    if (how === 'message') this.say(id);
    one.broken = how === 'message' ? { message: one.messages.at(-1)!.id } : how;
    one.ticket = { ...one.ticket, updated_at: iso(this.now) };
  }

  mend(): void {
    for (const one of this.tickets.values()) {
      if (!one.broken) continue;
      one.broken = undefined;
      one.ticket = { ...one.ticket, updated_at: iso(this.now) };
    }
  }

  delete(id: string): void {
    this.#deleted.push(this.tickets.get(id)!);
    this.tickets.delete(id);
    this.#live(id);
  }

  /** The ticket that was deleted first, if any, is there again. */
  restore(): void {
    const one = this.#deleted.shift();
    if (!one) return;
    this.tickets.set(one.ticket.id, one);
    one.ticket = { ...one.ticket, updated_at: iso(this.now) };
    this.#live(one.ticket.id);
  }
}
