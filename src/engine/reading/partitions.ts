/**
 * A second of creation with more records than paging reaches is taken apart: by type, then by user, then by inbox, as far
 * as each part needs it, forwards page after page. The values are those that are known. Whether they are all, and whether
 * something moved from a part that was still to come into one that had been read, only a count can tell. There is no
 * request for a single second, so it is the difference of two: the Total-Count of what is listed from before the second
 * on, less that from behind it. It is taken before and after, and the second is believed if both are the number of
 * different records that were met, and not less than paging has shown to be there. A Total-Count that stops at the depth
 * tells nothing.
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

/** So often it is read again when something came or went meanwhile; so often a count is taken until two are the same. */
const mostReadings = 3;
const mostCounts = 5;

const fields = ['type', 'user_id', 'inbox_id'] as const;

/**
 * asOf: everything that stood in the second at this time has been shown as it was at this time, or later. failed: the reason
 * why the second remains a gap.
 */
export type Apart = { readonly asOf: Ms } | { readonly failed: string };

/** From the request `since` to the end of the second; what is of the second `end` itself is met as well, to be counted. */
interface Wanted {
  readonly since: Ms;
  readonly end: Ms;
}

/** What was met; and as of when, at the earliest. */
interface Met {
  readonly times: Map<string, Ms>;
  asOf: Ms;
}

/** Reads this second with the request `since`, which begins before it, or with it if it includes its own second. */
export function* readApart(since: Ms, second: Ms, options: ReadingOptions): Generator<Step, Apart, Page> {
  const { depth, cuts } = options;
  const crowd = `more records with this creation time than paging reaches (${depth})`;
  const end = second + secondMs;
  const fail = (reason: string): Apart => ({ failed: `${crowd}, ${reason}` });
  if (cuts === undefined) return { failed: crowd };

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
    if (before.count === after.count)
      return fail(`and of ${after.count} only ${last} have a type, user and inbox we know`);
  }
  return fail(`and they changed whenever they were read, ${mostReadings} times`);
}

/** What the request `since` lists, and that from the end of the second on does not. */
interface Window {
  readonly count: number;
  /** What was met is in it up to this second, */
  readonly end: Ms;
  /** and of this second what the later request did not list. */
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

/** How many of those that were met are in the window. */
const metIn = ({ end, isListed }: Window, { times }: Met): number =>
  [...times].filter(([id, time]) => time < end || !isListed(id)).length;

/** Reads all that has these values, cut further where paging does not reach. False where nothing is left to cut by. */
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

/** From page 1 to one that ends beyond the window, or the list. False if paging does not reach there. */
function* readPart(
  { since, end }: Wanted,
  only: Only,
  met: Met,
  options: ReadingOptions,
): Generator<Step, boolean, Page> {
  const { perPage, depth } = options;
  const endsWith = function* (page: number): Generator<Step, boolean, Page> {
    const arrived: Page = yield* inOrder({ since, page, perPage, only }, {});
    met.asOf = Math.min(met.asOf, arrived.asOf);
    for (const { id, time } of arrived.rows) if (floorSecond(time) <= end) met.times.set(id, time);
    const { ended, last } = look(arrived, options);
    return ended || last > end;
  };
  const pages = depth / perPage;
  if (yield* endsWith(1)) return true;
  // The last page that paging reaches may spare all between.
  if (!(yield* endsWith(pages))) return false;
  for (let page = 2; page < pages; page++) if (yield* endsWith(page)) return true;
  return true;
}
