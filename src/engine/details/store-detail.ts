/** Stores the detail of one record: the record, its members and the embedded names, in one transaction. */

import type { Row } from '../../sources/source.ts';
import { commitWork, keepBooks } from '../commit/commit.ts';
import {
  add,
  type Batch,
  type Care,
  type Moment,
  noCounts,
  type Reject,
  type Tx,
  type Writer,
  type Written,
} from '../commit/page.ts';
import { writeBatch } from '../commit/rows.ts';
import { type Context, sourceOf } from '../context.ts';
import { type Client, transaction } from '../database/pool.ts';
import { bury } from '../deletions/bury.ts';
import { buriedBy } from '../deletions/lag.ts';
import type { Reply, Unreadable } from '../http/request.ts';
import { fieldsOf, objectOf } from '../json-text.ts';
import { driftOf, driftOfTaken, rejectOf, singleBatch } from '../load/batch.ts';
import type { Entry, NewSet, Rows } from '../load/commit-queue.ts';
import { farFuture, type Ms } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import { beginAgain } from '../runs/ranges.ts';
import type { Counts } from '../runs/runs.ts';
import { claimMembers, claimSame, keepReading, type Same } from './claim-members.ts';
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
  const write = async (client: Client, care: Care, before?: Written) => {
    const found = await reading;
    const tx = { client, claim, at: moment(), care };
    const written = await writeDetail(tx, stream, { reply, found }, wanted, before);
    const { current, seen, counts, refused, members, unreadable, takenOver, mayClear } = written;
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
  const set: NewSet<Same> = {
    record: claimOf(stream, reply, record),
    claim: (client, records) => claimSame(client, writer, stream, records, { ...at(), onlyFirst: true }),
  };
  return { batch: found.batch, writer, at, versions: new Map(ids.map(id => [id, undefined])), set };
}

/** What a claim of members asks of the stored record. */
function claimOf(stream: Detail, reply: Reply<Row>, record: Row): Same {
  // A list of members is true as of its reply, whatever the version of the record.
  if (stream.version === undefined) return { id: record.id, updatedMs: farFuture, asOfMs: reply.asOf, text: undefined };
  const updatedMs = stream.version(record);
  const isAhead = updatedMs >= reply.trueBy;
  return { id: record.id, updatedMs, asOfMs: reply.asOf, isAhead, text: parentBatch(stream, reply).record(0) };
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

/** Writes the rows of a detail, without counters and rejects. `before`: a merge for several records has written the members. */
export async function writeDetail(
  tx: Tx<Writer>,
  stream: Detail,
  { reply, found }: { readonly reply: Reply<Row>; readonly found: Members | undefined },
  wanted: Wanted,
  before?: Written,
): Promise<WrittenDetail> {
  const { client, claim: writer, at, care } = tx;
  const [record] = reply.records;
  const whole = singleBatch(stream.of, reply);
  const unreadable = [...reply.unreadable, ...(found?.unreadable ?? [])];
  const counts = noCounts();
  const refused = unreadable.map(one => rejectOf(one, found?.batch ?? whole, wanted.id));
  let current = false;
  let takenOver: Written['takenOver'] = {};
  let mayClear = true;
  if (record && found && before) {
    current = true;
    add(counts, before.counts);
    mayClear = before.mayClear.rejects;
  } else if (record && found) {
    const claimed = claimOf(stream, reply, record);
    // Usually the list has just stored the same record. A claim that finds it so saves the merge.
    let taken =
      care === 'as it came' && claimed.text !== undefined
        ? (await claimSame(client, writer, stream, [claimed], { ...at, onlyFirst: false })).get(claimed)
        : undefined;
    if (!taken && claimed.text !== undefined) {
      const parent = await writeBatch(tx, parentBatch(stream, reply));
      refused.push(...parent.rejects.map(reject => ({ ...reject, askId: wanted.id })));
      counts.cleaned += parent.counts.cleaned;
    }
    taken ??= await claimMembers(client, writer, stream, claimed, at.sourceMs);
    current = taken !== undefined;
    if (taken) {
      const members = taken.first ? { ...found.batch, parents: [] } : found.batch;
      const written = await writeBatch(tx, members);
      add(counts, written.counts);
      const { inserted, updated, deleted } = written.counts;
      if (inserted + updated + deleted > 0) await keepReading(client, writer, stream, taken, at);
      refused.push(...written.rejects.map(reject => ({ ...reject, askId: wanted.id })));
      takenOver = written.takenOver;
      mayClear = written.mayClear.rejects;
    }
  }
  if (record && found) {
    const named = await writeNames(tx, stream, reply, record, wanted);
    refused.push(...named.refused);
    counts.cleaned += named.cleaned;
  }
  const seen = found ? found.members.length + found.unreadable.length : 0;
  return { current, seen, counts, refused, members: found?.members ?? [], unreadable, takenOver, mayClear };
}

/** The record as a batch, without members and names, which are most of its text. PostgreSQL may refuse them, too. */
function parentBatch(stream: Detail, reply: Reply<Row>): Batch {
  const others = new Set<string>([stream.membersField, ...stream.names.map(name => name.embed)]);
  return singleBatch(stream.of, { ...reply, text: keepFields(reply.text, field => !others.has(field)) });
}

function keepFields(json: string, keep: (field: string) => boolean): string {
  return objectOf([...fieldsOf(json)].filter(([field]) => keep(field)));
}

/** Writes the tombstones of a record that the source deleted, and of its members. If it returns, its members become pending again. */
export const markDeleted = (ctx: Context, claim: Claim, { of }: Detail, id: string, asOfMs: Ms): Promise<void> =>
  commitWork(ctx, claim, asOfMs, async (client, { nowMs }) => {
    const source = sourceOf(ctx, of.source);
    const { lookbackMs } = source;
    const gone = { goneMs: buriedBy(source, asOfMs), beforeMs: asOfMs + 1, nowMs, lookbackMs };
    return { counts: { deleted: await bury(client, claim, of, [id], gone) }, stored: [id] };
  });
