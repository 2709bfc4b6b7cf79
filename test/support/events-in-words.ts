/** The events of tickets in plain code: what changed from one period of a ticket to the next, and the first response. */
import { dayOf } from './business-in-words.ts';
import { type Period, timeOf } from './history-in-words.ts';
import { waitsOf } from './metrics-in-words.ts';
import type { Counted, Row } from './star-in-words.ts';

interface Happened {
  readonly event: string;
  readonly at: number;
  readonly after: number | null;
  readonly by: number | null;
  readonly user?: string | null;
  readonly from?: string | null;
  readonly doneBy?: string | null;
  readonly wasSeen: boolean;
}

const isResolved = (one: Period) => one.state === 'closed' || one.state === 'archived';
const of = (one: Period, event: string, from: string | null = null): Happened => ({
  ...{ event, at: one.from, after: one.after, by: one.by, user: one.user, from, wasSeen: !one.isFirst },
});

const turnsOf = (periods: readonly Period[]): Happened[] =>
  periods.flatMap((one, i) => {
    const was = periods[i - 1];
    if (isResolved(one) === (was !== undefined && isResolved(was))) return [];
    return [of(one, isResolved(one) ? 'closed' : 'reopened')];
  });

const handsOf = (periods: readonly Period[]): Happened[] =>
  periods.flatMap((one, i) => {
    const from = periods[i - 1]?.user ?? null;
    if (one.user === from) return [];
    return [of(one, from === null ? 'assigned' : one.user === null ? 'unassigned' : 'handed_over', from)];
  });

export const eventRows = (all: readonly (Counted & { readonly periods: readonly Period[] })[]): Row[] =>
  all.flatMap(({ account, ticket, said, isWhole, zone, periods }) => {
    const key = (id: string | null | undefined) => (id ? `${account}/${id}` : null);
    const iso = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString());
    const created = timeOf(ticket.created_at);
    const once = (event: string, at: number, doneBy: string | null = null): Happened => ({
      ...{ event, at, after: at, by: null, doneBy, wasSeen: true },
    });
    const first = waitsOf(said).find(({ isFirst, untilMs }) => isFirst && untilMs !== null);
    const kinds = [
      [once('created', created)],
      // An earlier one may not be here.
      first ? [{ ...once('first_response', first.untilMs!, first.by), ...(isWhole ? {} : { after: null }) }] : [],
      turnsOf(periods),
      handsOf(periods),
    ];
    return kinds.flatMap(happened =>
      happened.map((one, i) => {
        const closed = one.event === 'reopened' ? happened[i - 1]! : undefined;
        return {
          event_key: `${account}/${ticket.id}/${one.event}/${one.at / 1000}`,
          ticket_key: `${account}/${ticket.id}`,
          ...{ account_key: account, customer_key: key(ticket.customer_id), inbox_key: key(ticket.inbox_id) },
          ...{ user_key: key(one.user), from_user_key: key(one.from), done_by_key: key(one.doneBy) },
          ...{ date_key: dayOf(zone, one.at), event: one.event, happened_at: iso(one.at), was_seen: one.wasSeen },
          ...{ change_after: iso(one.after), change_by: iso(one.by) },
          error_seconds: one.after === null ? null : (one.at - one.after) / 1000,
          is_day_certain:
            one.after !== null && dayOf(zone, one.after) === dayOf(zone, Math.max(one.at, one.by ?? one.at)),
          seconds_since_creation: (one.at - created) / 1000,
          closed_at: iso(closed?.at ?? null),
          ...{ ticket_type: ticket.type, ticket_id: ticket.id },
        };
      }),
    );
  });
