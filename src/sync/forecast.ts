/**
 * What a verification takes, told before it begins: the same readings are made, of our own rows, and each request that they
 * would make is counted. So it is as exact as the mirror is.
 */
import type pg from 'pg';
import type { Lane, Limits } from '../budget/budget.ts';
import type { Context } from '../context.ts';
import { readByCreation } from '../reading/by-creation.ts';
import { type Ms, type Page, type Proof, type Step, secondMs } from '../reading/reading.ts';
import type { ListStream, Row } from '../streams/stream.ts';
import { isRedundant } from '../warehouse/coverage.ts';
import { scopeOf } from '../warehouse/sweep.ts';
import {
  countBuried,
  countLive,
  countTickets,
  type Forecast,
  pageOfOurs,
  ticketsForAllNames,
} from '../warehouse/verifications.ts';

/** Of a request for Total-Count, of which each list takes three. */
const countCost = 2;
const counts = 3;
/** A ticket with its messages. */
const ticketCost = 2;

export async function forecast(
  db: pg.Pool,
  account: string,
  {
    sample,
    limits,
    nowMs,
    count,
    tickets,
    customers,
    users,
  }: {
    sample: number | null;
    limits: Limits;
    nowMs: Ms;
    /** What the source counts in a list of tickets: what it hides there is asked for one by one. */
    count: (list: string) => Promise<number | undefined>;
    tickets: ListStream<Row>;
    customers: ListStream<Row>;
    users: ListStream<Row>;
  },
): Promise<Forecast> {
  const live = {
    tickets: await countLive(db, account, 'tickets'),
    customers: await countLive(db, account, 'customers'),
    users: await countLive(db, account, 'users'),
  };
  const { sinceMs } = await scopeOf(db, { account, stream: 'tickets', run: 0, token: 0, kind: 'verify', again: false });
  let credits = counts * countCost;
  let requests = counts;
  for (const { name } of tickets.lists) {
    if (await isRedundant(db, { account, stream: 'tickets' }, name)) continue;
    if (sinceMs === 0) {
      credits += counts * countCost;
      requests += counts;
    }
    if (sample === null) {
      const theirs = sinceMs === 0 ? await count(name) : undefined;
      const hidden = theirs === undefined ? 0 : (await countTickets(db, account, name, nowMs)).before - theirs;
      credits += Math.max(0, hidden) + (sinceMs === 0 ? countCost : 0);
      requests += Math.max(0, hidden) + (sinceMs === 0 ? 1 : 0);
      const pages = await pagesByCreation(db, account, tickets, { list: name, sinceMs, nowMs });
      credits += pages;
      requests += pages;
    }
  }
  if (sample === null) {
    const lists = [costOf(customers, live.customers, nowMs), costOf(users, live.users, nowMs)];
    const buried = (await countBuried(db, account, 'tickets')) + (await countBuried(db, account, 'customers'));
    const embeds = [...(await ticketsForAllNames(db, account)).values()].flat().length;
    credits += lists.reduce((sum, one) => sum + one.credits, 0) + ticketCost * live.tickets + embeds + buried;
    requests += lists.reduce((sum, one) => sum + one.requests, 0) + live.tickets + buried;
  } else {
    credits += Math.min(sample, live.tickets) * ticketCost + Math.min(sample, live.customers);
    requests += Math.min(sample, live.tickets) + Math.min(sample, live.customers);
  }
  const allowed = Math.max(1, limits.credits - limits.reserve);
  const seconds = Math.max((credits / allowed) * (limits.periodMs / 1000), requests / limits.requestsPerSecond);
  return { credits, seconds };
}

/** How many the source counts; undefined where it does not say, or counts no further. */
export async function totalOf(
  ctx: Context,
  lane: Lane,
  stream: ListStream<Row>,
  list: string,
  since?: Ms,
): Promise<number | undefined> {
  const ask = { page: 1, perPage: 0, count: true, order: 'created', ...(since !== undefined && { since }) } as const;
  const { total } = await ctx.helpdesk.send(stream.request(list, ask), { lane, signal: ctx.signal });
  return total === stream.paging.depth ? undefined : total;
}

/** Page by page, of our own tickets. */
async function pagesByCreation(
  db: pg.Pool,
  account: string,
  stream: ListStream<Row>,
  { list, sinceMs, nowMs }: { list: string; sinceMs: Ms; nowMs: Ms },
): Promise<number> {
  const updatedSince = sinceMs > 0 ? sinceMs - secondMs : undefined;
  const reading = readByCreation(0, { ...stream.paging, lookbackMs: 0, updatedSince });
  let pages = 0;
  for (let step = reading.next(); !step.done; pages++) {
    const { since = 0, page, perPage } = step.value.ask;
    const rows = await pageOfOurs(db, account, list, { sinceMs: since, updatedMs: updatedSince ?? 0, page, perPage });
    step = reading.next({ arrived: rows.length, rows, asOf: nowMs, date: nowMs });
  }
  return pages;
}

/** Of a list whose times we do not know: as if so many records had been created one after the other, at even distances. */
function costOf(stream: ListStream<Row>, many: number, nowMs: Ms): { credits: number; requests: number } {
  const timeOf = (place: number) => (nowMs * place) / Math.max(1, many);
  const reading = stream.read(0, { ...stream.paging, lookbackMs: 0, firstLoad: true });
  let credits = 0;
  let requests = 0;
  let step: IteratorResult<Step, Proof> = reading.next();
  while (!step.done) {
    const { since = 0, page, perPage, count } = step.value.ask;
    const first = Math.max(0, Math.ceil((since * many) / nowMs));
    const from = first + (page - 1) * perPage;
    const rows = Array.from({ length: Math.max(0, Math.min(perPage, many - from)) }, (_, i) => ({
      id: String(from + i),
      time: timeOf(from + i),
    }));
    credits += count ? 2 : 1;
    requests++;
    const answer: Page = { arrived: rows.length, rows, asOf: nowMs, date: nowMs, total: many - first };
    step = reading.next(answer);
  }
  return { credits, requests };
}
