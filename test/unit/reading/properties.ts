/** What must hold of every reader of a moving list, where no small world plays it: short pages, replies that are too large, no order. */
import fc from 'fast-check';
import type { Reader } from '../../../src/engine/reading/reading.ts';
import { checkComplete, type Drive, drive, Mirror } from './drive.ts';
import { ModelList, start, type Ties } from './model.ts';
import { changes, type Scenario, scenario } from './scenario.ts';

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
