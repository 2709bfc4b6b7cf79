/**
 * Sends notifications of problems to a webhook: one at the start and one at the end, with the remedy. Runs in a loop of
 * its own, so that a slow webhook does not delay other work. A notification is repeated only if a process dies between
 * the webhook's reply and its own record; `alarm` and `state` identify the repetition.
 */
import type pg from 'pg';
import type { Logger } from 'pino';
import type { AlarmConfig, Fleet } from '../../app/config.ts';
import type { Clock } from '../../clock.ts';
import type { Ways } from '../../engine/http/ways.ts';
import { keepSending } from '../keep-sending.ts';
import { post } from '../webhook.ts';
import { type Alarm, compareProblems, noteTold, noteUntold, takeAlarm } from './open-alarms.ts';

/** Problems of sync.problems that raise an alarm. */
const alarming = [
  'nightly_late',
  'past_target',
  'reread_late',
  'credits_refused',
  'audit_found_drift',
  'hand_off_undelivered',
  'hand_off_late',
];

/** Interval of the check. A shorter problem, such as a restart, raises no alarm. */
const everyMs = 60_000;
const holdMs = 60_000;
const timeoutMs = 10_000;
const headers = { 'content-type': 'application/json' };
/** Slack truncates longer texts. */
const longestText = 3000;

export interface Told {
  readonly account: string;
  /** Undefined: nobody is notified; sync.alarms is maintained all the same. */
  readonly alarm: AlarmConfig | undefined;
}

interface Deps {
  readonly pg: pg.Pool;
  readonly clock: Clock;
  readonly log: Logger;
  readonly ways?: Ways;
  readonly signal?: AbortSignal;
}

/**
 * All accounts of the fleet with their webhooks. An account with invalid settings keeps its last webhook (`had`, by
 * account), or gets the webhook that all others share.
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
 * Checks every minute until it is disposed of; calls `accounts` each time. Never throws. Accounts with the same webhook
 * wait for each other. A slow webhook does not delay other webhooks.
 */
export const keepAlarms = (deps: Deps, accounts: () => readonly Told[]): AsyncDisposable =>
  keepSending(deps, {
    ...{ what: 'alarms', everyMs },
    due: () => compare(deps, accounts()),
    send: ({ to, accounts: its }, signal) => tellAll({ ...deps, signal }, to, its),
  });

/** Runs one complete check: compares problems with alarms, then sends what is due. */
// @internal Tests look once, on a clock of theirs.
export async function lookAfterAlarms(deps: Deps, all: readonly Told[]): Promise<void> {
  const webhooks = await compare(deps, all);
  const done = await Promise.allSettled([...webhooks.values()].map(({ to, accounts }) => tellAll(deps, to, accounts)));
  for (const one of done) if (one.status === 'rejected') throw one.reason;
}

type Webhooks = ReadonlyMap<string, { readonly to: AlarmConfig; readonly accounts: readonly string[] }>;

/** Opens and closes alarms. Returns the accounts of each webhook. */
async function compare({ pg, clock }: Deps, all: readonly Told[]): Promise<Webhooks> {
  const webhooks = new Map<string, { to: AlarmConfig; accounts: string[] }>();
  // An account that has moved is read-only here.
  const { rows } = await pg.query(`select account_id from sync.moves where state in ('leaving', 'moved')`);
  const watchedHere = all.filter(({ account }) => !rows.some(one => one.account_id === account));
  for (const { account, alarm } of watchedHere) {
    if (alarm === undefined) continue;
    const key = `${alarm.format} ${alarm.url.href}`;
    const webhook = webhooks.get(key) ?? { to: alarm, accounts: [] };
    webhook.accounts.push(account);
    webhooks.set(key, webhook);
  }
  const watched = {
    accounts: watchedHere.map(({ account }) => account),
    told: [...webhooks.values()].flatMap(({ accounts }) => accounts),
    problems: alarming,
    holdMs,
  };
  await compareProblems(pg, watched, new Date(clock.now()));
  return webhooks;
}

/** Sends until nothing is due or a delivery fails. The next check sends the rest. */
async function tellAll(deps: Deps, to: AlarmConfig, accounts: readonly string[]): Promise<void> {
  const { pg, clock, log } = deps;
  const now = () => new Date(clock.now());
  for (;;) {
    if (deps.signal?.aborted) return;
    const alarm = await takeAlarm(pg, accounts, now());
    if (alarm === undefined) return;
    const body = JSON.stringify(to.format === 'slack' ? slackOf(alarm) : jsonOf(alarm));
    const why = await post(to.url, { headers, body }, { ...deps, ms: timeoutMs });
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

/** The JSON that docs/how-to/alarms.md documents. */
function jsonOf({ id, account, problem, stream, state, severity, says, remedy, since, ended }: Alarm) {
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

/** Slack treats these three characters as markup. */
const harmless = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
