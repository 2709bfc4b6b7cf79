/**
 * Tells people of problems, by a webhook: once when one begins and once when it ends, with what to do about it. In a loop of its
 * own: whatever the webhook does, the work goes on. A word may come twice only if a process dies between the webhook's answer
 * and its own note of it; `alarm` and `state` tell that it is the same.
 */
import type pg from 'pg';
import type { Logger } from 'pino';
import { type Dispatcher, request } from 'undici';
import type { AlarmConfig, Fleet } from '../../app/config.ts';
import type { Clock } from '../../clock.ts';
import { isAway } from '../../errors.ts';
import { type Alarm, compareProblems, noteTold, noteUntold, takeAlarm } from './open-alarms.ts';

/** Of sync.problems those that a person is told of. */
const alarming = [
  'token_refused',
  'nightly_failed',
  'nightly_late',
  'past_target',
  'credits_refused',
  'mass_deletion_stopped',
  'audit_found_drift',
  'no_worker',
];

/** How often it is looked; and what does not last so long was none, as a restart. */
const everyMs = 60_000;
const holdMs = 60_000;
const timeoutMs = 10_000;
/** Slack cuts longer ones. */
const longestText = 3000;

export interface Told {
  readonly account: string;
  /** Undefined: nobody is told, and the table is kept all the same. */
  readonly alarm: AlarmConfig | undefined;
}

interface Deps {
  readonly pg: pg.Pool;
  readonly clock: Clock;
  readonly log: Logger;
  readonly dispatcher?: Dispatcher;
  readonly signal?: AbortSignal;
}

/**
 * Everybody of the fleet, also those whose settings are wrong now, and whom nobody serves: of them the webhook that they had
 * (`had`, by account), or the one that all others have.
 */
export function toldOf(
  { accounts, refused }: Pick<Fleet, 'accounts' | 'refused'>,
  had: ReadonlyMap<string, AlarmConfig | undefined>,
): Told[] {
  const [first, ...others] = accounts.map(({ alarm }) => alarm);
  const isAll = others.every(alarm => alarm?.format === first?.format && alarm?.url.href === first?.url.href);
  const common = isAll ? first : undefined;
  return [
    ...accounts,
    ...refused.map(({ account }) => ({ account, alarm: had.has(account) ? had.get(account) : common })),
  ];
}

/**
 * Looks every minute until it is disposed of; `accounts` is asked each time. Never fails. Those that share a webhook wait for
 * each other, and for nobody else: one that takes its time is left to it, while the others are looked after.
 */
export function keepAlarms(deps: Deps, accounts: () => readonly Told[]): AsyncDisposable {
  const leaving = new AbortController();
  const signal = leaving.signal;
  const given = { ...deps, signal };
  const failed = (error: unknown) => {
    const reason = error instanceof Error ? error.message : String(error);
    if (!signal.aborted) deps.log[isAway(error) ? 'debug' : 'error']({ reason }, 'alarms could not be looked after');
  };
  /** By webhook, while it is at it. */
  const telling = new Map<string, Promise<void>>();
  const looking = (async () => {
    while (!signal.aborted) {
      try {
        for (const [webhook, { to, accounts: its }] of await compare(given, accounts())) {
          if (telling.has(webhook)) continue;
          const told = tellAll(given, to, its).catch(failed);
          telling.set(
            webhook,
            told.finally(() => telling.delete(webhook)),
          );
        }
      } catch (error) {
        failed(error);
      }
      await deps.clock.sleep(everyMs, signal).catch(() => {});
    }
    await Promise.all(telling.values());
  })();
  return {
    async [Symbol.asyncDispose]() {
      leaving.abort();
      await looking;
    },
  };
}

/** One look, to its end: compares, and tells what is due. */
export async function lookAfterAlarms(deps: Deps, all: readonly Told[]): Promise<void> {
  const webhooks = await compare(deps, all);
  const done = await Promise.allSettled([...webhooks.values()].map(({ to, accounts }) => tellAll(deps, to, accounts)));
  for (const one of done) if (one.status === 'rejected') throw one.reason;
}

