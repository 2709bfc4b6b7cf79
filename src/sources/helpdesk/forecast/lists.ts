/**
 * Forecasts syncs and backfills of the help desk: the new part of its lists or their gaps, and the messages to read.
 *
 * Numbers that the warehouse does not know are counted at the source. A count may return a page for the same price.
 * That page shows the density of the list, the names that it mentions, and whether it includes spam and trash.
 */

import { readPosition } from '../../../engine/coverage/coverage.ts';
import type { StreamKey } from '../../../engine/database/stream-key.ts';
import { freshMs } from '../../../engine/details/pending.ts';
import { gapsIn } from '../../../engine/forecast/forecast-rows.ts';
import { evenly, type Imagined, merged, requestsOf } from '../../../engine/forecast/imagined-reading.ts';
import { type Brought, dueAgain, partOfDetails } from '../../../engine/forecast/plan-details.ts';
import type { Asked, Part } from '../../../engine/forecast/plan-time.ts';
import { type Planning, type Question, storeMs } from '../../../engine/forecast/planning.ts';
import type { Reply } from '../../../engine/http/request.ts';
import { endsOf, lookOf } from '../../../engine/load/list-ends.ts';
import { type Ask, type Ms, type ReadingOptions, secondMs } from '../../../engine/reading/reading.ts';
import type { Range } from '../../../engine/runs/runs.ts';
import { countLive } from '../../../engine/verify/stored-rows.ts';
import type { ListStream, Row } from '../../source.ts';
import { customers } from '../customers.ts';
import { messages } from '../messages/messages.ts';
import { helpdeskOf } from '../open.ts';
import type { Ticket } from '../records.ts';
import { tickets } from '../tickets.ts';
import { users } from '../users.ts';
import { cameBefore, countAgain, countRead, countReadSince, timesOfOurs } from './rows.ts';

/** Every request of a reading of a list, whose records have these times. */
async function requestsFrom(
  { ctx, nowMs }: Planning,
  listed: Parameters<typeof requestsOf>[1],
  fromMs: Ms,
  of: Pick<ReadingOptions, 'firstLoad' | 'walk' | 'until'>,
  times: Imagined,
): Promise<Asked[]> {
  const { stream, list } = listed;
  // Imagined records take the place of the stored ones.
  const ends = { ...(await endsOf(ctx, { account: ctx.account, stream: stream.key }, stream, list)), known: undefined };
  const options = { ...stream.paging, lookbackMs: helpdeskOf(ctx).lookbackMs, ends, ...of };
  return requestsOf(stream.read(fromMs, options), listed, times, nowMs);
}

const keyOf = ({ ctx }: Planning, stream: StreamKey) => ({ account: ctx.account, stream });

/** Sends a counting request in the interactive lane and notes its credits. */
async function inquire<T extends Row>(
  planning: Planning,
  stream: ListStream<T>,
  { list, ask, what }: { list: string; ask: Ask; what: string },
): Promise<Reply<T>> {
  const { ctx, counted } = planning;
  const request = stream.request(list, ask);
  counted.push({ what, credits: request.cost });
  const reply = await helpdeskOf(ctx).send(request, { lane: 'interactive', signal: ctx.signal });
  if (reply.total !== stream.paging.depth) return reply;
  planning.assumed.add(`the source counts at most ${stream.paging.depth} records; there may be more`);
  return reply;
}

// --- lists -------------------------------------------------------------------------------------------------------------

/** The requests that a run will send. */
export const partsOf = (planning: Planning, question: Question): Promise<Part[]> =>
  question.kind === 'backfill'
    ? partsOfBackfill(planning, question.streams, question.range)
    : partsOfSync(planning, question.streams);

async function partsOfSync(planning: Planning, names: readonly string[]): Promise<Part[]> {
  const parts: Part[] = [];
  let brought: Brought = { records: [], many: 0, fresh: 0 };
  if (names.includes('helpdesk.users')) parts.push(await topOfUsers(planning));
  if (names.includes('helpdesk.customers')) parts.push(await topOfCustomers(planning));
  if (names.includes('helpdesk.tickets')) {
    const read = await topOfTickets(planning);
    brought = read.brought;
    parts.push(read.part);
  }
  if (names.includes('helpdesk.messages')) parts.push(await partOfDetails(planning, messages, brought, {}));
  return parts;
}

