/**
 * What a ticket was and when, in plain code: from what was seen of it over time, and from nothing else. It shares nothing with
 * the SQL.
 */
import type { Message, Ticket } from '../../packages/sandbox/src/helpdesk/records.ts';

/** The ticket as a reply showed it that the mirror took. */
export interface Look {
  readonly ticket: Ticket;
  /** The reply holds all that had happened a lookback before this time, and may hold more. */
  readonly observedMs: number;
  /** The reply was written by this time. */
  readonly byMs: number;
}

/** An answer that the ticket is gone: after the one time, and by the other. */
interface Gone {
  readonly goneAfterMs: number;
  readonly goneByMs: number;
}

/** A reading of whole lists as of this time: it would have shown any change of the ticket. */
interface Swept {
  readonly sweptMs: number;
}
/** In the order in which the mirror heard of it, which is not that of a clock that is set back. */
export type Seen = Look | Gone | Swept;

/** What the mirror knows beside the replies. */
export interface Known {
  /** How late the source may show what has happened. */
  readonly lookbackMs: number;
  /** The mirror began then. */
  readonly sinceMs: number;
}

/** One row of the history: values, and since when. */
export interface Period {
  state: string;
  user: string | null;
  inbox: string | null;
  spam: boolean;
  trash: boolean;
  labels: string;
  from: number;
  to: number | null;
  /** The change happened after this time; null: nobody knows. */
  after: number | null;
  /** The change happened by this time, where that is later than `from`. */
  by: number | null;
  /** The period ended with a deletion after this time. */
  goneAfter: number | null;
  isFirst: boolean;
}

export const timeOf = (stamp: string) => Date.parse(stamp);

/** A message that the source may show without its time. */
export type Told = Timeless<Message> & { readonly created_at: string | null };
type Timeless<One> = One extends unknown ? Omit<One, 'created_at'> : never;
export const toldAt = ({ created_at }: Told): number | null => (created_at === null ? null : timeOf(created_at));
const second = 1000;

const valuesOf = ({ state, user_id, inbox_id, label_ids, spam, trash }: Ticket) => ({
  ...{ state, user: user_id, inbox: inbox_id, spam, trash },
  labels: [...new Set(label_ids)].sort().join('+'),
});
type Values = ReturnType<typeof valuesOf>;
export const wordsOf = (values: Pick<Period, keyof Values>) =>
  JSON.stringify([values.state, values.user, values.inbox, values.labels, values.spam, values.trash]);
export const wordsOfTicket = (ticket: Ticket) => wordsOf(valuesOf(ticket));

export function periodsOf(all: readonly Seen[], { lookbackMs, sinceMs }: Known): Period[] {
  const periods: Period[] = [];
  let before: Look | undefined;
  let gone: Gone | undefined;
  let swept: Swept | undefined;
  for (const seen of all) {
    const last = periods.at(-1);
    if ('sweptMs' in seen) {
      swept = seen;
      continue;
    }
    if ('goneByMs' in seen) {
      gone = seen;
      last!.to = Math.max(seen.goneByMs, last!.from + second);
      last!.goneAfter = seen.goneAfterMs;
      continue;
    }
    const { ticket, byMs } = seen;
    const updated = timeOf(ticket.updated_at);
    const created = timeOf(ticket.created_at);
    const [wasSeen, wasGone] = [before, gone];
    [before, gone] = [seen, undefined];
    if (!wasSeen || !last) {
      const from = Math.min(updated, byMs);
      periods.push({
        ...{ ...valuesOf(ticket), from, to: null, goneAfter: null, isFirst: true },
        // It was nothing before it was created. The source tells whole seconds.
        after: created <= from ? created - second : null,
        by: updated >= sinceMs && byMs > from ? byMs : null,
      });
      continue;
    }
    if (!wasGone && wordsOfTicket(wasSeen.ticket) === wordsOfTicket(ticket)) continue;
    const updatedBefore = timeOf(wasSeen.ticket.updated_at);
    // The source dates the change, unless it dates the ticket as before, or before it was gone.
    const isDated = updated !== updatedBefore && (!wasGone || updated > wasGone.goneByMs);
    const from = Math.max(last.from, last.to ?? 0, isDated ? Math.min(updated, byMs) : byMs);
    if (last.to === null && from === last.from) {
      Object.assign(last, valuesOf(ticket), { by: byMs > from ? byMs : null });
      continue;
    }
    const known = wasGone
      ? [wasSeen.observedMs - lookbackMs, wasGone.goneAfterMs]
      : [
          // A version holds all that had happened up to the second before its own, if its date can be right.
          ...(updatedBefore <= Math.min(updated, wasSeen.byMs) ? [updatedBefore - second] : []),
          wasSeen.observedMs - lookbackMs,
          ...(swept ? [swept.sweptMs - lookbackMs] : []),
          ...(last.after === null ? [] : [last.after]),
        ];
    last.to ??= from;
    periods.push({
      ...{ ...valuesOf(ticket), from, to: null, goneAfter: null, isFirst: false },
      after: Math.min(Math.max(...known), from - second),
      by: byMs > from ? byMs : null,
    });
  }
  return periods;
}

