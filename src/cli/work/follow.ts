/**
 * A run of a command: opened, and followed to its end. A worker that runs (`start`) takes its jobs; where none does, the
 * command works itself.
 */

import { type Account, openAccount } from '../../app/account.ts';
import type { Config } from '../../app/config.ts';
import { configuredSources, requireSource, type Warehouse } from '../../app/context.ts';
import type { Context } from '../../engine/context.ts';
import { nameOfKey, type StreamKey } from '../../engine/database/stream-key.ts';
import { untilBack } from '../../engine/outage.ts';
import type { Job } from '../../engine/queue/job.ts';
import { keepTending, tend } from '../../engine/queue/reconcile.ts';
import { noJobs, type Working, work } from '../../engine/queue/worker.ts';
import { ambiguous } from '../../engine/runs/operations.ts';
import { command, pausedOf, since, unlessPaused } from '../../engine/runs/pauses.ts';
import { adoptRun, buryRuns, endRun, readProgress, type StreamProgress } from '../../engine/runs/runs.ts';
import { isAlone, liveWorkers } from '../../engine/runs/workers.ts';
import { awaySaid, exitCodes, ShelfdeskError, UsageError } from '../../errors.ts';
import { sources, streams } from '../../sources/index.ts';
import type { Stream } from '../../sources/source.ts';
import { count } from '../../words.ts';
import { inOrder, showProgress } from '../output/progress.ts';
import { print, printJson, say, style, table } from '../output/terminal.ts';

/** How often the command looks how far the work is, and how often whether anybody works at all. */
const lookMs = 200;
const workersMs = 1000;

export interface RunResult {
  run: number;
  state: string;
  exitCode: number;
  streams: StreamProgress[];
}

/**
 * Unknown names are an error, and so is one of a service that is not configured; without names it is all that can be read.
 * The order of a full sync is kept whatever the order of the arguments.
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

/** The key of a stream as people name it: by the key, or by a short name that only one source has. Throws UsageError. */
export function keyNamed(name: string, among: readonly Pick<Stream, 'key' | 'name'>[]): StreamKey {
  const named = among.filter(one => one.key === name || one.name === name);
  if (named.length > 1) throw ambiguous(name, named);
  if (named[0]) return named[0].key;
  const isShared = (short: string) => among.filter(one => one.name === short).length > 1;
  const choice = among.map(one => (isShared(one.name) ? one.key : one.name));
  throw new UsageError(`there is no stream ${name}`, `Choose from: ${choice.join(', ')}.`);
}

/** A person asks for these streams: a source whose quota was spent gets one more request. */
export async function thawFor({ sources }: Context, names: readonly string[]): Promise<void> {
  const asked = new Set(
    streams.filter(({ key, name }) => names.includes(key) || names.includes(name)).map(({ source }) => source),
  );
  for (const name of asked) await sources.get(name)?.thaw();
}

/** Those of the streams that people have not told to wait; throws UsageError if all of them are. */
export async function leaveOutPaused({ pg, account }: Context, keys: readonly StreamKey[]): Promise<StreamKey[]> {
  const read = await unlessPaused(pg, account, keys);
  const out = keys.filter(key => !read.includes(key)).map(nameOfKey);
  if (out.length > 0)
    say(
      `Paused, and so left out: ${out.join(', ')}. ${command(account, 'resume')} lets ${out.length > 1 ? 'them' : 'it'} go on.`,
    );
  return read;
}

/** Streams of the run that wait because they are paused: each is said once. */
async function tellPaused({ pg, account }: Context, run: number, tell: (line: string) => void): Promise<void> {
  const paused = await pausedOf(pg, account);
  if (paused.length === 0) return;
  const { streams } = await readProgress(pg, run);
  for (const { stream, state } of inOrder(streams)) {
    const its = paused.find(one => one.stream === null || nameOfKey(one.stream) === stream);
    if (its === undefined || !['waiting', 'running'].includes(state)) continue;
    const undo = command(account, `resume ${nameOfKey(its.stream ?? '')}`.trim());
    tell(`${stream} is paused, ${since(its)}; it is waited for: ${undo} lets it go on, Ctrl-C ends the waiting`);
  }
}

/** The limits of the source of a stream. */
const limitsOf = (config: Config) => (name: string) => {
  const stream = streams.find(one => one.name === name);
  return sources.find(({ name }) => name === stream?.source)?.connect(config)?.limits ?? config.limits;
};

