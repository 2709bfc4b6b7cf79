/** Certainty: what random checks prove, and the run that makes them while nobody wants the credits. */
import { expect, test } from 'vitest';
import { freshDatabase } from '../support/postgres.ts';

test('at_most is the bound of Clopper and Pearson', async () => {
  await using db = await freshDatabase();
  // Computed beside it with sixty digits, from the sum of binomial terms; rounded up to four places.
  const known = [
    [0, 1, 95],
    [0, 10, 25.8866],
    [0, 100, 2.9514],
    [0, 8400, 0.0357],
    [1, 2, 97.468],
    [1, 100, 4.656],
    [3, 50, 14.7838],
    [10, 50, 31.5597],
    [50, 100, 58.6379],
    [99, 100, 99.9488],
    [420, 8400, 5.4089],
    [4000, 8400, 48.5219],
    [1, 1, 100],
    [0, 0, 100],
  ];
  const { rows } = await db.pool.query<{ differ: number; many: number; percent: number }>(
    `select differ, many, sync.at_most(differ, many)::float8 as percent
     from unnest($1::int[], $2::int[]) v (differ, many)`,
    [known.map(([differ]) => differ), known.map(([, many]) => many)],
  );
  expect(rows.map(({ differ, many, percent }) => [differ, many, percent])).toEqual(known);
});
