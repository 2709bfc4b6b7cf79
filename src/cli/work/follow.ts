/**
 * Opens a run for a command and follows it to its end. A live worker (`start`) executes its jobs. Without one, the command
 * executes them itself.
 */

import { type Account, openAccount } from '../../app/account.ts';
import type { Config } from '../../app/config.ts';
import { configuredSources, requireSource, type Warehouse } from '../../app/context.ts';
import type { Context } from '../../engine/context.ts';
import { nameOfKey, type StreamKey } from '../../engine/database/stream-key.ts';
import { openWays } from '../../engine/http/ways.ts';
import { untilBack } from '../../engine/outage.ts';
import type { Job } from '../../engine/queue/job.ts';
import type { OpenQueue } from '../../engine/queue/job-queue.ts';
import { ownQueue } from '../../engine/queue/own-queue.ts';
import { openQueue } from '../../engine/queue/queue.ts';
import { keepReconciling, reconcile } from '../../engine/queue/reconcile.ts';
import { noJobs, type Working, work } from '../../engine/queue/worker.ts';
import { ambiguous } from '../../engine/runs/operations.ts';
import { command, pausedOf, since, unlessPaused } from '../../engine/runs/pauses.ts';
import {
  adoptRun,
  type Counts,
  endAbandonedRuns,
  endRun,
  isMostlyRejected,
  readProgress,
  type StreamProgress,
} from '../../engine/runs/runs.ts';
import { isAlone } from '../../engine/runs/workers.ts';
import { describeOutage, exitCodes, gravestOf, quotedBy, ShelfdeskError, UsageError } from '../../errors.ts';
import { sendHandOffs, waysOf } from '../../ops/hand-offs/send-hand-offs.ts';
import { findStream, sources, streams } from '../../sources/index.ts';
import type { Stream } from '../../sources/source.ts';
import { liveWorkers } from '../../status/workers.ts';
import { amount, choiceOf, count } from '../../words.ts';
import { showProgress } from '../output/progress.ts';
import { type Columns, print, printJson, say, style, tableOf } from '../output/terminal.ts';

/** Polling intervals for progress and for live workers. */
const lookMs = 200;
const workersMs = 1000;

export interface RunResult {
  run: number;
  state: string;
  exitCode: number;
  streams: StreamProgress[];
}

/**
 * Streams for the given names in sync order; without names, all streams of configured sources. Throws UsageError for an
 * unknown name or an unconfigured source.
 */
export function chooseStreams(names: readonly string[], config: Config): StreamKey[] {
  const keys = names.map(name => keyNamed(name, streams));
  requireSource(config);
  const configured = configuredSources(config);
  const cannot = streams.find(({ key, source }) => keys.includes(key) && !configured.has(source));
  if (cannot !== undefined) requireSource(config, cannot.source);
  return streams
    .filter(({ key, source }) => (keys.length === 0 ? configured.has(source) : keys.includes(key)))
    .map(({ key }) => key);
}

/** Streams for a sweep: all that can be swept, or those named. Throws UsageError for a stream that cannot. */
export function chooseSwept(names: readonly string[], config: Config): StreamKey[] {
  requireSource(config);
  const swept = streams.filter(({ jobs }) => jobs.sweep !== undefined);
  for (const name of names) {
    const key = keyNamed(name, streams);
    const stream = streams.find(one => one.key === key)!;
    if (stream.jobs.sweep === undefined)
      throw new UsageError(`${name} cannot be swept${whyNot(stream)}`, `Choose from: ${sweptNames.join(', ')}.`);
  }
  const configured = configuredSources(config);
  const all = swept.filter(({ source }) => configured.has(source)).map(({ key }) => key);
  if (names.length === 0 && all.length === 0)
    throw new UsageError(
      'no configured source can be swept',
      `Set ${sources.find(({ name }) => name === swept[0]?.source)?.requires}, in the environment or in .env.`,
    );
  return names.length === 0 ? all : chooseStreams(names, config);
}

