/**
 * A small help desk: a few records of one list, whose clock has a grain of a second. It is written from the
 * specification. All times are whole seconds after `epoch`.
 */
import type { Ask, Cuts, Page, Proof } from '../../../../src/engine/reading/reading.ts';

/** Second 0. Far from 1970, where some readers begin. */
const epoch = Date.UTC(2026, 2, 1);
export const toMs = (second: number): number => epoch + second * 1000;
export const toSecond = (ms: number): number => Math.floor((ms - epoch) / 1000);

/** The second in which 1970 begins. */
export const year1970 = -epoch / 1000;
/** A record that does not show when it was created. It stands before all others, and no `since` shows it. */
export const undated = -2_100_000_000;
/** Where a record counts that was created then: all that is older, or has no time, as of 1970. */
export const placeOf = (created: number): number => Math.max(created, year1970);
/** A second of creation as a number of two digits. */
const shortOf = (second: number): number =>
  second === undated ? -24 : second < -1000 ? Math.min(-21, second - year1970 - 22) : second;
export const secondName = (second: number): string =>
  second === undated ? 'undated' : second < -1000 ? new Date(toMs(second)).toISOString().slice(0, 19) : String(second);

interface Version {
  /** What the list is ordered by: when it was updated, as the source says. */
  readonly time: number;
  /** Counts the changes of the world. */
  readonly order: number;
  readonly made: number;
  /** From this second on every up-to-date copy shows it. */
  readonly shows: number;
  /** Its type, user and inbox, a bit each. */
  readonly values?: number;
}

export interface Item {
  readonly created: number;
  /** The oldest that a copy may still show, and everything after it. */
  readonly versions: readonly Version[];
  /** The second in which it was deleted. */
  readonly gone: number | undefined;
}

export interface World {
  readonly now: number;
  readonly orders: number;
  /** The id of a record is its place. */
  readonly items: readonly Item[];
}

export interface Rules {
  /** How many seconds a change may take to show. */
  readonly lookback: number;
  readonly perPage: number;
  /** Pages that can be asked for. */
  readonly pages: number;
  /** `since` includes its own second. */
  readonly inclusive: boolean;
  /** How records of one second stand: the later change later, by id, by id downwards, or by id and turned round each second. */
  readonly ties: 'change' | 'id' | 'id down' | 'id, turning';
  /**
   * Whether the source rounds its `Date` down or up. `with a fraction`: it tells three tenths of a second more than the
   * second, and whatever is wanted begins and ends within a second too.
   */
  readonly date: 'down' | 'up' | 'with a fraction';
  /** The list stands in the order of creation, which its records do not show. */
  readonly hidden?: boolean;
  /** Which types, users and inboxes are known, of two each; undefined: none is asked for. */
  readonly known?: readonly [number, number, number];
  /** A count stops at what paging reaches. */
  readonly stops?: boolean;
  /** The source keeps to no order: each page stands the other way round. */
  readonly reversed?: boolean;
  /** These records cannot be read. */
  readonly unreadable?: readonly number[];
}

/** The reply says that it shows everything before this second: its Date, less a second. */
export const asOf = ({ now }: World, { date }: Rules) => (date === 'up' ? now : now - 1);
export const dateOf = ({ now }: World, { date }: Rules) => (date === 'up' ? now + 1 : now);

/** What a reply tells beyond a whole second. */
const fractionOf = ({ date }: Rules) => (date === 'with a fraction' ? 300 : 0);
/** Where a reading begins that is to begin in this second, and where one ends that is to end before it. */
export const beginningAt = (second: number, rules: Rules): number => toMs(second) + fractionOf(rules);
export const endAt = (second: number, { date }: Rules): number => toMs(second) - (date === 'with a fraction' ? 700 : 0);

/** Whatever is claimed, left or noted begins and ends with a second, and is not empty. */
export function unevenIn({ covered, gap, tie }: Proof): string | undefined {
  if ([covered, gap, tie].some(range => range && range.from >= range.to)) return 'a range is empty';
  const uneven = [covered, gap, tie].find(range => range && [range.from, range.to].some(ms => ms % 1000 !== 0));
  return uneven && 'a range does not begin and end with a second';
}

/** When records were created: when they were updated; long before, all in one second, or in a second each; or see below. */
export type Made = 'then' | 'together' | 'apart' | 'apart, three of them long ago' | 'apart, the first second together';

/**
 * Records of one kind: `times` when they were updated, oldest first. Those of the first second may be created
 * together, and the others apart. Three of them may be very old: two show no time, and one
 * was created before 1970.
 */
export function begin(
  times: readonly number[],
  now: number,
  made: Made = 'then',
  values: readonly number[] = [],
): World {
  const old = made.endsWith('long ago') ? [undated, undated, year1970 - 1] : [];
  const createdAt = (time: number, i: number) => {
    if (made === 'then') return time;
    const isTogether = made === 'together' || (made.endsWith('second together') && time === times[0]);
    return old[i - times.length + old.length] ?? (isTogether ? -20 : -20 + i);
  };
  const items = times.map((time, i) => ({
    created: createdAt(time, i),
    versions: [{ time: Math.max(time, -20), order: i, made: -20, shows: -20, values: values[i] ?? 0 }],
    gone: undefined,
  }));
  return { now, orders: times.length, items };
}

export function withVersion(world: World, id: number, { late = 0, ahead = 0, turned = 0 } = {}): World {
  const { now, orders } = world;
  const item = world.items[id];
  const values = (item?.versions.at(-1)?.values ?? 0) ^ turned;
  const version = { time: now + ahead, order: orders, made: now, shows: now + late, values };
  const changed = item
    ? { ...item, versions: [...item.versions, version] }
    : { created: now, versions: [version], gone: undefined };
  return { now, orders: orders + 1, items: replaced(world.items, id, changed) };
}

