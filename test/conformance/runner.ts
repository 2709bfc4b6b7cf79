/** Runs commands of one tree's program, one after the other. What they share is loaded once, unlike by processes of their own. */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

export interface Asked {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

const program = pathToFileURL(join(process.argv[2]!, 'src/program.ts')).href;
const { PATH = '', HOME = '' } = process.env;
/** What each command would leave behind in a process that outlives it. */
const events = ['SIGINT', 'SIGTERM', 'uncaughtException'] as const;
let commands = 0;

process.on('message', async ({ args, env }: Asked) => {
  const said = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    process[name].write = text => {
      said[name] += text;
      return true;
    };
  process.env = { PATH, HOME, ...env };
  process.argv = [process.execPath, program, ...args];
  process.exitCode = 0;
  // Another address is another module; what it imports is the same.
  await import(`${program}?${++commands}`);
  for (const event of events) process.removeAllListeners(event);
  process.send!({ ...said, code: process.exitCode });
});
