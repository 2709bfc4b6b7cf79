/** Forecasts sweeps and verifications. The same reading functions run on the stored rows instead of replies. */

import { isRedundant } from '../../../engine/coverage/coverage.ts';
import { evenly, requestsOf } from '../../../engine/forecast/imagined-reading.ts';
import type { Asked, Part } from '../../../engine/forecast/plan-time.ts';
import { readByCreation } from '../../../engine/reading/by-creation.ts';
import { type Ends, type Ms, secondMs } from '../../../engine/reading/reading.ts';
import { completeThrough } from '../../../engine/verify/findings.ts';
import type { ListStream, Row } from '../../source.ts';
import { scopeOf } from '../deletions/walks.ts';
import { helpdeskOf } from '../open.ts';
import { countDeleted, countLive, countTickets, ticketsForAllNames } from '../verify/stored.ts';
import { endsIn, inquireTotal, type Planning, partOf, storeMs } from './lists.ts';
import { cameBefore, timesOfOurs, toBeAsked } from './rows.ts';

/** Number of Total-Count requests per list in a verification. */
const counts = 3;
/** Ids per request. */
const batchSize = 100;
const lane = 'sweep';

const wantedSince = async ({ ctx }: Planning): Promise<Ms> =>
  (
    await scopeOf(ctx.pg, {
      account: ctx.account,
      stream: 'helpdesk.tickets',
      run: 0,
      token: 0,
      kind: 'sweep',
      again: false,
    })
  ).sinceMs;

async function listsOf({ ctx, desk: { tickets } }: Planning): Promise<string[]> {
  const names: string[] = [];
  for (const { name } of tickets.lists)
    if (!(await isRedundant(ctx.pg, { account: ctx.account, stream: 'helpdesk.tickets' }, name))) names.push(name);
  return names;
}

/** Forecasts the read of all tickets of a list in the order of creation. */
async function byCreation(
  planning: Planning,
  list: string,
  sinceMs: Ms,
  doubt: Ends['doubt'],
): Promise<{ asked: Asked[]; ours: number }> {
  const { ctx, desk, nowMs } = planning;
  const { tickets } = desk;
  const updatedSince = sinceMs > 0 ? sinceMs - secondMs : undefined;
  const times = await timesOfOurs(ctx.pg, ctx.account, list, {
    by: 'created_at',
    sinceMs: 0,
    updatedMs: updatedSince ?? 0,
  });
  const ends = await endsIn(planning, tickets, list, doubt);
  const reading = readByCreation(0, { ...tickets.paging, lookbackMs: 0, updatedSince, ends });
  return { asked: requestsOf(reading, { stream: tickets, list, lane }, times, nowMs), ours: times.length };
}

/** Forecasts the read of a whole list with unknown times. The records are spread evenly over time. */
async function whole(planning: Planning, stream: ListStream<Row>, doubt: Ends['doubt']): Promise<Asked[]> {
  const { ctx, nowMs } = planning;
  const live = await countLive(ctx.pg, ctx.account, stream.name as 'customers' | 'users');
  const ends = await endsIn(planning, stream, 'default', doubt);
  const reading = stream.read(0, { ...stream.paging, lookbackMs: 0, firstLoad: true, ends });
  const listed = { stream, list: 'default', lane, pages: stream.name !== 'users' } as const;
  return requestsOf(reading, listed, evenly(live, 0, nowMs), nowMs);
}

const times = (many: number, cost: number): Asked => ({ many, cost, lane });

// --- sweep -------------------------------------------------------------------------------------------------------------

export async function partsOfSweep(planning: Planning, names: readonly string[]): Promise<Part[]> {
  const parts: Part[] = [];
  if (names.includes('helpdesk.customers'))
    parts.push(
      await sweepPart(planning, planning.desk.customers, await whole(planning, planning.desk.customers, 'never')),
    );
  if (!names.includes('helpdesk.tickets')) return parts;
  const sinceMs = await wantedSince(planning);
  const asked: Asked[] = [];
  for (const list of await listsOf(planning))
    for (const one of (await byCreation(planning, list, sinceMs, 'never')).asked) asked.push(one);
  return [...parts, await sweepPart(planning, planning.desk.tickets, asked)];
}

/**
 * Forecasts a sweep's requests for candidates: 100 ids per request, then one request for each. Recent records are
 * fetched twice.
 */
