/** `verify`: compares the mirror with the sources field by field, for a sample or for everything. */
import type { Command } from 'commander';
import type { Config } from '../../app/config.ts';
import { requireSource, type Warehouse } from '../../app/context.ts';
import { nameOfKey } from '../../engine/database/stream-key.ts';
import { type Cost, costOfRows } from '../../engine/forecast/cost-of-rows.ts';
import type { Job } from '../../engine/queue/job.ts';
import { command } from '../../engine/runs/pauses.ts';
import {
  type Asked,
  type Counted,
  type Found,
  gapsOf,
  openVerification,
  readCounts,
  readFindings,
} from '../../engine/verify/verifications.ts';
import { exitCodes, gravestOf, UsageError } from '../../errors.ts';
import { amount, count } from '../../words.ts';
import { defaultSample, parseCount } from '../arguments.ts';
import { type Act, type Deps, jsonOption, note } from '../command.ts';
import { type Cell, print, say, style, tableOf } from '../output/terminal.ts';
import { warehouseOf } from '../warehouse.ts';
import { followRun, liftQuotaDeferral, type RunResult, report, skipPaused } from './follow.ts';
import { sayCost, sourcesRead, verifiable } from './forecast.ts';

interface Options {
  sample?: number;
  full?: boolean;
  repair?: boolean;
  json?: boolean;
}

/** Most differences shown; sync.audit has all. */
const mostShown = { table: 50, json: 10_000 };

export interface VerifyResult extends RunResult {
  forecast: Cost;
  credits: number;
  counts: Counted[];
  /** Number of differing records, and how many of them were repaired. */
  differing: number;
  repaired: number;
  /** Number of records missing in `differences`; sync.audit has them. */
  left_out: number;
  differences: {
    stream: string;
    record: string;
    kind: string;
    field: string;
    ours: unknown;
    theirs: unknown;
    repaired: boolean;
  }[];
}

export function addVerify(program: Command, deps: Deps, act: Act): void {
  program
    .command('verify')
    .summary('compare the mirror with the sources')
    .description(
      'compare the mirror with the sources, field by field: a random sample or everything; shows the cost first',
    )
    .addHelpText('after', note('Exits with 5 if anything differs, also if it was repaired.'))
    .option(
      '--sample <n>',
      `sample size of each stream whose records have a request each: tickets with messages, customers, shelves with contents, volumes, details of declared sources (default: ${defaultSample})`,
      parseCount,
    )
    .option('--full', 'compare everything: all tickets with messages, customers, users, shelves and volumes')
    .option('--repair', 'overwrite differing records with the values of the source')
    .option(...jsonOption)
    .action(
      act(async (options: Options) => {
        if (options.full && options.sample !== undefined)
          throw new UsageError('--full and --sample exclude each other', 'Give one of them.');
        const config = deps.config();
        requireSource(config);
        await using warehouse = await warehouseOf(config, deps.signal);
        const asked = {
          sample: options.full ? null : (options.sample ?? defaultSample),
          repair: options.repair === true,
        };
        const result = await runVerify(config, warehouse, asked, deps);
        show(result, asked, options);
        return result.exitCode;
      }),
    );
}

export async function runVerify(
  config: Config,
  warehouse: Warehouse,
  asked: Asked,
  deps: { jobs: readonly Job[]; signal: AbortSignal },
): Promise<VerifyResult> {
  let expected: Cost = { credits: 0, seconds: 0 };
  const result = await followRun(config, warehouse, deps, async (ctx, opener) => {
    const read = await sourcesRead(ctx);
    if (read.size === 0)
      throw new UsageError('there is nothing to verify yet', `Run ${command(ctx.account, 'sync')} first.`);
    const compared = verifiable(read, asked.sample);
    if (compared.length === 0)
      throw new UsageError(
        `no source of account '${ctx.account}' reads a record by its id, so no sample can be compared`,
        `Run ${command(ctx.account, 'verify --full')}.`,
      );
    const wanted = await skipPaused(ctx, compared);
    await liftQuotaDeferral(ctx, wanted);
    const forecast = await costOfRows(ctx, wanted, asked.sample);
    const run = { account: ctx.account, streams: wanted, opener, asked, forecast };
    const opened = await openVerification(ctx.pg, run, new Date(ctx.clock.now()));
    expected = { credits: opened.forecast.credits, seconds: opened.forecast.seconds };
    if (opened.resumed) say(`Resuming run ${opened.run}. Records already compared are skipped.`);
    const seconds = (expected.seconds * opened.left) / Math.max(1, expected.credits);
    sayCost(opened.resumed ? 'The rest' : 'The run', { credits: opened.left, seconds });
    for (const key of wanted) {
      const { gaps } = await gapsOf(ctx.pg, ctx.account, key);
      const of = `of ${nameOfKey(key)}`;
      if (gaps > 0)
        say(
          `${count(gaps, `range ${of} has`, `ranges ${of} have`)} not been read yet; records there add to the estimate.`,
        );
    }
    return opened.run;
  });
  const counts = await readCounts(warehouse.pg, result.run);
  const { found, total, repaired, missing } = await readFindings(warehouse.pg, result.run, mostShown.json);
  const differs = total > 0 || !areEqual(counts, missing);
  return {
    ...result,
    exitCode: gravestOf([result.exitCode, ...(differs ? [exitCodes.differs] : [])]),
    forecast: expected,
    credits: result.streams.reduce((sum, { credits }) => sum + credits, 0),
    counts,
    differing: total,
    repaired,
    left_out: total - found.length,
    differences: found.flatMap(rowsOf),
  };
}

