/**
 * Every question of docs/queries, asked of a warehouse that ends now and has its metrics: by the owner, by a reader of all accounts
 * and by a reader of one. Then every join of the star by its keys, as a BI tool writes it.
 */
import pg from 'pg';
import { readCatalog } from '../../../../src/analytics/catalog.ts';
import { readQueries } from '../../../../src/analytics/questions.ts';
import { letReaderIn } from '../../../../test/support/readers.ts';
import { starJoins } from '../../../../test/support/star-joins.ts';
import { fillBySql, messagesEach } from '../desk-by-sql.ts';
import { openDatabase } from '../lab.ts';
import { medianOf, type Report, type Section } from '../report.ts';

const accounts = ['acme', 'beta', 'gamma'];
const all = 200_000;

const counted = (tickets: number): string =>
  `${tickets.toLocaleString('en-US')} tickets of two years up to now in ${accounts.length} accounts, with their history, metrics and ${(tickets * messagesEach).toLocaleString('en-US')} messages, made by SQL`;

export const questions: Section = {
  name: 'questions',
  title: 'Every question',
  about: [
    `A warehouse of ${counted(all)}.`,
    'Each question of docs/reference/questions.md is planned and asked by the owner, by a login that `reader create` did not make, by a reader of all accounts and by a reader of one: the figure is that of the slowest.',
    'Then each join of the star by its keys, before PostgreSQL has any statistics and after.',
  ].join(' '),
  run: report => ask(report, { tickets: all, atMost: 1, rounds: 3, joins: true }),
};

export const questionsLarge: Section = {
  name: 'questions-large',
  title: 'Every question, at five times the size',
  about: `As above, once, with ${counted(5 * all)}.`,
  run: report => ask(report, { tickets: 5 * all, atMost: 3, rounds: 1, joins: false }),
};

