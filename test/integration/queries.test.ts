/**
 * The questions of docs/queries and the pictures, asked of a shop's three months (ten days, where CI is not set): by the owner
 * and by a reader who sees no names, who gets the same answers. `npm run docs` writes docs/reference/questions.md and the pictures anew.
 */
import { existsSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isOfStar, nameOf, readCatalog } from '../../src/analytics/catalog.ts';
import { type Query, readQueries } from '../../src/analytics/questions.ts';
import { answered, examples } from '../support/answers.ts';
import { shelfdesk } from '../support/cli.ts';
import { drawn, grafanaSqlOf } from '../support/dashboards.ts';
import { demoWorld } from '../support/demo-world.ts';
import { ran } from '../support/here.ts';
import type { InProcess } from '../support/in-process.ts';
import { long } from '../support/long.ts';
import { draw, pictures } from '../support/pictures.ts';
import { freshDatabase } from '../support/postgres.ts';
import { letReaderIn, type TestReader } from '../support/readers.ts';

const queries: Query[] = await readQueries();
let here: InProcess;
let reader: TestReader;
beforeAll(async () => {
  here = await demoWorld(process.env.CI ? 92 : 10);
  reader = await letReaderIn(here);
}, 900_000);
afterAll(async () => {
  await reader?.[Symbol.asyncDispose]();
  await here?.[Symbol.asyncDispose]();
});

test('there are twenty and more, each a question of its own', () => {
  expect(queries.length).toBeGreaterThanOrEqual(20);
  expect(queries.filter(({ question }) => !/^[A-Z].*\?$/.test(question))).toEqual([]);
  expect(queries.filter(({ name }) => !/^[a-z]+(-[a-z]+)*$/.test(name))).toEqual([]);
  expect(new Set(queries.map(({ question }) => question)).size).toBe(queries.length);
  // What a reader sees depends on no search_path, and what it says on no clock and no zone: days of an interval are those of the session.
  expect(
    queries.filter(({ sql }) =>
      /\b(now\(\)|current_date|current_timestamp)|\b(helpdesk|sync)\.|\binterval '\d+ (day|week|month|year)/.test(
        statementOf(sql),
      ),
    ),
  ).toEqual([]);
});

const statementOf = (sql: string): string => sql.replaceAll(/^--.*$/gm, '');

describe('answers, and a reader without names gets the same:', () => {
  test.for(queries)('$name', async ({ sql }) => {
    const own = await here.rows(sql);
    expect(own.length).toBeGreaterThan(0);
    expect(await reader.rows(sql)).toEqual(own);
  });
});

test('the dashboard of examples/dashboards asks them, and each of its charts has something to draw', async () => {
  const all = await drawn(here.pool, queries);
  expect(all).toHaveLength(9);
  for (const one of all) {
    const rows = await reader.rows(one.sql);
    const shown = [one.along, one.each, ...(one.values ?? [])].filter(name => name !== undefined);
    for (const name of shown)
      expect(
        rows.map(row => row[name]).some(value => value !== null),
        name,
      ).toBe(true);
    if (one.kind !== 'lines') continue;
    const lines = await reader.rows(grafanaSqlOf(one));
    const columns = ['time', ...(one.each === undefined ? [] : ['metric']), ...one.values!];
    expect(lines.map(row => Object.keys(row))).toEqual(rows.map(() => columns));
    expect(lines.map(row => row.time)).toEqual(rows.map(row => row[one.along!]));
  }
});

describe('query', () => {
  const run = (...args: string[]) => ran(['query', ...args], { DATABASE_URL: here.url });

  test('list names them all', async () => {
    const { code, stdout } = await run('list', '--json');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual(queries);
  });

  test('run asks one', async () => {
    const { code, stdout } = await run('run', 'labels', '--json');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual(await here.rows(queries.find(({ name }) => name === 'labels')!.sql));
    const shown = await run('run', 'labels.sql');
    expect(shown.stdout.split('\n')[0]).toMatch(/^label +tickets +replies/);
    expect(shown.stderr).toContain('What are the tickets about');
  });

  test('run shows days as they are, wherever it is asked', async () => {
    const env = { DATABASE_URL: here.url, TZ: 'America/New_York' };
    const asked = shelfdesk(['query', 'run', 'created-and-closed', '--json'], env);
    const weeks: { week: string }[] = JSON.parse((await asked.finished).stdout);
    expect(weeks.map(({ week }) => [week, new Date(`${week}T00:00:00Z`).getUTCDay()])).toEqual(
      weeks.map(() => [expect.stringMatching(/^\d{4}-\d\d-\d\d$/), 1]),
    );
  });

  test('run says what to do where there is none of that name', async () => {
    expect(await run('run', 'label')).toMatchObject({
      code: 2,
      stdout: '',
      stderr: 'error: there is no query label\nDid you mean labels? See `npx shelfdesk query list`.\n',
    });
  });
});

