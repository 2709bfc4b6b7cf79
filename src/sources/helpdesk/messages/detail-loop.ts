/**
 * Reads the messages of pending tickets, one ticket per request, for 2 credits each. Newest changes come first. A
 * failing ticket is retried with growing delays and blocks no other ticket.
 *
 * A ticket that changed a moment ago is read only when the reply is certain to be later than the change. Otherwise the
 * ticket would be paid for twice.
 */

import type { Lane } from '../../../engine/budget/budget.ts';
import { dueRejects, openSince, saidGone } from '../../../engine/commit/rejects.ts';
import type { Context, Outcome } from '../../../engine/context.ts';
import { wasThere } from '../../../engine/deletions/was-there.ts';
import type { Reply } from '../../../engine/http/request.ts';
import { countInARow, stillRejected, type Told } from '../../../engine/load/ask-again.ts';
import { Commits, commitNow } from '../../../engine/load/commit-queue.ts';
import { noteFailure } from '../../../engine/load/failures.ts';
import { fewRejects, isMostRejected, isPutOff, probed } from '../../../engine/load/probe.ts';
import { farFuture, type Ms } from '../../../engine/reading/reading.ts';
import type { Claim, Work } from '../../../engine/runs/claims.ts';
import { joinAgain, rangeOf, type Scope } from '../../../engine/runs/ranges.ts';
import { othersWait } from '../../../engine/runs/runs.ts';
import { Gone, ReplyTooLarge, Retry } from '../../../errors.ts';
import { count } from '../../../words.ts';
import type { Name, Row } from '../../source.ts';
import { helpdeskOf } from '../open.ts';
import { tickets } from '../tickets.ts';
import { type Detail, detailOf, markDeleted } from './detail.ts';
import { Refusals } from './refusals.ts';
import {
  anyWaiting,
  countWaiting,
  firstWaiting,
  isRipe,
  nextAgain,
  nextWaiting,
  ticketsForNames,
  type Waiting,
  type When,
} from './waiting.ts';

/** Changes younger than this are fresh. Older changes have lower priority. */
const freshMs = 3_600_000;
/** Names are read again after a week, because renames are silent changes. */
const namesMs = 7 * 24 * 3_600_000;
/**
 * Attempts of a request for one ticket. Then the run continues with the next ticket, and retries the failed one at its
 * end.
 */
const fewTries = 4;
/** After this many consecutive failures the source is at fault, not the tickets. */
const mostFailures = 5;
/** Rounds of reading unknown names. */
const mostRounds = 3;
/** Reads of one ticket per run. A ticket that changes faster than it can be read is left to the next run. */
const mostReadings = 10;

/** Tickets per query, and the longest use of a query's result in ms. Later the priorities may have changed. */
const batch = { tickets: 100, maxAgeMs: 5000 };
/**
 * Longest use of a backlog query's result. Order within a backlog hardly changes, because new changes are fresh. At 100
 * credits a minute one query lasts a minute.
 */
const backlogMaxAgeMs = 60_000;
/** How long a ticket of the backlog may wait for others, to be committed with them. */
const togetherMs = 10_000;
/** Interval for polling fresh changes while a backlog is read. Changes stored by this process wake the reader at once. */
const lookMs = 5000;
/** Longest duration of a run that the worker started itself. Its end retries failed tickets and reports counts. */
const longestMs = 10 * 60_000;
/** Rounds of a sync: first the changes from before its start, then the changes from meanwhile. */
const rounds = 2;

/** State that the two readers of a job share. */
interface Reading {
  readonly ctx: Context;
  readonly claim: Claim;
  readonly stream: Detail;
  /** Range of update times that this run must read before it ends. */
  readonly wanted: Scope;
  readonly startedMs: Ms;
  readonly readings: Map<string, number>;
  /** Ids of names that this run has already requested. A query from before their arrival still lists them as due. */
  readonly asked: Set<string>;
  /** Tickets that the reader of fresh changes has read since the last backlog query. The backlog reader skips them. */
  readonly freshened: Set<string>;
  /** Requests that the backlog reader has made since its last query. Their replies may not be stored yet. */
  readonly underway: Map<string, Underway>;
  /** Both readers commit together: a fresh ticket takes along the backlog's tickets that wait. */
  readonly commits: Commits;
  failures: number;
  readonly refusals: Refusals;
  /** Hears of each stored reply whether it was rejected. */
  readonly manyRejected: (isRejected: boolean) => boolean;
  /** So many were rejected in a row that it is to be looked whether most is. */
  looksRejected: boolean;
  /** Whether the run may end although tickets are still pending. */
  isOver: () => Promise<boolean>;
}

