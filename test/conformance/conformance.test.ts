/**
 * What every source has to do, whatever it is: the help desk, the catalog, and the CRM that the guide builds. Each runs as
 * people run it, as commands of the program.
 */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Finished, shelfdesk } from '../support/cli.ts';
import { long } from '../support/long.ts';
import { freshDatabase, type TestDatabase } from '../support/postgres.ts';
import { largeId, rawJson } from './crm-server.ts';
import { type CrmHarness, type Harness, openBooks, openCrm, openHelpdesk } from './harness.ts';
import { blocks, followGuide, guide } from './tree.ts';

/** Runs a command of the program. */
function start(of: Harness, db: TestDatabase, ...args: string[]): { done: Promise<Finished>; kill: () => void } {
  const env = { NO_COLOR: '1', DATABASE_URL: db.url, ...of.env };
  const { process, finished } = shelfdesk(args, env, undefined, join(of.folder, 'src/main.ts'));
  return { done: finished, kill: () => process.kill('SIGKILL') };
}

const run = (of: Harness, db: TestDatabase, ...args: string[]): Promise<Finished> => start(of, db, ...args).done;

/** The JSON that a command prints; the command has to end with one of these codes. */
async function json(of: Harness, db: TestDatabase, args: readonly string[], codes = [0]): Promise<Json> {
  const { code, stdout, stderr } = await run(of, db, ...args, '--json');
  expect(codes, stderr).toContain(code);
  return JSON.parse(stdout) as Json;
}
// biome-ignore lint/suspicious/noExplicitAny: documents of several commands
type Json = any;

const rows = async (db: TestDatabase, sql: string, ...values: unknown[]) => (await db.pool.query(sql, values)).rows;

const sources: Record<string, () => Promise<Harness>> = {
  'the CRM of the guide': openCrm,
  'the help desk': openHelpdesk,
  'the catalog': openBooks,
};

describe.each(Object.entries(sources))('%s', long, (_name, open) => {
  let of: Harness;
  let db: TestDatabase;
  beforeAll(async () => {
    of = await open();
    db = await freshDatabase();
  });
  afterAll(async () => {
    await of?.[Symbol.asyncDispose]();
    await db?.drop();
  });

  test('a first load, killed on its way, is completed by the next one; then a sync changes nothing', async () => {
    const first = start(of, db, 'sync');
    await expect.poll(() => of.requests(), { timeout: 60_000, interval: 5 }).toBeGreaterThan(1);
    first.kill();
    await first.done;
    const second = await run(of, db, 'sync');
    expect(second.code, second.stderr).toBe(0);
    expect(await of.differences(db.pool)).toEqual([]);
    const again = await json(of, db, ['sync']);
    expect(again.streams.map((one: Json) => [one.inserted, one.updated, one.deleted])).toEqual(
      again.streams.map(() => [0, 0, 0]),
    );
  });

  test('the plan says what a run takes, and no zero where it is not known', async () => {
    const planned = await json(of, db, ['plan']);
    const before = of.requests();
    await json(of, db, ['sync']);
    const made = of.requests() - before;
    expect(planned.incomplete ? planned.requests >= 0 : Math.abs(planned.requests - made) <= 2, `${made} made`).toBe(
      true,
    );
    const verified = await json(of, db, ['verify', '--full']);
    expect(verified.forecast.credits).toBeGreaterThan(0);
  });

  test('changes and new records come with the next sync', async () => {
    of.change();
    const synced = await run(of, db, 'sync');
    expect(synced.code, synced.stderr).toBe(0);
    expect(await of.differences(db.pool)).toEqual([]);
  });

  test('a source that breaks off leaves a partial run, which the next one completes', async () => {
    of.change();
    of.breakAfter(1);
    const before = of.requests();
    const broken = start(of, db, 'sync', of.stream);
    // A request that fails for good is retried for two minutes: the test kills the command before.
    await expect.poll(() => of.requests(), { timeout: 60_000, interval: 20 }).toBeGreaterThan(before + 1);
    broken.kill();
    await broken.done;
    of.breakAfter(undefined);
    const synced = await run(of, db, 'sync');
    expect(synced.code, synced.stderr).toBe(0);
    expect(await of.differences(db.pool)).toEqual([]);
  });

  test('a deletion gets a tombstone, and verify is clean afterwards', async () => {
    const { table, id } = of.remove();
    for (const command of [['sync'], ['sweep']]) await run(of, db, ...command);
    const found = await rows(db, `select _deleted_at is not null as gone from ${table} where id = $1`, id);
    expect(found.some(({ gone }) => gone)).toBe(true);
    const verified = await json(of, db, ['verify', '--full']);
    expect(verified.differences).toEqual([]);
  });

  test('verify names a silent change, and repairs it', async () => {
    const id = of.changeSilently();
    const found = await json(of, db, ['verify', '--full'], [5]);
    expect(found.differences.map((one: Json) => one.record)).toContain(id);
    await json(of, db, ['verify', '--full', '--repair'], [0, 5]);
    expect((await json(of, db, ['verify', '--full'])).differences).toEqual([]);
  });

  test('status and doctor name its streams, and nothing of it is a failure', async () => {
    const { streams } = await json(of, db, ['status']);
    expect(streams.map((one: Json) => one.stream)).toContain(of.stream);
    expect(streams.map((one: Json) => one.complete_through)).not.toContain(null);
    const doctor = await run(of, db, 'doctor', '--json');
    expect(JSON.parse(doctor.stdout).results.filter((one: Json) => one.state === 'fail')).toEqual([]);
  });
});

