/**
 * The loop that fetches the detail of one record by id: the messages of a ticket, for 2 credits. Newest changes first;
 * a ticket that fails waits with a growing delay and stops nobody. A ticket that changed a moment ago is left alone until
 * a reply can be sure to be later than that change, which saves paying for it twice.
 */

import type { Lane } from '../../../engine/budget/budget.ts';
import { dueRejects, openSince, saidGone } from '../../../engine/commit/rejects.ts';
import type { Context } from '../../../engine/context.ts';
import type { Client } from '../../../engine/database/pool.ts';
import { behindMs } from '../../../engine/deletions/lag.ts';
import type { Reply } from '../../../engine/http/request.ts';
import { Commits } from '../../../engine/load/commit-queue.ts';
import { noteFailure } from '../../../engine/load/failures.ts';
import type { Outcome } from '../../../engine/load/list-loop.ts';
import { farFuture, type Ms } from '../../../engine/reading/reading.ts';
import type { Claim, Work } from '../../../engine/runs/claims.ts';
import { joinAgain, rangeOf, type Scope } from '../../../engine/runs/ranges.ts';
import { othersWait } from '../../../engine/runs/runs.ts';
import { Gone, Retry } from '../../../errors.ts';
import { count } from '../../../words.ts';
import type { Name, Row } from '../../source.ts';
import { helpdeskOf } from '../open.ts';
import { bury, commitDetail, type Detail } from './detail.ts';
import {
  anyWaiting,
  countWaiting,
  firstWaiting,
  isOlder,
  isRipe,
  nextAgain,
  nextWaiting,
  ticketsForNames,
  type Waiting,
  type When,
} from './waiting.ts';

/** A change of the last hour is fresh; what is older gives way to it. */
const freshMs = 3_600_000;
/** Renames are not announced: names are looked at again once a week. */
const namesMs = 7 * 24 * 3_600_000;
/** Tries for one ticket before the next one gets its turn, and again at the end of the run. */
const fewTries = 4;
/** This many tickets in a row that fail are no matter of tickets. */
const mostFailures = 5;
/** Of asking for names that nobody has asked for. */
const mostRounds = 3;
/** A ticket that changes faster than it can be read is left to the next run after so many readings. */
const mostReadings = 10;

/** So many tickets are looked up at once, and for no longer than so long: then what is most urgent may be another. */
const batch = { tickets: 100, maxAgeMs: 5000 };
/** In a backlog nothing becomes urgent: what changes is fresh. At a credit limit of 100 a minute one look does for a minute. */
const backlogMaxAgeMs = 60_000;
/** How often fresh changes are looked for while a backlog is at work. What this process itself stores, rings. */
const lookMs = 5000;
/** A run that nobody has asked for ends after this: then what failed is asked for again, and its counts are told. */
const longestMs = 10 * 60_000;
/** A sync ends when all is read that had changed when it began, and then once more what changed meanwhile. */
const rounds = 2;

/** What the two readers of one job share. */
interface Reading {
  readonly ctx: Context;
  readonly claim: Claim;
  readonly stream: Detail;
  /** What this run is to read before it ends: by update time. */
  readonly wanted: Scope;
  readonly startedMs: Ms;
  readonly readings: Map<string, number>;
  /** Names that this run has paid for: a batch was looked up before they came. */
  readonly asked: Set<string>;
  /** What the reader of fresh changes has asked for since the backlog was looked up: it need not be asked for again. */
  readonly freshened: Set<string>;
  failures: number;
  /** Nobody waits for the rest: the run may end. */
  isOver: () => Promise<boolean>;
}

/**
 * Reads the messages of the tickets that wait for them. Two readers share the work, so that a slow backlog holds nothing
 * up: one of what changed within the last hour, in lane fresh, whatever the run was asked for; one of the backlog, newest
 * change first, in lane backfill.
 */
export async function hydrate(ctx: Context, claim: Claim, stream: Detail): Promise<Outcome> {
  const begunMs = ctx.clock.monotonic();
  const startedMs = ctx.clock.now();
  const ofItsOwnAccord = claim.kind === 'hydrate';
  const isOver = async () =>
    ofItsOwnAccord && (ctx.clock.monotonic() - begunMs > longestMs || (await othersWait(ctx.pg, claim)));
  if (claim.again) await joinAgain(ctx.pg, claim);
  const { fromMs, toMs } = await rangeOf(ctx.pg, claim.run);
  const shared = {
    claim,
    stream,
    startedMs,
    readings: new Map(),
    asked: new Set<string>(),
    freshened: new Set<string>(),
    failures: 0,
    isOver,
  };
  let wanted: Scope = {};
  for (let round = 1; round <= (claim.kind === 'sync' ? rounds : 1); round++) {
    // Before the first reply ours is the only clock there is.
    const sourceMs = helpdeskOf(ctx).send.sourceNow() ?? startedMs + helpdeskOf(ctx).lookbackMs;
    wanted = ofItsOwnAccord ? {} : { fromMs, toMs: least(toMs, sourceMs + 1) };
    do await readBoth(ctx, { ...shared, wanted });
    while (!(await isOver()) && (await anyWaiting(ctx.pg, claim, moments(ctx, startedMs), wanted)));
  }
  await askAgain(ctx, claim, stream);
  await askForNames(ctx, claim, stream, startedMs);
  if (ofItsOwnAccord) return { partly: undefined };
  const open = await openSince(ctx.pg, claim, new Date(startedMs));
  const { futureMs } = moments(ctx, startedMs);
  const left = Math.max(open, await countWaiting(ctx.pg, claim.account, futureMs, wanted));
  return { partly: notInFull(left) };
}

