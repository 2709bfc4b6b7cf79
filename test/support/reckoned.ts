/** Compares what the warehouse says of help desks with what plain code makes of the replies that they gave (*-in-words.ts). */
import { expect } from 'vitest';
import { pick } from '../../packages/sandbox/src/random.ts';
import { dayOf, endOfDay, nextDay, weekdays } from './business-in-words.ts';
import type { Desk } from './desk-script.ts';
import { eventRows } from './events-in-words.ts';
import {
  addToBacklog,
  asOf,
  errorOf,
  type Group,
  type Known,
  type Look,
  type Period,
  periodsOf,
  type Seen,
  statesOf,
  timeOf,
  wordsOf,
} from './history-in-words.ts';
import { metricsInWords } from './metrics-in-words.ts';
import { type Scripted, second } from './scripted.ts';
import {
  agentRows,
  arrivalRows,
  backlogMonthRows,
  backlogRows,
  type Counted,
  customerRows,
  labelRows,
  messageRows,
  type Row,
  ticketRows,
  turnRows,
} from './star-in-words.ts';
import { differingMetrics } from './stored-metrics.ts';
import { type Target, targetFacts, targetRows } from './targets-in-words.ts';
import { checkOutcome } from './true-outcomes.ts';

export const lookbackMs = 120_000;
export const dayS = 86_400;
/** A week before the clocks of Berlin change, which are not those of New York. */
export const begins = 81 * dayS;
export const zones = { office: 'Europe/Berlin', night: 'America/New_York', none: 'UTC' };
const hours = {
  office: weekdays(zones.office, 9, 17, ['2026-04-03', '2026-04-06']),
  night: weekdays(zones.night, 8, 20),
};

const target = (account: string, metric: Target['metric'], hours: number, more: Partial<Target> = {}): Target => ({
  ...{ account, metric, seconds: hours * 3600, inbox: null, label: null, from: null, to: null, ...more },
});
/** When some targets change. */
const changed = second(begins + dayS);
export const targets = [
  ...[target('default', 'first_response', 2), target('default', 'first_response', 1, { inbox: 'i2' })],
  ...[target('default', 'first_response', 5, { label: 'l1' }), target('default', 'first_response', 4, { label: 'l3' })],
  ...[target('default', 'resolution', 8), target('default', 'resolution', 16, { label: 'l1', inbox: 'i1' })],
  ...[target('other', 'first_response', 30), target('other', 'resolution', 60, { inbox: 'i3' })],
  ...[target('other', 'resolution', 20, { label: 'l2' }), target('other', 'resolution', 10)],
  ...[target('default', 'next_reply', 3, { to: changed }), target('default', 'next_reply', 1, { from: changed })],
  ...[target('default', 'first_response', 3, { label: 'l2', to: changed }), target('other', 'next_reply', 12)],
  ...[target('other', 'first_response', 3, { inbox: 'i2', from: changed })],
  ...[
    target('default', 'resolution_without_hold', 7),
    target('other', 'resolution_without_hold', 9, { from: changed }),
  ],
];

/** One account: what happens to it, what the program sees of it, and what plain code makes of that. */
export interface Account {
  readonly name: string;
  readonly desk: Desk;
  readonly s: Scripted;
  readonly seen: Map<string, Seen[]>;
  /** Tickets that were made before the clock was set back: what happened to them has no order in time. */
  readonly outOfTime: Set<string>;
  calendarOf(inbox: string | null): 'office' | 'night' | undefined;
  zoneOf(inbox: string | null): string;
}

const known: Known = { lookbackMs, sinceMs: second(begins) };
const isLook = (one: Seen | undefined): one is Look => one !== undefined && 'ticket' in one;
const isThere = (seen: readonly Seen[]) => isLook(seen.findLast(one => !('sweptMs' in one)));
const latest = (seen: readonly Seen[]) => seen.findLast(isLook)!.ticket;

