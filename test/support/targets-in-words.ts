/** How tickets keep their service targets, in plain code. */
import type { Business } from './business-in-words.ts';
import { type Period, timeOf } from './history-in-words.ts';
import { waitsOf } from './metrics-in-words.ts';
import type { Counted, Row } from './star-in-words.ts';

export interface Target {
  readonly account: string;
  readonly inbox: string | null;
  readonly label: string | null;
  readonly metric: (typeof metrics)[number];
  readonly seconds: number;
  /** It holds for what begins at or after the one time, and before the other. Null: without a bound. */
  readonly from: number | null;
  readonly to: number | null;
}

const metrics = ['first_response', 'next_reply', 'resolution', 'resolution_without_hold'] as const;

/** The most specific one of those in force then: label and inbox, label, inbox, account; of two labels the shorter one. */
function targetOf(
  { account, ticket }: Counted,
  metric: string,
  targets: readonly Target[],
  atMs: number | null,
): number | undefined {
  const its = targets.filter(
    one =>
      one.account === account &&
      one.metric === metric &&
      (atMs === null
        ? one.to === null
        : (one.from === null || atMs >= one.from) && (one.to === null || atMs < one.to)) &&
      (one.inbox === null || one.inbox === ticket.inbox_id) &&
      (one.label === null || ticket.label_ids.includes(one.label)),
  );
  const rank = ({ label, inbox }: Target) => (label === null ? 0 : 2) + (inbox === null ? 0 : 1);
  return its.toSorted((a, b) => rank(b) - rank(a) || a.seconds - b.seconds)[0]?.seconds;
}

/** When so many seconds have passed, to the millisecond. */
function dueAt(since: number, seconds: number, lasts: Business): number {
  let [low, high] = [0, 60 * 86_400_000];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (lasts(since, since + middle) > seconds - 0.0005) high = middle;
    else low = middle;
  }
  return since + high;
}

const clock: Business = (since, until) => (until - since) / 1000;

/** What may have a target: from when on, whether it is over, and until when it lasted. */
interface Span {
  readonly metric: Target['metric'];
  readonly turn: number;
  readonly begins: number | null;
  readonly isDone: boolean;
  readonly until: number | null;
}

function spansOf({ ticket, metrics, said }: Counted): Span[] {
  const closed = metrics.last_closed_at as string | null;
  const resolution = {
    ...{ turn: 0, begins: timeOf(ticket.created_at), isDone: ticket.state === 'closed' || ticket.state === 'archived' },
    until: closed === null ? null : Date.parse(closed),
  };
  return [
    // Somebody waits for a first response who wrote first; who writes again waits for the next one.
    ...waitsOf(said).map(({ sinceMs, untilMs, isAnswered }, i) => ({
      ...{ metric: i === 0 && !metrics.is_outbound_initiated ? ('first_response' as const) : ('next_reply' as const) },
      ...{ turn: i + 1, begins: sinceMs, isDone: isAnswered, until: untilMs },
    })),
    { metric: 'resolution', ...resolution },
    { metric: 'resolution_without_hold', ...resolution },
  ];
}

export const targetRows = (
  all: readonly (Counted & { readonly periods: readonly Period[] })[],
  targets: readonly Target[],
  throughMs: (account: string) => number,
): Row[] =>
  all.flatMap(one =>
    spansOf(one).flatMap(({ metric, turn, begins, isDone, until: ended }) => {
      const { account, ticket, metrics, isWhole, business, periods } = one;
      const target = targetOf(one, metric, targets, begins);
      if (target === undefined) return [];
      const lasts = business ?? clock;
      const until = isDone ? ended : Math.max(throughMs(account), timeOf(ticket.updated_at));
      const took = (endMs: number | null) => (begins === null || endMs === null ? null : lasts(begins, endMs));
      const full = took(until);
      const held =
        metric === 'resolution_without_hold'
          ? periods
              .filter(({ state }) => state === 'hold')
              .map(({ from, to }) => [Math.max(from, begins!), Math.min(to ?? Infinity, until!)] as const)
              .reduce((sum, [from, to]) => sum + (from < to ? lasts(from, to) : 0), 0)
          : 0;
      const whole = full === null ? null : isDone ? full : Math.max(0, full);
      const seconds = whole === null ? null : whole - held;
      const doneError = isDone ? (metrics.full_resolution_error_seconds as number | null) : 0;
      const unseen = metrics.reopen_error_seconds as number | null;
      const isReply = turn > 0;
      const error = isReply ? (isWhole ? 0 : null) : metric === 'resolution_without_hold' ? unseen : doneError;
      const due = begins === null ? null : dueAt(begins, target + held, lasts);
      // It may have ended earlier, by the error; of time on hold nobody knows better than to a second of the clock.
      const isLate = () =>
        metric === 'resolution_without_hold' && unseen !== 0
          ? seconds! - error! > target
          : until! - error! * 1000 > due!;
      const late = error !== null && due !== null && until !== null && isLate() ? 'missed' : 'uncertain';
      const running = seconds !== null && seconds >= 0.75 * target ? 'at_risk' : 'running';
      const isInTime = due !== null && until !== null && until <= due;
      // Less time on hold would be more time without.
      const isSure = held === 0 || seconds! + Math.min(unseen ?? Infinity, held) <= target;
      const outcome = !isInTime || !isSure ? late : isDone ? 'met' : running;
      return [
        {
          ...{ account_id: account, ticket_id: ticket.id, metric, turn, customer_id: ticket.customer_id },
          ...{ inbox_id: ticket.inbox_id, user_id: ticket.user_id, created_at: iso(timeOf(ticket.created_at)) },
          ...{
            messages_complete: isWhole,
            target_seconds: target,
            in_business_time: business !== null,
            is_done: isDone,
          },
          ...{
            begins_at: iso(begins),
            due_at: iso(due),
            seconds,
            error_seconds: error,
            outcome,
            // A resolution whose end nobody saw counts for nobody.
            is_counted: isReply ? isWhole : !isDone || metrics.last_closing_seen === true,
          },
        },
      ];
    }),
  );

const iso = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString());

/** The same in the star. */
export const targetFacts = (
  rows: readonly Row[],
  dayOf: (account: string, inbox: string | null, at: string) => string,
): Row[] =>
  rows.map(({ account_id, ticket_id, customer_id, inbox_id, user_id, ...row }) => {
    const key = (id: Row[string] | undefined) => (id === null ? null : `${account_id}/${id}`);
    return {
      ...row,
      ...{
        target_key: `${account_id}/${ticket_id}/${row.metric}${row.metric === 'next_reply' ? `/${row.turn}` : ''}`,
        ticket_key: key(ticket_id),
        account_key: account_id!,
      },
      ...{ customer_key: key(customer_id), inbox_key: key(inbox_id), user_key: key(user_id) },
      created_date: dayOf(String(account_id), inbox_id as string | null, String(row.created_at)),
      begins_date:
        row.begins_at === null ? null : dayOf(String(account_id), inbox_id as string | null, String(row.begins_at)),
    };
  });
