/**
 * Fetches volumes by id, one request each. A failed volume becomes a reject with a growing delay and does not stop the
 * others: an id that the catalog no longer knows answers like a temporary failure (field notes).
 */

import type { Lane } from '../../../engine/budget/budget.ts';
import { noteAges } from '../../../engine/commit/change-latency.ts';
import { keepBooks, withCare } from '../../../engine/commit/commit.ts';
import { openSince } from '../../../engine/commit/rejects.ts';
import { writeBatch } from '../../../engine/commit/rows.ts';
import type { Context, Outcome } from '../../../engine/context.ts';
import type { Reply } from '../../../engine/http/request.ts';
import { countInARow, stillRejected } from '../../../engine/load/ask-again.ts';
import { byForce, driftOf, rejectOf, singleBatch } from '../../../engine/load/batch.ts';
import { noteFailure } from '../../../engine/load/failures.ts';
import { fewRejects, isMostRejected, isPutOff, type Probe, probed } from '../../../engine/load/probe.ts';
import type { Ms } from '../../../engine/reading/reading.ts';
import type { Claim } from '../../../engine/runs/claims.ts';
import { othersWait } from '../../../engine/runs/runs.ts';
import { Gone, Retry } from '../../../errors.ts';
import { count } from '../../../words.ts';
import type { Row, VolumeStream } from '../../source.ts';
import { booksOf } from '../open.ts';
import { againBefore } from '../shelves/shelf-rows.ts';
import {
  dueVolumes,
  knownVolume,
  lastChecked,
  nextVolumes,
  noteChecked,
  volumeChanged,
  type WaitingVolume,
} from './volume-rows.ts';

/** Tries per volume, in the loop and again at the end of the run. Each is a request of the daily quota. */
const fewTries = 3;
/** After this many consecutive failures, the loop checks whether the catalog answers at all. */
const mostFailures = 10;
const mostAtFirst = 30;
/** Volumes per query. */
const batchSize = 50;
/** Longest automatic run. */
const longestMs = 10 * 60_000;

type Volumes = VolumeStream<Row>;

/** A manual run takes precedence; an automatic one yields to lists. */
const laneOf = ({ kind }: Claim): Lane => (kind === 'sync' ? 'fresh' : 'backfill');

export async function hydrateVolumes(ctx: Context, claim: Claim, stream: Volumes): Promise<Outcome> {
  const startedMs = ctx.clock.now();
  const begunMs = ctx.clock.monotonic();
  const ofItsOwnAccord = claim.kind === 'hydrate';
  const isOver = async () =>
    ofItsOwnAccord && (ctx.clock.monotonic() - begunMs > longestMs || (await othersWait(ctx.pg, claim)));
  const probe: Probe = async id => {
    if (id === undefined) return 'stored';
    const { failed, isRejected } = await ask(ctx, claim, stream, { id, since: null });
    return failed ? 'unknown' : isRejected ? 'rejected' : 'stored';
  };
  const rejected = await probed(ctx, claim, probe);
  if (rejected) return rejected;
  const manyRejected = countInARow();
  const asked: string[] = [];
  let failures = 0;
  do {
    const wanted = { beforeMs: await dueBefore(ctx, claim), startedMs, except: asked };
    const volumes = await nextVolumes(ctx.pg, claim, wanted, batchSize);
    if (volumes.length === 0) break;
    for (const volume of volumes) {
      ctx.signal.throwIfAborted();
      asked.push(volume.id);
      const { failed, isRejected } = await ask(ctx, claim, stream, volume);
      if (manyRejected(isRejected) && (await isMostRejected(ctx, claim))) return { partial: stillRejected };
      failures = failed ? failures + 1 : 0;
      if (failures < mostFailures) continue;
      // All these ids may be deleted. A volume that existed recently tells whether the catalog itself fails.
      const known = await knownVolume(ctx.pg, claim);
      if (known === undefined ? failures >= mostAtFirst : (await ask(ctx, claim, stream, known)).failed)
        throw failed!.everywhere ?? failed!;
      if (known) failures = 0;
    }
  } while (!(await isOver()));
  const due = () => dueVolumes(ctx.pg, claim, new Date(ctx.clock.now()));
  const first = await due();
  const areMany = first.length >= fewRejects;
  if (areMany && (await probed(ctx, claim, probe, { now: true }))) return { partial: stillRejected };
  for (const volume of areMany ? await due() : first) {
    ctx.signal.throwIfAborted();
    await ask(ctx, claim, stream, volume);
  }
  const open = await openSince(ctx.pg, claim, new Date(startedMs));
  return { partial: open === 0 || ofItsOwnAccord ? undefined : `${count(open, 'volume')} could not be read` };
}