/** Periods of one state each: a state lasts over changes of other things, but not over a time in which the ticket was gone. */
export function statesOf(periods: readonly Period[]): Period[] {
  const states: Period[] = [];
  for (const period of periods) {
    const last = states.at(-1);
    if (last && last.state === period.state && last.to === period.from)
      Object.assign(last, { to: period.to, goneAfter: period.goneAfter });
    else states.push({ ...period });
  }
  return states;
}

/** By how much the begin of a period may be too late; null: nobody knows. */
export const errorOf = ({ from, after }: Period) => (after === null ? null : (from - after) / second);

/** What a ticket was at a time. Undefined: it was not there. Null: it was there, and nobody knows what it was. */
export function asOf(
  periods: readonly Period[],
  created: number,
  atMs: number,
): { period: Period | null; certain: boolean } | undefined {
  if (created > atMs) return undefined;
  const i = periods.findIndex(({ from, to }) => from <= atMs && (to === null || atMs < to));
  const period = periods[i];
  if (!period) return periods[0]!.from > atMs ? { period: null, certain: false } : undefined;
  const next = periods[i + 1]?.from === period.to ? periods[i + 1] : undefined;
  const begun = period.by === null || period.by <= atMs;
  const ended = next ? next.after === null || next.after < atMs : period.to !== null && period.goneAfter === null;
  const deleted = period.goneAfter !== null && period.goneAfter < atMs;
  return { period, certain: begun && !ended && !deleted };
}

const isBacklog = ({ state, spam, trash }: Pick<Period, 'state' | 'spam' | 'trash'>) =>
  state !== 'closed' && state !== 'archived' && !spam && !trash;

/** How many tickets are in a group, and by how many that may be wrong. */
export interface Group {
  tickets: number;
  uncertain: number;
}

/** Adds a ticket to the open work at a time, in groups by state, inbox and user; of what nobody knows, in a group of its own. */
export function addToBacklog(
  groups: Map<string, Group>,
  periods: readonly Period[],
  created: number,
  atMs: number,
): void {
  const add = (period: Period | null, what: keyof Group) => {
    if (period && !isBacklog(period)) return;
    const key = JSON.stringify(period ? [period.state, period.inbox, period.user] : [null, null, null]);
    const group = groups.get(key) ?? { tickets: 0, uncertain: 0 };
    groups.set(key, group);
    group[what]++;
  };
  const was = asOf(periods, created, atMs);
  if (was) add(was.period, 'tickets');
  for (const [i, one] of periods.entries()) {
    const through = Math.max(one.from, one.by ?? 0);
    const before = periods[i - 1]?.to === one.from ? periods[i - 1]! : null;
    if (one.isFirst) {
      // It was something else before, and perhaps still until the reply.
      if (one.after !== null && one.after + second <= atMs && atMs < through) add(null, 'uncertain');
      if (one.from <= atMs && atMs < through) add(one, 'uncertain');
    } else if ((one.after ?? 0) < atMs && (before?.from ?? 0) <= atMs && atMs < through) {
      // A change that may have come before that time, or after it: into a group, and out of another one. Earlier than what was
      // before, it is that change which may have come later: the ticket counts once.
      const groupOf = (period: Period) => JSON.stringify([period.state, period.inbox, period.user]);
      const isSame = before && isBacklog(before) && isBacklog(one) && groupOf(before) === groupOf(one);
      if (!isSame) for (const side of [before, one]) if (side) add(side, 'uncertain');
    }
    if (one.goneAfter !== null && one.goneAfter < atMs && one.from <= atMs && atMs < one.to!) add(one, 'uncertain');
  }
}
