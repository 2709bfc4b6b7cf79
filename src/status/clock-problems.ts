/** Clocks that are off, as problems: for the commands and the page that show them. */
import { systemClock } from '../clock.ts';
import { clockRemedies } from '../engine/budget/clock-off.ts';
import { sources } from '../sources/index.ts';
import { readClocks } from './off-clocks.ts';
import type { Problem } from './problems.ts';

const labelOf = (source: string) => sources.find(({ name }) => name === source)?.label ?? source;

/** A wrong clock of ours is one problem, not one for each source. */
export async function readClockProblems(
  db: Parameters<typeof readClocks>[0],
  accounts: readonly string[],
): Promise<readonly Problem[]> {
  const found = await readClocks(db, accounts, systemClock, labelOf);
  const problems = found.map(({ account, whose, says }): Problem => {
    const problem = whose === 'ours' ? 'our_clock_off' : `${whose}_clock_off`;
    return {
      account,
      stream: null,
      source: null,
      problem,
      severity: 'warning',
      says,
      remedy: clockRemedies[whose],
      since: null,
    };
  });
  return [...new Map(problems.map(one => [`${one.account} ${one.says}`, one])).values()];
}
