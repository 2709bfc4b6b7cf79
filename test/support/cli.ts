/** The command line as a process of its own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { Transform } from 'node:stream';
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
  // Without a terminal `start` writes JSON: tests read the texts as a terminal shows them.
  if (args[0] === 'start') child.stderr = child.stderr.pipe(spoken());
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

/** A line of a log as its text; `! ` begins warnings, and the time of the run a run that has ended. */
export function textOf(line: string): string {
  if (!line.startsWith('{"level":')) return line;
  const { level, msg, at, stream } = JSON.parse(line);
  return `${at === undefined ? '' : `${at.slice(0, 19)}Z `}${level < 40 ? '' : '! '}${stream === undefined ? '' : `${stream}: `}${msg}`;
}

function spoken(): Transform {
  let rest = '';
  return new Transform({
    transform(chunk, _encoding, done) {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop()!;
      done(null, lines.map(line => `${textOf(line)}\n`).join(''));
    },
    flush: done => done(null, rest),
  });
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
