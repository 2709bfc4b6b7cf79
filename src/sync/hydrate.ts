/**
 * The loop that fetches the detail of one record by id: the messages of a ticket, for 2 credits. Newest changes first;
 * a ticket that fails waits with a growing delay and stops nobody. A ticket that changed a moment ago is left alone until
 * a reply can be sure to be later than that change, which saves paying for it twice.
 */
import type { Lane } from '../budget/budget.ts';
import type { Context } from '../context.ts';
import { Gone, Retry } from '../errors.ts';
import type { Reply } from '../http/request.ts';
import type { Ms } from '../reading/reading.ts';
import type { DetailStream, Name, Row } from '../streams/stream.ts';
import { cleanJson, fieldsOf, objectOf } from '../warehouse/clean.ts';
import { add, attempt, type Batch, type Care, keepBooks, noCounts, withCare, writeBatch } from '../warehouse/commit.ts';
import { transaction } from '../warehouse/pool.ts';
import { dueRejects, openSince, saidGone } from '../warehouse/rejects.ts';
import type { Claim } from '../warehouse/runs.ts';
import {
  buryTicket,
  claimMessages,
  countWaiting,
  farFuture,
  nameThem,
  nextRipe,
  nextWaiting,
  ticketsForNames,
  type Waiting,
  type When,
} from '../warehouse/waiting.ts';
import { detailBatch, driftOf, rejectOf, singleBatch } from './batch.ts';
import { noteFailure, type Outcome } from './sync.ts';

/** A change of the last hour is fresh; what is older gives way to it. */
const freshMs = 3_600_000;
/** Renames are not announced: names are looked at again once a week, on a request that is made anyway. */
const namesMs = 7 * 24 * 3_600_000;
/** Tries for one ticket before the next one gets its turn, and again at the end of the run. */
const fewTries = 4;
/** This many tickets in a row that fail are no matter of tickets. */
const mostFailures = 5;
/** Of asking for names that nobody has asked for. */
const mostRounds = 3;
/** A ticket that changes faster than it can be read is left to the next run after so many readings. */
const mostReadings = 10;

/** So many tickets are looked up at once, and for no longer than so long: then fresh changes may have come. */
const batch = { tickets: 100, maxAgeMs: 5000 };

type Detail = DetailStream<Row, Row>;

/** Reads the messages of every ticket that waits for them. */
export async function hydrate(ctx: Context, claim: Claim, stream: Detail): Promise<Outcome> {
  const startedMs = ctx.clock.now();
  const readings = new Map<string, number>();
  let failures = 0;
  for await (const ticket of waitingTickets(ctx, claim, startedMs)) {
    const times = (readings.get(ticket.id) ?? 0) + 1;
    readings.set(ticket.id, times);
    try {
      if (times > mostReadings) throw new Retry(`ticket ${ticket.id} changes faster than it can be read`);
      const reply = await ask(ctx, claim, stream, ticket, { lane: laneOf(ctx, ticket), tries: fewTries });
      if (reply && (await commitDetail(ctx, claim, stream, reply, ticket))) readings.delete(ticket.id);
      failures = 0;
    } catch (error) {
      if (error instanceof Gone) await noteGone(ctx, claim, ticket.id, error);
      else if (!(error instanceof Retry)) throw error;
      else if (times <= mostReadings && ++failures >= mostFailures) throw error;
      else await noteFailure(ctx, claim, { askId: ticket.id, reason: error.message });
    }
  }
  await askAgain(ctx, claim, stream);
  await askForNames(ctx, claim, stream);
  const open = await openSince(ctx.pg, claim, new Date(startedMs));
  const left = Math.max(open, await countWaiting(ctx.pg, claim.account, moments(ctx, startedMs).futureMs));
  return { partly: left > 0 ? `the messages of ${left} tickets could not be read in full` : undefined };
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
  const reply = await ctx.helpdesk.send(request, { ...options, signal: ctx.signal });
  const other = reply.records[0]?.id;
  if (other === undefined || other === ticket.id) return reply;
  await noteFailure(ctx, claim, { askId: ticket.id, reason: `the source answered with ticket ${other}` });
  return undefined;
}

/** A first 404 is noted, a second one is believed. */
async function noteGone(ctx: Context, claim: Claim, id: string, { message, asOf }: Gone): Promise<void> {
  if (await saidGone(ctx.pg, claim, id)) await bury(ctx, claim, id, asOf);
  else await noteFailure(ctx, claim, { askId: id, reason: message, gone: true });
}

function laneOf(ctx: Context, { updatedMs }: Waiting): Lane {
  const sourceMs = ctx.helpdesk.send.sourceNow();
  return sourceMs === undefined || updatedMs > sourceMs - freshMs ? 'fresh' : 'backfill';
}

/** Newest change first, until none waits; one that is not ripe yet is waited for. */
async function* waitingTickets(ctx: Context, claim: Claim, startedMs: Ms): AsyncGenerator<Waiting> {
  /** Names that this run has paid for: a batch was looked up before they came. */
  const asked = new Set<string>();
  for (;;) {
    const when = moments(ctx, startedMs);
    const tickets = await nextWaiting(ctx.pg, claim, when, batch.tickets);
    const untilMs = ctx.clock.monotonic() + batch.maxAgeMs;
    for (const ticket of tickets) {
      ctx.signal.throwIfAborted();
      const due = { labels: unasked(ticket.due.labels, asked), inbox: unasked(ticket.due.inbox, asked) };
      yield { ...ticket, due };
      if (ctx.clock.monotonic() > untilMs) break;
    }
    if (tickets.length > 0) continue;
    const ripe = await nextRipe(ctx.pg, claim, when);
    if (ripe === undefined) return;
    await ctx.clock.sleep(Math.max(100, ripe - when.ripeMs), ctx.signal);
  }
}

