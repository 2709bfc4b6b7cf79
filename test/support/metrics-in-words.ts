/**
 * The metrics of a ticket in plain code, from the definitions in words alone: what a second reader of them makes of a
 * conversation, and of what was seen of the ticket over time. It shares nothing with the SQL.
 */
import type { Ticket } from '../../packages/sandbox/src/helpdesk/records.ts';
import type { Business } from './business-in-words.ts';
import {
  errorOf,
  type Known,
  type Period,
  periodsOf,
  type Seen,
  statesOf,
  type Told,
  timeOf,
  toldAt,
} from './history-in-words.ts';

export type Metrics = Record<string, string | number | boolean | null>;

const iso = (ms: number | null | undefined) => (ms === null || ms === undefined ? null : new Date(ms).toISOString());

export function kindOf(message: Told): 'inbound' | 'authored' | 'automatic' | 'note' | 'other' {
  if (message.type === 'note') return 'note';
  if (message.direction === 'in') return 'inbound';
  if (message.direction === 'out') return message.user_id === null ? 'automatic' : 'authored';
  return 'other';
}

export function metricsInWords(
  seen: readonly Seen[],
  said: readonly Told[],
  business: Business | null,
  known: Known,
): Metrics {
  const { ticket } = seen.findLast(one => 'ticket' in one)!;
  return {
    ticket_id: ticket.id,
    state: ticket.state,
    ...fromMessages(ticket, said, business),
    ...fromHistory(ticket, periodsOf(seen, known), business),
  };
}

/** By time; of equal times as the source lists them. Those without a time come last. */
const inOrder = (said: readonly Told[]) =>
  said
    .map((message, place) => ({ ...message, kind: kindOf(message), place, at: toldAt(message) }))
    .sort((a, b) => (a.at === b.at ? 0 : a.at === null ? 1 : b.at === null ? -1 : a.at - b.at) || a.place - b.place);

/** Somebody waits from the first unanswered message on, until a team member replies. */
export interface Wait {
  readonly sinceMs: number | null;
  readonly untilMs: number | null;
  readonly isAnswered: boolean;
  readonly by: string | null;
  readonly messages: number;
  readonly isFirst: boolean;
}

export function waitsOf(said: readonly Told[]): Wait[] {
  const waits: Wait[] = [];
  let since = null as { atMs: number | null; messages: number } | null;
  let replies = 0;
  for (const { kind, at, user_id } of inOrder(said)) {
    if (kind === 'inbound') since = { atMs: since?.atMs ?? at, messages: (since?.messages ?? 0) + 1 };
    if (kind !== 'authored') continue;
    if (since !== null)
      waits.push({
        ...{ sinceMs: since.atMs, untilMs: at, isAnswered: true, by: user_id },
        ...{ messages: since.messages, isFirst: replies === 0 },
      });
    since = null;
    replies++;
  }
  if (since !== null)
    waits.push({
      ...{ sinceMs: since.atMs, untilMs: null, isAnswered: false, by: null },
      ...{ messages: since.messages, isFirst: false },
    });
  return waits;
}

function fromMessages(ticket: Ticket, said: readonly Told[], business: Business | null): Metrics {
  const messages = inOrder(said);
  const talk = messages.filter(({ kind }) => kind === 'inbound' || kind === 'authored');
  const count = (kind: string) => messages.filter(message => message.kind === kind).length;
  const replies = talk.filter(({ kind }) => kind === 'authored');
  const fromCustomer = talk.filter(({ kind }) => kind === 'inbound');
  const outboundInitiated = talk[0]?.kind === 'authored';

  const all = waitsOf(said);
  const waits = all.filter(({ isAnswered }) => isAnswered);
  const waitingSince = all.find(({ isAnswered }) => !isAnswered)?.sinceMs ?? null;
  const first = outboundInitiated ? undefined : waits[0];
  const firstReply = replies[outboundInitiated ? 1 : 0]?.at;
  const created = timeOf(ticket.created_at);
  const inBusiness = (sinceMs: number, untilMs: number) => (business === null ? null : business(sinceMs, untilMs));
  // What has no time at its begin or end lasted nobody knows how long.
  const timed = waits.flatMap(({ sinceMs, untilMs, ...one }) =>
    sinceMs === null || untilMs === null ? [] : [{ ...one, sinceMs, untilMs }],
  );
  const firstTimed = outboundInitiated ? undefined : timed.find(({ isFirst }) => isFirst);
  const lasted = timed.map(({ sinceMs, untilMs }) => (untilMs - sinceMs) / 1000);
  const lastedInBusiness = business === null ? [] : timed.map(({ sinceMs, untilMs }) => business(sinceMs, untilMs));
  const whole = (all: number[]) => (all.length === 0 ? null : all.reduce((sum, one) => sum + one, 0));
  const mean = (all: number[]) => (all.length === 0 ? null : whole(all)! / all.length);
  const most = (all: number[]) => (all.length === 0 ? null : Math.max(...all));
  return {
    message_count: messages.length,
    inbound_count: count('inbound'),
    authored_count: count('authored'),
    automatic_count: count('automatic'),
    note_count: count('note'),
    other_count: count('other'),
    attachment_count: messages.reduce((sum, { attachments }) => sum + attachments.length, 0),
    agents_involved: new Set(
      messages.filter(m => (m.kind === 'authored' || m.kind === 'note') && m.user_id !== null).map(m => m.user_id),
    ).size,
    last_inbound_at: iso(fromCustomer.findLast(({ at }) => at !== null)?.at),
    last_authored_at: iso(replies.findLast(({ at }) => at !== null)?.at),
    is_outbound_initiated: outboundInitiated,
    is_one_touch: replies.length === 1 && !outboundInitiated && talk.at(-1)!.kind === 'authored',
    is_unreplied: fromCustomer.length > 0 && replies.length === 0,
    first_response_seconds: firstTimed ? (firstTimed.untilMs - firstTimed.sinceMs) / 1000 : null,
    first_response_business_seconds: firstTimed ? inBusiness(firstTimed.sinceMs, firstTimed.untilMs) : null,
    first_responder_id: first?.by ?? null,
    first_reply_seconds: firstReply ? (firstReply - created) / 1000 : null,
    first_reply_business_seconds: firstReply ? inBusiness(created, firstReply) : null,
    turns: waits.length,
    waiting_since: iso(waitingSince),
    total_wait_seconds: whole(lasted),
    average_wait_seconds: mean(lasted),
    longest_wait_seconds: most(lasted),
    total_wait_business_seconds: whole(lastedInBusiness),
    average_wait_business_seconds: mean(lastedInBusiness),
    longest_wait_business_seconds: most(lastedInBusiness),
  };
}

