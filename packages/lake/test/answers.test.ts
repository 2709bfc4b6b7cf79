/**
 * The lake answers as the warehouse does: every question of docs/queries, and every view and macro that the lake has instead of a
 * table. The last export has the warehouse as it is.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Query, readQueries } from '../../../src/analytics/questions.ts';
import { askAccounts } from '../../../src/cli/look/sql.ts';
import { lakePackage, openLake } from '../../../src/lake/package.ts';
import { together } from '../../../src/privacy/ask.ts';
import { lakeTables } from '../../../src/sources/index.ts';
import { ran } from '../../../test/support/here.ts';
import type { InProcess } from '../../../test/support/in-process.ts';
import { amount, long } from '../../../test/support/long.ts';
import { fillOddWorld } from '../../../test/support/odd-world.ts';
import { freshDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import { variedWorld } from '../../../test/support/varied-world.ts';
import { describeOnLake } from './support/lake.ts';
import { type LakeBeside, lakeBeside } from './support/lake-beside.ts';

const queries: Query[] = await readQueries();
const { askLake } = await lakePackage();
let here: InProcess;
let beside: LakeBeside;
/** Checks of analytics.integrity that need what the lake does not have. */
const onlyInWarehouse = [
  'messages without their ticket',
  'history of tickets that are not here',
  'tickets without metrics',
  'business times that are not worked out anew',
  'metrics of tickets that are not here',
];

/** Other days than in UTC, where the warehouse is asked, for half of the time, and another hour since 5 April. */
const far = 'Pacific/Auckland';

/** Rows as text, in an order that does not depend on who sorted them. */
const sorted = (rows: readonly unknown[][]): string[] => rows.map(row => JSON.stringify(row.map(plain))).sort();

/** A sum of floats depends on the order of its parts. */
function plain(value: unknown): unknown {
  return typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(12)) : value;
}

/** The warehouse, as DuckDB reads it: values have the same types. */
async function compare(warehouse: string, lake: string): Promise<void> {
  await beside.lake.run('use lake');
  try {
    const [there, own] = [
      await beside.lake.answer(lake),
      await beside.lake.answer(`from postgres_query('warehouse', '${warehouse.replaceAll("'", "''")}')`),
    ];
    expect(there.names).toEqual(own.names);
    expect(own.rows.length).toBeGreaterThan(0);
    expect(sorted(there.rows)).toEqual(sorted(own.rows));
  } finally {
    await beside.lake.run('use memory');
  }
}

async function compareView(db: TestDatabase['pool'], view: string): Promise<void> {
  const { rows } = await db.query<{ listed: string }>(
    `select string_agg(case when t.typname = 'numeric' then format('%1$I::float8 as %1$I', attname) else quote_ident(attname) end, ', ' order by attnum) as listed
     from pg_attribute a join pg_type t on t.oid = a.atttypid where attrelid = $1::regclass and attnum > 0`,
    [`analytics.${view}`],
  );
  await compare(`select ${rows[0]!.listed} from analytics.${view}`, `from analytics.${view}`);
}

const views = [
  'agent_daily',
  'arrivals_hourly',
  'countable_tickets',
  'customer_summary',
  'fact_backlog',
  'fact_backlog_months',
  'fact_targets',
  'message_kinds',
  'message_senders',
  'ticket_history',
  'ticket_targets',
];

