/** Compares this machine's clock with another one. */
import { type Finding, fail, ok, warn } from './check.ts';

/** Tolerated difference. */
const clockMs = 2000;
const farMs = 300_000;

/** `ahead`: relative to this machine. */
export function judgeClocks(aheadMs: number, whose: string): Finding {
  const off = Math.abs(aheadMs);
  if (off <= clockMs) return ok(`it goes as that of ${whose} does`);
  const say = off > farMs ? fail : warn;
  return say(
    `this machine's clock is ${(off / 1000).toFixed(0)} s ${aheadMs > 0 ? 'behind' : 'ahead of'} that of ${whose}`,
    'Let the machines set their clocks by NTP (`timedatectl set-ntp true`). Times of runs and of the schedule are those of this clock.',
  );
}
