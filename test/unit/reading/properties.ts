/** What must hold of every reader of a moving list, so that a wrong one can be held against it as well. */
import fc from 'fast-check';
import { endOf, type Reader } from '../../../src/engine/reading/reading.ts';
import { checkComplete, checkFilled, type Drive, drive, Mirror, Wrong } from './drive.ts';
import { ModelList, start, type Ties } from './model.ts';
import { changes, depth, part, perPage, type Scenario, scenario } from './scenario.ts';

/** Older than anything in a layout. */
export const from = start - 600_000;

export function given(read: Reader, { model, options }: Scenario): Drive {
  return { list: new ModelList(model), mirror: new Mirror(), read, from, options };
}

/** Requests of runs that died, before their commit. */
const deaths = fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 3 });

/**
 * Records move all the time, through runs that die and runs that end: nothing is claimed that is not there. Then it is
 * quiet: one more run has everything, and ends.
 */
export const holdsWhileMoving = (read: Reader, more: Partial<Drive> = {}, complete = true) => {
  const hidden = more.freely === true;
  return fc.property(
    scenario(['change', 'id'], { hidden }),
    deaths,
    fc.nat({ max: 30_000 }),
    (case_, dieAts, pauseMs) => {
      // What is ordered by creation can only be created and deleted.
      const happens = case_.model.changes!.filter(({ kind }) => !hidden || kind === 'create' || kind === 'delete');
      const run = { ...given(read, { ...case_, model: { ...case_.model, changes: happens } }), ...more };
      for (const dieAt of dieAts) drive({ ...run, dieAt });
      drive(run);
      run.list.now += pauseMs;
      drive(run);
      run.list.settle(case_.options.lookbackMs);
      drive({ ...run, most: more.large ? 10_000 : 1000 });
      if (complete) checkComplete(run);
    },
  );
};

/** The run that fills this part of the list. */
export function within(run: Drive, { begin, length, lessMs = 0 }: { begin: number; length: number; lessMs?: number }) {
  const wanted = (run.list.truth()[0]?.time ?? start) + begin * 1000;
  return { ...run, from: wanted, options: { ...run.options, until: wanted + length * 1000 - lessMs } };
}

/**
 * A part is read while the records move, through runs that die, and what follows it by runs of its own, before and
 * after. Nothing is claimed that is not there or not wanted. Then it is quiet: both together have everything.
 */
export const holdsWithin = (read: Reader, more: Partial<Drive> = {}, complete = true) => {
  const hidden = more.freely === true;
  return fc.property(
    scenario(['change', 'id'], { hidden }),
    part,
    deaths,
    fc.nat({ max: 30_000 }),
    (case_, wanted, dieAts, pauseMs) => {
      const happens = case_.model.changes!.filter(({ kind }) => !hidden || kind === 'create' || kind === 'delete');
      const run = { ...given(read, { ...case_, model: { ...case_.model, changes: happens } }), ...more };
      const fill = within(run, wanted);
      const follow = { ...run, from: endOf(fill.options) };
      for (const dieAt of dieAts) {
        drive({ ...fill, dieAt });
        drive({ ...(dieAt % 2 ? fill : follow), dieAt });
      }
      drive(fill);
      drive(follow);
      run.list.now += pauseMs;
      drive(fill);
      run.list.settle(case_.options.lookbackMs);
      run.list.now += 600_000;
      const quietSince = run.list.now;
      drive({ ...fill, most: more.large ? 10_000 : 1000 });
      drive({ ...follow, most: more.large ? 10_000 : 1000 });
      if (!complete) return;
      checkComplete(run, fill.from);
      checkFilled(fill, quietSince);
    },
  );
};

/** What a part of a quiet list may cost, by how many records are listed before its end. */
export const costsWithin = (
  read: Reader,
  most: (listed: number) => { requests: number; credits: number },
  more: Partial<Drive> = {},
) =>
  fc.property(
    fc.array(fc.integer({ min: 2, max: 3 }), { maxLength: depth - 1 }),
    fc.integer({ min: 0, max: 60 }),
    fc.integer({ min: 1, max: 80 }),
    fc.boolean(),
    (gaps, begin, length, inclusive) => {
      const layout = gaps.map(gap => ({ gap, count: 1 }));
      const model = { inclusive, ties: 'id', depth, layout, ageMs: 400_000, hidden: more.freely === true } as const;
      const run = given(read, { model, options: { lookbackMs: 120_000, perPage, depth } });
      const fill = { ...within(run, { begin, length }), ...more };
      const { requests, credits } = drive(fill);
      checkComplete({ ...fill, list: upTo(fill) }, fill.from);
      const since = fill.from - (inclusive ? 1000 : 0);
      // A walk ends before the first record that a request from `until` on shows.
      const before = endOf(fill.options) + (more.freely && !inclusive ? 1000 : 0);
      const listed = run.list.truth().filter(({ time }) => time >= since && time < before).length;
      const allowed = most(listed);
      if (requests > allowed.requests || credits > allowed.credits)
        throw new Wrong(`cost ${requests} requests, ${credits} credits for ${listed} records`);
    },
  );

