/** A copy of the program with the source that docs/how-to/add-a-source.md builds, made by following its steps; and a process of it. */
import { type ChildProcess, fork } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Finished } from '../support/cli.ts';
import type { Asked } from './runner.ts';

export const root = fileURLToPath(new URL('../../', import.meta.url));
export const guide = readFileSync(join(root, 'docs/how-to/add-a-source.md'), 'utf8');

/** The blocks of the guide that name a file, in their order. */
export const blocks = [...guide.matchAll(/^```(\w+) file=(\S+)\n([\s\S]*?)^```$/gm)].map(
  ([, language, file, text]) => ({ language: language!, file: file!, text: text! }),
);

export interface Tree extends Disposable {
  readonly folder: string;
  /** The folder in which its commands run, with `.env` and sources outside of the program. Default: the folder of the tests. */
  readonly home?: string;
}

export interface Program extends Disposable {
  /** One command at a time. */
  run(asked: Asked): Promise<Finished>;
  /** kill -9 of the command that runs. The next one has a new process. */
  kill(): void;
}

/** A process that runs the commands of a tree: to start one for each command takes longer than most of them. */
export function programOf({ folder, home }: Tree): Program {
  let child: ChildProcess | undefined;
  const kill = () => {
    child?.kill('SIGKILL');
    child = undefined;
  };
  return {
    run: asked =>
      new Promise(done => {
        child ??= fork(runner, [folder], {
          ...(home !== undefined && { cwd: home }),
          stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
        });
        const killed = (code: number | null, signal: NodeJS.Signals | null) =>
          done({ code, signal, stdout: '', stderr: '' });
        child.once('exit', killed);
        child.once('message', said => {
          child?.off('exit', killed);
          done({ signal: null, ...(said as Omit<Finished, 'signal'>) });
        });
        child.send(asked);
      }),
    kill,
    [Symbol.dispose]: kill,
  };
}

const runner = fileURLToPath(new URL('runner.ts', import.meta.url));

/** Texts that replace others in one file. */
export type Changes = readonly (readonly [before: string, after: string])[];

/** The files of the guide are written, in the program or outside of it, and its lines with + and - are applied. `changes`: by file. */
export function followGuide(changes: Readonly<Record<string, Changes>> = {}): Tree {
  const [folder, home] = ['guide', 'home'].map(name =>
    mkdtempSync(join(tmpdir(), `shelfdesk-${name}-${process.pid}-`)),
  ) as [string, string];
  for (const name of [
    'package.json',
    'tsconfig.json',
    'src',
    'jobs',
    'migrations',
    'schema',
    'docs/queries',
    'packages',
  ])
    cpSync(join(root, name), join(folder, name), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  for (const { language, file, text } of blocks) {
    const path = join(file.startsWith('src/') ? folder : home, file);
    if (language !== 'diff') {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, (changes[file] ?? []).reduce(replaced(file), text), { mode: 0o600 });
    } else writeFileSync(path, applied(readFileSync(path, 'utf8'), text));
  }
  return {
    ...{ folder, home },
    [Symbol.dispose]() {
      for (const one of [folder, home]) rmSync(one, { recursive: true, force: true });
    },
  };
}

const replaced =
  (file: string) =>
  (text: string, [before, after]: Changes[number]): string => {
    if (!text.includes(before)) throw new Error(`${file} of the guide does not hold ${before}`);
    return text.replaceAll(before, () => after);
  };

/** A line with - is replaced by the line with + behind it. Other lines with + go to the top, behind the comment. */
function applied(text: string, diff: string): string {
  const lines = diff.trimEnd().split('\n');
  const at = lines.findIndex(line => line.startsWith('-'));
  const [before, after] = [lines[at]!.slice(1), lines[at + 1]!.slice(1)];
  if (!text.includes(before)) throw new Error(`the guide replaces a line that is not there: ${before}`);
  const imports = lines.filter((line, i) => line.startsWith('+') && i !== at + 1).map(line => line.slice(1));
  return text.replace(before, after).replace(/^import /m, `${imports.join('\n')}\nimport `);
}
