/**
 * Everything, or a sample of it, read again and compared. Tickets are read in the order of creation, so that each page also
 * tells which of ours it lacks; of customers and users the whole list tells it; messages are asked for ticket by ticket. What
 * only we have is asked for by its id before it is said to be gone.
 */
import type { Context } from '../context.ts';
import { Gone, Retry } from '../errors.ts';
import type { Reply } from '../http/request.ts';
import { readByCreation } from '../reading/by-creation.ts';
import { floorSecond, type Ms, type Proof, type Step, secondMs } from '../reading/reading.ts';
import type { ListStream, Row } from '../streams/stream.ts';
import { chooseAtRandom, completeThrough, countFindings, noteUnread, writeFindings } from '../warehouse/audit.ts';
import type { Claim } from '../warehouse/claims.ts';
import { keepBooks, noCounts } from '../warehouse/commit.ts';
import { isRedundant } from '../warehouse/coverage.ts';
import { knownCuts } from '../warehouse/cuts.ts';
import { transaction } from '../warehouse/pool.ts';
import { scopeOf } from '../warehouse/sweep.ts';
import {
  askedOf,
  countLive,
  countTickets,
  idsAfter,
  movePlace,
  noteCounts,
  orphans,
  placeOf,
  ticketsAfter,
  ticketsForAllNames,
  unshownTickets,
} from '../warehouse/verifications.ts';
import { listBatch, pageOf, singleBatch } from './batch.ts';
import {
  type Compared,
  type Examined,
  examineGone,
  examineRecords,
  examineTicket,
  type Look,
  noteGone,
  options,
} from './compare.ts';
import { laneOf, type Outcome } from './sync.ts';

interface Verifying {
  readonly look: Look;
  readonly stream: ListStream<Row>;
  readonly compared: Compared;
  /** Records that could not be compared. */
  unread: number;
  /** Those that were written while they were asked for. */
  readonly late: Set<string>;
  readonly holes: string[];
}

/** Looked up at once. */
const batchSize = 100;

export async function verifyStream(ctx: Context, claim: Claim, compared: Compared): Promise<Outcome> {
  const { sample, repair } = await askedOf(ctx.pg, claim.run);
  const name = claim.stream as keyof Compared;
  const table = name === 'messages' ? 'tickets' : name;
  const live = await countLive(ctx.pg, claim.account, table);
  const expected = Math.min(sample ?? live, live);
  const look = { ctx, claim, repair, random: sample !== null, expected };
  const stream = compared[name === 'messages' ? 'tickets' : name];
  const verifying: Verifying = { look, stream, compared, unread: 0, late: new Set(), holes: [] };
  if (name === 'messages') await verifyMessages(verifying);
  else if (name === 'users') await verifyWhole(verifying);
  else {
    for (const list of await listsOf(ctx, claim, stream)) {
      if ((await placeOf(ctx.pg, claim, list)) === undefined) await countList(verifying, list);
      if (sample !== null) continue;
      if (name === 'tickets') await verifyList(verifying, list);
      else await verifyWhole(verifying);
    }
    if (sample !== null) await verifySample(verifying, sample);
  }
  if (stream.get !== undefined) await examineUnshown(verifying, [...verifying.late]);
  if (sample === null && (name === 'customers' || name === 'messages')) await verifyHanging(verifying, name);
  const { unread, holes } = verifying;
  const missing = [...holes, ...(unread > 0 ? [`${unread} records could not be compared`] : [])];
  return { partly: missing.length > 0 ? missing.join('; ') : undefined };
}

function note(verifying: Verifying, { unread, late }: Examined): void {
  verifying.unread += unread;
  for (const id of late) verifying.late.add(id);
}

async function listsOf(ctx: Context, claim: Claim, stream: ListStream<Row>): Promise<string[]> {
  const lists: string[] = [];
  for (const { name } of stream.lists) if (!(await isRedundant(ctx.pg, claim, name))) lists.push(name);
  return lists;
}

// --- counts ------------------------------------------------------------------------------------------------------------

