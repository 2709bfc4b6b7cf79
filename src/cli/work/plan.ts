/** `plan`: estimates requests, credits and time of a run, and its effect on freshness. */

import type { Command } from 'commander';
import type pg from 'pg';
import { readSearch } from '../../analytics/search.ts';
import { openAccount } from '../../app/account.ts';
import { type Config, withoutSettings } from '../../app/config.ts';
import { configuredSources, requireSource, type Warehouse } from '../../app/context.ts';
import { openContext, openLog } from '../../app/open-context.ts';
import type { Context } from '../../engine/context.ts';
import { pendingMigrations } from '../../engine/database/migrate.ts';
import type { StreamKey } from '../../engine/database/stream-key.ts';
import { rotationOf } from '../../engine/deletions/rotation.ts';
import { keepPlan } from '../../engine/forecast/forecast-rows.ts';
import { type Planned, plan, totalsOf } from '../../engine/forecast/plan.ts';
import type { Question } from '../../engine/forecast/planning.ts';
import { nextSlots, timetables } from '../../engine/queue/schedule.ts';
import { readFrom } from '../../engine/runs/accounts/accounts.ts';
import { UsageError } from '../../errors.ts';
import { readLakeStatus } from '../../lake/state.ts';
import { lostBy, rulesIn } from '../../privacy/fields/losses.ts';
import { cannotOf } from '../../sources/cannot.ts';
import { sources, streams } from '../../sources/index.ts';
import { count, duration } from '../../words.ts';
import { parsePast, parseTime } from '../arguments.ts';
import { chosenAccount } from '../choose-account.ts';
import { type Act, type Deps, jsonOption, note } from '../command.ts';
import { print, printJson, say, table } from '../output/terminal.ts';
import { warehouseOf } from '../warehouse.ts';
import { type BackfillOptions, backfillOf } from './backfill.ts';
import { chooseStreams, skipPaused } from './follow.ts';
import { askedFor } from './forecast.ts';

const kinds = ['sync', 'backfill'] as const;

export type PlanResult = Awaited<ReturnType<typeof planIn>>;

export function addPlan(program: Command, deps: Deps, act: Act): void {
  program
    .command('plan')
    .summary('estimate the cost of a run')
    .description('dry run: estimate requests, credits and time of a run without starting it')
    .addHelpText(
      'after',
      note(
        'Opens no run. Amounts that the mirror does not know are counted at the source, with as few credits as possible.',
      ),
    )
    .argument('[kind]', `kind of run: ${kinds.join(', ')}`, 'sync')
    .argument('[streams...]', 'streams of that command (default: all)')
    .option('--since <time>', 'backfill: start of the range', parsePast)
    .option('--until <time>', 'backfill: end of the range', parseTime)
    .option('--again', 'backfill: also re-read synced ranges')
    .option(...jsonOption)
    .action(
      act(async (kind: string, names: string[], options: BackfillOptions) => {
        await using warehouse = await warehouseOf(deps.asked().fleet, deps.signal);
        const { missing } = await pendingMigrations(warehouse.pg);
        const db = missing.length > 0 ? undefined : warehouse.pg;
        const chosen = await chosenAccount(deps, db);
        const { config, isSet } = await settingsFor(chosen, db);
        const question = questionOf(kind, names, options, config);
        const planned = await runPlan(config, warehouse, question, deps, { isSet });
        if (options.json) printJson(planned);
        else {
          show(planned);
          if (db && question.kind === 'backfill') await tellSearch(db, question.streams);
          if (db) await tellLake(db);
        }
      }),
    );
}

export function questionOf(kind: string, names: readonly string[], options: BackfillOptions, config: Config): Question {
  const { since, until, again } = options;
  if (kind !== 'backfill' && (since || until || again))
    throw new UsageError('--since, --until and --again belong to a backfill', 'Use `plan backfill`.');
  if (kind === 'sync') return { kind, streams: chooseStreams(names, config) };
  if (kind === 'backfill') return { kind, ...backfillOf(names, options, config) };
  const told = kind === 'sweep' || kind === 'verify' ? `\`${kind}\` says what it takes when it starts. ` : '';
  throw new UsageError(`${kind} cannot be planned`, `${told}Choose from: ${kinds.join(', ')}.`);
}

