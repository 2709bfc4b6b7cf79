/**
 * The budget at the source's real limits, only faster: periods of three seconds. Alone on the account nothing is refused
 * (I5); with another client on it at most one request a period is, and then nobody sends until the reset.
 */
import { describe, expect, test } from 'vitest';
import { type Sandbox, startSandbox } from '../../packages/sandbox/src/server.ts';
import { long } from '../support/long.ts';
import { configFor, differences, syncOnce } from '../support/mirror.ts';
import { openSandbox } from '../support/open-sandbox.ts';
import { freshDatabase } from '../support/postgres.ts';

const periodSeconds = 3;
const limits = { credits: 60, periodMs: periodSeconds * 1000, requestsPerSecond: 12, reserve: 6 };
const sandboxLimits = { credits: limits.credits, periodSeconds, requestsPerSecond: limits.requestsPerSecond };

describe.concurrent('real limits', long, () => {
  test('alone on the account: no 429 at all', async () => {
    await using db = await freshDatabase();
    await using sandbox = await openSandbox({ ...sandboxLimits, window: 'sliding', tickets: 50 });
    const result = await syncOnce(configFor(db.url, sandbox, { limits }));
    expect(result.exitCode).toBe(0);
    expect(sandbox.totals.refused).toBe(0);
    expect(await differences(db.pool, sandbox.world)).toEqual([]);
    const { rows } = await db.pool.query(
      'select sum(interactive + fresh + backfill)::int as credits, sum(refused)::int as refused, max(others)::int as others from sync.credit_minutes',
    );
    expect(rows).toEqual([{ credits: sandbox.totals.credits, refused: 0, others: 0 }]);
  });

  test('with another client eating a third: at most one 429 a period', async () => {
    await using db = await freshDatabase();
    const refusals: number[] = [];
    const sandbox: Sandbox = await startSandbox({ ...sandboxLimits, window: 'fixed', tickets: 50 });
    const other = setInterval(() => sandbox.takeCredits(1), (periodSeconds * 1000) / (limits.credits / 3));
    try {
      const result = await syncOnce(configFor(db.url, sandbox, { limits }));
      expect(result.exitCode).toBe(0);
      for (const { status, at } of sandbox.requests) if (status === 429) refusals.push(at);
      expect(refusals.length).toBe(sandbox.totals.refused);
      const gaps = refusals.slice(1).map((at, i) => at - refusals[i]!);
      expect(gaps.filter(gap => gap < periodSeconds * 1000)).toEqual([]);
      expect(await differences(db.pool, sandbox.world)).toEqual([]);
      const { rows } = await db.pool.query('select max(others) > 0 as seen from sync.credit_minutes');
      expect(rows).toEqual([{ seen: true }]);
    } finally {
      clearInterval(other);
      await sandbox.close();
    }
  });
});
