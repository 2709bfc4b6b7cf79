/**
 * Compares a list that is read whole with the mirror: each page record by record, then the rows that no page showed. A row
 * that the list lacks is fetched by id. Without a read by id a second reading must lack it too.
 */
import { Gone, Retry } from '../../errors.ts';
import type { ListStream, Row } from '../../sources/source.ts';
import { count } from '../../words.ts';
import { keepBooks, noCounts } from '../commit/commit.ts';
import { isAhead } from '../commit/merge.ts';
import { type Context, sourceOf, takeCredits } from '../context.ts';
import { type Client, transaction } from '../database/pool.ts';
import { bury } from '../deletions/bury.ts';
import { buriedBy } from '../deletions/lag.ts';
import type { Reply } from '../http/request.ts';
import { listBatch, pageOf, singleBatch } from '../load/batch.ts';
import { laneOf } from '../load/commit-reply.ts';
import type { Outcome } from '../load/list-loop.ts';
import { unlessTooLarge } from '../load/too-large.ts';
import { inFewer } from '../reading/fewer.ts';
import type { Ms, Proof, Step } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import {
  type Absent,
  type Examined,
  examine,
  type Look,
  noteAbsent,
  type Subject,
  type Verdict,
} from './compare-reply.ts';
import { kindOfEdit } from './difference-kinds.ts';
import { completeThrough, countFindings, noteUnread, type Standing, writeFindings } from './findings.ts';
import { orphansOf, parentsLost, partsOfMerge, takeAway } from './orphans.ts';
import { askedOf } from './verifications.ts';

type Asked = { readonly askedMs: Ms; readonly asOfMs: Ms };

/** Tries for one record before the next one gets its turn. */
const fewTries = 4;

export async function verifyWholeList(ctx: Context, claim: Claim, stream: ListStream<Row>): Promise<Outcome> {
  const { sample, repair } = await askedOf(ctx.pg, claim.run);
  const live = await idsOf(ctx, claim, stream);
  const look: Look = {
    ctx,
    claim,
    repair,
    random: sample !== null,
    expected: Math.min(sample ?? live.length, live.length),
  };
  const unread = await (sample === null ? verifyAll(look, stream, live) : verifySample(look, stream, sample));
  await noteOrphans(look, stream);
  return { partial: unread > 0 ? `${count(unread, 'record')} could not be compared` : undefined };
}

/** Answers how many records could not be compared. */
async function verifyAll(look: Look, stream: ListStream<Row>, live: readonly string[]): Promise<number> {
  const { ctx, claim } = look;
  const throughMs = (await completeThrough(ctx.pg, claim.account, claim.stream)) ?? 0;
  let unread = 0;
  const late: string[] = [];
  const first = await readAll(look, stream, async (reply, ask, asked) => {
    const examined = await compare(look, stream, reply, listBatch(stream, ask, reply), { ...asked, throughMs });
    unread += examined.unread;
    late.push(...examined.late);
  });
  if (first === undefined) return unread + 1;
  const unshown = live.filter(id => !first.shown.has(id));
  const { get } = stream;
  if (get !== undefined) {
    for (const id of [...late, ...unshown]) if (!(await verifyById(look, stream, get(id), id, throughMs))) unread++;
    return unread;
  }
  unread += late.length;
  if (unshown.length === 0) return unread;
  const second = await readAll(look, stream, async () => {});
  if (second === undefined) return unread + unshown.length;
  for (const id of unshown.filter(one => !second.shown.has(one)))
    if (!(await noteMissing(look, stream, id, second))) unread++;
  return unread;
}

async function verifySample(look: Look, stream: ListStream<Row>, sample: number): Promise<number> {
  const { ctx, claim } = look;
  const { get } = stream;
  if (get === undefined) return 0;
  const throughMs = (await completeThrough(ctx.pg, claim.account, claim.stream)) ?? 0;
  const limit = sample - (await countFindings(ctx.pg, claim));
  let unread = 0;
  for (const id of await randomIds(ctx, claim, stream, limit)) {
    if (await verifyById(look, stream, get(id), id, throughMs)) continue;
    unread++;
    await noteUnread(
      ctx.pg,
      claim,
      [claim.stream],
      id,
      sourceOf(ctx, stream.source).send.sourceNow() ?? ctx.clock.now(),
    );
  }
  return unread;
}