/** When a reply counted is the mirror's to say, and when it heard of a deletion; what the reply showed is the script's. */
export async function look({ name, desk, s, seen }: Account, sweptMs?: number): Promise<void> {
  const rows = (await s.rows(
    `select id, _observed_at as at, _deleted_after as gone_after, _deleted_at as gone_by from helpdesk.tickets where account_id = $1`,
    name,
  )) as { id: string; at: Date; gone_after: Date | null; gone_by: Date | null }[];
  for (const { id, at, gone_after, gone_by } of rows) {
    const all = seen.get(id) ?? [];
    seen.set(id, all);
    const before = all.findLast(isLook);
    if (before?.observedMs !== at.getTime()) {
      const shown = desk.shown.get(id)?.findLast(one => one.asOfMs === at.getTime());
      expect(shown, `${id} at ${at.toISOString()}`).toBeDefined();
      all.push({ ticket: shown!.ticket, observedMs: shown!.asOfMs, byMs: shown!.byMs });
    }
    if (gone_by !== null && isThere(all)) all.push({ goneAfterMs: gone_after!.getTime(), goneByMs: gone_by.getTime() });
    expect(gone_by === null, `${id} is there`).toBe(isThere(all));
    if (sweptMs !== undefined) all.push({ sweptMs });
  }
}

const iso = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString());
const round = (value: unknown) => (typeof value === 'number' ? Math.round(value * 1000) / 1000 : value);
const shown = (value: unknown) => (value instanceof Date ? value.toISOString() : round(value));
const lines = (rows: readonly (readonly unknown[])[]) => rows.map(row => JSON.stringify(row.map(shown)));

/** Rows that plain code makes and the warehouse does not have, and the other way round. */
async function same(s: Scripted, sql: string, expected: readonly (readonly unknown[])[], ...values: unknown[]) {
  const { rows } = await s.pool.query<unknown[]>({ text: sql, values, rowMode: 'array' });
  compareLines(sql, lines(rows), lines(expected));
}

function compareLines(of: string, found: readonly string[], wanted: readonly string[]): void {
  expect({
    of,
    tooMany: found.filter(line => !wanted.includes(line)),
    missing: wanted.filter(line => !found.includes(line)),
    count: found.length,
  }).toEqual({ of, tooMany: [], missing: [], count: wanted.length });
}

const eachPeriod = (accounts: readonly Account[]) =>
  accounts.flatMap(account =>
    [...account.seen].map(([id, seen]) => ({ account, id, seen, periods: periodsOf(seen, known) })),
  );

async function compareHistory(s: Scripted, accounts: readonly Account[]): Promise<void> {
  const all = eachPeriod(accounts);
  const times = (one: Period) => [iso(one.from), iso(one.to), iso(one.after), iso(one.goneAfter), iso(one.by)];
  await same(
    s,
    `select account_id, ticket_id, state, user_id, inbox_id, array_to_string(label_ids, '+'), spam, trash, is_first, valid_from, valid_to,
       change_after, deleted_after, change_by from analytics.ticket_history`,
    all.flatMap(({ account, id, periods }) =>
      periods.map(one => [
        ...[account.name, id, one.state, one.user, one.inbox, one.labels, one.spam, one.trash, one.isFirst],
        ...times(one),
      ]),
    ),
  );
  await same(
    s,
    `select account_id, ticket_id, state, error_seconds, valid_from, valid_to, change_after, deleted_after, change_by
     from analytics.ticket_state_intervals`,
    all.flatMap(({ account, id, periods }) =>
      statesOf(periods).map(one => [account.name, id, one.state, errorOf(one), ...times(one)]),
    ),
  );
}

/** Times at which something begins, ends or is bounded, and just beside them. */
function timesOf(accounts: readonly Account[], rng: () => number): number[] {
  const bounds = eachPeriod(accounts).flatMap(({ periods }) =>
    periods.flatMap(({ from, to, after, by, goneAfter }) => [from, to, after, by, goneAfter]),
  );
  const times = bounds.filter(ms => ms !== null).flatMap(ms => [ms - 1, ms, ms + 1]);
  return Array.from({ length: 25 }, () => pick(rng, times));
}

async function compareAsOf(s: Scripted, accounts: readonly Account[], times: readonly number[]): Promise<void> {
  const expected = times.flatMap(atMs =>
    eachPeriod(accounts).flatMap(({ account, id, seen, periods }) => {
      const ticket = latest(seen);
      const was = asOf(periods, timeOf(ticket.created_at), atMs);
      if (was === undefined) return [];
      const { period: p, certain } = was;
      const values = p
        ? [p.inbox, p.user, p.state, p.labels, p.spam, p.trash, iso(p.from), iso(p.to)]
        : Array(8).fill(null);
      return [[iso(atMs), account.name, id, ticket.number, ticket.customer_id, ticket.type, ...values, certain]];
    }),
  );
  await same(
    s,
    `select a.at, t.account_id, t.ticket_id, t.number, t.customer_id, t.type, t.inbox_id, t.user_id, t.state,
       array_to_string(t.label_ids, '+'), t.spam, t.trash, t.valid_from, t.valid_to, t.certain
     from unnest($1::timestamptz[]) a (at), analytics.tickets_as_of(a.at) t`,
    expected,
    times.map(iso),
  );
}