/** The list as if nothing stood in it from `until` on. */
function upTo({ list, options }: Drive): ModelList {
  const truth = list.truth().filter(({ time }) => time < endOf(options));
  return Object.assign(Object.create(list), { truth: () => truth }) as ModelList;
}

/** Records move between runs only, but those of one second stand in an order of which nothing is known. */
export const holdsWithoutOrder = (read: Reader, ties: readonly Ties[]) =>
  fc.property(scenario(ties), changes(0), ({ model, options }, between) => {
    const run = given(read, { model: { ...model, changes: [] }, options });
    drive(run);
    for (const change of between) run.list.change({ ...change, lateMs: 0 });
    drive(run);
    run.list.settle(options.lookbackMs);
    drive({ ...run, most: 1000 });
  });

/** The same of a part. */
export const holdsWithoutOrderWithin = (read: Reader, ties: readonly Ties[]) =>
  fc.property(scenario(ties), part, changes(0), ({ model, options }, wanted, between) => {
    const run = within(given(read, { model: { ...model, changes: [] }, options }), wanted);
    drive(run);
    for (const change of between) run.list.change({ ...change, lateMs: 0 });
    drive(run);
    run.list.settle(options.lookbackMs);
    run.list.now += 600_000;
    const quietSince = run.list.now;
    drive({ ...run, most: 1000 });
    checkFilled(run, quietSince);
  });

/** A list that stands still: every second but those with more records than the depth is there, and those are the gaps. */
export const holdsWhileQuiet = (read: Reader) =>
  fc.property(scenario(['change', 'id']), fc.nat({ max: 30 }), ({ model, options }, later) => {
    const run = { ...given(read, { model: { ...model, changes: [], ageMs: 400_000 }, options }) };
    const first = run.list.truth()[0]?.time ?? start;
    const begun = { ...run, from: first - 10_000 + later * 1000 };
    drive({ ...begun, most: 1000 });
    checkComplete(begun, begun.from);
    checkGaps(begun, options.depth);
  });

/** The same of a part. */
export const holdsWhileQuietWithin = (read: Reader) =>
  fc.property(scenario(['change', 'id']), part, ({ model, options }, wanted) => {
    const run = given(read, { model: { ...model, changes: [], ageMs: 400_000 }, options });
    const fill = within(run, { ...wanted, length: Math.min(wanted.length, 200) });
    run.list.now += 900_000;
    const quietSince = run.list.now;
    drive({ ...fill, most: 1000 });
    checkComplete({ ...fill, list: upTo(fill) }, fill.from);
    checkGaps(fill, options.depth);
    checkFilled(fill, quietSince);
  });

/** A gap is a second with more updates than paging reaches, and of those something stands in the way of a walk as well. */
function checkGaps({ list, mirror, from: begin, options }: Drive, depth: number): void {
  const truth = list.truth();
  const sizes = (timeOf: (record: (typeof truth)[number]) => number) =>
    new Map([...Map.groupBy(truth, timeOf)].map(([time, records]) => [time, records.length]));
  const updates = sizes(({ time }) => time);
  const creations = sizes(({ created }) => created);
  const gaps = mirror.gaps.filter(({ to }) => to > begin);
  const isWalkable = [...creations].every(([second, size]) => size + (creations.get(second - 1000) ?? 0) < depth);
  for (const { from: second, to } of gaps) {
    if (to - second !== 1000 || (updates.get(second) ?? 0) <= depth)
      throw new Wrong(`gaps: no tie at ${second}+${to - second}`);
    if (isWalkable) throw new Wrong(`gaps: ${second}, though no second of creation is tied`);
  }
  const tied = [...updates].filter(([time, size]) => size > depth && time >= begin && time < endOf(options));
  for (const [time] of tied) {
    if (mirror.covers(time) === mirror.inGap(time)) throw new Wrong(`gaps: ${time} is neither read nor one, or both`);
  }
}