const partOf = (stream: StreamKey, asked: readonly Asked[]): Part => ({
  stream,
  readers: [asked],
  storeMs: storeMs.page,
});

async function topOfUsers(planning: Planning): Promise<Part> {
  const { ctx, nowMs, assumed } = planning;
  const ours = await countLive(ctx.pg, ctx.account, 'helpdesk.users');
  assumed.add(ours > 0 ? `the source has as many users as the mirror (${ours})` : 'all users fit on one page');
  const { firstLoad } = await readPosition(ctx.pg, keyOf(planning, 'helpdesk.users'), 'default', true);
  // The documentation names no pages of this list.
  const listed = { stream: users, list: 'default', lane: 'fresh', pages: false } as const;
  return partOf(users.key, await requestsFrom(planning, listed, 0, { firstLoad }, evenly(ours || 1, 0, nowMs)));
}

/**
 * Estimates the records since this time from the week before. Reading them costs one credit unless they exceed a page,
 * whereas counting costs two.
 */
async function came(planning: Planning, stream: Parameters<typeof cameBefore>[2], fromMs: Ms): Promise<number> {
  const { ctx, nowMs } = planning;
  const { perMs } = await cameBefore(ctx.pg, ctx.account, stream, fromMs);
  return Math.round(perMs * Math.max(0, nowMs - fromMs));
}

async function topOfCustomers(planning: Planning): Promise<Part> {
  const { ctx, nowMs, assumed, counts } = planning;
  const { fromMs, firstLoad, walk } = await readPosition(
    ctx.pg,
    keyOf(planning, 'helpdesk.customers'),
    'default',
    true,
  );
  const since = Math.max(0, (walk?.since ?? fromMs) - secondMs);
  let many = await came(planning, customers, fromMs);
  if (firstLoad || walk || many > customers.paging.perPage / 2) {
    if (counts) {
      const ask = { since, page: 1, perPage: 0, count: true };
      many = (await inquire(planning, customers, { list: 'default', ask, what: 'new customers' })).total ?? many;
    } else if (firstLoad) planning.unknown = true;
    else assumed.add(`new customers at the rate of the week before: ${many}`);
  } else assumed.add(`new customers at the rate of the week before: ${many}`);
  const listed = { stream: customers, list: 'default', lane: 'fresh' } as const;
  const times = evenly(many, Math.max(since, 1), nowMs);
  return partOf(customers.key, [
    ...(await requestsFrom(planning, listed, fromMs, { firstLoad, walk }, times)),
    ...(await again(planning, customers)),
  ]);
}

/** Requests that retry due rejects by id. */
async function again(planning: Planning, stream: ListStream<Row>): Promise<Asked[]> {
  if (stream.get === undefined) return [];
  const due = await dueAgain(planning, stream.key);
  return due.map(id => ({ cost: stream.get!(id).cost, lane: 'fresh' as const, many: 1 }));
}

async function topOfTickets(planning: Planning): Promise<{ part: Part; brought: Brought }> {
  const { ctx, nowMs } = planning;
  const brought: Brought = { records: [], many: 0, fresh: 0 };
  const found: Ticket[] = [];
  const asked: Asked[] = [];
  const shown = new Set<string>();
  const look = await lookOf(ctx, keyOf(planning, tickets.key), tickets);
  if (look) for (const one of requestsOfLook(look, nowMs)) asked.push(one);
  for (const [place, { name, shows }] of tickets.lists.entries()) {
    const { fromMs, redundant, firstLoad, walk } = await readPosition(
      ctx.pg,
      keyOf(planning, 'helpdesk.tickets'),
      name,
    );
    if (redundant || shown.has(name)) continue;
    const top = await topOf(planning, name, { fromMs, firstLoad, isFirst: place === 0, shows });
    for (const other of tickets.lists)
      if (place === 0 && top.records.some(r => other.shows?.(r))) shown.add(other.name);
    if (top.isShown) continue;
    const listed = { stream: tickets, list: name, lane: 'fresh' } as const;
    for (const one of await requestsFrom(planning, listed, fromMs, { firstLoad, walk }, top.times)) asked.push(one);
    for (const record of top.records) found.push(record);
    brought.many += top.wanted;
    brought.fresh += Math.min(top.wanted, Array.from(top.times).filter(time => time >= nowMs - freshMs).length);
  }
  return {
    part: partOf(tickets.key, [...asked, ...(await again(planning, tickets))]),
    brought: { ...brought, records: found },
  };
}

