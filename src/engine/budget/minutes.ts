/** What replies add to the record of spent credits (`sync.credit_minutes`), summed up by minutes. */
import { lanes, type Settled } from './ledger.ts';

/** Columns to add up, where rows are joined. */
export const sums = [...lanes, ...(['waited_ms', 'refused', 'took_ms', 'requests', 'followed', 'between_ms'] as const)];
const columns = ['credit_limit', 'others', ...sums] as const;
type Minute = Record<'at_ms' | (typeof columns)[number], number>;

/** Adds these minutes, a parameter, to those of the one row of `changed`. */
export const countSql = (changed: string, minutes: string): string => `
  insert into sync.credit_minutes as m (account_id, source, minute, ${columns.join(', ')})
  select account_id, source, to_timestamp(at_ms / 1000), ${columns.join(', ')}
  from ${changed}, json_to_recordset(${minutes}) as booked (at_ms float8, ${columns.map(name => `${name} int8`).join(', ')})
  on conflict (account_id, source, minute) do update set
    credit_limit = excluded.credit_limit,
    others = greatest(m.others, excluded.others),
    ${sums.map(name => `${name} = m.${name} + excluded.${name}`).join(', ')}`;

/** `betweenMs`: how long after the reply before the request was sent, if it followed it. */
export function minutesOf(booked: readonly { settled?: Settled; betweenMs: number | undefined }[]): Minute[] {
  const minutes = new Map<number, Minute>();
  for (const { settled, betweenMs } of booked) {
    if (settled === undefined) continue;
    const { atMs, lane, cost, limit, others, waitedMs, tookMs, refused } = settled;
    const at_ms = atMs - (atMs % 60_000);
    const minute = minutes.get(at_ms) ?? ({ at_ms, ...Object.fromEntries(columns.map(name => [name, 0])) } as Minute);
    minute.credit_limit = Math.ceil(limit);
    minute.others = Math.max(minute.others, Math.ceil(others));
    minute[lane] += Math.ceil(cost);
    minute.waited_ms += Math.ceil(waitedMs);
    minute.took_ms += Math.ceil(tookMs);
    minute.refused += Number(refused);
    minute.requests++;
    minute.followed += Number(betweenMs !== undefined);
    minute.between_ms += Math.round(betweenMs ?? 0);
    minutes.set(at_ms, minute);
  }
  return [...minutes.values()];
}
