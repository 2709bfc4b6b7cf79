/**
 * `npm run every-history -- mutants PART [--every n] [--only file:line] [--workers n] [--seconds n]`: changes the product in every
 * small way, one after the other, and says which changes the checker does not find. Nobody has chosen these. Parts: examined.ts.
 */
import { fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type Examined, examined } from './examined.ts';
import { withMistake } from './planted.ts';

interface Mutant {
  readonly file: string;
  readonly line: number;
  readonly what: string;
  readonly before: string;
  readonly after: string;
}

/** What stands in a line of code or of SQL, and what may stand there instead. Both are told apart by spaces and case. */
const swaps: readonly (readonly [RegExp, readonly string[]])[] = [
  [/ < /g, [' <= ', ' >= ']],
  [/ <= /g, [' < ']],
  [/ > /g, [' >= ', ' <= ']],
  [/ >= /g, [' > ']],
  [/ === /g, [' !== ']],
  [/ !== /g, [' === ']],
  [/ = (?=\$\d)/g, [' <> ']],
  [/ \+ /g, [' - ']],
  [/ - /g, [' + ']],
  [/ && /g, [' || ']],
  [/ \|\| /g, [' && ']],
  [/ and /g, [' or ']],
  [/ or /g, [' and ']],
  [/\bnot (?=[a-z])/g, ['']],
  [/!(?=[\w(])/g, ['']],
  [/\bMath\.max\b/g, ['Math.min']],
  [/\bMath\.min\b/g, ['Math.max']],
  [/\bMath\.floor\b/g, ['Math.ceil']],
  [/\bMath\.ceil\b/g, ['Math.floor']],
  [/\bleast\(/g, ['greatest(']],
  [/\bgreatest\(/g, ['least(']],
  [/\.some\(/g, ['.every(']],
  [/\.every\(/g, ['.some(']],
  [/\btrue\b/g, ['false']],
  [/\bfalse\b/g, ['true']],
  [/(?<![\w$.'])0(?![\w'.])/g, ['1']],
  [/(?<![\w$.'])1(?![\w'.])/g, ['0', '2']],
  [/'waiting'/g, ["'running'"]],
  [/'running'/g, ["'waiting'"]],
  [/\bearliestMs\b/g, ['latestMs']],
  [/\blatestMs\b/g, ['earliestMs']],
];

/** A line that may be left out: a statement that declares nothing and answers nothing, or a condition of a query. */
const isDispensable = (line: string) =>
  /^\s*(?!(const|let|return|import|export|type|throw|case|readonly)\b|\w+\??:)[^/*].*;$/.test(line) ||
  /^\s*(and|or) .*[^`;]$/.test(line);

const isCode = (line: string) =>
  !/^\s*(\/\/|\/?\*|import\b|export (type|interface)|(readonly )?\w+\??: [\w<>[\] |]+;|\| \{ readonly\b|\w+\([^()]*\): [\w<>]+;$)/.test(
    line,
  );

/** `where`: a file, and of it only these functions if any are named. */
export function mutantsOf(where: string): Mutant[] {
  const [file = '', ...functions] = where.split(' ');
  const from = readFileSync(file, 'utf8');
  const lines = from.split('\n');
  const mutants: Mutant[] = [];
  const note = (n: number, instead: string, what: string) => {
    const after = [...lines.slice(0, n), instead, ...lines.slice(n + 1)].join('\n');
    mutants.push({ file, line: n + 1, what, before: from, after });
  };
  let within: string | undefined;
  for (const [n, line] of lines.entries()) {
    within = /^(?:export )?(?:async )?(?:function|const) (\w+)/.exec(line)?.[1] ?? within;
    if (!isCode(line) || (functions.length > 0 && !functions.includes(within ?? ''))) continue;
    for (const [pattern, others] of swaps)
      for (const { index, 0: found } of line.matchAll(pattern))
        for (const other of others) {
          if (other === found) continue;
          const instead = line.slice(0, index) + other + line.slice(index + found.length);
          note(n, instead, `${line.trim()}  →  ${instead.trim()}`);
        }
    const at = /^(\s*(?:\} )?(?:else )?if \()(?=.)/.exec(line)?.[1];
    if (at !== undefined)
      for (const always of ['false && ', 'true || ']) {
        // The condition ends where its bracket does, in this line or in a later one.
        const rest = lines.slice(n).join('\n').slice(at.length);
        const end = closing(rest);
        const whole = `${at}${always}(${rest.slice(0, end)})${rest.slice(end)}`;
        mutants.push({
          ...{ file, line: n + 1, what: `${line.trim()}  →  if (${always}…)`, before: from },
          after: [...lines.slice(0, n), whole].join('\n'),
        });
      }
    if (isDispensable(line)) note(n, '', `${line.trim()}  →  (left out)`);
  }
  return mutants;
}

function closing(text: string): number {
  for (let depth = 1, at = 0; at < text.length; at++) {
    if (text[at] === '(') depth++;
    else if (text[at] === ')' && --depth === 0) return at;
  }
  return text.length;
}

const exits = { survives: 0, found: 3, 'does not run': 4 } as const;
type Verdict = keyof typeof exits;

/** In a process of its own, so that one that never ends can be ended. */
async function tryOne(part: Examined, mutant: Mutant): Promise<Verdict> {
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

export async function tryMutants(name: string): Promise<void> {
  const { values } = parseArgs({
    options: {
      every: { type: 'string', default: '1' },
      only: { type: 'string', default: '' },
      number: { type: 'string' },
      workers: { type: 'string', default: String(availableParallelism()) },
      seconds: { type: 'string', default: '120' },
    },
    allowPositionals: false,
  });
  const part = examined[name]!;
  const all = part.files.flatMap(mutantsOf);
  if (values.number !== undefined) {
    process.exit(exits[await tryOne(part, all[Number(values.number)]!)]);
  }
  const chosen = all
    .map((mutant, n) => ({ mutant, n }))
    .filter(({ mutant: { file, line } }) => `${file}:${line}`.includes(values.only))
    .filter((_, n) => n % Number(values.every) === 0);
  await using around = await part.begin?.();
  const counts = { survives: 0, found: 0, 'does not run': 0 };
  let next = 0;
  const work = async () => {
    for (let one = chosen[next++]; one !== undefined; one = chosen[next++]) {
      const verdict = await inProcess(name, one.n, { ...around?.env }, Number(values.seconds));
      counts[verdict]++;
      if (verdict === 'survives') console.log(`survives: ${one.mutant.file}:${one.mutant.line}: ${one.mutant.what}`);
      if (next % 20 === 0) console.error(`${next} of ${chosen.length}: ${JSON.stringify(counts)}`);
    }
  };
  await Promise.all(Array.from({ length: Number(values.workers) }, work));
  const tried = counts.found + counts.survives;
  console.log(
    `${name}: ${tried} changes, ${counts.found} found, ${counts.survives} survive (${((100 * counts.found) / tried).toFixed(1)} % found)`,
  );
  process.exitCode = counts.survives > 0 ? 1 : 0;
}

function inProcess(name: string, n: number, env: NodeJS.ProcessEnv, seconds: number): Promise<Verdict> {
  return new Promise(resolve => {
    const child = fork(fileURLToPath(new URL('main.ts', import.meta.url)), ['mutants', name, '--number', String(n)], {
      ...{ stdio: 'ignore', timeout: seconds * 1000, killSignal: 'SIGKILL', env: { ...process.env, ...env } },
    });
    child.on('exit', code => {
      const [verdict = 'found'] = Object.entries(exits).find(([, exit]) => exit === code) ?? [];
      resolve(verdict as Verdict);
    });
  });
}
