import { expect, test } from 'vitest';
import { migrate, pendingMigrations } from '../../src/warehouse/migrate.ts';
import { emptyDatabase, freshDatabase } from '../support/postgres.ts';

test('a migrated database has nothing to do', async () => {
  await using db = await freshDatabase();
  expect(await migrate(db.url)).toEqual({ applied: [] });
  expect(await pendingMigrations(db.pool)).toEqual({ missing: [], unknown: [] });
});

test('eight programs that start at once on an empty database apply each migration once', async () => {
  await using db = await emptyDatabase();
  const { missing } = await pendingMigrations(db.pool);
  const results = await Promise.all(Array.from({ length: 8 }, () => migrate(db.url)));
  expect(results.flatMap(({ applied }) => applied)).toEqual(missing);
});