async function ask(
  { quick, figure, note }: Report,
  { tickets, atMost, rounds, joins }: { tickets: number; atMost: number; rounds: number; joins: boolean },
): Promise<void> {
  await using database = await openDatabase();
  await fillQuestions(database.pool, quick ? tickets / 10 : tickets);
  await using ofAll = await letReaderIn(database);
  await using ofOne = await letReaderIn(database, { accounts: ['acme'] });
  const owner = new pg.Client({ connectionString: database.url });
  await owner.connect();
  await owner.query("create role plain login password 'plain' in role shelfdesk_reader_pii");
  const plainUrl = new URL(database.url);
  [plainUrl.username, plainUrl.password] = ['plain', 'plain'];
  const plain = new pg.Client({ connectionString: plainUrl.href });
  await plain.connect();
  try {
    const slowest = async (sql: string): Promise<number> => {
      const took: number[] = [];
      for (const client of [owner, plain, ofAll.client, ofOne.client]) {
        const begun = performance.now();
        await client.query(sql);
        took.push((performance.now() - begun) / 1000);
      }
      return Math.max(...took);
    };
    const queries = await readQueries();
    const asked = async (): Promise<Map<string, number>> => {
      const took = new Map<string, number>();
      for (const { name, sql } of queries) took.set(name, await slowest(sql));
      return took;
    };
    if (joins) {
      const all = starJoins(await readCatalog(database.pool));
      const slowestJoin = async (): Promise<number> => {
        const took: { name: string; seconds: number }[] = [];
        for (const { name, sql } of all) took.push({ name, seconds: await slowest(sql) });
        const worst = took.toSorted((a, b) => b.seconds - a.seconds)[0]!;
        note(`The slowest of ${took.length} joins: ${worst.name}, ${worst.seconds.toFixed(2)} s.`);
        return worst.seconds;
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
    }
    await owner.query('vacuum analyze');
    const each = new Map(queries.map(({ name }) => [name, [] as number[]]));
    for (let round = 0; round < rounds; round++)
      for (const [name, seconds] of await asked()) each.get(name)!.push(seconds);
    for (const [name, took] of [...each].sort(([, a], [, b]) => medianOf(b) - medianOf(a)))
      figure({ what: name, unit: 's', atMost, rounds: took });
  } finally {
    await plain.end();
    await owner.end();
  }
}

/** Business hours, service targets, what is complete, what was spent, and shelves; then the metrics of all tickets. Nothing is analysed. */
export async function fillQuestions(pool: pg.Pool, tickets: number): Promise<void> {
  const now = new Date();
  await fillBySql(pool, { tickets, until: now, accounts });
  const until = `timestamptz '${now.toISOString()}'`;
  await pool.query(`
    insert into analytics.calendars (name, time_zone) values ('office', 'Europe/Berlin'), ('coast', 'America/Los_Angeles');
    insert into analytics.calendar_hours (calendar, weekday, opens, closes)
    select c.name, day, h.opens, h.closes
    from analytics.calendars c, generate_series(1, 5) day, (values (time '09:00', time '12:30'), ('13:15', '18:00')) h (opens, closes);
    insert into analytics.calendar_holidays (calendar, day)
    select 'office', make_date(year, 12, 25) + n from generate_series(2020, 2030) year, generate_series(0, 1) n;
    insert into internal.stored_calendar_assignments (account_id, inbox_id, calendar)
    select a.account_id, c.inbox, c.calendar from sync.accounts a, (values (null, 'office'), ('i4', 'coast')) c (inbox, calendar);
    insert into internal.stored_service_targets (account_id, inbox_id, label_id, metric, target_seconds)
    select a.account_id, t.inbox, t.label, t.metric, t.hours * 3600 from sync.accounts a, (values
      (null, null, 'first_response', 4), (null, null, 'resolution', 24), ('i4', null, 'first_response', 2), ('i1', 'l1', 'resolution', 8)) t (inbox, label, metric, hours);
    insert into sync.coverage (account_id, source, stream, list, covered)
    select a.account_id, 'helpdesk', s, 'default', tstzmultirange(tstzrange('1970-01-01', ${until}))
    from sync.accounts a, unnest(array['users', 'customers', 'tickets']) s;
    insert into sync.credit_minutes (account_id, source, minute, minutes, credit_limit, fresh, backfill, sweep)
    select a.account_id, 'helpdesk', m.minute, m.minutes, 500, 20, 60, 5
    from sync.accounts a cross join (
      select minute, 1 from generate_series(date_trunc('hour', ${until}) - interval '35 days', ${until}, interval '1 minute') minute
      union all
      select hour, 60 from generate_series(
        date_trunc('hour', ${until}) - interval '1 year', date_trunc('hour', ${until}) - interval '35 days 1 hour', interval '1 hour') hour) m (minute, minutes);
    insert into books.shelves (account_id, owner_id, id, title, _first_seen_at, _synced_at, _observed_at, _payload)
    select a.account_id, 'u1', n, 'Shelf ' || n, t, t, t, '{}'
    from sync.accounts a, generate_series(1, 50) n, (select ${until} - interval '60 days') x (t);
    insert into books.volumes (account_id, id, title, authors, published_year, list_price, list_price_currency, _first_seen_at, _synced_at, _observed_at, _payload)
    select a.account_id, 'v' || n, 'Volume ' || n, array['Ada'], 1950 + n % 70, n % 40, 'EUR', t, t, t, '{}'
    from sync.accounts a, generate_series(1, 3000) n, (select ${until} - interval '60 days') x (t);
    insert into books.shelf_volumes (account_id, owner_id, shelf_id, volume_id, position, _removed_at, _first_seen_at, _synced_at, _observed_at, _payload)
    select v.account_id, 'u1', 1 + n % 50, v.id, n / 50, case when n % 9 = 0 then t + n * interval '20 minutes' end, t, t, t, '{}'
    from books.volumes v cross join lateral (select substr(v.id, 2)::int as n) x, (select ${until} - interval '60 days') y (t);
    insert into books.shelf_volume_history (account_id, owner_id, shelf_id, volume_id, position, valid_from, valid_to, change_after)
    select s.account_id, s.owner_id, s.shelf_id, s.volume_id, case when k = 3 and s._removed_at is not null then null else s.position + k end,
      s._first_seen_at + k * h.lasts, case when k < 3 then s._first_seen_at + (k + 1) * h.lasts end,
      case when k > 1 or s.position % 2 = 0 then s._first_seen_at + k * h.lasts - interval '1 hour' end
    from books.shelf_volumes s, generate_series(1, 3) k cross join lateral (select interval '18 days' - substr(s.volume_id, 2)::int * interval '1 minute' as lasts) h`);
  await Promise.all(accounts.map(account => pool.query('call analytics.recompute($1)', [account])));
}
