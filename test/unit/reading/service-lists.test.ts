/**
 * Lists of a declared service that move while they are read: by offsets and page numbers that the service caps, and by a cursor. What
 * a reading claims is in the mirror, in its last version; what it claims as whole shows each record that existed all the time.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readFeed } from '../../../src/engine/reading/by-feed.ts';
import type { Ask, Page, Proof, Reader, Walk } from '../../../src/engine/reading/reading.ts';
import { type Paginator, pageRequest, timedReader, wholeReader } from '../../../src/sources/service/paginator.ts';
import '../../support/properties.ts';

type Paged = Exclude<Paginator, { type: 'single_page' }>;
const paginators: readonly Paged[] = [
  { type: 'offset', offsetParam: 'offset', limitParam: 'limit', limit: 6 },
  { type: 'offset', offsetParam: 'offset', limitParam: 'limit', limit: 6, totalPath: 'total' },
  { type: 'page_number', pageParam: 'page', limitParam: 'limit', limit: 6 },
  { type: 'page_number', pageParam: 'page', limitParam: 'limit', limit: 6, basePage: 0, totalPath: 'total' },
  { type: 'cursor', cursorParam: 'cursor', cursorPath: 'next', limitParam: 'limit', limit: 6 },
];

interface World {
  /** The last change of each record, in ms. */
  readonly records: Map<string, number>;
  now: number;
  /** No page holds more. */
  readonly cap: number;
  /** `since` includes its own time. */
  readonly inclusive: boolean;
}

/** Answers as a service does: by the query alone. */
function answer(world: World, pages: Paged, query: Readonly<Record<string, string>>, since: number): object {
  const limit = Math.min(world.cap, Number(query.limit));
  const all = [...world.records]
    .filter(([, time]) => (world.inclusive ? time >= since : time > since))
    .sort(([a, one], [b, other]) => one - other || Number(a) - Number(b));
  if (pages.type === 'cursor') {
    const [time = -1, id = -1] = (query.cursor ?? '').split(' ').filter(Boolean).map(Number);
    const left = all.filter(([other, at]) => at > time || (at === time && Number(other) > id));
    const last = left[limit - 1];
    return { rows: left.slice(0, limit), next: left.length > limit && last ? `${last[1]} ${last[0]}` : null };
  }
  const base = pages.type === 'page_number' ? (pages.basePage ?? 1) : 0;
  const from = pages.type === 'offset' ? Number(query.offset) : (Number(query.page) - base) * limit;
  return { rows: all.slice(from, from + limit), total: all.length };
}

/** Drives one reading, and moves the world before each reply. Returns what it claims, and the rows that it showed. */
function drive(
  { world, pages, ends }: { world: World; pages: Paged; ends: { size?: number } },
  read: Reader,
  from: number,
  move: (world: World) => void,
  isWhole = false,
) {
  const options = {
    lookbackMs: 0,
    perPage: pages.limit,
    depth: Number.POSITIVE_INFINITY,
    mayTear: true,
    firstLoad: from === 0,
  };
  const reading = read(from, { ...options, ends: { ...ends, doubt: 'always', byOffset: pages.type === 'offset' } });
  const shown = new Map<string, number>();
  const proofs: Proof[] = [];
  let step = reading.next();
  while (!step.done) {
    const { ask, proof } = step.value;
    proofs.push(proof);
    move(world);
    world.now += 1000;
    const { query, next, total } = pageRequest(pages, 'rows', ask as Ask, isWhole);
    const body = answer(world, pages, query, isWhole ? -1 : (ask.since ?? -1)) as { rows: [string, number][] };
    for (const [id, time] of body.rows) shown.set(id, time);
    const page: Page = {
      ...{ arrived: body.rows.length, asOf: world.now, trueBy: world.now + 1000 },
      rows: body.rows.map(([id, time]) => ({ id, time: isWhole ? Number.NaN : time })),
      ...{ next: next?.(body, () => undefined), total: total?.(body) },
    };
    world.now += 1000;
    step = reading.next(page);
  }
  proofs.push(step.value);
  const sizes = proofs.flatMap(({ pages: known }) => known?.size ?? []);
  return { shown, proofs, size: sizes.at(-1) };
}

