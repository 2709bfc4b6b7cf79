/** Stores the detail of one record: the record, its members and the embedded names, in one transaction. */

import type { Row } from '../../sources/source.ts';
import { commitWork, keepBooks } from '../commit/commit.ts';
import {
  add,
  type Batch,
  type Care,
  type Moment,
  noCounts,
  nothingWritten,
  type Reject,
  type Tx,
  type Writer,
  type Written,
} from '../commit/page.ts';
import { writeBatch } from '../commit/rows.ts';
import { forgetStored, noteStored } from '../commit/stored-sets.ts';
import { type Context, sourceOf } from '../context.ts';
import { type Client, transaction } from '../database/pool.ts';
import { bury } from '../deletions/bury.ts';
import { buriedBy } from '../deletions/lag.ts';
import type { Reply, Unreadable } from '../http/request.ts';
import { objectOf } from '../json-text.ts';
import { driftOf, driftOfTaken, once, rejectOf, singleBatch } from '../load/batch.ts';
import type { Entry, MemberSet, Rows } from '../load/commit-queue.ts';
import { farFuture, type Ms } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import { beginAgain } from '../runs/ranges.ts';
import type { Counts } from '../runs/runs.ts';
import { type ClaimedMembers, claimMembers, claimSame, keepReading, type Same } from './claim-members.ts';
import type { Detail, Wanted } from './detail-rows.ts';
import type { Heard } from './details.ts';
import { detailBatch, idsIn, type Members } from './members.ts';
import { writeNames } from './names.ts';

/**
 * The record and its members. If the record cannot be stored, a reject is stored instead, so that one record does not
 * stop the others. `heard` hears whether the stored members are as new as the record, and whether anything was rejected. If
 * they are not, the record stays pending.
 */
export function detailOf(
  ctx: Context,
  claim: Claim,
  stream: Detail,
  reply: Reply<Row>,
  { wanted, heard }: { readonly wanted: Wanted; readonly heard?: Heard | undefined },
): Entry {
  const credits = sourceOf(ctx, stream.source).send.takeCredits();
  const reading = membersOf(stream, reply);
  // The writing meets the error.
  reading.catch(() => {});
  let isCurrent = false;
  let isRejected = false;
  const moment = () => {
    const sourceMs = reply.clockMovedMs === undefined ? sourceOf(ctx, stream.source).send.sourceNow() : undefined;
    return { nowMs: ctx.clock.now(), asOfMs: reply.asOf, trueByMs: reply.shownBy, sourceMs };
  };
  const write = async (client: Client, care: Care, written?: Written, claimed?: unknown) => {
    const found = await reading;
    const tx = { client, claim, at: moment(), care };
    const before = { claimed: claimed as ClaimedMembers | undefined, written };
    const done = await writeDetail(tx, stream, { reply, found }, wanted, before);
    const { current, seen, counts, refused, members, unreadable, takenOver, mayClear } = done;
    const drift = [
      ...(found?.drift ?? []),
      ...driftOf(stream, members, unreadable, counts.cleaned > 0, reply.notUtf8),
      ...driftOfTaken(stream, takenOver),
    ];
    await keepBooks(tx, {
      counts: { ...counts, seen, rejected: refused.length, credits },
      filter: stream.personal,
      rejects: refused,
      // A reply that replaced no members clears no rejects.
      stored: current && mayClear ? [wanted.id] : [],
      drift: drift.map(one => ({ ...one, of: wanted.id })),
    });
    if (claim.again && !begunAgain.has(claim)) await beginAgain(client, claim, reply.asOf);
    const [record] = reply.records;
    isRejected = refused.length > 0;
    isCurrent = current && reply.asOf >= (record ? (stream.version?.(record) ?? 0) : 0);
  };
  const refused = ({ message }: Error) => {
    const payload = stream.list ? {} : { payload: reply.text };
    const reject = { recordId: wanted.id, askId: wanted.id, reason: message, ...payload };
    const at = { nowMs: ctx.clock.now(), asOfMs: reply.asOf };
    return transaction(ctx.pg, client =>
      keepBooks(
        { client, claim, at },
        { counts: { rejected: 1, credits }, filter: stream.personal, rejects: [reject] },
      ),
    );
  };
  const committed = () => {
    begunAgain.add(claim);
    heard?.(isCurrent, isRejected);
  };
  const rows = async () => rowsOf(claim, stream, reply, await reading, moment);
  return { write, rows, refused, committed, size: reply.text.length };
}

