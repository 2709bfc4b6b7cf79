import pg from 'pg';
import { expect, test } from 'vitest';
import { makeBudget } from '../../src/budget/budget.ts';
import { systemClock } from '../../src/clock.ts';
import { freshDatabase } from '../support/postgres.ts';

test('smoke', async () => {
  await using db = await freshDatabase();
  const budget = makeBudget({ pg: db.pool, clock: systemClock, account: 'a', limits: { credits: 100, periodMs: 60000, requestsPerSecond: 6, reserve: 10 }, timeoutMs: 30000, random: Math.random });
  for (let i = 0; i < 8; i++) {
    const g = await budget.acquire(2, 'fresh');
    await budget.settle(g, { headers: { limit: 100, remaining: 98 - 2 * i, used: 2, resetSeconds: 40 }, refused: false });
  }
  console.log(JSON.stringify((await db.pool.query('select * from sync.budget')).rows), (await db.pool.query('select * from sync.credit_minutes')).rows);
  expect(1).toBe(1);
});
