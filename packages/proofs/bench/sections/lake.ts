/**
 * The lake beside its warehouse: what the first export and later ones cost, how big the files are, and every question of
 * docs/queries on DuckDB and on PostgreSQL.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { readQueries } from '../../../../src/analytics/questions.ts';
import { type Lake, openLake } from '../../../../src/lake/package.ts';
import { alone, turnOn } from '../../../../src/lake/state.ts';
import { exportedTables } from '../../../../src/lake/table.ts';
import { lakeTables } from '../../../../src/sources/index.ts';
import { type Exported, exportTo } from '../../../lake/src/export.ts';
import { messagesEach } from '../desk-by-sql.ts';
import { openDatabase, secondsOf } from '../lab.ts';
import { medianOf, type Report, type Section } from '../report.ts';
import { fillQuestions } from './questions.ts';

const all = 200_000;
const rounds = 3;
const personal = true;

export const lake: Section = {
  name: 'lake',
  title: 'The lake',
  about: [
    `A warehouse of ${all.toLocaleString('en-US')} tickets of two years up to now with ${(all * messagesEach).toLocaleString('en-US')} messages, as in "Every question", and its lake with personal data in a folder.`,
    'After the first export, tickets of all two years, or of the last month, get another state and one message each; the next export brings them.',
    'What writing costs is the time of that change, in turn without the notes for the lake and with them.',
    'Then each question runs on PostgreSQL and on DuckDB over the lake, by the owner, over all accounts.',
    'Memory is the most that the process of the export ever has.',
    'Modelled from that, for more messages of the same kind on the same two cores: files and times grow with the messages.',
  ].join(' '),
  async run(report) {
    const tickets = report.quick ? all / 10 : all;
    await using database = await openDatabase();
    await fillQuestions(database.pool, tickets);
    await database.pool.query('vacuum analyze');
    const path = await mkdtemp(join(tmpdir(), 'lake-'));
    const state = { path, personal, keepDays: 30 };
    const reach = { extensions: process.env.LAKE_EXTENSIONS };
    await turnOn(database.url, reach, state, { who: 'bench', now: new Date() });
    const place = { path, ...reach };
    try {
      await using engine = await openLake(database.url, place);
      await measureExports(report, database, engine, tickets);
      await measureQuestions(report, database.url, engine, tickets);
    } finally {
      await rm(path, { recursive: true });
    }
  },
};

async function measureExports(
  { figure }: Report,
  { url, pool }: { url: string; pool: pg.Pool },
  engine: Lake,
  tickets: number,
): Promise<void> {
  const tables = exportedTables(lakeTables, { personal });
  const exported = async (): Promise<Exported & { seconds: number }> => {
    const begun = performance.now();
    const done = await alone(url, client => exportTo(engine, client, tables));
    const seconds = secondsOf(performance.now() - begun);
    await pool.query(
      `insert into sync.lake_exports (started_at, finished_at, state, moment) values (now(), now(), 'done', $1)`,
      [done.moment],
    );
    return { ...done, seconds };
  };
  const first = await exported();
  figure({
    what: 'first export: rows a second',
    unit: 'rows/s',
    rounds: [first.inserted / first.seconds],
    headline: true,
  });
  figure({ what: 'first export', unit: 's', rounds: [first.seconds] });
  const megabytes = process.resourceUsage().maxRSS / 1024;
  figure({ what: 'first export: memory', unit: 'MB', rounds: [megabytes] });

  const { rows } = await pool.query(
    `select sum(f.file_size_bytes)::float8 as lake, sum(f.file_size_bytes) filter (where (s.schema_name, t.table_name) = ('helpdesk', 'messages'))::float8 as lake_messages,
       pg_database_size(current_database())::float8 as warehouse, pg_total_relation_size('internal.messages')::float8 as warehouse_messages
     from lake.ducklake_data_file f
     join lake.ducklake_table t using (table_id)
     join lake.ducklake_schema s using (schema_id)`,
  );
  const messages = tickets * messagesEach;
  figure({ what: 'bytes a message in the lake', unit: 'bytes', rounds: [rows[0].lake_messages / messages] });
  figure({ what: 'bytes a message in PostgreSQL', unit: 'bytes', rounds: [rows[0].warehouse_messages / messages] });
  figure({ what: 'whole lake ÷ whole warehouse', unit: '×', rounds: [rows[0].lake / rows[0].warehouse] });
  const gigabytes = (bytes: number) => (bytes / messages) * (many / 1e9);
  figure({ what: `model: ${counted(many)} in PostgreSQL`, unit: 'GB', rounds: [gigabytes(rows[0].warehouse)] });
  figure({ what: `model: ${counted(many)} in the lake`, unit: 'GB', rounds: [gigabytes(rows[0].lake)] });

  const unchanged = await exported();
  figure({ what: 'export of nothing', unit: 's', rounds: [unchanged.seconds] });
  const twoYears = new Date(0);
  const month = new Date(Date.now() - 30 * 86_400_000);
  for (const [share, since, said] of [
    [0.01, twoYears, '1 % of all tickets'],
    [0.001, twoYears, '0.1 % of all tickets'],
    [0.1, month, '10 % of the last month'],
    [0.01, month, '1 % of the last month'],
  ] as const) {
    await change(pool, Math.round(1 / share), since);
    await pool.query('vacuum analyze');
    const next = await exported();
    figure({ what: `export after ${said} changed`, unit: 's', rounds: [next.seconds] });
    figure({ what: `export after ${said}: rows written`, unit: 'rows', rounds: [next.inserted] });
    figure({ what: `export after ${said} ÷ first export`, unit: '×', rounds: [next.seconds / first.seconds] });
  }
  figure({ what: 'all exports: memory', unit: 'MB', rounds: [process.resourceUsage().maxRSS / 1024] });

  const took: number[][] = [[], []];
  for (let round = 0; round < rounds; round++)
    for (const on of [0, 1]) {
      await pool.query('select sync.follow_changes($1)', [on === 1]);
      const begun = performance.now();
      await change(pool, 100, twoYears);
      took[on]!.push(performance.now() - begun);
    }
  const [off = [], on = []] = took;
  figure({ what: 'writing with the lake on ÷ off', unit: '×', rounds: on.map((ms, round) => ms / off[round]!) });
}

/** For the model. */
const many = 100_000_000;
const counted = (messages: number): string => `${(messages / 1e6).toLocaleString('en-US')} million messages`;
let changes = 0;

