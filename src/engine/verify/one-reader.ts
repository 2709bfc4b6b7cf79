/**
 * Comparisons of a stream that one run reads at a time. Its rows are ordered by their commits, so nothing is compared while
 * another run reads it.
 */
import type { Context } from '../context.ts';
import type { Queryable } from '../database/pool.ts';
import { query } from '../database/sql.ts';
import type { StreamKey } from '../database/stream-key.ts';
import type { Ms } from '../reading/reading.ts';
import type { Claim } from '../runs/claims.ts';
import { waitWhile } from './audit/is-free.ts';
import type { Look, Subject, Verdict } from './compare-reply.ts';
import { type Rows, type Standing, standingIn } from './findings.ts';

/** Longest wait for another run. */
const patienceMs = 15 * 60_000;

/** Whether a run that does not only compare reads this stream now, or did since then. */
export const isReadBeside = (
  db: Queryable,
  { account, stream }: Pick<Claim, 'account' | 'stream'>,
  sinceMs: Ms,
): Promise<boolean> =>
  query(db).value`
    select exists (
    select from sync.run_streams s join sync.stored_runs r on r.id = s.run_id
    where s.account_id = ${account} and s.stream_key = ${stream} and r.kind not in ('audit', 'verify')
      and (s.state = 'running' or s.finished_at >= ${new Date(sinceMs)})) as is`;

/** Waits for a run that reads the stream, because rows that it stores meanwhile could not be compared. */
export const giveWay = (ctx: Context, claim: Claim): Promise<boolean> =>
  waitWhile(ctx, () => isReadBeside(ctx.pg, claim, ctx.clock.now()), patienceMs);

/** `judged`: what a difference means for a row that no other run has written. */
export function ofOneReader(
  { claim: { account } }: Look,
  stream: StreamKey,
  rows: Rows,
  { askedMs, asOfMs }: { askedMs: Ms; asOfMs: Ms },
  judged: (id: string, ours: Standing | undefined) => Verdict,
): Omit<Subject, 'kind'> {
  // Only a manual change writes tombstones meanwhile.
  const of = { ...rows, deletedSince: 'null::timestamptz' };
  return {
    stream,
    standing: (client, ids, lock) => standingIn(client, account, of, ids, { askedMs, asOfMs, lock }),
    async judge(client, ids, standing) {
      const isRead = ids.length > 0 && (await isReadBeside(client, { account, stream }, askedMs));
      const verdictOf = (id: string): Verdict => {
        const ours = standing.get(id);
        return isRead || ours?.isOlder === false ? 'unjudged' : judged(id, ours);
      };
      return new Map(ids.map(id => [id, verdictOf(id)]));
    },
  };
}
