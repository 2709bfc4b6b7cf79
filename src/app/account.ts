/** Opens an account for a command: its context, and its row in sync.workers. */

import { hostname } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Logger } from 'pino';
import { systemClock } from '../clock.ts';
import type { Context } from '../engine/context.ts';
import { forgetLists, type Listed, register } from '../engine/coverage/coverage.ts';
import { openWays, type Ways } from '../engine/http/ways.ts';
import type { Queues } from '../engine/queue/job-queue.ts';
import { openQueues } from '../engine/queue/queue.ts';
import { nameAccount } from '../engine/runs/accounts/accounts.ts';
import { keepTargets } from '../engine/runs/freshness-targets.ts';
import { type HandOffSettings, keepHandOffSettings } from '../engine/runs/hand-offs.ts';
import { command } from '../engine/runs/pauses.ts';
import { type Attendance, attend, type Presence, type Process } from '../engine/runs/workers.ts';
import { OpenStack } from '../open-stack.ts';
import { keepFieldRules, pauseLeftOut } from '../privacy/fields/stored-rules.ts';
import { streams } from '../sources/index.ts';
import { versionAndBuild } from './build.ts';
import type { Config, Fleet } from './config.ts';
import { boundSources, requireSource, type Warehouse } from './context.ts';
import { promisesOf } from './freshness-targets.ts';
import { leftOut, migrateWarehouse } from './migrate.ts';
import { openContext, openLog } from './open-context.ts';

/** Resources that all accounts of a process share. */
interface Shared {
  readonly warehouse: Warehouse;
  readonly attendance: Attendance;
  readonly log: Logger;
  /** The address of the web page of this process, for sync.workers. */
  readonly page?: Process['page'];
}

/** The same, with what a process that works for others needs. */
export interface Ground extends Shared, AsyncDisposable {
  readonly queues: Queues;
  /** The connections of webhooks. */
  readonly ways: Ways;
}

