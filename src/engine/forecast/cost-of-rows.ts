/** Estimates the cost of reading every stored row again, or a sample of them, before a sweep or a verification. */

import type { Declared, ListStream, Row } from '../../sources/source.ts';
import type { Limits } from '../budget/ledger.ts';
import type { Context } from '../context.ts';
import { readPages } from '../coverage/pages.ts';
import { query, raw, sql } from '../database/sql.ts';
import type { StreamKey } from '../database/stream-key.ts';
import { detailsBeside } from '../details/detail-rows.ts';
import { isWholeEachTime } from '../reading/fewer.ts';

export interface Cost {
  readonly credits: number;
  readonly seconds: number;
}

/** `sample`: the number of records of each stream; null: all, by the pages of their lists. */
export async function costOfRows(
  ctx: Pick<Context, 'pg' | 'account' | 'sources' | 'streams'>,
  keys: readonly StreamKey[],
  sample: number | null = null,
): Promise<Cost> {
  let [credits, seconds] = [0, 0];
  for (const { name, limits } of ctx.sources.values()) {
    const streams = ctx.streams.filter(({ key, source }) => source === name && keys.includes(key));
    let its = 0;
    for (const stream of streams) its += await costOf(ctx, stream, sample);
    credits += its;
    // Sources are read at the same time.
    seconds = Math.max(seconds, secondsOf(its, limits));
  }
  return { credits, seconds };
}

async function costOf(ctx: Parameters<typeof costOfRows>[0], stream: Declared, sample: number | null): Promise<number> {
  const rowsOf = (one: Pick<Declared, 'merge'>) =>
    countRows(ctx, `${one.merge.declared.root.name} where _deleted_at is null`);
  const some = (rows: number) => Math.min(rows, sample ?? rows);
  if (stream.kind === 'detail') return some(await rowsOf(stream.of)) * stream.request('', []).cost;
  if (stream.kind === 'by id') return some(await rowsOf(stream)) * stream.request('').cost;
  if (stream.kind === 'list') return costOfList(ctx, stream, await rowsOf(stream), sample);
  // A shelf is asked for, and then its pages.
  const shelves = await rowsOf(stream);
  const members = await countRows(ctx, `${stream.members.places.declared.root.name} where _removed_at is null`);
  const pages = shelves + Math.floor(members / stream.perPage);
  return some(shelves) + Math.round((pages * some(shelves)) / Math.max(1, shelves));
}

async function costOfList(
  ctx: Parameters<typeof costOfRows>[0],
  stream: ListStream<Row>,
  rows: number,
  sample: number | null,
): Promise<number> {
  if (sample !== null) {
    const each = detailsBeside(ctx.streams, stream.key)?.request('', []) ?? stream.get?.('');
    return Math.min(rows, sample) * (each?.cost ?? 1);
  }
  const perPage = await shownPerPage(ctx, stream);
  const page = stream.request(stream.lists[0].name, { page: 1, perPage });
  return Math.max(stream.lists.length, Math.ceil(rows / perPage)) * page.cost;
}

/**
 * Records that a page of the list shows: as readings have learned, else as the last reading of several pages of a list that is read
 * whole had them, else as many as are asked for.
 */
export async function shownPerPage(
  { pg, account }: Pick<Context, 'pg' | 'account'>,
  { key, lists, paging, read }: ListStream<Row>,
): Promise<number> {
  const { size } = await readPages(pg, { account, stream: key }, lists[0].name);
  if (size !== undefined || !isWholeEachTime(read)) return Math.min(paging.perPage, size ?? paging.perPage);
  const { rows } = await pg.query<{ size: number }>(sql`
    select ceil(s.seen / s.credits)::int as size from sync.stored_run_streams s
    where s.account_id = ${account} and s.stream_key = ${key} and s.state = 'completed' and s.credits > 1 and s.seen > 0
    order by s.run_id desc limit 1`);
  return rows[0]?.size ?? paging.perPage;
}

const countRows = ({ pg, account }: Pick<Context, 'pg' | 'account'>, from: string): Promise<number> =>
  query(pg).value`
    select count(*) as n from ${raw(from)} and account_id = ${account}`;

/** All credits of the first period are available immediately. */
function secondsOf(credits: number, { credits: most, reserve, periodMs, requestsPerSecond }: Limits): number {
  const allowed = most - reserve;
  return Math.max(credits / requestsPerSecond, (Math.max(0, credits - allowed) / allowed) * (periodMs / 1000));
}
