/**
 * Readers that are wrong in the ways in which such readers are usually wrong. Every one must fail the properties that
 * the real ones pass: otherwise these would prove nothing.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readByCreation } from '../../../src/engine/reading/by-creation.ts';
import { readMovingList } from '../../../src/engine/reading/moving-list.ts';
import { walkList } from '../../../src/engine/reading/page-walk.ts';
import {
  type Ask,
  covering,
  endOf,
  floorSecond,
  type Ms,
  type Page,
  type Proof,
  type Reader,
} from '../../../src/engine/reading/reading.ts';
import { holdsByCreation } from './creation.ts';
import { Wrong } from './drive.ts';
import { costsWithin, holdsWhileMoving, holdsWhileQuiet, holdsWhileQuietWithin, holdsWithin } from './properties.ts';
import { costOfList, costOfWalk, perPage } from './scenario.ts';

/** Page after page over the list that moves. */
const nextPage: Reader = function* (from, { perPage, depth, lookbackMs }) {
  let proof: Proof = {};
  for (let page = 1; ; page++) {
    const reply: Page = yield { ask: { since: Math.max(0, from - 1000), page, perPage }, proof };
    const ended = reply.arrived < perPage || (page + 1) * perPage > depth;
    const last = reply.arrived < perPage ? Number.POSITIVE_INFINITY : (reply.rows.at(-1)?.time ?? 0);
    proof = covering(from, Math.min(last, floorSecond(reply.asOf - lookbackMs)));
    if (ended) return proof;
  }
};

/** Passes everything through `change`, on its way out and on its way back. */
const altered = (
  read: Reader,
  change: {
    since?: (since: number) => number;
    covered?: (to: number) => number;
    page?: (reply: Page, ask: Ask) => Page;
  },
): Reader =>
  function* (from, options) {
    const alter = (proof: Proof): Proof =>
      proof.covered && change.covered
        ? { ...proof, covered: { ...proof.covered, to: change.covered(proof.covered.to) } }
        : proof;
    const reading = read(from, options);
    let step = reading.next();
    while (!step.done) {
      const { ask, proof } = step.value;
      const since = ask.since === undefined || !change.since ? ask.since : change.since(ask.since);
      const reply: Page = yield { ask: { ...ask, ...(since !== undefined && { since }) }, proof: alter(proof) };
      step = reading.next(change.page?.(reply, ask) ?? reply);
    }
    return alter(step.value);
  };

/** Over a tie the way back is spared: it is shown the pages of the way there. */
const onlyThere = (read: Reader): Reader =>
  function* (from, options) {
    const reading = read(from, options);
    const shown = new Map<string, Page>();
    let step = reading.next();
    let proof: Proof = {};
    while (!step.done) {
      const { ask } = step.value;
      proof = { ...proof, ...step.value.proof };
      const key = `${ask.since} ${ask.page}`;
      let page = shown.get(key);
      if (page === undefined) {
        page = yield { ask, proof };
        shown.set(key, page);
        proof = {};
      }
      step = reading.next(page);
    }
    return { ...proof, ...step.value };
  };

/** A walk by creation that proves as much as its last page would: later than it began. */
const asOfItsEnd: Reader = function* (from, options) {
  const reading = readMovingList(from, options);
  let begun: Ms | undefined;
  let step = reading.next();
  while (!step.done) {
    const { ask } = step.value;
    const page: Page = yield step.value;
    const walks = ask.order === 'created';
    if (!walks) begun = undefined;
    else begun ??= page.asOf;
    step = reading.next(walks ? { ...page, asOf: begun! + 20_000 } : page);
  }
  return step.value;
};

/** A walk by creation that skips what was updated in the second of the tie itself. */
const walksFromTheCrowd: Reader = function* (from, options) {
  const reading = readMovingList(from, options);
  let step = reading.next();
  while (!step.done) {
    const { ask, proof } = step.value;
    const { updatedSince } = ask;
    const later = updatedSince !== undefined && { updatedSince: updatedSince + 1000 };
    step = reading.next(yield { ask: { ...ask, ...later }, proof });
  }
  return step.value;
};