/** The ids that the list shows; undefined if it could not be read to its end. */
async function readAll(
  { ctx, claim }: Look,
  stream: ListStream<Row>,
  onPage: (reply: Reply<Row>, ask: Step['ask'], asked: Asked) => Promise<void>,
): Promise<({ shown: Set<string> } & Asked) | undefined> {
  const { send, lookbackMs } = sourceOf(ctx, stream.source);
  const [{ name: list }] = stream.lists;
  const reading = inFewer(stream.read, 0, { ...stream.paging, lookbackMs, firstLoad: true });
  const shown = new Set<string>();
  let first: Asked | undefined;
  let isWhole = true;
  let step: IteratorResult<Step, Proof> = reading.next();
  while (!step.done) {
    ctx.signal.throwIfAborted();
    const { ask } = step.value;
    const askedMs = ctx.clock.now();
    const sent = send(stream.request(list, ask), { lane: laneOf(claim), signal: ctx.signal });
    const reply = await unlessTooLarge(sent, ask);
    const asked = { askedMs, asOfMs: reply.asOf };
    first ??= asked;
    if ('tooLarge' in reply) {
      step = reading.next(reply);
      continue;
    }
    for (const { id } of [...reply.records, ...reply.unreadable]) if (id !== undefined) shown.add(id);
    // A record without an id may be any row, and only a read by id would tell.
    if (stream.get === undefined && reply.unreadable.some(({ id }) => id === undefined)) isWhole = false;
    step = reading.next(pageOf(stream, reply, ask.order));
    await onPage(reply, ask, asked);
  }
  return isWhole && step.value.covered && first ? { shown, ...first } : undefined;
}

async function compare(
  look: Look,
  stream: ListStream<Row>,
  reply: Reply<Row>,
  batch: ReturnType<typeof listBatch>,
  { askedMs, throughMs }: { askedMs: Ms; throughMs: Ms },
): Promise<Examined> {
  const { ctx, claim } = look;
  const asOfMs = reply.asOf;
  const changed = new Map(reply.records.map(record => [record.id, stream.changedAt?.(record) ?? Number.NaN]));
  const verdict = (id: string, ours: Standing | undefined): Verdict => {
    if (ours && !ours.isOlder) return 'unjudged';
    return changed.get(id)! >= throughMs ? 'behind' : 'differs';
  };
  const subject: Subject = {
    stream: claim.stream,
    takeCredits: () => takeCredits(ctx),
    standing: (client, ids, lock) => standingIn(client, claim.account, stream, ids, { askedMs, asOfMs, lock }),
    judge: async (_client, ids, standing) => new Map(ids.map(id => [id, verdict(id, standing.get(id))])),
    kind: found => kindOfEdit(batch.merge, found, 'edited'),
  };
  return examine(look, { subject, reply: { ...reply, trueByMs: reply.shownBy }, batch });
}

/** Answers whether the record could be compared. */
async function verifyById(
  look: Look,
  stream: ListStream<Row>,
  request: ReturnType<NonNullable<ListStream<Row>['get']>>,
  id: string,
  throughMs: Ms,
): Promise<boolean> {
  const { ctx, claim } = look;
  ctx.signal.throwIfAborted();
  const askedMs = ctx.clock.now();
  try {
    const { send } = sourceOf(ctx, stream.source);
    const reply = await send(request, { lane: laneOf(claim), signal: ctx.signal, tries: fewTries });
    if (reply.records[0]?.id !== id) return false;
    const { unread, late } = await compare(look, stream, reply, singleBatch(stream, reply), { askedMs, throughMs });
    return unread + late.length === 0;
  } catch (error) {
    if (error instanceof Gone && Number.isFinite(error.asOf))
      return noteMissing(look, stream, id, { askedMs, asOfMs: error.asOf });
    if (error instanceof Gone || error instanceof Retry) return false;
    throw error;
  }
}

