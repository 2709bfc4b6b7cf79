/** Processes that work off a simulation side by side: each with a server of its own, on a processor of its own where that can be had. */
import { execFileSync, fork } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { Database } from './database.ts';
import { startServer } from './server.ts';

export interface Worker<T> {
  /** Its arguments, beside those that say which share of the work it has. */
  readonly args: (n: number) => readonly string[];
  readonly told: (one: T, n: number) => void;
}

const program = fileURLToPath(new URL('main.ts', import.meta.url));

/** Ends when all have ended. After Ctrl-C each of them ends what it is at, and begins nothing more: then it answers true. */
export async function inWorkers<T>(workers: number, { args, told }: Worker<T>): Promise<boolean> {
  const children = Array.from({ length: workers }, (_, n) =>
    fork(program, ['--worker', '--step', String(workers), ...args(n)], { execArgv: ['--max-semi-space-size=32'] }),
  );
  let stopped = false;
  const stop = () => {
    if (stopped) return;
    stopped = true;
    console.log('Stopping: each worker ends the seed that it is at.');
    for (const child of children) if (child.connected) child.send('stop');
  };
  process.on('SIGINT', stop).on('SIGTERM', stop);
  const ends = await Promise.allSettled(
    children.map(
      (child, n) =>
        new Promise<void>((resolve, reject) => {
          pin(child.pid, n, workers);
          child.on('message', one => told(one as T, n));
          child.on('exit', code => (code === 0 ? resolve() : reject(new Error(`a worker ended with ${code}`))));
        }),
    ),
  );
  process.off('SIGINT', stop).off('SIGTERM', stop);
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
  return stopped;
}

/**
 * A worker and its server wait for each other all the time. On one processor neither has to be woken up on another one. Only Linux
 * has the command.
 */
function pin(pid: number | undefined, n: number, workers: number): void {
  if (pid === undefined || workers > availableParallelism()) return;
  try {
    execFileSync('taskset', ['-a', '-c', '-p', String(n), String(pid)], { stdio: 'ignore' });
  } catch {
    // It is as right on any processor.
  }
}

/** What a worker does with its share: `act` is to end when `isStopped`. */
export async function asWorker(
  act: (database: Database, tell: (told: object) => Promise<void>, isStopped: () => boolean) => Promise<void>,
): Promise<void> {
  let stopped = false;
  // Ctrl-C reaches all processes of a terminal: whoever has started this one says when to stop.
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => {});
  process.on('message', () => {
    stopped = true;
  });
  process.on('disconnect', () => {
    stopped = true;
  });
  const tell = (told: object) =>
    new Promise<void>(resolve => {
      if (process.connected) process.send!(told, undefined, undefined, () => resolve());
      else resolve();
    });
  await using server = await startServer();
  const database = await Database.open(server.url);
  await act(database, tell, () => stopped);
  database.close();
  if (process.connected) process.disconnect();
}
