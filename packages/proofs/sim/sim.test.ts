/**
 * A little of `npm run sim` with every test run: that a seed tells the same story twice, some seeds, the planted defects,
 * and some places to die at.
 */

import { afterAll, beforeAll, expect, test } from 'vitest';
import { amount, long, proof } from '../../../test/support/long.ts';
import type { OwnServer } from '../../../test/support/own-server.ts';
import { describeLongOnLake } from '../../lake/test/support/lake.ts';
import { tryCrashes } from './crash.ts';
import { Database } from './database.ts';
import { defects, type Planted } from './defects/index.ts';
import { type Plan, planOf } from './plan.ts';
import { startServer } from './server.ts';
import { simulate } from './simulate.ts';

let server: OwnServer;
let database: Database;

beforeAll(async () => {
  server = await startServer();
  database = await Database.open(server.url);
});

afterAll(async () => {
  try {
    await database?.close();
  } finally {
    await server?.[Symbol.asyncDispose]();
  }
});

/** Everything that the seed stands for, in a smaller world and for a shorter time: `npm run sim` takes them whole. */
const smaller = ({ tickets, turmoilSteps, turmoilMs }: Plan): Partial<Plan> => ({
  tickets: Math.min(tickets, 8),
  turmoilSteps: Math.min(turmoilSteps, 150),
  turmoilMs: Math.min(turmoilMs, 60_000),
  exports: 0,
});

test('the same seed gives the same history, effect for effect', async () => {
  const plan = smaller(planOf(33));
  const first = await simulate(33, { database, plan, traced: true });
  await simulate(34, { database, plan: smaller(planOf(34)) });
  const again = await simulate(33, { database, plan, traced: true });
  expect(first.steps).toBeGreaterThan(100);
  expect(again.trace).toEqual(first.trace);
});

const seeds = amount(20, 8, 3);

test(`${seeds} seeds: nothing lost, nothing stale, nothing wrongly deleted, no invariant broken`, async () => {
  const complaints: string[] = [];
  let looks = 0;
  for (let seed = 1; seed <= seeds; seed++) {
    const told = await simulate(seed, { database, plan: smaller(planOf(seed)) });
    complaints.push(...told.complaints.map(what => `seed ${seed}: ${what}`));
    looks += told.checks;
  }
  expect(complaints).toEqual([]);
  expect(looks).toBeGreaterThan(10 * seeds);
});

/** What the product does otherwise one day moves the moment at which a defect shows: a few seeds more find it again. */
const fewSeeds = 25;

const onLake = ([, { defect }]: [string, Planted]) => defect.inLake !== undefined;
const planted = Object.entries(defects);

/** Their worlds take half a minute. */
const slow = ['field rules leave the log of changes', 'a volume that moved keeps its position'];
const isSlow = ([name]: [string, Planted]) => slow.includes(name);

const alone = planted.filter(one => !onLake(one));
test.for(alone.filter(one => !isSlow(one)))('caught: %s', long, ([, one]) => isCaught(one));
test.for(alone.filter(isSlow))('caught: %s', proof, ([, one]) => isCaught(one));

await describeLongOnLake('beside a lake', () => {
  test.for(planted.filter(onLake))('caught: %s', proof, ([, one]) => isCaught(one));
});

async function isCaught({ defect, by, recorded }: Planted) {
  for (let { seed } = recorded; seed < recorded.seed + fewSeeds; seed++) {
    const plan = recorded.sharpened?.(planOf(seed)) ?? {};
    const { complaints } = await simulate(seed, { database, defect, plan, until: by });
    if (!complaints.some(what => by.test(what))) continue;
    // It is the defect that is told of, not the seed.
    if (amount(1, 0)) expect((await simulate(seed, { database, plan })).complaints).toEqual([]);
    return;
  }
  expect.fail(`no seed up to ${recorded.seed + fewSeeds} catches it`);
}

test(
  'a process that dies before or after a write of a short script: all runs end with the same tables',
  long,
  async () => {
    const { points, failed } = await tryCrashes(database, { every: amount(101, 801) });
    expect(failed).toEqual([]);
    expect(points).toBeGreaterThan(amount(15, 1));
  },
);