/**
 * How many the source counts of what was created before the stream is complete here. Whether `since` includes its own second
 * is not known, so that those of this second may be among them or not. Where the mirror begins later than the source, or the
 * count stops at the depth of paging, nothing is said.
 */
async function countList({ look: { ctx, claim }, stream }: Verifying, list: string): Promise<void> {
  const none = { list, ours: null, theirs_least: null, theirs_most: null };
  const isTickets = stream.name === 'tickets';
  const through = floorSecond((await completeThrough(ctx.pg, claim.account, stream.name)) ?? 0);
  const { sinceMs } = await sinceOf(ctx, claim);
  if (isTickets && sinceMs > 0) return noteCounts(ctx.pg, claim, none);
  const count = async (since?: Ms) => {
    const ask = { page: 1, perPage: 0, count: true, order: 'created', ...(since !== undefined && { since }) } as const;
    const { total } = await ctx.helpdesk.send(stream.request(list, ask), { lane: laneOf(claim), signal: ctx.signal });
    return total === undefined || total === stream.paging.depth ? undefined : total;
  };
  const all = await count();
  const newer = await count(isTickets ? through : through - secondMs);
  if (all === undefined || newer === undefined) return noteCounts(ctx.pg, claim, none);
  if (!isTickets) {
    const ours = await countLive(ctx.pg, claim.account, 'customers');
    return noteCounts(ctx.pg, claim, { list, ours, theirs_least: all - newer, theirs_most: all });
  }
  const { before, within } = await countTickets(ctx.pg, claim.account, list, through);
  const theirs = all - newer;
  await noteCounts(ctx.pg, claim, { list, ours: before, theirs_least: theirs - within, theirs_most: theirs });
}

const sinceOf = (ctx: Context, claim: Claim) => scopeOf(ctx.pg, { ...claim, stream: 'tickets' });

// --- by creation -------------------------------------------------------------------------------------------------------

async function verifyList(verifying: Verifying, list: string): Promise<void> {
  const { look, stream, holes } = verifying;
  const { ctx, claim } = look;
  const { sinceMs } = await sinceOf(ctx, claim);
  const before = (await placeOf(ctx.pg, claim, list))?.place;
  const cuts = await knownCuts(ctx.pg, claim, stream.enumerations.type ?? []);
  const reading = readByCreation(before ? Number(before) : 0, {
    ...stream.paging,
    lookbackMs: ctx.helpdesk.lookbackMs,
    cuts,
    updatedSince: sinceMs > 0 ? sinceMs - secondMs : undefined,
  });
  const shown = new Map<string, Ms>();
  let step: IteratorResult<Step, Proof> = reading.next();
  while (!step.done) {
    const { ask } = step.value;
    const { reply, askedMs } = await readPage(look, stream, list, ask);
    const page = pageOf(stream, reply, ask.order);
    for (const { id } of reply.unreadable) if (id !== undefined) shown.set(id, Number.NaN);
    for (const { id, time } of page.rows) shown.set(id, time);
    step = reading.next(page);
    const proof = step.done ? step.value : step.value.proof;
    const batch = listBatch(stream, ask, reply);
    const updated = (record: Row) => stream.orderedBy(record);
    note(verifying, await examineRecords(look, { stream, reply, batch, askedMs, updated }));
    if (proof.hole) holes.push(`${list} list, ${new Date(proof.hole.from).toISOString()}: ${proof.hole.reason}`);
    if (!proof.covered) continue;
    const range = proof.covered;
    const what = { range, shown: [...shown.keys()], sinceMs };
    await examineUnshown(verifying, await unshownTickets(ctx.pg, claim.account, list, what));
    for (const [id, time] of shown) if (time < range.to) shown.delete(id);
    await movePlace(ctx.pg, claim, list, String(range.to));
  }
  const undated = { range: undefined, shown: [...shown.keys()], sinceMs };
  await examineUnshown(verifying, await unshownTickets(ctx.pg, claim.account, list, undated));
}

async function readPage(
  { ctx, claim }: Look,
  stream: ListStream<Row>,
  list: string,
  ask: Step['ask'],
): Promise<{ reply: Reply<Row>; askedMs: Ms }> {
  ctx.signal.throwIfAborted();
  const askedMs = ctx.clock.now();
  const reply = await ctx.helpdesk.send(stream.request(list, ask), { lane: laneOf(claim), signal: ctx.signal });
  return { reply, askedMs };
}