function unasked(ids: readonly string[], asked: Set<string>): string[] {
  const left = ids.filter(id => !asked.has(id));
  for (const id of left) asked.add(id);
  return left;
}

function moments(ctx: Context, startedMs: Ms): When {
  // Before the first reply nothing is known of the source's clock.
  const sourceMs = ctx.helpdesk.send.sourceNow();
  return {
    // `as_of` of a reply is at most 2 s, and the way back, behind the moment of the request.
    ripeMs: sourceMs === undefined ? farFuture : sourceMs - 2000 - ctx.helpdesk.send.latencyMs(),
    futureMs: sourceMs === undefined ? farFuture : sourceMs + ctx.helpdesk.lookbackMs,
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
 * Names of what no waiting ticket mentioned: a label that was put on a ticket between its listing and its reading. That
 * ticket may have lost it again by now, or fail, so that another one has to be asked: a few rounds.
 */
async function askForNames(ctx: Context, claim: Claim, stream: Detail): Promise<void> {
  const asked = new Set<string>();
  for (let round = 1; round <= mostRounds; round++) {
    const tickets = await ticketsForNames(ctx.pg, claim.account, [...asked]);
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

/**
 * The record and its members in one transaction. Answers whether the members are as new as the record; if not, it still
 * waits.
 */
async function commitDetail(
  ctx: Context,
  claim: Claim,
  stream: Detail,
  reply: Reply<Row>,
  ticket: Pick<Waiting, 'id' | 'due'> & { first?: boolean },
): Promise<boolean> {
  const at = { nowMs: ctx.clock.now(), asOfMs: reply.asOf };
  const credits = ctx.helpdesk.send.takeCredits();
  const [record] = reply.records;
  const found = record && detailBatch(stream, record, reply.text);
  const whole = singleBatch(stream.of, reply);
  const unreadable = [...reply.unreadable, ...(found?.unreadable ?? [])];
  const updatedMs: Ms = record ? stream.version(record) : 0;

  return withCare(ctx.pg, async (client, care) => {
    const counts = noCounts();
    const refused = unreadable.map(one => rejectOf(one, found?.batch ?? whole, ticket.id));
    let current = false;
    if (record && found) {
      const parent = await writeBatch(client, claim, parentBatch(stream, reply, care), at, care);
      refused.push(...parent.rejects.map(reject => ({ ...reject, askId: ticket.id })));
      counts.cleaned += parent.counts.cleaned;
      current = await claimMessages(client, claim.account, { id: record.id, updatedMs, asOfMs: reply.asOf });
      if (current) {
        const batch = ticket.first ? { ...found.batch, parents: [] } : found.batch;
        const written = await writeBatch(client, claim, batch, at, care);
        add(counts, written.counts);
        refused.push(...written.rejects.map(reject => ({ ...reject, askId: ticket.id })));
      }
      for (const name of stream.names) {
        if (ticket.due[name.embed].length === 0) continue;
        const mentioned = name.mentioned(record);
        const asked = ticket.due[name.embed].filter(id => mentioned.includes(id));
        const { text, cleaned } = nameText(name, reply, care);
        const give = () => nameThem(client, claim.account, name.upsert, { text, asked, at });
        const refusal = care === 'one by one' ? await attempt(client, give) : await give();
        if (refusal) refused.push({ askId: ticket.id, reason: refusal.message, payload: text });
        counts.cleaned += cleaned;
      }
    }
    await keepBooks(client, claim, at, {
      counts: {
        ...counts,
        seen: found ? found.members.length + found.unreadable.length : 0,
        rejected: refused.length,
        credits,
      },
      rejects: refused,
      // A reply that replaced nothing settles nothing.
      stored: current ? [ticket.id] : [],
      drift: driftOf(stream, found?.members ?? [], unreadable, counts.cleaned),
    });
    return current && reply.asOf >= updatedMs;
  });
}

/** The record without its members and names, where they might be what PostgreSQL refuses. */
function parentBatch(stream: Detail, reply: Reply<Row>, care: Care): Batch {
  if (care === 'as it came') return singleBatch(stream.of, reply);
  const others = new Set<string>([stream.membersField, ...stream.names.map(name => name.embed)]);
  return singleBatch(stream.of, { ...reply, text: keepFields(reply.text, field => !others.has(field)) });
}

function keepFields(json: string, keep: (field: string) => boolean): string {
  return objectOf([...fieldsOf(json)].filter(([field]) => keep(field)));
}

function nameText(name: Name<Row>, reply: Reply<Row>, care: Care): { text: string; cleaned: number } {
  if (care === 'as it came') return { text: reply.text, cleaned: 0 };
  return cleanJson(keepFields(reply.text, field => field === name.embed));
}

async function bury(ctx: Context, claim: Claim, id: string, asOfMs: Ms): Promise<void> {
  const at = { nowMs: ctx.clock.now(), asOfMs };
  const credits = ctx.helpdesk.send.takeCredits();
  await transaction(ctx.pg, async client => {
    const deleted = await buryTicket(client, claim.account, id, asOfMs, new Date(at.nowMs));
    await keepBooks(client, claim, at, {
      counts: { ...noCounts(), deleted, credits },
      rejects: [],
      stored: [id],
      drift: [],
    });
  });
}
