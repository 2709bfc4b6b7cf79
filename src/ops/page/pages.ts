/** Renders pages, and later changes of them, from warehouse rows and account settings. */

import type pg from 'pg';
import type { Clock } from '../../clock.ts';
import type { StreamKey } from '../../engine/database/stream-key.ts';
import { nextSlots, timetables } from '../../engine/queue/schedule.ts';
import { readRequests } from '../../engine/runs/request-log.ts';
import { streams as declared, streamsOf } from '../../sources/index.ts';
import { accountNames, allAccounts, type Served } from '../../status/accounts.ts';
import { readRun } from '../../status/runs.ts';
import { timeLeft } from '../../status/time-left.ts';
import type { Role } from './auth.ts';
import { graphed, type Range } from './credits.ts';
import type { Look } from './live.ts';
import { type AccountLine, readAccount, readFleetFigures } from './overview.ts';
import { type Known, type Parts, partsOf } from './render/account.ts';
import { fleetParts, pathOf } from './render/fleet.ts';
import { type Step, stepsOf, unknownScale } from './render/graph.ts';
import { runParts } from './render/run.ts';
import { makeTargets } from './targets.ts';

export type Pages = ReturnType<typeof makePages>;

const dayMs = 24 * 3_600_000;
/** Shown slots per schedule. */
const shownSlots = 3;

export function makePages({
  pg,
  clock,
  accounts,
  refused,
}: {
  pg: pg.Pool;
  clock: Clock;
  accounts: () => readonly Served[];
  refused: () => readonly string[];
}) {
  const find = (account: string) => accounts().find(({ config }) => config.account === account);
  const all = (held: readonly string[]) => allAccounts(accounts(), refused(), held);
  const targetsOf = makeTargets(pg, clock);
  const slots = new Map<string, { untilMs: number; next: Known['next'] }>();

  /** Computed anew once the first of the slots has passed. */
  function nextOf(account: string): Known['next'] {
    const one = find(account);
    if (one === undefined || one.sources.size === 0) return [];
    const nowMs = clock.now();
    const before = slots.get(account);
    if (before !== undefined && nowMs < before.untilMs) return before.next;
    const { schedule: times } = one.config;
    const next = timetables(times, streamsOf(one.sources)).map(timetable => ({
      schedule: timetable.plan.schedule,
      cron: timetable.expression,
      timeZone: times.timeZone,
      times: nextSlots(timetable, shownSlots, nowMs),
    }));
    const first = Math.min(...next.flatMap(({ times: [soonest] }) => soonest?.getTime() ?? []));
    slots.set(account, { untilMs: Math.min(first, nowMs + 60_000), next });
    return next;
  }

  function knownOf(account: string): Known {
    const one = find(account);
    const limits = one?.sources.get(graphed.name)?.limits;
    return {
      scale: limits && { periodMs: limits.periodMs, limit: limits.credits },
      perDay: new Map(
        [...(one?.sources ?? [])].map(([name, { limits }]) => [name, (limits.credits * dayMs) / limits.periodMs]),
      ),
      next: nextOf(account),
      timeLeft: stream => timeLeft(stream, one, clock.now()),
    };
  }

  return {
    /** All accounts: those in the warehouse, and those with settings, valid or not. */
    async accounts(): Promise<readonly string[]> {
      return all(await accountNames(pg));
    },
    /** Streams of the account's configured sources; undefined without settings. */
    streamsOf(account: string): readonly StreamKey[] | undefined {
      const one = find(account);
      return one && declared.filter(({ source }) => one.sources.has(source)).map(({ key }) => key);
    },
    account:
      (account: string, range: Range): Look =>
      async () => {
        const [figures, targets] = await Promise.all([readAccount(pg, account, range), targetsOf(account)]);
        const known = knownOf(account);
        return (role: Role): Parts => partsOf({ figures, targets, known, range, role, link: pathOf(account) });
      },
    /** Undefined if the account has no such run. */
    async run(account: string, run: number): Promise<Look | undefined> {
      const read = () => readRun(pg, account, run, new Date(clock.now()));
      if ((await read()) === undefined) return undefined;
      return async () => {
        const [found, requests] = await Promise.all([read(), readRequests(pg, run)]);
        const at = new Date(clock.now());
        return (role: Role): Parts => (found ? runParts(found, requests, { at, role, link: pathOf(account) }) : {});
      };
    },
    /** Values of the graph, in credits per minute. */
    async credits(account: string, range: Range): Promise<Step[]> {
      const { credits } = await readAccount(pg, account, range);
      return stepsOf(credits, knownOf(account).scale ?? unknownScale);
    },
    fleet: async (): ReturnType<Look> => {
      const { at, accounts: lines, lake } = await readFleetFigures(pg);
      const there = new Set(lines.map(({ account }) => account));
      const unread: AccountLine[] = all([...there])
        .filter(account => !there.has(account))
        .map(account => ({ account, streams: [], problems: { critical: 0, warning: 0, info: 0 }, workers: 0 }));
      // Reads nothing else about the accounts, because computing due times is slow.
      const parts = fleetParts({ at, accounts: [...lines, ...unread], refused: refused(), lake }, stream =>
        timeLeft(stream, find(stream.account), clock.now()),
      );
      return () => parts;
    },
  };
}
