/**
 * A list of a help desk that moves while it is read: in memory, on a virtual clock, written from the specification and
 * not from the client. Times have a grain of a second. A change takes effect in the second in which it happens, but may
 * show up later than that. The client has no clock here at all, only replies: so any offset between clocks is covered.
 */
import type { Ask, Ms, Only, Page } from '../../../src/reading/reading.ts';

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
  /** These do not show when they were created. */
  readonly unmade?: (id: string) => boolean;
  /** How many values each of them has, from '0' up: 1. */
  readonly types?: number;
  readonly users?: number;
  readonly inboxes?: number;
}

interface Version {
  /** By what the list is ordered, in whole seconds: when it was updated. */
  readonly time: Ms;
  readonly created: Ms;
  /** Counts every change of the world. */
  readonly version: number;
  readonly visibleAt: Ms;
}

interface Shown extends Version {
  readonly id: string;
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
    const id = `r${++this.#created}`;
    this.#records.set(id, [{ time, created, version: ++this.#versions, visibleAt: this.now + lateMs }]);
    return id;
  }

  update(id: string, lateMs = 0): void {
    const versions = this.#records.get(id);
    // A record of the future would move into the past: another matter than reading, since rows never grow older.
    if (versions === undefined || versions.at(-1)!.time > this.now) return;
    const { created } = versions[0]!;
    versions.push({ time: seconds(this.now), created, version: ++this.#versions, visibleAt: this.now + lateMs });
  }

  delete(id: string): void {
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
  truth(): Shown[] {
    const records = [...this.#records].map(([id, versions]) => ({ id, ...versions.at(-1)! }));
    return records.filter(({ id }) => !this.#options.unreadable?.(id));
  }

  /** What showed as of then, as it was, and has not been deleted since. */
  stood(asOf: Ms): Shown[] {
    return [...this.#records].flatMap(([id, versions]) => {
      const shown = versions.findLast(({ visibleAt }) => visibleAt <= asOf);
      return shown === undefined || this.#options.unreadable?.(id) || this.#options.unmade?.(id)
        ? []
        : [{ id, ...shown }];
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
          time: hidden
            ? Number.NaN
            : ask.order === 'created'
              ? this.#options.unmade?.(id)
                ? Number.NaN
                : created
              : time,
          version,
          trueTime: time,
          created,
        })),
      date,
      // As the client computes it: the header less the duration (rounded up), less a second.
      asOf: date - Math.ceil(this.now - sent) - 1000,
      total: ask.count ? (capped ? Math.min(counted, depth) : counted) : undefined,
    };
  }

  #select({ since, page, perPage, order, updatedSince, only }: Ask): { records: Shown[]; total: number } {
    const { inclusive, depth, unmade } = this.#options;
    if (page * perPage > depth) throw new Error(`page ${page} of ${perPage} lies beyond the depth of ${depth}`);
    const passes = (time: Ms, from: Ms | undefined) =>
      from === undefined || time > from || (inclusive && time === from);
    // Without a time of creation it comes first, and whoever asks for a time is not shown it.
    const placeOf = (id: string, { time, created }: Version) =>
      order === undefined ? time : unmade?.(id) ? Number.NEGATIVE_INFINITY : created;
    const records: (Shown & { readonly place: Ms })[] = [];
    for (const [id, versions] of this.#records) {
      const shown = versions.findLast(({ visibleAt }) => visibleAt <= this.now);
      if (shown === undefined || !passes(shown.time, updatedSince)) continue;
      const place = placeOf(id, shown);
      if (!passes(place, since) || (only !== undefined && !this.#hasValues(id, shown, only))) continue;
      records.push({ id, place, ...shown });
    }
    const tie = this.#tie(page);
    records.sort((a, b) => (a.place === b.place ? tie(a) - tie(b) : a.place - b.place));
    return { records: records.slice((page - 1) * perPage, page * perPage), total: records.length };
  }

  /** A change may give it another user. */
  #hasValues(id: string, { version }: Version, only: Only): boolean {
    const number = Number(id.slice(1));
    const { types = 1, users = 1, inboxes = 1 } = this.#options;
    const pick = (n: number, of: number) => String(scatter(n, of) % of);
    const values = {
      type: pick(number, types),
      user_id: pick(number + version, users),
      inbox_id: pick(-number, inboxes),
    };
    return Object.entries(only).every(([field, value]) => values[field as keyof Only] === value);
  }

  #tie(page: number): (record: Shown) => number {
    const number = ({ id }: Shown) => Number(id.slice(1));
    switch (this.#options.ties) {
      case 'change':
        return ({ version }) => version;
      case 'id':
        return number;
      case 'request':
        return record => scatter(number(record), this.asked.length);
      case 'page':
        return record => scatter(number(record), page);
    }
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

export const seconds = (ms: Ms): Ms => Math.floor(ms / 1000) * 1000;

/** A number that looks like chance, and is not. */
function scatter(a: number, b: number): number {
  let h = Math.imul(a, 0x9e3779b1) ^ Math.imul(b + 1, 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d);
  h = Math.imul(h ^ (h >>> 12), 0x297a2d39);
  return (h ^ (h >>> 15)) >>> 0;
}