/** Every nth ticket that was created since, with the triggers that note it. */
async function change(pool: pg.Pool, every: number, since: Date): Promise<void> {
  changes++;
  await pool.query(
    `with changed as (
       update helpdesk.tickets set state = case state when 'open' then 'closed' else 'open' end, updated_at = updated_at + interval '1 minute'
       where number % $1 = 0 and created_at >= $2 returning account_id, id, updated_at)
     insert into internal.messages (account_id, id, ticket_id, position, type, direction, from_name, body_text, created_at,
       _first_seen_at, _synced_at, _observed_at, _payload)
     select account_id, id || '-more-' || $3::int, id, 1000 + $3::int, 'reply', 'in', 'Ada', 'And another thing.', updated_at, updated_at, updated_at, updated_at, '{}'
     from changed`,
    [every, since, changes],
  );
}

async function measureQuestions({ figure, note }: Report, url: string, engine: Lake, tickets: number): Promise<void> {
  const owner = new pg.Client({ connectionString: url });
  await owner.connect();
  await engine.run('use lake');
  try {
    const seconds = async (work: Promise<unknown>): Promise<number> => {
      const begun = performance.now();
      await work;
      return (performance.now() - begun) / 1000;
    };
    const took: { name: string; there: number[]; here: number[] }[] = [];
    for (const { name, sql } of await readQueries()) {
      const one = { name, there: [] as number[], here: [] as number[] };
      for (let round = 0; round < rounds; round++) {
        one.here.push(await seconds(owner.query(sql)));
        one.there.push(await seconds(engine.answer(sql)));
      }
      took.push(one);
    }
    const total = (of: 'here' | 'there') =>
      Array.from({ length: rounds }, (_, round) => took.reduce((sum, one) => sum + one[of][round]!, 0));
    figure({ what: `all ${took.length} questions on PostgreSQL`, unit: 's', rounds: total('here') });
    figure({ what: `all ${took.length} questions on the lake`, unit: 's', rounds: total('there'), headline: true });
    // The model: messages of the same kind, at which all questions together take a minute.
    for (const [of, said] of [
      ['here', 'PostgreSQL'],
      ['there', 'the lake'],
    ] as const)
      figure({
        what: `model: all questions take a minute on ${said}, from`,
        unit: 'million messages',
        rounds: total(of).map(seconds => ((60 / seconds) * tickets * messagesEach) / 1e6),
      });
    const slowest = took.toSorted((a, b) => medianOf(b.there) - medianOf(a.there))[0]!;
    note(`The slowest question on the lake is ${slowest.name}, with ${medianOf(slowest.there).toFixed(2)} s.`);
    for (const { name, here, there } of took)
      figure({
        what: `${name}: time on the lake ÷ on PostgreSQL`,
        unit: '×',
        rounds: there.map((one, round) => one / here[round]!),
      });
  } finally {
    await engine.run('use memory');
    await owner.end();
  }
}
