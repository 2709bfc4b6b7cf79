/**
 * Crash at every step: one short script, and each effect in it is a place where its process may die: before it, or after it
 * and without hearing of it. Each of them is tried, and all have to end alike.
 */
import type { Database } from './database.ts';
import type { Plan } from './plan.ts';
import { simulate } from './simulate.ts';

/** Calm: nothing goes wrong but what is tried. */
const script: Partial<Plan> = {
  ...{ tickets: 12, customers: 3, pastSeconds: 600, crowded: 0.3, quietly: [], archiveHours: 0, perPage: 3, depth: 9 },
  ...{ unannounced: true, deletions: true, changes: 0.01, behindMs: 0, jumpMs: 0, rules: [], slow: 0, foreign: 0 },
  ...{ workers: 1, deaths: 0, troubles: 0, clocksMs: 0, events: 0, turmoilMs: 280_000, turmoilSteps: 3000 },
  limits: { credits: 1_000_000, periodMs: 60_000, requestsPerSecond: 1_000_000, reserve: 0 },
};
const seed = 3;

const events = [
  [0, 'sync'],
  [20, 'a ticket is deleted'],
  [20, 'a customer is deleted'],
  [20, 'a message has a file more'],
  // More in one second than paging reaches: read by creation.
  [21, 'all tickets change in one second'],
  [30, 'sync'],
  [160, 'sweep'],
  [200, 'a reply'],
  [201, 'again'],
] as const;

/** What the script is for. */
const needed = ['suspects', 'swept', 'tombstones', 'walks'];

export interface Crashes {
  /** Where a process did die; the steps of nobody, such as those of the queue, are none. */
  readonly points: number;
  readonly failed: readonly string[];
}

/** `every`: each so manieth place only, beginning at the step `from`. */
export async function tryCrashes(database: Database, { every = 1, from = 1 } = {}): Promise<Crashes> {
  const plan = { ...script, readings: { ...readings, depth: script.depth! } };
  const calm = await simulate(seed, { database, plan, script: events });
  const failed = calm.complaints.map(what => `nobody dies: ${what}`);
  failed.push(...needed.filter(what => !calm.wrote.includes(what)).map(what => `the script writes no ${what}`));
  let points = 0;
  for (const when of ['before', 'after'] as const) {
    for (let step = from; step <= calm.wildSteps; step += every) {
      const { complaints, deaths } = await simulate(seed, { database, plan, script: events, dieAt: { step, when } });
      points += deaths;
      failed.push(...complaints.map(what => `dies ${when} effect ${step}: ${what}`));
    }
  }
  return { points, failed };
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
