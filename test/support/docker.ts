/**
 * Tests that need a Docker engine and Docker Compose. Where they do not answer the tests do not run, and the run says so
 * at its end (see not-run.ts).
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, inject } from 'vitest';
import { settings } from '../../src/app/settings.ts';

declare module 'vitest' {
  interface TaskMeta {
    /** Not run, because it needs Docker and there is none. */
    lacksDocker?: boolean;
  }
}

// A helper of testcontainers that clears up after a killed run. Its image cannot be had everywhere, and then nothing runs.
process.env.TESTCONTAINERS_RYUK_DISABLED ??= 'true';

export const root = fileURLToPath(new URL('../../', import.meta.url));

/** Images may have to be fetched first. */
export const retryOutages = { timeout: 15 * 60_000 };

const run = promisify(execFile);

/** Asked once for the whole test run, by global.ts. */
export async function dockerAnswers(): Promise<boolean> {
  const asked = { timeout: 5000, killSignal: 'SIGKILL' } as const;
  return await Promise.all([
    run('docker', ['version', '--format', '{{.Server.Version}}'], asked),
    run('docker', ['compose', 'version'], asked),
  ]).then(
    () => true,
    () => false,
  );
}

export function describeOnDocker(name: string, register: () => void): void {
  const docker = inject('docker');
  describe(name, { skip: !docker, meta: { lacksDocker: !docker } }, register);
}

/** What the command wrote to stdout. Settings come from `env` alone. A failure shows what it wrote to stderr. */
export async function docker(args: readonly string[], env: Record<string, string> = {}): Promise<string> {
  const own = Object.entries(process.env).filter(([name]) => !(name in settings) && !/_PASSWORD$/.test(name));
  const { stdout } = await run('docker', args, {
    cwd: root,
    env: { ...Object.fromEntries(own), ...env },
    maxBuffer: 64 * 1024 * 1024,
  });
  return stdout.trim();
}