/** A request of the backlog reader. */
interface Underway {
  /** Ends it if it has not been sent, because it waits for a credit or a retry. */
  readonly withdraw: () => void;
  /** Resolves when it was answered, failed or was withdrawn. */
  readonly over: Promise<void>;
}

/** Ends the reading: the rest would be paid for, and rejected. */
const mostRejected = new Error(stillRejected);

const withdrawn = new Error('the reader of fresh changes reads the ticket');

/**
 * Reads the messages of all pending tickets. Two readers run concurrently, so that a backlog does not delay fresh
 * changes. One reads changes of the last hour in lane fresh, whatever range the run has. The other reads the backlog in
 * lane backfill, newest change first.
 */
export async function hydrate(ctx: Context, claim: Claim, stream: Detail): Promise<Outcome> {
  const begunMs = ctx.clock.monotonic();
  const startedMs = ctx.clock.now();
  const isAutomatic = claim.kind === 'hydrate';
  const isOver = async () =>
    isAutomatic && (ctx.clock.monotonic() - begunMs > longestMs || (await othersWait(ctx.pg, claim)));
  const rejected = await probed(ctx, claim, id => probe(ctx, claim, stream, id));
  if (rejected) return rejected;
  if (claim.again) await joinAgain(ctx.pg, claim);
  const { fromMs, toMs } = await rangeOf(ctx.pg, claim.run);
  const shared = {
    claim,
    stream,
    startedMs,
    readings: new Map(),
    asked: new Set<string>(),
    freshened: new Set<string>(),
    underway: new Map<string, Underway>(),
    failures: 0,
    refusals: new Refusals(),
    manyRejected: countInARow(),
    looksRejected: false,
    isOver,
  };
  let wanted: Scope = {};
  for (let round = 1; round <= (claim.kind === 'sync' ? rounds : 1); round++) {
    // Before the first reply only this machine's clock is known.
    const sourceMs = helpdeskOf(ctx).send.sourceNow() ?? startedMs + helpdeskOf(ctx).lookbackMs;
    wanted = isAutomatic ? {} : { fromMs, toMs: least(toMs, sourceMs + 1) };
    do
      try {
        await readBoth(ctx, { ...shared, wanted });
      } catch (error) {
        if (error === mostRejected) return { partial: stillRejected };
        throw error;
      }
    while (!(await isOver()) && (await anyWaiting(ctx.pg, claim, moments(ctx, startedMs), wanted)));
  }
  await askAgain(ctx, claim, stream);
  await askForNames(ctx, claim, stream, startedMs);
  if (isAutomatic) return { partial: undefined };
  const open = await openSince(ctx.pg, claim, new Date(startedMs));
  const { futureMs } = moments(ctx, startedMs);
  const left = Math.max(open, await countWaiting(ctx.pg, claim.account, futureMs, wanted));
  return { partial: notInFull(left) };
}

/**
 * The outcome of a run that was waiting for another run's read of the messages, if none of its own tickets is pending
 * now. Otherwise undefined: the run keeps waiting.
 */
export async function isDone(ctx: Context, work: Work): Promise<Outcome | undefined> {
  const { fromMs, toMs, startedMs, kind, again } = await rangeOf(ctx.pg, work.run);
  if (kind === 'hydrate') return { partial: undefined };
  // This machine's clock may differ from the source's clock, so slightly later changes count as well.
  const wanted = { fromMs, toMs: least(toMs, startedMs + helpdeskOf(ctx).lookbackMs) };
  const when = moments(ctx, ctx.clock.now());
  if (again || (await anyWaiting(ctx.pg, work, when, wanted))) return undefined;
  return { partial: notInFull(await countWaiting(ctx.pg, work.account, when.futureMs, wanted)) };
}

const notInFull = (left: number) =>
  left > 0 ? `the messages of ${count(left, 'ticket')} could not be read in full` : undefined;

const least = (a: Ms | undefined, b: Ms | undefined) =>
  a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);

/** Runs both readers until the backlog is read. If one fails, the other is stopped. */
async function readBoth(ctx: Context, shared: Omit<Reading, 'ctx' | 'commits'>): Promise<void> {
  const failed = new AbortController();
  const backlogDone = new AbortController();
  const commits = new Commits(ctx, togetherMs, true);
  const reading = { ...shared, commits, ctx: { ...ctx, signal: AbortSignal.any([ctx.signal, failed.signal]) } };
  const stopping = async (work: Promise<void>) => {
    try {
      await work;
    } catch (error) {
      failed.abort(error);
      throw error;
    }
  };
  const first = await nextBacklog(reading);
  if (first.length === 0) backlogDone.abort();
  const backlog = readAll(reading, 'backfill', backlogOf(reading, first));
  const fresh = readAll(reading, 'fresh', freshOf(reading, backlogDone.signal));
  await Promise.allSettled([stopping(backlog.finally(() => backlogDone.abort())), stopping(fresh)]);
  failed.signal.throwIfAborted();
}