/** The look at the newest records, as long as they are asked to be. */
function requestsOfLook({ stream, list }: NonNullable<Awaited<ReturnType<typeof lookOf<Row>>>>, nowMs: Ms): Asked[] {
  const { perPage } = stream.paging;
  const listed = { stream, list, lane: 'fresh' } as const;
  return requestsOf(stream.read(0, { ...stream.paging, lookbackMs: 0 }), listed, evenly(perPage, 0, nowMs), nowMs);
}

interface Top {
  readonly times: Imagined;
  readonly records: readonly Ticket[];
  /** Number of tickets whose messages are not stored. */
  readonly wanted: number;
  /** The default list also shows these tickets, so this list will not be read. */
  readonly isShown?: boolean;
}

/**
 * Forecasts the part of a list after this time. A first load pays for a count and a page. Later a page is usually
 * enough.
 */
async function topOf(
  planning: Planning,
  list: string,
  {
    fromMs,
    firstLoad,
    isFirst,
    shows,
  }: { fromMs: Ms; firstLoad: boolean; isFirst: boolean; shows?: ((record: Ticket) => boolean) | undefined },
): Promise<Top> {
  const { nowMs, counts, assumed } = planning;
  const { perPage } = tickets.paging;
  const since = Math.max(0, fromMs - secondMs);
  if (!counts || (!isFirst && !firstLoad)) {
    if (firstLoad && isFirst) planning.unknown = true;
    const many = isFirst ? await came(planning, tickets, fromMs) : 0;
    assumed.add(
      isFirst ? `changed tickets at the rate of the week before: ${many}` : `no new tickets in the ${list} list`,
    );
    return { times: evenly(many, since, nowMs), records: [], wanted: many };
  }
  const what = `tickets that changed, ${list} list`;
  const first = await inquire(planning, tickets, {
    list,
    ask: { since, page: 1, perPage, ...(firstLoad && { count: true }) },
    what,
  });
  if (!isFirst && first.records[0] && shows?.(first.records[0]) && tickets.among) {
    const ids = [first.records[0].id];
    planning.counted.push({ what: `whether the default list shows ${list}`, credits: 1 });
    const { send } = helpdeskOf(planning.ctx);
    const reply = await send(tickets.among(ids), { lane: 'interactive', signal: planning.ctx.signal });
    if (reply.arrived > 0) return { times: [], records: [], wanted: 0, isShown: true };
  }
  let { total = first.arrived } = first;
  if (first.total === undefined && first.arrived >= perPage)
    total =
      (await inquire(planning, tickets, { list, ask: { since, page: 1, perPage: 0, count: true }, what })).total ??
      total;
  const seen = first.records.map(record => ({ id: record.id, updatedMs: tickets.orderedBy(record) }));
  const { pg, account } = planning.ctx;
  const isAll = total <= seen.length || firstLoad;
  const { read, known } = isAll ? await countRead(pg, account, seen) : await countReadSince(pg, account, since);
  const lastMs = seen.at(-1)?.updatedMs ?? since;
  // A page whose tickets span less than two seconds comes from a bulk change.
  const isBulk = seen.length > 1 && lastMs - seen[0]!.updatedMs < 2 * secondMs;
  const times = merged(
    seen.map(({ updatedMs }) => updatedMs),
    evenly(Math.max(0, total - seen.length), lastMs, isBulk ? lastMs + secondMs : nowMs),
  );
  if (total > seen.length) assumed.add('ticket changes are spread evenly, with at most one page of tickets per second');
  return { times, records: first.records, wanted: Math.max(0, total - read - known) };
}

// --- gaps -------------------------------------------------------------------------------------------------------------

