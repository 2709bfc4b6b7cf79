/** Processes on the machine whose power is cut, or beside it: workers, and a command that is begun again until it succeeds. */
import { shelfdesk } from '../../../test/support/cli.ts';

interface Member {
  /** With the power of their machine. */
  die(): Promise<void>;
  /** On another machine, while the database is away. */
  stop(): Promise<void>;
  goOn(): void;
  begin(again?: boolean): void;
}

export interface Crew extends Member, AsyncDisposable {
  /** Those that have begun are at work. */
  ready(): Promise<void>;
  /** Says what went wrong. */
  leave(): Promise<string[]>;
}

type Running = ReturnType<typeof shelfdesk>;

const signalTo = ({ process }: Running, name: NodeJS.Signals) => process.kill(name);

export function crewOf(count: number, env: Record<string, string>, program?: string): Crew {
  let workers: (Running & { ready: Promise<void> })[] = [];
  const strays: string[] = [];
  let leaving = false;
  const start = () => {
    const running = shelfdesk(['start'], env, undefined, program);
    const ready = new Promise<void>(done => {
      let said = '';
      running.process.stderr!.on('data', chunk => {
        said += chunk;
        if (/^Worker \d+ is running/m.test(said)) done();
      });
      void running.finished.then(() => done());
    });
    const one = { ...running, ready };
    void running.finished.then(({ code, signal, stderr }) => {
      if (signal === 'SIGKILL' || leaving) return;
      // One that began while the database was away gives up; whoever runs it begins it again.
      if (!/does not answer|cannot be used/.test(stderr))
        strays.push(`a worker ended with ${code ?? signal}: ${stderr}`);
      workers[workers.indexOf(one)] = start();
    });
    return one;
  };
  const begin = () => {
    workers = Array.from({ length: count }, start);
  };
  begin();
  const die = async () => {
    for (const one of workers) signalTo(one, 'SIGKILL');
    await Promise.all(workers.map(({ finished }) => finished));
  };
  return {
    begin,
    die,
    async stop() {
      for (const one of workers) signalTo(one, 'SIGSTOP');
    },
    goOn() {
      for (const one of workers) signalTo(one, 'SIGCONT');
    },
    async ready() {
      await Promise.all(workers.map(({ ready }) => ready));
    },
    async leave() {
      leaving = true;
      for (const one of workers) signalTo(one, 'SIGTERM');
      const ends = await Promise.all(workers.map(({ finished }) => finished));
      const ill = ends
        .filter(({ code }) => code !== 0)
        .map(({ code, stderr }) => `a worker left with ${code}: ${stderr}`);
      return [...strays, ...ill];
    },
    async [Symbol.asyncDispose]() {
      leaving = true;
      await die();
    },
  };
}

export interface Command extends Member, AsyncDisposable {
  /** Says what went wrong. */
  done(): Promise<string[]>;
}

/** Begun again where its database was away. */
export function commandIn(words: string, env: Record<string, string>, program?: string): Command {
  let running: Running | undefined;
  let ended: string[] | undefined;
  const begin = (again = false) => {
    if (ended !== undefined || (again && running === undefined)) return;
    const one = shelfdesk([...words.split(' '), '--json'], env, undefined, program);
    running = one;
    void one.finished.then(({ code, signal, stdout, stderr }) => {
      if (signal === 'SIGKILL') return;
      if (code === 0) ended = [];
      else if (/does not answer|cannot be used|interrupted/.test(stderr + stdout)) begin(true);
      else ended = [`${words} ended with ${code ?? signal}: ${stderr.trim().slice(-500)} ${stdout.trim().slice(-500)}`];
    });
  };
  const die = async () => {
    running?.process.kill('SIGKILL');
    await running?.finished;
  };
  return {
    begin,
    die,
    async stop() {
      running?.process.kill('SIGSTOP');
    },
    goOn() {
      running?.process.kill('SIGCONT');
    },
    async done() {
      while (running !== undefined && ended === undefined) await running.finished;
      return ended ?? [];
    },
    async [Symbol.asyncDispose]() {
      ended ??= [];
      await die();
    },
  };
}
