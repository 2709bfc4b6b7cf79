/** A lake in a bucket: two accounts are staged, changes follow, and an erased person is in no object. */
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { stageLake } from '../../../jobs/stage-lake.ts';
import { systemClock } from '../../../src/clock.ts';
import { openQueues } from '../../../src/engine/queue/queue.ts';
import { listFiles } from '../../../src/lake/files.ts';
import type { Lake } from '../../../src/lake/package.ts';
import { stageAll } from '../../../src/lake/stage.ts';
import { readLake } from '../../../src/lake/state.ts';
import { workOnLake } from '../../../src/lake/work.ts';
import { eraseCustomer } from '../../../src/privacy/erasures.ts';
import { lakeTables, streams } from '../../../src/sources/index.ts';
import { settingsFor, shelfdesk } from '../../../test/support/cli.ts';
import { inProcess } from '../../../test/support/in-process.ts';
import { makeRng } from '../../sandbox/src/random.ts';
import { tidy } from '../src/tidy.ts';
import { describeOnBucket, startBucket } from './support/lake.ts';
import { lakeBeside, personalTables } from './support/lake-beside.ts';

await describeOnBucket('a lake in a bucket', program => {
  test('is equal to the warehouse, and forgets who is erased', async () => {
    await using bucket = await startBucket(program);
    await using s = await inProcess({ tickets: 20, seed: 5 });
    await s.sync();
    // Accounts are staged side by side if there are several.
    await s.rows(`insert into sync.accounts (account_id) values ('other')`);
    const path = `${bucket.path}/lake`;
    await using beside = await lakeBeside(s.url, { only: personalTables, bucket: { ...bucket, path } });
    const tables = lakeTables.filter(({ name }) => personalTables.includes(name));
    await using queues = await openQueues({ redisUrl: undefined, databaseUrl: s.url });
    const { signal } = new AbortController();
    const log = pino({ level: 'silent' });
    const reach = { ...beside.place };
    const deps = { url: s.url, pg: s.pool, queues, reach, tables, jobs: [stageLake], clock: systemClock, signal, log };
    await using worker = await workOnLake(deps, (await readLake(s.pool))!, () => {});
    const [begun] = await s.rows(
      `insert into sync.lake_exports (started_at, state) values (now(), 'running') returning id::int`,
    );
    const stage = (snapshot: string, accounts: readonly string[]) =>
      stageAll(worker.work, Number(begun!.id), snapshot, accounts);
    expect(await beside.export(undefined, { stage })).toMatchObject({ staged: true });
    expect(await beside.compare()).toEqual([]);

    const rng = makeRng(3);
    for (let i = 0; i < 10; i++) s.world.mutate(rng);
    s.nowMs += 300_000;
    await s.sync();
    await beside.export();
    const { customer, texts } = await somebody(s.rows);
    const found = async () => {
      const all = await contents(beside.lake, path);
      return texts.filter(text => all.some(content => content.includes(JSON.stringify(text).slice(1, -1))));
    };
    expect(await found()).toEqual(texts);
    await eraseCustomer(s.pool, { account: 'default', customer, who: 'test', streams }, new Date(s.nowMs));
    await beside.export();
    expect(await found()).toEqual([]);
    await tidy(beside.lake, 1);
    expect(await beside.compare()).toEqual([]);
    const listed = await listFiles(s.pool);
    const there = await objects(beside.lake, path, '');
    expect(there).toEqual(expect.arrayContaining(listed.tables.flatMap(one => one.files.map(file => file.path))));

    await s.rows('truncate sync.lake');
    const settings = {
      ...settingsFor(s.url, { url: 'https://desk.example/api/v1', token: 'none' }),
      LAKE_EXTENSIONS: process.env.LAKE_EXTENSIONS!,
      LAKE_S3_ENDPOINT: bucket.endpoint.href,
      LAKE_S3_REGION: bucket.region,
      LAKE_S3_KEY_ID: bucket.keyId,
      LAKE_S3_SECRET: bucket.secret,
    };
    const refused = await shelfdesk(['lake', 'on', '--to', bucket.path], settings).finished;
    expect(refused.stderr).toContain('has Parquet files already');
  });
});

const objects = async (lake: Lake, path: string, prefix: string): Promise<string[]> =>
  (await lake.rows<{ file: string }>(`from glob('${path}/**') where starts_with(file, '${path}/${prefix}')`)).map(
    ({ file }) => file,
  );

/** All values of all objects, in JSON. */
async function contents(lake: Lake, path: string): Promise<string[]> {
  const all = await objects(lake, path, '');
  const folders = Object.values(
    Object.groupBy(all, file =>
      file
        .slice(path.length + 1)
        .split('/', 2)
        .join('/'),
    ),
  );
  const found: string[] = [];
  for (const files of folders) {
    const listed = files!.map(file => `'${file}'`).join(', ');
    const rows = await lake.rows(`from read_parquet([${listed}], union_by_name = true, hive_partitioning = false)`);
    found.push(JSON.stringify(rows));
  }
  return found;
}

/** A customer with a name and tickets, and texts of theirs that nobody else has. */
async function somebody(rows: (sql: string, ...values: unknown[]) => Promise<Record<string, unknown>[]>) {
  const [one] = await rows(
    `select c.id from helpdesk.customers c join helpdesk.tickets t on t.customer_id = c.id
     where c.first_name is not null order by c.id limit 1`,
  );
  const customer = String(one!.id);
  const texts = await rows(
    `select c.value as text from helpdesk.contacts c where c.customer_id = $1
     union select t.subject from helpdesk.tickets t where t.customer_id = $1
     union select m.body_text from helpdesk.messages m join helpdesk.tickets t on t.id = m.ticket_id
       where t.customer_id = $1 and m.direction = 'in'`,
    customer,
  );
  return { customer, texts: texts.map(({ text }) => String(text)).filter(text => text.length > 5) };
}