/** Opens the shared resources and applies pending migrations. */
export async function openGround(
  { redisUrl, logLevel, proxies }: Pick<Fleet, 'redisUrl' | 'logLevel' | 'proxies'>,
  warehouse: Warehouse,
  log: Logger = openLog({ logLevel }),
): Promise<Ground> {
  await using stack = new OpenStack();
  await migrateAndSay(warehouse, log);
  const queues = stack.use(await openQueues({ redisUrl, databaseUrl: warehouse.url }));
  const attendance = stack.use(await attend(warehouse.url, systemClock));
  const ways = stack.use(openWays(proxies));
  const opened = stack.move();
  return {
    ...{ warehouse, queues, attendance, ways, log },
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

async function migrateAndSay(warehouse: Warehouse, log: Logger): Promise<void> {
  const migrated = await migrateWarehouse(warehouse.url);
  if (migrated.busy) log.warn(leftOut(migrated));
}

export interface Account extends AsyncDisposable {
  readonly ctx: Context;
  /** The name of its queue. */
  readonly queue: string;
  readonly presence: Presence;
}

/**
 * `works`: this process takes jobs immediately. `binds` (default true): stores the lists and freshness targets of the
 * settings in the warehouse.
 */
interface How {
  signal: AbortSignal;
  works: boolean;
  binds?: boolean;
}

/** Opens one account, with shared resources of its own. */
export async function openAccount(config: Config, warehouse: Warehouse, how: How): Promise<Account> {
  requireSource(config);
  await using stack = new OpenStack();
  const log = openLog(config);
  await migrateAndSay(warehouse, log);
  const attendance = stack.use(await attend(warehouse.url, systemClock));
  const account = stack.use(await openAccountOn({ warehouse, attendance, log }, config, how));
  const opened = stack.move();
  return { ...account, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

/** Opens an account. Throws if the warehouse has mirrored other sources under its name. */
export async function openAccountOn(
  ground: Shared,
  config: Config,
  { signal, works, binds = true }: How,
): Promise<Account> {
  await using stack = new OpenStack();
  requireSource(config);
  stack.defer(keepHeapSmall());
  const log = ground.log.child({ account: config.account });
  let presence: Presence | undefined;
  const ctx = stack.use(openContext(config, ground.warehouse, { log, signal, sender: () => presence?.id }));
  const { queue } = await nameAccount(ctx.pg, ctx.account, boundSources(config));
  const lists = listsOf(ctx);
  await register(ctx.pg, config, lists, new Date(ctx.clock.now()));
  if (binds) {
    await forgetLists(ctx.pg, ctx.account, lists);
    await keepTargets(ctx.pg, ctx.account, promisesOf(config));
    await keepRules(ctx, config);
    await keepHandOffs(ctx, config, works);
  }
  const me = { account: ctx.account, works, host: hostname(), pid: process.pid, version: versionAndBuild() };
  const { page } = ground;
  presence = stack.use(await ground.attendance.enter(page ? { ...me, page } : me));
  const opened = stack.move();
  return { ctx, queue, presence, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

/**
 * No flag of the start: with it Node would compile its own modules anew, which is a large part of a short command. A limit that a
 * collection of the start has left holds until the next one, and that may come late: bytes of pages would fill up to 40 MB first.
 * So a process that lives on collects once. Replies of many accounts wait at one time, and a low limit would walk them again and
 * again: an eighth of the work of a process at the full budget of 100 accounts.
 */
function keepHeapSmall(): () => void {
  opened++;
  setFlagsFromString(`--heap-growing-percent=${opened < many ? 30 : 100}`);
  if (!isCollected)
    setTimeout(() => {
      setFlagsFromString('--expose-gc');
      runInNewContext('gc()');
    }, 1000).unref();
  isCollected = true;
  return () => void opened--;
}
/** Accounts that are open in this process. */
let opened = 0;
const many = 20;
let isCollected = false;

/** Pauses streams that a field rule leaves out whole. Stored rows stay unchanged until `warehouse fields apply`. */
async function keepRules({ pg, account, clock, log }: Context, { fieldRules }: Config): Promise<void> {
  const now = new Date(clock.now());
  const pending = await keepFieldRules(pg, account, fieldRules, now);
  await pauseLeftOut(pg, account, fieldRules, streams, now);
  if (pending.length > 0)
    log.warn(
      { rules: pending.map(({ rule }) => rule) },
      `records of before may still hold fields that a rule leaves out: ${command(account, 'warehouse fields apply')} takes them out`,
    );
}

async function keepHandOffs({ pg, account, clock, log }: Context, config: Config, works: boolean): Promise<void> {
  const ended = await keepHandOffSettings(pg, account, handOffSettingsOf(config), new Date(clock.now()), works);
  if (ended > 0)
    log.warn({ ended }, 'hand-offs that waited are not sent, because the settings name no receiver for them');
}

function handOffSettingsOf({ handOff, schedule }: Config): HandOffSettings | undefined {
  if (handOff === undefined) return undefined;
  const { webhook, command: line, notify = null, runs, rejectsAllowed, due } = handOff;
  return {
    channels: [...(webhook ? (['webhook'] as const) : []), ...(line ? (['command'] as const) : [])],
    // The zone counts only with a time of day.
    ...{ notify, runs, rejectsAllowed, timeZone: due && 'by' in due ? schedule.timeZone : 'UTC' },
    dueBy: due && 'by' in due ? due.by : null,
    dueWithinMs: due && 'withinMs' in due ? due.withinMs : null,
  };
}

function listsOf({ sources, streams }: Context): Listed[] {
  return streams.flatMap(stream => {
    const source = sources.get(stream.source);
    if (source === undefined) return [];
    const lists = stream.listsOf?.(source) ?? (stream.kind === 'list' ? stream.lists.map(({ name }) => name) : []);
    const { sinceMs = 0, lookbackMs } = source;
    return lists.map(list => ({ stream: stream.key, list, sinceMs, lookbackMs }));
  });
}