/** Each page claims what its own as_of allows, though the pages before were read earlier. Ties are left aside. */
const eachByItself: Reader = function* (from, { perPage, lookbackMs }) {
  let since = from - 1000;
  let proof: Proof = {};
  for (;;) {
    const reply: Page = yield { ask: { since, page: 1, perPage }, proof };
    const last = floorSecond(reply.rows.at(-1)?.time ?? 0);
    const ended = reply.arrived < perPage || last - 1000 <= since;
    const tied = ended && reply.arrived === perPage;
    if (tied) return proof;
    proof = covering(from, Math.min(ended ? Number.POSITIVE_INFINITY : last, floorSecond(reply.asOf - lookbackMs)));
    if (ended) return proof;
    since = last - 1000;
  }
};

/** A walk from the first page to the last. */
const walkForwards: Reader = function* (from, { perPage, depth, lookbackMs }) {
  let asOf: number | undefined;
  for (let page = 1; ; page++) {
    const reply: Page = yield { ask: { since: Math.max(0, from - 1000), page, perPage }, proof: {} };
    asOf ??= reply.asOf;
    if (reply.arrived < perPage) return covering(from, floorSecond(asOf - lookbackMs));
    if ((page + 1) * perPage > depth) return {};
  }
};

/** The first walk's claim reaches over what is left to the next one, and over a gap. */
const walkTooFar = altered(walkList, { covered: to => to + 1000 });

/** Stops a second before the end of what is wanted, and claims to the end. */
const endsEarly: Reader = (from, options) => {
  const until = endOf(options) - 1000;
  return altered(readMovingList, { covered: to => (to === until ? until + 1000 : to) })(from, { ...options, until });
};

/** Reads as far as it must, and claims as far as it read. */
const claimsWhatItRead: Reader = function* (from, options) {
  if (from >= endOf(options)) return {};
  const reading = readMovingList(from, { ...options, until: undefined });
  let step = reading.next();
  while (!step.done) {
    const { proof } = step.value;
    if (proof.covered && proof.covered.to >= endOf(options)) return proof;
    step = reading.next(yield step.value);
  }
  return step.value;
};

/** What is beyond `until` is asked for like what is after `from`: one second early. */
const beyondEarly: Reader = (from, options) =>
  altered(walkList, { since: since => (since === options.until ? since - 1000 : since) })(from, options);

/** Believes the counts: the page that they name is the last one. */
const trustsCounts: Reader = function* (from, options) {
  const reading = walkList(from, options);
  let step = reading.next();
  let newest: Page | undefined;
  let page = 0;
  while (!step.done) {
    const { ask } = step.value;
    const forwards = newest !== undefined && ask.page > 1 && ask.page === page + 1 && page > 1;
    if (forwards) newest = { ...newest!, arrived: 0, rows: [] };
    else newest = yield step.value;
    page = ask.page;
    step = reading.next(newest);
  }
  return step.value;
};

/** Begins a page too low, and finds its end by going on. */
const tooLow = altered(walkList, {
  page: (reply, { perPage: size }) => (size === 0 ? { ...reply, total: reply.total! - perPage } : reply),
});

/** Pays for a count that says nothing. */
const counts: Reader = function* (from, options) {
  const reading = readMovingList(from, options);
  let requests = 0;
  for (let step = reading.next(); ; ) {
    if (step.done) return step.value;
    const { ask, proof } = step.value;
    const page: Page = yield { ask: { ...ask, count: requests++ === 1 }, proof };
    step = reading.next(page);
  }
};

const ignoresUntil =
  (read: Reader): Reader =>
  (from, options) =>
    read(from, { ...options, until: undefined });

const movingWithin = (read: Reader) => holdsWithin(read, {}, false);
const walkingWithin = (read: Reader) => holdsWithin(read, { freely: true }, false);

const moving = (read: Reader) => holdsWhileMoving(read, {}, false);
const walking = (read: Reader) => holdsWhileMoving(read, { freely: true }, false);

interface Planted {
  readonly what: string;
  readonly check: () => { failed: boolean; errorInstance: unknown };
  /** As what it is found out; that more than what is claimed is missing does not count. */
  readonly as: RegExp;
}

const check = <T>(property: fc.IProperty<T>) => fc.check(property, { numRuns: 20_000, seed: 1 });
const loss = /^(lost|stale)/;