async function partsOfBackfill(planning: Planning, names: readonly string[], range: Range): Promise<Part[]> {
  const parts: Part[] = [];
  let missing = 0;
  for (const stream of [users, customers, tickets] as readonly ListStream<Row>[]) {
    if (!names.includes(stream.key)) continue;
    const read = await gapsOfStream(planning, stream, range);
    parts.push(read.part);
    if (stream.key === tickets.key) missing = read.missing;
  }
  if (!names.includes('helpdesk.messages')) return parts;
  const scope = { fromMs: range.since?.getTime(), toMs: range.until?.getTime() };
  const more = range.again ? await countAgain(planning.ctx.pg, planning.ctx.account, range) : 0;
  const brought = { records: [], many: missing + more, fresh: 0 };
  return [...parts, await partOfDetails(planning, messages, brought, scope)];
}

async function gapsOfStream(
  planning: Planning,
  stream: ListStream<Row>,
  range: Range,
): Promise<{ part: Part; missing: number }> {
  const { ctx, nowMs } = planning;
  const asked: Asked[] = [];
  let missing = 0;
  const when = { fromTheBeginning: stream.fromTheBeginning === true, now: new Date(nowMs) };
  for (const [place, { name: list }] of stream.lists.entries()) {
    const gaps = await gapsIn(ctx.pg, keyOf(planning, stream.key), list, range, when);
    if (gaps.length === 0) continue;
    const lacking = place === 0 ? await lackingIn(planning, stream, list, { gaps, range }) : 0;
    missing += lacking;
    const span = gaps.reduce((sum, { from, to }) => sum + to - from, 0);
    const imagined = gaps.map(({ from, to }) => evenly(Math.round((lacking * (to - from)) / span), from, to));
    const times = merged(await oursOf(planning, stream, list, { gaps, again: range.again }), ...imagined);
    for (const { from, to } of gaps) {
      const listed = { stream, list, lane: 'backfill' } as const;
      for (const one of await requestsFrom(planning, listed, from, { until: to }, times)) asked.push(one);
    }
  }
  return { part: partOf(stream.key, [...asked, ...(await again(planning, stream))]), missing };
}

/**
 * Times of the stored records in the order of the list. The times of customers and users are unknown, so they are
 * spread evenly.
 */
async function oursOf(
  { ctx, nowMs }: Planning,
  { name, key }: ListStream<Row>,
  list: string,
  { gaps, again }: { gaps: readonly { from: Ms; to: Ms }[]; again: boolean },
): Promise<Imagined> {
  const sinceMs = gaps.at(-1)!.from - secondMs;
  if (name === 'tickets') return timesOfOurs(ctx.pg, ctx.account, list, Math.max(0, sinceMs));
  const live = await countLive(ctx.pg, ctx.account, key);
  const times = evenly(live, 0, nowMs);
  // Stored records cannot lie in a gap that was never read.
  return again ? times : times.filter(time => !gaps.some(({ from, to }) => time >= from && time < to));
}

/**
 * Estimates the records in the gaps that are not stored: the source's count from the first gap on, minus stored records
 * and new records.
 */
async function lackingIn(
  planning: Planning,
  stream: ListStream<Row>,
  list: string,
  { gaps, range }: { gaps: readonly { from: Ms; to: Ms }[]; range: Range },
): Promise<number> {
  const { ctx, assumed, counts } = planning;
  if (stream.key === 'helpdesk.users') return 0;
  if (range.again) {
    assumed.add('the synced ranges are complete');
    return 0;
  }
  if (!counts) {
    planning.unknown = true;
    return 0;
  }
  const since = Math.max(0, gaps.at(-1)!.from);
  const ask = { since, page: 1, perPage: 0, count: true };
  const { total = 0 } = await inquire(planning, stream, {
    list,
    ask,
    what: `${stream.name} since ${new Date(since).toISOString()}`,
  });
  const { fromMs } = await readPosition(ctx.pg, keyOf(planning, stream.key), list, stream.fromTheBeginning);
  if (stream.key === 'helpdesk.customers') {
    const ours = await countLive(ctx.pg, ctx.account, 'helpdesk.customers');
    return Math.max(0, total - ours - (await came(planning, customers, fromMs)));
  }
  const ours = await timesOfOurs(ctx.pg, ctx.account, list, since);
  const top = await topOf(planning, list, { fromMs, firstLoad: false, isFirst: true });
  return Math.max(0, total - ours.length - top.wanted);
}
