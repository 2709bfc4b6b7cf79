/**
 * What must hold at every step (docs/SPEC.md), seen against the world's truth. Each complaint begins with the invariant
 * that is broken.
 */
import { BooksService } from '../../sandbox/src/books/service.ts';
import type { WorldTicket } from '../../sandbox/src/helpdesk/world/rows.ts';
import type { World } from '../../sandbox/src/helpdesk/world/world.ts';
import type { Catalog } from './catalog.ts';
import type { Database, Statement } from './database.ts';
import { tracesOf } from './erasing.ts';
import type { History } from './history.ts';
import type { Exchange } from './network.ts';
import type { Plan } from './plan.ts';
import type { Actor } from './scheduler.ts';

/**
 * One round trip: the tickets that transactions from $1 on have written, what is claimed, who is at work. Times in ms. There is one
 * connection, so the numbers of transactions are in the order of their commits.
 */
const looks = `select pg_snapshot_xmax(pg_current_snapshot())::text::float8 as next,
    (select count(*)::int from helpdesk.tickets) as count,
    (select coalesce(json_agg(json_build_array(id, extract(epoch from updated_at)::float8 * 1000,
       extract(epoch from _observed_at)::float8 * 1000, extract(epoch from _deleted_at)::float8 * 1000,
       json_build_array(subject, state, user_id, label_ids, spam, trash, inbox_id, type))), '[]')
     from helpdesk.tickets where xmin::text::float8 >= $1) as tickets,
    (select coalesce(json_agg(json_build_array(id, extract(epoch from _deleted_at)::float8 * 1000)), '[]')
     from helpdesk.customers where _deleted_at is not null and xmin::text::float8 >= $1) as customers,
    (select coalesce(json_agg(json_build_array(c.list, c.redundant, extract(epoch from lower(r))::float8 * 1000,
       extract(epoch from upper(r))::float8 * 1000)), '[]')
     from sync.coverage c, unnest(c.covered) r where c.stream = 'tickets') as coverage,
    (select coalesce(json_agg(json_build_array(extract(epoch from lower(seconds))::float8 * 1000,
       extract(epoch from upper(seconds))::float8 * 1000)), '[]') from sync.ties where stream = 'tickets') as ties,
    (select coalesce(json_agg(coalesce(record_id, '')), '[]') from sync.rejects
     where stream = 'tickets' and cleared_at is null) as rejected,
    (select coalesce(json_agg(json_build_array(s.run_id, s.stream_key, s.token)), '[]')
     from sync.stored_run_streams s) as claims,
    (select coalesce(json_agg(customer_id), '[]') from sync.erased) as erased`;

type TicketRow = [id: string, updatedMs: number, observedMs: number, deletedMs: number | null, shown: unknown[]];

interface Seen {
  /** The number of the next transaction. */
  next: number;
  /** Of all tickets. */
  count: number;
  /** Those that are new or changed since the last look. */
  tickets: TicketRow[];
  customers: [id: string, deletedMs: number][];
  coverage: [list: string, redundant: boolean, fromMs: number, toMs: number][];
  /** Read by pages, and not yet certain: a later sync takes them back, or does not. */
  ties: [fromMs: number, toMs: number][];
  /** Ids that could not be stored, and say so; '' for one that shows no id. */
  rejected: string[];
  claims: [run: number, stream: string, token: number][];
  /** Ids of customers. */
  erased: string[];
}

/** A tombstone may be this much from the reply that it was made for: the way back, and grains of a second. */
const grainMs = 45_000;

export class Check {
  readonly complaints: string[] = [];
  checks = 0;
  readonly #world: World;
  readonly #plan: Plan;
  readonly #history: History;
  readonly #database: Database;
  readonly #catalog: Catalog;
  #dirty = false;
  #isCatalogDirty = false;
  /** People who are erased. */
  erased: ReadonlySet<string> = new Set();
  /** Transactions that stored several pages, or several tickets with their messages. */
  batches = 0;
  #merges = 0;
  /** The first transaction that the last look has not seen. */
  #next = 0;
  /** What each ticket was at the last look, so that its version can only grow. */
  readonly #before = new Map<string, TicketRow>();
  /** What each ticket shows, as text. */
  readonly #shown = new Map<string, string>();
  /** Tombstones that were seen, and their times. */
  readonly #dead = new Map<string, number>();
  /** Commits under a token that was not the newest one. */
  #committed: { key: string; token: number }[] = [];
  /** Ids to which the source has answered 404. */
  readonly #notFound = new Set<string>();
  /** The last refusal: between these times nobody may send, unless who had it died before it told the others. */
  #refused: { by: Actor; fromMs: number; toMs: number; isTold: boolean } | undefined;

