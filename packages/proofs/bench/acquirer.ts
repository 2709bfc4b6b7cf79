/** A process that takes credits and settles them as fast as the ledger lets it. Started by sections/fleet.ts. */

import { systemClock } from '../../../src/clock.ts';
import { makeBudget } from '../../../src/engine/budget/budget.ts';
import { makeLedgerPool } from '../../../src/engine/database/pool.ts';

export interface AcquirerOptions {
  readonly url: string;
  readonly accounts: number;
  readonly seconds: number;
}

const { url, accounts, seconds } = JSON.parse(process.argv[2]!) as AcquirerOptions;
const pg = makeLedgerPool(url);
const limits = { credits: 1e9, periodMs: 60_000, requestsPerSecond: 1e6, reserve: 0 };
const headers = { limit: limits.credits, used: 2, remaining: limits.credits / 2, resetSeconds: 30 };
let grants = 0;

process.send!('ready');
process.once('message', async () => {
  const untilMs = performance.now() + seconds * 1000;
  await Promise.all(
    Array.from({ length: accounts }, async (_, i) => {
      const own = { pg, clock: systemClock, account: `account-${i}`, source: 'helpdesk', random: Math.random };
      const budget = makeBudget({ ...own, limits, timeoutMs: 30_000 });
      for (; performance.now() < untilMs; grants++)
        await budget.settle(await budget.acquire(2, 'fresh'), { headers, refused: false });
      await budget.book();
    }),
  );
  process.send!(grants / seconds);
  await pg.end();
  process.disconnect();
});
