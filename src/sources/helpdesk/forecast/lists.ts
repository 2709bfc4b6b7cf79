/**
 * What reading the help desk will take: the top of its lists or their gaps, and the messages that wait or come with them.
 * What is there is counted at the source where it is not known here; a count may bring a page along for the same price, and
 * that tells how dense the list is, what names it mentions, and whether it shows spam and trash.
 */

import { dueRejects } from '../../../engine/commit/rejects.ts';
import { readPosition } from '../../../engine/coverage/coverage.ts';
import type { StreamKey } from '../../../engine/database/stream-key.ts';
import { gapsIn } from '../../../engine/forecast/forecast-rows.ts';
import { evenly, type Imagined, merged, requestsOf, totalOf } from '../../../engine/forecast/imagined-reading.ts';
import type * as engine from '../../../engine/forecast/plan.ts';
import type { Asked, Part } from '../../../engine/forecast/plan-time.ts';
import type { Reply } from '../../../engine/http/request.ts';
import { type Ask, farFuture, type Ms, secondMs } from '../../../engine/reading/reading.ts';
import type { Scope } from '../../../engine/runs/ranges.ts';
import type { Range } from '../../../engine/runs/runs.ts';
import type { DetailStream, ListStream, Row } from '../../source.ts';
import { countWaiting, nextWaiting, ticketsForNames } from '../messages/waiting.ts';
import { helpdeskOf } from '../open.ts';
import { countLive } from '../verify/stored.ts';
import { cameBefore, countAgain, countRead, countReadSince, namesKnown, timesOfOurs } from './rows.ts';

export interface Desk {
  readonly users: ListStream<Row>;
  readonly customers: ListStream<Row>;
  readonly tickets: ListStream<Row>;
  readonly messages: DetailStream<Row, Row>;
}

export type Planning = engine.Planning & { readonly desk: Desk };

/** Of a page of a list, and of a ticket with its messages: to store it, and look for what comes next. */
export const storeMs = { page: 20, record: 8 };
/** A change of the last hour is fresh, and names are looked at once a week: as hydrate.ts has it. */
const freshMs = 3_600_000;
const namesMs = 7 * 24 * 3_600_000;
/** So many tickets that wait are looked at for the names that will come with them. */
const mostNamed = 2000;

const keyOf = ({ ctx }: Planning, stream: StreamKey) => ({ account: ctx.account, stream });

/** Asks the source, in the lane of somebody who waits. */
export async function inquire<T extends Row>(
  planning: Planning,
  stream: ListStream<T>,
  { list, ask, what }: { list: string; ask: Ask; what: string },
): Promise<Reply<T>> {
  const { ctx, counted } = planning;
  const request = stream.request(list, ask);
  counted.push({ what, credits: request.cost });
  const reply = await helpdeskOf(ctx).send(request, { lane: 'interactive', signal: ctx.signal });
  planning.latencyMs = Math.min(planning.latencyMs ?? Number.POSITIVE_INFINITY, helpdeskOf(ctx).send.latencyMs());
  if (reply.total !== stream.paging.depth) return reply;
  planning.assumed.add(`the source counts no further than ${stream.paging.depth}: there may be more`);
  return reply;
}

export async function inquireTotal(planning: Planning, stream: ListStream<Row>, list: string, since?: Ms) {
  planning.counted.push({ what: `all of ${stream.name}, ${list} list`, credits: 2 });
  return totalOf(planning.ctx, 'interactive', stream, list, since);
}

// --- lists -------------------------------------------------------------------------------------------------------------

/** What a list brings that is not here yet: tickets whose messages will have to be read. */
export interface Brought {
  /** As far as they are known: the newest come first where names are looked for. */
  readonly records: readonly Row[];
  /** So many whose messages will be read. */
  many: number;
  /** So many of them changed within the last hour. */
  fresh: number;
}

