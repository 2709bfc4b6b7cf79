/** An audit uses credits that nothing else needs. */
import type { Context, OpenSource } from '../context.ts';
import { othersWant } from './findings.ts';

/** A fresh run takes seconds. An audit waits this long for its end. */
const patienceMs = 20_000;
const lookMs = 1000;

/** False if other work of the source still needs credits after a short wait: then an audit ends. */
export async function isFree({ name, declaration }: OpenSource, ctx: Context): Promise<boolean> {
  for (let waitedMs = 0; ; waitedMs += lookMs) {
    ctx.signal.throwIfAborted();
    if (!(await othersWant(ctx.pg, ctx.account, name, declaration.audit?.othersWant))) return true;
    if (waitedMs >= patienceMs) return false;
    await ctx.clock.sleep(lookMs, ctx.signal);
  }
}
