import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readMovingList } from '../../../src/reading/moving-list.ts';
import { checkComplete, type Drive, drive, Mirror } from './drive.ts';
import { ModelList, start } from './model.ts';
import { runs, type Scenario, scenario } from './scenario.ts';

const from = start - 600_000;

function given({ model, options }: Scenario): Drive {
  return { list: new ModelList(model), mirror: new Mirror(), read: readMovingList, from, options };
}

for (const ties of ['change', 'id', 'request', 'page'] as const) test(`whatever moves: nothing is claimed that is not there ${ties}`, () => {
  fc.assert(
    fc.property(scenario([ties]), fc.nat(30_000), (case_, pause) => {
      const run = given(case_);
      drive(run);
      run.list.now += pause;
      drive(run);
      run.list.settle(case_.options.lookbackMs);
      drive(run);
      if (ties !== 'page' && ties !== 'request') checkComplete(run);
    }),
    runs(400),
  );
});