/** Whether nothing is left for a run that waits for another one's reading of messages: then it need not wait any more. */
export async function isDone(ctx: Context, work: Work): Promise<Outcome | undefined> {
  const { fromMs, toMs, startedMs, kind, again } = await rangeOf(ctx.pg, work.run);
  if (kind === 'hydrate') return { partly: undefined };
  // Ours is another clock than the source's: what changed a little later counts as well.
  const wanted = { fromMs, toMs: least(toMs, startedMs + helpdeskOf(ctx).lookbackMs) };
  const when = moments(ctx, ctx.clock.now());
  if (again || (await anyWaiting(ctx.pg, work, when, wanted))) return undefined;
  return { partly: notInFull(await countWaiting(ctx.pg, work.account, when.futureMs, wanted)) };
}

const notInFull = (left: number) =>
  left > 0 ? `the messages of ${count(left, 'ticket')} could not be read in full` : undefined;

const least = (a: Ms | undefined, b: Ms | undefined) =>
  a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);

/** Both end when the backlog does; where one fails, the other is told to stop. */
async function readBoth(ctx: Context, shared: Omit<Reading, 'ctx'>): Promise<void> {
  const failed = new AbortController();
  const backlogDone = new AbortController();
  const reading = { ...shared, ctx: { ...ctx, signal: AbortSignal.any([ctx.signal, failed.signal]) } };
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
  const backlog = readAll(reading, 'backfill', commits => backlogOf(reading, first, commits));
  const fresh = readAll(reading, 'fresh', commits => freshOf(reading, backlogDone.signal, commits));
  await Promise.allSettled([stopping(backlog.finally(() => backlogDone.abort())), stopping(fresh)]);
  failed.signal.throwIfAborted();
}

/** The next ticket is asked for while the reply about the last one goes to the tables; those of `ticketsOf` are looked up when all have gone there. */
async function readAll(
  reading: Reading,
  lane: Lane,
  ticketsOf: (commits: Commits) => AsyncIterable<Waiting>,
): Promise<void> {
  const { ctx, claim, stream, readings, freshened } = reading;
  const commits = new Commits();
  try {
    for await (const ticket of ticketsOf(commits)) {
      if (lane === 'fresh') freshened.add(ticket.id);
      else if (freshened.has(ticket.id)) continue;
      const times = (readings.get(ticket.id) ?? 0) + 1;
      readings.set(ticket.id, times);
      try {
        if (times > mostReadings) throw new Retry(`ticket ${ticket.id} changes faster than it can be read`);
        await commits.room();
        const reply = await ask(ctx, claim, stream, ticket, { lane, tries: fewTries });
        if (reply)
          commits.begin(async () => {
            if (await commitDetail(ctx, claim, stream, reply, ticket)) readings.delete(ticket.id);
          });
        reading.failures = 0;
      } catch (error) {
        if (error instanceof Gone) await noteGone(ctx, claim, ticket.id, error);
        else if (!(error instanceof Retry)) throw error;
        else if (times <= mostReadings && ++reading.failures >= mostFailures) throw error;
        else await noteFailure(ctx, claim, { askId: ticket.id, reason: error.message });
      }
    }
  } catch (error) {
    // What was paid for is stored, however the reading ended.
    await commits.done().catch(() => {});
    throw error;
  }
  await commits.done();
}

/** Older changes that the run wants, newest first; then, for a backfill that reads again, what it has not read again yet. */
async function nextBacklog({ ctx, claim, wanted, startedMs, freshened }: Reading): Promise<Waiting[]> {
  freshened.clear();
  const when = moments(ctx, startedMs);
  const scope = { ...wanted, toMs: least(wanted.toMs, freshFrom(ctx)) };
  const tickets = await nextWaiting(ctx.pg, claim, when, batch.tickets, scope);
  return tickets.length === 0 && claim.again ? nextAgain(ctx.pg, claim, when, batch.tickets) : tickets;
}

async function* backlogOf(reading: Reading, first: Waiting[], commits: Commits): AsyncGenerator<Waiting> {
  const { clock } = reading.ctx;
  for (let tickets = first; tickets.length > 0; tickets = await nextBacklog(reading)) {
    const untilMs = clock.monotonic() + backlogMaxAgeMs;
    for (let left = tickets; left.length > 0 && clock.monotonic() < untilMs; ) {
      left = yield* forAWhile(reading, left);
      await commits.done();
      if (await reading.isOver()) return;
    }
  }
}

