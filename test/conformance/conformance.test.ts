/**
 * What every source has to do, whatever it is: the help desk, the catalog, the CRM that the guide builds outside of the program, and
 * the billing service that it builds within. Each is asked by the commands that people run.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { long } from '../support/long.ts';
import { freshDatabase, type TestDatabase } from '../support/postgres.ts';
import { largeId, rawJson } from './crm-server.ts';
import {
  type BillingHarness,
  type CrmHarness,
  type Harness,
  openBilling,
  openBooks,
  openCrm,
  openHelpdesk,
} from './harness.ts';
import { crmProgram, House, type Json } from './house.ts';
import { blocks, guide, type Program, programOf, root } from './tree.ts';

/** Everything that a source has to do, as one story. */
function conforms(programFor: () => Program, open: () => Promise<Harness>): void {
  let of: Harness;
  let db: TestDatabase;
  let s: House;
  beforeAll(async () => {
    of = await open();
    db = await freshDatabase();
    s = new House(programFor(), db, of.env);
  });
  afterAll(async () => {
    await of?.[Symbol.asyncDispose]();
    await db?.drop();
  });

  test('a first load that breaks off, and is killed, is completed by the next one; then a sync changes nothing', async () => {
    of.breakAfter(1);
    const first = s.run('sync');
    await expect.poll(() => of.requests(), { timeout: 60_000, interval: 5 }).toBeGreaterThan(1);
    s.program.kill();
    await first;
    of.breakAfter(undefined);
    of.change();
    await s.sync();
    expect(await of.differences(db.pool)).toEqual([]);
    // The plan says what it takes, and no zero where that is not known.
    const planned = await s.json(['plan']);
    const before = of.requests();
    const again = await s.json(['sync']);
    const made = of.requests() - before;
    const isRight = planned.incomplete ? planned.requests >= 0 : Math.abs(planned.requests - made) <= 2;
    expect(isRight, `${made} made instead of ${planned.requests}`).toBe(true);
    expect(again.streams.map((one: Json) => [one.inserted, one.updated, one.deleted])).toEqual(
      again.streams.map(() => [0, 0, 0]),
    );
  });

  test('a sync brings changes, and a sweep deletions; verify names a silent change, and repairs it', async () => {
    of.change();
    await s.sync();
    expect(await of.differences(db.pool)).toEqual([]);
    const { table, id } = of.remove();
    await s.nextSecond();
    await s.run('sync');
    await s.run('sweep');
    const found = await s.rows(`select _deleted_at is not null as gone from ${table} where id = $1`, id);
    expect(found.some(({ gone }) => gone)).toBe(true);
    const silent = of.changeSilently('Silent');
    const verified = await s.json(['verify', '--full'], [5]);
    const differing = verified.differences.map((one: Json) => one.record);
    expect(differing).toContain(silent);
    expect(differing).not.toContain(id);
    expect(verified.forecast.credits).toBeGreaterThan(0);
    await s.json(['verify', '--full', '--repair'], [0, 5]);
    expect((await s.json(['verify', '--full'])).differences).toEqual([]);
    expect(await of.differences(db.pool)).toEqual([]);
  });

  test('a worker finds a silent change by its audit, and repairs it, if a record can be asked for by its id', async () => {
    if (of.audit === undefined) {
      const { stderr } = await s.ends([2], 'verify', '--sample', '9');
      expect(stderr).toContain('reads a record by its id');
      return;
    }
    const { setting, finds } = of.audit;
    of.changeSilently('Silent again');
    const env = { ...of.env, [setting]: '1000', SCHEDULE_FRESH: '', SCHEDULE_NIGHTLY: '' };
    const worker = new House(s.program, db, env);
    const running = worker.run('start');
    const repaired = async () => {
      const rows =
        await s.rows(`select distinct a.stream_key as stream from sync.audit a join sync.runs r on r.id = a.run_id
        where r.kind = 'audit' and a.random and a.repaired_at is not null order by 1`);
      return rows.map(({ stream }) => stream);
    };
    await expect.poll(repaired, { timeout: 120_000, interval: 200 }).toEqual(finds);
    s.program.kill();
    await running;
    // What a repair leaves waiting is read. A list by creation, whose records have no request of their own, shows an edit with a sweep.
    await s.sync();
    await s.run('sweep');
    expect(await of.differences(db.pool)).toEqual([]);
    const confidence = `select stream_key from sync.audit_confidence where differed > 0 and field = ''`;
    const told = (await s.rows(confidence)).map(({ stream_key }) => stream_key);
    expect(told).toEqual(expect.arrayContaining([...finds]));
    expect((await s.run('status')).stderr).toContain('re-read records differed');
  });

  test('status and doctor name its streams, and nothing of it is a failure', async () => {
    const { streams } = await s.json(['status']);
    expect(streams.map((one: Json) => one.stream)).toContain(of.stream);
    expect(streams.map((one: Json) => one.complete_through)).not.toContain(null);
    const doctor = await s.run('doctor', '--json');
    expect(JSON.parse(doctor.stdout).results.filter((one: Json) => one.state === 'fail')).toEqual([]);
  });
}