/**
 * Compares the counts of source and mirror. The source may count fewer, because a list may hide records: a whole read
 * has fetched each of those by id. It may count more by the records that were missing here, over all lists together.
 */
export function areEqual(counts: readonly Counted[], missing: Record<string, number>): boolean {
  const lacking = Map.groupBy(counts, ({ stream }) => stream);
  return [...lacking].every(([stream, lists]) => {
    const lack = lists.map(({ ours, theirs_least }) => Math.max(0, (theirs_least ?? 0) - (ours ?? 0)));
    return lack.reduce((sum, one) => sum + one, 0) <= (missing[stream] ?? 0);
  });
}

/** Whether the source counts more records than the mirror has. */
const isLess = ({ ours, theirs_least }: Counted) => ours !== null && theirs_least !== null && ours < theirs_least;

/** Whether the mirror has more records than the source counts. */
const isMore = ({ ours, theirs_most }: Counted) => ours !== null && theirs_most !== null && ours > theirs_most;

/** The last sentence where no compared record differs. */
export function noneDiffers(counts: readonly Counted[], isOver: boolean): string {
  const unequal = counts.filter(one => isMore(one) || isLess(one)).map(({ stream, list }) => `${stream}, ${list} list`);
  if (unequal.length > 0) {
    const what = 'No compared record differs, but the number of records does';
    return `${style('yellow', what, process.stderr)}: ${unequal.join('; ')}.`;
  }
  return isOver ? 'No differences were found.' : 'No differences were found so far.';
}

const rowsOf = ({ stream, record, kind, differences, repaired_at }: Found): VerifyResult['differences'] =>
  Object.entries(differences).map(([field, [ours, theirs]]) => ({
    stream,
    record,
    kind,
    field,
    ours,
    theirs,
    repaired: repaired_at !== null,
  }));

const differencesTable = (shown: VerifyResult['differences']): string =>
  tableOf(
    shown,
    {
      stream: one => one.stream,
      record: one => one.record,
      field: one => one.field,
      here: one => one.ours as Cell,
      'at the source': one => one.theirs as Cell,
      kind: one => one.kind,
    },
    40,
  );

function show(result: VerifyResult, asked: Asked, { json }: Options): void {
  const { run, counts, differences, differing, repaired, credits, forecast: expected } = result;
  if (!json) {
    const theirs = ({ theirs_least: least, theirs_most: most }: Counted) =>
      least === most ? most : `${least} to ${most}`;
    const columns = { here: (one: Counted) => one.ours, 'at the source': theirs };
    if (counts.length > 0)
      print(`${tableOf(counts, { stream: one => one.stream, list: one => one.list, ...columns })}\n`);
    if (differences.length > 0) print(`${differencesTable(differences.slice(0, mostShown.table))}\n`);
  }
  report(result, { json: json === true });
  if (result.left_out > 0 || (differences.length > mostShown.table && !json)) {
    const of = result.left_out > 0 ? `more than ${amount(differences.length)}` : amount(differences.length);
    const shown = amount(json ? differences.length : mostShown.table);
    say(`Showing ${shown} of ${of} differences. See all: select * from sync.audit where run_id = ${run}`);
  }
  say(`${count(credits, 'credit')}; ${amount(expected.credits)} ${expected.credits === 1 ? 'was' : 'were'} expected.`);
  const full = command(result.streams[0]?.account_id ?? 'default', 'verify --full');
  if (asked.sample !== null && !areEqual(counts, {}))
    say(`The source has more records than the mirror: find them with ${full}.`);
  if (asked.sample !== null && counts.some(isMore))
    say(`The mirror has more records than the source counts. Its lists may hide some: check with ${full}.`);
  if (differing === 0) {
    const isOver = ['completed', 'partial'].includes(result.state);
    say(noneDiffers(counts, isOver));
    return;
  }
  const end = asked.repair
    ? `${amount(repaired)} of them ${repaired === 1 ? 'was' : 'were'} repaired`
    : 'run it with --repair to overwrite them';
  say(`${style('yellow', count(differing, 'record differs', 'records differ'), process.stderr)}; ${end}.`);
}
