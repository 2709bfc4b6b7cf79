/** The forecast of records by id: those that wait, those that the lists will bring, and retries. */
import type { Row } from '../../sources/source.ts';
import { dueRejects, readMostRejected } from '../commit/rejects.ts';
import { sourceOf } from '../context.ts';
import type { Queryable } from '../database/pool.ts';
import type { StreamKey } from '../database/stream-key.ts';
import type { Detail, DueNames } from '../details/detail-rows.ts';
import { embedsFor, mentioned, recordsForNames } from '../details/names.ts';
import { freshMs, namesMs, Pending } from '../details/pending.ts';
import { farFuture, type Ms } from '../reading/reading.ts';
import type { Scope } from '../runs/ranges.ts';
import type { Asked, Part } from './plan-time.ts';
import { type Planning, storeMs } from './planning.ts';

/** Largest number of pending records whose names are included in the forecast. */
const mostNamed = 2000;

/** The new records of a list, whose members must be read. */
export interface Brought {
  /** The records that a counting request returned. They show which names must be read. */
  readonly records: readonly Row[];
  /** Number of records whose members must be read. */
  many: number;
  /** Number of these records that changed within the last hour. */
  fresh: number;
}

/** Of a stream of which most is rejected, one record is asked for. */
export async function dueAgain({ ctx, nowMs }: Planning, stream: StreamKey): Promise<string[]> {
  const key = { account: ctx.account, stream };
  const most = await readMostRejected(ctx.pg, key);
  return most === undefined ? dueRejects(ctx.pg, key, new Date(nowMs)) : most.ids.slice(0, 1);
}

/**
 * Forecasts the members: pending records in the scope, and records that the lists will bring. Changes of the last hour
 * are read concurrently in a lane of their own.
 */
export async function partOfDetails(planning: Planning, stream: Detail, brought: Brought, scope: Scope): Promise<Part> {
  const { ctx, nowMs, assumed } = planning;
  const before = nowMs - namesMs;
  const when = {
    ripeMs: farFuture,
    futureMs: nowMs + sourceOf(ctx, stream.source).lookbackMs,
    startedMs: nowMs,
    namesMs: before,
    nowMs,
  };
  const pending = new Pending(ctx.pg, ctx.account, stream);
  const some = await pending.next(when, mostNamed, scope);
  const agedMs = stream.ageMs === undefined ? undefined : nowMs - stream.ageMs;
  const aged = await pending.aged({ ...when, agedMs }, mostNamed);
  const waiting = (await pending.count(when.futureMs, scope)) + aged.length;
  const fresh = await pending.count(when.futureMs, { fromMs: nowMs - freshMs });
  const known = await namesKnown(ctx.pg, ctx.account, stream, before);
  const costOf = (mentions: DueNames = {}): number => {
    const due = Object.entries(mentions).map(
      ([embed, ids]) => [embed, ids.filter(id => !known.has(`${embed} ${id}`))] as const,
    );
    for (const [embed, ids] of due) for (const id of ids) known.add(`${embed} ${id}`);
    return stream.request('', embedsFor(stream, Object.fromEntries(due))).cost;
  };
  const mentionsOf = (record: Row) =>
    Object.fromEntries(stream.names.map(name => [name.embed, mentioned(name, record)]));
  const named = [...some.map(({ due }) => costOf(due)), ...brought.records.map(record => costOf(mentionsOf(record)))];
  const plain = stream.request('', []).cost;
  const rest: Asked[] = [
    ...named.slice(0, waiting + brought.many).map(cost => ({ cost, lane: 'backfill' as const, many: 1 })),
    { cost: plain, lane: 'backfill', many: Math.max(0, waiting + brought.many - named.length) },
  ];
  if (stream.names.length > 0 && brought.many > brought.records.length)
    assumed.add(`one page of ${stream.of.name} mentions every name`);
  const [first, second] = split(rest, Math.min(waiting + brought.many, fresh + brought.fresh));
  const afterwards: Asked[] = (await dueAgain(planning, stream.key)).map(() => ({
    cost: plain,
    lane: 'fresh',
    many: 1,
  }));
  for (const { due } of await recordsForNames(ctx.pg, ctx.account, stream, [], before)) {
    const cost = costOf(due);
    if (cost > plain) afterwards.push({ cost, lane: 'fresh', many: 1 });
  }
  const freshly = first.map(one => ({ ...one, lane: 'fresh' as const }));
  const readers = second.length > 0 ? [freshly, [...second, ...afterwards]] : [[...freshly, ...afterwards]];
  return { stream: stream.key, readers, storeMs: storeMs.record };
}

/** Splits the requests after the first `most` records. */
function split(asked: readonly Asked[], most: number): [Asked[], Asked[]] {
  const [first, second]: [Asked[], Asked[]] = [[], []];
  let left = most;
  for (const one of asked) {
    const many = Math.min(left, one.many);
    if (many > 0) first.push({ ...one, many });
    if (one.many > many) second.push({ ...one, many: one.many - many });
    left -= many;
  }
  return [first, second];
}

/** Names that are known and not due again, as `embed id`. */
async function namesKnown(
  db: Queryable,
  account: string,
  { names }: Pick<Detail, 'names'>,
  sinceMs: Ms,
): Promise<Set<string>> {
  const each = names.map(
    ({ embed, table }) => `select '${embed} ' || id as name from ${table} where account_id = $1 and _observed_at >= $2`,
  );
  if (names.length === 0) return new Set();
  const { rows } = await db.query<{ name: string }>(each.join(' union all '), [account, new Date(sinceMs)]);
  return new Set(rows.map(({ name }) => name));
}
