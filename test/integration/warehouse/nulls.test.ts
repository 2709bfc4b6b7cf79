/** Whoever reads a column knows what null means in it: its comment says so, and of two causes it names the column that decides. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Relation, readCatalog } from '../../../src/analytics/catalog.ts';
import { fillOddWorld } from '../../support/odd-world.ts';
import { freshDatabase, type TestDatabase } from '../../support/postgres.ts';

const metrics = [
  'ticket_metrics',
  'countable_tickets',
  'reply_turns',
  'agent_daily',
  'arrivals_hourly',
  'customer_summary',
  'ticket_targets',
  'message_kinds',
];

let db: TestDatabase;
let relations: Relation[];
beforeAll(async () => {
  db = await freshDatabase();
  await fillOddWorld(db.pool);
  const all = (await readCatalog(db.pool)).flatMap(schema => schema.relations);
  relations = all.filter(({ schema }) => schema === 'analytics');
});
afterAll(() => db?.drop());

test('each column of metrics and star that is ever null says what null means', async () => {
  const ofMetrics = relations.filter(({ name }) => metrics.includes(name) || /^(dim|fact)_/.test(name));
  expect(ofMetrics.length).toBeGreaterThan(20);
  const silent: string[] = [];
  let found = 0;
  for (const { name, columns } of ofMetrics) {
    const { rows } = await db.pool.query(
      `select ${columns.map(column => `bool_or(${column.name} is null) as ${column.name}`).join(', ')} from analytics.${name}`,
    );
    for (const { name: column, comment } of columns) {
      if (rows[0][column]) found++;
      if (rows[0][column] && !/\bnull\b/i.test(comment)) silent.push(`${name}.${column}`);
    }
  }
  expect(found).toBeGreaterThan(60);
  expect(silent).toEqual([]);
});

/** "Null if a is null", "null if a or b is null". Whatever follows, as "; otherwise", names further causes. */
const claim = /\b[Nn]ull if (\w+)(?: or (\w+))? is null\b([.;,])/g;

test('a comment that says by another column when a column is null is right', async () => {
  const untrue: string[] = [];
  let found = 0;
  for (const { name, columns } of relations)
    for (const { name: column, comment } of columns)
      for (const [said, one, other, end] of comment.matchAll(claim)) {
        found++;
        const cause = `(${one} is null${other ? ` or ${other} is null` : ''})`;
        const { rows } = await db.pool.query(
          `select count(*) filter (where ${cause} and ${column} is not null)::int as set,
             count(*) filter (where not ${cause} and ${column} is null)::int as unset from analytics.${name}`,
        );
        if (rows[0].set > 0 || (end === '.' && rows[0].unset > 0)) untrue.push(`${name}.${column}: ${said}`);
      }
  expect(found).toBeGreaterThan(30);
  expect(untrue).toEqual([]);
});

test('business time that is null says by another column why', async () => {
  for (const { name, columns } of relations)
    for (const { name: column, comment } of columns.filter(
      one => one.name.endsWith('_business_seconds') && !name.startsWith('stored_'),
    )) {
      const [, decides] = /\bNull if (\w+) is null; otherwise null means that .* calendar/.exec(comment) ?? [];
      expect({ name, column, comment, decides }).toEqual({ name, column, comment, decides: expect.any(String) });
      const { rows } = await db.pool.query(
        `select count(*)::int as found from analytics.${name} where ${decides} is null and ${column} is not null`,
      );
      expect({ name, column, ...rows[0] }).toEqual({ name, column, found: 0 });
    }
});