/** The open work at the end of some days in a zone. */
async function compareBacklog(s: Scripted, accounts: readonly Account[], zone: string, fromMs: number): Promise<void> {
  const days = Array.from({ length: 12 }, (_, n) => nextDay(dayOf(zone, fromMs), n - 1));
  const ends = days.map(day => ({ day, atMs: endOfDay(zone, day) }));
  const expected = ends.flatMap(({ day, atMs }) =>
    accounts.flatMap(account => {
      const groups = new Map<string, Group>();
      for (const seen of account.seen.values())
        addToBacklog(groups, periodsOf(seen, known), timeOf(latest(seen).created_at), atMs);
      return [...groups].map(([key, { tickets, uncertain }]) => [
        ...[day, account.name, ...(JSON.parse(key) as (string | null)[])],
        ...[tickets, uncertain],
      ]);
    }),
  );
  await same(
    s,
    'select day::text, account_id, state, inbox_id, user_id, tickets, uncertain from analytics.backlog_daily($1, $2, $3)',
    expected,
    days[0],
    days.at(-1),
    zone,
  );
}

/** What the script did lies within the bounds that the history gives, and is what is called certain. */
function checkTruth(accounts: readonly Account[], times: readonly number[]): void {
  for (const { account, id, seen, periods } of eachPeriod(accounts)) {
    if (account.outOfTime.has(id)) continue;
    const life = account.desk.lives.get(id)!.map((span, i, all) => ({ ...span, toMs: all[i + 1]?.fromMs ?? Infinity }));
    for (const one of periods) {
      if (one.isFirst || one.after === null) continue;
      const byMs = one.by ?? one.from;
      const isTrue = life.some(({ was, fromMs, toMs }) => was === wordsOf(one) && fromMs <= byMs && toMs > one.after!);
      expect(isTrue, `${id} was ${wordsOf(one)} at some time after ${iso(one.after)} and by ${iso(byMs)}`).toBe(true);
    }
    for (const atMs of times) {
      const { period, certain } = asOf(periods, timeOf(latest(seen).created_at), atMs) ?? {};
      // Of before the mirror began it takes the source at its word.
      if (!period || !certain || (period.isFirst && period.by === null)) continue;
      const same = life.filter(({ was }) => was === wordsOf(period));
      const isTrue = same.some(({ fromMs, toMs }) => fromMs <= atMs && atMs < toMs);
      // What was changed and changed back between two replies leaves no trace.
      const isBack =
        same.some(({ toMs }) => toMs <= atMs && toMs > (period.after ?? period.from)) &&
        same.some(({ fromMs }) => fromMs > atMs && fromMs < (period.to ?? Infinity));
      // The last reply cannot tell what happened after it.
      const isLater = period.to === null && atMs > seen.findLast(isLook)!.observedMs - lookbackMs;
      expect(isTrue || isBack || isLater, `${id} was ${wordsOf(period)} at ${iso(atMs)}`).toBe(true);
    }
  }
}

interface Reckoned extends Counted {
  readonly seen: readonly Seen[];
}

const reckon = (accounts: readonly Account[]): Reckoned[] =>
  accounts.flatMap(account =>
    [...account.seen].map(([id, seen]) => {
      const ticket = latest(seen);
      const said = account.desk.said.get(id);
      const calendar = account.calendarOf(ticket.inbox_id);
      const business = calendar ? hours[calendar] : null;
      const isRead = isThere(seen) && said?.whole === true && said.asOfMs >= timeOf(ticket.updated_at);
      return {
        ...{ account: account.name, seen, ticket, business, zone: account.zoneOf(ticket.inbox_id) },
        said: said?.messages ?? [],
        isWhole: isRead && !account.desk.unreadable.has(id),
        metrics: metricsInWords(seen, said?.messages ?? [], business, known),
      };
    }),
  );