/** A list may hide what exists: each is asked for by its id. */
async function examineUnshown(verifying: Verifying, ids: readonly string[]): Promise<void> {
  for (const id of ids) await examineById(verifying, id);
}

async function examineById(verifying: Verifying, id: string): Promise<void> {
  const { look, stream } = verifying;
  const { ctx } = look;
  ctx.signal.throwIfAborted();
  const askedMs = ctx.clock.now();
  try {
    const reply = await ctx.helpdesk.send(stream.get!(id), options(look));
    const updated = stream.name === 'tickets' ? (record: Row) => stream.orderedBy(record) : undefined;
    const isIt = reply.records[0]?.id === id;
    const batch = singleBatch(stream, reply);
    if (!isIt) verifying.unread++;
    else {
      const { unread, late } = await examineRecords(look, { stream, reply, batch, askedMs, updated });
      verifying.unread += unread + late.length;
    }
  } catch (error) {
    if (error instanceof Gone) await examineGone(look, stream, id);
    else if (error instanceof Retry) verifying.unread++;
    else throw error;
  }
}

// --- whole lists -------------------------------------------------------------------------------------------------------

/** Customers and users: what none of the pages showed is asked for by its id, or where that cannot be, in a second reading. */
async function verifyWhole(verifying: Verifying): Promise<void> {
  const { look, stream } = verifying;
  const { ctx, claim } = look;
  const [{ name: list }] = stream.lists;
  const first = await readWhole(verifying, list, true);
  if (first === undefined) return;
  const unshown: string[] = [];
  for (let after = ''; ; ) {
    const ids = await idsAfter(ctx.pg, claim.account, stream.name as 'customers' | 'users', after, batchSize);
    if (ids.length === 0) break;
    unshown.push(...ids.filter(id => !first.shown.has(id)));
    after = ids.at(-1)!;
  }
  if (stream.get !== undefined) return examineUnshown(verifying, unshown);
  if (unshown.length === 0) return;
  const second = await readWhole(verifying, list, false);
  if (second === undefined) return;
  for (const id of unshown.filter(one => !second.shown.has(one))) {
    const { askedMs, asOfMs } = second;
    await noteGone(look, stream.name, id, {
      askedMs,
      asOfMs,
      random: look.random,
      repair: look.repair,
      more: undefined,
    });
  }
}

/** The ids that it shows; undefined if it could not be read to its end. */
async function readWhole(
  verifying: Verifying,
  list: string,
  compares: boolean,
): Promise<{ shown: Set<string>; askedMs: Ms; asOfMs: Ms } | undefined> {
  const { look, stream, holes } = verifying;
  const { ctx, claim } = look;
  const { lookbackMs } = ctx.helpdesk;
  const begunMs = (await completeThrough(ctx.pg, claim.account, stream.name)) ?? 0;
  const reading = stream.read(0, { ...stream.paging, lookbackMs, firstLoad: true });
  const shown = new Set<string>();
  const newcomers = new Set<string>();
  let first: { askedMs: Ms; asOfMs: Ms } | undefined;
  let isWhole = true;
  let step: IteratorResult<Step, Proof> = reading.next();
  while (!step.done) {
    const { ask } = step.value;
    const { reply, askedMs } = await readPage(look, stream, list, ask);
    first ??= { askedMs, asOfMs: reply.asOf };
    if (reply.unreadable.some(({ id }) => id === undefined)) isWhole = false;
    for (const { id } of [...reply.records, ...reply.unreadable]) if (id !== undefined) shown.add(id);
    step = reading.next(pageOf(stream, reply, ask.order));
    const proof = step.done ? step.value : step.value.proof;
    if (proof.hole) {
      holes.push(`${list} list, ${new Date(proof.hole.from).toISOString()}: ${proof.hole.reason}`);
      isWhole = false;
    }
    if (!compares) continue;
    const batch = listBatch(stream, ask, reply);
    const examined = await examineRecords(look, { stream, reply, batch, askedMs });
    const { undecided } = examined;
    note(verifying, examined);
    if (undecided.length === 0) continue;
    // Not here: they may have come since the last sync.
    if (!undecided.every(id => newcomers.has(id)) && !(await readNewcomers(verifying, list, begunMs, newcomers)))
      // More than paging reaches: of none it can be said that it is missing.
      for (const id of undecided) newcomers.add(id);
    const left = { ...batch, records: batch.records.filter(({ id }) => undecided.includes(id)) };
    await examineRecords(look, { stream, reply, batch: left, askedMs, newcomers, uncounted: true });
  }
  return isWhole && first ? { shown, ...first } : undefined;
}

