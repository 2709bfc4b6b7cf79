/** Erases a person who reappears under another id or with another contact value, in a transaction of its own. */
import type pg from 'pg';
import { transaction } from '../engine/database/pool.ts';
import { noteOperation, toldOf } from '../engine/runs/operations.ts';
import type { Declaring } from './declared.ts';
import { eraseMore } from './erase.ts';
import type { FoundAgain } from './screen.ts';

/**
 * Records the operation, because nobody requested it. Operations for tickets alone are not recorded, because there are
 * many.
 */
export async function eraseFound(
  { pg: pool, streams }: { readonly pg: pg.Pool; readonly streams: readonly Declaring[] },
  { account, found, nowMs }: FoundAgain,
): Promise<void> {
  const now = new Date(nowMs);
  await transaction(pool, async client => {
    const removed = await eraseMore(client, account, found, now, streams);
    for (const customer of found.customers)
      await noteOperation(
        client,
        { account, who: 'the worker', action: 'erase', subject: `customer ${customer}`, outcome: toldOf(removed) },
        now,
      );
  });
}
