/**
 * A process that starts Vitest once, in a copy of the project, and runs the test files that it is told to, again and again. The
 * modules are imported by Node itself: each run reads them from the copy anew, and V8 counts in the text as it stands there.
 */
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createVitest, type TestModule } from 'vitest/node';
import { openapiJson } from '../../sandbox/src/openapi.ts';

export interface Kind {
  /** With the servers of test/support/global.ts. */
  readonly servers: boolean;
  /** All test files run, each in a process of its own. Otherwise nothing runs after the first failure. */
  readonly all: boolean;
}

export interface Order {
  readonly tests: readonly string[];
  /** A folder for what V8 counts. */
  readonly coverage?: string;
}

export type Told =
  | { readonly begins: string }
  | { readonly ended: string; readonly failed: readonly string[] }
  | { readonly done: readonly string[] };

const limitMs = 3_600_000;

async function run(root: string, { servers, all }: Kind): Promise<void> {
  const tell = (told: Told) => void process.send?.(told);
  const nameOf = ({ moduleId }: TestModule) => relative(root, moduleId);
  const vitest = await createVitest('test', {
    ...{ root, config: false, watch: false, maxWorkers: 1, pool: 'forks', silent: true },
    include: ['{test,packages}/**/*.test.ts'],
    isolate: servers || all,
    bail: all ? 0 : 1,
    setupFiles: [
      ...['properties', 'quiet'].map(name => `test/support/${name}.ts`),
      fileURLToPath(new URL('take-coverage.ts', import.meta.url)),
    ],
    ...(servers && { globalSetup: ['test/support/global.ts'] }),
    // Who started this process ends what takes too long.
    ...{ testTimeout: limitMs, hookTimeout: limitMs },
    experimental: { viteModuleRunner: false },
    sequence: {
      sequencer: class {
        sort = <T>(files: T) => files;
        shard = <T>(files: T) => files;
      },
    },
    reporters: [
      {
        onTestModuleQueued: module => tell({ begins: nameOf(module) }),
        onTestModuleEnd(module) {
          const cases = [...module.children.allTests('failed')].map(({ fullName }) => fullName);
          const failed = module.ok() ? [] : [...cases, ...module.errors().map(({ message }) => message)];
          tell({ ended: nameOf(module), failed });
        },
      },
    ],
  });
  if (!servers) vitest.getRootProject().provide('openapi', JSON.parse(openapiJson()));
  process.on('message', async ({ tests, coverage }: Order) => {
    if (coverage) process.env.NODE_V8_COVERAGE = coverage;
    else delete process.env.NODE_V8_COVERAGE;
    const project = vitest.getRootProject();
    const { unhandledErrors } = await vitest.runTestSpecifications(
      tests.map(test => project.createSpecification(`${root}/${test}`)),
    );
    tell({ done: unhandledErrors.map(error => String((error as Error).message ?? error)) });
  });
  // With all that it started: the processes are of one group.
  process.on('disconnect', () => process.kill(-process.pid, 'SIGKILL'));
}

const [root = '', kind = '{}'] = process.argv.slice(2);
await run(root, JSON.parse(kind));