/** `open` answers the number of the run; it is given the number of this process in sync.workers. */
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
  await using hands = handsOf(account, deps.jobs);
  await hands.lookForWorkers();
  const run = await open(ctx, presence.id);
  hands.watch(run);

  const progress = showProgress(ctx.pg, run, limitsOf(config), ctx.clock);
  /** The work waits for it as well, and goes on. */
  const pause = async (error: Error) => {
    if (signal.aborted) throw error;
    progress.say(`${awaySaid(error, 'the warehouse')}; waiting for it`);
    await ctx.clock.sleep(lookMs, signal).catch(() => {});
  };
  const look = async (looks: number) => {
    if (await progress.look()) return true;
    if (looks % (workersMs / lookMs) === 0) {
      await hands.lookForWorkers();
      await tellPaused(ctx, run, progress.say);
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
  await Promise.race([follow(), hands.failed]);
  if (signal.aborted && hands.areOurs()) progress.say('finishing the page in flight…');
  await hands[Symbol.asyncDispose]();
  const result = async () => {
    try {
      // Somebody else who works, or who watches the same and begins to, goes on with it.
      if (signal.aborted && (await isAlone(ctx.pg, ctx.account, presence.id)))
        await endRun(ctx.pg, run, now(), signal.reason);
      const over = await progress.look();
      const its = resultOf(run, await readProgress(ctx.pg, run));
      return over ? its : { ...its, state: 'running', exitCode: exitCodes.interrupted };
    } finally {
      progress.end();
    }
  };
  // Awaited here: what is opened above is closed before anybody hears of a failure.
  return await untilBack(result, async error => {
    if (signal.aborted) throw leftUnknown(run, error);
    await pause(error);
  });
}

/** Who leaves while the warehouse is away can be told nothing about the run, and so is given no result. */
const leftUnknown = (run: number, why: Error) =>
  new ShelfdeskError(
    awaySaid(why, 'the warehouse'),
    `How far run ${run} is, is not known. Another process goes on with it, if one works; else run the same command again.`,
    exitCodes.interrupted,
    why,
  );

interface Hands extends AsyncDisposable {
  /** Begins to work if nobody does. */
  lookForWorkers(): Promise<void>;
  areOurs(): boolean;
  /** The run whose jobs are wanted. */
  watch(run: number): void;
  /** Rejects when what looks after the jobs failed. */
  readonly failed: Promise<never>;
}

function handsOf({ ctx, queue, presence }: Account, jobs: readonly Job[]): Hands {
  let working: Working | undefined;
  let said = false;
  let watched: number | undefined;
  const tending = keepTending(ctx, () => tend(ctx, queue, { worker: presence.id, jobs: working?.jobs ?? noJobs }));
  return {
    async lookForWorkers() {
      if (working) return;
      const [other] = await liveWorkers(ctx.pg, ctx.account);
      if (other) {
        if (!said) say(`Worker ${other.id} on ${other.host}, process ${other.pid}, takes it; this command watches.`);
        said = true;
        return;
      }
      if (!presence.seesAll()) return;
      await presence.works();
      // Another command may have opened it, and left.
      if (watched !== undefined) await adoptRun(ctx.pg, watched, presence.id);
      await buryRuns(ctx.pg, ctx.account, new Date(ctx.clock.now()));
      working = work(ctx, queue, jobs, { worker: presence.id, afterEach: tending.ring });
    },
    areOurs: () => working !== undefined,
    watch(run) {
      watched = run;
      tending.ring();
    },
    failed: tending.failed,
    async [Symbol.asyncDispose]() {
      tending.stop();
      await working?.[Symbol.asyncDispose]();
    },
  };
}

/** The gravest of what the streams ended with: refused, then interrupted, failed, partly. */
function resultOf(run: number, { state, streams }: Awaited<ReturnType<typeof readProgress>>): RunResult {
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
export function report(result: RunResult, { json = false } = {}): void {
  const { run, state, streams } = result;
  if (json) printJson(result);
  else printTable(streams);
  const credits = streams.reduce((sum, stream) => sum + stream.credits, 0);
  say(`Run ${run}: ${state}, ${count(credits, 'credit')}.`);
  for (const { stream, error, remedy } of streams) {
    if (error) say(`${style('yellow', stream, process.stderr)}: ${error}. ${remedy ?? ''}`);
  }
  if (state === 'interrupted' && streams.some(one => one.exit_code === exitCodes.interrupted && !one.error))
    say('Run the same command again: it goes on where this one stopped.');
  if (state === 'running')
    say(
      `It goes on in another process; ${command(streams[0]?.account_id ?? 'default', 'status')} shows how far it is.`,
    );
}

function printTable(streams: readonly StreamProgress[]): void {
  const columns = ['stream', 'state', 'seen', 'new', 'changed', 'unchanged', 'removed', 'rejected', 'credits'];
  const cells = streams.map(s => [
    s.stream,
    s.state,
    s.seen,
    s.inserted,
    s.updated,
    s.unchanged,
    s.deleted,
    s.rejected,
    s.credits,
  ]);
  print(table(columns, cells));
}
