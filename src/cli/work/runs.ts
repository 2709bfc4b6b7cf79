/** `runs list | show | retry | cancel`: inspects and controls runs. */
import { type Command, Option } from 'commander';
import type { Config } from '../../app/config.ts';
import type { Warehouse } from '../../app/context.ts';
import { systemClock } from '../../clock.ts';
import type { Job } from '../../engine/queue/job.ts';
import { cancelRun, retryRun } from '../../engine/runs/operations.ts';
import { command } from '../../engine/runs/pauses.ts';
import { runKinds } from '../../engine/runs/run-kinds.ts';
import { isMostlyRejected, type RunKind } from '../../engine/runs/runs.ts';
import { ShelfdeskError } from '../../errors.ts';
import { findStream } from '../../sources/index.ts';
import {
  forecastCredits,
  type Run,
  type RunOrigin,
  type RunStream,
  readRun,
  readRuns,
  runState,
} from '../../status/runs.ts';
import { amount, count, duration } from '../../words.ts';
import { parseCount } from '../arguments.ts';
import { openChosen } from '../choose-account.ts';
import { type Act, type Deps, jsonOption, note } from '../command.ts';
import { operator } from '../operator.ts';
import { type Cell, cellText, print, printJson, say, table, tableOf } from '../output/terminal.ts';
import { countColumns, followRun, liftQuotaDeferral, type RunResult, report } from './follow.ts';

const defaultLimit = 20;
const states = ['running', 'paused', 'completed', 'partial', 'failed', 'interrupted'];

interface ListOptions {
  kind?: string;
  state?: string;
  limit: number;
  json?: boolean;
}

export function addRuns(program: Command, deps: Deps, act: Act): void {
  const runs = program
    .command('runs')
    .summary('list, show, retry and cancel runs')
    .description('list, inspect, retry and cancel runs');
  runs
    .command('list')
    .description('list the last runs, newest first')
    .addHelpText('after', note('docs/reference/runs.md says what a run of each kind does.'))
    .addOption(new Option('--kind <kind>', 'filter by kind').choices(Object.keys(runKinds)))
    .addOption(new Option('--state <state>', 'filter by state').choices(states))
    .option('--limit <n>', 'maximum number of runs', parseCount, defaultLimit)
    .option(...jsonOption)
    .action(
      act(async (options: ListOptions) => {
        await using opened = await openChosen(deps);
        const { kind, state, limit } = options;
        const found = await readRuns(opened.db, { account: opened.account, kind, state, limit }, now());
        if (options.json) printJson(found.map(listed));
        else if (found.length > 0) print(list(found));
        if (found.length === 0) say(nothingFound(options));
      }),
    );
  runs
    .command('show')
    .description('show a run, stream by stream')
    .argument('<run>', 'number in `runs list`', parseCount)
    .option(...jsonOption)
    .action(
      act(async (run: number, options: { json?: boolean }) => {
        await using opened = await openChosen(deps);
        const found = await readRun(opened.db, opened.account, run, now());
        if (found === undefined)
          throw new ShelfdeskError(
            `account '${opened.account}' has no run ${run}`,
            `See ${command(opened.account, 'runs list')}.`,
          );
        if (options.json) printJson(printed(found));
        else show(found, opened.account);
      }),
    );
  runs
    .command('retry')
    .description('retry the failed, partial or interrupted streams of a run in a new run of the same kind and range')
    .argument('<run>', 'number in `runs list`', parseCount)
    .option(...jsonOption)
    .action(
      act(async (run: number, options: { json?: boolean }) => {
        await using opened = await openChosen(deps);
        const result = await runRetry(opened.config, opened.warehouse, run, deps);
        report(result, options);
        return result.exitCode;
      }),
    );
  runs
    .command('cancel')
    .description('cancel a run; its workers stop within seconds and data already read is kept')
    .argument('<run>', 'number in `runs list`', parseCount)
    .action(
      act(async (run: number) => {
        await using opened = await openChosen(deps);
        const { kind, streams } = await cancelRun(opened.db, { account: opened.account, run, who: operator() }, now());
        print(`Run ${run} (${kind}) is canceled: ${streams.join(', ')}.`);
        say('Its workers stop within seconds. Data already read is kept, and later runs resume from there.');
        say(afterwards(opened.account, kind, streams));
      }),
    );
}

const now = () => new Date(systemClock.now());

/** A run in the form of `--json`. */
const printed = <R extends Run>({ account, paused, unchanged, cleaned, ...run }: R) => ({
  ...run,
  state: runState({ state: run.state, paused }),
  forecast_credits: forecastCredits(run),
});

function listed(run: Run) {
  const { since, until, again, forecast, opened_by, ...one } = printed(run);
  return { ...one, streams: run.streams.map(({ stream }) => stream) };
}

