/** The lake of several accounts: begun in parts by several workers, read by whom it may be, and changed while it is exported. */
import { rm } from 'node:fs/promises';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { exportLake } from '../../../jobs/export-lake.ts';
import { stageLake } from '../../../jobs/stage-lake.ts';
import { systemClock } from '../../../src/clock.ts';
import { openQueues } from '../../../src/engine/queue/queue.ts';
import type { Lake } from '../../../src/lake/package.ts';
import { runExport } from '../../../src/lake/run-export.ts';
import { stageAll } from '../../../src/lake/stage.ts';
import { alone, readLake } from '../../../src/lake/state.ts';
import { keepLake, type LakeDeps, workOnLake } from '../../../src/lake/work.ts';
import type { Finding } from '../../../src/ops/doctor/checks/check.ts';
import { lakeChecks } from '../../../src/ops/doctor/checks/lake.ts';
import type { DoctorContext } from '../../../src/ops/doctor/doctor-context.ts';
import { eraseCustomer } from '../../../src/privacy/erasures.ts';
import { lakeTables, streams } from '../../../src/sources/index.ts';
import { type InProcess, inProcess } from '../../../test/support/in-process.ts';
import { exportTo } from '../src/export.ts';
import { describeLongOnLake } from './support/lake.ts';
import { type LakeBeside, lakeBeside, personalTables, withoutViews } from './support/lake-beside.ts';

/** The same help desk under other names. */
async function copies(s: InProcess, accounts: readonly string[]): Promise<void> {
  for (const account of accounts) {
    await s.rows(
      `insert into sync.accounts select (jsonb_populate_record(a, jsonb_build_object('account_id', $1::text, 'queue', gen_random_uuid()))).* from sync.accounts a where account_id = 'default'`,
      account,
    );
    for (const table of [
      'helpdesk.users',
      'helpdesk.inboxes',
      'helpdesk.labels',
      'helpdesk.customers',
      'helpdesk.contacts',
      'helpdesk.tickets',
      'internal.messages',
      'helpdesk.attachments',
    ])
      await copy(s, table, account);
  }
}

async function copy(s: InProcess, table: string, account: string): Promise<void> {
  const [{ columns }] = (await s.rows(
    `select string_agg(quote_ident(attname), ', ') as columns from pg_attribute
     where attrelid = $1::regclass and attnum > 0 and attgenerated = '' and attname <> 'account_id'`,
    table,
  )) as [{ columns: string }];
  await s.rows(
    `insert into ${table} (account_id, ${columns}) select $1, ${columns} from ${table} where account_id = 'default'`,
    account,
  );
}

const depsOf = (s: InProcess, queues: LakeDeps['queues'], signal: AbortSignal): LakeDeps => ({
  ...{
    url: s.url,
    pg: s.pool,
    queues,
    tables: lakeTables,
    jobs: [exportLake, stageLake],
    clock: systemClock,
    signal,
  },
  reach: { extensions: process.env.LAKE_EXTENSIONS },
  log: pino({ level: 'silent' }),
});

/** The addresses, names and texts of the help desk that the files or the catalog have. */
async function personalTexts(s: InProcess, beside: LakeBeside): Promise<string[]> {
  const held = await beside.everything();
  const texts = await s.rows(
    `select value as text from helpdesk.contacts union select subject from helpdesk.tickets union select body from internal.messages
     union select first_name || ' ' || last_name from helpdesk.customers`,
  );
  return texts.map(({ text }) => String(text)).filter(text => text.length > 8 && held.includes(text));
}

