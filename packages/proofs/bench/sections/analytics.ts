/**
 * What analysts wait for, and what erasures cost, in a warehouse of 200,000 tickets and a million messages that is made by SQL.
 * Words are as frequent as in a language: the second one stands in half as many messages as the first, and so on.
 */
import type pg from 'pg';
import { searchOn } from '../../../../src/analytics/search.ts';
import { writeBatch } from '../../../../src/engine/commit/rows.ts';
import { makePool, transaction } from '../../../../src/engine/database/pool.ts';
import { singleBatch } from '../../../../src/engine/load/batch.ts';
import { eraseCustomer } from '../../../../src/privacy/erasures.ts';
import { tickets as stream } from '../../../../src/sources/helpdesk/tickets.ts';
import { streams } from '../../../../src/sources/index.ts';
import { fillBySql, messagesEach, ticketsEach } from '../desk-by-sql.ts';
import { openDatabase } from '../lab.ts';
import type { Report, Section } from '../report.ts';

const all = 200_000;
const rounds = 5;
const nowMs = Date.UTC(2025, 10, 22);

export const analytics: Section = {
  name: 'analytics',
  title: 'Questions and erasures',
  about: `A warehouse of ${all.toLocaleString('en-US')} tickets of two years with up to five states each, ${(all * messagesEach).toLocaleString('en-US')} messages and ${(all / ticketsEach).toLocaleString('en-US')} customers, made by SQL. Milliseconds as whoever asks sees them. Changed tickets are written by the program, with history and metrics.`,
  run: async report => {
    await using database = await openDatabase();
    const tickets = report.quick ? all / 10 : all;
    await fillBySql(database.pool, { tickets, until: new Date(nowMs) });
    await askBacklog(database.pool, report);
    await askWords(database, report);
    await askHours(database.pool, report);
    const pool = makePool(database.url);
    try {
      await changeFew(pool, tickets, report);
      await erase(pool, report);
    } finally {
      await pool.end();
    }
  },
};

/** ms of one after the other. */
async function timed(work: (round: number) => Promise<unknown>, times = rounds): Promise<number[]> {
  const took: number[] = [];
  for (let round = 0; round < times; round++) {
    const begun = performance.now();
    await work(round);
    took.push(performance.now() - begun);
  }
  return took;
}

async function askBacklog(pool: pg.Pool, { figure }: Report): Promise<void> {
  const ask = (sql: string) => timed(() => pool.query(sql));
  const ninety = `select * from analytics.backlog_daily('2025-08-24', '2025-11-21', 'Europe/Berlin')`;
  figure({
    what: 'the backlog of 90 days over 200,000 tickets',
    unit: 'ms',
    rounds: await ask(ninety),
    atMost: 1000,
    headline: true,
  });
  const asOf = `select count(*) from analytics.tickets_as_of('2025-10-01') where certain`;
  figure({ what: 'all tickets as of a day', unit: 'ms', rounds: await ask(asOf) });
}

async function askWords({ url, pool }: { url: string; pool: pg.Pool }, { figure }: Report): Promise<void> {
  const one = async (sql: string, ...values: unknown[]): Promise<string> =>
    (await pool.query(sql, values)).rows[0]!.one;
  const ask = async (what: string, sql: string, value: string, atMost: number) =>
    figure({
      what,
      unit: 'ms',
      rounds: await timed(() => pool.query(sql, [value]), 4 * rounds),
      atMost,
      headline: true,
    });
  await searchOn({ url, db: pool }, { show: () => {}, signal: new AbortController().signal });
  const search = 'select * from helpdesk.search_messages($1)';
  const words = { 'in most messages': 1, 'in one of fifty': 100, 'in one of a thousand': 3000, 'that is rare': 29_000 };
  for (const [which, rank] of Object.entries(words))
    await ask(
      `search in a million messages: a word ${which}`,
      search,
      await one('select word as one from words where n = $1', rank),
      20,
    );
  await ask('search in a million messages: a word that is nowhere', search, 'nowherenever', 20);
  const subject = await one(
    `select overlay(subject placing 'x' from 6) as one from helpdesk.tickets where id = 't777'`,
  );
  await ask('search: a subject with a typo', 'select * from helpdesk.similar_subjects($1)', subject, 100);
  await ask('search: an address with one', 'select * from helpdesk.similar_contacts($1)', 'cx777@example.org', 100);
}