export async function partsOfSync(planning: Planning, names: readonly string[]): Promise<Part[]> {
  const parts: Part[] = [];
  let brought: Brought = { records: [], many: 0, fresh: 0 };
  if (names.includes('helpdesk.users')) parts.push(await topOfUsers(planning));
  if (names.includes('helpdesk.customers')) parts.push(await topOfCustomers(planning));
  if (names.includes('helpdesk.tickets')) {
    const read = await topOfTickets(planning);
    brought = read.brought;
    parts.push(read.part);
  }
  if (names.includes('helpdesk.messages')) parts.push(await partOfMessages(planning, brought, {}));
  return parts;
}

export const partOf = (stream: string, asked: readonly Asked[], pauseMs = 0): Part => ({
  stream,
  readers: [asked],
  storeMs: storeMs.page,
  pauseMs,
});

async function topOfUsers(planning: Planning): Promise<Part> {
  const { ctx, nowMs, desk, assumed } = planning;
  const ours = await countLive(ctx.pg, ctx.account, 'users');
  assumed.add(ours > 0 ? `as many users as are here (${ours})` : 'a page holds all users');
  const { users } = desk;
  const options = { ...users.paging, lookbackMs: helpdeskOf(ctx).lookbackMs };
  const listed = { stream: users, list: 'default', lane: 'fresh' } as const;
  return partOf('users', requestsOf(users.read(0, options), listed, evenly(ours || 1, 0, nowMs), nowMs));
}

/** What came since can be read for a credit, unless it is more than a page: counting it would cost two. */
async function came(planning: Planning, stream: StreamKey, fromMs: Ms): Promise<number> {
  const { ctx, nowMs } = planning;
  const { perMs } = await cameBefore(ctx.pg, keyOf(planning, stream), fromMs);
  return Math.round(perMs * Math.max(0, nowMs - fromMs));
}

async function topOfCustomers(planning: Planning): Promise<Part> {
  const { ctx, nowMs, desk, assumed, counts } = planning;
  const { customers } = desk;
  const { fromMs, firstLoad, walk } = await readPosition(
    ctx.pg,
    keyOf(planning, 'helpdesk.customers'),
    'default',
    true,
  );
  const since = Math.max(0, (walk?.since ?? fromMs) - secondMs);
  let many = await came(planning, 'helpdesk.customers', fromMs);
  if (firstLoad || walk || many > customers.paging.perPage / 2) {
    if (counts) {
      const ask = { since, page: 1, perPage: 0, count: true };
      many =
        (await inquire(planning, customers, { list: 'default', ask, what: 'customers that are new' })).total ?? many;
    } else if (firstLoad) planning.unknown = true;
    else assumed.add(`customers come as they came in the week before: ${many}`);
  } else assumed.add(`customers come as they came in the week before: ${many}`);
  const options = { ...customers.paging, lookbackMs: helpdeskOf(ctx).lookbackMs, firstLoad, walk };
  const listed = { stream: customers, list: 'default', lane: 'fresh' } as const;
  const times = evenly(many, Math.max(since, 1), nowMs);
  return partOf('customers', [
    ...requestsOf(customers.read(fromMs, options), listed, times, nowMs),
    ...(await again(planning, customers)),
  ]);
}

/** Rejects that are due are asked for by id. */
async function again(planning: Planning, stream: ListStream<Row>): Promise<Asked[]> {
  if (stream.get === undefined) return [];
  const due = await dueRejects(planning.ctx.pg, keyOf(planning, stream.key), new Date(planning.nowMs));
  return due.map(id => ({ cost: stream.get!(id).cost, lane: 'fresh' as const, many: 1 }));
}

async function topOfTickets(planning: Planning): Promise<{ part: Part; brought: Brought }> {
  const { ctx, nowMs, desk } = planning;
  const { tickets } = desk;
  const brought: Brought = { records: [], many: 0, fresh: 0 };
  const found: Row[] = [];
  const asked: Asked[] = [];
  const shown = new Set<string>();
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
    const options = { ...tickets.paging, lookbackMs: helpdeskOf(ctx).lookbackMs, walk };
    const listed = { stream: tickets, list: name, lane: 'fresh' } as const;
    asked.push(...requestsOf(tickets.read(fromMs, options), listed, top.times, nowMs));
    found.push(...top.records);
    brought.many += top.wanted;
    brought.fresh += Math.min(top.wanted, Array.from(top.times).filter(time => time >= nowMs - freshMs).length);
  }
  return {
    part: partOf('tickets', [...asked, ...(await again(planning, tickets))]),
    brought: { ...brought, records: found },
  };
}

