/**
 * Every question of docs/queries, asked of a warehouse that ends today and has its metrics: by the owner and by a reader of one
 * account. Then every join of the star by its keys, as a BI tool writes it.
 */
import pg from 'pg';
import { readCatalog } from '../../src/analytics/catalog.ts';
import { readQueries } from '../../src/cli/look/query.ts';
import { letReaderIn } from '../../test/support/readers.ts';
import { starJoins } from '../../test/support/star-joins.ts';
import { fillBySql } from '../desk-by-sql.ts';
import { openDatabase } from '../lab.ts';
import { medianOf, type Section } from '../report.ts';

const all = 100_000;
const rounds = 3;
const dayMs = 86_400_000;

export const questions: Section = {
  name: 'questions',
  title: 'Every question',
  about: [
    `A warehouse of ${all.toLocaleString('en-US')} tickets of two years up to today, with their history, metrics and 348,000 messages, made by SQL.`,
    'Each question of docs/reference/questions.md is asked by the owner and by a reader of one account: the figure is that of the slower one.',
    'Then each join of the star by its keys, before PostgreSQL has any statistics and after.',
  ].join(' '),
  async run({ quick, figure, note }) {
    await using database = await openDatabase();
    await fillQuestions(database.pool, quick ? all / 10 : all);
    await using reader = await letReaderIn(database, { accounts: ['default'] });
    const owner = new pg.Client({ connectionString: database.url });
    await owner.connect();
    try {
      const timed = async (client: pg.Client, sql: string): Promise<number> => {
        const begun = performance.now();
        await client.query(sql);
        return (performance.now() - begun) / 1000;
      };
      const slower = async (sql: string): Promise<number> =>
        Math.max(await timed(owner, sql), await timed(reader.client, sql));
      const joins = starJoins(await readCatalog(database.pool));
      const slowestJoin = async (): Promise<number> => {
        const took: { name: string; seconds: number }[] = [];
        for (const { name, sql } of joins) took.push({ name, seconds: await slower(sql) });
        const worst = took.toSorted((a, b) => b.seconds - a.seconds)[0]!;
        note(`The slowest of ${took.length} joins: ${worst.name}, ${worst.seconds.toFixed(2)} s.`);
        return worst.seconds;
      };
      const queries = await readQueries();
      const asked = async (): Promise<Map<string, number>> => {
        const took = new Map<string, number>();
        for (const { name, sql } of queries) took.set(name, await slower(sql));
        return took;
      };
      const ofJoins = { unit: 's', atMost: 2 };
      figure({ what: 'the slowest join, no statistics yet', ...ofJoins, rounds: [await slowestJoin()] });
      const unplanned = await asked();
      figure({
        what: 'the slowest question, no statistics yet',
        ...ofJoins,
        rounds: [Math.max(...unplanned.values())],
      });
      await owner.query('analyze');
      figure({ what: 'the slowest join', ...ofJoins, rounds: [await slowestJoin()] });
      const each = new Map(queries.map(({ name }) => [name, [] as number[]]));
      for (let round = 0; round < rounds; round++)
        for (const [name, seconds] of await asked()) each.get(name)!.push(seconds);
      for (const [name, took] of [...each].sort(([, a], [, b]) => medianOf(b) - medianOf(a)))
        figure({ what: name, unit: 's', atMost: 2, rounds: took });
    } finally {
      await owner.end();
    }
  },
};

/** Business hours, what is complete, and what was spent; then the metrics of all tickets. Nothing is analysed. */
export async function fillQuestions(pool: pg.Pool, tickets: number): Promise<void> {
  const now = new Date();
  const until = new Date(now.getTime() - 3 * dayMs);
  await fillBySql(pool, { tickets, messages: Math.round(3.48 * tickets), customers: tickets / 4, until });
  await pool.query(`
    insert into analytics.calendars (name, time_zone) values ('office', 'Europe/Berlin');
    insert into analytics.calendar_hours (calendar, weekday, opens, closes)
    select 'office', day, time '09:00', time '18:00' from generate_series(1, 5) day;
    insert into internal.stored_calendar_assignments (account_id, inbox_id, calendar) values ('default', null, 'office');
    insert into sync.coverage (account_id, source, stream, list, covered)
    select 'default', 'helpdesk', s, 'default', tstzmultirange(tstzrange('1970-01-01', '${now.toISOString()}')) from unnest(array['users', 'customers', 'tickets']) s;
    insert into sync.credit_minutes (account_id, source, minute, credit_limit, fresh, backfill, sweep)
    select 'default', 'helpdesk', minute, 500, 20, 60, 5
    from generate_series(timestamptz '${now.toISOString()}' - interval '35 days', '${now.toISOString()}', interval '1 minute') minute;
    insert into books.shelves (account_id, owner_id, id, title, _first_seen_at, _synced_at, _observed_at, _payload)
    select 'default', 'u1', n, 'Shelf ' || n, t, t, t, '{}' from generate_series(1, 50) n, (select timestamptz '2025-11-01') x (t)`);
  await pool.query('call analytics.recompute()');
}
