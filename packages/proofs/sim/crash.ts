/**
 * Crash at every effect: one script, and its process dies before each of its effects, and after each of them that writes to the
 * database or speaks to the queue: then the process never hears of the result. All runs must end with the same tables. A death after
 * an effect that only reads is a death before the next one.
 */
import type { Database } from './database.ts';
import type { Plan } from './plan.ts';
import { simulate } from './simulate.ts';

/** Calm: nothing goes wrong but what is tried. */
const script: Partial<Plan> = {
  ...{ tickets: 9, customers: 3, pastSeconds: 600, tied: 0.3, quietly: [], archiveHours: 0, perPage: 3, depth: 6 },
  ...{
    aheadMs: 90_000,
    unannounced: true,
    deletions: true,
    changes: 0.01,
    behindMs: 0,
    jumpMs: 0,
    rules: [],
    slow: 0,
    foreign: 0,
  },
  ...{ erasures: 0, fields: ['name', 'body'], fieldsComeLate: true, volumes: 5, shelfPage: 3, exports: 0 },
  ...{ workers: 1, deaths: 0, troubles: 0, clocksMs: 0, events: 0, turmoilMs: 265_000, turmoilSteps: 3000 },
  ...{ edge: 'right', edgeMs: 0 },
  limits: { credits: 1_000_000, periodMs: 60_000, requestsPerSecond: 1_000_000, reserve: 0 },
};
const seed = 3;

const events = [
  [0, 'sync'],
  [20, 'a customer is deleted'],
  [20, 'a message has a file more'],
  // More in one second than paging reaches: read by creation.
  [21, 'all tickets change in one second'],
  [30, 'sync'],
  [45, 'a ticket is deleted'],
  [60, 'a ticket is dated ahead'],
  [61, 'the catalog changes'],
  [62, 'a person is erased'],
  [70, 'catalog'],
  [150, 'fields are left out'],
  [160, 'sweep'],
  [200, 'a reply'],
  [201, 'again'],
  [230, 'the catalog changes'],
  [231, 'catalog again'],
] as const;

/** What the script is for. */
const needed = ['deletion_candidates', 'swept', 'tombstones', 'walks'];

/** What else it has to come by. */
const happened = ['erased', 'ruled', 'catalog', 'ahead', 'batches'] as const;

export interface Crashes {
  /** Deaths tried so far. */
  readonly points: number;
  /** Deaths to try. */
  readonly of: number;
  /** Effects of the script, and those of them that write: the same for all who try a part of its deaths. */
  readonly effects: number;
  readonly writes: number;
  readonly failed: readonly string[];
}

/** Tries each `every`th death, from number `from`. `tell` hears of each. */
export async function tryCrashes(
  database: Database,
  { every = 1, from = 1, tell = async () => {}, isStopped = () => false }: CrashOptions = {},
): Promise<Crashes> {
  const plan = { ...script, readings: { ...readings, depth: script.depth! } };
  const calm = await simulate(seed, { database, plan, script: events });
  const failed = calm.complaints.map(what => `nobody dies: ${what}`);
  failed.push(...needed.filter(what => !calm.wrote.includes(what)).map(what => `the script writes no ${what}`));
  failed.push(...happened.filter(what => calm[what] === 0).map(what => `the script comes by nothing of this: ${what}`));
  const deaths = [
    ...calm.effects.map(step => ({ step, when: 'before' as const })),
    ...calm.writes.map(step => ({ step, when: 'after' as const })),
  ];
  const tried = deaths.filter((_, n) => n >= from - 1 && (n - from + 1) % every === 0);
  let points = 0;
  const counted = { of: tried.length, effects: calm.effects.length, writes: calm.writes.length };
  for (const dieAt of tried) {
    if (isStopped()) break;
    const told = await simulate(seed, { database, plan, script: events, dieAt });
    if (told.died) points++;
    failed.push(...told.complaints.map(what => `dies ${dieAt.when} effect ${dieAt.step}: ${what}`));
    if (!told.died) failed.push(`effect ${dieAt.step}: no process died ${dieAt.when} it`);
    await tell({ points, ...counted, failed });
  }
  return { points, ...counted, failed };
}

interface CrashOptions {
  readonly every?: number;
  readonly from?: number;
  readonly tell?: (soFar: Crashes) => Promise<void>;
  readonly isStopped?: () => boolean;
}

const readings = {
  ...{
    credits: 1_000_000,
    periodSeconds: 60,
    requestsPerSecond: 1_000_000,
    window: 'fixed' as const,
    sinceInclusive: true,
  },
  ...{ spamListed: false, trashListed: true, beyondDepth: 'error' as const },
};
