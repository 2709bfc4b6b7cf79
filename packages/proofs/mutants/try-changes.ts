/** Tries every small change of some files, and finds which test files notice it. */
import { globSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join, matchesGlob, relative } from 'node:path';
import { inProcess } from '../../../vitest.config.ts';
import { Copy, type Ran } from './copy.ts';
import { findReach, keptReach, type Reach, reaches, type Span } from './reach.ts';
import { type Mutant, mutantsOf } from './small-changes.ts';

export interface Asked {
  readonly project: string;
  /** Files and folders of sources. */
  readonly files: readonly string[];
  /** Default: those in process. */
  readonly tests: readonly string[];
  readonly servers: boolean;
  /** Every test file that reaches a change runs, also after one that has failed. */
  readonly all: boolean;
  /** Each so-manieth change. */
  readonly every: number;
  readonly workers: number;
  /** What a test file may take at least before it counts as one that does not end. */
  readonly leastSeconds: number;
  readonly say: (progress: string) => void;
  /** Ends it with what has been tried by then. */
  readonly stop: AbortSignal;
}

export interface Tried {
  readonly file: string;
  readonly line: number;
  readonly what: string;
  readonly reachedBy: readonly string[];
  readonly killedBy: readonly Ran[];
}

export interface Outcome {
  readonly changes: readonly Tried[];
  /** The seconds of each test file where nothing is changed. */
  readonly seconds: Readonly<Record<string, number>>;
}

const withServers = ['test/{integration,conformance}/**/*.test.ts'];

interface Change extends Mutant {
  readonly tried: { reachedBy: string[]; killedBy: Ran[] };
  isTried: boolean;
}

export async function tryChanges(asked: Asked): Promise<Outcome> {
  const changes = changesOf(asked);
  const named = (patterns: readonly string[]) => globSync([...patterns], { cwd: asked.project }).sort();
  const isInProcess = (test: string) =>
    inProcess.some(pattern => matchesGlob(test, pattern)) &&
    !readFileSync(join(asked.project, test), 'utf8').includes("support/postgres.ts'");
  const tests = asked.tests.length > 0 ? asked.tests : named(inProcess);
  const seconds: Record<string, number> = {};
  const others = tests.filter(test => !isInProcess(test) && (asked.servers || asked.tests.length > 0));
  const slow = [...others, ...(asked.servers ? named(withServers) : [])];
  await runAll(asked, { servers: false, tests: tests.filter(isInProcess), changes, seconds });
  await runAll(asked, { servers: true, tests: slow, changes, seconds });
  const told = changes.filter(({ isTried }) => isTried);
  return { changes: told.map(({ file, line, what, tried }) => ({ file, line, what, ...tried })), seconds };
}

function changesOf({ project, files, every }: Asked): Change[] {
  const all = files
    .flatMap(path => (path.endsWith('.ts') ? [path] : globSync(`${path}/**/*.ts`, { cwd: project }).sort()))
    .flatMap(path => mutantsOf(join(project, path)))
    .filter(({ before, after }) => isAnother(before, after));
  return all
    .filter((_, n) => n % every === 0)
    .map(mutant => ({
      ...mutant,
      file: relative(project, mutant.file),
      tried: { reachedBy: [], killedBy: [] },
      isTried: false,
    }));
}

/** Whether it is a program at all, and one that differs in more than its types, in whose place spaces stand. */
function isAnother(before: string, after: string): boolean {
  const code = (text: string) => stripTypeScriptTypes(text).replace(/\s+/g, ' ');
  try {
    return code(after) !== code(before);
  } catch {
    return false;
  }
}

interface Part {
  readonly servers: boolean;
  readonly tests: readonly string[];
  readonly changes: readonly Change[];
  readonly seconds: Record<string, number>;
}

async function runAll(asked: Asked, { servers, tests, changes, seconds }: Part): Promise<void> {
  const { project, all, leastSeconds, say, stop } = asked;
  if (tests.length === 0 || stop.aborted) return;
  using stack = new DisposableStack();
  const copies = Array.from({ length: asked.workers }, () => stack.use(new Copy(project, { servers, all })));

  const reach = new Map<string, Reach>();
  await share({ copies, list: tests, stop }, async (copy, test) => {
    reach.set(test, keptReach(project, test) ?? (await findReach(project, copy, test)));
    if (reach.size % 20 === 0) say(`${reach.size} of ${tests.length} test files are known`);
  });
  for (const [test, known] of reach) seconds[test] = known.seconds;
  const cheapestFirst = [...tests].sort((a, b) => seconds[a]! - seconds[b]!);
  const limit = (test: string) => leastSeconds + 5 * seconds[test]!;

  let done = 0;
  const open = changes.filter(({ tried }) => all || tried.killedBy.length === 0);
  await share({ copies, list: open, stop }, async (copy, change) => {
    const { file, before, after, tried } = change;
    const changed = changedIn(before, after);
    const reaching = cheapestFirst.filter(test => reaches(reach.get(test)!, file, changed));
    const ran = reaching.length > 0 ? await copy.runChanged(file, after, reaching, limit) : [];
    tried.reachedBy.push(...reaching);
    tried.killedBy.push(...ran.filter(({ failed }) => failed.length > 0));
    change.isTried = true;
    if (++done % 20 === 0) say(`${done} of ${open.length} changes, ${servers ? 'with servers' : 'in process'}`);
  });
}

/** From where to where the text is another: where a choice is turned round, either side may be the one that never ran. */
function changedIn(before: string, after: string): Span {
  let from = 0;
  while (before[from] === after[from]) from++;
  let same = 0;
  const most = Math.min(before.length, after.length) - from;
  while (same < most && before.at(-1 - same) === after.at(-1 - same)) same++;
  return [from, Math.max(from + 1, before.length - same)];
}

interface Shared<T> {
  readonly copies: readonly Copy[];
  readonly list: readonly T[];
  readonly stop: AbortSignal;
}

async function share<T>({ copies, list, stop }: Shared<T>, work: (copy: Copy, one: T) => Promise<void>) {
  const left = list.values();
  await Promise.all(
    copies.map(async copy => {
      for (const one of left) {
        if (stop.aborted) return;
        await work(copy, one);
      }
    }),
  );
}
