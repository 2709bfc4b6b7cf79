/**
 * Business time against a reference that knows no spans: it looks at the clock on the wall in every minute. The zones' rules
 * come from the runtime there, from PostgreSQL here.
 */
import type pg from 'pg';
import { expect, test } from 'vitest';
import { amount, long } from '../../support/long.ts';
import { freshDatabase } from '../../support/postgres.ts';

const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;
const pairs = amount(100_000, 5000);

interface Hours {
  weekday: number;
  opens: string;
  closes: string;
}
interface Calendar {
  name: string;
  zone: string;
  hours: Hours[];
  holidays?: string[];
  /** Where pairs are drawn: by default in years whose rules nobody changes any more. */
  from?: string;
  to?: string;
}

const week = (weekdays: readonly number[], ...spans: [opens: string, closes: string][]): Hours[] =>
  weekdays.flatMap(weekday => spans.map(([opens, closes]) => ({ weekday, opens, closes })));
const workdays = [1, 2, 3, 4, 5];
const everyDay = [...workdays, 6, 7];
const office = week(workdays, ['09:00', '12:30'], ['13:15', '18:00']);
const night = [
  ...week(everyDay, ['22:00', '24:00']),
  ...week(everyDay, ['00:00', '06:00']),
  ...week([2, 4], ['01:30', '02:20'], ['02:40', '03:30']),
];

const calendars: Calendar[] = [
  { name: 'office', zone: 'Europe/Berlin', hours: office, holidays: ['2021-12-25', '2022-03-27', '2022-08-01'] },
  { name: 'late', zone: 'America/New_York', hours: night, holidays: ['2021-11-07', '2022-07-04'] },
  { name: 'kathmandu', zone: 'Asia/Kathmandu', hours: week([7, ...workdays], ['10:00', '17:00']) },
  // Clocks are changed by half an hour.
  { name: 'lord howe', zone: 'Australia/Lord_Howe', hours: night },
  { name: 'utc', zone: 'UTC', hours: office },
  { name: 'always', zone: 'Europe/Berlin', hours: week(everyDay, ['00:00', '24:00']) },
  // At midnight, so that a day begins at one, and another one has its last hour twice.
  { name: 'santiago', zone: 'America/Santiago', hours: night },
  { name: 'casablanca', zone: 'Africa/Casablanca', hours: night, holidays: ['2022-03-27'] },
  // Hours that overlap count once.
  {
    name: 'shared',
    zone: 'Europe/Lisbon',
    hours: week(everyDay, ['00:30', '01:40'], ['01:10', '02:10'], ['08:00', '20:00'], ['09:00', '10:00']),
  },
  // Here the 30th of December 2011 never was.
  { name: 'apia', zone: 'Pacific/Apia', hours: night, from: '2011-06-01', to: '2012-06-01' },
  // Before, and after, what is stored.
  {
    name: 'before',
    zone: 'Europe/Berlin',
    hours: office,
    holidays: ['1999-12-31'],
    from: '1999-01-01',
    to: '2000-06-01',
  },
  {
    name: 'after',
    zone: 'America/New_York',
    hours: night,
    holidays: ['2060-12-24'],
    from: '2059-06-01',
    to: '2061-06-01',
  },
];

async function keep(db: pg.Pool, { name, zone, hours, holidays = [] }: Calendar): Promise<void> {
  await db.query('insert into analytics.calendars (name, time_zone) values ($1, $2)', [name, zone]);
  await db.query('insert into analytics.calendar_holidays (calendar, day) select $1, unnest($2::date[])', [
    name,
    holidays,
  ]);
  await db.query(
    `insert into analytics.calendar_hours (calendar, weekday, opens, closes)
     select $1, h.weekday, h.opens, h.closes from jsonb_to_recordset($2::jsonb) h (weekday int, opens time, closes time)`,
    [name, JSON.stringify(hours)],
  );
}