async function askHours(pool: pg.Pool, { figure }: Report): Promise<void> {
  const calls = 100_000;
  await pool.query(`
    insert into analytics.calendars values ('office', 'Europe/Berlin');
    insert into analytics.calendar_holidays select 'office', '2020-12-25'::date + n from generate_series(0, 5) n;
    insert into analytics.calendar_hours select 'office', day, opens, closes
      from generate_series(1, 5) day, (values (time '09:00', time '12:30'), ('13:15', '18:00')) h (opens, closes);
    create table pairs as
      select timestamptz '2018-01-01' + random() * interval '8 years' as since, timestamptz '2018-01-01' + random() * interval '8 years' as until
      from generate_series(1, ${calls})`);
  const asked = () => pool.query(`select count(analytics.business_seconds('office', since, until)) from pairs`);
  const took = (await timed(asked)).map(ms => (ms * 1000) / calls);
  figure({ what: 'analytics.business_seconds, for each call', unit: 'µs', rounds: took, atMost: 25, headline: true });
}

/** A page as the source shows it. */
async function writePage(pool: pg.Pool, tickets: readonly number[], updatedMs: number, state: string): Promise<void> {
  const records = tickets.map(n => ({
    ...{ id: `t${n}`, number: n, customer_id: `c${Math.floor(n / ticketsEach)}`, subject: `Subject ${n}`, state },
    ...{ user_id: `u${n % 30}`, inbox_id: `i${n % 5}`, label_ids: ['l1'], type: 'email', spam: false, trash: false },
    ...{ created_at: new Date(nowMs - 86_400_000 * 30).toISOString(), updated_at: new Date(updatedMs).toISOString() },
  }));
  const batch = { ...singleBatch(stream, { records, text: '', shownBy: 0 }), text: () => JSON.stringify(records) };
  const at = { nowMs: updatedMs + 60_000, asOfMs: updatedMs + 60_000 };
  await transaction(pool, client =>
    writeBatch({ client, claim: { account: 'default', run: null }, at, care: 'as it came' }, batch),
  );
}

const states = ['hold', 'open', 'closed'];

async function changeFew(pool: pg.Pool, tickets: number, { figure }: Report): Promise<void> {
  const few = Array.from({ length: 50 }, (_, i) => 1000 + i * Math.floor(tickets / 60));
  const change = (round: number) => writePage(pool, few, nowMs + round * 3_600_000, states[round % 3]!);
  await timed(change, 3);
  const took = await timed(round => change(round + 3), 2 * rounds);
  figure({
    what: '50 changed tickets among 200,000, with history and metrics',
    unit: 'ms',
    rounds: took,
    atMost: 100,
    headline: true,
  });
}

async function erase(pool: pg.Pool, { figure }: Report): Promise<void> {
  const page = Array.from({ length: 100 }, (_, i) => 5000 + i);
  const unchanged = (first: number) => timed(() => writePage(pool, page, nowMs + first * 3_600_000, 'open'), 20);
  await unchanged(1);
  const [nothing, question] = await ask(pool);
  figure({ what: 'a commit asks whether anybody was erased', unit: 'ms', rounds: question! });
  figure({ what: 'a question that asks nothing', unit: 'ms', rounds: nothing! });
  figure({ what: 'an unchanged page of 100 tickets, where nobody was erased', unit: 'ms', rounds: await unchanged(1) });
  const took = await timed(
    round =>
      eraseCustomer(pool, { account: 'default', customer: `c${100 + round}`, who: 'bench', streams }, new Date(nowMs)),
    3,
  );
  figure({ what: 'a person is erased', unit: 's', rounds: took.map(ms => ms / 1000), atMost: 10, headline: true });
  figure({ what: 'an unchanged page of 100 tickets, where somebody was', unit: 'ms', rounds: await unchanged(1) });
}

/** Each a thousand times, within one session. */
async function ask(pool: pg.Pool): Promise<number[][]> {
  const client = await pool.connect();
  const many = (text: string) => async () => {
    for (let i = 0; i < 1000; i++) await client.query({ name: text, text, values: ['default'] });
  };
  const nothing = await timed(many('select $1::text'));
  const any = await timed(many('select sync.any_erased($1)'));
  client.release();
  return [nothing, any].map(all => all.map(ms => ms / 1000));
}
