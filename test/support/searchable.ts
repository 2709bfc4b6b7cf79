import { searchOn } from '../../src/analytics/search.ts';
import { freshDatabase, type TestDatabase } from './postgres.ts';

/** All migrations applied, no rows, and the indexes of search. */
export async function searchableDatabase(): Promise<TestDatabase> {
  const db = await freshDatabase();
  await searchOn({ url: db.url, db: db.pool }, { show: () => {}, signal: new AbortController().signal });
  return db;
}