const change = fc.record({ kind: fc.constantFrom('update', 'create', 'delete', 'nothing'), pick: fc.nat(40) });
const worlds = fc.record({
  pages: fc.constantFrom(...paginators),
  cap: fc.integer({ min: 2, max: 7 }),
  inclusive: fc.boolean(),
  layout: fc.array(fc.integer({ min: 0, max: 2 }), { maxLength: 24 }),
  changes: fc.array(change, { maxLength: 12 }),
});

const begun = Date.UTC(2026, 0, 1);

function worldOf({ cap, inclusive, layout }: { cap: number; inclusive: boolean; layout: readonly number[] }): World {
  let time = begun;
  const records = new Map<string, number>();
  for (const gap of layout) {
    time += gap * 1000;
    records.set(String(records.size), time);
  }
  return { records, now: time + 60_000, cap, inclusive };
}

function mover(changes: readonly { kind: string; pick: number }[], byCreation: boolean): (world: World) => void {
  const left = [...changes];
  return world => {
    const { kind, pick } = left.shift() ?? { kind: 'nothing', pick: 0 };
    const now = Math.floor(world.now / 1000) * 1000;
    const ids = [...world.records.keys()];
    const picked = ids[pick % ids.length];
    if (kind === 'create') world.records.set(String(1 + Number(ids.at(-1) ?? -1)), now);
    if (kind === 'delete' && picked !== undefined) world.records.delete(picked);
    if (kind === 'update' && picked !== undefined && !byCreation) world.records.set(picked, now);
  };
}

test.each([
  ['changes', false],
  ['creations', true],
])('a list of %s: after two readings the mirror has all that was claimed', (_, byCreation) => {
  fc.assert(
    fc.property(worlds, ({ pages, changes, ...layout }) => {
      const world = worldOf(layout);
      const mirror = new Map<string, number>();
      let covered = 0;
      let ends: { size?: number } = {};
      const moves = mover(changes, byCreation);
      const disturbed = changes.filter(({ kind }) => kind !== 'nothing').length;
      for (const move of [moves, moves, () => {}]) {
        for (;;) {
          const { shown, proofs, size } = drive({ world, pages, ends }, timedReader(pages, byCreation), covered, move);
          for (const [id, time] of shown) mirror.set(id, Math.max(time, mirror.get(id) ?? 0));
          // What was learned of the pages begins the reading anew, as the loop of lists does.
          if (size === undefined || size === ends.size) {
            for (const { covered: range } of proofs)
              if (range && range.from <= covered) covered = Math.max(covered, range.to);
            // A tie stays a gap only where each of its five readings met a change.
            if (disturbed < 5) expect(proofs.flatMap(({ gap }) => gap ?? [])).toEqual([]);
            break;
          }
          ends = { size };
        }
      }
      const claimed = [...world.records].filter(([, time]) => time < covered);
      expect(claimed.filter(([id, time]) => mirror.get(id) !== time)).toEqual([]);
      expect(covered).toBeGreaterThan(Math.max(0, ...world.records.values()));
    }),
    { numRuns: 400 },
  );
});

test('a list that is read whole shows each record, whatever its pages hold', () => {
  fc.assert(
    fc.property(worlds, ({ pages, ...layout }) => {
      const world = worldOf(layout);
      const { shown, proofs } = drive({ world, pages, ends: {} }, wholeReader(pages), 0, () => {}, true);
      expect([...shown.keys()].sort()).toEqual([...world.records.keys()].sort());
      expect(proofs.at(-1)).toMatchObject({ covered: { from: 0 } });
    }),
    { numRuns: 200 },
  );
});