describe('the star', () => {
  test('each of its views has a key, one column for each join, no JSON and no arrays', async () => {
    const star = (await readCatalog(here.pool)).flatMap(schema => schema.relations).filter(isOfStar);
    expect(star.length).toBeGreaterThanOrEqual(14);
    for (const relation of star) {
      const { columns, key } = relation;
      expect(
        columns.filter(({ type }) => /json|\[\]/.test(type)),
        nameOf(relation),
      ).toEqual([]);
      const { rows } = await reader.client.query(
        `select count(*)::int as rows, count(distinct ${key[0]})::int as keys, count(${key[0]})::int as named from ${nameOf(relation)}`,
      );
      expect(rows[0], nameOf(relation)).toEqual({ rows: rows[0].rows, keys: rows[0].rows, named: rows[0].rows });
      expect(rows[0].rows, nameOf(relation)).toBeGreaterThan(0);
      for (const join of relation.joins.filter(({ to }) => /^analytics\.(dim|fact)_/.test(to))) {
        expect(join.columns, nameOf(relation)).toHaveLength(1);
        const [column, field] = [join.columns[0]!, join.fields[0]!];
        const lost = await reader.rows(
          `select ${column} from ${nameOf(relation)} where ${column} not in (select ${field} from ${join.to}) limit 3`,
        );
        expect({ relation: nameOf(relation), column, lost }).toEqual({ relation: nameOf(relation), column, lost: [] });
      }
    }
  });

  test('knows who has left and once had a ticket, as the backlog of that time does', async () => {
    await using db = await freshDatabase();
    await db.pool.query(`
      insert into sync.accounts (account_id) values ('acme');
      insert into internal.ticket_history (account_id, ticket_id, state, user_id, label_ids, spam, trash, valid_from, valid_to, is_first)
      values ('acme', 't1', 'open', 'gone', '{}', false, false, '2026-01-01', '2026-01-02', true)`);
    const { rows } = await db.pool.query('select user_key, is_mirrored from analytics.dim_user');
    expect(rows).toEqual([{ user_key: 'acme/gone', is_mirrored: false }]);
  });

  test('counts what the mirror has', async () => {
    const [facts] = await here.rows(`
      select (select count(*)::int from analytics.fact_tickets) as tickets, (select count(*)::int from analytics.fact_messages) as messages,
        (select count(*)::int from analytics.fact_turns) as turns, (select count(*)::int from analytics.fact_ticket_labels) as labels,
        (select sum(fresh + backfill + sweep + interactive)::int from analytics.fact_credits where source = 'helpdesk') as credits`);
    const [mirror] = await here.rows(`
      with countable as (select * from helpdesk.tickets where not spam and not trash and _deleted_at is null)
      select (select count(*)::int from countable) as tickets,
        (select count(*)::int from helpdesk.messages m where (m.account_id, m.ticket_id) in (select account_id, id from countable)) as messages,
        (select count(*)::int from analytics.reply_turns r where (r.account_id, r.ticket_id) in (select account_id, id from countable)) as turns,
        (select count(*)::int from helpdesk.ticket_labels l where (l.account_id, l.ticket_id) in (select account_id, id from countable)) as labels,
        (select sum(fresh + backfill + sweep + interactive)::int from sync.credit_minutes where source = 'helpdesk') as credits`);
    expect(facts).toEqual(mirror);
  });
});

const shown = (name: string): string => {
  const file = new URL(`../../docs/reference/${name}`, import.meta.url);
  return existsSync(file) ? readFileSync(file, 'utf8') : '';
};

test('docs/reference/questions.md shows the answers', long, async () => {
  const page = await answered(here.pool, queries, shown('questions.md'));
  await expect(page).toMatchFileSnapshot('../../docs/reference/questions.md');
});

test.for(pictures)('docs/reference/$file shows the answer', long, async picture => {
  const before = shown(picture.file);
  const drawn = await draw(here.pool, picture);
  // An example, as in docs/reference/questions.md: what is said on it, figures left out, is so still.
  const words = (svg: string) => [...svg.matchAll(/>([^<>]*[a-z][^<>]*)<\/text>/g)].map(([, text]) => text);
  const isExample = examples.some(name => picture.file === `${name}.svg`) && before !== '';
  if (isExample) expect(words(drawn)).toEqual(words(before));
  await expect(isExample ? before : drawn).toMatchFileSnapshot(`../../docs/reference/${picture.file}`);
});

test.for(pictures)('a reader may ask what $file shows', async ({ sql }) => {
  expect((await reader.rows(sql)).length).toBeGreaterThan(0);
});