await describeOnLake('answers of the lake', () => {
  beforeAll(async () => {
    here = await variedWorld(amount(40, 8));
    beside = await lakeBeside(here.url);
    await beside.export();
  }, 900_000);
  afterAll(async () => {
    await beside?.[Symbol.asyncDispose]();
    await here?.[Symbol.asyncDispose]();
  });

  describe('a question has the same answer on the lake, in another time zone of who asks:', () => {
    test.for(queries)('$name', async ({ name, sql }) => {
      const { names, rows } = await askAccounts({ pg: here.pool, url: here.url }, sql, undefined);
      const both = name === 'integrity' ? rows.filter(row => !onlyInWarehouse.includes(String(row[1]))) : rows;
      expect(both.length).toBeGreaterThan(0);
      const there = together(await askLake(beside.lake, sql, undefined));
      expect([there.names, there.rows]).toEqual([names, both]);
    });
    beforeAll(() => beside.lake.run(`set TimeZone = '${far}'`));
    afterAll(() => beside.lake.run(`set TimeZone = 'UTC'`));
  });

  test.for(views)('analytics.%s has the same rows', view => compareView(here.pool, view));

  test('the lake has every public table and view', async () => {
    const wanted = await here.rows(
      `select format('%s.%s', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = any ('{analytics,books,helpdesk,safe}') and c.relkind = any ('{r,v}')
       -- Who asks there has the guide of the warehouse.
       and c.relname <> 'guide' order by 1`,
    );
    const there = await beside.lake.rows<{ name: string }>(
      `select schema_name || '.' || table_name as name from duckdb_tables() where database_name = 'lake'
     union all select schema_name || '.' || view_name from duckdb_views() where database_name = 'lake'`,
    );
    const had = new Set(there.map(({ name }) => name));
    expect(lakeTables.filter(({ name }) => !had.has(name))).toEqual([]);
    expect(wanted.map(({ name }) => name).filter(name => !had.has(String(name)))).toEqual([]);
  });

  describe('macros', () => {
    test('tickets_as_of at several moments', async () => {
      const moments = await here.rows(
        `select distinct to_char(m at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at from (
         select max(valid_from) - interval '1 hour' as m from analytics.ticket_history
         union all select min(valid_from) from analytics.ticket_history
         union all (select valid_to from analytics.ticket_history where valid_to is not null order by ticket_id limit 4)
         union all (select change_after from analytics.ticket_history where not is_first order by ticket_id limit 4)
         union all (select valid_from - interval '1 second' from analytics.ticket_history where change_by is not null limit 2)) t`,
      );
      expect(moments.length).toBeGreaterThan(5);
      for (const { at } of moments) {
        const sql = `select * from analytics.tickets_as_of(timestamptz '${at}')`;
        await compare(sql, sql);
      }
    });

    test('backlog_daily in several zones', async () => {
      const [{ first, last }] = (await here.rows(
        `select (max(valid_from)::date - 60)::text as first, (max(valid_from)::date + 2)::text as last from analytics.ticket_history`,
      )) as [{ first: string; last: string }];
      for (const zone of ['UTC', 'America/New_York', 'Pacific/Auckland', 'Asia/Kathmandu']) {
        const sql = `select * from analytics.backlog_daily(date '${first}', date '${last}', '${zone}')`;
        await compare(sql, sql);
      }
    });

    test('calendar_of, business_seconds and business_time_after', async () => {
      const sql = `select m.account_id, m.ticket_id, analytics.calendar_of(m.account_id, m.inbox_id) as calendar,
        analytics.business_seconds(analytics.calendar_of(account_id, inbox_id), created_at, updated_at) as took,
        analytics.business_seconds('coast', m.updated_at, m.created_at) as back,
        analytics.business_seconds('none', m.created_at, m.updated_at) as unknown,
        analytics.business_seconds('far', m.first_closed_at, m.updated_at) as perhaps,
        analytics.business_time_after(analytics.calendar_of(account_id, inbox_id), created_at, 3600.0) as later
      from analytics.ticket_metrics m`;
      await compare(sql, sql);
    });

    test('is_backlog, is_countable and message_kind', async () => {
      const sql = `select s, f, analytics.is_backlog(s, f, false) as b, analytics.is_backlog(s, false, f) as c, analytics.is_countable(f, false, null) as d,
        analytics.is_countable(false, f, null) as e, analytics.is_countable(f, f, timestamptz '2026-01-01 00:00:00+00') as g,
        analytics.message_kind('reply', s, null) as h, analytics.message_kind(s, 'out', 'u') as i, analytics.message_kind('reply', s, 'u') as k
      from (values ('open'), ('closed'), ('archived'), ('in'), ('out'), ('note'), (null)) x (s) cross join (values (true), (false), (null)) y (f)`;
      await compare(sql, sql);
    });
  });

  test('views and macros need no name of the lake', async () => {
    await using lake = await openLake(here.url, beside.place, { mode: 'read' });
    const counted = 'select count(*)::int as n from lake.analytics.fact_backlog';
    const [own] = await lake.rows<{ n: number }>(counted);
    await lake.run('use lake');
    expect(await lake.rows(counted.replace('lake.', ''))).toEqual([own]);
  });

  describe('query run --lake', () => {
    const run = (...args: string[]) =>
      ran(['query', 'run', ...args], { DATABASE_URL: here.url, LAKE_EXTENSIONS: process.env.LAKE_EXTENSIONS! });

    test('says as of when the lake is, and what to do without an export', async () => {
      expect(await run('labels', '--lake')).toMatchObject({
        code: 2,
        stderr: 'error: the lake is empty\nFill it with `npx shelfdesk lake export`.\n',
      });
      await here.rows(
        `insert into sync.lake_exports (started_at, state, moment) values ('2026-04-01', 'done', '2026-04-01T12:00:00Z')`,
      );
      const [there, own] = await Promise.all([run('labels', '--lake'), run('labels')]);
      expect(there.stdout).toEqual(own.stdout);
      expect(there.stderr).toMatch(/24 rows, of the lake as of 2026-04-01T12:00:00.000Z\n$/);
      expect(await run('labels', '--lake', '--account', 'nobody')).toMatchObject({
        code: 2,
        stderr: "error: the lake has no account 'nobody'\nChoose with --account: default, umbra.\n",
      });
    });
  });
});