test('a feed is read behind its last event, and once more where events were too young', () => {
  const cursors: (string | undefined)[] = [];
  const events = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);
  /** Event n is of second n, or says nothing of its time. A page has three. */
  const run = (walk: Walk | undefined, all: readonly number[], now: number, isTimed = true) => {
    const reading = readFeed(0, { lookbackMs: 2000, perPage: 3, depth: Number.POSITIVE_INFINITY, walk });
    let kept = walk;
    let step = reading.next();
    while (!step.done) {
      const { cursor } = step.value.ask;
      cursors.push(cursor);
      const left = all.filter(n => n > Number(cursor ?? -1));
      const rows = left.slice(0, 3).map(n => ({ id: String(n), time: isTimed ? n * 1000 : Number.NaN }));
      const next = rows.length > 0 ? rows.at(-1)!.id : undefined;
      step = reading.next({ arrived: rows.length, rows, asOf: now * 1000, trueBy: now * 1000, next });
      const { walk: place } = step.done ? step.value : step.value.proof;
      if (place) kept = place;
    }
    return { kept, proof: step.value };
  };
  const first = run(undefined, events(0, 7), 100);
  expect(first.proof.covered).toEqual({ from: 0, to: 98_000 });
  expect(cursors.splice(0)).toEqual([undefined, '2', '5', '6']);
  // 99 and 100 are too young: an event of 98 may come yet.
  const second = run(first.kept, [...events(0, 7), 99, 100], 100);
  expect(cursors.splice(0)).toEqual(['6', '100']);
  run(second.kept, [...events(0, 7), 98, 99, 100], 200);
  expect(cursors.splice(0)).toEqual(['6', '100']);
  expect(run(undefined, [], 100).proof).toEqual({ covered: { from: 0, to: 98_000 } });
  cursors.splice(0);
  // Without times any event may stand behind one that is listed late: all are read again.
  const untimed = run(undefined, events(0, 4), 100, false);
  run(untimed.kept, [0, 1, 2, 2.5, 3], 200, false);
  expect(cursors).toEqual([undefined, '2', '3', undefined, '2', '3']);
});

test('a page whose last record was loaded after the page was cut skips nothing', () => {
  const begun = 1_000_000_000;
  const rows = (...times: number[]) => times.map(time => ({ id: String(time), time: begun + time * 1000 }));
  const asOf = begun + 600_000;
  const reading = timedReader({ type: 'offset', offsetParam: 'offset', limit: 3 }, false)(begun, {
    ...{ lookbackMs: 10_000, perPage: 3, depth: Number.POSITIVE_INFINITY, mayTear: true },
  });
  reading.next();
  // The third record was changed in between: it stood at 12, and shows 600.
  const { value } = reading.next({ arrived: 3, rows: rows(2, 7, 600), asOf, trueBy: asOf + 1000 });
  expect(value).toMatchObject({ ask: { since: begun + 6000 }, proof: { covered: { from: begun, to: begun + 7000 } } });
});

test('a repeated cursor leaves a gap behind the range that is old enough, even if no record is readable', () => {
  const begun = 1_000_000_000;
  const asOf = begun + 600_000;
  const stuck = (rows: { id: string; time: number }[]) => {
    const reading = timedReader({ type: 'cursor', cursorParam: 'c', cursorPath: 'n', limit: 3 }, false)(begun, {
      ...{ lookbackMs: 10_000, perPage: 3, depth: Number.POSITIVE_INFINITY },
    });
    const page = { arrived: 2, rows, asOf, trueBy: asOf + 1000, next: 'again' };
    reading.next();
    const first = reading.next(page);
    return (first.done ? first : reading.next(page)).value as Proof;
  };
  const { covered, gap } = stuck([
    { id: 'a', time: begun + 2000 },
    { id: 'b', time: asOf - 1000 },
  ]);
  expect(covered).toEqual({ from: begun, to: begun + 2000 });
  expect(gap).toMatchObject({ from: begun + 2000, to: asOf });
  expect(stuck([]).gap).toMatchObject({ from: begun, to: asOf });
});
