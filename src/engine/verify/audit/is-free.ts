/** An audit uses credits that nothing else needs. */
import { type Context, type OpenSource, sourceOf } from '../../context.ts';
import { othersWant } from '../findings.ts';

/** A fresh run takes seconds. An audit waits this long for its end. */
const patienceMs = 20_000;
const lookMs = 1000;

/** False if other work of the source still needs credits after a short wait: then an audit ends. */
export const isFree = (ctx: Context, source: string): Promise<boolean> =>
  waitWhile(ctx, () => isWanted(ctx, sourceOf(ctx, source)), patienceMs);

/** Whether other work needs the source now. What waits for the quota of the next day belongs to no run. */
export async function isWanted(
  ctx: Context,
  { name, longestWaitMs }: Pick<OpenSource, 'name' | 'longestWaitMs'>,
): Promise<boolean> {
  if (await othersWant(ctx.pg, ctx.account, name)) return true;
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