const nothingFound = ({ kind, state }: ListOptions) =>
  kind === undefined && state === undefined ? 'No runs yet.' : 'No run matches.';

/** Tells which automatic runs may read the canceled streams again. */
function afterwards(account: string, kind: RunKind, streams: readonly string[]): string {
  if (kind === 'fresh' || kind === 'nightly') return 'The next slot of the schedule starts another run.';
  if (kind === 'hydrate')
    return `A running worker soon fetches the pending records in another run. To prevent it: ${command(account, `pause ${streams.join(' ')}`)}`;
  const fetched = streams.filter(name => findStream(name)?.pending !== undefined).join(' and ');
  if (fetched !== '')
    return `A running worker fetches pending ${fetched} in another run. To prevent it: ${command(account, `pause ${fetched.replace(' and ', ' ')}`)}`;
  return 'Scheduled runs continue.';
}

export async function runRetry(
  config: Config,
  warehouse: Warehouse,
  run: number,
  deps: { jobs: readonly Job[]; signal: AbortSignal },
): Promise<RunResult> {
  return followRun(config, warehouse, deps, async (ctx, opener) => {
    const { account } = ctx;
    const time = new Date(ctx.clock.now());
    const streamsOf = async (id: number) =>
      (await readRun(ctx.pg, account, id, time))?.streams.map(({ stream }) => stream) ?? [];
    await liftQuotaDeferral(ctx, await streamsOf(run));
    const id = await retryRun(ctx.pg, { account, run, who: operator(), opener }, time);
    const names = await streamsOf(id);
    say(`Run ${id} retries the incomplete streams of run ${run}: ${names.join(', ')}.`);
    return id;
  });
}

function list(found: readonly Run[]): string {
  const forecast = found.some(one => forecastCredits(one) !== null);
  return tableOf<Run>(
    found,
    {
      run: one => one.run,
      kind: one => (one.retries === null ? one.kind : `${one.kind}, retries ${one.retries}`),
      state: one => (isMostlyRejected(one) ? `${runState(one)}, most rejected` : runState(one)),
      started: one => `${one.started_at.toISOString().slice(0, 19)}Z`,
      took: one => duration(one.seconds),
      read: one => one.seen,
      new: one => one.inserted,
      changed: one => one.updated,
      removed: one => one.deleted,
      rejected: one => one.rejected,
      credits: one => one.credits,
      ...(forecast && { forecast: forecastCredits }),
      error: one => one.error,
    },
    40,
  );
}

function show(run: Run & RunOrigin, account: string): void {
  const forecast = forecastCredits(run);
  const said: [string, Cell][] = [
    ['run', run.run],
    ['kind', `${run.kind}: ${runKinds[run.kind].does}`],
    ['state', runState(run)],
    ['started', run.started_at],
    ['finished', run.finished_at],
    ['took', duration(run.seconds)],
    ['opened by', openerOf(run)],
    ['since', run.since],
    ['until', run.until],
    ['again', run.again ? 'yes: synced ranges are re-read' : null],
    ['credits', amount(run.credits)],
    ['forecast', forecast === null ? null : count(forecast, 'credit')],
    ['retries', run.retries === null ? null : `run ${run.retries}`],
    ['retried by', run.retried_by.length > 0 ? run.retried_by.map(id => `run ${id}`).join(', ') : null],
  ];
  for (const [name, value] of said) if (value !== null) print(`${name.padEnd(11)} ${cellText(value)}`);
  const stateOf = (one: RunStream) =>
    one.paused ? 'paused' : isMostlyRejected(one) ? `${one.state}, most rejected` : one.state;
  print(
    `\n${tableOf(run.streams, { stream: one => one.stream, state: stateOf, ...countColumns, worker: one => one.worker })}`,
  );
  for (const { stream, error, remedy } of run.streams) if (error) print(`\n${stream}: ${error}. ${remedy ?? ''}`);
  for (const { stream, paused } of run.streams)
    if (paused) print(`\n${stream} is paused: resume with ${command(account, 'resume')}.`);
  if (run.operations.length === 0) return;
  const done = run.operations.map(one => [new Date(one.at), one.who, `${one.action} ${one.subject}`, one.outcome]);
  print(`\n${table(['at', 'who', 'did', 'outcome'], done)}`);
}

function openerOf({ schedule, slot, opened_by, host, pid, operations }: Run & RunOrigin): string {
  const by = operations.find(({ outcome }) => outcome.startsWith('done: run'))?.who;
  const where = host === null ? `process ${opened_by}, no longer running` : `process ${opened_by} on ${host} (${pid})`;
  if (schedule !== null) return `the schedule: ${schedule} of ${slot!.toISOString().slice(0, 16)}Z, ${where}`;
  return by === undefined ? where : `${by}, ${where}`;
}