async function compareMetrics(s: Scripted, reckoned: readonly Reckoned[]): Promise<void> {
  const rows = new Map(
    (await s.rows('select * from analytics.ticket_metrics')).map(row => [`${row.account_id}/${row.ticket_id}`, row]),
  );
  expect([...rows.keys()].sort()).toEqual(reckoned.map(({ account, ticket }) => `${account}/${ticket.id}`).sort());
  for (const { account, ticket, metrics, isWhole } of reckoned) {
    const name = `${account}/${ticket.id}`;
    const words = { ...metrics, messages_complete: isWhole };
    const found = Object.fromEntries(Object.keys(words).map(metric => [metric, shown(rows.get(name)![metric])]));
    const wanted = Object.fromEntries(Object.entries(words).map(([metric, value]) => [metric, round(value)]));
    expect({ name, ...found }).toEqual({ name, ...wanted });
  }
}

/** Each column of each row. */
async function sameRows(s: Scripted, relation: string, expected: readonly Row[]): Promise<void> {
  const text = (row: object) =>
    Object.entries(row)
      .map(([name, value]) => [name, /^\d{4}-\d\d-\d\dT.*\+00:00$/.test(value) ? new Date(value) : value])
      .map(([name, value]) => [name, shown(value)])
      .sort(([a], [b]) => (a < b ? -1 : 1));
  const { rows } = await s.pool.query<{ row: object }>(`select to_jsonb(f) as row from analytics.${relation} f`);
  compareLines(relation, lines(rows.map(({ row }) => text(row))), lines(expected.map(text)));
}

async function compareStar(s: Scripted, accounts: readonly Account[], reckoned: readonly Reckoned[]): Promise<void> {
  const counted = reckoned.filter(({ ticket, seen }) => !ticket.spam && !ticket.trash && isThere(seen));
  const lived = counted.map(one => ({ ...one, periods: periodsOf(one.seen, known) }));
  await sameRows(s, 'fact_tickets', ticketRows(counted));
  await sameRows(s, 'fact_messages', messageRows(counted));
  await sameRows(s, 'fact_turns', turnRows(counted));
  await sameRows(s, 'fact_ticket_labels', labelRows(counted));
  await sameRows(s, 'fact_ticket_events', eventRows(lived));
  await sameRows(s, 'agent_daily', agentRows(counted));
  await sameRows(s, 'arrivals_hourly', arrivalRows(counted));
  await sameRows(s, 'customer_summary', customerRows(counted));
  const through = await s.rows(
    `select account_id, complete_through from analytics.completeness where source = 'helpdesk' and stream = 'tickets'`,
  );
  // Up to when it is complete is the mirror's to say.
  const throughMs = (account: string) =>
    (through.find(row => row.account_id === account)!.complete_through as Date).getTime();
  const kept = targetRows(lived, targets, throughMs);
  await sameRows(s, 'ticket_targets', kept);
  for (const row of kept) {
    const account = accounts.find(({ name }) => name === row.account_id)!;
    const one = counted.find(({ account, ticket }) => account === row.account_id && ticket.id === row.ticket_id)!;
    const { observedMs } = one.seen.findLast(isLook)!;
    const periods = periodsOf(one.seen, known);
    if (!account.outOfTime.has(one.ticket.id))
      checkOutcome({ row, one, desk: account.desk, periods, readMs: observedMs - lookbackMs });
  }
  const zoneOf = (account: string) => accounts.find(({ name }) => name === account)!.zoneOf;
  await sameRows(
    s,
    'fact_targets',
    targetFacts(kept, (account, inbox, at) => dayOf(zoneOf(account)(inbox), Date.parse(at))),
  );
  const past = accounts.map(({ name, seen, zoneOf }) => ({
    account: name,
    tickets: [...seen.values()].map(one => ({
      ticket: latest(one),
      created: timeOf(latest(one).created_at),
      periods: periodsOf(one, known),
    })),
    throughMs: throughMs(name),
    inboxes: ['i1', 'i2', 'i3'],
    zoneOf,
  }));
  await sameRows(s, 'fact_backlog', backlogRows(past));
  await sameRows(s, 'fact_backlog_months', backlogMonthRows(past));
}

export async function compareAll(s: Scripted, accounts: readonly Account[], rng: () => number): Promise<void> {
  await compareHistory(s, accounts);
  const times = timesOf(accounts, rng);
  await compareAsOf(s, accounts, times);
  checkTruth(accounts, times);
  for (const zone of ['UTC', 'Europe/Berlin', 'Atlantic/Azores'])
    await compareBacklog(s, accounts, zone, pick(rng, times));
  const reckoned = reckon(accounts);
  await compareMetrics(s, reckoned);
  expect(await s.rows(differingMetrics)).toEqual([]);
  await compareStar(s, accounts, reckoned);
}
