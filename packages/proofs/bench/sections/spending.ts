/** How much of the allowed budget is used while work waits, at the limits of the real source. */

import type { Lane } from '../../../../src/engine/budget/budget.ts';
import { plansFor } from '../../../../src/engine/queue/schedule.ts';
import { claimSlot } from '../../../../src/engine/runs/slots.ts';
import { getTicketInDetail } from '../../../../src/sources/helpdesk/endpoints.ts';
import { streamsOf } from '../../../../src/sources/index.ts';
import { makeRng } from '../../../sandbox/src/random.ts';
import { TOKEN } from '../../../sandbox/src/switches.ts';
import { account } from '../../sim/process.ts';
import { openDatabase } from '../lab.ts';
import type { Section } from '../report.ts';
import { openVirtual, type Virtual } from '../virtual.ts';

const minuteMs = 60_000;
const limits = { credits: 100, periodMs: minuteMs, requestsPerSecond: 6, reserve: 10 };
type Window = 'fixed' | 'sliding';
const replies = {
  'replies in 0.05 to 0.3 s': (chance: number) => 50 + 250 * chance,
  'replies in 0.05 to 1.2 s': (chance: number) => 50 + 1150 * chance,
};
type Replies = keyof typeof replies;
/** Of another client. */
const perMinute = 33;
const gapsMs = {
  evenly: () => minuteMs / perMinute,
  'at random': (chance: number) => (-Math.log(1 - chance) * minuteMs) / perMinute,
};
type Other = keyof typeof gapsMs;
/** So long the most that others used is remembered. */
const memoryMs = 5 * minuteMs;
/** Before it is measured. */
const warmMs = memoryMs + minuteMs;
/** A ticket with its messages. */
const cost = 2;
/** So long a reply is being stored. */
const storedMs = 10;

export const spending: Section = {
  name: 'spending',
  title: 'Spending credits',
  about: `Of the credits that are allowed, the share that is used while work waits, as the source counts it: 100 credits a minute, 6
requests a second, 10 credits in reserve, on a virtual clock. A round is half an hour of it, after six minutes. Allowed is the limit, less the
reserve, less the most that others truly used in the last five periods; in whole requests, since of 57 credits only 56 can be spent by twos.

Asked as the worker asks, through its own way to the source, with the ledger in PostgreSQL: a reader of a backlog, 2 credits a request, one after the other, and one of
five fresh changes a minute. Then the worker itself: a first load whose messages wait, beside the schedule's run of each minute.`,
  run: async report => {
    const rounds = report.quick ? [1] : [1, 2, 3];
    const forMs = (report.quick ? 3 : 30) * minuteMs;
    const refused = { alone: rounds.map(() => 0), evenly: rounds.map(() => 0), 'at random': rounds.map(() => 0) };
    await using database = await openDatabase();
    for (const window of ['fixed', 'sliding'] as const) {
      const tell = (how: string, shares: number[], headline = false) =>
        report.figure({
          what: `of what is allowed, used in a ${window} window, ${how}`,
          unit: '%',
          rounds: shares,
          atLeast: 98,
          headline,
        });
      for (const other of [undefined, 'evenly', 'at random'] as const) {
        const beside = other ? `beside a client at ${perMinute} a minute, ${other}` : 'alone';
        for (const latency of Object.keys(replies) as Replies[]) {
          const shares: number[] = [];
          for (const [round, seed] of rounds.entries()) {
            const { share, ours, theirs } = await ask(database.url, { window, latency, other, seed, forMs });
            shares.push(share);
            refused[other ?? 'alone'][round]! += other ? theirs : ours;
          }
          tell(`${beside}, ${latency}`, shares, other === 'evenly');
        }
      }
      const { share, ours } = await work(database.url, { window, forMs });
      tell('alone, by the whole worker', [share], true);
      refused.alone[0]! += ours;
    }
    const kinds = [
      ['our requests refused, alone, in all of these', refused.alone, 0],
      [`requests refused of a client at ${perMinute} a minute, evenly`, refused.evenly, 0],
      [`requests refused of a client at ${perMinute} a minute, at random`, refused['at random'], undefined],
    ] as const;
    for (const [what, counts, atMost] of kinds)
      report.figure({ what, unit: '', rounds: counts, ...(atMost !== undefined && { atMost, headline: true }) });
    report.note(
      `One whose requests come at random goes, now and then, beyond the most of its last five minutes by more than the reserve of ${limits.reserve}: then it meets the limit. And of the minute that goes on nobody knows yet how much it will use: what it used in the end is taken off what was allowed, so that the share may be above 100 %.`,
    );
  },
};