/**
 * Reads tickets one by one. The next request is sent while the previous reply is being stored. `ticketsOf` queries more
 * tickets only after all replies are stored.
 */
async function readAll(reading: Reading, lane: Lane, tickets: AsyncIterable<Waiting>): Promise<void> {
  const { ctx, claim, stream, readings, freshened, commits } = reading;
  try {
    for await (const ticket of tickets) {
      const other = lane === 'fresh' ? withdraw(reading, ticket.id) : undefined;
      if (other !== undefined || (lane === 'backfill' && freshened.has(ticket.id))) {
        await other;
        passOver(reading, ticket);
        continue;
      }
      if (lane === 'fresh') freshened.add(ticket.id);
      using own = lane === 'backfill' ? begin(reading, ticket.id) : undefined;
      const times = (readings.get(ticket.id) ?? 0) + 1;
      readings.set(ticket.id, times);
      try {
        if (times > mostReadings) throw new Retry(`ticket ${ticket.id} changes faster than it can be read`);
        await commits.room();
        if (reading.looksRejected && (await isMostRejected(ctx, claim))) throw mostRejected;
        reading.looksRejected = false;
        const reply = await ask(own ? { ...ctx, signal: own.signal } : ctx, claim, stream, ticket, {
          lane,
          tries: fewTries,
        });
        if (reply)
          commits.add(
            detailOf(ctx, claim, stream, reply, ticket, (current, isRejected) => {
              if (current) readings.delete(ticket.id);
              reading.looksRejected ||= reading.manyRejected(isRejected);
            }),
            lane === 'fresh',
          );
        reading.failures = 0;
        reading.refusals.answered();
      } catch (error) {
        if (error === withdrawn) {
          readings.set(ticket.id, times - 1);
          passOver(reading, ticket);
        } else if (error instanceof Gone) await noteGone(ctx, claim, ticket.id, error);
        else if (!(error instanceof Retry)) throw error;
        else if (error.everywhere) {
          await noteFailure(ctx, claim, { askId: ticket.id, reason: error.message });
          await reading.refusals.note(ctx, claim, stream, error.everywhere);
        } else if (!(error instanceof ReplyTooLarge) && times <= mostReadings && ++reading.failures >= mostFailures)
          throw error;
        else await noteFailure(ctx, claim, { askId: ticket.id, reason: error.message });
      }
    }
  } catch (error) {
    // Replies that cost credits are stored even if the read failed.
    await commits.done().catch(() => {});
    throw error;
  }
  await commits.done();
}

/** Notes a request of the backlog reader. */
function begin({ ctx, underway }: Reading, id: string): Disposable & { readonly signal: AbortSignal } {
  const stop = new AbortController();
  const { promise, resolve } = Promise.withResolvers<void>();
  underway.set(id, { withdraw: () => stop.abort(withdrawn), over: promise });
  return { signal: AbortSignal.any([ctx.signal, stop.signal]), [Symbol.dispose]: resolve };
}

/**
 * The end of the backlog reader's request of this ticket; undefined if there is none. If the request waits, it is
 * withdrawn, because fresh changes go first. Otherwise its reply may show the change. The next query for fresh changes
 * tells, after all replies are stored.
 */
function withdraw({ underway }: Reading, id: string): Promise<void> | undefined {
  const other = underway.get(id);
  underway.delete(id);
  other?.withdraw();
  return other?.over;
}

/** The names that this ticket would have shown are requested with another one. */
function passOver({ asked }: Reading, { due }: Waiting): void {
  for (const id of [...due.labels, ...due.inbox]) asked.delete(id);
}

/**
 * The next older changes in the run's range, newest first. After them, a re-reading backfill gets the tickets that it
 * has not re-read yet.
 */
async function nextBacklog({ ctx, claim, wanted, startedMs, freshened, underway }: Reading): Promise<Waiting[]> {
  freshened.clear();
  underway.clear();
  const when = moments(ctx, startedMs);
  const scope = { ...wanted, toMs: least(wanted.toMs, freshFrom(ctx)) };
  const tickets = await nextWaiting(ctx.pg, claim, when, batch.tickets, scope);
  return tickets.length === 0 && claim.again ? nextAgain(ctx.pg, claim, when, batch.tickets) : tickets;
}

