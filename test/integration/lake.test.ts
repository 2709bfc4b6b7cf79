/** The lake is equal to the warehouse after each export, whatever happened before. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { makeRng } from '../../packages/sandbox/src/random.ts';
import { differing } from '../../src/lake/compare.ts';
import { openLake } from '../../src/lake/duckdb.ts';
import { exportTo } from '../../src/lake/export.ts';
import { alone, turnOn } from '../../src/lake/state.ts';
import { lakeTables } from '../../src/sources/index.ts';
import { inProcess } from '../support/in-process.ts';

test('random changes', async () => {
  await using s = await inProcess({ tickets: 60, seed: 5 });
  const path = await mkdtemp(join(tmpdir(), 'lake-'));
  const place = { path, extensions: process.env.LAKE_EXTENSIONS };
  const rng = makeRng(3);
  try {
    await s.sync();
    await alone(s.url, client => turnOn(client, { path, personal: true, keepDays: 30 }, 'test', new Date()));
    await using lake = await openLake(s.url, place);
    for (let step = 0; step < 12; step++) {
      const done = await alone(s.url, client => exportTo(lake, client, lakeTables));
      console.log(step, done);
      expect(await alone(s.url, client => differing(lake, client, lakeTables))).toEqual([]);
      for (let i = 0; i < 5; i++) s.world.mutate(rng);
      s.nowMs += 300_000;
      await s.sync();
    }
  } finally {
    await rm(path, { recursive: true, force: true });
  }
}, 120_000);