/** The export follows the run; it costs no credits. */
async function tellLake(db: pg.Pool): Promise<void> {
  const lake = await readLakeStatus(db);
  if (lake === undefined) return;
  const took = lake.usual_seconds === null ? '' : `; an export usually takes ${duration(lake.usual_seconds)}`;
  say(`The lake follows at its next export: ${count(lake.pending, 'change')} of before are pending${took}.`);
}

const unsetSays = (account: string) =>
  `account '${account}' has no settings here, so default limits are assumed; a run needs settings`;

/** The settings of the account; if it has none, as the warehouse knows them. */
export async function settingsFor(
  chosen: Config,
  db: pg.Pool | undefined,
): Promise<{ config: Config; isSet: boolean }> {
  const isSet = configuredSources(chosen).size > 0;
  return { config: isSet || db === undefined ? chosen : await settingsFromWarehouse(db, chosen), isSet };
}

/** Settings of an unconfigured account, from the warehouse. Its source cannot be asked without a token. */
async function settingsFromWarehouse(db: pg.Pool, config: Config): Promise<Config> {
  const read = await readFrom(db, config.account);
  if (read === undefined) return config;
  const { addresses, lists, sinceMs, lookbackMs } = read;
  const known = sources.flatMap(({ name, streams, settingsFrom }) => {
    const address = addresses.get(name);
    const own = new Map(streams.map(stream => [stream.name, lists.get(stream.key) ?? []]));
    return address && settingsFrom ? [settingsFrom({ address, lists: own })] : [];
  });
  const values: Record<string, string> = Object.assign({}, ...known);
  return { ...withoutSettings(config.account, values), sinceMs, lookbackMs };
}

/** How a plan is made. */
interface How {
  /** The account has settings, so that a source can be asked. */
  readonly isSet: boolean;
  /** The source may be asked for what the mirror does not know. */
  readonly asks: boolean;
  /** The plan is stored for comparison with the run. */
  readonly keeps: boolean;
}

/** Plans a run. Does not bind the account to a source, so any settings may be tried. */
export async function runPlan(
  config: Config,
  warehouse: Warehouse,
  asked: Question,
  { signal }: { signal: AbortSignal },
  { isSet = true }: { isSet?: boolean } = {},
): Promise<PlanResult> {
  await using account = await openAccount(config, warehouse, { signal, works: false, binds: false });
  return await planIn(account.ctx, config, asked, { isSet, asks: isSet, keeps: true });
}

/** Plans a run from what the mirror knows. Writes nothing, and sends no request to a source. */
export async function planFromMirror(
  config: Config,
  warehouse: Warehouse,
  asked: Question,
  { signal, isSet }: { signal: AbortSignal; isSet: boolean },
): Promise<PlanResult> {
  requireSource(config);
  await using ctx = openContext(config, warehouse, { log: openLog(config), signal });
  return await planIn(ctx, config, asked, { isSet, asks: false, keeps: false });
}

async function planIn(ctx: Context, config: Config, asked: Question, { isSet, asks, keeps }: How) {
  const { kind } = asked;
  // The run skips paused streams too.
  const question = { ...asked, streams: await skipPaused(ctx, asked.streams) };
  const planned = await plan(question, { ctx, counts: asks });
  const forecast = totalsOf(planned);
  if (forecast && keeps)
    await keepPlan(ctx.pg, ctx.account, { kind, question: askedFor(question), forecast }, new Date(ctx.clock.now()));
  const assumptions = isSet ? planned.assumptions : [...planned.assumptions, unsetSays(ctx.account)];
  const inAt = (stream: string) => planned.streams[stream]?.until ?? null;
  return {
    account: ctx.account,
    ...planned,
    assumptions,
    /** When all tickets, and then all messages, are here; null if the run does not read them. */
    tickets_stored_at: inAt('tickets'),
    messages_stored_at: inAt('messages'),
    /** What the forecast does not know about the streams of this run. */
    limitations: streams.filter(({ key }) => question.streams.includes(key)).flatMap(cannotOf),
    /** The lists that `start` reads again by day; empty before the first load, and where that is left to the nights. */
    rereading: await rereadingOf(ctx),
    /** Nightly runs that start before the end of this run. Their sweep gets a tenth of the credits meanwhile. */
    nightly_runs: nightsIn(config, planned, ctx.clock.now()),
    /** Field rules, and what works no more, or with less, by each. */
    field_rules: rulesIn(config.fieldRules).map(({ written, full }) => ({
      rule: written,
      lost: lostBy(config.fieldRules, full),
    })),
  };
}

