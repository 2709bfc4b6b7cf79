/** The rows of the star, and of the views that add up, in plain code: from the tickets that count and what was said in them. */
import type { Ticket } from '../../packages/sandbox/src/helpdesk/records.ts';
import { type Business, dayOf, endOfDay, hourOf, nextDay, weekdayOf } from './business-in-words.ts';
import type { Said } from './desk-script.ts';
import { addToBacklog, asOf, type Group, type Period, timeOf, toldAt } from './history-in-words.ts';
import { kindOf, type Metrics, waitsOf } from './metrics-in-words.ts';

/** A ticket that counts: neither spam nor trash, nor deleted. */
export interface Counted {
  readonly account: string;
  readonly ticket: Ticket;
  readonly metrics: Metrics;
  readonly said: readonly Said[];
  readonly isWhole: boolean;
  readonly zone: string;
  readonly business: Business | null;
}

export type Row = Record<string, string | number | boolean | null>;

const hourMs = 3_600_000;
const iso = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString());
const dateOf = (zone: string, ms: number | null) => (ms === null ? null : dayOf(zone, ms));
const keyOf = (account: string, id: string | null) => (id === null ? null : `${account}/${id}`);
const sum = (all: readonly number[]) => all.reduce((total, one) => total + one, 0);

const keysOf = ({ account, ticket }: Counted) => ({
  ticket_key: `${account}/${ticket.id}`,
  account_key: account,
  customer_key: keyOf(account, ticket.customer_id),
  inbox_key: keyOf(account, ticket.inbox_id),
});

/** Metrics that the star leaves to analytics.countable_tickets, or has under another name or in another column. */
const notInStar =
  /^(last_(inbound|authored)_at|first_responder_id|first_reply_.*|total_wait_.*|average_wait_business.*|longest_wait_business.*|seconds_.*|(open|hold|snoozed|closed|archived)_error_seconds)$/;

export const ticketRows = (all: readonly Counted[]): Row[] =>
  all.map(one => {
    const { account, ticket, metrics, isWhole, zone } = one;
    const dayOfClosing = (at: unknown) => (at === null ? null : dayOf(zone, Date.parse(at as string)));
    return {
      ...Object.fromEntries(Object.entries(metrics).filter(([name]) => !notInStar.test(name))),
      ...keysOf(one),
      user_key: keyOf(account, ticket.user_id),
      first_responder_key: keyOf(account, metrics.first_responder_id as string | null),
      created_date: dayOf(zone, timeOf(ticket.created_at)),
      first_closed_date: dayOfClosing(metrics.first_closed_at),
      last_closed_date: dayOfClosing(metrics.last_closed_at),
      number: ticket.number,
      type: ticket.type,
      messages_complete: isWhole,
      created_at: iso(timeOf(ticket.created_at)),
      updated_at: iso(timeOf(ticket.updated_at)),
      first_reply_after_creation_seconds: metrics.first_reply_seconds!,
      first_reply_after_creation_business_seconds: metrics.first_reply_business_seconds!,
    };
  });

export const messageRows = (all: readonly Counted[]): Row[] =>
  all.flatMap(one =>
    one.said.map(message => ({
      message_key: `${one.account}/${message.id}`,
      ...keysOf(one),
      user_key: keyOf(one.account, message.user_id),
      created_date: dateOf(one.zone, toldAt(message)),
      created_hour: message.created_at === null ? null : hourOf(one.zone, timeOf(message.created_at)),
      created_at: iso(toldAt(message)),
      kind: kindOf(message),
      ticket_type: one.ticket.type,
      position: message.position,
      messages_complete: one.isWhole,
      ticket_id: one.ticket.id,
    })),
  );

const answerOf = ({ business }: Counted, sinceMs: number | null, untilMs: number | null) => {
  if (sinceMs === null || untilMs === null) return { wait_seconds: null, wait_business_seconds: null };
  return {
    wait_seconds: (untilMs - sinceMs) / 1000,
    wait_business_seconds: business === null ? null : business(sinceMs, untilMs),
  };
};

export const turnRows = (all: readonly Counted[]): Row[] =>
  all.flatMap(one =>
    waitsOf(one.said).map(({ sinceMs, untilMs, isAnswered, by, messages, isFirst }, i) => ({
      turn_key: `${one.account}/${one.ticket.id}/${i + 1}`,
      ...keysOf(one),
      user_key: keyOf(one.account, by),
      waiting_date: dateOf(one.zone, sinceMs),
      answered_date: dateOf(one.zone, untilMs),
      waiting_since: iso(sinceMs),
      answered_at: iso(untilMs),
      ...answerOf(one, sinceMs, untilMs),
      inbound_messages: messages,
      is_answered: isAnswered,
      is_first_response: isFirst,
      messages_complete: one.isWhole,
      ticket_type: one.ticket.type,
      ticket_id: one.ticket.id,
    })),
  );