test('status shows the streams of a source before its first sync', async () => {
  await using of = await openCrm();
  await using db = await freshDatabase();
  const { streams } = await json(of, db, ['status']);
  expect(streams.map((one: Json) => [one.source, one.stream, one.state])).toEqual([
    ['crm', 'contacts', 'never_synced'],
    ['crm', 'deals', 'never_synced'],
  ]);
  const { stdout, stderr } = await run(of, db, 'status');
  expect([stdout, stderr]).toEqual([
    expect.stringContaining('contacts  never synced'),
    expect.stringContaining('Nothing has been read yet'),
  ]);
});

describe('the CRM of the guide, beyond the others', () => {
  let of: CrmHarness;
  let db: TestDatabase;
  beforeAll(async () => {
    of = await openCrm();
    db = await freshDatabase();
    expect((await run(of, db, 'sync')).code).toBe(0);
  });
  afterAll(async () => {
    await of?.[Symbol.asyncDispose]();
    await db?.drop();
  });

  test('its commands run as the guide shows them, on a database that is in use', async () => {
    const [, shown = ''] = /## 4\. Run it\n\n```sh\n([\s\S]*?)```/.exec(guide) ?? [];
    const commands = shown.trim().split('\n');
    expect(commands).toHaveLength(7);
    for (const line of commands) {
      const [, ...args] = line.replace(/^npx /, '').match(/"[^"]*"|\S+/g)!;
      const { code, stderr } = await run(of, db, ...args.map(arg => arg.replaceAll('"', '')));
      expect(code, `${line}\n${stderr}`).toBe(0);
    }
  });

  test('it takes new files of 250 lines at most, and one line', () => {
    const files = blocks.filter(({ language }) => language !== 'diff');
    expect(files.reduce((sum, { text }) => sum + text.split('\n').length - 1, 0)).toBeLessThanOrEqual(250);
    expect(blocks.filter(({ language }) => language === 'diff').map(({ file }) => file)).toEqual([
      'src/sources/index.ts',
    ]);
  });

  test('a malformed record is rejected and stops nothing; unknown fields and values are drift', async () => {
    const { contacts, deals } = of.crm;
    const broken = { ...contacts.get('c0010')!, updated_at: 'yesterday' };
    const whole = contacts.get('c0010')!;
    contacts.set('c0010', broken);
    deals.set('d1', { ...deals.get('d1')!, stage: 'dreaming', ...({ colour: 'red' } as object) });
    const partial = await json(of, db, ['sync'], [3]);
    expect(partial.streams.map((one: Json) => [one.stream, one.rejected])).toEqual([
      ['contacts', 1],
      ['deals', 0],
    ]);
    expect(await rows(db, 'select source, stream, record_id from sync.rejects where cleared_at is null')).toEqual([
      { source: 'crm', stream: 'contacts', record_id: 'c0010' },
    ]);
    expect(
      await rows(
        db,
        `select kind, path, value from sync.drift where source = 'crm' and stream = 'deals' order by kind`,
      ),
    ).toEqual([
      { kind: 'unknown_field', path: 'colour', value: '' },
      { kind: 'unknown_value', path: 'stage', value: 'dreaming' },
    ]);
    contacts.set('c0010', whole);
    expect((await run(of, db, 'sync')).code).toBe(0);
    expect(await rows(db, 'select from sync.rejects where cleared_at is null')).toEqual([]);
  });

  test('a limit of an hour defers the run, and says until when', long, async () => {
    of.crm.limit = of.crm.asked.length + 1;
    const limited = await json(of, db, ['sync'], [3]);
    expect(limited.streams[0].error).toMatch(/^the CRM asked for a pause; reading resumes at /);
    of.crm.limit = Number.POSITIVE_INFINITY;
    // A person asks again: one request is let through, and the source answers.
    expect((await run(of, db, 'sync')).code).toBe(0);
    expect(await of.differences(db.pool)).toEqual([]);
  });

  test('too many deletions at once are not believed before a person is', long, async () => {
    const { contacts } = of.crm;
    const kept = new Map(contacts);
    for (const id of [...contacts.keys()].slice(0, 100)) contacts.delete(id);
    const partial = await json(of, db, ['sync', 'contacts'], [3]);
    expect(partial.streams[0].error).toContain('100 of 230 contacts seem to have been deleted');
    // There is no gap to be seen.
    expect(partial.streams[0].remedy).not.toContain('sync.gaps');
    expect(await rows(db, 'select from crm.contacts where _deleted_at is not null')).toEqual([]);
    expect((await run(of, db, 'sweep', 'contacts', '--accept-deletions')).code).toBe(0);
    expect(await of.differences(db.pool)).toEqual([]);
    for (const [id, one] of kept) contacts.set(id, one);
    expect((await run(of, db, 'sync')).code).toBe(0);
    expect(await of.differences(db.pool)).toEqual([]);
  });

  test('readers without the right to personal data see hashes in safe, and nothing of the table', async () => {
    const asked = async (relation: string) => {
      const client = await db.pool.connect();
      try {
        await client.query('begin; set local role shelfdesk_reader');
        return (await client.query(`select * from ${relation} limit 1`)).rowCount;
      } catch (error) {
        return (error as Error).message;
      } finally {
        await client.query('rollback');
        client.release();
      }
    };
    expect(await asked('crm.contacts')).toMatch(/permission denied/);
    expect(await asked('crm.deals')).toMatch(/permission denied/);
    expect(await asked('safe.crm_contacts')).toBe(0);
    const [masked] = await rows(db, `select name, email from safe.crm_contacts where id = 'c0001'`);
    expect(masked.name).toMatch(/^[0-9a-f]{64}$/);
    expect(masked.email).not.toContain('@');
  });
});