interface Scene {
  readonly window: Window;
  readonly latency: Replies;
  readonly other: Other | undefined;
  readonly seed: number;
  readonly forMs: number;
}

async function ask(url: string, { window, latency, other, seed, forMs }: Scene) {
  await using desk = await openVirtual({ url, limits, window, seed, tickets: 50, latencyMs: replies[latency] });
  const rng = makeRng(seed);
  const theirs = other && otherClient(desk, gapsMs[other], makeRng(seed + 1));
  const { clock } = desk.worker.ctx;
  const tickets = [...desk.services.helpdesk.world.tickets.keys()];
  async function read(lane: Lane, pauseMs: () => number): Promise<void> {
    const send = desk.worker.ctx.sources.get('helpdesk')!.send.apart();
    for (let i = 0; ; i++) {
      await send(getTicketInDetail(tickets[i % tickets.length]!, []), { lane });
      await clock.sleep(pauseMs());
    }
  }
  desk.background(read('backfill', () => storedMs));
  desk.background(read('fresh', () => (-Math.log(1 - rng()) * minuteMs) / 5));
  const beganMs = desk.scheduler.nowMs;
  await desk.until(beganMs + warmMs);
  return await measure(desk, { forMs, beganMs, window, theirs });
}

async function work(url: string, { window, forMs }: Pick<Scene, 'window' | 'forMs'>) {
  const latencyMs = replies['replies in 0.05 to 0.3 s'];
  const tickets = Math.ceil((limits.credits * (forMs + memoryMs)) / minuteMs / cost);
  await using desk = await openVirtual({ url, limits, window, tickets, latencyMs });
  const fresh = plansFor(streamsOf(new Set(['helpdesk']))).find(({ schedule }) => schedule === 'fresh')!;
  const everyMinute = (slotMs: number) =>
    desk.scheduler.at(slotMs, desk.director, 'a slot is due', () => {
      everyMinute(slotMs + minuteMs);
      const slot = new Date(slotMs);
      const { worker } = desk;
      desk.background(
        claimSlot(desk.pg, account, fresh, { slot, opener: worker.id, now: slot }).then(() => worker.ring()),
      );
    });
  everyMinute(desk.scheduler.nowMs);
  // The lists come first.
  await desk.until(desk.scheduler.nowMs + memoryMs / 2);
  return await measure(desk, { forMs, beganMs: desk.scheduler.nowMs, window, theirs: undefined });
}

interface Theirs {
  /** When it used a credit. */
  readonly usedMs: number[];
  refused: number;
}

/** Asks for what costs one credit, whatever becomes of it. */
function otherClient(
  { scheduler, services, director }: Virtual,
  gapMs: (chance: number) => number,
  rng: () => number,
): Theirs {
  const theirs: Theirs = { usedMs: [], refused: 0 };
  const headers = { authorization: `Bearer ${TOKEN}`, host: 'desk.example' };
  const next = () =>
    scheduler.at(scheduler.nowMs + gapMs(rng()), director, 'another client asks', () => {
      const { status } = services.handle({ method: 'GET', url: '/api/v1/users', headers });
      if (status === 429) theirs.refused++;
      else theirs.usedMs.push(scheduler.nowMs);
      next();
    });
  next();
  return theirs;
}

async function measure(
  desk: Virtual,
  { forMs, beganMs, window, theirs }: Pick<Scene, 'window' | 'forMs'> & { beganMs: number; theirs: Theirs | undefined },
) {
  const fromMs = desk.scheduler.nowMs;
  const before = desk.counted.credits;
  await desk.until(fromMs + forMs);
  let allowed = 0;
  // Fixed periods are counted from the beginning of the server, sliding ones are looked at in each second.
  const stepMs = window === 'fixed' ? minuteMs : 1000;
  const usedIn = (endMs: number) => theirs?.usedMs.filter(ms => ms >= endMs - minuteMs && ms < endMs).length ?? 0;
  const firstMs = beganMs + Math.ceil((fromMs - memoryMs - beganMs) / stepMs) * stepMs;
  const used: number[] = [];
  for (let endMs = firstMs; endMs <= fromMs + forMs; endMs += stepMs) {
    used.push(usedIn(endMs));
    if (endMs <= fromMs) continue;
    const most = Math.max(...used.slice(-1 - memoryMs / stepMs));
    allowed += (Math.floor((limits.credits - limits.reserve - most) / cost) * cost * stepMs) / minuteMs;
  }
  return {
    share: (100 * (desk.counted.credits - before)) / allowed,
    ours: desk.counted.refused,
    theirs: theirs?.refused ?? 0,
  };
}
