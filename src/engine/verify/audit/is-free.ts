/** An audit uses credits that nothing else needs. */
import { type Context, sourceOf } from '../../context.ts';
import { othersWant } from '../findings.ts';

/** A fresh run takes seconds. An audit waits this long for its end. */
const patienceMs = 20_000;
const lookMs = 1000;

/** False if other work of the source still needs credits after a short wait: then an audit ends. */
export function isFree(ctx: Context, source: string): Promise<boolean> {
  const { audit } = sourceOf(ctx, source).declaration;
  return waitWhile(ctx, () => othersWant(ctx.pg, ctx.account, source, audit?.othersWant), patienceMs);
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