describe('sources of this program', long, () => {
  const program = programOf({ folder: root, [Symbol.dispose]: () => {} });
  afterAll(() => program[Symbol.dispose]());
  describe('the help desk', () => conforms(() => program, openHelpdesk));
  describe('the catalog', () => conforms(() => program, openBooks));
});

describe('the CRM of the guide', () => {
  const program = crmProgram('guide');
  describe('conforms', long, () => conforms(program, openCrm));

  let of: CrmHarness;
  let db: TestDatabase;
  let s: House;
  beforeAll(async () => {
    of = await openCrm();
    db = await freshDatabase();
    s = new House(program(), db, of.env);
  });
  afterAll(async () => {
    await of?.[Symbol.asyncDispose]();
    await db?.drop();
  });

  test('status shows its streams before its first sync', async () => {
    const { streams } = await s.json(['status']);
    expect(streams.map((one: Json) => [one.source, one.stream, one.state])).toEqual([
      ['crm', 'contacts', 'never_synced'],
      ['crm', 'deals', 'never_synced'],
    ]);
    const { stdout, stderr } = await s.run('status');
    expect([stdout, stderr]).toEqual([
      expect.stringContaining('contacts  never synced'),
      expect.stringContaining('Nothing has been read yet'),
    ]);
  });

  test('its commands run as the guide shows them, on a database that is in use', async () => {
    const [, shown = ''] = /## 6\. Mirror it\n\n```sh\n([\s\S]*?)```/.exec(guide) ?? [];
    const commands = shown.trim().split('\n');
    expect(commands).toHaveLength(7);
    for (const line of commands) {
      const [, ...args] = line.replace(/^npx /, '').match(/"[^"]*"|\S+/g)!;
      await s.ends([0], ...args.map(arg => arg.replaceAll('"', '')));
    }
  });

  test('each source takes one file of 100 lines at most, and one line', () => {
    const files = blocks.filter(({ language }) => language === 'ts');
    expect(files.map(({ file }) => file)).toEqual(['sources/crm.ts', 'src/sources/billing/billing.ts']);
    for (const { text } of files) expect(text.split('\n').length - 1).toBeLessThanOrEqual(100);
    const lines = blocks.filter(({ language }) => language !== 'ts');
    expect(lines.map(({ file }) => file)).toEqual(['.env', 'src/sources/index.ts']);
  });

  test('a malformed record is rejected and stops nothing; unknown fields and values are drift', async () => {
    const { contacts, deals } = of.crm;
    const whole = contacts.get('c0010')!;
    contacts.set('c0010', { ...whole, updated_at: 'yesterday' });
    const [dated, undated] = [deals.get('d2')!, deals.get('d3')!];
    deals.set('d2', { ...dated, ...({ closes_on: '2026-02-28' } as object) });
    deals.set('d3', { ...undated, ...({ closes_on: '2026-02-29' } as object) });
    deals.set('d1', { ...deals.get('d1')!, stage: 'dreaming', ...({ colour: 'red' } as object) });
    const partial = await s.json(['sync'], [3]);
    expect(partial.streams.map((one: Json) => [one.stream, one.rejected])).toEqual([
      ['contacts', 1],
      ['deals', 1],
    ]);
    expect(
      await s.rows('select source, stream, record_id from sync.rejects where cleared_at is null order by stream'),
    ).toEqual([
      { source: 'crm', stream: 'contacts', record_id: 'c0010' },
      { source: 'crm', stream: 'deals', record_id: 'd3' },
    ]);
    expect(await s.rows('select closes_on::text from crm.deals where closes_on is not null')).toEqual([
      { closes_on: '2026-02-28' },
    ]);
    deals.set('d3', undated);
    expect(
      await s.rows(`select kind, path, value from sync.drift where source = 'crm' and stream = 'deals' order by kind`),
    ).toEqual([
      { kind: 'unknown_field', path: 'colour', value: '' },
      { kind: 'unknown_value', path: 'stage', value: 'dreaming' },
      { kind: 'wrong_type', path: 'closes_on', value: '' },
    ]);
    contacts.set('c0010', whole);
    await s.sync();
    expect(await s.rows('select from sync.rejects where cleared_at is null')).toEqual([]);
  });

  test('a limit of an hour defers the run, and says until when', async () => {
    of.crm.limit = of.crm.asked.length + 1;
    const limited = await s.json(['sync'], [3]);
    expect(limited.streams[0].error).toMatch(/^the CRM asked for a pause; reading resumes at /);
    of.crm.limit = Number.POSITIVE_INFINITY;
    // A person asks again: one request is let through, and the source answers.
    await s.sync();
    expect(await of.differences(db.pool)).toEqual([]);
  });

  test('too many deletions at once are not believed before a person is', async () => {
    const { contacts } = of.crm;
    for (const id of [...contacts.keys()].slice(0, 100)) contacts.delete(id);
    await s.nextSecond();
    const partial = await s.json(['sync', 'contacts'], [3]);
    expect(partial.streams[0].error).toContain('100 of 230 contacts seem to have been deleted');
    // There is no gap to be seen.
    expect(partial.streams[0].remedy).not.toContain('sync.gaps');
    expect(await s.rows('select from crm.contacts where _deleted_at is not null')).toEqual([]);
    await s.ends([0], 'sweep', 'contacts', '--accept-deletions');
    expect(await of.differences(db.pool)).toEqual([]);
  });
});