/**
 * Each volume is fetched again after a maximum age; `backfill --again` fetches all except those that it has already
 * fetched.
 */
async function dueBefore(ctx: Context, claim: Claim): Promise<Ms> {
  const sourceMs = booksOf(ctx).send.sourceNow() ?? ctx.clock.now();
  // Not the current time: `as_of` is held back, so a volume that is read within the next seconds would seem older than
  // this run.
  if (claim.again)
    return againBefore(ctx.pg, claim, 'default', Math.min((await lastChecked(ctx.pg, claim)) + 1, sourceMs));
  return sourceMs - booksOf(ctx).volumeAgeMs;
}

/** `failed`: the reason if the catalog gave no answer. */
async function ask(
  ctx: Context,
  claim: Claim,
  stream: Volumes,
  volume: WaitingVolume,
): Promise<{ failed?: Retry; isRejected: boolean }> {
  const options = { lane: laneOf(claim), signal: ctx.signal, tries: fewTries };
  try {
    const reply = await booksOf(ctx).send(stream.request(volume.id), options);
    const other = reply.records[0]?.id;
    if (other !== undefined && other !== volume.id)
      await noteFailure(ctx, claim, { askId: volume.id, reason: `the source answered with volume ${other}` });
    else return { isRejected: await commitVolume(ctx, claim, stream, reply, volume) };
    return { isRejected: false };
  } catch (error) {
    if (!(error instanceof Gone || error instanceof Retry)) throw error;
    await noteFailure(ctx, claim, { askId: volume.id, reason: error.message });
    return error instanceof Retry ? { failed: error, isRejected: false } : { isRejected: false };
  }
}

/** Whether the volume was rejected. */
async function commitVolume(
  ctx: Context,
  claim: Claim,
  stream: Volumes,
  reply: Reply<Row>,
  volume: WaitingVolume,
): Promise<boolean> {
  const at = { nowMs: ctx.clock.now(), asOfMs: reply.asOf };
  const credits = booksOf(ctx).send.takeCredits();
  const single = singleBatch(stream, reply);
  const batch = claim.again ? byForce(single) : single;
  const unreadable = reply.unreadable.map(one => rejectOf(one, batch, volume.id));
  return withCare(ctx, async (client, care) => {
    const tx = { client, claim, at, care };
    const { counts, rejects } = await writeBatch(tx, batch);
    const refused = [...unreadable, ...rejects];
    if (refused.length === 0) {
      const changedMs = volume.since === null ? undefined : await volumeChanged(client, claim.account, volume.id);
      if (changedMs !== undefined)
        await noteAges(client, claim, [changedMs], booksOf(ctx).send.sourceNow() ?? reply.asOf);
      await noteChecked(client, claim.account, volume, reply.asOf);
    }
    await keepBooks(tx, {
      counts: { ...counts, seen: 1, rejected: refused.length, credits },
      filter: batch.filter,
      rejects: refused,
      stored: [volume.id],
      drift: driftOf(stream, reply.records, reply.unreadable, counts.cleaned > 0, reply.notUtf8),
    });
    return refused.length > 0;
  });
}

/** Whether volumes need a fetch by id, or a retry of one of their rejects. */
export async function volumesAreDue(ctx: Context): Promise<boolean> {
  const key = { account: ctx.account, stream: 'books.volumes' } as const;
  const nowMs = ctx.clock.now();
  const { send, volumeAgeMs } = booksOf(ctx);
  const beforeMs = (send.sourceNow() ?? nowMs) - volumeAgeMs;
  const waiting = await nextVolumes(ctx.pg, key, { beforeMs, startedMs: nowMs }, 1);
  const isDue = waiting.length > 0 || (await dueVolumes(ctx.pg, key, new Date(nowMs))).length > 0;
  return isDue && !(await isPutOff(ctx, key));
}
