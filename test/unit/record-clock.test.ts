/** What a reply proves where the clocks of the source contradict ours, and which clock is named. */
import { describe, expect, test } from 'vitest';
import { clockOff } from '../../src/engine/budget/clock-off.ts';
import { hearClocks } from '../../src/engine/budget/clocks.ts';
import { hearStamps, type RecordClock } from '../../src/engine/budget/record-clock.ts';

const now = 1_700_000_000_000;
const minute = 60_000;
const hour = 60 * minute;

/** A reply that was granted now, and came at once; all times less our clock's. */
const hear = (clock: RecordClock | null, date: number, stamp?: number, at = now) => {
  const told = {
    dateMs: at + date,
    stampMs: stamp === undefined ? undefined : at + stamp,
    grantedMs: at,
    repliedMs: at,
  };
  const heard = hearStamps(clock, told);
  return { clock: heard.clock, asOf: Math.min(heard.asOfMs, at + date) - at };
};

describe('a reply is as of the most careful witness', () => {
  const second = 1000;
  test.for([
    ['all agree', 0, -second, -second],
    ['Date ahead', 3 * minute, -second, -second],
    ['Date ahead, and no record tells', 3 * minute, undefined, -second],
    ['Date behind', -3 * minute, -second, -3 * minute],
    ['the source ahead', hour, hour - minute, hour - minute - second],
    ['the source ahead, and its stamps are old', hour, hour - 3 * minute, -second],
    ['the source behind', -hour, -hour - second, -hour],
    ['records dated ahead of Date', 3 * minute, hour, -second],
    ['the clock of the records ahead, Date right', 0, 3 * minute, -second],
  ] as const)('%s', ([, date, stamp, asOf]) => {
    expect(hear(null, date, stamp).asOf).toBe(asOf);
  });

  test('an error whose Date is ahead proves no more than our clock does', () => {
    const reply = { dateMs: undefined, stampMs: undefined, grantedMs: now, repliedMs: now };
    expect(hearClocks({ clock: null, records: null }, reply, undefined)).toEqual({
      clocks: {},
      told: { asOfMs: now - second },
    });
    const { clock: records } = hear(null, hour, hour - minute);
    expect(hearClocks({ clock: null, records }, reply, undefined).told).toEqual({
      asOfMs: now + hour - minute - second,
    });
  });
});

describe('of three clocks the one is named that the others contradict', () => {
  const of = (dateMs: number, stampMs: number | null, machineMs = 0) => {
    const off = clockOff({ dateMs, stampMs }, machineMs, 'the help desk');
    return off && `${off.whose}: ${off.says}`;
  };
  test.for([
    [0, -1000, 0, undefined],
    [4000, null, -4000, undefined],
    [180_000, null, 0, 'edge: the Date header', '180 s ahead of the times of its records and our clocks'],
    [180_000, 2000, 0, 'edge: the Date header', '180 s ahead of the times of its records and our clocks'],
    [-180_000, -1000, 0, 'edge: the Date header', '180 s behind the times of its records and our clocks'],
    [-180_000, null, 0, "edge: this machine's clock and the database's", '180 s ahead of the Date header'],
    [180_000, 170_000, 0, "source: this machine's clock and the database's", '180 s behind the clock'],
    [-180_000, -181_000, 0, "source: this machine's clock and the database's", '180 s ahead of the clock'],
    [0, 180_000, 0, 'source: the clock that stamps the records', '180 s ahead of its Date header and our clocks'],
    [0, -1000, -180_000, "ours: this machine's clock", "180 s behind the database's"],
    [180_000, 179_000, 180_000, "ours: the database's clock", '180 s behind those of this machine and the help desk'],
    [-90_000, null, 180_000, "ours: this machine's clock", "180 s ahead of the database's"],
  ] as const)('Date %d ms, stamps %s ms, this machine %d ms', ([dateMs, stampMs, machineMs, whose, says]) => {
    const said = of(dateMs, stampMs, machineMs);
    if (whose === undefined) return expect(said).toBeUndefined();
    expect(said?.startsWith(`${whose} `)).toBe(true);
    expect(said).toContain(` ${says}`);
  });
});
