/** The project of dbt/, run by dbt itself as a reader: freshness, the tests of all sources, and the example models. */
import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { generateBooks } from '../../packages/sandbox/src/books/content/generate.ts';
import { startSandbox } from '../../packages/sandbox/src/server.ts';
import { readCatalog } from '../../src/analytics/catalog.ts';
import { dbtSources } from '../../src/analytics/dbt.ts';
import { streams } from '../../src/sources/index.ts';
import { booksConfig } from '../support/books.ts';
import { root } from '../support/docker.ts';
import { long } from '../support/long.ts';
import { configFor, noSandboxLimits, syncOnce } from '../support/mirror.ts';
import { freshDatabase } from '../support/postgres.ts';
import { pythonWith } from '../support/python.ts';
import { letReaderIn } from '../support/readers.ts';

/** The versions that docs/how-to/use-dbt.md names. */
const packages = ['dbt-core==1.10.15', 'dbt-postgres==1.9.1'];
const execute = promisify(execFile);

test('dbt finds the sources fresh, their tests pass, and its models hold what SQL says', long, async context => {
  await using python = await pythonWith(context, packages);
  await using db = await freshDatabase();
  const world = generateBooks({ now: Date.now, volumes: 20, seed: 4 });
  const sandbox = await startSandbox({ ...noSandboxLimits, tickets: 120, seed: 11, books: { world } });
  const folder = await mkdtemp(join(tmpdir(), 'shelfdesk-dbt-'));
  try {
    const config = {
      ...configFor(db.url, sandbox),
      books: booksConfig(sandbox, { users: [...world.users.keys()].slice(0, 1) }),
    };
    expect((await syncOnce(config)).exitCode).toBe(0);
    await db.pool.query(`
      insert into analytics.calendars values ('office', 'Europe/Berlin');
      insert into analytics.calendar_hours select 'office', d, '09:00', '17:00' from generate_series(1, 5) d;
      insert into internal.stored_calendar_assignments values ('default', null, 'office')`);
    await db.pool.query('call analytics.recompute()');
    await using reader = await letReaderIn(db, { pii: true });
    await using _ = {
      [Symbol.asyncDispose]: async () => void (await db.pool.query('drop schema dbt cascade')),
    };
    await db.pool.query(`create schema dbt authorization ${reader.name}`);
    await cp(join(root, 'dbt'), folder, { recursive: true });
    await writeFile(join(folder, 'models/sources.yml'), dbtSources(await readCatalog(db.pool), streams));
    const { hostname, port, pathname, username, password } = new URL(reader.url);
    const dbt = async (...args: string[]) => {
      const options = ['--project-dir', folder, '--profiles-dir', folder, '--no-use-colors', '--quiet'];
      const env = {
        ...{ PATH: process.env.PATH, HOME: folder, DBT_SEND_ANONYMOUS_USAGE_STATS: 'false' },
        ...{ PGHOST: hostname, PGPORT: port, PGDATABASE: pathname.slice(1), PGUSER: username, PGPASSWORD: password },
      };
      return execute(join(python.bin, 'dbt'), [...args, ...options], {
        env,
        cwd: folder,
        maxBuffer: 16 * 2 ** 20,
      }).then(
        ({ stdout }) => ({ code: 0, stdout }),
        (error: { code: number; stdout: string }) => ({ code: error.code, stdout: error.stdout }),
      );
    };
    expect(await dbt('source', 'freshness')).toEqual({ code: 0, stdout: expect.anything() });
    expect(await dbt('build')).toEqual({ code: 0, stdout: expect.anything() });

    const same = async (model: string, sql: string) => {
      const found = await reader.rows(`select to_jsonb(m) as row from dbt.${model} m order by 1`);
      expect(found.length).toBeGreaterThan(3);
      expect(found).toEqual(await reader.rows(`select to_jsonb(m) as row from (${sql}) m order by 1`));
    };
    await same(
      'first_response_weekly',
      `select account_id as account_key, account_id || '/' || inbox_id as inbox_key,
         date_trunc('week', created_at at time zone 'Europe/Berlin')::date as week_start, count(*) as tickets,
         percentile_cont(0.5) within group (order by first_response_seconds) as median_seconds,
         percentile_cont(0.5) within group (order by first_response_business_seconds) as median_business_seconds
       from analytics.countable_tickets where messages_complete and first_response_seconds is not null group by 1, inbox_id, 3`,
    );
    await same(
      'backlog_daily_total',
      `select account_id as account_key, day as date_key, sum(tickets)::bigint as tickets, sum(uncertain)::bigint as uncertain
       from analytics.backlog_daily((select min(date_key) from analytics.fact_backlog), (select max(date_key) from analytics.fact_backlog), 'Europe/Berlin')
       group by 1, 2`,
    );
    await same(
      'waits_by_user',
      `select r.account_id as account_key, r.account_id || '/' || r.user_id as user_key,
         date_trunc('month', r.answered_at at time zone 'Europe/Berlin')::date as month_start, count(*) as waits,
         avg(r.wait_seconds) as average_wait_seconds, count(*) filter (where r.is_first_response) as first_responses
       from analytics.reply_turns r join analytics.countable_tickets t using (account_id, ticket_id)
       where r.is_answered group by r.account_id, r.user_id, 3`,
    );

    // A mirror that is two days behind.
    await db.pool.query(
      `update sync.coverage set covered = covered * tstzmultirange(tstzrange(null, now() - interval '2 days'))`,
    );
    const { code, stdout } = await dbt('source', 'freshness');
    expect(code).toBe(1);
    expect(stdout).toMatch(/ERROR STALE/);
  } finally {
    await sandbox.close();
    await rm(folder, { recursive: true, force: true });
  }
});
