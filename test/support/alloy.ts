/**
 * Alloy checks the models in test/models. It is a program for Java, which Maven gets from its registry, into a folder of
 * the user's cache, once. Without Java, or without Maven or network, these tests do not run, and the run says so.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe } from 'vitest';
import { cached } from './cached.ts';
import { long } from './long.ts';

declare module 'vitest' {
  interface TaskMeta {
    /** Not run, because it needs Alloy. */
    lacksAlloy?: boolean;
  }
}

const run = promisify(execFile);
const version = '6.2.0';
const artifact = 'org.alloytools.alloy.dist';

/** The jar; undefined if Alloy cannot be had, or there is no Java to run it. */
async function findAlloy(): Promise<string | undefined> {
  const hasJava = await run('java', ['-version']).then(
    () => true,
    () => false,
  );
  if (!hasJava) return undefined;
  if (process.env.ALLOY_JAR) return process.env.ALLOY_JAR;
  const folder = await cached(`alloy-${version}`, async folder => {
    const asked = [`-Dartifact=org.alloytools:${artifact}:${version}`, `-DoutputDirectory=${folder}`];
    await run('mvn', ['--batch-mode', '--quiet', 'dependency:copy', ...asked], { cwd: folder, timeout: 120_000 });
  });
  return folder && join(folder, `${artifact}-${version}.jar`);
}

/** What Alloy found for each command of a model: an instance (of what was looked for, or against what was claimed), or none. */
export async function runModel(jar: string, path: string): Promise<Map<string, 'found' | 'none'>> {
  const folder = await mkdtemp(join(tmpdir(), 'shelfdesk-alloy-'));
  try {
    const { stdout, stderr } = await run('java', ['-jar', jar, 'exec', '-f', '-c', '*', '-o', folder, path]);
    const lines = `${stdout}\n${stderr}`.matchAll(/^\d+\. (?:check|run)\s+(\w+)\s.*\b(UNSAT|SAT)\s*$/gm);
    return new Map([...lines].map(([, name, said]) => [name!, said === 'SAT' ? 'found' : 'none']));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** `describe` for tests that need Alloy; they get its jar. Write `await` before it. */
export async function describeOnAlloy(name: string, register: (jar: string) => void): Promise<void> {
  // Alloy is fetched where the tests that take long run.
  const jar = long.skip ? undefined : await findAlloy();
  if (long.skip) describe(name, long, () => register(''));
  else describe(name, { skip: !jar, meta: { lacksAlloy: !jar } }, () => register(jar ?? ''));
}
