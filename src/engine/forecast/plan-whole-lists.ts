/**
 * The forecast of lists without times that a plan could imagine: one that is read whole takes as many pages as the rows of the mirror
 * fill, and one that is read behind its last change, or event, takes one.
 */
import type { ListStream, Row } from '../../sources/source.ts';
import { sourceOf } from '../context.ts';
import { query, raw } from '../database/sql.ts';
import { isWholeEachTime } from '../reading/fewer.ts';
import { shownPerPage } from './cost-of-rows.ts';
import type { Asked, Part } from './plan-time.ts';
import { type Planning, type Question, storeMs } from './planning.ts';

/**
 * The requests of a run of these streams. A list that was never read has an unknown length, which the forecast says.
 */
export async function partsOfWholeLists(
  planning: Planning,
  kind: Question['kind'],
  streams: readonly ListStream<Row>[],
): Promise<Part[]> {
  const parts: Part[] = [];
  for (const stream of streams) {
    const [first] = stream.lists;
    const { cost } = stream.request(first.name, { page: 1, perPage: stream.paging.perPage });
    const rows = await countRows(planning, stream);
    const many = await requestsFor(planning, stream, rows);
    const lane = kind === 'sync' ? 'fresh' : 'backfill';
    const asked: Asked = { cost, lane, many };
    parts.push({ stream: stream.key, readers: [[asked]], storeMs: storeMs.page });
  }
  return parts;
}

async function requestsFor(planning: Planning, stream: ListStream<Row>, { live, isRead }: Rows): Promise<number> {
  if (!isRead) {
    const counted = planning.counts ? await totalOf(planning, stream) : undefined;
    if (counted !== undefined) return pagesOf(stream, counted);
    planning.unknown = true;
    planning.assumed.add(`${stream.key} was never read, and its source does not count it: one page`);
    return 1;
  }
  if (!isWholeEachTime(stream.read)) {
    planning.assumed.add(`${stream.key} is read from its last change on: one page`);
    return 1;
  }
  planning.assumed.add(`${stream.key} is read whole, and is as long as its ${live} rows here`);
  return pagesOf(stream, live, await shownPerPage(planning.ctx, stream));
}

const pagesOf = ({ paging, lists }: ListStream<Row>, rows: number, size = paging.perPage) =>
  lists.length * Math.max(1, Math.ceil(rows / size));

interface Rows {
  readonly live: number;
  readonly isRead: boolean;
}

/** The number of records, if the first page shows it or is the only one. */
async function totalOf(planning: Planning, stream: ListStream<Row>): Promise<number | undefined> {
  const { ctx, counted } = planning;
  const request = stream.request(stream.lists[0].name, { page: 1, perPage: stream.paging.perPage });
  counted.push({ what: `the first page of ${stream.key}`, credits: request.cost });
  const { send } = sourceOf(ctx, stream.source);
  const reply = await send(request, { lane: 'interactive', signal: ctx.signal });
  return reply.total ?? (reply.next === undefined && request.next !== undefined ? reply.arrived : undefined);
}

const countRows = ({ ctx }: Planning, stream: ListStream<Row>): Promise<Rows> =>
  query(ctx.pg).row`
    select (select count(*) from ${raw(stream.merge.declared.root.name)} t
      where t.account_id = ${ctx.account} and t._deleted_at is null) as live,
    exists (select from sync.coverage c
      where c.account_id = ${ctx.account} and c.stream_key = ${stream.key} and not isempty(c.covered)) as "isRead"`;