/** Changes of the last hour as they come, until the backlog is done and none that is wanted waits. */
async function* freshOf(reading: Reading, backlogDone: AbortSignal, commits: Commits): AsyncGenerator<Waiting> {
  const { ctx, claim } = reading;
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

/** A change of the last hour is fresh; what is older gives way to it. Before the first reply nothing is known of the source's clock. */
function freshFrom(ctx: Context): Ms {
  return (helpdeskOf(ctx).send.sourceNow() ?? ctx.clock.now()) - freshMs;
}

/** Returns those for which there was no time. */
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

/** The reply about this ticket; undefined if the source answered with another one (a merge): that is a failure of it. */
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
 * A first 404 is noted, a second one is believed; one that does not say when is neither. Nor is one of a ticket that came
 * so short a while ago that a copy which is behind may not have it yet.
 */
async function noteGone(ctx: Context, claim: Claim, id: string, { message, asOf }: Gone): Promise<void> {
  const gone = Number.isFinite(asOf);
  const ticket = { account: claim.account, stream: 'helpdesk.tickets' } as const;
  const believed = gone && (await saidGone(ctx.pg, claim, id)) && (await wasThere(ctx, ticket, id, asOf));
  if (believed) await bury(ctx, claim, id, asOf);
  else await noteFailure(ctx, claim, { askId: id, reason: message, gone });
}

/** Whether every copy of the source must have had the record as of then, unless it was deleted. */
export const wasThere = (
  ctx: Context,
  key: Pick<Claim, 'account' | 'stream'>,
  id: string,
  asOfMs: Ms,
  db: Pick<Client, 'query'> = ctx.pg,
): Promise<boolean> => isOlder(db, key, id, asOfMs - behindMs(helpdeskOf(ctx)));

function unasked(ids: readonly string[], asked: Set<string>): string[] {
  const left = ids.filter(id => !asked.has(id));
  for (const id of left) asked.add(id);
  return left;
}

function moments(ctx: Context, startedMs: Ms): When {
  // Before the first reply nothing is known of the source's clock.
  const sourceMs = helpdeskOf(ctx).send.sourceNow();
  return {
    // `as_of` of a reply is at most 2 s, and the way back, behind the moment of the request.
    ripeMs: sourceMs === undefined ? farFuture : sourceMs - 2000 - helpdeskOf(ctx).send.latencyMs(),
    futureMs: sourceMs === undefined ? farFuture : sourceMs + helpdeskOf(ctx).lookbackMs,
    startedMs,
    namesMs: (sourceMs ?? startedMs) - namesMs,
  };
}

/** Tickets that failed, or a message of which did. */
async function askAgain(ctx: Context, claim: Claim, stream: Detail): Promise<void> {
  for (const id of await dueRejects(ctx.pg, claim, new Date(ctx.clock.now()))) {
    ctx.signal.throwIfAborted();
    try {
      const ticket = { id, due: { labels: [], inbox: [] } };
      const reply = await ask(ctx, claim, stream, ticket, { lane: 'fresh', tries: fewTries });
      if (reply) await commitDetail(ctx, claim, stream, reply, ticket);
    } catch (error) {
      if (error instanceof Gone) await noteGone(ctx, claim, id, error);
      else if (error instanceof Retry) await noteFailure(ctx, claim, { askId: id, reason: error.message });
      else throw error;
    }
  }
}

/**
 * Names that are due for a look, and of what no waiting ticket mentioned: a label that was put on a ticket between its
 * listing and its reading. That ticket may have lost it again by now, or fail, so that another one has to be asked: a few
 * rounds.
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
        if (reply) await commitDetail(ctx, claim, stream, reply, ticket);
      } catch (error) {
        // The name stays due, which is derived; the messages of the ticket are none the worse for it.
        if (!(error instanceof Retry || error instanceof Gone)) throw error;
        ctx.log.debug({ ticket: ticket.id, reason: error.message }, 'a name could not be asked for');
      }
    }
    if (tickets.length === 0) return;
  }
}

function moreFor(due: Waiting['due']): Name<Row>['embed'][] {
  return (['labels', 'inbox'] as const).filter(embed => due[embed].length > 0);
}

/** Whether messages wait, or a reject of theirs is due again. */
export async function messagesAreDue(ctx: Context): Promise<boolean> {
  const key = { account: ctx.account, stream: 'helpdesk.messages' } as const;
  const { send, lookbackMs } = helpdeskOf(ctx);
  const nowMs = ctx.clock.now();
  const sourceMs = send.sourceNow() ?? nowMs;
  const when = { ripeMs: sourceMs, futureMs: sourceMs + lookbackMs, startedMs: nowMs, namesMs: 0 };
  const first = await firstWaiting(ctx.pg, key, when);
  return isRipe(first, when) || (await dueRejects(ctx.pg, key, new Date(nowMs))).length > 0;
}
