/** What the credits were spent on grows no more than by a row a day and source, and no sum of it changes. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { foldCredits } from '../../../src/engine/budget/credits.ts';
import { forgetOld } from '../../../src/engine/runs/slots.ts';
import { freshDatabase, type TestDatabase } from '../../support/postgres.ts';

const now = new Date('2026-03-01T12:34:56Z');
const at = (days: number) => new Date(now.getTime() - days * 24 * 3_600_000);

/** Two years and more: a row every 31 and every 211 minutes, no two alike. Of an account of Kolkata, whose days begin at half past. */
async function twoYears(db: TestDatabase): Promise<void> {
  await db.pool.query(`
    insert into sync.accounts (account_id) values ('acme'), ('utc');
    insert into analytics.calendars (name, time_zone) values ('kolkata', 'Asia/Kolkata');
    insert into internal.stored_calendar_assignments (account_id, calendar) values ('acme', 'kolkata')`);
  await db.pool.query(
    `insert into sync.credit_minutes (account_id, source, minute, credit_limit, interactive, fresh, backfill, sweep, others, waited_ms, refused, requests, took_ms, followed, between_ms)
     select a, s, m, 100 + n % 5, n % 3, n % 5, n % 7, n % 11, n % 13, n % 1009, n % 2, 1 + n % 9, n % 991, n % 4, n % 77
     from (values ('acme', 'helpdesk', 31), ('acme', 'books', 211), ('utc', 'helpdesk', 211)) v (a, s, every)
     cross join lateral (
       select m, row_number() over (order by m) as n
       from generate_series(date_trunc('minute', $1::timestamptz) - interval '800 days', $1::timestamptz, every * interval '1 minute') m) g`,
    [now],
  );
}

const facts = (db: TestDatabase, what: string) => async (from: Date, to: Date) =>
  (
    await db.pool.query(
      `select ${what}, sum(interactive) as i, sum(fresh) as f, sum(backfill) as b, sum(sweep) as s, sum(others) as o, sum(refused) as r,
         round(sum(waited_seconds)::numeric, 3) as w
       from analytics.fact_credits where hour >= $1 and hour < $2 group by ${what} order by ${what}`,
      [from, to],
    )
  ).rows;
const shape = async (db: TestDatabase) =>
  (
    await db.pool.query(
      `select account_id as account, source, minutes, count(*)::int as rows, sum(requests)::int as requests, sum(took_ms)::int as took,
         sum(followed)::int as followed, sum(between_ms)::int as between from sync.credit_minutes group by 1, 2, 3 order by 1, 2, 3`,
    )
  ).rows;

test('minutes become hours after five weeks and days after a year; every sum, day and limit stays', async () => {
  await using db = await freshDatabase();
  await twoYears(db);
  const days = facts(db, 'account_key, source, date_key');
  const hours = facts(db, 'account_key, source, hour');
  const all = [at(1000), at(-1)] as const;
  const recent = async () =>
    (await db.pool.query('select * from sync.credit_minutes where minute >= $1 order by 1, 2, 3', [at(34)])).rows;
  const whole = async () =>
    (
      await db.pool.query(
        `select sum(requests) as r, sum(took_ms) as t, sum(followed) as f, sum(between_ms) as b, sum(waited_ms) as w from sync.credit_minutes`,
      )
    ).rows;
  const before = {
    days: await days(...all),
    hours: await hours(at(364), at(-1)),
    recent: await recent(),
    whole: await whole(),
  };
  expect(before.days.length).toBeGreaterThan(2300);

  await forgetOld(db.pool, 'acme', now);
  const folded = await shape(db);
  expect(folded.map(({ account, source, minutes, rows }) => [account, source, minutes, rows])).toEqual([
    ['acme', 'books', 1, expect.any(Number)],
    ['acme', 'books', 60, expect.any(Number)],
    ['acme', 'books', 1440, 434],
    ['acme', 'helpdesk', 1, expect.toSatisfy((rows: number) => rows < (35 * 1440 + 60) / 31)],
    ['acme', 'helpdesk', 60, expect.toSatisfy((rows: number) => rows >= 330 * 24 && rows <= 332 * 24)],
    ['acme', 'helpdesk', 1440, expect.toSatisfy((rows: number) => rows >= 433 && rows <= 435)],
    ['utc', 'helpdesk', 1, expect.any(Number)],
  ]);
  await forgetOld(db.pool, 'utc', now);
  expect(await days(...all)).toEqual(before.days);
  expect(await hours(at(364), at(-1))).toEqual(before.hours);
  expect(await recent()).toEqual(before.recent);
  expect(await whole()).toEqual(before.whole);
  const { rows: steps } = await db.pool.query(
    'select hours, count(*)::int as n from analytics.fact_credits where hour < $1 group by hours',
    [at(367)],
  );
  expect(steps.map(({ hours }) => hours)).toEqual([24]);
  // The limit of a step is the last one of it.
  const { rows: limits } = await db.pool.query(
    `select credit_limit from sync.credit_minutes where account_id = 'utc' and minutes = 1440 order by minute limit 1`,
  );
  expect(Number(limits[0].credit_limit)).toBeGreaterThanOrEqual(100);

  // Again, the day after, and a year later: nothing is counted twice.
  const kept = await shape(db);
  await forgetOld(db.pool, 'acme', now);
  expect((await shape(db)).filter(({ account }) => account === 'acme')).toEqual(
    kept.filter(({ account }) => account === 'acme'),
  );
  for (const later of [at(-1), at(-900)]) {
    await forgetOld(db.pool, 'acme', later);
    await forgetOld(db.pool, 'utc', later);
    expect(await days(...all)).toEqual(before.days);
    expect(await whole()).toEqual(before.whole);
  }
  expect(new Set((await shape(db)).map(({ minutes }) => minutes))).toEqual(new Set([1440]));
});

test('a minute that a wrong clock has written among old days joins them', async () => {
  await using db = await freshDatabase();
  await twoYears(db);
  await foldCredits(db.pool, 'acme', now);
  const { rows } = await db.pool.query(
    `select minute from sync.credit_minutes where account_id = 'acme' and source = 'helpdesk' and minutes = 1440 order by minute limit 1`,
  );
  await db.pool.query(
    `insert into sync.credit_minutes (account_id, source, minute, credit_limit, fresh)
     select 'acme', 'helpdesk', $1::timestamptz + i * interval '5 minutes', 100, 1000 from generate_series(1, 20) i`,
    [rows[0].minute],
  );
  const sum = async () =>
    (await db.pool.query('select sum(fresh) as sum, count(*)::int as n from sync.credit_minutes')).rows[0];
  const before = await sum();
  await foldCredits(db.pool, 'acme', now);
  expect(await sum()).toEqual({ sum: before.sum, n: before.n - 20 });
});

test('docs/reference/growth.md says of each table of schema sync what ends it', async () => {
  await using db = await freshDatabase();
  const text = readFileSync(new URL('../../../docs/reference/growth.md', import.meta.url), 'utf8');
  const cells = text.split('\n').map(line => line.split('|')[1] ?? '');
  const said = cells.flatMap(cell => [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name!));
  const { rows } = await db.pool.query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = 'sync'::regnamespace and relkind in ('r', 'p')`,
  );
  expect(said.sort()).toEqual(rows.map(({ name }) => name).sort());
});
