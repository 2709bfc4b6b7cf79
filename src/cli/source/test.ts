/** `source test`: the real engine mirrors a service that is true to a declaration, and what goes wrong refutes it. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { findPlace } from '../../embedded/place.ts';
import { joinEmbedded } from '../../embedded/postgres.ts';
import { removeData } from '../../embedded/remove-demo.ts';
import { exitCodes, Interrupted, messageOf, ShelfdeskError, UsageError } from '../../errors.ts';
import type { Told } from '../../source-test/behaviour.ts';
import type { Line } from '../../source-test/play.ts';
import type { Refutation, Tested } from '../../source-test/test-source.ts';
import { count } from '../../words.ts';
import { type Act, type Deps, jsonOption, note } from '../command.ts';
import { print, printJson, printLines, say, style, tableOf } from '../output/terminal.ts';
import { declared } from './try.ts';

interface Options {
  readonly json?: boolean;
  readonly seed: number;
  readonly seeds: number;
  readonly order?: NonNullable<Told['order']>;
  readonly since?: NonNullable<Told['since']>;
  readonly cursor?: NonNullable<Told['cursor']>;
  readonly cap?: number;
  readonly late?: number;
  readonly grain?: number;
  readonly slack?: number;
  readonly exclusive?: true;
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
    .addOption(choice('--order <order>', 'lists are in this order', ['id', 'created', 'changed', 'descending']))
    .addOption(choice('--since <time>', 'what the parameter of the start compares', ['created', 'changed', 'ignored']))
    .addOption(choice('--cursor <kind>', 'what a cursor is', ['place', 'offset', 'time']))
    .option('--cap <records>', 'no page shows more, whatever is asked for', number(2))
    .option('--late <seconds>', 'a change may be listed so late', number(0))
    .option('--grain <seconds>', 'times are stored in steps of so many seconds', number(0))
    .option('--slack <seconds>', 'a list begins so much earlier than it is asked for', number(0))
    .option('--exclusive', 'the start of a list does not include its own time')
    .option(...jsonOption)
    .addHelpText(
      'after',
      note(
        'No service is asked, and the database is made for the test and removed. What `source try` has found is told by the options: then the test behaves so, and says no more what else the declaration rests on. Exit codes: 0 the declaration is right, 1 it is refuted, 2 it cannot be tested.',
      ),
    )
    .action(
      act(async (name: string, options: Options) => {
        const { source: chosen, service } = declared(name);
        const limit = service.paginator.type === 'single_page' ? undefined : service.paginator.limit;
        const { testSource } = await import('../../source-test/test-source.ts');
        const tested = await inOwnDatabase(deps.signal, url =>
          testSource(chosen, {
            ...{ url, seed: options.seed, seeds: options.seeds, signal: deps.signal },
            told: toldBy(options, limit),
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

const choice = (flags: string, says: string, values: readonly string[]) => new Option(flags, says).choices(values);

const number = (least: number) => (text: string) => {
  const value = Number(text);
  if (!(value >= least)) throw new InvalidArgumentError(`It is a number, at least ${least}.`);
  return value;
};

/** What is known of the service. `limit`: records of a page, as it is declared. */
const toldBy = (
  { order, since, cursor, cap, late, grain, slack, exclusive }: Options,
  limit: number | undefined,
): Told => ({
  ...(order && { order }),
  ...(since && { since }),
  ...(cursor && { cursor }),
  ...(cap !== undefined && (limit === undefined ? { cutsWhole: true } : { cap: Math.min(1, cap / limit) })),
  ...(late !== undefined && { lateMs: late * 1000 }),
  ...(grain !== undefined && { grainMs: Math.max(1, grain * 1000) }),
  ...(slack !== undefined && { slackMs: slack * 1000 }),
  ...(exclusive && { inclusive: false }),
});

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
  const many = `${count(tested.plays, 'play')}, ${count(tested.requests, 'request')}`;
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