/** The members, for a merge with those of other records. */
function rowsOf(
  writer: Writer,
  stream: Detail,
  reply: Reply<Row>,
  found: Members | undefined,
  at: () => Moment,
): Rows | undefined {
  const [record] = reply.records;
  if (!record || !found || reply.clockMovedMs !== undefined) return undefined;
  const ids = [record.id, ...idsIn(stream, found.members)];
  const set: MemberSet<Same, ClaimedMembers> = {
    record: claimOf(stream, reply, record, found),
    claim: (client, records) => claimSame(client, writer, stream, records, at()),
    note: (client, written) => noteWhole(client, writer, stream, written),
  };
  return { batch: found.batch, writer, at, versions: new Map(ids.map(id => [id, undefined])), set };
}

/** What a claim of members asks of the stored record. */
function claimOf(stream: Detail, reply: Reply<Row>, record: Row, found: Members): Same {
  const claimed = { id: record.id, asOfMs: reply.asOf, digest: found.digest() };
  // A list of members is true as of its reply, whatever the version of the record.
  if (stream.version === undefined) return { ...claimed, updatedMs: farFuture, text: undefined };
  const updatedMs = stream.version(record);
  const text = parentBatch(stream, reply, found).record(0);
  return { ...claimed, updatedMs, isAhead: updatedMs >= reply.trueBy, text };
}

/** Notes the sets that are stored just as their replies showed them. */
async function noteWhole(
  client: Client,
  { account }: Writer,
  stream: Detail,
  sets: ReadonlyMap<Pick<Same, 'id' | 'digest'>, Pick<ClaimedMembers, 'versions'>>,
): Promise<void> {
  const known = [...sets].flatMap(([{ id, digest }, { versions }]) =>
    digest === undefined ? [] : [{ id, digest, versions }],
  );
  if (known.length > 0) await noteStored(client, account, stream, known);
}

/** Runs that are known to have noted when they began to read again. */
const begunAgain = new WeakSet<Claim>();

interface WrittenDetail {
  /** Whether the stored members are now those of the reply. */
  readonly current: boolean;
  /** Number of members in the reply. */
  readonly seen: number;
  readonly counts: Omit<Counts, 'credits'>;
  readonly refused: readonly Reject[];
  readonly members: readonly Row[];
  readonly unreadable: readonly Unreadable[];
  readonly takenOver: Written['takenOver'];
  /** Whether earlier rejects of the members are resolved by this reply. */
  readonly mayClear: boolean;
}

/** The members in a reply; undefined if the record is invalid. */
export async function membersOf(stream: Detail, reply: Reply<Row>): Promise<Members | undefined> {
  const [record] = reply.records;
  return record && detailBatch(stream, record, reply);
}

/** What is done of a reply that shares a transaction with others. */
interface Before {
  readonly claimed?: ClaimedMembers | undefined;
  /** A merge for several records has written the members. */
  readonly written?: Written | undefined;
}

/** The record is asked for again. Members that are a list of their own have ids that are unique within it only. */
export const rejectWithin =
  ({ list }: Detail, askId: string) =>
  (reject: Reject): Reject => ({ ...reject, askId, ...(list && { of: askId }) });

