/**
 * `npm run every-history -- mutants PART [--every n] [--only file:line] [--workers n] [--seconds n] [--tell]`: changes the product
 * in every small way, one after the other, and says which changes the checker does not find. Nobody has chosen these. Parts:
 * examined.ts. First it plays a copy of each file that is not changed. If something is found in that, nothing is proven.
 */
import { fork } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type Mutant, mutantsOf } from '../mutants/small-changes.ts';
import { type Examined, examined } from './examined.ts';
import { withMistake } from './planted.ts';

/** How a process ends that has tried a change. */
const exits = { survives: 0, found: 3, 'does not run': 4 } as const;
/** `does not end`: it was ended at the deadline, or when it had filled the memory. `breaks off`: the process failed. */
const verdicts = [...(Object.keys(exits) as (keyof typeof exits)[]), 'does not end', 'breaks off'] as const;
type Verdict = (typeof verdicts)[number];

interface Tried {
  readonly verdict: Verdict;
  readonly says: string;
  readonly seconds: number;
}

/** In a process of its own, so that one that never ends can be ended. */
async function tryOne(part: Examined, mutant: Mutant): Promise<keyof typeof exits> {
  let mistaken: Awaited<ReturnType<typeof withMistake>>;
  try {
    mistaken = await withMistake(mutant.file, [{ file: mutant.file, from: mutant.before, to: mutant.after }]);
  } catch {
    return 'does not run';
  }
  using _ = mistaken;
  // What throws is found as well.
  const complaint = await part.complaintOf(mistaken.load, mutant.file).catch((error: unknown) => String(error));
  if (complaint !== undefined) console.log(complaint);
  return complaint === undefined ? 'survives' : 'found';
}

const unchanged = (where: string): Mutant => {
  const [file = ''] = where.split(' ');
  const text = readFileSync(file, 'utf8');
  return { file, line: 0, what: 'nothing is changed', before: text, after: text };
};

export async function tryMutants(name: string): Promise<void> {
  const { values } = parseArgs({
    options: {
      every: { type: 'string', default: '1' },
      only: { type: 'string', default: '' },
      number: { type: 'string' },
      tell: { type: 'boolean', default: false },
      workers: { type: 'string', default: String(availableParallelism()) },
      seconds: { type: 'string', default: '120' },
    },
    allowPositionals: false,
  });
  const part = examined[name]!;
  const all = [...part.files.map(unchanged), ...part.files.flatMap(mutantsOf)];
  if (values.number !== undefined) {
    process.exit(exits[await tryOne(part, all[Number(values.number)]!)]);
  }
  const chosen = all
    .map((mutant, n) => ({ mutant, n }))
    .filter(({ mutant: { file, line } }) => line > 0 && `${file}:${line}`.includes(values.only))
    .filter((_, n) => n % Number(values.every) === 0);
  const files = new Set(chosen.map(({ mutant }) => mutant.file));
  const controls = all
    .map((mutant, n) => ({ mutant, n }))
    .filter(({ mutant: { file, line } }) => line === 0 && files.has(file));
  if (chosen.length === 0) {
    console.error(`No change of ${name} is at "${values.only}".`);
    process.exitCode = 2;
    return;
  }
  await using around = await part.begin?.();
  const each = async <T>(list: readonly T[], work: (one: T, done: number) => Promise<void>) => {
    let next = 0;
    const worker = async () => {
      for (let one = list[next++]; one !== undefined; one = list[next++]) await work(one, next);
    };
    await Promise.all(Array.from({ length: Number(values.workers) }, worker));
  };
  const script = fileURLToPath(new URL('main.ts', import.meta.url));
  const attempt = (n: number, seconds: number) =>
    tryProgram(script, ['mutants', name, '--number', String(n)], { ...around?.env }, seconds);

  let slowest = 0;
  const wrong: string[] = [];
  await each(controls, async ({ mutant, n }) => {
    const { verdict, says, seconds } = await attempt(n, 3600);
    slowest = Math.max(slowest, seconds);
    if (verdict !== 'survives') wrong.push(`${mutant.file}, unchanged: ${verdict}: ${says}`);
  });
  if (wrong.length > 0) {
    console.error(
      `A copy that is not changed does not survive, so nothing that is found says anything:\n${wrong.join('\n')}`,
    );
    process.exitCode = 2;
    return;
  }
  const deadline = Math.max(Number(values.seconds), 4 * slowest);
  console.error(`Unchanged copies survive. A change that is not found in ${Math.ceil(deadline)} s does not end.`);

  const counts = Object.fromEntries(verdicts.map(verdict => [verdict, 0])) as Record<Verdict, number>;
  await each(chosen, async ({ mutant: { file, line, what }, n }, done) => {
    const { verdict, says } = await attempt(n, deadline);
    counts[verdict]++;
    if (verdict !== 'found' && verdict !== 'does not run') console.log(`${verdict}: ${file}:${line}: ${what}`);
    else if (values.tell) console.log(`${verdict}: ${file}:${line}: ${what}\n  ${says}`);
    if (done % 20 === 0) console.error(`${done} of ${chosen.length}: ${JSON.stringify(counts)}`);
  });
  const tried = chosen.length - counts['does not run'];
  const noticed = tried - counts.survives;
  const others = [`${counts['does not end']} do not end`, `${counts['breaks off']} break off`].join(', ');
  console.log(
    `${name}: ${tried} changes, ${counts.found} found, ${others}, ${counts.survives} survive (${((100 * noticed) / tried).toFixed(1)} % noticed)`,
  );
  process.exitCode = counts.survives > 0 ? 1 : 0;
}

/** Runs a program that ends with one of the exit codes above. */
export function tryProgram(
  program: string,
  words: readonly string[],
  env: NodeJS.ProcessEnv,
  seconds: number,
): Promise<Tried> {
  const began = performance.now();
  // What a process leaves behind that had to be ended goes with this folder.
  const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-tried-'));
  return new Promise(resolve => {
    const child = fork(program, words, {
      ...{
        stdio: 'pipe',
        timeout: Math.ceil(seconds * 1000),
        killSignal: 'SIGKILL',
        env: { ...process.env, ...env, TMPDIR: folder },
      },
      execArgv: ['--max-old-space-size=2000'],
    });
    let says = '';
    const hear = (data: Buffer) => {
      says = (says + data).slice(-2000);
    };
    child.stdout?.on('data', hear);
    child.stderr?.on('data', hear);
    child.on('close', (code, signal) => {
      rmSync(folder, { recursive: true, force: true });
      const [known] = Object.entries(exits).find(([, exit]) => exit === code) ?? [];
      // Node aborts where the memory is full.
      const isEnded = signal === 'SIGKILL' || signal === 'SIGABRT' || code === 134;
      const verdict = (known as Verdict | undefined) ?? (isEnded ? 'does not end' : 'breaks off');
      resolve({ verdict, says: says.trim(), seconds: (performance.now() - began) / 1000 });
    });
  });
}