/** What was created since then. False if that is more than paging reaches. */
async function readNewcomers(
  { look, stream }: Verifying,
  list: string,
  sinceMs: Ms,
  newcomers: Set<string>,
): Promise<boolean> {
  const { perPage, depth } = stream.paging;
  const since = Math.max(0, sinceMs - secondMs);
  for (let page = 1; page * perPage <= depth; page++) {
    const { reply } = await readPage(look, stream, list, { since, page, perPage });
    for (const { id } of reply.records) newcomers.add(id);
    if (reply.arrived < perPage) return true;
  }
  return false;
}

// --- by id -------------------------------------------------------------------------------------------------------------

async function verifySample(verifying: Verifying, sample: number): Promise<void> {
  const { look, stream, compared } = verifying;
  const { ctx, claim } = look;
  const limit = sample - (await countFindings(ctx.pg, claim));
  for (const id of await chooseAtRandom(ctx.pg, claim, { limit, chance: ctx.random() })) {
    ctx.signal.throwIfAborted();
    const { unread } = verifying;
    if (stream.name !== 'tickets') await examineById(verifying, id);
    else if (!(await examineTicket(look, compared, id, { whole: true }))) verifying.unread++;
    if (verifying.unread > unread)
      await noteUnread(ctx.pg, claim, id, ctx.helpdesk.send.sourceNow() ?? ctx.clock.now());
  }
}

/** All tickets by their ids: each with its messages, and with it the names that it is the one to tell. */
async function verifyMessages(verifying: Verifying): Promise<void> {
  const { look, compared } = verifying;
  const { ctx, claim } = look;
  const embeds = await ticketsForAllNames(ctx.pg, claim.account);
  for (let after = (await placeOf(ctx.pg, claim, 'default'))?.place ?? ''; ; ) {
    const ids = await ticketsAfter(ctx.pg, claim, after, batchSize);
    if (ids.length === 0) return;
    for (const id of ids) {
      ctx.signal.throwIfAborted();
      const more = (client: Pick<typeof ctx.pg, 'query'>) => movePlace(client, claim, 'default', id);
      const ok = await examineTicket(look, compared, id, { whole: false, embeds: embeds.get(id) ?? [], more });
      if (!ok) verifying.unread++;
    }
    after = ids.at(-1)!;
  }
}

/** Rows that hang on a record that is not here: no reply shows them, and nobody else would miss them. */
async function verifyHanging({ look }: Verifying, stream: 'customers' | 'messages'): Promise<void> {
  const { ctx, claim, repair, random } = look;
  const at = { nowMs: ctx.clock.now(), asOfMs: ctx.helpdesk.send.sourceNow() ?? ctx.clock.now() };
  await transaction(ctx.pg, async client => {
    const found = await orphans(client, claim, stream, repair);
    const findings = found.map(({ table, parent, ids }) => ({
      stream,
      record: parent,
      differences: { [`${table}.row`]: [Object.fromEntries(ids.map(id => [id, 'there'])), {}] as const },
      kind: 'only here',
      oursAsOf: null,
      repaired: repair,
    }));
    await writeFindings(client, claim, findings, { ...at, random });
    const deleted = repair ? found.reduce((sum, { ids }) => sum + ids.length, 0) : 0;
    await keepBooks(client, claim, at, {
      counts: { ...noCounts(), deleted, credits: 0 },
      rejects: [],
      stored: [],
      drift: [],
    });
  });
}