interface Top {
  readonly times: Imagined;
  readonly records: readonly Row[];
  /** So many whose messages are not here. */
  readonly wanted: number;
  /** The default list shows these as well, so that this one is not read. */
  readonly isShown?: boolean;
}

/** What a list shows from here on. A first load pays for a count and a page; later a page tells all, mostly. */
async function topOf(
  planning: Planning,
  list: string,
  {
    fromMs,
    firstLoad,
    isFirst,
    shows,
  }: { fromMs: Ms; firstLoad: boolean; isFirst: boolean; shows?: ((record: Row) => boolean) | undefined },
): Promise<Top> {
  const { nowMs, counts, assumed, desk } = planning;
  const { tickets } = desk;
  const { perPage } = tickets.paging;
  const since = Math.max(0, fromMs - secondMs);
  if (!counts || (!isFirst && !firstLoad)) {
    if (firstLoad && isFirst) planning.unknown = true;
    const many = isFirst ? await came(planning, 'helpdesk.tickets', fromMs) : 0;
    assumed.add(isFirst ? `tickets change as they did in the week before: ${many}` : `nothing new in the ${list} list`);
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
  // A page within two seconds is of something that was done to many at once.
  const isCrowd = seen.length > 1 && lastMs - seen[0]!.updatedMs < 2 * secondMs;
  const times = merged(
    seen.map(({ updatedMs }) => updatedMs),
    evenly(Math.max(0, total - seen.length), lastMs, isCrowd ? lastMs + secondMs : nowMs),
  );
  if (total > seen.length)
    assumed.add('tickets changed at even distances, and no more than a page of them in one second');
  return { times, records: first.records, wanted: Math.max(0, total - read - known) };
}

// --- gaps -------------------------------------------------------------------------------------------------------------

export async function partsOfBackfill(planning: Planning, names: readonly string[], range: Range): Promise<Part[]> {
  const parts: Part[] = [];
  let missing = 0;
  for (const name of ['users', 'customers', 'tickets'] as const) {
    if (!names.includes(planning.desk[name].key)) continue;
    const read = await gapsOfStream(planning, planning.desk[name], range);
    parts.push(read.part);
    if (name === 'tickets') missing = read.missing;
  }
  if (!names.includes('helpdesk.messages')) return parts;
  const scope = { fromMs: range.since?.getTime(), toMs: range.until?.getTime() };
  const more = range.again ? await countAgain(planning.ctx.pg, planning.ctx.account, range) : 0;
  const brought = { records: [], many: missing + more, fresh: 0 };
  return [...parts, await partOfMessages(planning, brought, scope)];
}

async function gapsOfStream(
  planning: Planning,
  stream: ListStream<Row>,
  range: Range,
): Promise<{ part: Part; missing: number }> {
  const { ctx, nowMs } = planning;
  const { lookbackMs } = helpdeskOf(ctx);
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
      const reading = stream.read(from, { ...stream.paging, lookbackMs, until: to });
      asked.push(...requestsOf(reading, { stream, list, lane: 'backfill' }, times, nowMs));
    }
  }
  return { part: partOf(stream.name, [...asked, ...(await again(planning, stream))]), missing };
}

/** Ours, in the order of the list; of customers and users the times are not known. */
async function oursOf(
  { ctx, nowMs }: Planning,
  { name }: ListStream<Row>,
  list: string,
  { gaps, again }: { gaps: readonly { from: Ms; to: Ms }[]; again: boolean },
): Promise<Imagined> {
  const sinceMs = gaps.at(-1)!.from - secondMs;
  if (name === 'tickets')
    return timesOfOurs(ctx.pg, ctx.account, list, { by: 'updated_at', sinceMs: Math.max(0, sinceMs) });
  const live = await countLive(ctx.pg, ctx.account, name as 'customers' | 'users');
  const times = evenly(live, 0, nowMs);
  // They are not where nothing has been read.
  return again ? times : times.filter(time => !gaps.some(({ from, to }) => time >= from && time < to));
}