  constructor(at: { world: World; plan: Plan; history: History; database: Database; catalog: Catalog }) {
    this.#catalog = at.catalog;
    this.#world = at.world;
    this.#plan = at.plan;
    this.#history = at.history;
    this.#database = at.database;
  }

  complain(what: string): void {
    if (this.complaints.length < 20) this.complaints.push(what);
  }

  /** Of each statement that was carried out. */
  readonly statement = ({ text, values }: Statement, by: Actor, rowCount: number | null): void => {
    if (this.#refused?.by === by && text.includes('sync.credit_minutes') && values[16] === 1 && rowCount === 1)
      this.#refused.isTold = true;
    if (text.startsWith('begin')) this.#merges = 0;
    if (/^\s*with asked as materialized/.test(text) && ++this.#merges === 2) this.batches++;
    if (/^\s*(with|update|insert|delete)\b/.test(text) && text.includes('books.')) this.#isCatalogDirty = true;
    if (/^\s*(with|update|insert|delete)\b/.test(text) && /helpdesk\.|sync\.coverage|sync\.swept/.test(text))
      this.#dirty = true;
    if (text.startsWith('update sync.stored_run_streams set\n        seen') && rowCount === 1) {
      this.#committed.push({ key: `${values[0]} ${values[1]}`, token: values[2] as number });
      this.#dirty = true;
    }
  };

  readonly exchange = ({ by, path, status, sentMs, arrivedMs, repliedMs, headers }: Exchange): void => {
    if (BooksService.takes(path)) return;
    const [, id] = /^\/api\/v1\/(?:tickets|customers)\/([^/?]+)/.exec(path) ?? [];
    if (status === 404 && id !== undefined) this.#notFound.add(decodeURIComponent(id));
    const last = this.#refused;
    if (last && (last.isTold || !last.by.dead) && sentMs > last.fromMs && sentMs < last.toMs)
      this.complain(`I5: sent ${last.toMs - sentMs} ms before the silence after a 429 was over`);
    if (status !== 429) return;
    if (this.#isAlone()) this.complain('I4: a 429, alone on the account');
    if (repliedMs === undefined || this.#plan.clocksMs > 0 || this.#plan.troubles > 0) return;
    // Whoever was granted a credit before the refusal was told may send still.
    const toMs = arrivedMs + Number(headers['Rate-Limit-Reset']) * 1000;
    this.#refused = { by, fromMs: repliedMs + 1000, toMs, isTold: false };
  };

  /** The database's clock tells when credits are free: where it is set, nothing is promised. */
  #isAlone(): boolean {
    const { foreign, clocksMs, rules } = this.#plan;
    return foreign === 0 && clocksMs === 0 && !JSON.stringify(rules).includes('429');
  }

  /** After each effect, if it has changed anything that matters. */
  async look(): Promise<void> {
    if (this.#isCatalogDirty) {
      this.#isCatalogDirty = false;
      this.checks++;
      for (const what of await this.#catalog.torn(this.#database)) this.complain(what);
    }
    if (!this.#dirty) return;
    this.#dirty = false;
    this.checks++;
    const { rows } = await this.#database.query({ text: looks, values: [this.#next] }, 0);
    const seen: Seen = rows[0];
    this.#next = seen.next;
    await this.#erasures(seen);
    this.#fences(seen);
    this.#tombstones(seen);
    this.#versions(seen);
    this.#coverage(seen);
  }

  /** I23: once somebody is erased nothing of them is left, and no row of a ticket of theirs has a text again. */
  async #erasures({ erased, tickets }: Seen): Promise<void> {
    const isNew = erased.some(id => !this.erased.has(id));
    this.erased = new Set(erased);
    if (isNew) for (const what of await tracesOf(this.#database, this.#history, erased)) this.complain(what);
    for (const [id, , , , [subject]] of tickets)
      if (subject !== null && this.erased.has(this.#history.customerOf.get(id)!))
        this.complain(`I23: ticket ${id} of an erased person has the subject '${subject}'`);
  }

  /** I1: nobody commits under an old token. */
  #fences({ claims }: Seen): void {
    const newest = new Map(claims.map(([run, stream, token]) => [`${run} ${stream}`, token]));
    for (const { key, token } of this.#committed) {
      if (newest.get(key) !== token)
        this.complain(`I1: stream ${key}: a commit under token ${token} of ${newest.get(key)}`);
    }
    this.#committed = [];
  }

  /** I6: a tombstone only after a 404, and for what was not there then. */
  #tombstones({ tickets, customers }: Seen): void {
    const deleted = [
      ...tickets
        .filter(([, , , deletedMs]) => deletedMs !== null)
        .map(([id, , , deletedMs]) => [id, deletedMs!] as const),
      ...customers,
    ];
    for (const [id, deletedMs] of deleted) {
      if (this.#dead.get(id) === deletedMs) continue;
      this.#dead.set(id, deletedMs);
      if (!this.#notFound.has(id)) this.complain(`I6: ${id} has a tombstone, and the source was not asked for it`);
      // The tombstone tells the source's time, which is compared by the steady clock; a copy may be behind.
      const { clock } = this.#world;
      const atMs = deletedMs - (clock.now() - clock.steady());
      const unevenMs = this.#plan.behindMs + this.#plan.jumpMs;
      if (!this.#history.wasAway(id, atMs - grainMs - unevenMs, atMs + grainMs))
        this.complain(`I6: ${id} has a tombstone, and the source has it`);
    }
  }

  /** A rule takes the subjects out, now or later. */
  get #isLeftOut(): boolean {
    return this.#plan.fields.includes('subject');
  }

  /** I2: the newest known version of a ticket only grows, and an equal one is no older. */
  #versions({ tickets, count }: Seen): void {
    for (const row of tickets) {
      const [id, updatedMs, observedMs] = row;
      const before = this.#before.get(id);
      this.#before.set(id, row);
      const [subject, ...others] = row[4];
      this.#shown.set(id, JSON.stringify([this.#isLeftOut ? null : subject, ...others]));
      if (before === undefined || this.#plan.jumpMs > 0 || this.#history.ahead.has(id)) continue;
      if (updatedMs < before[1])
        this.complain(`I2: ticket ${id} went back from ${iso(before[1])} to ${iso(updatedMs)}`);
      else if (updatedMs === before[1] && observedMs < before[2])
        this.complain(`I2: ticket ${id}: an older copy has won`);
    }
    if (count !== this.#before.size) this.complain(`I2: ${this.#before.size - count} tickets have no row any more`);
  }

  /** I1 and I3: of what is claimed nothing is missing, and nothing is old. */
  #coverage({ coverage, ties, rejected }: Seen): void {
    if (rejected.includes('')) return;
    for (const ticket of this.#world.tickets.values()) {
      const is = () => JSON.stringify(shownOf(ticket, this.#isLeftOut || this.erased.has(ticket.customer_id)));
      if (this.#history.silent.has(ticket.id) || rejected.includes(ticket.id)) continue;
      const updatedMs = Date.parse(ticket.updated_at);
      const list = this.#listOf(ticket);
      const claimed = coverage.some(([name, , from, to]) => name === list && from <= updatedMs && updatedMs < to);
      if (!claimed || ties.some(([from, to]) => from <= updatedMs && updatedMs < to)) continue;
      const row = this.#before.get(ticket.id);
      if (row !== undefined && row[1] === updatedMs && row[3] === null)
        if (this.#shown.get(ticket.id) === is()) continue;
      const what = `ticket ${ticket.id} of ${iso(updatedMs)}, which is covered,`;
      if (row === undefined) this.complain(`I3: ${what} is missing`);
      else if (row[1] !== updatedMs) this.complain(`I3: ${what} is shown as of ${iso(row[1])}`);
      else if (row[3] !== null) this.complain(`I3: ${what} has a tombstone`);
      else this.complain(`I3: ${what} is shown as ${this.#shown.get(ticket.id)} instead of ${is()}`);
    }
  }

  #listOf({ spam, trash }: WorldTicket): string {
    const { spamListed, trashListed } = this.#plan.readings;
    if (spam && spamListed === false) return 'spam';
    return trash && trashListed === false ? 'trash' : 'default';
  }
}

const shownOf = (t: WorldTicket, isBare: boolean) => [
  isBare ? null : t.subject,
  t.state,
  t.user_id,
  t.label_ids,
  t.spam,
  t.trash,
  t.inbox_id,
  t.type,
];
const iso = (ms: number) => new Date(ms).toISOString().slice(11, 19);