type Webhooks = ReadonlyMap<string, { readonly to: AlarmConfig; readonly accounts: readonly string[] }>;

/** Opens and closes alarms; answers whom each webhook is told of. */
async function compare({ pg, clock }: Deps, all: readonly Told[]): Promise<Webhooks> {
  const webhooks = new Map<string, { to: AlarmConfig; accounts: string[] }>();
  for (const { account, alarm } of all) {
    if (alarm === undefined) continue;
    const key = `${alarm.format} ${alarm.url.href}`;
    const webhook = webhooks.get(key) ?? { to: alarm, accounts: [] };
    webhook.accounts.push(account);
    webhooks.set(key, webhook);
  }
  const watched = {
    accounts: all.map(({ account }) => account),
    told: [...webhooks.values()].flatMap(({ accounts }) => accounts),
    problems: alarming,
    holdMs,
  };
  await compareProblems(pg, watched, new Date(clock.now()));
  return webhooks;
}

/** Until nothing is due, or it is not taken: then what is left has time until the next look. */
async function tellAll(deps: Deps, to: AlarmConfig, accounts: readonly string[]): Promise<void> {
  const { pg, clock, log } = deps;
  const now = () => new Date(clock.now());
  for (;;) {
    if (deps.signal?.aborted) return;
    const alarm = await takeAlarm(pg, accounts, now());
    if (alarm === undefined) return;
    const why = await post(deps, to, alarm);
    if (why === undefined) {
      await noteTold(pg, alarm, now());
      continue;
    }
    log.warn(
      { account: alarm.account, problem: alarm.problem, why },
      'the webhook did not take an alarm, it is tried again',
    );
    return noteUntold(pg, alarm, why, now());
  }
}

/** Answers why it was not taken, without the address: that is a secret. */
async function post(
  { dispatcher, signal }: Deps,
  { url, format }: AlarmConfig,
  alarm: Alarm,
): Promise<string | undefined> {
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(), timeoutMs);
  try {
    const reply = await request(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(format === 'slack' ? slackOf(alarm) : jsonOf(alarm)),
      signal: signal ? AbortSignal.any([deadline.signal, signal]) : deadline.signal,
      ...(dispatcher && { dispatcher }),
    });
    await reply.body.dump();
    const isTaken = reply.statusCode >= 200 && reply.statusCode < 300;
    return isTaken ? undefined : `it answered with ${reply.statusCode}`;
  } catch (error) {
    if (deadline.signal.aborted) return `no answer within ${timeoutMs / 1000} s`;
    return `no answer (${error instanceof Error && 'code' in error ? String(error.code) : 'the connection failed'})`;
  } finally {
    clearTimeout(timer);
  }
}

/** As docs/ALARMS.md documents it. */
export function jsonOf({ id, account, problem, stream, state, severity, says, remedy, since, ended }: Alarm) {
  const times = { since: since.toISOString(), ended: ended?.toISOString() ?? null };
  return { alarm: id, account, problem, stream, state, severity, says, remedy, ...times };
}

function slackOf(alarm: Alarm): { text: string } {
  const { account, problem, stream, state, severity, says, remedy, since, ended } = alarm;
  const what = `${account}${stream === null ? '' : `, ${stream}`}: ${problem.replaceAll('_', ' ')}`;
  const time = (at: Date) => `${at.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  const text =
    state === 'begin'
      ? `${severity === 'critical' ? ':red_circle:' : ':large_yellow_circle:'} *${harmless(what)}*\n${harmless(says)}\n${harmless(remedy)}`
      : `:large_green_circle: *${harmless(what)}* has ended\nFrom ${time(since)} to ${time(ended ?? since)}: ${harmless(says)}`;
  return { text: text.slice(0, longestText) };
}

/** Slack takes these three for its own. */
const harmless = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