const whyNot = (stream: Stream): string =>
  'deletions' in stream && typeof stream.deletions === 'object' ? `: ${stream.deletions.unknown}` : '';

/** The streams that a sweep can read, as people name them. */
export const sweptNames = streams.filter(({ jobs }) => jobs.sweep !== undefined).map(({ key }) => nameOfKey(key));

/** The key of a stream as people name it: by the key, or by a short name that only one source has. Throws UsageError. */
// @internal Tests name streams of sources that share a name, which no source of today does.
export function keyNamed(name: string, among: readonly Pick<Stream, 'key' | 'name'>[]): StreamKey {
  const named = among.filter(one => one.key === name || one.name === name);
  if (named.length > 1) throw ambiguous(name, named);
  if (named[0]) return named[0].key;
  const choice = among.map(one => nameOfKey(one.key));
  throw new UsageError(`there is no stream ${name}`, choiceOf(name, choice));
}

/** Lifts the quota deferral of the sources of these streams: a person asked, so each source gets one more request. */
export async function liftQuotaDeferral({ sources }: Context, names: readonly string[]): Promise<void> {
  const asked = new Set(
    streams.filter(({ key, name }) => names.includes(key) || names.includes(name)).map(({ source }) => source),
  );
  for (const name of asked) await sources.get(name)?.thaw();
}

/** Drops the paused streams and reports them. Throws UsageError if all are paused. */
export async function skipPaused({ pg, account }: Context, keys: readonly StreamKey[]): Promise<StreamKey[]> {
  const read = await unlessPaused(pg, account, keys);
  const out = keys.filter(key => !read.includes(key)).map(nameOfKey);
  if (out.length > 0) say(`Skipped because paused: ${out.join(', ')}. Run ${command(account, 'resume')} to resume.`);
  return read;
}

/** Reports each paused stream of the run once. */
async function reportPaused({ pg, account }: Context, run: number, tell: (line: string) => void): Promise<void> {
  const paused = await pausedOf(pg, account);
  if (paused.length === 0) return;
  const { streams } = await readProgress(pg, run);
  for (const { stream, state } of streams) {
    const its = paused.find(one => one.stream === null || nameOfKey(one.stream) === stream);
    if (its === undefined || !['waiting', 'running'].includes(state)) continue;
    const undo = command(account, `resume ${nameOfKey(its.stream ?? '')}`.trim());
    tell(
      `${stream} is paused, ${since(its)}; this command waits: resume with ${undo}, or press Ctrl-C to stop waiting`,
    );
  }
}

/** The limits of the source of a stream. */
export const limitsOf = (config: Config) => (name: string) => {
  const stream = findStream(name);
  return sources.find(({ name }) => name === stream?.source)?.connect(config)?.limits ?? config.limits;
};

/** Why this process sends no request of the source of a stream now. */
export const waitsIn =
  ({ sources: open }: Context) =>
  (name: string) =>
    open.get(findStream(name)?.source ?? '')?.send.waits();

