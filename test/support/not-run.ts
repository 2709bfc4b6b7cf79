/** A reporter that says at the end which tests were not run for want of a Redis, of a browser, of Docker, or of other programs. */
import type { Reporter, TestCase, TestModule, Vitest } from 'vitest/node';
import './docker.ts';
import './long.ts';
import './pgbouncer.ts';
import './python.ts';
import './redis.ts';
import type {} from '../../packages/lake/test/support/lake.ts';
import type {} from './browser.ts';
import { leftOut } from './kinds.ts';
import { sandboxChanged } from './sandbox-changed.ts';

/** CI has a Redis, a browser and time, so there it is a failure not to find them. It may reach no registry of Python. */
const needs = [
  {
    name: 'Redis',
    lack: 'lacksRedis',
    remedy: 'To run them, set TEST_REDIS_URL, or install redis-server so that it is found in PATH.',
    onCi: true,
  },
  {
    name: 'browser',
    lack: 'lacksBrowser',
    remedy: 'To run them, install chromium so that it is found in PATH, or set CHROMIUM to the program.',
    onCi: true,
  },
  {
    name: 'Docker',
    lack: 'lacksDocker',
    remedy: 'To run them, start a Docker engine; they need `docker compose` as well.',
    onCi: false,
  },
  {
    name: 'pg_dump',
    lack: 'lacksPgTools',
    remedy: "To run them, install PostgreSQL's client programs of version 18 or newer, or start a Docker engine.",
    onCi: false,
  },
  {
    name: 'PgBouncer',
    lack: 'lacksPgBouncer',
    remedy: 'To run them, install pgbouncer.',
    onCi: false,
  },
  {
    name: 'Python',
    lack: 'lacksPython',
    remedy: 'To run them, install python3 with venv and pip, and let pip reach a registry.',
    onCi: false,
  },
  {
    name: 'lake',
    lack: 'lacksLake',
    remedy:
      "To run them, install python3 with venv, which gets DuckDB's extensions from PyPI, or set LAKE_EXTENSIONS to a folder with them.",
    onCi: false,
  },
  {
    name: 'buckets',
    lack: 'lacksMoto',
    remedy: 'To run them, install python3 with venv: it gets moto, a server of buckets, from PyPI.',
    onCi: false,
  },
  {
    name: 'Spark',
    lack: 'lacksSpark',
    remedy: 'To run them, install Java 17 and pyspark 4, and set SPARK_PYTHON to the Python that has it.',
    onCi: false,
  },
  {
    name: 'long',
    lack: 'lacksTime',
    remedy: 'They run with CI=true.',
    onCi: true,
  },
  {
    name: 'proofs',
    lack: 'lacksNight',
    remedy: 'They take minutes each, and run at night and with `npm run prove`.',
    onCi: false,
  },
] as const;

export class NotRun implements Reporter {
  #vitest: Vitest | undefined;

  onInit(vitest: Vitest): void {
    this.#vitest = vitest;
  }

  onTestRunEnd(modules: ReadonlyArray<TestModule>): void {
    const files = leftOut([
      'test/{conformance,integration,release,containers}/**/*.test.ts',
      'packages/{lake,proofs}/**/*.test.ts',
    ]);
    if (files > 0)
      console.log(
        `\nNOT RUN: ${files} files that show the same of other commands, sources and failures. They run with CI=true, or by their name.`,
      );
    if (!sandboxChanged())
      console.log(
        '\nNOT RUN: tests of packages/sandbox, which has not changed. `npm test -- packages/sandbox` runs them.',
      );
    const only = this.#vitest?.getGlobalTestNamePattern();
    const asked = (test: TestCase) => !only || only.test(test.fullName.replaceAll(' > ', ' '));
    const skipped = modules.flatMap(module => [...module.children.allTests('skipped')]).filter(asked);
    for (const { name, lack, remedy, onCi } of needs) {
      const left = skipped.filter(test => test.meta()[lack]);
      if (left.length === 0) continue;
      console.log(`\nNOT RUN: ${name} (${left.length} ${left.length === 1 ? 'test' : 'tests'})`);
      console.log(remedy);
      if (!process.env.CI || !onCi) continue;
      console.log('With CI set, these tests that were not run fail the run.');
      process.exitCode = 1;
    }
  }
}
