/** PostgreSQL does what the mirror of the small worlds does. */
import { test } from 'vitest';
import { makePool } from '../../../../src/engine/database/pool.ts';
import { freshDatabase } from '../../../../test/support/postgres.ts';
import { comparisons } from './in-sql.ts';
import { listComparisons } from './lists-in-sql.ts';

test.each(Object.entries({ ...comparisons, ...listComparisons }))('%s', async (_, compare) => {
  await using db = await freshDatabase();
  const pool = makePool(db.url);
  await compare(pool).finally(() => pool.end());
});