/** Follows the run whose number `open` returns. `opener` is the number of this process in sync.workers. */
export async function followRun(
  config: Config,
  warehouse: Warehouse,
  deps: { jobs: readonly Job[]; signal: AbortSignal },
  open: (ctx: Context, opener: number) => Promise<number>,
): Promise<RunResult> {
  await using account = await openAccount(config, warehouse, { signal: deps.signal, works: false });
  const { ctx, presence } = account;
  const { signal } = deps;
  const now = () => new Date(ctx.clock.now());
  const said = new Map<string, string>();
  const server = { name: account.queue, redisUrl: config.redisUrl, databaseUrl: warehouse.url };
  await using worker = localWorker(account, deps.jobs, server, (stream, error) => {
    const words = quotedBy(error);
    if (words !== undefined) said.set(stream, words);
  });
  await worker.lookForWorkers();
  const run = await open(ctx, presence.id);
  worker.watch(run);

  const progress = showProgress(ctx.pg, run, { limits: limitsOf(config), waits: waitsIn(ctx) }, ctx.clock);
  /** The workers wait for the warehouse too, so the command waits with them. */
  const pause = async (error: Error) => {
    if (signal.aborted) throw error;
    progress.say(`${describeOutage(error, 'the warehouse')}; waiting for it`);
    await ctx.clock.sleep(lookMs, signal).catch(() => {});
  };
  const look = async (looks: number) => {
    if (await progress.look()) return true;
    if (looks % (workersMs / lookMs) === 0) {
      await worker.lookForWorkers();
      await reportPaused(ctx, run, progress.say);
    }
    return false;
  };
  const follow = async () => {
    for (let looks = 1; !signal.aborted; looks++) {
      try {
        if (await untilBack(() => look(looks), pause)) return;
      } catch (error) {
        if (!signal.aborted) throw error;
      }
      await ctx.clock.sleep(lookMs, signal).catch(() => {});
    }
  };
  await Promise.race([follow(), worker.failed]);
  if (signal.aborted && worker.areOurs()) progress.say('finishing the current page…');
  await worker[Symbol.asyncDispose]();
  const result = async () => {
    try {
      // Another worker, or another command that follows the run, would continue it.
      if (signal.aborted && (await isAlone(ctx.pg, ctx.account, presence.id)))
        await endRun(ctx.pg, run, now(), signal.reason);
      const over = await progress.look();
      const its = resultOf(run, await readProgress(ctx.pg, run));
      return over ? its : { ...its, state: 'running', exitCode: exitCodes.interrupted };
    } finally {
      progress.end();
    }
  };
  // `await` keeps the resources above open until the result is read.
  const its = await untilBack(result, async error => {
    if (signal.aborted) throw interruptedInOutage(run, error);
    await pause(error);
  });
  // A log that takes the place of the terminal would keep them.
  if (process.stderr.isTTY) for (const [stream, words] of said) say(`${nameOfKey(stream)}: the source says: ${words}`);
  await handOff(config, ctx, presence.id);
  return its;
}

/** Longest wait of a command for webhooks. */
const webhooksMs = 30_000;

/**
 * Sends the hand-offs that are due, once. A live worker sends them itself, with its own settings. The wait for a webhook
 * has a limit, and the next worker sends the rest. The wait for HANDOFF_COMMAND has none. An error does not change the
 * result of the run.
 */
async function handOff(config: Config, { pg, account, clock, log, signal }: Context, worker: number): Promise<void> {
  if (config.handOff === undefined || signal.aborted) return;
  try {
    if ((await liveWorkers(pg, [account])).some(({ id }) => id !== worker)) return;
    const ways = waysOf({ ...config, worker });
    const isWebhook = ({ channel }: { channel: string }) => channel === 'webhook';
    const limit = AbortSignal.any([signal, AbortSignal.timeout(webhooksMs)]);
    await using connections = openWays(config.proxies);
    await sendHandOffs({ pg, clock, log, ways: connections, signal: limit }, ways.filter(isWebhook));
    await sendHandOffs(
      { pg, clock, log, signal },
      ways.filter(way => !isWebhook(way)),
    );
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    log.warn({ reason }, 'hand-offs were not sent, the next worker sends them');
  }
}

/** An interrupt during an outage leaves the state of the run unknown, so the command has no result. */
const interruptedInOutage = (run: number, why: Error) =>
  new ShelfdeskError(
    describeOutage(why, 'the warehouse'),
    `The state of run ${run} is unknown. A running worker continues it; without one, run the same command again.`,
    { exitCode: exitCodes.interrupted, cause: why },
  );