test.each([
  [
    "columns: ['name', 'email', 'phone']",
    "columns: ['name', 'emial', 'phone']",
    'source crm: stream crm.contacts has no column emial, which its personal.columns name; the nearest is email',
  ],
  [
    "contacts: ['email', 'phone']",
    "contacts: ['emial', 'phone']",
    'source crm: stream crm.contacts has no field emial, which its personal.contacts name; the nearest is email',
  ],
  [
    "columns: ['name', 'email', 'phone']",
    "columns: ['email', 'phone']",
    'source crm: stream crm.contacts does not say whether the text column name is personal',
  ],
  [
    "plain(text('title'))",
    "text('title')",
    'source crm: stream crm.deals does not say whether the text column title is personal',
  ],
])('a declaration with %s changed to %s is refused at start', async (before, after, said) => {
  using tree = followGuide({ 'src/sources/crm/crm.ts': [[before, after]] });
  const { finished } = shelfdesk(['status'], { NO_COLOR: '1' }, undefined, join(tree.folder, 'src/main.ts'));
  const { code, stderr } = await finished;
  expect([code, stderr]).toEqual([2, expect.stringContaining(said)]);
});

test('where records can be fetched by id, only a 404 is a deletion, and a sample can be compared', long, async () => {
  await using of = await openCrm({ byId: true });
  await using db = await freshDatabase();
  expect((await run(of, db, 'sync')).code).toBe(0);
  const { contacts, hidden } = of.crm;
  hidden.set('c0020', contacts.get('c0020')!);
  for (const id of ['c0020', 'c0021']) contacts.delete(id);
  expect((await run(of, db, 'sync')).code).toBe(0);
  const gone = 'select id from crm.contacts where _deleted_at is not null';
  expect(await rows(db, gone)).toEqual([]);
  expect((await run(of, db, 'sweep', 'contacts')).code).toBe(0);
  expect(await rows(db, gone)).toEqual([{ id: 'c0021' }]);
  const sampled = await json(of, db, ['verify', '--sample', '20']);
  expect(sampled.differences).toEqual([]);
  expect(await rows(db, `select count(*) as n from sync.audit where stream_key = 'crm.contacts' and random`)).toEqual([
    { n: 20 },
  ]);
});

