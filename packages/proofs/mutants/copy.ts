/** A copy of the project, in which files are changed and tests run. The project itself is only read. */
import { type ChildProcess, fork } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Kind, Order, Told } from './runner.ts';

export interface Ran {
  readonly test: string;
  /** The names of the cases that failed, or what went wrong instead. */
  readonly failed: readonly string[];
  readonly seconds: number;
}

/** At the project's root. */
const leftOut = ['.git', '.shelfdesk', 'coverage', 'dist'];

export class Copy implements Disposable {
  readonly root = mkdtempSync(join(tmpdir(), `shelfdesk-mutants-${process.pid}-`));
  readonly #kind: Kind;
  #runner: ChildProcess | undefined;
  readonly #dispose = () => this[Symbol.dispose]();

  constructor(project: string, kind: Kind) {
    this.#kind = kind;
    process.once('exit', this.#dispose);
    const isCopied = (path: string) => basename(path) !== 'node_modules' && !leftOut.includes(relative(project, path));
    cpSync(project, this.root, { recursive: true, filter: isCopied });
    symlinkSync(join(project, 'node_modules'), join(this.root, 'node_modules'));
  }

  /** Runs these in their order while the file has this text. `limit`: the seconds after which a test file counts as failed. */
  async runChanged(file: string, text: string, tests: readonly string[], limit: (test: string) => number) {
    const path = join(this.root, file);
    const before = readFileSync(path, 'utf8');
    writeFileSync(path, text);
    try {
      return await this.run({ tests }, limit);
    } finally {
      writeFileSync(path, before);
    }
  }

  async run(order: Order, limit: (test: string) => number): Promise<Ran[]> {
    const ran: Ran[] = [];
    let left = order.tests;
    while (left.length > 0) {
      const more = await this.#once({ ...order, tests: left }, limit);
      ran.push(...more);
      // Only a process that had to be ended leaves any behind, where all are asked for.
      const last = left.indexOf(more.at(-1)?.test ?? '');
      left = this.#runner || !this.#kind.all || last < 0 ? [] : left.slice(last + 1);
    }
    return ran;
  }

  #once(order: Order, limit: (test: string) => number): Promise<Ran[]> {
    this.#runner ??= start(this.root, this.#kind);
    const runner = this.#runner;
    const { promise, resolve } = Promise.withResolvers<Ran[]>();
    const ran: Ran[] = [];
    let test = order.tests[0]!;
    let began = performance.now();
    let timer: NodeJS.Timeout | undefined;
    const note = (failed: readonly string[], of = test) => {
      ran.push({ test: of, failed, seconds: (performance.now() - began) / 1000 });
    };
    const begin = (next: string) => {
      [test, began] = [next, performance.now()];
      clearTimeout(timer);
      timer = setTimeout(() => {
        note([`does not end within ${Math.ceil(limit(next))} s`]);
        this.#end();
        finish();
      }, limit(next) * 1000);
    };
    const finish = () => {
      clearTimeout(timer);
      runner.removeAllListeners();
      resolve(ran);
    };
    runner.on('message', (told: Told) => {
      if ('begins' in told) begin(told.begins);
      else if ('ended' in told) note(told.failed, told.ended);
      else {
        if (told.done.length > 0) note(told.done);
        finish();
      }
    });
    runner.once('exit', () => {
      note(['ends the process']);
      this.#end();
      finish();
    });
    begin(test);
    runner.send(order);
    return promise;
  }

  /** With all that it has started. */
  #end(): void {
    const { pid, exitCode } = this.#runner ?? {};
    this.#runner = undefined;
    if (pid && exitCode === null) process.kill(-pid, 'SIGKILL');
  }

  [Symbol.dispose](): void {
    process.off('exit', this.#dispose);
    this.#end();
    rmSync(this.root, { recursive: true, force: true, maxRetries: 5 });
  }
}

function start(root: string, kind: Kind): ChildProcess {
  const child = fork(fileURLToPath(new URL('runner.ts', import.meta.url)), [root, JSON.stringify(kind)], {
    ...{ cwd: root, detached: true, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] },
    // The properties draw the same cases each time, and what takes long runs.
    env: { ...process.env, CI: 'true', NO_COLOR: '1' },
  });
  // One that cannot be told anything ends, and that is heard.
  child.on('error', () => {});
  return child;
}