export const labelRows = (all: readonly Counted[]): Row[] =>
  all.flatMap(({ account, ticket }) =>
    ticket.label_ids.map(label => ({
      ticket_label_key: `${account}/${ticket.id}/${label}`,
      ticket_key: `${account}/${ticket.id}`,
      label_key: `${account}/${label}`,
      account_key: account,
      ticket_id: ticket.id,
    })),
  );

export function agentRows(all: readonly Counted[]): Row[] {
  const days = Map.groupBy(
    all.flatMap(one => {
      const { account, ticket, zone, said } = one;
      const on = (atMs: number) => ({ account, day: dayOf(zone, atMs), ticket: ticket.id });
      const wrote = said.flatMap(message =>
        (kindOf(message) === 'authored' || kindOf(message) === 'note') &&
        message.user_id !== null &&
        message.created_at !== null
          ? [{ ...on(timeOf(message.created_at)), user: message.user_id, wrote: kindOf(message) }]
          : [],
      );
      const answered = waitsOf(said).flatMap(({ sinceMs, untilMs, by, isFirst }) =>
        untilMs === null ? [] : [{ ...on(untilMs), user: by, isFirst, ...answerOf(one, sinceMs, untilMs) }],
      );
      return [...wrote, ...answered];
    }),
    ({ account, day, user }) => JSON.stringify([account, day, user]),
  );
  return [...days].map(([key, did]) => {
    const [account_id, day, user_id] = JSON.parse(key) as [string, string, string];
    const waits = did.flatMap(one => ('isFirst' in one ? [one] : []));
    const known = waits.flatMap(one => (one.wait_seconds === null ? [] : [one.wait_seconds]));
    const business = waits.flatMap(one => (one.wait_business_seconds === null ? [] : [one.wait_business_seconds]));
    const wrote = (kind: string) => did.filter(one => 'wrote' in one && one.wrote === kind).length;
    return {
      ...{ account_id, day, user_id, replies: wrote('authored'), notes: wrote('note') },
      first_responses: waits.filter(({ isFirst }) => isFirst).length,
      turns_answered: waits.length,
      wait_seconds: known.length === 0 ? null : sum(known),
      // Without the calendar of one of them nobody knows the sum.
      wait_business_seconds: known.length === 0 || business.length < known.length ? null : sum(business),
      tickets_touched: new Set(did.map(({ ticket }) => ticket)).size,
    };
  });
}

export function arrivalRows(all: readonly Counted[]): Row[] {
  const hours = Map.groupBy(
    all.flatMap(({ account, ticket, zone, said }) => {
      const at = (stamp: string, what: string) => ({
        account,
        zone,
        hour: Math.floor(timeOf(stamp) / hourMs) * hourMs,
        what,
      });
      const inbound = said.filter(message => kindOf(message) === 'inbound');
      return [
        at(ticket.created_at, 'ticket'),
        ...inbound.flatMap(({ created_at }) => (created_at === null ? [] : [at(created_at, 'message')])),
      ];
    }),
    ({ account, zone, hour }) => JSON.stringify([account, zone, hour]),
  );
  return [...hours].map(([key, came]) => {
    const [account_id, time_zone, hour] = JSON.parse(key) as [string, string, number];
    return {
      ...{ account_id, hour: iso(hour), time_zone, local_hour: hourOf(time_zone, hour) },
      local_weekday: weekdayOf(dayOf(time_zone, hour)),
      tickets_created: came.filter(({ what }) => what === 'ticket').length,
      inbound_messages: came.filter(({ what }) => what === 'message').length,
    };
  });
}

export function customerRows(all: readonly Counted[]): Row[] {
  const customers = Map.groupBy(all, ({ account, ticket }) => JSON.stringify([account, ticket.customer_id]));
  return [...customers].map(([key, theirs]) => {
    const [account_id, customer_id] = JSON.parse(key) as [string, string];
    const open = theirs.filter(({ ticket }) => ticket.state !== 'closed' && ticket.state !== 'archived');
    const of = (name: string, some = theirs) =>
      some.map(({ metrics }) => metrics[name]!).filter(value => value !== null);
    const created = theirs.map(({ ticket }) => iso(timeOf(ticket.created_at))!).sort();
    const responses = of('first_response_seconds') as number[];
    const total = (name: string) => sum(of(name) as number[]);
    return {
      ...{ account_id, customer_id, is_mirrored: false, tickets: theirs.length, open_tickets: open.length },
      waiting_tickets: of('waiting_since', open).length,
      waiting_since: (of('waiting_since', open) as string[]).sort()[0] ?? null,
      first_ticket_at: created[0]!,
      last_ticket_at: created.at(-1)!,
      inbound_messages: total('inbound_count'),
      replies: total('authored_count'),
      last_inbound_at: (of('last_inbound_at') as string[]).sort().at(-1) ?? null,
      average_first_response_seconds: responses.length === 0 ? null : sum(responses) / responses.length,
      reopens: total('reopen_count'),
      reopen_error_seconds: of('reopen_error_seconds').length < theirs.length ? null : total('reopen_error_seconds'),
    };
  });
}

