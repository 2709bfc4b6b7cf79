/**
 * A list of a help desk that moves while it is read: in memory, on a virtual clock, written from the specification and
 * not from the client. Times have a grain of a second. A change takes effect in the second in which it happens, but may
 * show up later than that. The client has no clock here at all, only replies: so any offset between clocks is covered.
 */
import type { Ask, Ms, Only, Page } from '../../../src/engine/reading/reading.ts';

/**
 * How records of one second stand: `change` (the later change later) and `id` stand still; `request` deals them anew
 * for each request; `page` always shows the same page the same way, but each page after an order of its own, as
 * databases do that sort only as far as they have to.
 */
export type Ties = 'change' | 'id' | 'request' | 'page';

export interface Change {
  /** Moments to wait after the change before; a request has four of them. */
  readonly skip: number;
  readonly kind: 'update' | 'twice' | 'bulk' | 'create' | 'delete' | 'future';
  /** Which record. */
  readonly pick: number;
  /** How many records, for `bulk` and `create`; how many seconds ahead, for `future`. */
  readonly count: number;
  /** How long it takes to show up. */
  readonly lateMs: number;
}

/**
 * `count` records of one second, `gap` seconds after those before. They were created in the same second, or, `made` by so
 * many at a time, long before, a second for each lot.
 */
export interface Second {
  readonly gap: number;
  readonly count: number;
  readonly made?: number | undefined;
}

export interface ModelOptions {
  readonly inclusive: boolean;
  readonly ties: Ties;
  readonly depth: number;
  /** Oldest first. The last one is `ageMs` old when it begins. */
  readonly layout: readonly Second[];
  readonly ageMs: number;
  /** How long the moments take, over and over. */
  readonly pace?: readonly number[];
  readonly changes?: readonly Change[];
  /** The list is ordered by a time that its records do not show. */
  readonly hidden?: boolean;
  /** Total-Count stops at the depth. */
  readonly capped?: boolean;
  /** Total-Count is wrong by this many; by these in turn. By creation it is right, or stops: there it is the witness. */
  readonly miscounted?: number | readonly number[];
  readonly unreadable?: (id: string) => boolean;
  /** Pages hold no more records, however many are asked for. */
  readonly pageCap?: number;
  /** These are taken out of a page after it was cut. */
  readonly taken?: (id: string) => boolean;
  /** Total-Count leaves them out as well. */
  readonly countsShown?: boolean;
  /** How many values each of them has, from '0' up: 1. */
  readonly types?: number;
  readonly users?: number;
  readonly inboxes?: number;
}

interface Version {
  readonly id: string;
  /** Of the id. */
  readonly number: number;
  /** By what the list is ordered, in whole seconds: when it was updated. */
  readonly time: Ms;
  readonly created: Ms;
  /** Counts every change of the world. */
  readonly version: number;
  readonly visibleAt: Ms;
}

/** What shows, until the list is another one or its clock has reached the next of what is late. */
interface Showing {
  readonly happened: number;
  readonly until: Ms;
  /** In the order of the list, where that is the same for every request. */
  readonly records: readonly Version[];
}

export const start: Ms = Date.parse('2026-03-01T12:00:00Z');

export class ModelList {
  /** The source's clock. */
  now: Ms = start;
  readonly asked: Ask[] = [];
  readonly #options: ModelOptions;
  readonly #records = new Map<string, Version[]>();
  readonly #changes: Change[];
  #versions = 0;
  /** Counts whatever happens: what was found before is found anew then. */
  #happened = 0;
  #truth: { readonly happened: number; readonly records: readonly Version[] } = { happened: -1, records: [] };
  readonly #showing = new Map<Ask['order'], Showing>();
  #created = 0;
  #moments = 0;
  #counts = 0;
  #lastChange = 0;

  constructor(options: ModelOptions) {
    this.#options = options;
    this.#changes = [...(options.changes ?? [])];
    const length = options.layout.reduce((sum, { gap }) => sum + gap, 0);
    let time = seconds(start - options.ageMs) - length * 1000;
    let made = time - 3_600_000;
    for (const { gap, count, made: lot } of options.layout) {
      time += gap * 1000;
      for (let i = 0; i < count; i++) {
        if (lot !== undefined && i % lot === 0) made += 1000;
        this.add(time, 0, lot === undefined ? time : made);
      }
    }
  }