/** Writes the rows of a detail, without counters and rejects. */
export async function writeDetail(
  tx: Tx<Writer>,
  stream: Detail,
  { reply, found }: { readonly reply: Reply<Row>; readonly found: Members | undefined },
  wanted: Wanted,
  before: Before = {},
): Promise<WrittenDetail> {
  const [record] = reply.records;
  const whole = singleBatch(stream.of, reply);
  const unreadable = [...reply.unreadable, ...(found?.unreadable ?? [])];
  const counts = noCounts();
  const rejectIn = rejectWithin(stream, wanted.id);
  const refused = unreadable.map(one => rejectIn(rejectOf(one, found?.batch ?? whole)));
  const refuse = ({ rejects }: Written) => refused.push(...rejects.map(rejectIn));
  let current = false;
  let takenOver: Written['takenOver'] = {};
  let mayClear = true;
  if (record && found) {
    const asked = once(() => claimOf(stream, reply, record, found));
    let { claimed } = before;
    if (!claimed) {
      const taken = await claimOne(tx, stream, asked(), parentBatch(stream, reply, found));
      if (taken.parent) refuse(taken.parent);
      counts.cleaned += taken.parent?.counts.cleaned ?? 0;
      ({ claimed } = taken);
    }
    current = claimed !== undefined;
    if (claimed) {
      const written = before.written ?? (await writeMembers(tx, stream, asked(), claimed, found));
      add(counts, written.counts);
      if (!before.written) refuse(written);
      takenOver = before.written ? {} : written.takenOver;
      mayClear = written.mayClear.rejects;
    }
    const named = await writeNames(tx, stream, reply, record, wanted);
    refused.push(...named.refused);
    counts.cleaned += named.cleaned;
  }
  const seen = found ? found.members.length + found.unreadable.length : 0;
  return { current, seen, counts, refused, members: found?.members ?? [], unreadable, takenOver, mayClear };
}

/** Claims the members of one record, which is written first unless it is stored already. */
async function claimOne(
  tx: Tx<Writer>,
  stream: Detail,
  asked: Same,
  parent: Batch,
): Promise<{ readonly claimed: ClaimedMembers | undefined; readonly parent?: Written }> {
  const { client, claim: writer, at, care } = tx;
  // Usually the list has just stored the same record. A claim that finds it so saves the merge.
  if (care === 'as it came') {
    const claimed = (await claimSame(client, writer, stream, [asked], at)).get(asked);
    if (claimed) return { claimed };
  }
  const written = asked.text === undefined ? {} : { parent: await writeBatch(tx, parent) };
  return { claimed: await claimMembers(client, writer, stream, asked, at.sourceMs), ...written };
}

/** Writes the members of a claimed record, if their rows are not just those of the reply. */
async function writeMembers(
  tx: Tx<Writer>,
  stream: Detail,
  asked: Same,
  claimed: ClaimedMembers,
  { batch, members }: Members,
): Promise<Written> {
  const { client, claim: writer, at, care } = tx;
  if (claimed.same && care === 'as it came') {
    const seen = new Set(members.map(({ id }) => id)).size;
    const nothing = nothingWritten({ rejects: claimed.rejects, candidates: true });
    return { ...nothing, counts: { ...nothing.counts, seen, unchanged: seen } };
  }
  const written = await writeBatch(tx, claimed.first ? { ...batch, parents: [] } : batch);
  const { inserted, updated, deleted } = written.counts;
  const isChanged = inserted + updated + deleted > 0;
  if (isChanged) await keepReading(client, writer, stream, claimed, at);
  if (written.isWhole && asked.digest !== undefined)
    await noteWhole(client, writer, stream, new Map([[asked, claimed]]));
  else if (isChanged && !claimed.first) await forgetStored(client, writer.account, stream.key, asked.id);
  return written;
}

/** The record as a batch, without members and names, which are most of its text. PostgreSQL may refuse them, too. */
function parentBatch(stream: Detail, reply: Reply<Row>, { fields }: Pick<Members, 'fields'>): Batch {
  const others = new Set<string>([stream.membersField, ...stream.names.map(name => name.embed)]);
  return singleBatch(stream.of, { ...reply, text: objectOf([...fields()].filter(([field]) => !others.has(field))) });
}

/** Writes the tombstones of a record that the source deleted, and of its members. If it returns, its members become pending again. */
export const markDeleted = (ctx: Context, claim: Claim, { of }: Detail, id: string, asOfMs: Ms): Promise<void> =>
  commitWork(ctx, claim, asOfMs, async (client, { nowMs }) => {
    const source = sourceOf(ctx, of.source);
    const { lookbackMs } = source;
    const gone = { goneMs: buriedBy(source, asOfMs), beforeMs: asOfMs + 1, nowMs, lookbackMs };
    return { counts: { deleted: await bury(client, claim, of, [id], gone) }, stored: [id] };
  });
