/** `source test`: the real engine mirrors a service that is true to a declaration, and what goes wrong refutes it. */
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Command, InvalidArgumentError } from 'commander';
import { z } from 'zod';
import { findPlace } from '../../embedded/place.ts';
import { joinEmbedded } from '../../embedded/postgres.ts';
import { removeData } from '../../embedded/remove-demo.ts';
import { parseJson } from '../../engine/exact-json.ts';
import { exitCodes, Interrupted, messageOf, ShelfdeskError, UsageError } from '../../errors.ts';
import type { AllTold } from '../../source-test/behaviour.ts';
import type { Line } from '../../source-test/play.ts';
import type { Refutation, Tested } from '../../source-test/test-source.ts';
import { tells } from '../../sources/try/finding.ts';
import { count } from '../../words.ts';
import { type Act, type Deps, jsonOption, note } from '../command.ts';
import { print, printJson, printLines, say, style, tableOf } from '../output/terminal.ts';
import { declared } from './try.ts';

interface Options {
  readonly json?: boolean;
  readonly seed: number;
  readonly seeds: number;
  readonly tried?: string;
}

export function addTestSource(source: Command, deps: Deps, act: Act): void {
  source
    .command('test')
    .description(
      'mirror a service that is true to the declaration and moves while it is read; what goes wrong refutes the declaration',
    )
    .argument('<name>', 'name of the source')
    .option('--seed <n>', 'the first world', number(1), 1)
    .option('--seeds <n>', 'so many worlds', number(1), 1)
    .option('--tried <file>', 'what `source try NAME --json` has printed: the service behaves so')
    .option(...jsonOption)
    .addHelpText(
      'after',
      note(
        'No service is asked, and the database is made for the test and removed. What `source try --json` has printed tells how the real service behaves: then the test behaves so, and says no more what else the declaration rests on. Exit codes: 0 the declaration is right, 1 it is refuted, 2 it cannot be tested.',
      ),
    )
    .action(
      act(async (name: string, options: Options) => {
        const { source: chosen, service } = declared(name);
        const names = service.streams.map(({ record }) => record.name);
        const told = options.tried === undefined ? {} : toldIn(options.tried, name, names);
        const { testSource } = await import('../../source-test/test-source.ts');
        const tested = await inOwnDatabase(deps.signal, url =>
          testSource(chosen, {
            ...{ url, seed: options.seed, seeds: options.seeds, signal: deps.signal },
            told,
            tell: says => say(`${says} …`),
          }),
        ).catch(cannot);
        if (options.json) printJson(tested);
        else show(tested);
        return tested.isRight ? exitCodes.ok : exitCodes.failed;
      }),
    );
}

/** A database that goes when the work has ended. */
async function inOwnDatabase<T>(signal: AbortSignal, work: (url: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'shelfdesk-source-test-'));
  const home = join(folder, 'postgres');
  try {
    const database = await joinEmbedded({ folder: home, signal, settings: { fsync: 'off' } });
    try {
      return await work(database.url);
    } finally {
      await database.release();
    }
  } finally {
    await removeData(await findPlace(home), folder);
    await rm(folder, { recursive: true, force: true });
  }
}

/** What cannot be tested is not refuted. */
function cannot(error: unknown): never {
  if (error instanceof Interrupted) throw error;
  if (error instanceof ShelfdeskError) throw new UsageError(error.message, error.remedy);
  throw new UsageError(messageOf(error), 'Look at what the message names, and run the same command again.');
}

const number = (least: number) => (text: string) => {
  const value = Number(text);
  if (!(value >= least)) throw new InvalidArgumentError(`It is a number, at least ${least}.`);
  return value;
};

const tries = z.object({
  source: z.string(),
  ended: z.string().nullable(),
  findings: z.array(
    z.object({ weight: z.string(), stream: z.string().nullable(), what: z.string(), tells: tells.nullable() }),
  ),
});