const isResolved = ({ state }: Pick<Period, 'state'>) => state === 'closed' || state === 'archived';

/** When it turned from unresolved to resolved, or was first seen resolved. */
export const closingsOf = (states: readonly Period[]): Period[] =>
  states.filter((one, i) => isResolved(one) && (i === 0 || !isResolved(states[i - 1]!)));

function fromHistory(ticket: Ticket, periods: readonly Period[], business: Business | null): Metrics {
  const created = timeOf(ticket.created_at);
  const states = statesOf(periods);
  const closings = closingsOf(states);
  const [firstClosing, lastClosing] = [closings[0], closings.at(-1)];
  const resolvedNow = isResolved(states.at(-1)!);
  const fullClosing = resolvedNow ? lastClosing : undefined;
  const took = (one: Period | undefined) => (one ? (one.from - created) / 1000 : null);
  const tookInBusiness = (one: Period | undefined) => (one && business ? business(created, one.from) : null);
  const error = (one: Period | undefined) => (one ? errorOf(one) : null);
  const sumOf = (all: (number | null)[]) =>
    all.some(one => one === null) ? null : all.reduce<number>((sum, one) => sum + one!, 0);
  const metrics: Metrics = {
    first_closed_at: iso(firstClosing?.from),
    first_closed_error_seconds: error(firstClosing),
    last_closed_at: iso(lastClosing?.from),
    last_closed_error_seconds: error(lastClosing),
    // What was closed when it was first seen had been closed by then: nobody saw it happen.
    first_closing_seen: firstClosing !== undefined && firstClosing !== states[0],
    last_closing_seen: lastClosing !== undefined && lastClosing !== states[0],
    first_resolution_seconds: took(firstClosing),
    first_resolution_error_seconds: error(firstClosing),
    first_resolution_business_seconds: tookInBusiness(firstClosing),
    full_resolution_seconds: took(fullClosing),
    full_resolution_error_seconds: error(fullClosing),
    full_resolution_business_seconds: tookInBusiness(fullClosing),
    reopen_count: states.filter((one, i) => i > 0 && !isResolved(one) && isResolved(states[i - 1]!)).length,
    reopen_error_seconds: sumOf(periods.map(errorOf)),
    assignment_count: periods.filter(({ user }, i) => user !== null && user !== (periods[i - 1]?.user ?? null)).length,
    assignment_error_seconds: sumOf(periods.map(errorOf)),
  };
  for (const state of ['open', 'hold', 'snoozed', 'closed', 'archived']) {
    const ended = states.flatMap((one, i) =>
      one.state === state && one.to !== null ? [{ one, next: states[i + 1] }] : [],
    );
    // It ended with the next state, or with the ticket.
    const endError = (one: Period, next: Period | undefined) =>
      next && next.from === one.to ? errorOf(next) : one.goneAfter === null ? null : (one.to! - one.goneAfter) / 1000;
    metrics[`seconds_${state}`] = ended.reduce((sum, { one }) => sum + (one.to! - one.from) / 1000, 0);
    metrics[`${state}_error_seconds`] = sumOf(ended.flatMap(({ one, next }) => [errorOf(one), endError(one, next)]));
  }
  return metrics;
}