interface Rereading {
  readonly stream: string;
  readonly list: string;
  readonly credits: number;
  readonly every_seconds: number;
}

async function rereadingOf(ctx: Context): Promise<Rereading[]> {
  const all = await Promise.all([...ctx.sources.values()].map(source => rotationOf(ctx, source)));
  return all.flat().map(({ stream, list, cost, everyMs }) => ({
    ...{ stream, list, credits: cost, every_seconds: Math.round(everyMs / 1000) },
  }));
}

const mostNights = 10;

function nightsIn(config: Config, { done_at }: Planned, nowMs: number): string[] {
  const nightly = timetables(config.schedule, streams).find(({ plan }) => plan.schedule === 'nightly');
  if (nightly === undefined) return [];
  const nights = nextSlots(nightly, mostNights, nowMs).filter(night => night.getTime() < Date.parse(done_at));
  return nights.map(night => night.toISOString());
}

function show(planned: PlanResult): void {
  const { requests, credits, seconds, counted, counted_with_credits, assumptions, incomplete } = planned;
  const rows = Object.entries(planned.streams).map(([stream, one]) => [
    stream,
    one.requests,
    one.credits,
    duration(one.seconds),
    one.from,
    one.until,
  ]);
  const total = ['all', requests, credits, duration(seconds), planned.at, planned.done_at];
  print(table(['stream', 'requests', 'credits', 'time', 'from', 'until'], [...rows, total]));
  const { tickets_stored_at: tickets, messages_stored_at: messages, fresh_waits_seconds: waits } = planned;
  if (tickets !== null)
    say(`Tickets are complete at ${tickets}${messages === null ? '.' : `, their messages at ${messages}.`}`);
  for (const [stream, { deferred_until }] of Object.entries(planned.streams))
    if (deferred_until !== undefined)
      say(`${stream} uses up the daily quota: a run ends there, and a worker resumes at ${deferred_until}.`);
  if (waits !== null) say(`Meanwhile fresh changes wait for credits: median ${waits.p50} s, p95 ${waits.p95} s.`);
  if (planned.rereading.length > 0) say(`A worker reads again by day: ${planned.rereading.map(readAgain).join(', ')}.`);
  if (planned.nightly_runs.length > 0)
    say(`The nightly sweep (${planned.nightly_runs[0]}) gets a tenth of the credits until this run ends.`);
  const told = counted.map(({ what, credits: each }) => `${what} (${each})`).join('; ');
  say(
    counted_with_credits === 0
      ? 'No requests were sent to the source.'
      : `Counted with ${count(counted_with_credits, 'credit')}: ${told}.`,
  );
  say(`Assumed: ${assumptions.join('; ')}.`);
  for (const said of planned.limitations) say(said);
  for (const { rule, lost } of planned.field_rules)
    say(`Field rule ${rule}${lost.length > 0 ? `: lost with it: ${lost.join(', ')}` : ''}.`);
  if (incomplete) say('Some amounts are unknown and were not requested: the run takes more than this.');
}

const readAgain = ({ stream, list, credits, every_seconds }: Rereading): string =>
  `${stream}${list === 'default' ? '' : ` (${list})`} every ${duration(every_seconds)} for ${count(credits, 'credit')}`;

/** The index of words costs less if it is made after the messages. */
async function tellSearch(db: pg.Pool, streams: readonly StreamKey[]): Promise<void> {
  if (!streams.includes('helpdesk.messages')) return;
  const all = await readSearch(db);
  if (all.every(({ state }) => state === 'off')) return;
  print('');
  print(
    `Search is on, and takes most of the time that the database needs for a message. For a long backfill:\n\`npx shelfdesk warehouse search off\` before it, \`npx shelfdesk warehouse search on\` after it.`,
  );
}