async function* backlogOf(reading: Reading, first: Waiting[]): AsyncGenerator<Waiting> {
  const { commits } = reading;
  const { clock } = reading.ctx;
  for (let tickets = first; tickets.length > 0; tickets = await nextBacklog(reading)) {
    const untilMs = clock.monotonic() + backlogMaxAgeMs;
    for (let left = tickets; left.length > 0 && clock.monotonic() < untilMs; ) {
      left = yield* forAWhile(reading, left);
      if (await reading.isOver()) return;
    }
    await commits.done();
  }
}

/**
 * Yields changes of the last hour as they arrive. Ends when the backlog is read and no change in the run's range is
 * pending.
 */
async function* freshOf(reading: Reading, backlogDone: AbortSignal): AsyncGenerator<Waiting> {
  const { ctx, claim, commits } = reading;
  const untilDone = AbortSignal.any([ctx.signal, backlogDone]);
  for (;;) {
    const done = backlogDone.aborted;
    const rung = helpdeskOf(ctx).stored.next();
    const when = moments(ctx, reading.startedMs);
    const scope = { fromMs: freshFrom(ctx) };
    const first = await firstWaiting(ctx.pg, claim, when, scope);
    const tickets = isRipe(first, when) ? await nextWaiting(ctx.pg, claim, when, batch.tickets, scope) : [];
    yield* forAWhile(reading, tickets);
    await commits.done();
    const mine = { ...reading.wanted, fromMs: Math.max(reading.wanted.fromMs ?? 0, scope.fromMs) };
    if (done && ((await reading.isOver()) || !(await anyWaiting(ctx.pg, claim, when, mine)))) return;
    if (tickets.length > 0) continue;
    const pauseMs = first === undefined ? lookMs : Math.min(lookMs, Math.max(100, first - when.ripeMs));
    const awake = AbortSignal.any([done ? ctx.signal : untilDone, rung]);
    await ctx.clock.sleep(pauseMs, awake).catch(() => ctx.signal.throwIfAborted());
  }
}

/** Start of the fresh range: one hour before the source's time. Before the first reply this machine's clock is used. */
function freshFrom(ctx: Context): Ms {
  return (helpdeskOf(ctx).send.sourceNow() ?? ctx.clock.now()) - freshMs;
}

/** Yields tickets for at most 5 s. Returns the remaining tickets. */
async function* forAWhile({ ctx, asked }: Reading, tickets: Waiting[]): AsyncGenerator<Waiting, Waiting[]> {
  const untilMs = ctx.clock.monotonic() + batch.maxAgeMs;
  for (const [n, ticket] of tickets.entries()) {
    ctx.signal.throwIfAborted();
    const due = { labels: unasked(ticket.due.labels, asked), inbox: unasked(ticket.due.inbox, asked) };
    yield { ...ticket, due };
    if (ctx.clock.monotonic() > untilMs) return tickets.slice(n + 1);
  }
  return [];
}

/**
 * Requests one ticket. Returns undefined if the source answered with another ticket, after a merge of both. That is
 * noted as a failure of the requested ticket.
 */
async function ask(
  ctx: Context,
  claim: Claim,
  stream: Detail,
  ticket: Pick<Waiting, 'id' | 'due'>,
  options: { lane: Lane; tries?: number },
): Promise<Reply<Row> | undefined> {
  const request = stream.request(ticket.id, moreFor(ticket.due));
  const reply = await helpdeskOf(ctx).send(request, { ...options, signal: ctx.signal });
  const other = reply.records[0]?.id;
  if (other === undefined || other === ticket.id) return reply;
  await noteFailure(ctx, claim, { askId: ticket.id, reason: `the source answered with ticket ${other}` });
  return undefined;
}

/**
 * Handles a 404. The first one is noted, the second one confirms the deletion. A 404 without a Date is only a failure.
 * So is a 404 of a ticket so new that a replica may not have it yet.
 */
async function noteGone(ctx: Context, claim: Claim, id: string, { message, asOf }: Gone): Promise<void> {
  const gone = Number.isFinite(asOf);
  const believed = gone && (await saidGone(ctx.pg, claim, id)) && (await wasThere(ctx, tickets, id, asOf));
  if (believed) await markDeleted(ctx, claim, id, asOf);
  else await noteFailure(ctx, claim, { askId: id, reason: message, gone });
}

