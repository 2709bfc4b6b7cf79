/** A reporter that says at the end which tests were not run for want of a Redis. On CI that is a failure. */
import type { Reporter, TestCase, TestModule, Vitest } from 'vitest/node';
import './redis.ts';

export class NotRun implements Reporter {
  #vitest: Vitest | undefined;

  onInit(vitest: Vitest): void {
    this.#vitest = vitest;
  }

  onTestRunEnd(modules: ReadonlyArray<TestModule>): void {
    const only = this.#vitest?.getGlobalTestNamePattern();
    const asked = (test: TestCase) => !only || only.test(test.fullName.replaceAll(' > ', ' '));
    const left = modules
      .flatMap(module => [...module.children.allTests('skipped')])
      .filter(test => test.meta().lacksRedis && asked(test));
    if (left.length === 0) return;
    console.log(`\nNOT RUN: Redis (${left.length} ${left.length === 1 ? 'test' : 'tests'})`);
    console.log('To run them, set TEST_REDIS_URL, or install redis-server so that it is found in PATH.');
    if (!process.env.CI) return;
    console.log('With CI set, tests that were not run fail the run.');
    process.exitCode = 1;
  }
}
