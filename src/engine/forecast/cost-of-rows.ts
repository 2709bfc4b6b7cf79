/** Estimates the cost of reading every stored row again, or a sample of them, before a sweep or a verification. */

import type { Declared } from '../../sources/source.ts';
import type { Limits } from '../budget/ledger.ts';
import type { Context } from '../context.ts';
import type { StreamKey } from '../database/stream-key.ts';

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

function costOfList(
  { streams }: Pick<Context, 'streams'>,
  stream: Extract<Declared, { kind: 'list' }>,
  rows: number,
  sample: number | null,
): number {
  if (sample !== null) {
    const details = streams.find(one => one.kind === 'detail' && one.of.key === stream.key);
    const each = details?.kind === 'detail' ? details.request('', []) : stream.get?.('');
    return Math.min(rows, sample) * (each?.cost ?? 1);
  }
  const { perPage } = stream.paging;
  const page = stream.request(stream.lists[0].name, { page: 1, perPage });
  return Math.max(stream.lists.length, Math.ceil(rows / perPage)) * page.cost;
}

async function countRows({ pg, account }: Pick<Context, 'pg' | 'account'>, from: string): Promise<number> {
  const { rows } = await pg.query<{ n: number }>(`select count(*) as n from ${from} and account_id = $1`, [account]);
  return rows[0]!.n;
}

/** All credits of the first period are available immediately. */
function secondsOf(credits: number, { credits: most, reserve, periodMs, requestsPerSecond }: Limits): number {
  const allowed = most - reserve;
  return Math.max(credits / requestsPerSecond, (Math.max(0, credits - allowed) / allowed) * (periodMs / 1000));
}