describe('the billing service of the guide', long, () => {
  const program = crmProgram('guide');
  describe('conforms', () => conforms(program, openBilling));

  let of: BillingHarness;
  let db: TestDatabase;
  let s: House;
  beforeAll(async () => {
    of = await openBilling();
    db = await freshDatabase();
    s = new House(program(), db, of.env);
  });
  afterAll(async () => {
    await of?.[Symbol.asyncDispose]();
    await db?.drop();
  });

  test('pages that are shorter than what is asked for lose nothing; no more is asked for then', async () => {
    await s.sync();
    expect(await of.differences(db.pool)).toEqual([]);
    of.change();
    of.billing.asked.length = 0;
    await s.sync();
    expect(await of.differences(db.pool)).toEqual([]);
    const limits = of.billing.asked
      .filter(({ pathname }) => pathname === '/invoices')
      .map(url => url.searchParams.get('limit'));
    expect(new Set(limits)).toEqual(new Set(['50']));
    // 70 clients, 121 invoices and 201 payments fill 10 of these pages, and each invoice has comments. The end of a list, and ties, take
    // further ones.
    of.billing.asked.length = 0;
    expect((await s.json(['verify', '--full'])).forecast.credits).toBe(10 + of.billing.invoices.size);
    expect(of.billing.asked.length).toBeGreaterThanOrEqual(10 + of.billing.invoices.size);
    expect(of.billing.asked.filter(url => /Infinity|NaN/.test(url.search))).toEqual([]);
    expect((await s.run('sweep')).stderr).toContain('about 10 credits');
  });

  test('a list by creation loses nothing to payments that go away while it is read, and a sweep brings refunds', async () => {
    await using db = await freshDatabase();
    const s = new House(program(), db, of.env);
    const { payments } = of.billing;
    const before = structuredClone([...payments]);
    let asked = 0;
    of.billing.before = ({ pathname }) => {
      const [first] = payments.keys();
      if (pathname === '/payments' && asked++ < 4) payments.delete(first!);
      return undefined;
    };
    await s.sync();
    of.billing.before = () => undefined;
    const missing = async () => {
      const here = await s.rows('select id from billing.payments where _deleted_at is null');
      const ids = new Set(here.map(({ id }) => id));
      return [...payments.keys()].filter(id => !ids.has(id));
    };
    expect(await missing()).toEqual([]);
    const [known] = payments.keys();
    payments.get(known!)!.status = 'refunded';
    await s.nextSecond();
    await s.sync();
    const refunded = () => s.rows(`select id from billing.payments where status = 'refunded'`);
    expect(await refunded()).toEqual([]);
    await s.ends([0], 'sweep', 'payments');
    expect(await refunded()).toEqual([{ id: known }]);
    expect(await of.differences(db.pool)).toEqual([]);
    for (const [id, payment] of before) payments.set(id, payment);
  });

  test('a mirror that begins later has what changed since then, also after a sweep and for verify', async () => {
    await using db = await freshDatabase();
    const times = [...of.billing.invoices.values()].map(({ updatedAt }) => updatedAt).sort();
    const since = times[60]!;
    const s = new House(program(), db, { ...of.env, BILLING_SINCE: since });
    const stored = async () =>
      (await s.rows('select count(*) as n from billing.invoices where _deleted_at is null'))[0].n;
    // A reading begins one second earlier, because the filter may leave out its own second.
    const earlier = new Date(Date.parse(since) - 1000).toISOString();
    const wanted = times.filter(time => time >= earlier).length;
    await s.sync();
    expect(await stored()).toBe(wanted);
    await s.ends([0], 'sweep');
    expect(await stored()).toBe(wanted);
    expect((await s.json(['verify', '--full'])).differences).toEqual([]);
    const checked = async () => {
      const { streams } = await s.json(['status']);
      return streams.find(({ stream }: Json) => stream === 'invoices').deletes_checked_at;
    };
    const before = await checked();
    expect(before).not.toBeNull();
    await s.nextSecond();
    // A mirror that begins later than its rows sweeps some of them only.
    await new House(program(), db, { ...of.env, BILLING_SINCE: times[90]! }).ends([0], 'sweep', 'invoices');
    expect(await checked()).toBe(before);
  });

  test('a feed buries records with their parts, and goes on behind its last event', async () => {
    const [one, other] = [...of.billing.invoices.keys()];
    const [client] = of.billing.clients.keys();
    await s.nextSecond();
    of.billing.delete('invoice', one!);
    of.billing.delete('client', client!);
    await s.sync();
    expect(await of.differences(db.pool)).toEqual([]);
    of.billing.delete('invoice', other!);
    of.billing.asked.length = 0;
    await s.ends([0], 'sync', 'deletions');
    expect(await of.differences(db.pool)).toEqual([]);
    const asked = of.billing.asked.map(url => url.search);
    expect(asked).toEqual([expect.stringContaining('limit=')]);
    expect(await s.rows('select count(*) as n from billing.deletions')).toEqual([{ n: 3 }]);
    // The runs of each minute, here of each second.
    const worker = new House(program(), db, { ...of.env, SCHEDULE_FRESH: '* * * * * *', SCHEDULE_NIGHTLY: '' });
    const running = worker.run('start');
    const [third] = of.billing.invoices.keys();
    of.billing.delete('invoice', third!);
    const buried = `select r.kind from sync.run_streams s join sync.runs r on r.id = s.run_id
      where s.stream = 'deletions' and s.deleted > 0 order by r.id desc limit 1`;
    await expect.poll(() => s.rows(buried), { timeout: 60_000, interval: 100 }).toEqual([{ kind: 'fresh' }]);
    s.program.kill();
    await running;
    expect(await of.differences(db.pool)).toEqual([]);
  });

  test('a deletion that is dated ahead does not bury what is changed after it was heard of', async () => {
    const { invoices } = of.billing;
    const third = [...invoices.keys()][2]!;
    const kept = invoices.get(third)!;
    of.billing.delete('invoice', third, '2091-01-01T00:00:00Z');
    await s.sync();
    expect(await of.differences(db.pool)).toEqual([]);
    for (let seconds = 0; seconds < 4; seconds++) await s.nextSecond();
    invoices.set(third, { ...kept, status: 'paid', updatedAt: new Date().toISOString() });
    await s.sync();
    expect(await of.differences(db.pool)).toEqual([]);
  });

  test('readers without the right to personal data see hashes, also of parts; an erasure clears what has the address', async () => {
    const [row] = await s.rows(
      `select bool_and(c.name ~ '^[0-9a-f]{64}$' and c.email ~ '^[0-9a-f]{64}$') as clients, (select bool_and(note ~ '^[0-9a-f]{64}$') from safe.billing_invoices) as notes,
         (select count(*) > 0 from safe.billing_lines) as lines from safe.billing_clients c`,
    );
    expect(row).toEqual({ clients: true, notes: true, lines: true });
    const [written] = await s.rows(
      `select bool_and(author ~ '^[0-9a-f]{64}$' and text ~ '^[0-9a-f]{64}$') as hashed from safe.billing_comments`,
    );
    expect(written).toEqual({ hashed: true });
    await s.ends([0], 'erase', '--contact', 'author2@example.org', '--yes');
    const theirs = () =>
      s.rows(
        'select count(*) filter (where text is null)::int as erased, count(text)::int > 20 as others from billing.comments',
      );
    const comments = [...of.billing.comments.values()].flat().filter(({ author }) => author === 'author2@example.org');
    expect(await theirs()).toEqual([{ erased: comments.length, others: true }]);
    // Each is read again, and none of it comes back.
    await s.ends([0], 'backfill', 'comments', '--again');
    expect(await theirs()).toEqual([{ erased: comments.length, others: true }]);
    await s.ends([0], 'erase', '--contact', 'client7@example.org', '--yes');
    expect(await s.rows(`select name from billing.clients where email is null and _deleted_at is null`)).toEqual([
      { name: null },
    ]);
    await s.sync();
    expect(await s.rows(`select count(*) as n from billing.clients t where t::text like '%client7@%'`)).toEqual([
      { n: 0 },
    ]);
  });

  test('the dictionary, the diagram and the guide for agents have its tables', async () => {
    await s.ends([0], 'migrate');
    const dictionary = (await s.ends([0], 'schema', 'dictionary')).stdout;
    for (const name of ['billing.invoices', 'billing.lines', 'safe.billing_clients'])
      expect(dictionary).toContain(`### ${name}`);
    expect(dictionary).toContain('The client; joins [billing.clients](#billingclients).id.');
    const { stdout } = await s.ends([0], 'schema', 'erd');
    expect(stdout).toContain('billing_clients |o--o{ billing_invoices : "client_id"');
    expect(stdout).toContain('billing_invoices |o--o{ billing_lines : "invoice_id"');
    await s.ends([0], 'schema', 'dbt');
    const documented = `select column_name from analytics.data_dictionary where relation = 'invoices' and schema = 'billing' and comment is null`;
    expect(await s.rows(documented)).toEqual([]);
  });

  test('field rules follow numbers as ids, and parts', async () => {
    s = new House(program(), db, {
      ...of.env,
      FIELD_RULES: 'billing.clients.name,billing.lines.text,billing.comments.text,billing.comments.author:hash',
      FIELD_RULES_KEY: 'a-key-of-sixteen-letters',
    });
    await s.ends([0], 'fields', 'apply');
    of.change();
    await s.ends([0], 'sync');
    const [row] = await s.rows(
      `select (select count(*) from billing.clients where _deleted_at is null and name is null and id::numeric > 2^53) as clients,
         (select count(*) from billing.lines where text is not null) as texts,
         (select count(text) from billing.comments) as comments, (select bool_and(author like 'h:%') from billing.comments) as authors`,
    );
    expect(row).toEqual({ clients: of.billing.clients.size, texts: 0, comments: 0, authors: true });
  });

  test('a day without quota defers the run', async () => {
    of.billing.left = 2;
    const limited = await s.json(['sync'], [3]);
    expect(limited.streams.map((one: Json) => one.error).find(Boolean)).toMatch(/reading resumes at /);
    of.billing.left = Number.POSITIVE_INFINITY;
  });
});