test('a first load is killed at each further page while records change, and loses none', long, async () => {
  await using of = await openCrm();
  await using db = await freshDatabase();
  for (const page of [2, 3, 4]) {
    let answered = 0;
    const killed = start(of, db, 'sync');
    of.crm.before = () => {
      if (++answered < page) return undefined;
      if (answered === page) of.change();
      killed.kill();
      return 503;
    };
    await killed.done;
    expect(answered).toBeGreaterThanOrEqual(page);
  }
  of.crm.before = () => undefined;
  // The first one ends the load. What has changed behind it comes with the next.
  for (const args of [['sync'], ['sync']]) {
    const { code, stderr } = await run(of, db, ...args);
    expect(code, stderr).toBe(0);
  }
  expect(await of.differences(db.pool)).toEqual([]);
});

test('deletions that a list cannot show are never assumed; plan, doctor and sweep say so', long, async () => {
  await using of = await openCrm({ unknownDeletions: true });
  await using db = await freshDatabase();
  expect((await run(of, db, 'sync')).code).toBe(0);
  of.remove();
  expect((await run(of, db, 'sync')).code).toBe(0);
  expect(await rows(db, 'select from crm.contacts where _deleted_at is not null')).toEqual([]);
  const sentence = 'Deletions of crm.contacts are not known: the list leaves out archived contacts.';
  expect((await run(of, db, 'plan')).stderr).toContain(sentence);
  expect((await json(of, db, ['plan'])).limitations).toEqual([sentence]);
  expect((await run(of, db, 'doctor', '--all')).stdout).toContain(sentence.slice(0, -1));
  const swept = await run(of, db, 'sweep', 'contacts');
  expect(swept.code).toBe(2);
  expect(swept.stderr).toContain('contacts cannot be swept: the list leaves out archived contacts');
  expect(await rows(db, `select deletions from sync.streams where stream_key = 'crm.contacts'`)).toEqual([
    { deletions: 'the list leaves out archived contacts' },
  ]);
});

test('field rules know the source of a record, where a third source has streams of the same names', long, async () => {
  await using crm = await openCrm({ sameNames: true });
  await using desk = await openHelpdesk();
  await using books = await openBooks();
  await using db = await freshDatabase();
  const withRules = (FIELD_RULES: string) => ({
    ...crm,
    env: { ...crm.env, ...desk.env, ...books.env, FIELD_RULES, FIELD_RULES_KEY: 'a-key-of-sixteen-letters' },
  });
  const refused = await run(withRules('contacts.value:hash'), db, 'sync');
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain('may mean helpdesk.contacts.value:hash or crm.contacts.value:hash');
  const some = 'helpdesk.contacts.value:hash,helpdesk.customers.last_name,crm.customers.title,crm.contacts.email:hash';
  const of = withRules(`${some},volumes.volumeInfo.title`);
  const synced = await run(of, db, 'sync');
  expect(synced.code, synced.stderr).toBe(0);
  const seen = async () =>
    rows(
      db,
      `select (select bool_and(value ~ '^h:[0-9a-f]{32}$') from helpdesk.contacts) as desk_values,
         (select count(last_name) = 0 and count(first_name) > 0 from helpdesk.customers) as desk_names,
         (select bool_and(email ~ '^h:[0-9a-f]{32}$') and count(name) > 200 from crm.contacts) as crm_contacts,
         (select count(title) = 0 and count(stage) = 40 from crm.customers) as crm_customers,
         (select count(title) = 0 and count(*) > 0 from books.volumes) as volumes`,
    );
  const followed = [{ desk_values: true, desk_names: true, crm_contacts: true, crm_customers: true, volumes: true }];
  expect(await seen()).toEqual(followed);
  const listed = await json(of, db, ['fields']);
  expect(listed.map((one: Json) => one.rule)).toEqual([...some.split(','), 'volumes.volumeInfo.title'].sort());
  crm.change();
  expect((await run(of, db, 'fields', 'apply')).code).toBe(0);
  expect((await run(of, db, 'sync')).code).toBe(0);
  expect(await seen()).toEqual(followed);
});

