/** Stores the detail of one record: the record, its members and the embedded names, in one transaction. */

import { commitWork, keepBooks } from '../../../engine/commit/commit.ts';
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
} from '../../../engine/commit/page.ts';
import { attempt, writeBatch } from '../../../engine/commit/rows.ts';
import type { Context } from '../../../engine/context.ts';
import { type Client, transaction } from '../../../engine/database/pool.ts';
import { buriedBy } from '../../../engine/deletions/lag.ts';
import { parseJson } from '../../../engine/exact-json.ts';
import type { Reply, Unreadable } from '../../../engine/http/request.ts';
import { cleanJson, cleanText, elementsOf, fieldsOf, objectOf } from '../../../engine/json-text.ts';
import {
  detailBatch,
  driftOf,
  driftOfTaken,
  idsIn,
  type Members,
  rejectOf,
  singleBatch,
} from '../../../engine/load/batch.ts';
import type { Entry, NewSet, Rows } from '../../../engine/load/commit-queue.ts';
import type { Ms } from '../../../engine/reading/reading.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import { beginAgain } from '../../../engine/runs/ranges.ts';
import type { Counts } from '../../../engine/runs/runs.ts';
import type { DetailStream, Name, Row } from '../../source.ts';
import { helpdeskOf } from '../open.ts';
import { claimMessages, claimSame, keepReading, type Same } from './claim-messages.ts';
import { markTicketDeleted, nameThem, type Waiting } from './waiting.ts';

export type Detail = DetailStream<Row, Row>;

/**
 * The record and its members. If the record cannot be stored, a reject is stored instead, so that one ticket does not
 * stop the others. `stored` hears whether the stored members are as new as the record, and whether anything was rejected. If
 * they are not, the ticket stays pending.
 */
export function detailOf(
  ctx: Context,
  claim: Claim,
  stream: Detail,
  reply: Reply<Row>,
  ticket: Wanted,
  stored: (current: boolean, isRejected: boolean) => void = () => {},
): Entry {
  const credits = helpdeskOf(ctx).send.takeCredits();
  const reading = membersOf(stream, reply);
  // The writing meets the error.
  reading.catch(() => {});
  let isCurrent = false;
  let isRejected = false;
  const moment = () => {
    const sourceMs = reply.clockMovedMs === undefined ? helpdeskOf(ctx).send.sourceNow() : undefined;
    return { nowMs: ctx.clock.now(), asOfMs: reply.asOf, trueByMs: reply.shownBy, sourceMs };
  };
  const write = async (client: Client, care: Care, before?: Written) => {
    const found = await reading;
    const tx = { client, claim, at: moment(), care };
    const written = await writeDetail(tx, stream, { reply, found }, ticket, before);
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
      stored: current && mayClear ? [ticket.id] : [],
      drift: drift.map(one => ({ ...one, of: ticket.id })),
    });
    if (claim.again && !begunAgain.has(claim)) await beginAgain(client, claim, reply.asOf);
    const [record] = reply.records;
    isRejected = refused.length > 0;
    isCurrent = current && reply.asOf >= (record ? stream.version(record) : 0);
  };
  const refused = ({ message }: Error) => {
    const reject = { recordId: ticket.id, askId: ticket.id, reason: message, payload: reply.text };
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
    stored(isCurrent, isRejected);
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
    claim: (client, tickets) => claimSame(client, writer, tickets, at(), { onlyFirst: true }),
  };
  return { batch: found.batch, writer, at, versions: new Map(ids.map(id => [id, undefined])), set };
}

/** What a claim of messages asks of the stored ticket. */
function claimOf(stream: Detail, reply: Reply<Row>, record: Row): Same {
  const updatedMs = stream.version(record);
  const isAhead = updatedMs >= reply.trueBy;
  return { id: record.id, updatedMs, asOfMs: reply.asOf, isAhead, text: parentBatch(stream, reply).record(0) };
}

/** Runs that are known to have noted when they began to read again. */
const begunAgain = new WeakSet<Claim>();