describe('deletions that a list cannot show', long, () => {
  const program = crmProgram('absences');

  test('are never assumed; plan, doctor and sweep say so', async () => {
    await using of = await openCrm();
    await using db = await freshDatabase();
    const s = new House(program(), db, of.env);
    await s.sync();
    of.remove();
    await s.sync();
    expect(await s.rows('select from crm.contacts where _deleted_at is not null')).toEqual([]);
    const sentence = 'Deletions of crm.contacts are not known: the list leaves out archived contacts.';
    expect((await s.run('plan')).stderr).toContain(sentence);
    expect((await s.json(['plan'])).limitations).toEqual([sentence]);
    expect((await s.run('doctor', '--all')).stdout).toContain(sentence.slice(0, -1));
    const swept = await s.ends([2], 'sweep', 'contacts');
    expect(swept.stderr).toContain('contacts cannot be swept: the list leaves out archived contacts');
    expect(await s.rows(`select deletions from sync.streams where stream_key = 'crm.contacts'`)).toEqual([
      { deletions: 'the list leaves out archived contacts' },
    ]);
  });
});

describe('a third source with streams of the same names', long, () => {
  const program = crmProgram('names');

  test('field rules know the source of a record', async () => {
    await using crm = await openCrm();
    await using desk = await openHelpdesk();
    await using books = await openBooks();
    await using db = await freshDatabase();
    const under = (FIELD_RULES: string) =>
      new House(program(), db, {
        ...{ ...crm.env, ...desk.env, ...books.env },
        ...{ FIELD_RULES, FIELD_RULES_KEY: 'a-key-of-sixteen-letters' },
      });
    const refused = await under('contacts.value:hash').ends([2], 'sync');
    expect(refused.stderr).toContain('may mean helpdesk.contacts.value:hash or crm.contacts.value:hash');
    const some =
      'helpdesk.contacts.value:hash,helpdesk.customers.last_name,crm.customers.title,crm.contacts.email:hash';
    const s = under(`${some},volumes.volumeInfo.title`);
    await s.sync();
    const seen = () =>
      s.rows(
        `select (select bool_and(value ~ '^h:[0-9a-f]{32}$') from helpdesk.contacts) as desk_values,
           (select count(last_name) = 0 and count(first_name) > 0 from helpdesk.customers) as desk_names,
           (select bool_and(email ~ '^h:[0-9a-f]{32}$') and count(name) > 200 from crm.contacts) as crm_contacts,
           (select count(title) = 0 and count(stage) = 40 from crm.customers) as crm_customers,
           (select count(title) = 0 and count(*) > 0 from books.volumes) as volumes`,
      );
    const followed = [{ desk_values: true, desk_names: true, crm_contacts: true, crm_customers: true, volumes: true }];
    expect(await seen()).toEqual(followed);
    const listed = await s.json(['fields']);
    expect(listed.map((one: Json) => one.rule)).toEqual([...some.split(','), 'volumes.volumeInfo.title'].sort());
    crm.change();
    await s.ends([0], 'fields', 'apply');
    await s.sync();
    expect(await seen()).toEqual(followed);
  });

  test('a stream is shown with its source where another source has one of that name', async () => {
    await using crm = await openCrm();
    await using desk = await openHelpdesk();
    await using db = await freshDatabase();
    const s = new House(program(), db, { ...crm.env, ...desk.env });
    const both = ['helpdesk.customers', 'crm.customers'];
    const synced = await s.sync();
    for (const name of ['tickets', ...both]) expect(synced.stderr).toContain(`✓ ${name.padEnd(10)} `);
    // The progress of each is its own.
    expect(synced.stderr).toMatch(/✓ helpdesk\.customers 20 read/);
    expect(synced.stderr).toMatch(/✓ crm\.customers 40 read/);
    const { run, streams } = await s.json(['sync']);
    const shown: string[] = streams.map((one: Json) => one.stream);
    expect(shown).toEqual(expect.arrayContaining(['tickets', 'contacts', ...both]));
    expect(Object.keys((await s.json(['plan'])).streams)).toEqual(expect.arrayContaining(shown));
    for (const args of [['status'], ['status', '--wide'], ['runs', 'show', String(run)], ['schedule', '--json']])
      for (const name of both) expect((await s.run(...args)).stdout, args.join(' ')).toMatch(name);
    const paused = await s.run('pause', 'crm.customers');
    expect(paused.stdout).toContain('crm.customers');
    expect((await s.run('sync')).stderr).toContain('Skipped because paused: crm.customers.');
    expect((await s.run('status')).stderr).toContain('Run `npx shelfdesk resume crm.customers`.');
    await s.ends([0], 'resume', 'crm.customers');
  });
});