const planted: Planted[] = [
  { what: 'pages over a list that moves', check: () => check(moving(nextPage)), as: loss },
  {
    what: 'a claim that includes the last second',
    check: () => check(moving(altered(readMovingList, { covered: to => to + 1000 }))),
    as: /^(lost|stale|claimed)/,
  },
  {
    what: 'since the last second itself, instead of the one before',
    check: () => check(moving(altered(readMovingList, { since: time => time + 1000 }))),
    as: loss,
  },
  { what: 'a tie that is read only forwards', check: () => check(moving(onlyThere(readMovingList))), as: loss },
  {
    what: 'a walk by creation that claims as of its end',
    check: () => check(moving(asOfItsEnd)),
    as: /^(lost|stale|claimed)/,
  },
  { what: 'a walk by creation of what was updated later', check: () => check(moving(walksFromTheCrowd)), as: loss },
  {
    what: 'a tie by creation that is read only forwards',
    check: () => check(holdsByCreation(onlyThere(readByCreation), ['change', 'id'])),
    as: loss,
  },
  {
    what: 'a reading by creation that claims a second too much',
    check: () => check(holdsByCreation(altered(readByCreation, { covered: to => to + 1000 }), ['change', 'id'])),
    as: /^(lost|stale|claimed)/,
  },
  { what: 'a page that claims for the pages before it', check: () => check(moving(eachByItself)), as: loss },
  { what: 'no lookback', check: () => check(moving(withoutLookback)), as: /^(lost|stale|claimed)/ },
  { what: 'a gap where paging would reach', check: () => check(holdsWhileQuiet(shallow)), as: /^gaps/ },
  { what: 'a walk forwards', check: () => check(walking(walkForwards)), as: /^lost/ },
  { what: 'a walk that claims a second too much', check: () => check(walking(walkTooFar)), as: /^(lost|claimed)/ },
  { what: 'a part that ends a second too early', check: () => check(movingWithin(endsEarly)), as: loss },
  {
    what: 'a part that claims what it read beyond',
    check: () => check(movingWithin(claimsWhatItRead)),
    as: /^claimed what is not wanted/,
  },
  {
    what: 'a gap beyond the part',
    check: () => check(holdsWhileQuietWithin(ignoresUntil(readMovingList))),
    as: /^claimed what is not wanted/,
  },
  {
    what: 'a part that is read to the end of the list',
    check: () => check(costsWithin(toTheEnd, costOfList)),
    as: /^cost/,
  },
  { what: 'a part that pays for a count', check: () => check(costsWithin(counts, costOfList)), as: /^cost/ },
  {
    what: 'a walk of a part that asks one second early what is beyond it',
    check: () => check(walkingWithin(beyondEarly)),
    as: /^lost/,
  },
  { what: 'a walk of a part that trusts the counts', check: () => check(walkingWithin(trustsCounts)), as: /^lost/ },
  {
    what: 'a walk of a part that claims what it read beyond',
    check: () => check(walkingWithin(ignoresUntil(walkList))),
    as: /^claimed what is not wanted/,
  },
  {
    what: 'a walk of a part that begins a page too low',
    check: () => check(costsWithin(tooLow, costOfWalk, { freely: true })),
    as: /^cost/,
  },
];

test.each(planted)('caught: $what', ({ check: run, as }) => {
  const { failed, errorInstance } = run();
  expect(failed).toBe(true);
  expect(errorInstance).toBeInstanceOf(Wrong);
  expect((errorInstance as Error).message).toMatch(as);
});

/** Claims what is wanted only, and reads on. */
function* toTheEnd(...[from, options]: Parameters<Reader>): ReturnType<Reader> {
  if (from >= endOf(options)) return {};
  const to = endOf(options);
  return yield* altered(readMovingList, { covered: covered => Math.min(covered, to) })(from, {
    ...options,
    until: undefined,
  });
}

function withoutLookback(...[from, options]: Parameters<Reader>): ReturnType<Reader> {
  return readMovingList(from, { ...options, lookbackMs: 0 });
}

function shallow(...[from, options]: Parameters<Reader>): ReturnType<Reader> {
  return readMovingList(from, { ...options, depth: options.depth / 2 });
}