await describeLongOnLake('the lake', () => {
  test('two workers begin the lake of 12 accounts together', async () => {
    await using s = await inProcess({ tickets: 8, seed: 3 });
    await s.sync();
    await copies(
      s,
      Array.from({ length: 11 }, (_, i) => `account ${i}`),
    );
    await using beside = await lakeBeside(s.url, { personal: false });
    await using queues = await openQueues({ redisUrl: undefined, databaseUrl: s.url });
    await using others = await openQueues({ redisUrl: undefined, databaseUrl: s.url });
    const { signal } = new AbortController();
    const state = (await readLake(s.pool))!;
    await using first = await workOnLake(depsOf(s, queues, signal), state, () => {});
    await using _second = await workOnLake(depsOf(s, others, signal), state, () => {});
    const done = await runExport(first.work);
    expect(done.inserted).toBeGreaterThan(12 * 8);
    expect(await s.rows('select count(*)::int as parts, count(done_at)::int as done from sync.lake_parts')).toEqual([
      { parts: 2, done: 2 },
    ]);
    expect(await beside.compare()).toEqual([]);
    expect((await beside.files()).filter(file => file.includes('staged'))).toEqual([]);
  });

  test('what commits while an export runs is not in it and pending afterwards, erasures too', async () => {
    await using s = await inProcess({ tickets: 20, seed: 3 });
    await s.sync();
    await using beside = await lakeBeside(s.url, { only: personalTables });
    await beside.export();
    const people = await s.rows(
      `select distinct on (k.customer_id) k.customer_id as id, k.value as text from helpdesk.contacts k
       where length(k.value) > 8 and exists (select from helpdesk.tickets t where t.customer_id = k.customer_id) order by 1, 2 limit 2`,
    );
    const erase = (customer: unknown) =>
      eraseCustomer(
        s.pool,
        { account: 'default', customer: String(customer), who: 'me', withShared: true, streams },
        new Date(s.nowMs),
      );
    const summary = (text: string) =>
      s.rows('update helpdesk.tickets set summary = $1 where id = (select max(id) from helpdesk.tickets)', text);
    await summary('before');
    const { lake } = beside;
    const busy: Lake = {
      ...lake,
      rows: sql => lake.rows(sql),
      run: async sql => {
        // The export has its snapshot, and the lake has read nothing yet.
        if (sql === 'begin') {
          await erase(people[0]!.id);
          await summary('meanwhile');
        }
        if (sql === 'commit') await summary('at the end');
        return lake.run(sql);
      },
    };
    await alone(s.url, client => {
      const query = client.query.bind(client) as (...asked: unknown[]) => Promise<unknown>;
      const between = async (...asked: unknown[]) => {
        // The files of what was erased are written, and the export has no snapshot yet.
        if (String(asked[0]).startsWith('begin isolation level repeatable read;')) await erase(people[1]!.id);
        return query(...asked);
      };
      const late = new Proxy(client, { get: (of, name) => (name === 'query' ? between : Reflect.get(of, name)) });
      return exportTo(
        withoutViews(busy),
        late,
        lakeTables.filter(({ name }) => personalTables.includes(name)),
      );
    });
    expect(
      await lake.rows(
        `select summary from lake.helpdesk.tickets where summary in ('before', 'meanwhile', 'at the end')`,
      ),
    ).toEqual([{ summary: 'before' }]);
    await beside.export();
    expect(await beside.compare()).toEqual([]);
    const held = await beside.everything();
    expect(people.filter(({ text }) => held.includes(String(text)))).toEqual([]);
  });

  /** Rounds of changes of single rows, each in a transaction of its own. No two of a round concern the same record. */
  const nth = (table: string, n: number, id = 'id') =>
    `${id} = (select distinct ${id} from ${table} order by 1 offset ${n} limit 1)`;
  const rounds = [
    [
      `update internal.messages set body = body || '.' where ${nth('internal.messages', 3)}`,
      `update helpdesk.tickets set created_at = created_at - interval '70 days' where ${nth('helpdesk.tickets', 0)}`,
      `update helpdesk.tickets set customer_id = 'nobody' where ${nth('helpdesk.tickets', 1)}`,
      `update internal.stored_ticket_metrics set reopen_count = 7 where ${nth('internal.stored_ticket_metrics', 2, 'ticket_id')}`,
      `update helpdesk.customers set summary = 'other' where ${nth('helpdesk.customers', 0)}`,
      `update helpdesk.users set first_name = 'other' where ${nth('helpdesk.users', 0)}`,
    ],
    [
      `delete from internal.messages where ${nth('internal.messages', 9)}`,
      `update helpdesk.tickets set created_at = created_at + interval '70 days' where ${nth('helpdesk.tickets', 0)}`,
      `update helpdesk.tickets set created_at = null where ${nth('helpdesk.tickets', 1)}`,
      `delete from helpdesk.contacts where ${nth('helpdesk.contacts', 0)}`,
      `insert into sync.rejects (account_id, stream, source, key, ask_id, reason, replayable, first_seen_at, last_seen_at)
       select 'default', 'messages', 'helpdesk', 'k', id, 'odd', false, now(), now() from helpdesk.tickets where ${nth('helpdesk.tickets', 4)}`,
      `update helpdesk.inboxes set name = 'other' where ${nth('helpdesk.inboxes', 0)}`,
    ],
    [
      `delete from helpdesk.tickets where ${nth('helpdesk.tickets', 1)}`,
      `update helpdesk.attachments set name = 'other' where ${nth('helpdesk.attachments', 0)}`,
      `update sync.rejects set cleared_at = now()`,
      `insert into sync.accounts (account_id) values ('another')`,
    ],
    // Business hours, which the metrics of tickets without stored ones follow at once.
    [
      `delete from internal.stored_ticket_metrics where ticket_id in (select id from helpdesk.tickets where state = 'closed')`,
      `insert into analytics.calendars (name, time_zone) values ('office', 'Europe/Berlin')`,
      `insert into internal.stored_calendar_assignments (account_id, inbox_id, calendar) values ('default', null, 'office')`,
      `insert into analytics.calendar_hours (calendar, weekday, opens, closes) select 'office', day, '00:00', '23:00' from generate_series(1, 7) day`,
    ],
    [`update analytics.calendar_hours set closes = '20:30'`],
    [
      `update sync.accounts set mirrored_since = '2000-01-01' where account_id = 'default'`,
      `delete from sync.accounts where account_id = 'another'`,
    ],
    // A migration, which may change what any view shows.
    [
      `insert into sync.migrations (name, run_on) values ('0999_test', now())`,
      `update analytics.metric_definitions set formula = 'other' where name = 'reopen_count'`,
      `comment on column analytics.fact_tickets.number is 'other'`,
      `alter table helpdesk.tickets disable trigger user`,
      `update helpdesk.tickets set summary = 'other'`,
      `alter table helpdesk.tickets enable trigger user`,
    ],
  ];
  test('every change of a single row arrives', async () => {
    await using s = await inProcess({ tickets: 20, seed: 3 });
    await s.sync();
    await using beside = await lakeBeside(s.url);
    await beside.export();
    for (const [round, changes] of rounds.entries()) {
      for (const change of changes) await s.rows(change);
      expect((await beside.export()).inserted).toBeGreaterThan(0);
      // Rounds of business hours change long tables.
      expect(await beside.compare(round >= 3), `round ${round}`).toEqual([]);
    }
  });

  test('the state of a masked lake, for people and for the doctor, from its first export to a failing one', async () => {
    await using s = await inProcess({ tickets: 8, seed: 3 });
    await s.sync();
    await using queues = await openQueues({ redisUrl: undefined, databaseUrl: s.url });
    const check = lakeChecks[0] as Extract<(typeof lakeChecks)[number], { of?: undefined }>;
    const doctor = async () => {
      const looked = await check.run({
        warehouse: async () => ({ pg: s.pool, url: s.url }),
        fleetIfAny: { lake: { schedule: '', extensions: process.env.LAKE_EXTENSIONS } },
        signal: new AbortController().signal,
      } as unknown as DoctorContext);
      return (looked as Finding).state;
    };
    const state = async () => (await s.rows('select state, pending::int from sync.lake_status'))[0];
    expect([await state(), await doctor()]).toEqual([undefined, 'skipped']);
    await using beside = await lakeBeside(s.url, { personal: false });
    expect([await state(), await doctor()]).toEqual([{ state: 'empty', pending: 0 }, 'warn']);
    let at = systemClock.now();
    const deps = { ...depsOf(s, queues, new AbortController().signal), clock: { ...systemClock, now: () => at } };
    {
      await using _kept = keepLake({ ...deps, clock: systemClock }, '* * * * * *');
      // It begins another export each second, and the last one does not end.
      await expect.poll(async () => (await state())?.state, { timeout: 60_000 }).toBe('current');
    }
    await using worker = await workOnLake(deps, (await readLake(s.pool))!, () => {});
    // It is tidied once a day.
    const tidied = async () =>
      ((await s.rows('select tidied_at as at from sync.lake'))[0]!.at as Date | null)?.getTime();
    const first = at;
    for (const [hours, expected] of [
      [10, undefined],
      [30, 30],
      [49, 30],
    ] as const) {
      at = first + hours * 3_600_000;
      await runExport(worker.work);
      expect(await tidied()).toBe(expected && first + expected * 3_600_000);
    }
    at = first;
    expect([await state(), await doctor()]).toEqual([{ state: 'current', pending: 0 }, 'ok']);
    expect(await personalTexts(s, beside)).toEqual([]);
    await s.rows(`update helpdesk.users set first_name = 'other' where id = (select min(id) from helpdesk.users)`);
    await s.rows(`update sync.lake_exports set moment = moment - interval '27 hours'`);
    expect([await state(), await doctor()]).toEqual([{ state: 'current', pending: 1 }, 'warn']);
    await rm(beside.place.path, { recursive: true });
    expect(await doctor()).toBe('fail');
    await s.rows(`drop schema lake cascade`);
    await expect(runExport(worker.work)).rejects.toThrow();
    expect([await state(), await doctor()]).toEqual([{ state: 'failing', pending: 1 }, 'fail']);
  });

  test('a part whose worker stops is taken by another one', async () => {
    await using s = await inProcess({ tickets: 8, seed: 3 });
    await s.sync();
    await using queues = await openQueues({ redisUrl: undefined, databaseUrl: s.url });
    await using _beside = await lakeBeside(s.url, { personal: false });
    await s.rows(`insert into sync.lake_exports (started_at, state) values (now(), 'running')`);
    const state = (await readLake(s.pool))!;
    await using queue = queues.open(state.queue);
    let taken = 0;
    const taking = queue.work(
      async () => {
        taken++;
        if (taken === 1) throw new Error('the worker stops');
        await s.rows(`update sync.lake_parts set done_at = now(), files = '1-' || part || '-second'`);
      },
      () => {},
    );
    try {
      const { signal } = new AbortController();
      const work = { url: s.url, pg: s.pool, state, place: { path: '/nowhere' }, tables: [], views: [], queue };
      const staged = await stageAll({ ...work, clock: systemClock, signal, show: () => {} }, 1, 'none', ['a', 'b']);
      expect(staged(lakeTables.find(({ name }) => name === 'safe.tickets')!)).toEqual([
        '/nowhere/staged-1-0-second-safe.tickets.parquet',
      ]);
      expect(taken).toBe(2);
    } finally {
      await taking.close(Promise.resolve());
    }
  });
});