/** A record whose members are requested, with its due names. */
export type Wanted = Pick<Waiting, 'id' | 'due'>;

export interface WrittenDetail {
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
  ticket: Wanted,
  before?: Written,
): Promise<WrittenDetail> {
  const { client, claim: writer, at, care } = tx;
  const [record] = reply.records;
  const whole = singleBatch(stream.of, reply);
  const unreadable = [...reply.unreadable, ...(found?.unreadable ?? [])];
  const counts = noCounts();
  const refused = unreadable.map(one => rejectOf(one, found?.batch ?? whole, ticket.id));
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
      care === 'as it came'
        ? (await claimSame(client, writer, [claimed], at, { onlyFirst: false })).get(claimed)
        : undefined;
    if (!taken) {
      const parent = await writeBatch(tx, parentBatch(stream, reply));
      refused.push(...parent.rejects.map(reject => ({ ...reject, askId: ticket.id })));
      counts.cleaned += parent.counts.cleaned;
      taken = await claimMessages(client, writer, claimed, at.sourceMs);
    }
    current = taken !== undefined;
    if (taken) {
      const members = taken.first ? { ...found.batch, parents: [] } : found.batch;
      const written = await writeBatch(tx, members);
      add(counts, written.counts);
      const { inserted, updated, deleted } = written.counts;
      if (inserted + updated + deleted > 0) await keepReading(client, writer, record.id, taken, at);
      refused.push(...written.rejects.map(reject => ({ ...reject, askId: ticket.id })));
      takenOver = written.takenOver;
      mayClear = written.mayClear.rejects;
    }
  }
  if (record && found) {
    for (const name of stream.names) {
      if (ticket.due[name.embed].length === 0) continue;
      const mentioned = name.mentioned(record).map(id => cleanText(id).text);
      const asked = ticket.due[name.embed].filter(id => mentioned.includes(id));
      const left = new Set(asked);
      for (const { text, cleaned, shows } of nameTexts(name, reply, care)) {
        const some = shows === undefined ? [...left] : [];
        const give = () => nameThem(client, writer.account, name.upsert, { text, asked: some, at });
        const refusal = care === 'one by one' ? await attempt(client, give) : await give();
        if (refusal) refused.push({ askId: ticket.id, reason: refusal.message, payload: text });
        if (refusal && shows !== undefined) left.delete(shows);
        counts.cleaned += cleaned;
      }
    }
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

function idIn(json: string): string {
  const id = fieldsOf(json).get('id');
  return id?.startsWith('"') ? cleanText(String(parseJson(id))).text : '';
}

interface NamePart {
  readonly text: string;
  readonly cleaned: number;
  /** The id of the only name in this part. Undefined for the part that marks all requested names as answered. */
  readonly shows?: string;
}

/** The embedded names as JSON parts. With care 'one by one', each name is a part of its own. */
function nameTexts(name: Name<Row>, reply: Reply<Row>, care: Care): NamePart[] {
  if (care === 'as it came') return [{ text: reply.text, cleaned: 0 }];
  const shown = fieldsOf(reply.text).get(name.embed) ?? 'null';
  const field = (text: string) => cleanJson(objectOf([[name.embed, text]]));
  if (care === 'cleaned') return [field(shown)];
  const isMany = shown.startsWith('[');
  const each = (isMany ? elementsOf(shown) : [shown]).map(one => ({
    ...field(isMany ? `[${one}]` : one),
    shows: idIn(one),
  }));
  return [...each, field('null')];
}

/** Writes the tombstones of a record that the source deleted, and of its members. */
export const markDeleted = (ctx: Context, claim: Claim, id: string, asOfMs: Ms): Promise<void> =>
  commitWork(ctx, claim, asOfMs, async (client, { nowMs }) => {
    const gone = { byMs: buriedBy(helpdeskOf(ctx), asOfMs), lookbackMs: helpdeskOf(ctx).lookbackMs };
    const deleted = await markTicketDeleted(client, claim, id, asOfMs, new Date(nowMs), gone);
    return { counts: { deleted }, stored: [id] };
  });
