/**
 * The command line in this process: no start of a process has to be paid for, and several commands may run at once, each with its own
 * environment, folder and output. Signals, a terminal and the end of a process need a real one (cli.ts).
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command, CommanderError } from 'commander';
import { pino } from 'pino';
import { exportLake } from '../../jobs/export-lake.ts';
import { stageLake } from '../../jobs/stage-lake.ts';
import { chooseAccount, demoInstead, oneAccount, readFleet } from '../../src/app/config.ts';
import type { Act, AddCommand } from '../../src/cli/command.ts';
import { withNewName } from '../../src/cli/old-names.ts';
import { say } from '../../src/cli/output/terminal.ts';
import {
  Away,
  exitCodes,
  Interrupted,
  isAway,
  machineRefusal,
  orReason,
  ShelfdeskError,
  unlessMoved,
} from '../../src/errors.ts';
import { type Finished, textOf } from './cli.ts';
import { jobs } from './mirror.ts';
import { program as whole } from './program.ts';

type Ended = Omit<Finished, 'signal'>;

export interface Here {
  readonly finished: Promise<Ended>;
  /** What is written so far. */
  stdout(): string;
  /** Of a log, its texts. */
  stderr(): string;
  /** Waits until stdout or stderr says so; fails if the command ends before that. */
  says(words: RegExp): Promise<void>;
  /** As Ctrl-C and SIGTERM do. */
  interrupt(): Promise<Ended>;
}

/** What a command sees of its process, and what it has written. */
interface Scene {
  readonly env: Readonly<Record<string, string>>;
  readonly folder: string;
  stdout: string;
  stderr: string;
  readonly heard: () => unknown;
}

const scenes = new AsyncLocalStorage<Scene>();
let commands = 0;
let undo = () => {};

/** While a command runs, it sees its own environment and folder, and what it writes and logs is kept for it. Nobody else sees a change. */
function listen(): Disposable {
  if (commands++ === 0) undo = takeOver();
  return {
    [Symbol.dispose]() {
      if (--commands === 0) undo();
    },
  };
}

function takeOver(): () => void {
  const { destination } = pino;
  const { cwd, env } = process;
  const writes = (['stdout', 'stderr'] as const).map(name => {
    const stream = process[name];
    const { write } = stream;
    stream.write = ((...args: Parameters<typeof write>) => {
      const told = scenes.getStore();
      if (told === undefined) return write.apply(stream, args);
      told[name] += args[0];
      told.heard();
      return true;
    }) as typeof write;
    return () => {
      stream.write = write;
    };
  });
  // The log of a process goes to this file, past process.stderr.
  const ofLog = { write: (line: string) => void process.stderr.write(line) };
  pino.destination = ((to: unknown) => (to === 2 ? ofLog : destination(to as number))) as typeof destination;
  process.cwd = () => scenes.getStore()?.folder ?? cwd();
  const value = { configurable: true, enumerable: true };
  Object.defineProperty(process, 'env', { ...value, get: () => scenes.getStore()?.env ?? env });
  return () => {
    for (const back of writes) back();
    pino.destination = destination;
    process.cwd = cwd;
    Object.defineProperty(process, 'env', { ...value, writable: true, value: env });
  };
}

const cli = fileURLToPath(new URL('../../src/cli', import.meta.url));
const files = readdirSync(cli, { recursive: true, encoding: 'utf8' });

/** Loads this command alone. */
async function adderOf(name: string): Promise<AddCommand | undefined> {
  // Two commands of one file.
  const file = files.find(path => path.includes('/') && basename(path) === `${name === 'resume' ? 'pause' : name}.ts`);
  if (file === undefined) return undefined;
  const all = (await import(join(cli, file))) as Record<string, AddCommand>;
  return all[`add-${name}`.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase())];
}

/** Settings come from `env` and the `.env` of the folder; `folder` is where the command runs. */
export function here(given: readonly string[], env: Readonly<Record<string, string>>, folder = tmpdir()): Here {
  const ending = new AbortController();
  const ears = new Set<() => void>();
  const { PATH = '', HOME = '' } = process.env;
  const own = { env: { PATH, HOME, ...env }, folder };
  const told: Scene = { ...own, stdout: '', stderr: '', heard: () => [...ears].map(look => look()) };
  const stderr = () => (given.includes('start') ? told.stderr.split('\n').map(textOf).join('\n') : told.stderr);
  const finished = scenes.run(told, async () => {
    using _ = listen();
    const code = await run(given, ending.signal);
    return { code, stdout: told.stdout, stderr: told.stderr };
  });
  return {
    finished,
    stdout: () => told.stdout,
    stderr,
    says: words =>
      new Promise((resolve, reject) => {
        const look = () => {
          if (words.test(told.stdout + stderr())) resolve();
        };
        ears.add(look);
        finished.then(ended => reject(new Error(`ended with ${ended.code}, and had said: ${ended.stderr}`)), reject);
        look();
      }),
    interrupt() {
      ending.abort(new Interrupted());
      return finished;
    },
  };
}

/** To its end. */
export const ran = (...command: Parameters<typeof here>): Promise<Ended> => here(...command).finished;

async function run(given: readonly string[], signal: AbortSignal): Promise<number> {
  let code: number = exitCodes.ok;
  const { args, says } = withNewName(given);
  if (says !== undefined) say(says);
  const program = new Command('shelfdesk').version('0').option('--account <name>').exitOverride();
  const named = () => program.opts<{ account?: string }>().account;
  let demo: Awaited<ReturnType<typeof demoInstead>>;
  program.hook('preAction', async () => {
    demo = await demoInstead(named());
  });
  const read = () => readFleet(undefined, undefined, demo);
  const deps = {
    config: () => chooseAccount(read(), named()),
    fleet: () => oneAccount(read(), named()),
    asked: () => ({ fleet: read(), account: named() }),
    ...{ jobs, lakeJobs: [exportLake, stageLake], signal },
  };
  const name = args.find((arg, i) => !arg.startsWith('-') && args[i - 1] !== '--account') ?? '';
  const act: Act =
    action =>
    async (...words) => {
      code = (await action(...words)) ?? exitCodes.ok;
    };
  if (name === 'completion') await whole(program, deps, act);
  else (await adderOf(name))?.(program, deps, act);
  try {
    // As program.ts protects a statement that begins with a comment.
    const words = args.map(arg => (/^--\s/.test(arg) ? `\n${arg}` : arg));
    await program.parseAsync(words, { from: 'user' });
    return code;
  } catch (thrown) {
    return explained(orReason(thrown, signal));
  }
}

/** As program.ts explains it. */
function explained(cause: unknown): number {
  const thrown = unlessMoved(cause);
  if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
  const outage = isAway(thrown) && !(thrown instanceof ShelfdeskError) ? new Away(thrown) : thrown;
  const error = machineRefusal(thrown) ?? outage;
  if (!(error instanceof ShelfdeskError)) throw error;
  if (!(error instanceof Interrupted)) say(`error: ${error.message}`);
  say(error.remedy);
  return error.exitCode;
}
