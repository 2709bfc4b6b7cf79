/** Who comes again under another id, or with another contact value, is erased by the worker, in a transaction of its own. */
import type pg from 'pg';
import { transaction } from '../engine/database/pool.ts';
import { noteOperation, toldOf } from '../engine/runs/operations.ts';
import type { Declaring } from './declared.ts';
import { eraseMore } from './erase.ts';
import type { FoundAgain } from './screen.ts';

/** Nobody has asked for it: so it is written down. Of tickets alone it is not, since there are many. */
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
