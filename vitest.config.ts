import { defineConfig } from 'vitest/config';
import { NotRun } from './test/support/not-run.ts';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global.ts'],
    reporters: ['default', new NotRun()],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // Two cores: more workers than that only make real servers slower.
    maxWorkers: 2,
  },
});