/** How many the source has in the gaps: all that it counts from there on, less what is here, and what is new. */
async function lackingIn(
  planning: Planning,
  stream: ListStream<Row>,
  list: string,
  { gaps, range }: { gaps: readonly { from: Ms; to: Ms }[]; range: Range },
): Promise<number> {
  const { ctx, assumed, counts } = planning;
  if (stream.key === 'helpdesk.users') return 0;
  if (range.again) {
    assumed.add('nothing lacks in what has been read');
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
    const ours = await countLive(ctx.pg, ctx.account, 'customers');
    return Math.max(0, total - ours - (await came(planning, 'helpdesk.customers', fromMs)));
  }
  const ours = await timesOfOurs(ctx.pg, ctx.account, list, { by: 'updated_at', sinceMs: since });
  const top = await topOf(planning, list, { fromMs, firstLoad: false, isFirst: true });
  return Math.max(0, total - ours.length - top.wanted);
}

// --- messages ----------------------------------------------------------------------------------------------------------

/** What waits in the scope, and what the lists bring. Changes of the last hour in a lane of their own, beside the rest. */
async function partOfMessages(planning: Planning, brought: Brought, scope: Scope): Promise<Part> {
  const { ctx, nowMs, desk, assumed } = planning;
  const { messages } = desk;
  const key = keyOf(planning, 'helpdesk.messages');
  const before = nowMs - namesMs;
  const when = { ripeMs: farFuture, futureMs: nowMs + helpdeskOf(ctx).lookbackMs, startedMs: nowMs, namesMs: before };
  const some = await nextWaiting(ctx.pg, key, when, mostNamed, scope);
  const waiting = await countWaiting(ctx.pg, ctx.account, when.futureMs, scope);
  const fresh = await countWaiting(ctx.pg, ctx.account, when.futureMs, { fromMs: nowMs - freshMs });
  const known = await namesKnown(ctx.pg, ctx.account, before);
  const costOf = (mentions: Record<'labels' | 'inbox', readonly string[]>): number => {
    const due = (['labels', 'inbox'] as const).filter(embed => mentions[embed].some(id => !known[embed].has(id)));
    for (const embed of due) for (const id of mentions[embed]) known[embed].add(id);
    return messages.request('', due).cost;
  };
  const mentionsOf = (record: Row) => {
    const of = (embed: string) => messages.names.find(name => name.embed === embed)?.mentioned(record) ?? [];
    return { labels: of('labels'), inbox: of('inbox') };
  };
  const named = [...some.map(({ due }) => costOf(due)), ...brought.records.map(record => costOf(mentionsOf(record)))];
  const plain = messages.request('', []).cost;
  const rest: Asked[] = [
    ...named.slice(0, waiting + brought.many).map(cost => ({ cost, lane: 'backfill' as const, many: 1 })),
    { cost: plain, lane: 'backfill', many: Math.max(0, waiting + brought.many - named.length) },
  ];
  if (brought.many > brought.records.length)
    assumed.add('a page of tickets mentions all labels and inboxes that there are');
  const [first, second] = split(rest, Math.min(waiting + brought.many, fresh + brought.fresh));
  const afterwards: Asked[] = (await dueRejects(ctx.pg, key, new Date(nowMs))).map(() => ({
    cost: plain,
    lane: 'fresh',
    many: 1,
  }));
  for (const { due } of await ticketsForNames(ctx.pg, ctx.account, [], before)) {
    const cost = costOf(due);
    if (cost > plain) afterwards.push({ cost, lane: 'fresh', many: 1 });
  }
  const freshly = first.map(one => ({ ...one, lane: 'fresh' as const }));
  const readers = second.length > 0 ? [freshly, [...second, ...afterwards]] : [[...freshly, ...afterwards]];
  return { stream: 'messages', readers, storeMs: storeMs.record };
}

/** The first so many, and the rest. */
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
