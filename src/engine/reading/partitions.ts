/**
 * Takes apart a second of creation with more records than paging reaches: by type, then by user, then by inbox, as far
 * as each part needs it, page after page forwards. It uses the known values. Whether these are all, and whether a
 * record moved from an unread part into one that was read, only a count can tell. No request counts a single second, so
 * the count is a difference: the Total-Count of the list from before the second on, less that from behind it. It is
 * taken before and after. The second is believed if both equal the number of different records met, and are not below
 * the number that paging has shown. A Total-Count that stops at the depth proves nothing.
 */

import {
  type Cuts,
  floorSecond,
  type Ms,
  type Only,
  type Page,
  type ReadingOptions,
  type Step,
  secondMs,
} from './reading.ts';
import { inOrder, look } from './tie.ts';

/** Readings of a second that changes meanwhile, and tries for two equal counts. */
const mostReadings = 3;
const mostCounts = 5;

const fields = ['type', 'user_id', 'inbox_id'] as const;

/**
 * asOf: all records that were in the second at this time have been read, in their state of this time or later. failed:
 * the reason why the second remains a gap.
 */
export type Apart = { readonly asOf: Ms } | { readonly failed: string };

/** From the request `since` to the end of the second. Records of the second `end` are read and counted too. */
interface Wanted {
  readonly since: Ms;
  readonly end: Ms;
}

/** The records that were read, and the earliest as-of time of their pages. */
interface Met {
  readonly times: Map<string, Ms>;
  asOf: Ms;
}

/** Reads this second with the request `since`, which begins before it, or with it if `since` includes its own second. */
export function* readApart(since: Ms, second: Ms, options: ReadingOptions): Generator<Step, Apart, Page> {
  const { depth, cuts } = options;
  const tie = `more records with this creation time than paging reaches (${depth})`;
  const end = second + secondMs;
  const fail = (reason: string): Apart => ({ failed: `${tie}, ${reason}` });
  if (cuts === undefined) return { failed: tie };

  for (let readings = 1; readings <= mostReadings; readings++) {
    const before = yield* countWindow(since, end, options);
    if (before === undefined) return fail('and Total-Count does not tell how many');
    const met: Met = { times: new Map(), asOf: Infinity };
    const reached = yield* readCuts({ since, end }, {}, fields, met, { ...options, cuts });
    if (!reached) return fail('also of one type, user and inbox');
    const after = yield* countWindow(since, end, options);
    if (after === undefined) return fail('and Total-Count does not tell how many');
    const [first, last] = [metIn(before, met), metIn(after, met)];
    const isCounted = before.count === first && after.count === last && first === last;
    if (isCounted && first >= depth) return { asOf: met.asOf };
    // If more records were read than are counted, one of them has left meanwhile.
    if (before.count === after.count && last < after.count)
      return fail(`and of ${after.count} only ${last} have a type, user and inbox we know`);
  }
  return fail(`and they changed whenever they were read, ${mostReadings} times`);
}

/** Records that the request `since` lists, and that the request from the end of the second does not. */
interface Window {
  readonly count: number;
  /** The window holds all records up to this second, */
  readonly end: Ms;
  /** and of this second those that the later request did not list. */
  readonly isListed: (id: string) => boolean;
}

function* countWindow(
  since: Ms,
  end: Ms,
  { perPage, depth }: ReadingOptions,
): Generator<Step, Window | undefined, Page> {
  for (let counts = 1; counts <= mostCounts; counts++) {
    const all: Page = yield { ask: { since, page: 1, perPage: 0, count: true }, proof: {} };
    const beyond: Page = yield* inOrder({ since: end, page: 1, perPage, count: true }, {});
    const again: Page = yield { ask: { since, page: 1, perPage: 0, count: true }, proof: {} };
    const [one, other] = [all.total, beyond.total];
    if (one === undefined || other === undefined || one === depth || other === depth) return undefined;
    if (one !== again.total) continue;
    const listed = new Set(beyond.rows.filter(({ time }) => floorSecond(time) === end).map(({ id }) => id));
    const isFull = listed.size > 0 && listed.size === beyond.arrived;
    return { count: one - other, end, isListed: id => isFull || listed.has(id) };
  }
  return undefined;
}

/** Number of records read that are in the window. */
const metIn = ({ end, isListed }: Window, { times }: Met): number =>
  [...times].filter(([id, time]) => time < end || !isListed(id)).length;

/**
 * Reads all records with these values, divided further where paging does not reach. False if no further division
 * exists.
 */
function* readCuts(
  wanted: Wanted,
  only: Only,
  [field, ...further]: readonly (keyof Only)[],
  met: Met,
  options: ReadingOptions & { readonly cuts: Cuts },
): Generator<Step, boolean, Page> {
  if (field === undefined) return false;
  const { types, users, inboxes } = options.cuts;
  for (const value of { type: types, user_id: users, inbox_id: inboxes }[field]) {
    const part = { ...only, [field]: value };
    if (yield* readPart(wanted, part, met, options)) continue;
    if (!(yield* readCuts(wanted, part, further, met, options))) return false;
  }
  return true;
}

/** Reads from page 1 to a page that ends beyond the window or the list. False if paging does not reach that page. */
function* readPart(
  { since, end }: Wanted,
  only: Only,
  met: Met,
  options: ReadingOptions,
): Generator<Step, boolean, Page> {
  const { perPage, depth } = options;
  const endsWith = function* (page: number, probe = false): Generator<Step, boolean, Page> {
    const arrived: Page = yield* inOrder({ since, page, perPage, only, ...(probe && { probe }) }, {});
    met.asOf = Math.min(met.asOf, arrived.asOf);
    for (const { id, time } of arrived.rows) if (floorSecond(time) <= end) met.times.set(id, time);
    const { ended, last } = look(arrived, options);
    return ended || last > end;
  };
  const pages = depth / perPage;
  if (yield* endsWith(1)) return true;
  // The last page that paging reaches may make all pages between unnecessary.
  if (!(yield* endsWith(pages, true))) return false;
  for (let page = 2; page < pages; page++) if (yield* endsWith(page)) return true;
  return true;
}