export const without = (world: World, id: number): World => ({
  ...world,
  items: replaced(world.items, id, { ...world.items[id]!, gone: world.now }),
});

export const replaced = <T>(list: readonly T[], at: number, one: T): T[] => {
  const copy = [...list];
  copy[at] = one;
  return copy;
};

export const lives = ({ gone }: Item): boolean => gone === undefined;

/** A second later. What no copy can show any more is forgotten. */
export function tick(world: World, { lookback }: Rules): World {
  const now = world.now + 1;
  const items = world.items.map(item => {
    const certain = item.versions.findLastIndex(({ made }) => made + lookback < now);
    return certain > 0 ? { ...item, versions: item.versions.slice(certain) } : item;
  });
  return { ...world, now, items };
}

/** What a copy shows of a record that is `behind` so many seconds. */
function shown({ versions, gone }: Item, now: number, behind: number, lookback: number): Version | undefined {
  if (gone !== undefined && (gone <= now - behind || gone + lookback < now)) return undefined;
  return versions.findLast(({ shows, made }) => shows <= now - behind || made + lookback < now);
}

export interface Shown {
  readonly id: number;
  readonly time: number;
  readonly created: number;
  readonly version: Version;
}

/** The records of a request, in their order, and how many there are on all pages. */
function answer(world: World, ask: Ask, rules: Rules, behind = 0): { rows: Shown[]; total: number } {
  const { inclusive, ties } = rules;
  const since = ask.since === undefined ? -Infinity : toSecond(ask.since);
  const updatedSince = ask.updatedSince === undefined ? -Infinity : toSecond(ask.updatedSince);
  const place = ({ time, created }: Shown) => (ask.order === 'created' ? created : time);
  const passes = (time: number, from: number) => time > from || (inclusive && time === from);
  const all: Shown[] = [];
  world.items.forEach((item, id) => {
    const version = shown(item, world.now, behind, rules.lookback);
    if (version === undefined) return;
    const one = { id, time: version.time, created: item.created, version };
    if (passes(place(one), since) && passes(one.time, updatedSince) && isOf(version, ask.only)) all.push(one);
  });
  const isDown = ties === 'id down' || (ties === 'id, turning' && world.now % 2 === 1);
  const tie = (one: Shown) => (ties === 'change' ? one.version.order : isDown ? -one.id : one.id);
  all.sort((a, b) => place(a) - place(b) || tie(a) - tie(b));
  const total = rules.stops ? Math.min(all.length, rules.pages * rules.perPage) : all.length;
  return { rows: all.slice((ask.page - 1) * ask.perPage, ask.page * ask.perPage), total };
}

const fields = ['type', 'user_id', 'inbox_id'] as const;
const isOf = ({ values = 0 }: Version, only: Ask['only'] = {}) =>
  fields.every((field, n) => only[field] === undefined || only[field] === String((values >> n) & 1));

/** The known values, as the reader gets them. */
export function cutsOf({ known }: Rules): Cuts | undefined {
  if (known === undefined) return undefined;
  const [types, users, inboxes] = known.map(length => Array.from({ length }, (_, n) => String(n)));
  return { types: types!, users: users!, inboxes: inboxes! };
}

/** What the source answers with an error, or has no page for. Without a record on it a page tells a count only. */
export function refused({ since = 0, page, perPage, count, order }: Ask, rules: Rules): string | undefined {
  // A page of two has no part of another size.
  const back = order === undefined && rules.perPage > 2 ? [rules.perPage - 1] : [];
  const sizes = rules.hidden ? [rules.perPage, 1, 0] : rules.known ? [rules.perPage, 0] : [rules.perPage, ...back];
  // By creation a reading begins before 1970, or with no time at all.
  const isRight =
    since >= (order === 'created' ? -1000 : 0) &&
    since < Infinity &&
    page >= 1 &&
    page * perPage <= rules.pages * rules.perPage &&
    sizes.includes(perPage);
  return isRight && (perPage > 0 || (count === true && page === 1))
    ? undefined
    : `a reading requests page ${page} of ${perPage} records`;
}

/**
 * A reply as readers get it, and a number that stands for it. `faulty`: its records stand in no order, or none of a full page
 * can be read.
 */
export function replyTo(world: World, ask: Ask, rules: Rules, behind: number, reversed = rules.reversed === true) {
  const { rows: all, total } = answer(world, ask, rules, behind);
  if (reversed) all.reverse();
  const rows = all.filter(({ id }) => !rules.unreadable?.includes(id));
  let code = asOf(world, rules) + 8;
  const timeOf = ({ time, created }: Shown) => (ask.order === 'created' ? created : time);
  for (const row of rows) code = code * 1024 + row.id * 64 + (rules.hidden ? 0 : shortOf(timeOf(row)) + 24);
  const told = (time: number) => (rules.hidden || time === undated ? Number.NaN : toMs(time));
  code = (code * 8 + all.length) * 16 + (ask.count ? total + 1 : 0);
  const page = (): Page => ({
    arrived: all.length,
    rows: rows.map(row => ({ id: `r${row.id}`, time: told(timeOf(row)) })),
    asOf: toMs(asOf(world, rules)) + fractionOf(rules),
    trueBy: toMs(dateOf(world, rules) + 1) + fractionOf(rules),
    total: ask.count ? total : undefined,
  });
  const isTurned = rows.some((row, i) => i > 0 && timeOf(row) < timeOf(rows[i - 1]!));
  const faulty = isTurned || (rows.length === 0 && all.length > 0 && all.length === ask.perPage);
  return { rows, code, page, arrived: all.length, faulty };
}