/** One account, for the backlog of its last 90 days: of all its tickets, since one that counts no more did so then. */
export interface Past {
  readonly account: string;
  readonly tickets: readonly {
    readonly ticket: Ticket;
    readonly created: number;
    readonly periods: readonly Period[];
  }[];
  readonly throughMs: number;
  readonly inboxes: readonly (string | null)[];
  zoneOf(inbox: string | null): string;
}

export const backlogRows = (accounts: readonly Past[]): Row[] =>
  accounts.flatMap(({ account, tickets, throughMs, inboxes, zoneOf }) => {
    const zones = [...new Set([null, ...inboxes].map(zoneOf))];
    // The last day that is over in each of them.
    const lastDay = zones.map(zone => nextDay(dayOf(zone, throughMs), -1)).sort()[0]!;
    return zones.flatMap(zone =>
      Array.from({ length: 90 }, (_, n) => nextDay(lastDay, -n)).flatMap(day => {
        const groups = new Map<string, Group>();
        const endMs = endOfDay(zone, day);
        for (const { periods, created } of tickets) addToBacklog(groups, periods, created, endMs);
        return [...groups].flatMap(([key, group]) => {
          const [state, inbox, user] = JSON.parse(key) as (string | null)[];
          if (zoneOf(inbox!) !== zone) return [];
          return [
            {
              backlog_key: [account, day, state ?? '?', inbox ?? '?', user ?? '?'].join('/'),
              ...{ date_key: day, account_key: account, state: state!, ...group },
              inbox_key: keyOf(account, inbox!),
              user_key: keyOf(account, user!),
            },
          ];
        });
      }),
    );
  });

const counts = ({ state, spam, trash }: Period) => state !== 'closed' && state !== 'archived' && !spam && !trash;

/** What a ticket was in the backlog of a time: open work, unknown, or perhaps open work because of a neighbour. */
function inBacklog(periods: readonly Period[], created: number, atMs: number) {
  const was = asOf(periods, created, atMs);
  if (was === undefined) return undefined;
  const { period, certain } = was;
  if (period === null || counts(period)) return { period, isCounted: true, certain };
  if (period.isFirst && period.by !== null && period.by > atMs)
    return { period: null, isCounted: false, certain: false };
  const i = periods.indexOf(period);
  const [before, after] = [periods[i - 1], periods[i + 1]];
  if (period.by !== null && period.by > atMs && before?.to === period.from && counts(before))
    return { period: before, isCounted: false, certain: false };
  if (after?.from === period.to && counts(after) && (after.after ?? 0) < atMs && (period.by ?? 0) <= atMs)
    return { period: after, isCounted: false, certain: false };
  return undefined;
}

export const backlogMonthRows = (accounts: readonly Past[]): Row[] =>
  accounts.flatMap(({ account, tickets, throughMs, inboxes, zoneOf }) => {
    const zones = [...new Set([null, ...inboxes].map(zoneOf))];
    const lastDay = zones.map(zone => nextDay(dayOf(zone, throughMs), -1)).sort()[0]!;
    const first = Math.min(...tickets.map(({ created }) => created));
    const days: string[] = [];
    for (let day = nextDay(dayOf('UTC', first), -40); day <= lastDay; day = nextDay(day))
      if (day === lastDay || nextDay(day).endsWith('-01')) days.push(day);
    return zones.flatMap(zone =>
      days.flatMap(day =>
        tickets.flatMap(({ ticket, created, periods }) => {
          const was = inBacklog(periods, created, endOfDay(zone, day));
          if (was === undefined || zoneOf(was.period?.inbox ?? null) !== zone) return [];
          const labels = was.period?.labels ? was.period.labels.split('+') : [null];
          return labels.map(label => ({
            backlog_key: [account, day, ticket.id, ...(label === null ? [] : [label])].join('/'),
            ...{ ticket_key: `${account}/${ticket.id}`, date_key: day, account_key: account, ticket_id: ticket.id },
            ...{ customer_key: keyOf(account, ticket.customer_id), ticket_type: ticket.type },
            ...{
              inbox_key: keyOf(account, was.period?.inbox ?? null),
              user_key: keyOf(account, was.period?.user ?? null),
            },
            ...{ label_key: keyOf(account, label), state: was.period?.state ?? null },
            ...{ is_counted: was.isCounted, is_certain: was.certain },
          }));
        }),
      ),
    );
  });
