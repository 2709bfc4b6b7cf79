/** How tickets keep their service targets, in plain code. */
import type { Business } from './business-in-words.ts';
import { timeOf } from './history-in-words.ts';
import { waitsOf } from './metrics-in-words.ts';
import type { Counted, Row } from './star-in-words.ts';

export interface Target {
  readonly account: string;
  readonly inbox: string | null;
  readonly label: string | null;
  readonly metric: 'first_response' | 'resolution';
  readonly seconds: number;
}

/** The most specific one: label and inbox, label, inbox, account; of two labels the shorter one. */
function targetOf({ account, ticket }: Counted, metric: string, targets: readonly Target[]): number | undefined {
  const its = targets.filter(
    one =>
      one.account === account &&
      one.metric === metric &&
      (one.inbox === null || one.inbox === ticket.inbox_id) &&
      (one.label === null || ticket.label_ids.includes(one.label)),
  );
  const rank = ({ label, inbox }: Target) => (label === null ? 0 : 2) + (inbox === null ? 0 : 1);
  return its.toSorted((a, b) => rank(b) - rank(a) || a.seconds - b.seconds)[0]?.seconds;
}

/** When so many seconds have passed. All times of these stories are whole seconds. */
function dueAt(since: number, seconds: number, lasts: Business): number {
  let [low, high] = [0, 60 * 86_400];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (lasts(since, since + middle * 1000) >= seconds) high = middle;
    else low = middle;
  }
  return since + high * 1000;
}

const clock: Business = (since, until) => (until - since) / 1000;

export const targetRows = (
  all: readonly Counted[],
  targets: readonly Target[],
  throughMs: (account: string) => number,
): Row[] =>
  all.flatMap(one =>
    (['first_response', 'resolution'] as const).flatMap(metric => {
      const { account, ticket, metrics, isWhole, business } = one;
      const target = targetOf(one, metric, targets);
      const isResponse = metric === 'first_response';
      // Somebody waits for a response who wrote first.
      if (target === undefined || (isResponse && (metrics.inbound_count === 0 || metrics.is_outbound_initiated)))
        return [];
      const lasts = business ?? clock;
      const begins = isResponse ? waitsOf(one.said)[0]!.sinceMs : timeOf(ticket.created_at);
      const isDone = isResponse
        ? (metrics.authored_count as number) > 0
        : ticket.state === 'closed' || ticket.state === 'archived';
      const until = isDone
        ? isResponse
          ? begins === null || metrics.first_response_seconds === null
            ? null
            : begins + (metrics.first_response_seconds as number) * 1000
          : Date.parse(metrics.last_closed_at as string)
        : Math.max(throughMs(account), timeOf(ticket.updated_at));
      const took = (endMs: number | null) => (begins === null || endMs === null ? null : lasts(begins, endMs));
      const full = took(until);
      const seconds = full === null ? null : isDone ? full : Math.max(0, full);
      const doneError = isDone ? (metrics.full_resolution_error_seconds as number | null) : 0;
      const error = isResponse ? (isWhole ? 0 : null) : doneError;
      const due = begins === null ? null : dueAt(begins, target, lasts);
      // It may have ended earlier, by the error.
      const late =
        error !== null && due !== null && until !== null && until - error * 1000 > due ? 'missed' : 'uncertain';
      const running = seconds !== null && seconds >= 0.75 * target ? 'at_risk' : 'running';
      const outcome = due === null || until === null || until > due ? late : isDone ? 'met' : running;
      return [
        {
          ...{ account_id: account, ticket_id: ticket.id, metric, customer_id: ticket.customer_id },
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
        target_key: `${account_id}/${ticket_id}/${row.metric}`,
        ticket_key: key(ticket_id),
        account_key: account_id!,
      },
      ...{ customer_key: key(customer_id), inbox_key: key(inbox_id), user_key: key(user_id) },
      created_date: dayOf(String(account_id), inbox_id as string | null, String(row.created_at)),
    };
  });