/** What a try has told of each stream. Throws UsageError for another file, and for a try after which something has to be mended. */
function toldIn(file: string, source: string, streams: readonly string[]): AllTold {
  const remedy = `Name what \`npx shelfdesk source try ${source} --json\` has printed.`;
  let text: unknown;
  try {
    text = parseJson(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${messageOf(error)}`, remedy);
  }
  if ((text as { source?: unknown } | null)?.source !== source)
    throw new UsageError(`${file} is no try of ${source}`, remedy);
  const { data, error } = tries.safeParse(text);
  if (data === undefined) {
    const [{ path, message }] = error.issues as [z.core.$ZodIssue];
    throw new UsageError(`${file}: ${path.join('.')}: ${message}`, remedy);
  }
  if (data.ended !== null)
    throw new UsageError(`${file} is a try that ended early: ${data.ended}`, 'Mend what it names, and try again.');
  const told: Record<string, object> = {};
  for (const { weight, stream, what, tells } of data.findings) {
    const of = stream ?? 'the service';
    if (stream !== null && !streams.includes(stream))
      throw new UsageError(`${file}: ${source} has no stream ${stream}`, `Try it again: it has ${streams.join(', ')}.`);
    if (weight === 'wrong')
      throw new UsageError(`${file}: the try has found ${of} wrong: ${what}`, 'Mend it first, and try again.');
    if (stream !== null) told[stream] = { ...told[stream], ...tells };
  }
  return told;
}

function show(tested: Tested): void {
  print(
    tableOf(
      tested.streams.map(({ stream, kind, wrong }) => ({ stream, kind, ...wrong })),
      {
        ...{ stream: one => one.stream, kind: one => one.kind, lost: one => one.lost, stale: one => one.stale },
        ...{ phantom: one => one.phantom, doubled: one => one.doubled, failed: one => one.failed },
      },
    ),
  );
  for (const { stream, notes } of tested.streams)
    for (const one of notes) printLines(`${stream}: by its names ${one}`, '', '  ');
  for (const one of tested.refutations) showRefutation(one);
  for (const { stream, restsOn } of tested.streams) {
    const needed = restsOn.filter(({ wrong }) => wrong > 0);
    if (needed.length === 0) continue;
    print('');
    print(`${stream} would be wrong if`);
    for (const { says, wrong } of needed) printLines(`${says} (${count(wrong, 'record')})`, '  - ', '    ');
  }
  const { wrong, restsOn } = tested.limits;
  for (const one of wrong) {
    print('');
    printLines(`limits: ${one}`, style('red', '✗ ', process.stdout), '  ');
  }
  if (restsOn.length > 0) {
    print('');
    print('the limits would not be kept if');
    for (const one of restsOn) printLines(one, '  - ', '    ');
  }
  const many = `${count(tested.plays, 'play')}, ${count(tested.requests, 'request')}, ${count(tested.limits.refusals, 'refusal')} at the limits`;
  if (tested.isRight)
    say(`${many}: the declaration is right, if the service does what it says. \`source try\` asks it.`);
  else say(`${many}: the declaration is ${style('red', 'refuted', process.stderr)}.`);
}

function showRefutation({ stream, wrong, says, when, seed, story }: Refutation): void {
  print('');
  printLines(`${stream}, ${wrong}: ${says}`, style('red', '✗ ', process.stdout), '  ');
  print(`  ${when}, seed ${seed}:`);
  const lines = shortened(story);
  for (const [i, { ms, says }] of lines.entries())
    printLines(says, `  ${String(i + 1).padStart(2)}. ${new Date(ms).toISOString().slice(11, 19)}  `, '      ');
}

/** A line that comes again at once is told once. */
function shortened(story: readonly Line[]): Line[] {
  const lines: (Line & { times: number })[] = [];
  for (const line of story) {
    const last = lines.at(-1);
    if (last?.says === line.says) lines[lines.length - 1] = { ...last, times: last.times + 1 };
    else lines.push({ ...line, times: 1 });
  }
  return lines.map(({ times, ...line }) => ({
    ...line,
    says: times > 1 ? `${line.says} (${times} times)` : line.says,
  }));
}