function unasked(ids: readonly string[], asked: Set<string>): string[] {
  const left = ids.filter(id => !asked.has(id));
  for (const id of left) asked.add(id);
  return left;
}

function moments(ctx: Context, startedMs: Ms): When {
  // Before the first reply the source's clock is unknown.
  const sourceMs = helpdeskOf(ctx).send.sourceNow();
  return {
    // The `as_of` of a reply is earlier than its request by at most 2 s plus the latency.
    ripeMs: sourceMs === undefined ? farFuture : sourceMs - 2000 - helpdeskOf(ctx).send.latencyMs(),
    futureMs: sourceMs === undefined ? farFuture : sourceMs + helpdeskOf(ctx).lookbackMs,
    startedMs,
    namesMs: (sourceMs ?? startedMs) - namesMs,
    nowMs: ctx.clock.now(),
  };
}

/** Retries tickets that failed, or that have a rejected message. */
async function askAgain(ctx: Context, claim: Claim, stream: Detail): Promise<void> {
  const due = () => dueRejects(ctx.pg, claim, new Date(ctx.clock.now()));
  const first = await due();
  // Many that fail alike are not asked for one by one.
  const areMany = first.length >= fewRejects;
  if (areMany && (await probed(ctx, claim, id => probe(ctx, claim, stream, id), { now: true }))) return;
  for (const id of areMany ? await due() : first) {
    ctx.signal.throwIfAborted();
    try {
      await probe(ctx, claim, stream, id);
    } catch (error) {
      if (error instanceof Retry) await noteFailure(ctx, claim, { askId: id, reason: error.message });
      else throw error;
    }
  }
}

/** Reads one ticket anew. */
async function probe(ctx: Context, claim: Claim, stream: Detail, id: string | undefined): Promise<Told> {
  if (id === undefined) return 'stored';
  try {
    const ticket = { id, due: { labels: [], inbox: [] } };
    const reply = await ask(ctx, claim, stream, ticket, { lane: 'fresh', tries: fewTries });
    if (!reply) return 'unknown';
    let told: Told = 'stored';
    const hear = (_: boolean, isRejected: boolean) => {
      if (isRejected) told = 'rejected';
    };
    await commitNow(ctx, detailOf(ctx, claim, stream, reply, ticket, hear));
    return told;
  } catch (error) {
    if (!(error instanceof Gone)) throw error;
    await noteGone(ctx, claim, id, error);
    return 'unknown';
  }
}

/**
 * Reads names that are due and that no pending ticket mentioned. A label may have been added between the listing and
 * the read of a ticket. Another ticket with the label is read. That ticket may have lost the label or fail, so there
 * are several rounds.
 */
async function askForNames(ctx: Context, claim: Claim, stream: Detail, startedMs: Ms): Promise<void> {
  const asked = new Set<string>();
  for (let round = 1; round <= mostRounds; round++) {
    const { namesMs: before } = moments(ctx, startedMs);
    const tickets = await ticketsForNames(ctx.pg, claim.account, [...asked], before);
    for (const ticket of tickets) {
      ctx.signal.throwIfAborted();
      asked.add(ticket.id);
      try {
        const reply = await ask(ctx, claim, stream, ticket, { lane: 'fresh', tries: fewTries });
        if (reply) await commitNow(ctx, detailOf(ctx, claim, stream, reply, ticket));
      } catch (error) {
        // A failed name stays due, because due names are derived from the stored rows. The messages of the ticket are
        // unaffected.
        if (!(error instanceof Retry || error instanceof Gone)) throw error;
        ctx.log.debug({ ticket: ticket.id, reason: error.message }, 'a name could not be read');
      }
    }
    if (tickets.length === 0) return;
  }
}

function moreFor(due: Waiting['due']): Name<Row>['embed'][] {
  return (['labels', 'inbox'] as const).filter(embed => due[embed].length > 0);
}

/** Whether messages are pending, or a reject of messages is due for a retry. */
export async function messagesAreDue(ctx: Context): Promise<boolean> {
  const key = { account: ctx.account, stream: 'helpdesk.messages' } as const;
  const { send, lookbackMs } = helpdeskOf(ctx);
  const nowMs = ctx.clock.now();
  const sourceMs = send.sourceNow() ?? nowMs;
  const when = { ripeMs: sourceMs, futureMs: sourceMs + lookbackMs, startedMs: nowMs, namesMs: 0, nowMs };
  const first = await firstWaiting(ctx.pg, key, when);
  const isDue = isRipe(first, when) || (await dueRejects(ctx.pg, key, new Date(nowMs))).length > 0;
  return isDue && !(await isPutOff(ctx, key));
}
