/** Shared by the sweeps of all lists: fetches a record by id, and stops mass deletions until a person confirms them. */
import { Fatal, Gone, Retry } from '../../errors.ts';
import type { ListStream, Row } from '../../sources/source.ts';
import { type Context, sourceOf } from '../context.ts';
import { sql } from '../database/sql.ts';
import { singleBatch } from '../load/batch.ts';
import { commitRecords, laneOf } from '../load/commit-reply.ts';
import type { Claim } from '../runs/claims.ts';
import { noteChecked } from './walks.ts';

/** Attempts of a request for one record. Then the sweep continues with the next record. */
export const fewTries = 4;
/** This many deletions are never a mass deletion, even if the table is small. */
const fewDeleted = 20;

/** The most deletions in a day that are no mass deletion, of so many rows. */
export const mostInDay = ({ sweep }: Pick<Context, 'sweep'>, rows: number): number =>
  Math.max(fewDeleted, Math.floor(rows * sweep.mostDeleted));

/**
 * The most deletions that are accepted of a stream with so many live rows, less those that sweeps found in the day before: many
 * sweeps must not do what one may not. `accepts`: a person has confirmed a mass deletion, also one of that day.
 */
export async function mostAccepted(ctx: Context, claim: Claim, rows: number, accepts: boolean): Promise<number> {
  if (accepts) return Infinity;
  const { pg, clock } = ctx;
  const found = await pg.query<{ lately: number }>(sql`
    select coalesce(sum(s.deleted), 0)::int as lately
    from sync.stored_runs r join sync.stored_run_streams s on s.run_id = r.id and s.stream_key = ${claim.stream}
    where r.account_id = ${claim.account} and r.kind = 'sweep' and (s.finished_at is null
      or s.finished_at > ${new Date(clock.now() - 24 * 3_600_000)}) and r.id > coalesce((
      select max(o.id) from sync.stored_runs o join sync.stored_run_streams p on p.run_id = o.id and p.stream_key = ${claim.stream}
      where o.account_id = ${claim.account} and o.kind = 'sweep' and o.accept_deletions), 0)`);
  const { lately } = found.rows[0]!;
  return Math.max(0, mostInDay(ctx, rows + lately) - lately);
}

/** Fetches one record and stores it. Returns Gone for a 404, and another error if the state of the record is unknown. */
export async function fetchRecord(
  ctx: Context,
  claim: Claim,
  stream: ListStream<Row>,
  id: string,
): Promise<Gone | Retry | Fatal | undefined> {
  const { rowFacts } = stream;
  try {
    const options = { lane: laneOf(claim), signal: ctx.signal, tries: fewTries };
    const reply = await sourceOf(ctx, stream.source).send(stream.get!(id), options);
    const other = reply.records[0]?.id ?? reply.unreadable[0]?.id;
    if (other !== id) throw new Retry(`the source answered with ${other ?? 'a record without an id'}`);
    await commitRecords({ ctx, claim, stream }, reply, {
      batch: singleBatch(stream, reply),
      more: async (client, stored) => {
        if (rowFacts) await noteChecked(client, claim, rowFacts, stored, reply.asOf);
      },
    });
    return undefined;
  } catch (error) {
    if (!(error instanceof Retry || error instanceof Gone || error instanceof Fatal)) throw error;
    // The Date of the reply gives the time of the deletion. A 404 without a Date may come from another system, so it is
    // retried.
    return error instanceof Gone && !Number.isFinite(error.asOf) ? new Retry(error.message) : error;
  }
}