/** The clock on the wall, as if it were UTC. */
function wall(zone: string): (ms: number) => number {
  const format = new Intl.DateTimeFormat('en', {
    ...{ timeZone: zone, hourCycle: 'h23', year: 'numeric', month: 'numeric' },
    ...{ day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric' },
  });
  return ms => {
    const [month, day, year, hour, minute, second] = format.format(ms).match(/\d+/g)!.map(Number);
    return Date.UTC(year!, month! - 1, day, hour, minute, second);
  };
}

interface Reference {
  seconds(since: number, until: number): number;
  /** The first instant at which so many seconds have passed; undefined if there is none. */
  dueAfter(since: number, seconds: number): number | undefined;
  /** Instants at which clocks are changed. */
  changes: number[];
}

/** Looks at each minute between two days whether it is a business one. Clocks are changed at quarters of an hour. */
function reference({ zone, hours, holidays = [] }: Calendar, from: number, to: number): Reference {
  const minutes = (to - from) / minuteMs;
  const before = new Uint32Array(minutes + 1);
  const changes: number[] = [];
  const closed = new Set(holidays.map(day => Date.parse(day) / dayMs));
  const open = new Set<number>();
  const minuteOf = (time: string) => Number(time.slice(0, 2)) * 60 + Number(time.slice(3));
  for (const { weekday, opens, closes } of hours)
    for (let m = minuteOf(opens); m < minuteOf(closes); m++) open.add(weekday * 1440 + m);
  const clock = wall(zone);
  const aheadAt = (at: number) => clock(at) - at;
  let ahead = aheadAt(from);
  let isDayOfChange = false;
  for (let i = 0; i < minutes; i++) {
    const at = from + i * minuteMs;
    // A day that begins and ends at the same distance from UTC has no change in it.
    if (i % 1440 === 0) isDayOfChange = aheadAt(at + dayMs) !== ahead;
    if (isDayOfChange && i % 15 === 0) {
      const now = aheadAt(at);
      if (now !== ahead) changes.push(at);
      ahead = now;
    }
    const local = at + ahead;
    const day = Math.floor(local / dayMs);
    // The 1st of January 1970 was a Thursday.
    const weekday = ((day + 3) % 7) + 1;
    const isOpen = !closed.has(day) && open.has(weekday * 1440 + (local - day * dayMs) / minuteMs);
    before[i + 1] = before[i]! + (isOpen ? 60 : 0);
  }
  const upTo = (ms: number) => {
    const minute = Math.floor((ms - from) / minuteMs);
    const whole = before[minute]!;
    const isOpen = minute < minutes && before[minute + 1]! > whole;
    return whole + (isOpen ? (ms - from - minute * minuteMs) / 1000 : 0);
  };
  const dueAfter = (since: number, seconds: number) => {
    const all = upTo(since) + seconds;
    for (let minute = Math.floor((since - from) / minuteMs); minute < minutes; minute++)
      if (before[minute + 1]! >= all) return from + minute * minuteMs + (all - before[minute]!) * 1000;
    return undefined;
  };
  return { changes, seconds: (since, until) => upTo(until) - upTo(since), dueAfter };
}

/** A small one that can be repeated. */
function chance(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

test(
  `${pairs} random pairs of instants have as many business seconds as a look at every minute finds`,
  long,
  async () => {
    await using db = await freshDatabase();
    const random = chance(8);
    const asked: { calendar: string; since: Date; until: Date; expected: number }[] = [];
    for (const calendar of calendars) {
      await keep(db.pool, calendar);
      const [from, to] = [Date.parse(calendar.from ?? '2021-06-01'), Date.parse(calendar.to ?? '2023-01-01')];
      const { seconds, changes } = reference(calendar, from, to);
      expect({ zone: calendar.zone, changes: changes.length }).toEqual({
        zone: calendar.zone,
        changes: /UTC|Kathmandu/.test(calendar.zone) ? 0 : expect.any(Number),
      });
      if (!/UTC|Kathmandu/.test(calendar.zone)) expect(changes.length).toBeGreaterThan(1);
      const somewhere = () => from + Math.floor((random() * (to - from)) / 1000) * 1000;
      // Every other instant within two days of a change of the clocks, or of the end of what is stored.
      const special = [...changes, Date.parse('2000-01-01'), Date.parse('2060-01-01')].filter(
        ms => ms > from + 2 * dayMs && ms < to - 2 * dayMs,
      );
      const near = () =>
        special.length === 0
          ? somewhere()
          : special[Math.floor(random() * special.length)]! + Math.floor((random() - 0.5) * 4 * 86_400) * 1000;
      const instant = () => (random() < 0.5 ? somewhere() : near());
      for (let i = 0; i < pairs / calendars.length; i++) {
        const [since, until] = [instant(), instant()];
        const expected = seconds(since, until);
        asked.push({ calendar: calendar.name, since: new Date(since), until: new Date(until), expected });
      }
    }
    expect(asked.length).toBeGreaterThanOrEqual(pairs);

    const { rows } = await db.pool.query<{ seconds: number }>(
      `select analytics.business_seconds(a.calendar, a.since, a.until) as seconds
     from unnest($1::text[], $2::timestamptz[], $3::timestamptz[]) with ordinality a (calendar, since, until, place) order by a.place`,
      [asked.map(a => a.calendar), asked.map(a => a.since.toISOString()), asked.map(a => a.until.toISOString())],
    );
    const wrong = asked.flatMap((one, i) =>
      rows[i]!.seconds === one.expected ? [] : [{ ...one, got: rows[i]!.seconds }],
    );
    expect({ wrong: wrong.length, such_as: wrong.slice(0, 3) }).toEqual({ wrong: 0, such_as: [] });
  },
);

test('a target is overdue from the instant after the one at which it is due, at the close and the opening of business', async () => {
  await using db = await freshDatabase();
  const random = chance(22);
  const asked: { calendar: string; since: Date; target: number; until: Date; due: Date; overdue: boolean }[] = [];
  for (const calendar of calendars.filter(({ from }) => from === undefined)) {
    await keep(db.pool, calendar);
    const [from, to] = [Date.parse('2021-10-15'), Date.parse('2022-06-01')];
    const { changes, seconds, dueAfter } = reference(calendar, from, to);
    // Both ends of business: from there to the next minute it closes, or opens.
    const edges: number[] = [];
    for (let ms = from + dayMs; ms < to - 60 * dayMs; ms += 5 * minuteMs)
      if (seconds(ms - minuteMs, ms) !== seconds(ms, ms + minuteMs)) edges.push(ms);
    const places = [...edges, ...changes.filter(ms => ms > from + dayMs && ms < to - 60 * dayMs)];
    for (let i = 0; i < 60 && places.length > 0; i++) {
      const place = places[Math.floor(random() * places.length)]!;
      const since = place - Math.floor(random() * 3 * 1440) * minuteMs;
      if (since < from) continue;
      // Often exactly what passes until business closes.
      const target = seconds(since, place) + (random() < 0.6 ? 0 : Math.floor(random() * 40_000));
      const due = target > 0 ? dueAfter(since, target) : undefined;
      if (due === undefined) continue;
      const next = edges.find(ms => ms > due) ?? due;
      for (const until of [due - 1000, due, due + 1000, due + 3_600_000, next - 1000, next, next + 1000, place])
        if (until >= since)
          asked.push({
            ...{ calendar: calendar.name, since: new Date(since), target, until: new Date(until), due: new Date(due) },
            overdue: until > due,
          });
    }
  }
  expect(asked.length).toBeGreaterThan(2000);
  const { rows } = await db.pool.query<{ due: Date; overdue: boolean; seconds: number }>(
    `select analytics.business_time_after(a.calendar, a.since, a.target) as due,
       analytics.is_overdue(a.calendar, a.since, a.target, a.until, s.seconds) as overdue, s.seconds
     from unnest($1::text[], $2::timestamptz[], $3::int[], $4::timestamptz[]) with ordinality a (calendar, since, target, until, place)
     cross join lateral (select analytics.business_seconds(a.calendar, a.since, a.until) as seconds) s order by a.place`,
    [asked.map(a => a.calendar), asked.map(a => a.since), asked.map(a => a.target), asked.map(a => a.until)],
  );
  const wrong = asked.flatMap((one, i) =>
    rows[i]!.due.getTime() === one.due.getTime() && rows[i]!.overdue === one.overdue ? [] : [{ ...one, got: rows[i] }],
  );
  expect({ wrong: wrong.length, such_as: wrong.slice(0, 3) }).toEqual({ wrong: 0, such_as: [] });
  // Where the rule of before, more seconds than the target, said otherwise.
  const decided = asked.filter((one, i) => one.overdue !== rows[i]!.seconds > one.target);
  expect(decided.length).toBeGreaterThan(100);
});

const secondsOf = async (db: pg.Pool, calendar: string | null, since: string | null, until: string | null) =>
  (await db.query('select analytics.business_seconds($1, $2, $3) as seconds', [calendar, since, until])).rows[0]
    .seconds;

test('there is no cap, no rounding, and an answer to every question', async () => {
  await using db = await freshDatabase();
  await keep(db.pool, { name: 'always', zone: 'Europe/Berlin', hours: week(everyDay, ['00:00', '24:00']) });
  await keep(db.pool, { name: 'office', zone: 'Europe/Berlin', hours: office });
  await keep(db.pool, { name: 'never', zone: 'UTC', hours: [] });
  const seconds = (...question: Parameters<typeof secondsOf> extends [unknown, ...infer Q] ? Q : never) =>
    secondsOf(db.pool, ...question);
  // Two centuries, on both sides of what is stored.
  expect(await seconds('always', '1900-01-01T00:00:00Z', '2100-01-01T00:00:00Z')).toBe(
    (Date.parse('2100-01-01') - Date.parse('1900-01-01')) / 1000,
  );
  expect(await seconds('office', '2026-07-06T08:59:59.25+02', '2026-07-06T09:00:00.75+02')).toBe(0.75);
  // The other way round.
  expect(await seconds('office', '2026-07-06T10:00:00+02', '2026-07-06T09:00:00+02')).toBe(-3600);
  expect(await seconds('office', '1970-01-05T10:00:00Z', '1970-01-05T09:00:00Z')).toBe(-3600);
  expect(await seconds('office', '2026-07-06T10:00:00+02', '2026-07-06T10:00:00+02')).toBe(0);
  expect(await seconds('never', '1990-01-01T00:00:00Z', '2070-01-01T00:00:00Z')).toBe(0);
  expect(await seconds('never', '2010-01-01T00:00:00Z', '2020-01-01T00:00:00Z')).toBe(0);
  expect(await seconds('unknown', '2010-01-01T00:00:00Z', '2020-01-01T00:00:00Z')).toBe(null);
  expect(await seconds('unknown', '1910-01-01T00:00:00Z', '1920-01-01T00:00:00Z')).toBe(null);
  expect(await seconds(null, '2010-01-01T00:00:00Z', '2020-01-01T00:00:00Z')).toBe(null);
  expect(await seconds('office', null, '2020-01-01T00:00:00Z')).toBe(null);
  expect(await seconds('office', '2020-01-01T00:00:00Z', null)).toBe(null);
  expect(await seconds('office', '-infinity', '2020-01-01T00:00:00Z')).toBe(null);
  expect(await seconds('office', '2020-01-01T00:00:00Z', 'infinity')).toBe(null);
});

test('a change of a calendar holds at once, of its hours, its holidays and its zone', async () => {
  await using db = await freshDatabase();
  await keep(db.pool, { name: 'office', zone: 'Europe/Berlin', hours: week(workdays, ['09:00', '17:00']) });
  await keep(db.pool, { name: 'other', zone: 'Europe/Berlin', hours: week(workdays, ['09:00', '17:00']) });
  const monday = () => secondsOf(db.pool, 'office', '2026-07-06T00:00:00+02', '2026-07-06T12:00:00+02');
  const hours = async () => (await monday()) / 3600;
  expect(await hours()).toBe(3);
  await db.pool.query("update analytics.calendar_hours set opens = '08:00' where calendar = 'office' and weekday = 1");
  expect(await hours()).toBe(4);
  await db.pool.query("update analytics.calendars set time_zone = 'Europe/London' where name = 'office'");
  expect(await hours()).toBe(3);
  await db.pool.query("insert into analytics.calendar_holidays (calendar, day) values ('office', '2026-07-06')");
  expect(await hours()).toBe(0);
  await db.pool.query("update analytics.calendar_holidays set day = '2026-07-07' where calendar = 'office'");
  expect(await hours()).toBe(3);
  await db.pool.query("delete from analytics.calendar_hours where calendar = 'office' and weekday = 1");
  expect(await hours()).toBe(0);
  // Hours may go to another calendar as well.
  await db.pool.query(
    "insert into analytics.calendar_hours (calendar, weekday, opens, closes) values ('office', 1, '00:00', '24:00')",
  );
  await db.pool.query("update analytics.calendars set name = 'renamed' where name = 'office'");
  expect(await monday()).toBe(null);
  expect(await secondsOf(db.pool, 'renamed', '2026-07-06T00:00:00+02', '2026-07-06T12:00:00+02')).toBe(11 * 3600);
  await db.pool.query("delete from analytics.calendars where name = 'renamed'");
  expect((await db.pool.query('select distinct calendar from analytics.calendar_spans')).rows).toEqual([
    { calendar: 'other' },
  ]);
  expect(await secondsOf(db.pool, 'other', '2026-07-06T00:00:00+02', '2026-07-06T12:00:00+02')).toBe(3 * 3600);

  await expect(db.pool.query("insert into analytics.calendars values ('odd', 'Europe/Nowhere')")).rejects.toThrow(
    'time zone "Europe/Nowhere" not recognized',
  );
});

test('an inbox has its own calendar or that of its account; without either there is none', async () => {
  await using db = await freshDatabase();
  for (const name of ['office', 'night']) await keep(db.pool, { name, zone: 'UTC', hours: [] });
  await db.pool.query("insert into sync.accounts (account_id) values ('acme'), ('other')");
  await db.pool.query(
    `insert into internal.stored_calendar_assignments values ('acme', null, 'office'), ('acme', 'i1', 'night'), ('other', 'i2', 'office')`,
  );
  const of = async (account: string | null, inbox: string | null) =>
    (await db.pool.query('select analytics.calendar_of($1, $2) as name', [account, inbox])).rows[0].name;
  expect(await of('acme', 'i1')).toBe('night');
  expect(await of('acme', 'i2')).toBe('office');
  expect(await of('acme', null)).toBe('office');
  expect(await of('other', 'i2')).toBe('office');
  expect(await of('other', 'i1')).toBe(null);
  expect(await of('other', null)).toBe(null);
  expect(await of(null, null)).toBe(null);
  await db.pool.query(`update analytics.calendars set time_zone = 'Europe/Berlin' where name = 'office';
    insert into helpdesk.inboxes (account_id, id, name, _first_seen_at, _synced_at) values ('acme', 'i2', 'Home', now(), now())`);
  expect((await db.pool.query('select * from analytics.inbox_zones order by account_id, inbox_id')).rows).toEqual([
    { account_id: 'acme', inbox_id: 'i1', time_zone: 'UTC', is_own: true },
    { account_id: 'acme', inbox_id: 'i2', time_zone: 'Europe/Berlin', is_own: false },
    { account_id: 'other', inbox_id: 'i2', time_zone: 'Europe/Berlin', is_own: true },
  ]);
  const star = await db.pool.query('select inbox_key, time_zone from analytics.dim_inbox');
  expect(star.rows).toEqual([{ inbox_key: 'acme/i2', time_zone: 'Europe/Berlin' }]);
  await expect(
    db.pool.query("insert into internal.stored_calendar_assignments values ('acme', null, 'night')"),
  ).rejects.toThrow('duplicate key');
});
