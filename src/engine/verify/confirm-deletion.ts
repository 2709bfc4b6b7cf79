/**
 * Confirms the deletion of a stored row after a first 404. The record is fetched by id once more. The second 404 is not
 * believed for a record so new that a replica of the source may not have it yet.
 */

import { Gone, Retry } from '../../errors.ts';
import type { ListStream, Row } from '../../sources/source.ts';
import { commitWork } from '../commit/commit.ts';
import { sourceOf } from '../context.ts';
import type { Client } from '../database/pool.ts';
import { query, raw } from '../database/sql.ts';
import { bury } from '../deletions/bury.ts';
import { mostInDay } from '../deletions/fetch-record.ts';
import { buriedBy } from '../deletions/lag.ts';
import { wasThere } from '../deletions/was-there.ts';
import { laneOf } from '../load/commit-reply.ts';
import type { Ms } from '../reading/reading.ts';
import { type Absent, type Look, noteAbsent } from './compare-reply.ts';
import { standingOf } from './stored-rows.ts';

/** Attempts of a request for one record. Then the run continues with the next record. */
const fewTries = 6;

export const options = ({ ctx, claim }: Look) => ({ lane: laneOf(claim), signal: ctx.signal, tries: fewTries });

type More = ((client: Client) => Promise<void>) | undefined;

/**
 * Fetches a record again after its first 404. A second 404 confirms the deletion. Returns whether the state of the
 * record is known now.
 */
export async function examineGone(look: Look, stream: ListStream<Row>, id: string, more?: More): Promise<boolean> {
  const { ctx } = look;
  const askedMs = ctx.clock.now();
  try {
    await sourceOf(ctx, stream.source).send(stream.get!(id), options(look));
  } catch (error) {
    // The Date of the reply gives the time of the deletion. A 404 without a Date may come from another system, so it is
    // ignored.
    if (error instanceof Gone && Number.isFinite(error.asOf))
      return noteGone(look, stream, id, { askedMs, asOfMs: error.asOf, more });
    if (!(error instanceof Gone || error instanceof Retry)) throw error;
  }
  await keepPlace(look, more);
  return false;
}

/** Judges a row after a 404. Returns whether the state of the record is known now. */
export async function noteGone(
  look: Look,
  stream: ListStream<Row>,
  id: string,
  { askedMs, asOfMs, more }: { askedMs: Ms; asOfMs: Ms; more?: More },
): Promise<boolean> {
  const { ctx, claim, repair } = look;
  const source = sourceOf(ctx, stream.source);
  const absent: Absent = {
    stream: stream.key,
    id,
    standing: async client =>
      (await standingOf(client, claim.account, stream, [id], { askedMs, asOfMs, lock: repair })).get(id),
    // A row whose payload carries another id never existed at the source. Replica lag cannot explain its 404.
    isBelieved: async (client, ours) =>
      (stream.deletions === 'whole list' ||
        ours.isItself === false ||
        (await wasThere(ctx, stream, id, asOfMs, client))) &&
      (await mayDelete(look, stream)),
    markDeleted: (client, { nowMs }) =>
      bury(client, claim, stream, [id], {
        ...{ goneMs: buriedBy(source, asOfMs), beforeMs: asOfMs + 1, nowMs, lookbackMs: source.lookbackMs },
      }),
  };
  return noteAbsent(look, absent, { asOfMs, more });
}

/** Nobody looks at an audit: it deletes no more than sweeps may in a day, and nothing of a list whose deletions are unknown. */
async function mayDelete({ ctx, claim }: Look, { key, deletions }: ListStream<Row>): Promise<boolean> {
  if (claim.kind !== 'audit') return true;
  if (typeof deletions === 'object') return false;
  const dayAgo = new Date(ctx.clock.now() - 24 * 3_600_000);
  const { live, lately } = await query(ctx.pg).row<{ live: number; lately: number }>`
    select count(*) filter (where _deleted_at is null) as live, count(*) filter (where _deleted_at > ${dayAgo}) as lately
    from ${raw(key)} where account_id = ${claim.account}`;
  return lately < mostInDay(ctx, live + lately);
}

/** Books a fetch without a result, so that the run keeps its position. */
export const keepPlace = ({ ctx, claim, expected }: Look, more?: More): Promise<void> =>
  commitWork(ctx, claim, 0, async client => {
    await more?.(client);
    return { counts: { seen: 1 }, expected };
  });