describe('offsets, numbers as ids, a key in a header, refusals of another kind, and records by id', long, () => {
  const program = crmProgram('other');
  let of: CrmHarness;
  let db: TestDatabase;
  let s: House;
  beforeAll(async () => {
    of = await openCrm({ other: true });
    db = await freshDatabase();
    s = new House(program(), db, of.env);
  });
  afterAll(async () => {
    await of?.[Symbol.asyncDispose]();
    await db?.drop();
  });

  test('a record that moves up while its list is read is not lost, and one that cannot be read says nothing of others', async () => {
    const { contacts } = of.crm;
    of.crm.limit = 2;
    await s.sync();
    let pages = 0;
    of.crm.before = () => {
      if (++pages === 2) contacts.delete('c0001');
      return undefined;
    };
    const whole = contacts.get('c0010')!;
    contacts.set('c0010', { ...whole, updated_at: 'yesterday' });
    await s.ends([3], 'sync');
    expect(await s.rows('select record_id from sync.rejects where cleared_at is null')).toEqual([
      { record_id: largeId('c0010') },
    ]);
    await s.ends([3], 'sweep', 'contacts');
    const live = await s.rows('select id from crm.contacts where _deleted_at is null order by id::numeric');
    expect(live.map(({ id }) => id)).toEqual([...contacts.keys()].map(largeId));
    contacts.set('c0010', whole);
    await s.sync();
  });

  test('numbers keep their digits in columns and payloads, and where `sql` shows them', async () => {
    const digits = { amount: `${'1234567890'.repeat(5)}.10`, more: '[1.10, 90071992547409931]' };
    const { amount, more } = digits;
    of.crm.deals.set('d1', {
      ...of.crm.deals.get('d1')!,
      ...({ amount: rawJson(amount), more: [rawJson('1.10'), rawJson('90071992547409931')] } as object),
    });
    await s.sync();
    expect((await s.json(['verify', '--full'])).differences).toEqual([]);
    const shown = await s.run(
      'sql',
      `select id::bigint, amount, _payload -> 'more' as more from crm.deals where amount > 1e19`,
      '--csv',
    );
    expect(shown.stdout).toBe(`id,amount,more\n${largeId('d1')},${amount},"${more.replaceAll(' ', '')}"\n`);
  });

  test('only a 404 is a deletion, and a sample can be compared', async () => {
    const { contacts, hidden } = of.crm;
    const deleted = `select id from crm.contacts where _deleted_at is not null and id <> '${largeId('c0001')}'`;
    hidden.set('c0020', contacts.get('c0020')!);
    for (const id of ['c0020', 'c0021']) contacts.delete(id);
    await s.sync();
    expect(await s.rows(deleted)).toEqual([]);
    await s.ends([0], 'sweep', 'contacts');
    expect(await s.rows(deleted)).toEqual([{ id: largeId('c0021') }]);
    expect((await s.json(['verify', '--sample', '20'])).differences).toEqual([]);
    const sampled = `select count(*) as n from sync.audit where stream_key = 'crm.contacts' and random`;
    expect(await s.rows(sampled)).toEqual([{ n: 20 }]);
  });
});
