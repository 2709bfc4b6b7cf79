/** Compares what a service has in its own database with what the mirror has, row by row and column by column. */
import pg from 'pg';
import { env } from './work.ts';

/** Two queries with the same columns, the first of which names the row. */
export interface Pair {
  readonly theirs: string;
  readonly ours: string;
}

async function rowsOf(url: string, sql: string): Promise<Map<string, string>> {
  const asText = { getTypeParser: () => (value: string) => value };
  const db = new pg.Client({ connectionString: url, options: '-c timezone=UTC', types: asText as never });
  await db.connect();
  const { rows } = await db.query({ text: sql, rowMode: 'array' });
  await db.end();
  return new Map(rows.map(([key, ...values]: unknown[]) => [String(key), JSON.stringify(values)]));
}

/** Prints the counts of each stream. The exit code is 1 if anything differs. `theirs`: the setting with their database. */
export async function compare(theirs: string, pairs: Readonly<Record<string, Pair>>): Promise<void> {
  const found: Record<string, object> = {};
  for (const [name, pair] of Object.entries(pairs)) {
    const [source, mirror] = [await rowsOf(env(theirs), pair.theirs), await rowsOf(env('DATABASE_URL'), pair.ours)];
    const lost = [...source.keys()].filter(key => !mirror.has(key));
    const stale = [...source].filter(([key, row]) => mirror.has(key) && mirror.get(key) !== row).map(([key]) => key);
    const phantom = [...mirror.keys()].filter(key => !source.has(key));
    found[name] = { rows: source.size, lost: lost.length, stale: stale.length, phantom: phantom.length };
    for (const key of stale.slice(0, 2))
      console.error(`${name} ${key} there: ${source.get(key)}\n${name} ${key} here:  ${mirror.get(key)}`);
    for (const [what, keys] of Object.entries({ lost, phantom }))
      if (keys.length > 0) console.error(`${name} ${what}: ${keys.slice(0, 10).join(', ')}`);
    if (lost.length + stale.length + phantom.length > 0) process.exitCode = 1;
  }
  console.table(found);
}
