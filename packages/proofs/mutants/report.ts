/** What was found, as text. */
import type { Outcome, Tried } from './try-changes.ts';

/** For each test file: how many changes it kills, and how many of them nothing else does. */
export function byTest({ changes, seconds }: Outcome) {
  return Object.entries(seconds).map(([test, its]) => {
    const killed = changes.filter(({ killedBy }) => killedBy.some(ran => ran.test === test));
    return {
      test,
      reached: changes.filter(({ reachedBy }) => reachedBy.includes(test)).length,
      kills: killed.length,
      alone: killed.filter(({ killedBy }) => killedBy.length === 1).length,
      seconds: its,
    };
  });
}

/** `all`: whether each change ran all tests that reach it. Otherwise nobody knows what only one kills. */
export function report(outcome: Outcome, all: boolean): string {
  const { changes } = outcome;
  const told = ({ file, line, what }: Tried) => `${file}:${line}  ${what}`;
  const killed = changes.filter(({ killedBy }) => killedBy.length > 0);
  const unreached = changes.filter(({ reachedBy }) => reachedBy.length === 0);
  const survivors = changes.filter(({ reachedBy, killedBy }) => reachedBy.length > 0 && killedBy.length === 0);
  const killers = ({ killedBy }: Tried) => killedBy.map(({ test, failed }) => `${test}: ${failed[0]}`).join('\n    ');
  const tests = byTest(outcome)
    .filter(({ reached }) => reached > 0)
    .sort((a, b) => b.kills - a.kills);
  return [
    ...killed.map(change => `killed  ${told(change)}\n    ${killers(change)}`),
    '',
    'reaches   kills  only it  seconds  test file',
    ...tests.map(({ test, reached, kills, alone, seconds }) =>
      [
        String(reached).padStart(7),
        String(kills).padStart(6),
        String(all ? alone : '?').padStart(7),
        seconds.toFixed(1).padStart(7),
        test,
      ].join('  '),
    ),
    '',
    ...unreached.map(change => `not reached  ${told(change)}`),
    ...survivors.map(change => `survives  ${told(change)}`),
    `${changes.length} changes: ${killed.length} killed, ${unreached.length} not reached, ${survivors.length} survive`,
  ].join('\n');
}
