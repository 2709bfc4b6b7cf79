/**
 * Prints a line for each run of this process that ended, except runs of every minute that found nothing; and a line when
 * requests of a source begin to fail. The run itself fails minutes later only.
 */
import type { Context } from '../../engine/context.ts';
import type { Member } from '../../engine/queue/reconcile.ts';
import { isMostlyRejected } from '../../engine/runs/runs.ts';
import { readRuns } from '../../status/runs.ts';
import { amount, count } from '../../words.ts';
import { waitText } from '../output/progress.ts';
import { openVoice } from '../output/voice.ts';

/** A run that ended shortly before a look may be committed after it. */
const lateMs = 10_000;

/** `several`: each line names its account. */
export function reporterOf({
  pg,
  clock,
  log = openVoice({ logLevel: 'info' }),
  several,
}: Pick<Context, 'pg' | 'clock'> & Partial<Pick<Context, 'log'>> & { several: boolean }): (
  members: readonly Member[],
) => Promise<void> {
  const whose = (account: string) => (several ? `${account}: ` : '');
  const beganMs = clock.now();
  let sinceMs = beganMs;
  /** When the runs ended that are known. */
  const known = new Map<number, number>();
  const retries = new WeakMap<Context, () => void>();
  return async members => {
    for (const { ctx } of members) {
      const report = retries.get(ctx) ?? retriesOf(ctx, whose(ctx.account));
      retries.set(ctx, report);
      report();
    }
    const nextMs = Math.max(beganMs, clock.now() - lateMs);
    const workers = members.map(({ worker }) => worker);
    const asked = { account: null, endedAfter: new Date(sinceMs), except: [...known.keys()] };
    const ended = await readRuns(pg, asked, new Date(nextMs));
    for (const { run, finished_at } of ended) known.set(run, finished_at!.getTime());
    const runs = ended
      .filter(({ streams }) => streams.some(({ worker }) => worker !== null && workers.includes(worker)))
      .sort((one, other) => one.finished_at!.getTime() - other.finished_at!.getTime());
    for (const { account, run, kind, state, finished_at, error, remedy, ...all } of runs) {
      const { seen, inserted, updated, unchanged, deleted, rejected, cleaned, credits } = all;
      const counts = { seen, inserted, updated, unchanged, deleted, rejected, cleaned, credits };
      const found = inserted + updated + deleted + rejected > 0;
      if (state === 'completed' && !found && (kind === 'fresh' || kind === 'hydrate')) continue;
      // It waits for its next try. The line of its last one is above.
      if (state === 'partial' && !found && seen + credits === 0) continue;
      const text = `${amount(seen)} read, ${amount(inserted)} new, ${amount(updated)} changed, ${rejected > 0 ? `${amount(rejected)} rejected, ` : ''}${count(credits, 'credit')}`;
      const details = { at: finished_at, account, run, kind, state, ...counts };
      const line = `${whose(account)}run ${run}, ${kind}: ${state}: ${text}`;
      if (isMostlyRejected(counts)) log.error(details, line);
      else if (state === 'completed') log.info(details, `✓ ${line}`);
      else log.warn(details, line);
      if (error) log.warn({ account, run }, `${error}. ${remedy ?? ''}`.trim());
    }
    sinceMs = nextMs;
    for (const [run, endedMs] of known) if (endedMs <= sinceMs) known.delete(run);
  };
}

/** An outage is over after this many consecutive looks without a retry. */
const calmLooks = 3;

/** Reports the first retry of each outage of a source. */
function retriesOf(ctx: Context, whose: string): () => void {
  const calm = new Map<string, number>();
  return () => {
    for (const { name, send, declaration } of ctx.sources.values()) {
      const wait = send.waits();
      const before = calm.get(name) ?? calmLooks;
      if (wait?.isRetry !== true) calm.set(name, before + 1);
      else {
        if (before >= calmLooks) ctx.log.warn(`${whose}${declaration.label}: ${waitText(wait)}`);
        calm.set(name, 0);
      }
    }
  };
}
