import { defineConfig } from 'vitest/config';
import { NotRun } from './test/support/not-run.ts';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global.ts'],
    reporters: ['default', new NotRun()],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // On two cores: a third one while others wait for their servers; more only make those slower.
    maxWorkers: 3,
  },
});
