/** `sync [streams…]`: from the top of coverage to now, then the messages of all tickets that wait for them. */
import type { Command } from 'commander';
import type pg from 'pg';
import type { Config } from '../config.ts';
import { type Context, openContext, openLog, requireHelpdesk, type Warehouse } from '../context.ts';
import { exitCodes, UsageError } from '../errors.ts';
import type { Job } from '../queue/job.ts';
import { type JobQueue, openQueue } from '../queue/queue.ts';
import { work } from '../queue/worker.ts';
import { streamNames, streams } from '../streams/index.ts';
import { bindAccount } from '../warehouse/accounts.ts';
import { register } from '../warehouse/coverage.ts';
import { migrate } from '../warehouse/migrate.ts';
import { accountLock, buryRuns, endRun, hold, openRun, readProgress, type StreamProgress } from '../warehouse/runs.ts';
import type { Act, Deps } from './command.ts';
import { inOrder, showProgress } from './progress.ts';
import { amount, print, printJson, say, style, table } from './terminal.ts';
import { warehouseOf } from './warehouse.ts';

/** How often the command looks how far the work is, and whether the queue still has its jobs. */
const lookMs = 200;
const enqueueMs = 5000;
/** What an interrupted run completed longer ago than this is read again. */
const carryMs = 60_000;

export interface SyncResult {
  run: number;
  state: string;
  exitCode: number;
  streams: StreamProgress[];
}

export function addSync(program: Command, deps: Deps, act: Act): void {
  program
    .command('sync')
    .description('read what is new, from the top of what is covered to now, and all messages that wait')
    .argument('[streams...]', `some of: ${streamNames.join(', ')} (default: all)`)
    .option('--json', 'print one JSON document on stdout')
    .action(
      act(async (names: string[], options: { json?: boolean }) => {
        const wanted = chooseStreams(names);
        const config = deps.config();
        requireHelpdesk(config);
        await using warehouse = await warehouseOf(config, deps.signal);
        const result = await runSync(config, warehouse, wanted, {
          ...deps,
          // Who names a stream wants it read now.
          ...(names.length > 0 && { carryMs: 0 }),
        });
        report(result, options);
        return result.exitCode;
      }),
    );
}

/** Unknown names are an error; the order of a full sync is kept whatever the order of the arguments. */
function chooseStreams(names: readonly string[]): string[] {
  const unknown = names.find(name => !streamNames.includes(name));
  if (unknown !== undefined) {
    throw new UsageError(`there is no stream ${unknown}`, `Choose from: ${streamNames.join(', ')}.`);
  }
  return streamNames.filter(name => names.length === 0 || names.includes(name));
}

/** Opens a run, works on its jobs, and follows it to its end. */
export async function runSync(
  config: Config,
  warehouse: Warehouse,
  wanted: readonly string[],
  deps: { jobs: readonly Job[]; signal: AbortSignal; carryMs?: number },
): Promise<SyncResult> {
  const log = openLog(config);
  await migrate(warehouse.url);
  await using ctx = openContext(config, warehouse.pg, { log, signal: deps.signal });
  await using _account = await holdAccount(ctx);
  const { queue: name } = await bindAccount(ctx.pg, ctx.account, requireHelpdesk(config).baseUrl);
  await registerAll(ctx.pg, config);
  await using queue = await openQueue({ name, redisUrl: config.redisUrl, databaseUrl: warehouse.url });

  const now = () => new Date(ctx.clock.now());
  await buryRuns(ctx.pg, ctx.account, now());
  const run = await openRun(ctx.pg, ctx.account, wanted, now(), deps.carryMs ?? carryMs);
  await enqueue(ctx, queue, run);

  const progress = showProgress(ctx.pg, run, config.limits, ctx.clock);
  let unsaid: unknown;
  {
    await using _worker = work(ctx, queue, deps.jobs, error => {
      unsaid = error;
    });
    let enqueuedMs = ctx.clock.monotonic();
    while (unsaid === undefined && !deps.signal.aborted && !(await progress.look())) {
      if (ctx.clock.monotonic() - enqueuedMs > enqueueMs) {
        await enqueue(ctx, queue, run);
        enqueuedMs = ctx.clock.monotonic();
      }
      await ctx.clock.sleep(lookMs, deps.signal).catch(() => {});
    }
    if (deps.signal.aborted) say('finishing the page in flight…');
  }
  await endRun(ctx.pg, run, now(), deps.signal.aborted ? deps.signal.reason : unsaid);
  await progress.look();
  progress.end();
  return resultOf(run, await readProgress(ctx.pg, run));
}

/** A job for each stream that waits. The queue may lose them (a flush): one that it still has is not added again. */
async function enqueue(ctx: Context, queue: JobQueue, run: number): Promise<void> {
  const { streams: all } = await readProgress(ctx.pg, run);
  for (const { stream } of inOrder(all).filter(({ state }) => state === 'waiting')) {
    const kind = streams.find(({ name }) => name === stream)!.kind;
    const job = kind === 'list' ? 'sync-stream' : 'hydrate-messages';
    await queue.add(job, `run-${run}-${stream}`, { account: ctx.account, run, stream });
  }
}

/** The gravest of what the streams ended with: refused, then interrupted, failed, partly. */
function resultOf(run: number, { state, streams }: Awaited<ReturnType<typeof readProgress>>): SyncResult {
  const graveness = [exitCodes.refused, exitCodes.interrupted, exitCodes.usage, exitCodes.failed, exitCodes.partly];
  const codes = streams.map(stream => stream.exit_code);
  return {
    run,
    state,
    exitCode: graveness.find(code => codes.includes(code)) ?? exitCodes.ok,
    streams: inOrder(streams),
  };
}

/** The result on stdout, as a table or as JSON; what to say about it on stderr, either way. */
export function report(result: SyncResult, { json = false } = {}): void {
  const { run, state, streams } = result;
  if (json) printJson(result);
  else printTable(streams);
  const credits = streams.reduce((sum, stream) => sum + stream.credits, 0);
  say(`Run ${run}: ${state}, ${amount(credits)} credits.`);
  for (const { stream, error, remedy } of streams) {
    if (error) say(`${style('yellow', stream, process.stderr)}: ${error}. ${remedy ?? ''}`);
  }
  if (state === 'interrupted') say('Run the same command again: it goes on where this one stopped.');
}

function printTable(streams: readonly StreamProgress[]): void {
  const columns = ['stream', 'state', 'seen', 'new', 'changed', 'unchanged', 'removed', 'rejected', 'credits'];
  print(
    table(
      columns,
      streams.map(s => [
        s.stream,
        s.state,
        s.seen,
        s.inserted,
        s.updated,
        s.unchanged,
        s.deleted,
        s.rejected,
        s.credits,
      ]),
    ),
  );
}

/** One sync at a time on an account: a second one waits, and then finds little left to do. */
async function holdAccount(ctx: Context): Promise<AsyncDisposable> {
  for (let looks = 0; ; looks++) {
    const held = await hold(ctx.pg, accountLock(ctx.account));
    if (held) return held;
    if (looks === 0) say(`Another sync is at work on account '${ctx.account}'; waiting for it to end.`);
    await ctx.clock.sleep(lookMs, ctx.signal);
  }
}

async function registerAll(db: pg.Pool, config: Config): Promise<void> {
  const lists = streams.flatMap(stream =>
    stream.kind === 'list' ? stream.lists.map(list => ({ stream: stream.name, list: list.name })) : [],
  );
  await register(db, config.account, config.sinceMs, lists);
}
