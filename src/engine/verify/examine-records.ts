/**
 * Compares records of a list with stored rows.
 *
 * Changes at the source since the last complete sync are merged and do not count as differences. A row that was written
 * while the reply was in flight is not judged, because the row may be newer.
 */

import type { ListStream, Row } from '../../sources/source.ts';
import type { Batch } from '../commit/page.ts';
import { sourceOf } from '../context.ts';
import type { Client } from '../database/pool.ts';
import { behindMs } from '../deletions/lag.ts';
import type { Reply } from '../http/request.ts';
import type { Ms } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import { type Examined, examine, type Look, type Subject, type Verdict } from './compare-reply.ts';
import { kindOfRecord } from './difference-kinds.ts';
import type { Standing } from './findings.ts';
import { knownOf, leftBehind, standingOf, timeIn, versionOf } from './stored-rows.ts';

interface Given {
  readonly stream: ListStream<Row>;
  readonly reply: Reply<Row>;
  readonly batch: Batch;
  /** Time of the request, by this machine's clock. */
  readonly askedMs: Ms;
  /** Time through which the stream is complete. A record of a list without versions that shows a later change is behind. */
  readonly throughMs?: Ms;
  /** For a list that is read by walks: ids of records created since the last complete sync, if known. */
  readonly newcomers?: ReadonlySet<string> | undefined;
  /** Runs in the same transaction. */
  readonly more?: ((client: Client) => Promise<void>) | undefined;
  /** The comparison is part of another one, which counts the records. */
  readonly uncounted?: boolean;
}

export async function examineRecords(look: Look, given: Given): Promise<Examined> {
  const { ctx, claim } = look;
  const { stream, reply, batch, askedMs, more, uncounted } = given;
  const asOfMs = reply.asOf;
  const times = new Map(reply.records.map(record => [record.id, timeIn(stream, record)]));
  const lateMs = asOfMs - behindMs(sourceOf(ctx, stream.source));
  const subject: Subject = {
    stream: stream.key,
    standing: (client, ids, lock) => standingOf(client, claim.account, stream, ids, { askedMs, asOfMs, lock }),
    judge: (client, ids, standing) => judge(client, claim, given, { ids, standing, times, behindMs: lateMs }),
    kind: (found, id, ours) =>
      kindOfRecord(stream, found, { ours: ours?.updatedMs ?? null, theirs: times.get(id) ?? Number.NaN }),
  };
  return examine(look, { subject, reply: { ...reply, trueByMs: reply.shownBy }, batch, more, uncounted });
}

interface Judged {
  readonly ids: readonly string[];
  readonly standing: ReadonlyMap<string, Standing>;
  /** When the source last changed each record, as the record shows it. */
  readonly times: ReadonlyMap<string, Ms>;
  /** A lagging replica of the source may answer with its state as of this time. */
  readonly behindMs: Ms;
}

async function judge(client: Client, claim: Claim, given: Given, judged: Judged): Promise<Map<string, Verdict>> {
  const { ids } = judged;
  if (ids.length === 0) return new Map();
  const { stream } = given;
  const verdictOf =
    versionOf(stream) === undefined
      ? (id: string, ours: Standing | undefined) => unversioned(given, judged.times.get(id), id, ours)
      : await versioned(client, claim, given, judged);
  return new Map(
    ids.map(id => {
      const ours = judged.standing.get(id);
      return [id, ours && !ours.isOlder ? 'unjudged' : verdictOf(id, ours)];
    }),
  );
}

function unversioned(
  { stream, newcomers, throughMs }: Given,
  time: Ms | undefined,
  id: string,
  ours: Standing | undefined,
): Verdict {
  const isWalked = stream.rowFacts !== undefined;
  if (isWalked && ours === undefined)
    return newcomers === undefined ? 'undecided' : newcomers.has(id) ? 'behind' : 'differs';
  return throughMs !== undefined && time !== undefined && time >= throughMs ? 'behind' : 'differs';
}

async function versioned(
  client: Client,
  claim: Claim,
  { stream, reply }: Given,
  { ids, standing, times, behindMs }: Judged,
): Promise<(id: string, ours: Standing | undefined) => Verdict> {
  const known = await knownOf(client, claim.account, stream, reply.records);
  const absent = ids.filter(id => !standing.has(id));
  const remains = await leftBehind(client, claim.account, stream, absent);
  return (id, ours) => {
    const time = times.get(id) ?? Number.NEGATIVE_INFINITY;
    const isBehindOurs = ours && !ours.hasTombstone && time < ours.updatedMs!;
    if (isBehindOurs && ours.observedAt.getTime() > behindMs && !isSlip(ours)) return 'unjudged';
    return !known.has(id) && isLate(ours, time, remains.has(id)) ? 'behind' : 'differs';
  };
}

/**
 * Whether the stored version is dated more than an hour after the reply that showed it. No replica of the source can
 * have such a version.
 */
const isSlip = ({ updatedMs, observedAt }: Standing): boolean => updatedMs! > observedAt.getTime() + 3_600_000;

/**
 * Whether the stored version of a record is older than the source's. Used for records that changed since the last
 * complete sync.
 */
function isLate(ours: Standing | undefined, updatedMs: Ms, remains: boolean): boolean {
  if (ours === undefined) return !remains;
  // Further changes may have happened within the same second.
  return ours.hasTombstone || ours.updatedMs! < updatedMs || ours.observedAt.getTime() < updatedMs + 1000;
}
