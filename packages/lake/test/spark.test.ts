/**
 * Spark, on a cluster of two executors, answers from the listed files as PostgreSQL does from the warehouse. It knows no
 * DuckLake: it reads as docs/how-to/read_the_lake.py does.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { listFiles } from '../../../src/lake/files.ts';
import { eraseCustomer } from '../../../src/privacy/erasures.ts';
import { streams } from '../../../src/sources/index.ts';
import { root } from '../../../test/support/docker.ts';
import { inProcess } from '../../../test/support/in-process.ts';
import { makeRng } from '../../sandbox/src/random.ts';
import { tidy } from '../src/tidy.ts';
import { describeOnSpark } from './support/lake.ts';
import { lakeBeside } from './support/lake-beside.ts';

const month = (at: string): string =>
  `cast(extract(year from ${at}) as int) * 100 + cast(extract(month from ${at}) as int)`;

/** In the SQL that both know. */
const questions = [
  `select state, ${month('created_at')} as month, count(*) as tickets from safe.tickets group by 1, 2 order by 1, 2`,
  `select inbox_id, count(first_response_seconds) as answered,
     percentile_cont(0.5) within group (order by first_response_seconds) as median,
     percentile_cont(0.9) within group (order by first_response_business_seconds) as ninth
   from analytics.ticket_metrics where not spam and deleted_at is null group by inbox_id order by inbox_id`,
  `select m.user_id, ${month('m.created_at')} as month, count(*) as messages, count(distinct m.ticket_id) as tickets
   from safe.messages m where m.user_id is not null and m._deleted_at is null group by 1, 2 order by 1, 2`,
  `select l.name, count(*) as tickets, sum(t.message_count) as messages
   from safe.ticket_labels x
   join safe.labels l on l.account_id = x.account_id and l.id = x.label_id
   join analytics.ticket_metrics t on t.account_id = x.account_id and t.ticket_id = x.ticket_id
   group by l.name order by l.name`,
  `select tickets, count(*) as customers from (
     select customer_id, count(*) as tickets from helpdesk.tickets where customer_id is not null group by customer_id) c
   group by tickets order by tickets`,
  `select inbox_id, sum(seconds_open) as open, sum(seconds_hold) as hold, max(longest_wait_seconds) as longest
   from analytics.ticket_metrics group by inbox_id order by inbox_id`,
  `select cardinality(label_ids) as labels, count(*) as tickets, count(subject) as subjects, min(number) as least
   from helpdesk.tickets group by 1 order by 1`,
  'select account_id, source, stream, gaps, open_rejects from internal.lake_completeness order by 1, 2, 3',
];

/** Numbers come as numbers, as texts, and with other last digits of their sums. */
const plain = (rows: readonly (readonly unknown[])[]): unknown[][] =>
  rows.map(row =>
    row.map(value =>
      value !== null && value !== '' && typeof value !== 'boolean' && Number.isFinite(Number(value))
        ? Number(value).toPrecision(12)
        : value,
    ),
  );

await describeOnSpark('Spark', python => {
  test('answers as PostgreSQL does', async () => {
    const rng = makeRng(21);
    await using s = await inProcess({ tickets: 300, seed: 5 });
    await s.sync();
    await using beside = await lakeBeside(s.url);
    await beside.export();
    for (let step = 0; step < 3; step++) {
      for (let i = 0; i < 20; i++) s.world.mutate(rng);
      s.nowMs += 300_000;
      await s.sync();
      await beside.export();
      if (step === 0) await tidy(beside.lake, 30);
    }
    const [one] = await s.rows(
      'select customer_id as id from helpdesk.tickets where customer_id is not null order by id limit 1',
    );
    const erasure = { account: 'default', customer: String(one!.id), who: 'test', withShared: true, streams };
    await eraseCustomer(s.pool, erasure, new Date(s.nowMs));
    await beside.export();

    const tables = [...new Set(questions.join(' ').match(/\b(?:safe|helpdesk|analytics)\.\w+/g))];
    const listed = await listFiles(s.pool, { tables });
    expect(listed.tables.some(({ files }) => files.some(({ deletes }) => deletes !== null))).toBe(true);
    const queries = questions.map(query => query.replace(/\b(safe|helpdesk|analytics)\.(\w+)/g, '$1_$2'));
    const { executors, answers } = await ask(python, { listed, queries });
    expect(executors).toBe(2);
    for (const [i, query] of questions.entries()) {
      const { rows } = await s.pool.query({ text: query, rowMode: 'array' });
      expect(rows.length).toBeGreaterThan(1);
      expect(plain(answers[i]!), query).toEqual(plain(rows));
    }
  });
});

async function ask(python: string, asked: object): Promise<{ executors: number; answers: unknown[][][] }> {
  const folder = await mkdtemp(join(tmpdir(), 'lake-spark-'));
  try {
    await writeFile(join(folder, 'asked.json'), JSON.stringify(asked));
    const program = join(root, 'packages/lake/test/support/spark_answers.py');
    const env = { ...process.env, PATH: `${dirname(python)}:${process.env.PATH}`, PYTHONDONTWRITEBYTECODE: '1' };
    await promisify(execFile)(python, [program, 'asked.json', 'answers.json'], {
      ...{ cwd: folder, env, maxBuffer: 64 * 2 ** 20 },
    });
    return JSON.parse(await readFile(join(folder, 'answers.json'), 'utf8'));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