async function sweepPart(planning: Planning, stream: ListStream<Row>, reading: readonly Asked[]): Promise<Part> {
  const { ctx, nowMs } = planning;
  const key = { account: ctx.account, stream: stream.key };
  const known = await toBeAsked(ctx.pg, key, { now: new Date(nowMs), ageMs: ctx.sweep.ageMs });
  const lacking = await lackingThere(planning, stream, known.live);
  const candidates = known.candidates + lacking;
  const together = stream.among
    ? Math.ceil((candidates + known.undated) / batchSize) + Math.ceil(known.tombstones / batchSize)
    : 0;
  const recent = known.live > 0 ? Math.round((candidates * known.recent) / known.live) : 0;
  if (lacking > 0 && recent > 0) planning.assumed.add('deletion candidates are as old as the other records');
  const asked = [...reading, times(together, 1), times(candidates + known.tombstones, 1), times(recent, 1)];
  // The second request waits until no replica of the source can be behind.
  const pauseMs = recent > 0 ? Math.min(helpdeskOf(ctx).lookbackMs, 600_000) + 3000 : 0;
  return partOf(stream.name, asked, pauseMs);
}

/** Estimates the stored records that the source no longer counts. */
async function lackingThere(planning: Planning, stream: ListStream<Row>, live: number): Promise<number> {
  const { ctx, nowMs, counts: mayCount, assumed } = planning;
  const isTickets = stream.key === 'helpdesk.tickets';
  if (!mayCount || (isTickets && (await wantedSince(planning)) > 0)) {
    assumed.add(`no deletions at the source (${stream.name}); each deletion costs one or two more credits`);
    return 0;
  }
  let theirs = 0;
  for (const list of isTickets ? await listsOf(planning) : ['default']) {
    const total = await inquireTotal(planning, stream, list);
    if (total === undefined) return 0;
    theirs += total;
  }
  const throughMs = (await completeThrough(ctx.pg, ctx.account, stream.key)) ?? nowMs;
  const { perMs } = await cameBefore(
    ctx.pg,
    { account: ctx.account, stream: isTickets ? 'helpdesk.created' : 'helpdesk.customers' },
    throughMs,
  );
  return Math.max(0, live + Math.round(perMs * Math.max(0, nowMs - throughMs)) - theirs);
}

// --- verify ------------------------------------------------------------------------------------------------------------

export async function partsOfVerify(planning: Planning, sample: number | null): Promise<Part[]> {
  const { ctx, desk } = planning;
  const live = (table: 'tickets' | 'customers') => countLive(ctx.pg, ctx.account, table);
  const tombstones = (table: 'tickets' | 'customers') => countDeleted(ctx.pg, ctx.account, table);
  const sinceMs = await wantedSince(planning);
  const lists = await listsOf(planning);
  const counting = [times(counts, 2)];
  const countingTickets = sinceMs === 0 ? [times(counts * lists.length, 2)] : [];
  const detail = desk.messages.request('', []).cost;
  const { get } = desk.tickets;
  if (sample !== null) {
    const tickets = times(Math.min(sample, await live('tickets')), detail);
    const customers = times(Math.min(sample, await live('customers')), 1);
    return [partOf('customers', [...counting, customers]), partOf('tickets', [...countingTickets, tickets])];
  }
  const byPages: Asked[] = [];
  for (const list of lists) {
    for (const one of (await byCreation(planning, list, sinceMs, 'always')).asked) byPages.push(one);
    byPages.push(times(await hiddenIn(planning, list, sinceMs), get!('').cost));
  }
  const embeds = await ticketsForAllNames(ctx.pg, ctx.account);
  const named = [...embeds.values()].map(with_ => times(1, desk.messages.request('', with_).cost));
  const plain = times(Math.max(0, (await live('tickets')) - named.length), detail);
  return [
    partOf('users', await whole(planning, desk.users, 'always')),
    partOf('customers', [
      ...counting,
      ...(await whole(planning, desk.customers, 'always')),
      times(await tombstones('customers'), 1),
    ]),
    partOf('tickets', [...countingTickets, ...byPages, times(await tombstones('tickets'), 1)]),
    { stream: 'messages', readers: [[...named, plain]], storeMs: storeMs.record },
  ];
}

/** Estimates the stored tickets that a list hides. Each of them is fetched by id. */
async function hiddenIn(planning: Planning, list: string, sinceMs: Ms): Promise<number> {
  const { ctx, desk, nowMs, counts: mayCount } = planning;
  if (sinceMs > 0 || !mayCount) {
    planning.assumed.add('the lists of the source hide no records');
    return 0;
  }
  const theirs = await inquireTotal(planning, desk.tickets, list);
  if (theirs === undefined) return 0;
  return Math.max(0, (await countTickets(ctx.pg, ctx.account, list, nowMs)).before - theirs);
}
