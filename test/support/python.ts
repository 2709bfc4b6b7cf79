/**
 * Programs of Python, installed in a folder of their own. Where Python or the packages cannot be had, the tests that need them do
 * not run, and the run says so at its end (see not-run.ts).
 */
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { TestContext } from 'vitest';

declare module 'vitest' {
  interface TaskMeta {
    /** Not run, because there is no Python, or its packages could not be installed. */
    lacksPython?: boolean;
  }
}

const run = promisify(execFile);

export interface Python extends AsyncDisposable {
  /** The folder with the programs of the packages. */
  readonly bin: string;
}

/** A new environment with these packages. Skips the test if they cannot be had. */
export async function pythonWith(context: TestContext, packages: readonly string[]): Promise<Python> {
  const folder = await mkdtemp(join(tmpdir(), 'shelfdesk-python-'));
  const bin = join(folder, 'bin');
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    await run('python3', ['-m', 'venv', folder]);
    await run(join(bin, 'python'), ['-m', 'pip', 'install', '--quiet', ...packages]);
  } catch (error) {
    await remove();
    context.task.meta.lacksPython = true;
    context.skip(`${packages.join(', ')} could not be installed: ${(error as Error).message}`);
  }
  return { bin, [Symbol.asyncDispose]: remove };
}
