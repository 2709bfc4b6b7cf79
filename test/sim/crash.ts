/**
 * Crash at every step: one short script, and each effect in it is a place where its process may die: before it, or after it
 * and without hearing of it. Each of them is tried, and all have to end alike.
 */
import type { Database } from './database.ts';
import type { Plan } from './plan.ts';
import { simulate } from './simulate.ts';

/** Calm: nothing goes wrong but what is tried. */
const script: Partial<Plan> = {
  ...{ tickets: 5, customers: 3, pastSeconds: 600, crowded: 0.3, quietly: [], archiveHours: 0, perPage: 2, depth: 8 },
  ...{ unannounced: true, deletions: true, changes: 0.03, behindMs: 0, jumpMs: 0, rules: [], slow: 0, foreign: 0 },
  ...{ workers: 1, deaths: 0, troubles: 0, clocksMs: 0, events: 0, turmoilMs: 40_000, turmoilSteps: 1000 },
  limits: { credits: 1_000_000, periodMs: 60_000, requestsPerSecond: 1_000_000, reserve: 0 },
};
const seed = 3;

export interface Crashes {
  readonly points: number;
  readonly failed: readonly string[];
}

/** `every`: each so manieth place only. */
export async function tryCrashes(database: Database, every = 1): Promise<Crashes> {
  const plan = { ...script, readings: { ...readings, depth: script.depth! } };
  const calm = await simulate(seed, { database, plan });
  const failed = calm.complaints.map(what => `nobody dies: ${what}`);
  let points = 0;
  for (const when of ['before', 'after'] as const) {
    for (let step = 1; step <= calm.wildSteps; step += every) {
      points++;
      const { complaints } = await simulate(seed, { database, plan, dieAt: { step, when } });
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
