/**
 * Deletions of a list that is read whole. A live row that the whole list did not show is a deletion candidate. If the
 * source has a read by id, the candidate is fetched by id, and only a 404 counts. Without one, its absence from two readings in a
 * row counts: a list that moves while it is read may pass over a record once.
 */
import type pg from 'pg';
import { Fatal, Gone } from '../../errors.ts';
import type { ListStream, Row } from '../../sources/source.ts';
import { count } from '../../words.ts';
import { commitWork } from '../commit/commit.ts';
import { type Context, sourceOf } from '../context.ts';
import { query, raw, sql } from '../database/sql.ts';
import { nameOfKey } from '../database/stream-key.ts';
import { storableIds } from '../json-text.ts';
import { floorSecond, type Ms } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import { command } from '../runs/pauses.ts';
import { bury } from './bury.ts';
import { fetchRecord, mostAccepted } from './fetch-record.ts';
import { buriedBy } from './lag.ts';
import { noteSwept } from './swept-ranges.ts';

/** The whole list, as one reading showed it. */
export interface WholeList {
  readonly shown: ReadonlySet<string>;
  /** When the reading began, by the clock of the source. */
  readonly asOfMs: Ms;
}

/**
 * Marks what is deleted, and notes as of when deletions are known. Returns what is still unknown, in words. `again` reads the list
 * once more. `accepts`: a person has confirmed a mass deletion.
 */
export async function settleAbsence(
  ctx: Context,
  claim: Claim,
  { stream, list }: { stream: ListStream<Row>; list: string },
  whole: WholeList,
  { again, accepts }: Absence,
): Promise<string | undefined> {
  const { lookbackMs } = sourceOf(ctx, stream.source);
  const fromMs = beginningOf(ctx, stream);
  const { absent, live, isAll } = await candidatesOf(ctx.pg, claim.account, stream, { ...whole, fromMs, lookbackMs });
  if (stream.deletions === 'verify' && absent.length > 0) return undefined;
  if (absent.length > 0 && absent.length > (await mostAccepted(ctx, claim, live, accepts)))
    return `${absent.length} of ${live} ${nameOfKey(stream.key)} seem to have been deleted at the source, and none was marked as deleted; if they were, run ${command(claim.account, `sweep ${nameOfKey(stream.key)} --accept-deletions`)}`;
  const unknown = await markAbsent(ctx, claim, stream, { whole, absent, again });
  if (unknown === undefined) await noteWhole(ctx, claim, stream, list, { ...whole, fromMs: isAll ? 0 : fromMs });
  return unknown;
}

/** The start of what is mirrored of a stream, in ms. */
export const beginningOf = (
  ctx: Pick<Context, 'sources'>,
  stream: Pick<ListStream<Row>, 'source' | 'fromTheBeginning'>,
): Ms => (stream.fromTheBeginning ? 0 : (sourceOf(ctx, stream.source).sinceMs ?? 0));

async function noteWhole(
  ctx: Context,
  claim: Claim,
  stream: ListStream<Row>,
  list: string,
  { fromMs, asOfMs }: WholeList & { readonly fromMs: Ms },
): Promise<void> {
  const { lookbackMs } = sourceOf(ctx, stream.source);
  await commitWork(ctx, claim, asOfMs, async client => {
    await noteSwept(client, claim, list, { from: fromMs, to: floorSecond(asOfMs) }, asOfMs - lookbackMs);
    return undefined;
  });
}

interface Absence {
  readonly again: () => Promise<WholeList | undefined>;
  readonly accepts: boolean;
}

async function markAbsent(
  ctx: Context,
  claim: Claim,
  stream: ListStream<Row>,
  { whole, absent, again }: { whole: WholeList; absent: readonly string[]; again: Absence['again'] },
): Promise<string | undefined> {
  if (absent.length === 0) return undefined;
  if (stream.get === undefined) {
    const second = await again();
    if (second === undefined)
      return `${count(absent.length, 'record')} that the list lacks could not be looked for again`;
    const gone = absent.filter(id => !second.shown.has(id));
    await markDeleted(ctx, claim, stream, gone, { goneMs: whole.asOfMs, beforeMs: second.asOfMs });
    return undefined;
  }
  let unknown = 0;
  for (const id of absent) {
    ctx.signal.throwIfAborted();
    if (!(await confirm(ctx, claim, stream, id))) unknown++;
  }
  return unknown > 0 ? `${count(unknown, 'record')} that the list does not show could not be fetched by id` : undefined;
}

/** Returns whether the record was proven to exist or to be gone. */
async function confirm(ctx: Context, claim: Claim, stream: ListStream<Row>, id: string): Promise<boolean> {
  const answer = await fetchRecord(ctx, claim, stream, id);
  if (answer instanceof Fatal) throw answer;
  if (!(answer instanceof Gone)) return answer === undefined;
  const goneMs = buriedBy(sourceOf(ctx, stream.source), answer.asOf);
  await markDeleted(ctx, claim, stream, [id], { goneMs, beforeMs: answer.asOf });
  return true;
}

/** A list that is read from a time on shows the row. */
const isWithin = ({ merge }: Pick<ListStream<Row>, 'merge'>, fromMs: Ms, earlier = '0 seconds') => {
  const { version } = merge.declared.root;
  return version === undefined || fromMs === 0
    ? raw('true')
    : sql`t.${raw(version)} >= ${new Date(fromMs)}::timestamptz - interval '${raw(earlier)}'`;
};

/** The ids of live rows: the mirror knows no deletion of them. `fromMs`: only rows that changed since then. */
export async function idsOfLive(
  db: pg.Pool,
  account: string,
  stream: Pick<ListStream<Row>, 'merge'>,
  fromMs: Ms,
): Promise<Set<string>> {
  const ids = await query(db).values<string>`
    select t.id from ${raw(stream.merge.declared.root.name)} t
    where t.account_id = ${account} and t._deleted_at is null and ${isWithin(stream, fromMs)}`;
  return new Set(ids);
}

async function candidatesOf(
  db: pg.Pool,
  account: string,
  stream: Pick<ListStream<Row>, 'merge'>,
  { shown, asOfMs, fromMs, lookbackMs }: WholeList & { fromMs: Ms; lookbackMs: number },
): Promise<{ absent: string[]; live: number; isAll: boolean }> {
  const within = isWithin(stream, fromMs);
  // A list may show a record one lookback later than the reply that brought it. Of rows from before its beginning,
  // which a reading sets a second earlier, it says nothing.
  const isAbsent = sql`t.id <> all (${storableIds([...shown])}) and t._observed_at < ${new Date(asOfMs - lookbackMs)}`;
  return query(db).row`
    select coalesce(array_agg(t.id order by t.id) filter (where ${within} and ${isAbsent}), '{}') as absent,
      count(*) filter (where ${within}) as live, coalesce(bool_and(${isWithin(stream, fromMs, '1 second')}), true) as "isAll"
    from ${raw(stream.merge.declared.root.name)} t
    where t.account_id = ${account} and t._deleted_at is null`;
}

async function markDeleted(
  ctx: Context,
  claim: Claim,
  stream: ListStream<Row>,
  ids: readonly string[],
  gone: { goneMs: Ms; beforeMs: Ms },
): Promise<void> {
  const { lookbackMs } = sourceOf(ctx, stream.source);
  await commitWork(ctx, claim, gone.beforeMs, async (client, { nowMs }) => {
    const deleted = await bury(client, claim, stream, ids, { ...gone, nowMs, lookbackMs });
    return { counts: { deleted }, stored: ids };
  });
}