  // --- what happens ------------------------------------------------------------------------------------------------

  add(time = seconds(this.now), lateMs = 0, created = time): string {
    const number = ++this.#created;
    const id = `r${number}`;
    this.#happened++;
    this.#records.set(id, [{ id, number, time, created, version: ++this.#versions, visibleAt: this.now + lateMs }]);
    return id;
  }

  update(id: string, lateMs = 0): void {
    const versions = this.#records.get(id);
    // A record of the future would move into the past: another matter than reading, since rows never grow older.
    if (versions === undefined || versions.at(-1)!.time > this.now) return;
    const { number, created } = versions[0]!;
    const visibleAt = this.now + lateMs;
    this.#happened++;
    versions.push({ id, number, time: seconds(this.now), created, version: ++this.#versions, visibleAt });
  }

  delete(id: string): void {
    this.#happened++;
    this.#records.delete(id);
  }

  change({ kind, pick, count, lateMs }: Change): void {
    const ids = [...this.#records.keys()];
    const id = ids[pick % ids.length];
    if (kind === 'create') for (let i = 0; i < count; i++) this.add(undefined, lateMs);
    else if (kind === 'future') this.add(seconds(this.now) + count * 1000);
    else if (id === undefined) return;
    else if (kind === 'delete') this.delete(id);
    else if (kind === 'bulk') for (let i = 0; i < count; i++) this.update(ids[(pick + i) % ids.length]!, lateMs);
    else for (let i = 0; i < (kind === 'twice' ? 2 : 1); i++) this.update(id, lateMs);
  }

  /** Everything that was still to happen has happened, and shown up, ten minutes ago; from now on it is quiet. */
  settle(lookbackMs: number): void {
    for (const change of this.#changes.splice(0)) this.change(change);
    this.now += lookbackMs + 600_000;
  }

  // --- what it holds -----------------------------------------------------------------------------------------------

  /** The last version of each record that can be read, whether it shows already or not. */
  truth(): readonly Version[] {
    if (this.#truth.happened !== this.#happened) {
      const last = [...this.#records.values()].map(versions => versions.at(-1)!);
      const { unreadable, taken } = this.#options;
      const records = last.filter(({ id }) => !unreadable?.(id) && !taken?.(id));
      this.#truth = { happened: this.#happened, records };
    }
    return this.#truth.records;
  }

  /** What showed as of then, as it was, and has not been deleted since. */
  stood(asOf: Ms): Version[] {
    return [...this.#records].flatMap(([id, versions]) => {
      const shown = versions.findLast(({ visibleAt }) => visibleAt <= asOf);
      const { unreadable, taken } = this.#options;
      return shown === undefined || unreadable?.(id) || taken?.(id) ? [] : [shown];
    });
  }

  // --- what it answers ---------------------------------------------------------------------------------------------

  /** One request, with what happens before, while and after it is read. */
  answer(ask: Ask): Page {
    this.asked.push(ask);
    this.#moment();
    const sent = this.now;
    this.#moment();
    const { records, total } = this.#select(ask);
    this.#moment();
    const date = seconds(this.now);
    this.#moment();
    const { unreadable, hidden, capped, miscounted = 0, depth } = this.#options;
    const wrong = [miscounted].flat();
    const counted = Math.max(
      0,
      total + (ask.count && ask.order === undefined ? wrong[this.#counts++ % wrong.length]! : 0),
    );
    return {
      arrived: records.length,
      rows: records
        .filter(({ id }) => !unreadable?.(id))
        .map(({ id, time, created, version }) => ({
          id,
          time: hidden ? Number.NaN : ask.order === 'created' ? created : time,
          version,
          trueTime: time,
          created,
        })),
      trueBy: date + 1000,
      // As the client computes it: the header less the duration (rounded up), less a second.
      asOf: date - Math.ceil(this.now - sent) - 1000,
      total: ask.count ? (capped ? Math.min(counted, depth) : counted) : undefined,
    };
  }

  #select(ask: Ask): { records: readonly Version[]; total: number } {
    const { since, page, perPage, order, updatedSince, only } = ask;
    const { inclusive, depth, ties } = this.#options;
    if (page * perPage > depth) throw new Error(`page ${page} of ${perPage} lies beyond the depth of ${depth}`);
    const passes = (time: Ms, from: Ms | undefined) =>
      from === undefined || time > from || (inclusive && time === from);
    let records = this.#showsNow(order).filter(
      shown =>
        passes(this.#place(shown, order), since) &&
        passes(shown.time, updatedSince) &&
        (only === undefined || this.#hasValues(shown, only)),
    );
    if (ties === 'request' || ties === 'page') records = this.#shuffled(records, order, page);
    if (order === 'newest') records.reverse();
    const { pageCap = Infinity, taken, countsShown } = this.#options;
    const size = Math.min(perPage, pageCap);
    const shows = ({ id }: Version) => !taken?.(id);
    return {
      records: records.slice((page - 1) * size, page * size).filter(shows),
      total: countsShown ? records.filter(shows).length : records.length,
    };
  }

  #place({ time, created }: Version, order: Ask['order']): Ms {
    return order === undefined ? time : created;
  }

  #showsNow(order: Ask['order']): readonly Version[] {
    const known = this.#showing.get(order);
    if (known !== undefined && known.happened === this.#happened && this.now < known.until) return known.records;
    let until = Number.POSITIVE_INFINITY;
    const records: Version[] = [];
    for (const versions of this.#records.values()) {
      const at = versions.findLastIndex(({ visibleAt }) => visibleAt <= this.now);
      if (at >= 0) records.push(versions[at]!);
      for (const { visibleAt } of versions.slice(at + 1)) until = Math.min(until, visibleAt);
    }
    const tie = ({ version, number }: Version) => (this.#options.ties === 'change' ? version : number);
    records.sort((a, b) => this.#place(a, order) - this.#place(b, order) || tie(a) - tie(b));
    this.#showing.set(order, { happened: this.#happened, until, records });
    return records;
  }

  /** Those of one second in an order of this request alone, or of this page. */
  #shuffled(records: readonly Version[], order: Ask['order'], page: number): Version[] {
    const by = this.#options.ties === 'page' ? page : this.asked.length;
    return records
      .map(shown => ({ shown, place: this.#place(shown, order), tie: scatter(shown.number, by) }))
      .sort((a, b) => (a.place === b.place ? a.tie - b.tie : a.place - b.place))
      .map(({ shown }) => shown);
  }

  /** A change may give it another user. */
  #hasValues({ number, version }: Version, only: Only): boolean {
    const { types = 1, users = 1, inboxes = 1 } = this.#options;
    const pick = (n: number, of: number) => String(scatter(n, of) % of);
    const values = {
      type: pick(number, types),
      user_id: pick(number + version, users),
      inbox_id: pick(-number, inboxes),
    };
    return Object.entries(only).every(([field, value]) => values[field as keyof Only] === value);
  }

  /** Time passes, and in the middle of it happens what is due. */
  #moment(): void {
    const { pace = [] } = this.#options;
    const length = pace[this.#moments++ % pace.length] ?? 0;
    this.now += Math.floor(length / 2);
    while (this.#changes[0] && this.#lastChange + this.#changes[0].skip <= this.#moments) {
      const change = this.#changes.shift()!;
      this.#lastChange += change.skip;
      this.change(change);
    }
    this.now += Math.ceil(length / 2);
  }
}

/** A row of the model's page, with what the tests know of it and the readers do not. */
export interface ModelRow {
  readonly id: string;
  readonly time: Ms;
  readonly version: number;
  readonly trueTime: Ms;
  readonly created: Ms;
}

const seconds = (ms: Ms): Ms => Math.floor(ms / 1000) * 1000;

/** A number that looks like chance, and is not. */
function scatter(a: number, b: number): number {
  let h = Math.imul(a, 0x9e3779b1) ^ Math.imul(b + 1, 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d);
  h = Math.imul(h ^ (h >>> 12), 0x297a2d39);
  return (h ^ (h >>> 15)) >>> 0;
}