await describeOnLake('answers of the lake about what is odd', () => {
  let db: TestDatabase;
  beforeAll(async () => {
    db = await freshDatabase();
    await fillOddWorld(db.pool);
    await db.pool.query(oddities);
    beside = await lakeBeside(db.url);
    await beside.export();
  }, 120_000);
  afterAll(async () => {
    await beside?.[Symbol.asyncDispose]();
    await db?.drop();
  });

  test.for(views.filter(view => view !== 'message_senders'))('analytics.%s', long, view => compareView(db.pool, view));

  test('analytics.integrity', long, () =>
    compare(
      `select check_name, account_id, found from analytics.integrity where check_name <> all ('{${onlyInWarehouse.join(',')}}')`,
      'select check_name, account_id, found from analytics.integrity',
    ),
  );

  test('tickets_as_of', long, async () => {
    const { rows } = await db.pool.query<{ at: string }>(
      `select distinct to_char(m at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at from (
         (select valid_from as m from analytics.ticket_history where change_after is null and not is_first limit 3)
         union all (select valid_from - interval '2 hours' from analytics.ticket_history where change_after is null and not is_first limit 3)
         union all select valid_to - interval '1 hour' from analytics.ticket_history where deleted_after is not null) t`,
    );
    for (const { at } of rows) {
      const sql = `select * from analytics.tickets_as_of(timestamptz '${at}')`;
      await compare(sql, sql);
    }
  });

  test.for(['UTC', 'Pacific/Honolulu', 'Pacific/Auckland'])('backlog_daily in %s', long, async zone => {
    for (const from of ['2026-02-20', '2026-04-11', '2026-04-13']) {
      const sql = `select * from analytics.backlog_daily(date '${from}', date '2026-07-01', '${zone}')`;
      await compare(sql, sql);
    }
  });
});

/**
 * Tickets that came back, changes with bounds of every kind, the same labels in another order and number, more targets, accounts that are
 * complete up to moments far apart, and a shelf that is not here. In Havana the first of November 2026 begins at 04:00 UTC, and again at 05:00.
 */
const oddities = `
  update helpdesk.tickets set _deleted_at = null, _deleted_after = null, state = case id when 't17' then 'closed' else 'open' end,
    updated_at = _deleted_at + interval '3 days', _observed_at = _deleted_at + interval '3 days', _true_by = _deleted_at + interval '3 days 1 minute'
  where id in ('t17', 't34', 't68', 't85');
  update helpdesk.tickets set label_ids = '{l1,l0}' where id in ('t6', 't21');
  update internal.ticket_history set change_after = null where not is_first and right(ticket_id, 1) in ('3', '6');
  update internal.ticket_history set change_by = valid_from + interval '80 hours' where right(ticket_id, 1) = '2';
  update internal.ticket_history set deleted_after = valid_from - interval '40 hours' where ticket_id = 't51' and valid_to is not null;
  update internal.ticket_history set deleted_after = valid_to - interval '2 hours' where ticket_id = 't12' and valid_to is not null;
  update internal.ticket_history set state = null, user_id = null, inbox_id = null where ticket_id = 't12' and is_first;
  update internal.ticket_history set change_after = valid_from - interval '30 minutes' where ticket_id = 't12' and not is_first;
  insert into internal.stored_service_targets (account_id, inbox_id, label_id, metric, target_seconds)
  values ('acme', null, 'l0', 'resolution', 40000), ('acme', 'i1', 'l1', 'resolution', 60000), ('umbra', 'i2', null, 'resolution', 30000),
    ('acme', null, null, 'next_reply', 3000), ('acme', null, null, 'resolution_without_hold', 90000), ('umbra', null, null, 'resolution_without_hold', 90000);
  insert into internal.stored_service_targets (account_id, metric, target_seconds, valid_from, valid_to)
  values ('umbra', 'next_reply', 6000, null, '2026-03-20'), ('umbra', 'next_reply', 9000, '2026-03-20', null);
  insert into books.shelf_volumes (account_id, owner_id, shelf_id, volume_id, position, _first_seen_at, _synced_at, _observed_at, _payload)
  values ('acme', 'ada', '9', 'v1', 0, '2026-03-01', '2026-03-01', '2026-03-01', '{}');
  insert into sync.accounts (account_id, mirrored_since) values ('havana', '2026-01-01');
  insert into analytics.calendars (name, time_zone) values ('havana', 'America/Havana');
  insert into internal.stored_calendar_assignments (account_id, calendar) values ('havana', 'havana');
  insert into helpdesk.tickets (account_id, id, state, created_at, updated_at, _true_by, _first_seen_at, _synced_at, _observed_at, _payload)
  select 'havana', id, state, '2026-10-25', at, by, by, by, by, '{}' from (values
    ('twice', 'open', timestamptz '2026-10-25', timestamptz '2026-10-25'), ('shown-late', 'closed', '2026-10-30', '2026-11-02')) t (id, state, at, by);
  update helpdesk.tickets set state = 'closed', updated_at = '2026-11-01T04:30Z', _observed_at = '2026-11-01T04:30Z', _true_by = '2026-11-01T04:30Z' where id = 'twice';
  insert into sync.coverage (account_id, source, stream, list, covered)
  select account_id, 'helpdesk', 'tickets', 'default', tstzmultirange(tstzrange('1970-01-01', case account_id when 'acme' then '2026-07-05T13:00Z' when 'havana' then '2026-11-04T12:00Z' else '2026-06-20T13:00Z' end::timestamptz)) from sync.accounts`;
