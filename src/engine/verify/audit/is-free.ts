/** An audit uses credits that nothing else needs. */
import { type Context, type OpenSource, sourceOf } from '../../context.ts';
import { othersWant } from '../findings.ts';

/** A fresh run takes seconds. An audit waits this long for its end. */
const patienceMs = 20_000;
const lookMs = 1000;

/** False if other work of the source still needs credits after a short wait: then an audit ends. */
export function isFree(ctx: Context, name: string): Promise<boolean> {
  const source = sourceOf(ctx, name);
  const isWanted = async () => (await othersWant(ctx.pg, ctx.account, name)) || (await waitsForQuota(ctx, source));
  return waitWhile(ctx, isWanted, patienceMs);
}

/** Whether a record waits that no run reads until the quota of the next day. */
export async function waitsForQuota(
  ctx: Context,
  { name, longestWaitMs }: Pick<OpenSource, 'name' | 'longestWaitMs'>,
): Promise<boolean> {
  if (longestWaitMs === undefined) return false;
  for (const { source, pending } of ctx.streams) if (source === name && (await pending?.isDue(ctx))) return true;
  return false;
}

/** Looks each second. False if it is still busy after this long. */
export async function waitWhile(
  { clock, signal }: Context,
  isBusy: () => Promise<boolean>,
  longestMs: number,
): Promise<boolean> {
  for (let waitedMs = 0; ; waitedMs += lookMs) {
    signal.throwIfAborted();
    if (!(await isBusy())) return true;
    if (waitedMs >= longestMs) return false;
    await clock.sleep(lookMs, signal);
  }
}
