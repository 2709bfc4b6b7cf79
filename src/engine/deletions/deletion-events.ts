/**
 * Records of one stream that say that records of others were deleted. Each such record, and what is part of it, gets its tombstone,
 * unless a later reply has shown it. The run of each minute looks at the events since the last run that was completed, so one that died
 * between two commits loses none. Every other run looks at all of them: a record may be read after the event that buries it.
 */
import { commitWork } from '../commit/commit.ts';
import { keepChanges, rowsOf } from '../commit/merge.ts';
import { type Context, sourceOf } from '../context.ts';
import { numbered, query, raw, sql } from '../database/sql.ts';
import type { Claim } from '../runs/claims.ts';
import { rangeOf } from '../runs/ranges.ts';
import { buryParts } from './bury.ts';
import { clearing, type Mortal, partsOf } from './row-facts.ts';

export interface DeletionEvents {
  /** The table of the events, with its schema. */
  readonly table: string;
  /** Columns of the events: the id of the deleted record, the time of its deletion, and which records are meant. */
  readonly id: string;
  readonly at: string;
  readonly type?: string | undefined;
  /** The streams of what is deleted. `type`: the word of the events for them. */
  readonly of: readonly { readonly type?: string; readonly stream: Mortal }[];
}

/** Clocks of machines differ by less. */
const isNew = ({ account, stream }: Claim) => sql`and _synced_at >= (
            select coalesce(max(r.started_at) - interval '1 hour', '-infinity')
            from sync.stored_runs r join sync.stored_run_streams s on s.run_id = r.id
            where r.account_id = ${account} and s.stream_key = ${stream} and s.state = 'completed')`;

export async function buryByEvents(ctx: Context, claim: Claim, source: string, events: DeletionEvents): Promise<void> {
  const { lookbackMs } = sourceOf(ctx, source);
  const { kind } = await rangeOf(ctx.pg, claim.run);
  await commitWork(ctx, claim, ctx.clock.now(), async (client, { nowMs }) => {
    let deleted = 0;
    for (const { type, stream } of events.of) {
      const table = rowsOf(stream.merge.declared.root);
      const now = new Date(nowMs);
      const ofType = type === undefined ? raw('') : sql`and ${raw(events.type ?? 'null')} = ${type}`;
      const buried = await query(client).values<string>`
        update ${raw(table)} t set _deleted_at = e.at, _synced_at = ${now}${raw(clearing(stream))}
        -- An event that is dated ahead of its reply tells of no later time.
        from (
          select ${raw(events.id)} as id, max(least(${raw(events.at)}, _observed_at + interval '2 seconds')) as at from ${raw(events.table)}
          where account_id = ${claim.account} ${ofType} ${kind === 'fresh' ? isNew(claim) : raw('')} group by 1) e
        where t.account_id = ${claim.account} and t.id = e.id and t._deleted_at is null
          and t._observed_at - ${lookbackMs} * interval '1 millisecond' < e.at
        returning t.id, ${numbered(keepChanges('$1', 'null', '$2'), now, claim.run)}`;
      deleted += buried.length;
      const parts = { of: stream.merge.declared.root, parts: partsOf(stream) };
      await buryParts(client, claim.account, parts, buried, nowMs);
    }
    return { counts: { deleted } };
  });
}