test('the erasure of a customer clears the rows of other sources with the same address, for good', long, async () => {
  await using of = await openCrm();
  await using desk = await openHelpdesk();
  await using db = await freshDatabase();
  const both = { ...of, env: { ...of.env, ...desk.env } };
  expect((await run(both, db, 'sync', 'customers')).code).toBe(0);
  const [customer] = await rows(
    db,
    `select customer_id as id, value as email from helpdesk.contacts where type = 'email' order by 1 limit 1`,
  );
  of.crm.contacts.get('c0007')!.email = customer.email;
  expect((await run(both, db, 'sync')).code).toBe(0);
  const row = () => rows(db, `select name, email, phone from crm.contacts where id = 'c0007'`);
  expect((await row())[0].email).toBe(customer.email);
  const erased = await run(both, db, 'erase', '--customer', customer.id, '--yes');
  expect(erased.code, erased.stderr).toBe(0);
  const cleared = [{ name: null, email: null, phone: null }];
  expect(await row()).toEqual(cleared);
  // The source still shows the record, and shows it changed.
  Object.assign(of.crm.contacts.get('c0007')!, { name: 'Back again', updated_at: new Date().toISOString() });
  expect((await run(both, db, 'sync')).code).toBe(0);
  expect(await row()).toEqual(cleared);
});

test(
  'offsets, numbers as ids, a key in a header, and refusals of another kind: the same as for the others',
  long,
  async () => {
    await using of = await openCrm({ byId: true, other: true });
    await using db = await freshDatabase();
    const { contacts } = of.crm;
    of.crm.limit = 2;
    const first = await run(of, db, 'sync');
    expect(first.code, first.stderr).toBe(0);
    // A record goes away while its list is read: what moved up is not lost.
    let pages = 0;
    of.crm.before = () => {
      if (++pages === 2) contacts.delete('c0001');
      return undefined;
    };
    const whole = contacts.get('c0010')!;
    contacts.set('c0010', { ...whole, updated_at: 'yesterday' });
    expect((await run(of, db, 'sync')).code).toBe(3);
    expect(await rows(db, 'select record_id from sync.rejects where cleared_at is null')).toEqual([
      { record_id: largeId('c0010') },
    ]);
    const live = 'select id from crm.contacts where _deleted_at is null order by id::numeric';
    // Another record that cannot be read says nothing about this one.
    expect((await run(of, db, 'sweep', 'contacts')).code).toBe(3);
    const ids = [...contacts.keys()].map(largeId);
    expect((await rows(db, live)).map(({ id }) => id)).toEqual(ids);
    contacts.set('c0010', whole);
    // Numbers keep their digits in columns and payloads, and where `sql` shows them.
    const digits = { amount: '12345678901234567890.10', more: '[1.10, 90071992547409931]' };
    const { amount, more } = digits;
    of.crm.deals.set('d1', {
      ...of.crm.deals.get('d1')!,
      ...({ amount: rawJson(amount), more: [rawJson('1.10'), rawJson('90071992547409931')] } as object),
    });
    expect((await run(of, db, 'sync')).code).toBe(0);
    expect((await json(of, db, ['verify', '--full'])).differences).toEqual([]);
    const shown = await run(
      of,
      db,
      'sql',
      `select id::bigint, amount, _payload -> 'more' as more from crm.deals where amount > 1e19`,
      '--csv',
    );
    expect(shown.stdout).toBe(`id,amount,more\n${largeId('d1')},${amount},"${more.replaceAll(' ', '')}"\n`);
  },
);
