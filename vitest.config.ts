import { defineConfig } from 'vitest/config';
import { chosen } from './test/support/kinds.ts';
import { NotRun } from './test/support/not-run.ts';
import { LongestFirst } from './test/support/order.ts';
import { sandboxChanged } from './test/support/sandbox-changed.ts';

/** Within one process, and they leave nothing behind in it: so several files share one, which loads the program once. */
const ofSandbox = sandboxChanged() ? ['packages/sandbox/test/**/*.test.ts'] : [];
export const inProcess = ['test/unit/**/*.test.ts', 'packages/lake/test/failures.test.ts', ...ofSandbox];
/** These leave nothing behind either: databases and processes of their own, and no module, clock or stdout that stays changed. */
const sharing = [
  'test/integration/warehouse/*.test.ts',
  ...[
    ...['audit', 'backfill', 'books', 'books-doubts', 'books-history', 'books-reckoning', 'books-shelves'],
    ...['books-trouble', 'books-verify', 'clock-ahead', 'commits', 'erase', 'hydration', 'kill', 'large-numbers'],
    ...['large-replies', 'limits', 'migrate', 'odd-sources', 'queries-of-accounts', 'queue', 'reckoning'],
    ...['refused-records', 'rejects-commands', 'short-pages', 'source-clock', 'sweep', 'sync', 'ties'],
    ...['two-sources', 'verify', 'verify-columns'],
  ].map(name => `test/integration/${name}.test.ts`),
];
const withServers = ['test/**/*.test.ts', 'packages/{lake,moving-source,proofs}/**/*.test.ts'];
/** Twenty times what the longest takes on a quiet machine: one that is busy with others fails none. */
const timeouts = { testTimeout: 300_000, hookTimeout: 300_000 };
const common = {
  ...timeouts,
  setupFiles: ['test/support/properties.ts', 'test/support/quiet.ts'],
};

/** A line for each file. The output of a test is shown where it fails. */
export const output = {
  reporters: [['default', { summary: false }] as ['default', object], new NotRun()],
  silent: 'passed-only' as const,
  slowTestThreshold: Number.POSITIVE_INFINITY,
};

export default defineConfig({
  test: {
    projects: [
      { test: { name: 'in process', include: inProcess, isolate: false, ...common } },
      {
        test: {
          name: 'with servers',
          include: chosen(withServers),
          exclude: [...inProcess, ...sharing, 'test/support/**'],
          ...common,
        },
      },
      { test: { name: 'with servers, sharing a process', include: chosen(sharing), isolate: false, ...common } },
    ],
    globalSetup: ['test/support/global.ts'],
    sequence: { sequencer: LongestFirst },
    ...output,
    // On two cores: a third one while others wait for their servers; more only make those slower.
    maxWorkers: 3,
  },
});
