/**
 * Reading a list in the order of creation, which cannot change: what moves in it are records that go away, and with
 * `updatedSince` also records that come in when they are updated. As with the moving list only page 1 is read, of the
 * request `since = C − 1 s`, where C is the second of the last record: each page shows everything from C on at one moment.
 *
 * Each proof covers just what its pages have shown, as of the earliest of them: [from, to) of creation, and everything
 * that stood there then. Nothing younger than `as_of − lookback` is claimed. A time in the future is read like any other.
 *
 * A tie of one second is read by pages, there and back, and here both readings must show the very same records, but
 * for those that left between them. There something may be lost to one that left, back to one that came in: the first
 * is in the one reading and not in the other, which is right; the second is the other way round, which is not.
 *
 * A tie beyond paging is taken apart (apart.ts). Where that does not help, exactly this second is left as a gap.
 *
 * From the very beginning (`from` 0) the first request has no `since`, and whatever was created before 1970 counts as of
 * 1970. Records that do not show when they were created stand before all others. They are left out of the rows. Where they
 * fill a page, the request is read by pages, as a tie is: records from before 1970 may follow.
 */

import { provingEnds } from './ends.ts';
import { readApart } from './partitions.ts';
import {
  endOf,
  floorSecond,
  isLast,
  type Ms,
  type Page,
  type Proof,
  type ReadingOptions,
  type Step,
  secondMs,
} from './reading.ts';
import { disagreed, forwards, inOneOrder, inOrder, leaving, look, readTie, startsIn } from './tie.ts';

export interface CreationOptions extends ReadingOptions {
  /** Only records that were last updated at this time or later. */
  readonly updatedSince?: Ms | undefined;
}

export const readByCreation = provingEnds(readCreated);

function* readCreated(from: Ms, options: CreationOptions): Generator<Step, Proof, Page> {
  const { updatedSince } = options;
  const reading = readAscending(from, options);
  let step = reading.next();
  while (!step.done) {
    const { ask, proof } = step.value;
    const { since = beginning, ...more } = ask;
    const page: Page = yield {
      ask: { ...more, ...(since !== beginning && { since }), order: 'created', updatedSince },
      proof,
    };
    const readable = page.rows.filter(({ time }) => !Number.isNaN(time));
    const rows = readable.map(row => ({ ...row, time: Math.max(0, row.time) }));
    step = reading.next({ ...page, rows, trueBy: Infinity });
  }
  return step.value;
}

/** A value of `since` without a lower bound: it includes records without a time. */
const beginning: Ms = -secondMs;

/**
 * Reads a list that is always in the order of creation. Its times may be negative, and it has no records of the future.
 */
function* readAscending(from: Ms, options: ReadingOptions): Generator<Step, Proof, Page> {
  const { perPage, lookbackMs, depth } = options;
  const until = endOf(options);
  /** The next claim begins here. */
  let start = Math.max(0, floorSecond(from));
  let since = start === 0 ? beginning : start - secondMs;
  /** A second whose tie is done: if a page is full of it, `since` includes its own second. */
  let left: Ms | undefined;
  /** Everything before this time has been read. */
  let read = start;
  /** The point where a claim stopped short of what was read; see moving-list.ts. */
  let most = Infinity;
  let proof: Proof = {};

  /** Everything before `to` has been read. Returns a claim of the part that may be claimed and was not yet. */
  const claim = (to: Ms, asOf: Ms): Proof => {
    const claimed = Math.min(to, most, until, floorSecond(asOf - lookbackMs));
    if (claimed < to) most = claimed;
    read = to;
    if (claimed <= start) return {};
    const covered = { from: start, to: claimed };
    start = claimed;
    return { covered, asOf };
  };
  const leave = (to: Ms, reason: string): Proof => {
    const gap = leaving(Math.max(start, read), Math.min(to, until), reason);
    start = Math.max(start, to);
    return gap;
  };

  while (Math.max(start, read) < until) {
    const page: Page = yield* inOrder({ since, page: 1, perPage }, proof);
    const { ended, last } = look(page, options);
    proof = {};
    if (ended || last >= until) return claim(ended ? Infinity : last, page.asOf);

    if (last - secondMs > since) {
      proof = claim(last, page.asOf);
      since = last - secondMs;
    } else if (left === since && startsIn(page, since)) {
      since += secondMs;
    } else {
      /** The first second that is not done: the one after `since`, or `since` itself. */
      const second = Math.max(start, read);
      // Without a depth, paging reaches all of them. Records without a time come first, and a page of them has no last second.
      let isDeep = false;
      if (Number.isFinite(depth)) {
        const far: Page = yield* inOrder({ since, page: depth / perPage, perPage, probe: true }, {});
        isDeep = !isLast(far, perPage) && !(look(far, options).last > second);
      }
      const there = isDeep ? undefined : yield* forwards(since, [page], options);
      if (there === undefined || (there.deep && !(there.before > second))) {
        const apart = yield* readApart(since, second, options);
        if ('failed' in apart && since < second && startsIn(page, since)) {
          // `since` includes its own second, so a request without that second suffices.
          since = second;
          continue;
        }
        proof = 'failed' in apart ? leave(second + secondMs, apart.failed) : claim(second + secondMs, apart.asOf);
        left = second;
        since = second;
      } else {
        const { before, agreed, asOf } = yield* readTie(since, there, options, steady);
        proof = agreed
          ? claim(before, asOf)
          : leave(before === Infinity ? floorSecond(asOf - lookbackMs) : before, disagreed('creation'));
        if (before === Infinity) return proof;
        since = before - secondMs;
      }
    }
  }
  return proof;
}

/**
 * Both readings show one order, nothing came in between a forward reading and the backward one that followed it, and nothing
 * moved during that one. A change may reorder records of one second: one that moves behind a page that was read takes the
 * place of another, and is the only sign of it.
 */
function steady(there: readonly string[], back: readonly string[], backwardsLast: boolean): boolean {
  const shown = new Set(there);
  const isStill = new Set(back).size === back.length;
  return backwardsLast && isStill && inOneOrder(there, back) && back.every(row => shown.has(row));
}
