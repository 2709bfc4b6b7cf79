/** Judges clocks: this machine's against the database's, and those of a source. */
import { clockRemedies } from '../../../engine/budget/clock-off.ts';
import type { OffClock } from '../../../status/off-clocks.ts';
import { type Finding, fail, ok, warn } from './check.ts';

/** Tolerated difference. */
const clockMs = 2000;
const farMs = 300_000;

/** `aheadMs`: how far the clock of `whose` is ahead of the clock of this machine. */
export function judgeClocks(aheadMs: number, whose: string): Finding {
  const off = Math.abs(aheadMs);
  if (off <= clockMs) return ok(`it goes as that of ${whose} does`);
  const say = off > farMs ? fail : warn;
  return say(
    `this machine's clock is ${(off / 1000).toFixed(0)} s ${aheadMs > 0 ? 'behind' : 'ahead of'} that of ${whose}`,
    'Let the machines set their clocks by NTP (`timedatectl set-ntp true`). Times of runs and of the schedule are those of this clock.',
  );
}

/** The clocks of one source, by its last reply. */
export function judgeSource(off: readonly OffClock[], source: string): Finding {
  const found = off.find(one => one.source === source);
  if (found === undefined) return ok('its Date, the times of its records and our clocks agree');
  const say = Math.abs(found.byMs) > farMs ? fail : warn;
  return say(found.says, clockRemedies[found.whose]);
}