/** The source lacks the row. Answers whether its fate is known. */
async function noteMissing(look: Look, stream: ListStream<Row>, id: string, asked: Asked): Promise<boolean> {
  const { ctx, claim, repair } = look;
  const { askedMs, asOfMs } = asked;
  const source = sourceOf(ctx, stream.source);
  const absent: Absent = {
    ...{ stream: claim.stream, id },
    takeCredits: () => takeCredits(ctx),
    standing: async client =>
      (await standingIn(client, claim.account, stream, [id], { askedMs, asOfMs, lock: repair })).get(id),
    isBelieved: async () => true,
    markDeleted: (client, { nowMs }) =>
      bury(client, claim, stream, [id], {
        ...{ goneMs: buriedBy(source, asOfMs), beforeMs: asOfMs + 1, nowMs, lookbackMs: source.lookbackMs },
      }),
  };
  return noteAbsent(look, absent, { asOfMs });
}

/** Reports live parts of records that are missing or deleted here, and removes them if the run repairs. */
async function noteOrphans({ ctx, claim, repair, random }: Look, stream: ListStream<Row>): Promise<void> {
  const { root } = stream.merge.declared;
  const parts = partsOfMerge(stream.merge.declared);
  const nowMs = ctx.clock.now();
  const at = { nowMs, asOfMs: sourceOf(ctx, stream.source).send.sourceNow() ?? nowMs };
  for (const id of await parentsLost(ctx.pg, claim, parts))
    await transaction(ctx.pg, async client => {
      // A worker that brings the record back waits for this transaction, or has brought its parts back too.
      const { rows } = await client.query<{ is_deleted: boolean }>(
        `select _deleted_at is not null as is_deleted from ${root.name} where account_id = $1 and id = $2 for no key update`,
        [claim.account, id],
      );
      const found = rows[0]?.is_deleted === false ? undefined : await orphansOf(client, claim.account, parts, id);
      if (found === undefined) return;
      const deleted = repair ? await takeAway(client, claim, parts, id, at) : 0;
      await writeFindings(client, claim, [{ stream: claim.stream, record: id, ...found, repaired: deleted > 0 }], {
        ...at,
        random,
      });
      const counts = { ...noCounts(), deleted, credits: 0 };
      await keepBooks(client, claim, at, { counts, rejects: [], stored: [], drift: [] });
    });
}

// --- rows of the mirror ------------------------------------------------------------------------------------------------

/** How the rows of these ids stand beside a reply. `lock`: they stay as they are until the transaction ends. */
async function standingIn(
  client: Pick<Client, 'query'>,
  account: string,
  stream: ListStream<Row>,
  ids: readonly string[],
  { askedMs, asOfMs, lock }: Asked & { lock: boolean },
): Promise<Map<string, Standing>> {
  const { rows } = await client.query<Standing & { id: string }>(
    `select t.id, t._deleted_at is not null as "hasTombstone", t._observed_at as "observedAt", t._payload ->> 'id' = t.id as "isItself",
       (t._synced_at < $3 or ${isAhead('t._synced_at', '$3')}) and (t._observed_at <= $4 or ${isAhead('t._observed_at', '$4')})
         and (t._deleted_at is null or t._deleted_at <= $4 or ${isAhead('t._deleted_at', '$4')}) as "isOlder",
       null as "updatedMs", null as "hasMessages", false as waits
     from ${stream.merge.declared.root.name} t where t.account_id = $1 and t.id = any($2)
     order by t.id ${lock ? 'for no key update' : ''}`,
    [account, ids, new Date(askedMs), new Date(asOfMs)],
  );
  return new Map(rows.map(({ id, ...standing }) => [id, standing]));
}

async function idsOf(ctx: Context, { account }: Claim, stream: ListStream<Row>): Promise<string[]> {
  const { rows } = await ctx.pg.query<{ id: string }>(
    `select t.id from ${stream.merge.declared.root.name} t where t.account_id = $1 and t._deleted_at is null order by t.id`,
    [account],
  );
  return rows.map(({ id }) => id);
}

async function randomIds(ctx: Context, { account }: Claim, stream: ListStream<Row>, limit: number): Promise<string[]> {
  const { rows } = await ctx.pg.query<{ id: string }>(
    `select t.id from ${stream.merge.declared.root.name} t where t.account_id = $1 and t._deleted_at is null
     order by hashtextextended(t.id, $2), t.id limit $3`,
    [account, Math.floor(ctx.random() * 2 ** 52), Math.max(0, limit)],
  );
  return rows.map(({ id }) => id);
}
