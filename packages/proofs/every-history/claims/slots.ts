/** Slots of the schedule, said again: the first who comes opens the run of a due time, or notes why there is none. */
import type { StreamKey } from '../../../../src/engine/database/stream-key.ts';
import type { Plan } from '../../../../src/engine/runs/slots.ts';
import type { Act } from './acts.ts';
import {
  account,
  beginMs,
  type Claims,
  isOpen,
  isPaused,
  minuteMs,
  opened,
  placeOf,
  type Slot,
  sourceOf,
} from './model.ts';

const customers: StreamKey = 'helpdesk.customers';
const tickets: StreamKey = 'helpdesk.tickets';
const fresh: Plan = {
  ...{ schedule: 'fresh', kind: 'fresh', streams: [customers, tickets], unless: ['sync', 'fresh', 'nightly'] },
};
const nightly: Plan = {
  ...{ schedule: 'nightly', kind: 'nightly', streams: [tickets, 'books.shelves'], unless: ['nightly'] },
  ...{ sweeps: [customers, tickets], names: 'helpdesk.messages' },
};
const weekly: Plan = {
  ...{ schedule: 'weekly', kind: 'sync', streams: ['books.shelves'], unless: [], sweeps: [customers] },
};
export const plans = [fresh, nightly, weekly];
/** Slots of minute 61 and 180 come from a machine whose clock is ahead, until it is so late. */
const due: readonly (readonly [Plan, number])[] = [
  ...[-60, 0, 61, 180].map(minutes => [fresh, minutes] as const),
  ...[-60, 0].map(minutes => [nightly, minutes] as const),
  [weekly, 0],
];

/** The clock of the machine that claimed the slot is ahead. */
const isOfWrongClock = ({ timeMs }: Claims, { slotMs }: Pick<Slot, 'slotMs'>) => slotMs >= timeMs + 60 * minuteMs;

export function claimsOfSlots(worker: number): Act[] {
  return due.map(([plan, minutes]) => ({
    kind: 'slot',
    says: `worker ${worker} claims the slot of ${plan.schedule} at minute ${minutes}`,
    async run(product, pool, now) {
      const found = await product.claimSlot(pool, account, plan, {
        slot: new Date(beginMs + minutes * minuteMs),
        opener: worker,
        now,
      });
      return found === undefined ? 'nothing' : 'run' in found ? `run ${found.run}` : `skipped: ${found.skipped}`;
    },
    must: before => claiming(before, plan, beginMs + minutes * minuteMs, worker),
  }));
}

function claiming(claims: Claims, plan: Plan, slotMs: number, worker: number): { answer: string; after: Claims } {
  const same = claims.slots.filter(one => one.schedule === plan.schedule);
  if (same.some(one => one.slotMs === slotMs || (one.slotMs > slotMs && !isOfWrongClock(claims, one))))
    return { answer: 'nothing', after: claims };
  const takes = (after: Claims, how: Pick<Slot, 'run' | 'skipped'>): Claims => ({
    ...after,
    slots: [...after.slots, { schedule: plan.schedule, slotMs, worker, atMs: claims.timeMs, ...how }],
  });
  const skips = (skipped: string) => ({ answer: `skipped: ${skipped}`, after: takes(claims, { run: null, skipped }) });
  const going = (streams: readonly StreamKey[]) =>
    streams.filter(stream => !isPaused(claims, { account, stream })).sort((a, b) => placeOf(a) - placeOf(b));
  const streams = going(plan.streams);
  if (streams.length === 0) return skips('paused');
  const open = openOf(claims, streams, plan.unless);
  if (open !== undefined) return skips(`run ${open} is open`);
  let after = opened(claims, { kind: plan.kind, streams, opener: worker });
  const run = after.runs.at(-1)!.id;
  const names = plan.names ? going([plan.names]) : [];
  if (names.length > 0 && !isNext(after, names[0]!))
    after = opened(after, { kind: 'hydrate', streams: names, opener: worker });
  const read = going(plan.sweeps ?? []).filter(one =>
    claims.covered.some(text => text.startsWith(`${account} ${one} `)),
  );
  if (read.length > 0 && openOf(after, read, ['sweep']) === undefined)
    after = opened(after, { kind: 'sweep', streams: read, opener: worker });
  return { answer: `run ${run}`, after: takes(after, { run, skipped: null }) };
}

/** An open run that has yet to read the last of these streams, of a source. */
function openOf(claims: Claims, streams: readonly string[], kinds: readonly string[]): number | undefined {
  const last = streams.filter((one, n) => !streams.slice(n + 1).some(later => sourceOf(later) === sourceOf(one)));
  return claims.runs.find(
    run =>
      run.account === account &&
      run.state === 'running' &&
      kinds.includes(run.kind) &&
      claims.parts.some(part => part.run === run.id && isOpen(part) && last.includes(part.stream)),
  )?.id;
}

/** A run reads this stream now, or nothing of the same source before it. */
const isNext = (claims: Claims, stream: string): boolean =>
  claims.runs.some(run => {
    if (run.account !== account || run.state !== 'running') return false;
    const open = claims.parts.filter(
      one => one.run === run.id && isOpen(one) && sourceOf(one.stream) === sourceOf(stream),
    );
    const part = open.find(one => one.stream === stream);
    return part && (part.state === 'running' || open.every(one => one === part || isPaused(claims, one)));
  });

/** What `lastSlot` must say. */
export function lastOf(claims: Claims, schedule: string): string {
  const last = claims.slots
    .filter(one => one.schedule === schedule && !isOfWrongClock(claims, one))
    .sort((a, b) => b.slotMs - a.slotMs)[0];
  return last ? JSON.stringify([last.slotMs, last.run, last.skipped]) : 'none';
}
