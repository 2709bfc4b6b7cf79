/**
 * Records of one stream that say that records of others were deleted. Each such record, and what is part of it, gets its tombstone,
 * unless a later reply has shown it. The run of each minute looks at the events since the last run that was completed, so one that died
 * between two commits loses none. Every other run looks at all of them: a record may be read after the event that buries it.
 */
import { commitWork } from '../commit/commit.ts';
import { keepChanges, rowsOf } from '../commit/merge.ts';
import { type Context, sourceOf } from '../context.ts';
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
const isNew = `and _synced_at >= (
             select coalesce(max(r.started_at) - interval '1 hour', '-infinity')
             from sync.stored_runs r join sync.stored_run_streams s on s.run_id = r.id
             where r.account_id = $1 and s.stream_key = $6 and s.state = 'completed')`;

export async function buryByEvents(ctx: Context, claim: Claim, source: string, events: DeletionEvents): Promise<void> {
  const { lookbackMs } = sourceOf(ctx, source);
  const { kind } = await rangeOf(ctx.pg, claim.run);
  await commitWork(ctx, claim, ctx.clock.now(), async (client, { nowMs }) => {
    let deleted = 0;
    for (const { type, stream } of events.of) {
      const table = rowsOf(stream.merge.declared.root);
      const { rows } = await client.query<{ id: string }>(
        `update ${table} t set _deleted_at = e.at, _synced_at = $2${clearing(stream)}
         -- An event that is dated ahead of its reply tells of no later time.
         from (select ${events.id} as id, max(least(${events.at}, _observed_at + interval '2 seconds')) as at from ${events.table}
           where account_id = $1 and ($3::text is null or ${events.type ?? 'null'} = $3) ${kind === 'fresh' ? isNew : ''} group by 1) e
         where t.account_id = $1 and t.id = e.id and t._deleted_at is null and t._observed_at - $4 * interval '1 millisecond' < e.at
         returning t.id, ${keepChanges('$2', 'null', '$5')}`,
        [
          claim.account,
          new Date(nowMs),
          type ?? null,
          lookbackMs,
          claim.run,
          ...(kind === 'fresh' ? [claim.stream] : []),
        ],
      );
      deleted += rows.length;
      const buried = rows.map(({ id }) => id);
      const parts = { of: stream.merge.declared.root, parts: partsOf(stream) };
      await buryParts(client, claim.account, parts, buried, nowMs);
    }
    return { counts: { deleted } };
  });
}
