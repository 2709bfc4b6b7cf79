/** What must hold of a reading by creation. */
import fc from 'fast-check';
import { type CreationOptions, readByCreation } from '../../../src/engine/reading/by-creation.ts';
import { endOf, floorSecond, type Ms, type Range } from '../../../src/engine/reading/reading.ts';
import { union, Wrong } from './drive.ts';
import { ModelList, type ModelRow, start, type Ties } from './model.ts';
import { scenario } from './scenario.ts';

interface Swept {
  readonly requests: number;
  readonly covered: readonly Range[];
  readonly gaps: readonly (Range & { reason: string })[];
}

/** One reading. Throws `Wrong` as soon as a proof does not hold. */
export function sweep(list: ModelList, options: CreationOptions, from: Ms = 0): Swept {
  const reading = readByCreation(from, options);
  /** The latest version of each record that was shown since the last proof. */
  const shown = new Map<string, number>();
  const covered: Range[] = [];
  const gaps: (Range & { reason: string })[] = [];
  let requests = 0;
  for (let step = reading.next(); !step.done; ) {
    if (++requests > 3000) throw new Wrong('it has asked 3000 times and goes on');
    const { ask } = step.value;
    const page = list.answer(ask);
    for (const { id, version } of page.rows as readonly ModelRow[])
      shown.set(id, Math.max(version, shown.get(id) ?? 0));
    step = reading.next(page);
    const proof = step.done ? step.value : step.value.proof;
    if (proof.gap) gaps.push(proof.gap);
    if (proof.covered) {
      check(list, options, proof.covered, proof.asOf!, shown);
      covered.push(proof.covered);
      shown.clear();
    }
    const known = [...covered, ...gaps].toSorted((a, b) => a.from - b.from);
    if (known.some((range, i) => i > 0 && range.from < known[i - 1]!.to))
      throw new Wrong('claimed twice, or a gap as well');
    const [whole] = union(known);
    if (covered.length > 0 && whole && (whole.from > floorSecond(from) || covered.some(({ to }) => to > whole.to)))
      throw new Wrong('a gap that nothing explains');
  }
  return { requests, covered, gaps };
}

/** What stood there as of then, and still does, was shown as it was then, or later. */
function check(
  list: ModelList,
  { lookbackMs, updatedSince = -1, ...options }: CreationOptions,
  { from, to }: Range,
  asOf: Ms,
  shown: ReadonlyMap<string, number>,
): void {
  if (!(asOf <= list.now)) throw new Wrong('claimed as of a time that is still to come');
  if (to > asOf - lookbackMs || to > endOf(options))
    throw new Wrong('claimed to beyond the lookback, or what is wanted');
  for (const { id, created, time, version } of list.stood(asOf)) {
    if (created < from || created >= to || time <= updatedSince) continue;
    const seen = shown.get(id);
    if (seen === undefined) throw new Wrong(`lost: ${id} of ${new Date(created).toISOString()}`);
    if (seen < version) throw new Wrong(`stale: ${id} of ${new Date(created).toISOString()}`);
  }
}

const wide = {
  begin: fc.integer({ min: -5, max: 60 }),
  length: fc.option(fc.integer({ min: 0, max: 40 }), { nil: undefined }),
};

/** The records stand still, but those of one second come in an order of which nothing is known; all are read, or what was updated since some time. */
export const holdsWithoutOrder = (ties: readonly Ties[]) =>
  fc.property(
    scenario(ties),
    fc.record(wide),
    fc.boolean(),
    fc.boolean(),
    ({ model, options }, { begin, length }, isPart, isRecent) => {
      const list = new ModelList({ ...model, changes: [] });
      const first = list.truth()[0]?.time ?? start;
      const from = isPart ? first + begin * 1000 : 0;
      const until = isPart && length !== undefined ? from + length * 1000 : undefined;
      const updatedSince = isRecent ? first + 5000 : undefined;
      sweep(list, { ...options, until, updatedSince }, from);
    },
  );
