/** The command line as a process of its own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

export interface Finished {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

/** Settings come from `env` alone; `folder` is where the command runs; `program` is another tree's main.ts. */
export function shelfdesk(
  args: readonly string[],
  env: Record<string, string>,
  folder?: string,
  program = main,
): { process: ChildProcess; finished: Promise<Finished> } {
  const { PATH = '', HOME = '', NODE_COMPILE_CACHE = '' } = process.env;
  const child = spawn(process.execPath, [program, ...args], {
    env: { PATH, HOME, NODE_COMPILE_CACHE, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(folder !== undefined && { cwd: folder }),
  });
  const finished = new Promise<Finished>((resolve, reject) => {
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', chunk => {
      stdout += chunk;
    });
    child.stderr.on('data', chunk => {
      stderr += chunk;
    });
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
  return { process: child, finished };
}

/** Settings for a sandbox and a database, at no limit; nothing is read that no test expects. */
export const settingsFor = (databaseUrl: string, sandbox: { url: string; token: string }) => ({
  DATABASE_URL: databaseUrl,
  HELPDESK_BASE_URL: sandbox.url,
  HELPDESK_TOKEN: sandbox.token,
  HELPDESK_CREDITS: '1000000000',
  HELPDESK_REQUESTS_PER_SECOND: '1000000',
  HELPDESK_RESERVE: '0',
  AUDIT_TICKETS_PER_HOUR: '0',
});
