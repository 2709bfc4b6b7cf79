/** A lake in a bucket, by the commands: two accounts are staged, changes follow, and an erased person is in no object. */
import { expect, test } from 'vitest';
import { eraseCustomer } from '../../../src/engine/runs/operations.ts';
import { streams } from '../../../src/sources/index.ts';
import { settingsFor, shelfdesk } from '../../../test/support/cli.ts';
import { inProcess } from '../../../test/support/in-process.ts';
import { makeRng } from '../../sandbox/src/random.ts';
import { type Lake, openLake } from '../../../src/lake/package.ts';
import { tidy } from '../src/tidy.ts';
import { describeOnBucket, startBucket } from './support/lake.ts';

const source = { url: 'https://desk.example/api/v1', token: 'none' };

await describeOnBucket('a lake in a bucket', program => {
  test('is equal to the warehouse, and forgets who is erased', async () => {
    await using bucket = await startBucket(program);
    await using s = await inProcess({ tickets: 40, seed: 5 });
    const extensions = process.env.LAKE_EXTENSIONS!;
    const place = { ...bucket, path: `${bucket.path}/lake`, extensions };
    const settings = {
      ...settingsFor(s.url, source),
      LAKE_EXTENSIONS: extensions,
      LAKE_S3_ENDPOINT: bucket.endpoint.href,
      LAKE_S3_REGION: bucket.region,
      LAKE_S3_KEY_ID: bucket.keyId,
      LAKE_S3_SECRET: bucket.secret,
    };
    const lake = async (...args: string[]): Promise<string> => {
      const { code, stdout, stderr } = await shelfdesk(['lake', ...args], settings).finished;
      expect(code, stderr).toBe(0);
      return stdout;
    };
    await s.sync();
    // Accounts are staged side by side if there are several.
    await s.rows(`insert into sync.accounts (account_id) values ('other')`);
    await using other = await openLake(s.url, place, { mode: 'none' });
    await other.run(`copy (select 1 as one) to '${bucket.path}/other/own.parquet'`);
    const refused = await shelfdesk(['lake', 'on', '--to', bucket.path], settings).finished;
    expect(refused.stderr).toContain('has Parquet files already');
    await lake('on', '--to', `${bucket.path}/lake/`, '--pii');
    await lake('export');
    await using engine = await openLake(s.url, place);
    expect(await s.rows('select count(*)::int as done from sync.lake_parts where done_at is not null')).toEqual([
      { done: 1 },
    ]);
    expect(await objects(engine, place.path, 'staged')).toEqual([]);

    const rng = makeRng(3);
    for (let i = 0; i < 10; i++) s.world.mutate(rng);
    s.nowMs += 300_000;
    await s.sync();
    await lake('export');
    await lake('verify');

    const { customer, texts } = await somebody(s.rows);
    const found = async () => {
      const all = await contents(engine, place.path);
      return texts.filter(text => all.some(content => content.includes(JSON.stringify(text).slice(1, -1))));
    };
    expect(await found()).toEqual(texts);
    await eraseCustomer(s.pool, { account: 'default', customer, who: 'test', streams }, new Date(s.nowMs));
    await lake('export');
    expect(await found()).toEqual([]);
    await lake('verify');

    await tidy(engine, 1);
    await lake('verify');
    const listed = JSON.parse(await lake('files', '--json')) as { tables: { files: { path: string }[] }[] };
    const there = await objects(engine, place.path, '');
    expect(there).toEqual(expect.arrayContaining(listed.tables.flatMap(one => one.files.map(({ path }) => path))));
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