function localWorker(
  { ctx, presence }: Account,
  jobs: readonly Job[],
  server: Parameters<typeof openQueue>[0],
  onFailure: (stream: string, error: unknown) => void,
) {
  let working: Working | undefined;
  let said = false;
  let watched: number | undefined;
  const own = ownQueue(ctx, presence.id);
  /** The queue of the other worker, which learns of its jobs at once. */
  let theirs: OpenQueue | undefined;
  const reconciling = keepReconciling(ctx, async () => {
    if (!working && !said) return;
    if (!working) theirs ??= await openQueue(server);
    const queue = working ? own : theirs!;
    await reconcile(ctx.pg, [{ ctx, queue, worker: presence.id, jobs: working?.jobs ?? noJobs }]);
  });
  return {
    /** Starts a worker in this process if no other worker is live. */
    async lookForWorkers(): Promise<void> {
      if (working) return;
      const [other] = await liveWorkers(ctx.pg, [ctx.account]);
      if (other) {
        if (!said)
          say(`Worker ${other.id} on ${other.host}, process ${other.pid}, runs it; this command shows the progress.`);
        said = true;
        return;
      }
      if (!presence.seesAll()) return;
      await presence.works();
      // Another command may have opened the run and exited.
      if (watched !== undefined) await adoptRun(ctx.pg, watched, presence.id);
      await endAbandonedRuns(ctx.pg, ctx.account, new Date(ctx.clock.now()));
      working = work(ctx, own, jobs, { worker: presence.id, afterEach: reconciling.ring, onFailure });
      if (watched !== undefined) reconciling.ring();
    },
    areOurs: () => working !== undefined,
    /** Sets the run that this command follows. */
    watch(run: number): void {
      watched = run;
      reconciling.ring();
    },
    /** Rejects when the reconciler failed. */
    failed: reconciling.failed,
    async [Symbol.asyncDispose](): Promise<void> {
      reconciling.stop();
      await working?.[Symbol.asyncDispose]();
      await theirs?.[Symbol.asyncDispose]();
    },
  };
}

// @internal Tests read runs without a queue.
export function resultOf(run: number, { state, streams }: Awaited<ReturnType<typeof readProgress>>): RunResult {
  return { run, state, exitCode: gravestOf(streams.map(stream => stream.exit_code)), streams };
}

/** Prints the result to stdout as a table or JSON, and notes to stderr. */
export function report(result: RunResult, { json = false } = {}): void {
  const { run, state, streams } = result;
  if (json) printJson(result);
  else print(tableOf(streams, { stream: one => one.stream, state: one => one.state, ...countColumns }));
  const credits = streams.reduce((sum, stream) => sum + stream.credits, 0);
  const rejected = streams.reduce((sum, stream) => sum + stream.rejected, 0);
  const most = streams.some(isMostlyRejected) ? `, most rejected` : '';
  say(
    `Run ${run}: ${state}${most}, ${rejected > 0 ? `${amount(rejected)} rejected, ` : ''}${count(credits, 'credit')}.`,
  );
  // One cause may end several streams.
  const failed = streams.filter(({ error }) => error);
  for (const [says, those] of Map.groupBy(failed, ({ error, remedy }) => `${error}. ${remedy ?? ''}`))
    say(`${style('yellow', those.map(({ stream }) => stream).join(', '), process.stderr)}: ${says}`);
  if (state === 'interrupted' && streams.some(one => one.exit_code === exitCodes.interrupted && !one.error))
    say('Run the same command again to resume.');
  if (state === 'running')
    say(
      `The run continues in another process. See its progress with ${command(streams[0]?.account_id ?? 'default', 'status')}.`,
    );
}

/** What became of the records of a stream. */
export const countColumns: Columns<Counts> = {
  seen: one => one.seen,
  new: one => one.inserted,
  changed: one => one.updated,
  unchanged: one => one.unchanged,
  removed: one => one.deleted,
  rejected: one => one.rejected,
  credits: one => one.credits,
};
