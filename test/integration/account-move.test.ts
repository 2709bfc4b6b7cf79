/** `account move --to postgres://…`: an account goes from one real database to another. */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { progressOf } from '../../src/cli/setup/move-warehouse.ts';
import { systemClock } from '../../src/clock.ts';
import { migrate, ownSql } from '../../src/engine/database/migrate.ts';
import type { Mirror } from '../../src/engine/database/mirrors.ts';
import { changeWarehouse, type Move, type Place } from '../../src/engine/runs/accounts/change-warehouse.ts';
import { id, record } from '../../src/sources/record/record.ts';
import { fullRefresh } from '../../src/sources/service/declared.ts';
import { defineService } from '../../src/sources/service/service.ts';
import { shelfdesk } from '../support/cli.ts';
import { type Fleet, openFleet } from '../support/fleet.ts';
import { ran } from '../support/here.ts';
import { long } from '../support/long.ts';
import { differences, noSandboxLimits } from '../support/mirror.ts';
import { emptyDatabase, freshDatabase, type TestDatabase } from '../support/postgres.ts';
import { bePresent } from '../support/present.ts';
import { aName } from '../support/readers.ts';
import { accountTables, beginningOf, dump, fillTables, sequencesOf, spreadNumbers } from '../support/whole-account.ts';

/** Of the warehouse, not of the account. */
const stays = ['sync.workers', 'sync.lake_pending', 'sync.moves'];
const unlimited = {
  HELPDESK_CREDITS: String(noSandboxLimits.credits),
  HELPDESK_REQUESTS_PER_SECOND: String(noSandboxLimits.requestsPerSecond),
};

const manyAccounts = readFileSync(new URL('../../docs/how-to/many-accounts.md', import.meta.url), 'utf8');

const stack = new AsyncDisposableStack();
afterAll(() => stack.disposeAsync());
let fleet: Fleet;
let [a, b]: TestDatabase[] = [];
const run = (db: TestDatabase, ...args: string[]) => ran(args, { ...fleet.env, DATABASE_URL: db.url }, fleet.folder);
const rows = async (db: TestDatabase, sql: string, ...values: unknown[]) => (await db.pool.query(sql, values)).rows;

beforeAll(async () => {
  [a, b] = [stack.use(await freshDatabase()), stack.use(await freshDatabase())];
  fleet = await openFleet(stack, ['ada', 'ben', 'cem'], {
    env: {},
    world: name => ({ ...noSandboxLimits, tickets: 40, seed: name.charCodeAt(0) }),
    settings: () => unlimited,
  });
  await spreadNumbers(a!.pool);
  // Databases of tests are copies of one, keys included.
  await b!.pool.query(`update sync.secret_erasure set inner_key = sha256(inner_key) || sha256(outer_key)`);
  for (const [db, name] of [
    [a, 'ada'],
    [a, 'ben'],
    [b, 'cem'],
  ] as const)
    expect(await run(db!, '--account', name, 'sync')).toMatchObject({ code: 0 });
}, 120_000);

const placeOf = (db: TestDatabase): Place => ({ url: db.url, pg: db.pool, name: new URL(db.url).pathname });

const move = (account = 'ada', [from, to] = [a!, b!]): Move => ({
  account,
  who: 'test',
  from: placeOf(from!),
  to: placeOf(to!),
});
const watching = (told: (table: string, rows: number | null) => void = () => {}) => ({
  signal: new AbortController().signal,
  told,
  time: () => new Date(),
});
const movesOf = (db: TestDatabase, account: string) =>
  rows(db, 'select state from sync.moves where account_id = $1', account);

test('what cannot move is refused with the reason, and nothing is changed', async () => {
  await using empty = await emptyDatabase();
  const refused = async (db: TestDatabase, account: string, says: RegExp, ...more: string[]) => {
    const { code, stderr } = await run(a!, 'account', 'move', account, '--to', db.url, '--yes', ...more);
    expect([code !== 0, stderr]).toEqual([true, expect.stringMatching(says)]);
  };
  await refused(b!, 'dan', /there is no account 'dan'/);
  await refused(a!, 'ada', /--to names this warehouse itself/);
  await refused(empty, 'ada', /the tables of \S+ are of another Shelfdesk: 0001_tables/);
  await rows(b!, `insert into sync.migrations (name, run_on) values ('9999_later', now())`);
  await refused(b!, 'ada', /of another Shelfdesk: 9999_later/);
  await rows(b!, `delete from sync.migrations where name = '9999_later'`);
  await rows(
    b!,
    `insert into sync.drift (account_id, source, stream, kind, path, seen, first_seen_at, last_seen_at)
    values ('ada', 'helpdesk', 'tickets', 'k', 'p', 1, now(), now())`,
  );
  await refused(b!, 'ada', /has rows of an account 'ada' already, in sync\.drift/);
  await rows(b!, `delete from sync.drift where account_id = 'ada'`);
  await rows(
    a!,
    'create schema shop; create table shop.orders (account_id text, id text); insert into shop.orders values ($1)'.replace(
      '$1',
      `'ada'`,
    ),
  );
  await rows(a!, `insert into sync.streams (source, stream, place, one_reader) values ('shop', 'orders', 99, false)`);
  await refused(b!, 'ada', /shop\.orders has rows of account 'ada', and \S+ has no such table[\s\S]*SHELFDESK_SOURCES/);
  await rows(a!, `delete from sync.streams where source = 'shop'; drop schema shop cascade`);
  {
    const worker = { account: 'ada', works: true, host: 'here', pid: 1, version: '1' };
    await using _ = await bePresent(a!.url, worker, systemClock);
    await refused(b!, 'ada', /is not moved: process \d+ on \S+ serves it[\s\S]*take the account out of its settings/);
  }
  const elsewhere = Object.assign(new URL(b!.url), { pathname: '/nowhere' }).href;
  const away = await run(a!, 'account', 'move', 'ada', '--to', elsewhere, '--yes');
  expect([away.code, away.stderr]).toEqual([1, expect.stringContaining('name another one in --to')]);
  const role = aName('eve');
  await rows(a!, `create role ${role} login password 'eve'`);
  try {
    const theirs = Object.assign(new URL(a!.url), { username: role, password: 'eve' }).href;
    const asRole = { ...move(), from: { ...placeOf(a!), url: theirs } };
    await expect(changeWarehouse(asRole, watching())).rejects.toMatchObject({
      message: expect.stringContaining('this role may not move accounts'),
      remedy: expect.stringMatching(/in both warehouses\. Nothing was moved\.$/),
    });
    const there = Object.assign(new URL(b!.url), { username: role, password: 'eve' }).href;
    const owner = `in \\S+ the tables belong to \\S+, and this session is ${role}[\\s\\S]*grant \\S+ to ${role}\``;
    const { code, stderr } = await run(a!, 'account', 'move', 'ada', '--to', there, '--yes');
    expect([code, stderr]).toEqual([1, expect.stringMatching(owner)]);
  } finally {
    await rows(a!, `drop role ${role}`);
  }
  const { code, stderr } = await run(a!, 'account', 'move', 'ada', '--to', b!.url);
  expect([code, stderr]).toEqual([2, expect.stringContaining('Add --yes')]);
  expect(await run(a!, 'account', 'move', 'ada')).toMatchObject({ code: 2 });
  for (const db of [a!, b!]) expect(await rows(db, 'select from sync.moves')).toEqual([]);
  expect(await rows(a!, `select from pg_trigger where tgfoid = 'sync.refuse_moved'::regproc`)).toEqual([]);
});

test('the progress of a move that resumes counts what had come before, and not for its rate', () => {
  let ms = 0;
  const [begun, resumed] = [progressOf(10_000, 0, () => ms), progressOf(10_000, 5000, () => ms)];
  expect(begun('a.a', 0)).toBe('0 of 10,000 rows: a.a');
  ms = 2000;
  expect(begun('a.a', 1000)).toBe('1,000 of 10,000 rows, 500 a second, 18 s left: a.a');
  expect(resumed('a.a', 1000)).toBe('6,000 of 10,000 rows, 500 a second, 8 s left: a.a');
  expect(resumed('a.a', null)).toBe('a.a is compared');
});

describe('a whole account', () => {
  let before: Awaited<ReturnType<typeof dump>>;
  beforeAll(async () => {
    const calendar = ['warehouse', 'calendar'];
    const set = [...calendar, 'set', 'office', '--time-zone', 'Europe/Berlin', '--hours', 'mon-fri 09:00-18:00'];
    for (const args of [
      set,
      ['--account', 'ada', ...calendar, 'assign', 'office'],
      ['--account', 'ada', 'verify', '--sample', '3'],
    ])
      expect(await run(a!, ...args), args.join(' ')).toMatchObject({ code: 0 });
    // A service that is declared, and known to both.
    for (const db of [a!, b!]) {
      await rows(
        db,
        `create schema shop; create table shop.orders (account_id text, id text, total numeric, job text, worker bigint, note text,
           error text, retries bigint, run_id bigint, claimed_by text, _listed_by bigint, _lines_by bigint, _true_by timestamptz,
           primary key (account_id, id))`,
      );
      await rows(
        db,
        `insert into sync.streams (source, stream, place, one_reader) values ('shop', 'orders', 99, false)`,
      );
    }
    await rows(
      a!,
      `insert into shop.orders values ('ada', '1', 1.50, 'painter', 5, 'see run 7', 'run 7 fell over', 3, 7, 'me', $1, $1, '2026-01-02')`,
      (await rows(a!, 'select max(id) as id from sync.stored_runs'))[0].id,
    );
    await rows(
      a!,
      `insert into sync.coverage (account_id, source, stream, list, covered) values ('ada', 'shop', 'orders', '', '{}')`,
    );
    await fillTables(a!.pool, 'ada', stays);
    const former = `{"_lines_by": [], "_messages_by": [null, ${(await rows(a!, 'select max(id) as id from sync.stored_runs'))[0].id}], "state": ["open", "closed"]}`;
    await rows(a!, `update sync.changes set changes = $1 where account_id = 'ada'`, former);
    await rows(
      a!,
      `update sync.operations set outcome = 'done: run ' || subject where account_id = 'ada' and action = 'cancel'`,
    );
    before = await dump(a!.pool, 'ada', [...stays, 'sync.operations']);
  }, 120_000);

  test('has rows in every table', async () => {
    const tables = (await accountTables(a!.pool)).filter(name => !stays.includes(name));
    expect(tables.length).toBeGreaterThan(45);
    expect(tables.filter(name => name !== 'sync.operations' && before[name] === undefined)).toEqual([]);
  });

  test('a move that is given up before its first row leaves a mark there, which a removal takes away', async () => {
    const ending = { ...watching(), signal: AbortSignal.abort(new Error('dies')) };
    await expect(changeWarehouse(move(), ending)).rejects.toThrow('dies');
    expect(await run(a!, 'account', 'move', 'ada', '--give-up')).toMatchObject({ code: 0 });
    expect([await movesOf(a!, 'ada'), await movesOf(b!, 'ada')]).toEqual([[], [{ state: 'arriving' }]]);
    expect(await run(b!, 'account', 'remove', 'ada', '--yes')).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('its name is free'),
    });
    expect(await dump(b!.pool, 'ada')).toEqual({});
    expect(await rows(b!, `select from pg_trigger where tgfoid = 'sync.refuse_moved'::regproc`)).toEqual([]);
  });

  test('an account of this name that comes up there before the mark of the move stays, and the move is refused', async () => {
    const other = await b!.pool.connect();
    await other.query('begin; lock table sync.moves in share mode');
    const refused = expect(changeWarehouse(move(), watching())).rejects.toThrow(
      /has rows of an account 'ada' already, in sync\.accounts/,
    );
    await vi.waitFor(
      async () => expect(await rows(b!, 'select from pg_locks where not granted')).toHaveLength(1),
      60_000,
    );
    await other.query(`insert into sync.accounts (account_id) values ('ada'); commit`);
    other.release();
    await refused;
    expect([await movesOf(a!, 'ada'), await movesOf(b!, 'ada')]).toEqual([[], []]);
    expect(await rows(b!, `select account_id from sync.accounts where account_id = 'ada'`)).toHaveLength(1);
    for (const db of [a!, b!])
      expect(await rows(db, `select from pg_trigger where tgfoid = 'sync.refuse_moved'::regproc`)).toEqual([]);
    await rows(b!, `delete from sync.accounts where account_id = 'ada'`);
  });

  test('a move that is given up leaves all as it was, and another one begins anew', async () => {
    const dying = changeWarehouse(
      move(),
      watching(() => {
        throw new Error('dies');
      }),
    );
    await expect(dying).rejects.toThrow('dies');
    expect(await movesOf(a!, 'ada')).toEqual([{ state: 'leaving' }]);
    const refusal = await run(a!, '--account', 'ada', 'sync', 'users');
    expect(refusal).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/account 'ada' is moving to \S+, so nothing is written here[\s\S]*--give-up/),
    });
    expect((await run(a!, 'account', 'remove', 'ada', '--yes')).stderr).toContain('--give-up');
    expect(
      (await run(a!, '--account', 'ada', 'status')).stdout + (await run(a!, '--account', 'ada', 'status')).stderr,
    ).toContain('is moving to');
    // The name is taken there, too.
    expect(await run(b!, '--account', 'ada', 'sync', 'users')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("account 'ada' is coming from"),
    });
    expect(await run(a!, 'account', 'move', 'ada', '--give-up')).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('stays here'),
    });
    expect(await movesOf(a!, 'ada')).toEqual([]);
    expect(await dump(a!.pool, 'ada', [...stays, 'sync.operations', 'sync.secret_account_erasure'])).toEqual(
      Object.fromEntries(Object.entries(before).filter(([name]) => name !== 'sync.secret_account_erasure')),
    );
    const again = await run(a!, 'account', 'move', 'ada', '--to', b!.url, '--yes');
    expect(again.stderr).toContain("has rows of an account 'ada' already");
    expect(await run(b!, 'account', 'remove', 'ada', '--yes')).toMatchObject({ code: 0 });
    expect(await dump(b!.pool, 'ada')).toEqual({});
  });

  test('a move that dies after any part resumes, and all is equal at its end, but for numbers that the warehouse gives', async () => {
    const given: Record<string, number> = Object.fromEntries(
      await Promise.all(
        (await sequencesOf(b!.pool)).map(async ({ table, sequence }) => [
          table,
          Number((await rows(b!, `select case when is_called then last_value else 0 end as n from ${sequence}`))[0].n),
        ]),
      ),
    );
    let deaths = 0;
    let same: Awaited<ReturnType<typeof changeWarehouse>> | undefined;
    while (same === undefined) {
      let parts = 0;
      same = await changeWarehouse(
        move(),
        watching((table, part) => {
          // Each process does three parts more than that before it.
          if (part !== null && table !== 'sync.accounts' && ++parts === 4) throw new Error('dies');
        }),
      ).catch(error => {
        expect((error as Error).message).toBe('dies');
        deaths++;
        return undefined;
      });
    }
    expect(deaths).toBeGreaterThan(12);
    const after = await dump(b!.pool, 'ada', [...stays, 'sync.operations']);
    const sequences = (await sequencesOf(a!.pool)).map(({ table }) => table);
    const moved = (text: string, name: string) => {
      const numbered = text.replaceAll(/\b(7[1-9]|8\d)0\d{5}\b/g, number => {
        const i = Math.floor(Number(number) / 1_000_000) - 71;
        return sequences[i] === 'sync.workers' ? 'null' : String(Number(number) + (given[sequences[i]!] ?? 0));
      });
      // Columns of a service are its own, whatever their names.
      if (name === 'shop.orders') return numbered;
      return numbered
        .replaceAll('"claimed_by": null', '"claimed_by": 0')
        .replaceAll(/"(job|queue)": "[^"]*"/g, '"$1": null');
    };
    const expected = Object.fromEntries(
      Object.entries(before).map(([name, all]) => [name, all.map(one => moved(one, name)).toSorted()]),
    );
    const found = Object.fromEntries(
      Object.entries(after).map(([name, all]) => [
        name,
        all.map(one => one.replaceAll(/"queue": "[^"]*"/g, '"queue": null')).toSorted(),
      ]),
    );
    expect(found).toEqual(expected);
    expect(same.map(({ table }) => table).toSorted()).toEqual([...Object.keys(after), 'sync.operations'].toSorted());
    expect(beginningOf(0)).toBe(71_000_001);
  }, 100_000);

  test('no number of the former warehouse is left, in any column or text', async () => {
    const all = JSON.stringify(await dump(b!.pool, 'ada', stays));
    expect(all.match(/\b(7[1-9]|8\d)0\d{5}\b/g)).toBeNull();
  });

  test('the former warehouse says where it went, and nobody works on it there', async () => {
    const says = /account 'ada' moved to \S+ at 20\S+Z/;
    for (const args of [['sync', 'users'], ['pause'], ['erase', '--contact', 'ada@x.example', '--yes']])
      expect(await run(a!, '--account', 'ada', ...args), args.join(' ')).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(says),
      });
    await expect(rows(a!, `update sync.budget set version = 1 where account_id = 'ada'`)).rejects.toThrow(says);
    await expect(rows(a!, `delete from helpdesk.tickets where account_id = 'ada'`)).rejects.toThrow(says);
    expect((await run(a!, 'account', 'list')).stdout).toMatch(/^ada .*\/\S+ *$/m);
    expect(await rows(a!, `select problem, says from sync.problems where account_id = 'ada'`)).toMatchObject([
      { problem: 'moved' },
    ]);
    expect((await run(a!, 'account', 'move', 'ada', '--to', b!.url)).stderr).toContain('already');
    const { stdout } = await run(a!, '--account', 'ada', 'doctor', '--json');
    const { results } = JSON.parse(stdout) as {
      results: { account: string | null; name: string; says: string; remedy: string }[];
    };
    expect(results.filter(one => one.account === 'ada' && /failed|report it/.test(one.says + one.remedy))).toEqual([]);
    expect(results.find(({ name }) => name === 'help desk')).toMatchObject({
      says: expect.stringMatching(says),
      remedy: expect.stringMatching(/^Work on it there/),
    });
    // Others work.
    expect(await run(a!, '--account', 'ben', 'sync', 'users')).toMatchObject({ code: 0 });
  });

  test('what is for all accounts of the former warehouse passes over it', async () => {
    const reader = aName('ada');
    try {
      const [create, revoke] = ['create', 'revoke'].map(act => ['warehouse', 'reader', act, reader]);
      for (const args of [
        create!,
        revoke!,
        ['warehouse', 'calendar', 'set', 'office', '--hours', 'mon-fri 10:00-18:00'],
      ])
        expect(await run(a!, ...args), args.join(' ')).toMatchObject({ code: 0 });
    } finally {
      // A role belongs to the server, not to the database.
      await rows(a!, `drop role if exists ${reader}`);
    }
    expect(
      await rows(a!, `select account_id, action from sync.operations where action ~ 'reader' order by id`),
    ).toEqual([
      { account_id: 'ben', action: 'let a reader in' },
      { account_id: 'ben', action: 'revoke a reader' },
    ]);
  });

  test('a migration changes its rows, too', async () => {
    const covered = `select from sync.coverage where account_id = 'ada' and source = 'shop'`;
    expect(await rows(a!, covered)).toHaveLength(1);
    // The service declares no streams any more.
    await migrate(a!.url, ownSql, [{ name: 'shop', schema: { says: 'A shop.' }, streams: [], tables: [] } as Mirror]);
    expect(await rows(a!, covered)).toEqual([]);
  });

  test('it is read-only in a table that a migration makes after the move', async () => {
    const sale = record('sales', 'Sales.', { id: id() });
    const kiosk = defineService({
      ...{ name: 'kiosk', label: 'the kiosk', says: 'A kiosk.', limits: [], paginator: { type: 'single_page' } },
      streams: [fullRefresh(sale, '/sales')],
    });
    await migrate(a!.url, ownSql, [kiosk]);
    const sell = (account: string) =>
      rows(a!, `insert into kiosk.sales values ($1, '1', now(), now(), now(), null, '{}')`, account);
    await expect(sell('ada')).rejects.toThrow(/account 'ada' moved to/);
    await sell('ben');
    await rows(a!, `drop schema kiosk cascade; delete from sync.streams where source = 'kiosk'`);
  });

  test('its rows are removed there by their command, and its name stays taken until that is given again', async () => {
    expect(await run(a!, 'account', 'remove', 'ada', '--yes')).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('stays noted'),
    });
    expect(Object.keys(await dump(a!.pool, 'ada'))).toEqual(['sync.moves']);
    expect(await run(a!, '--account', 'ada', 'sync', 'users')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("account 'ada' moved to"),
    });
    expect(await run(a!, 'account', 'remove', 'ada', '--yes')).toMatchObject({ code: 0 });
    expect(await dump(a!.pool, 'ada')).toEqual({});
    expect(await rows(a!, `select from pg_trigger where tgfoid = 'sync.refuse_moved'::regproc`)).toEqual([]);
  });
});

describe('an account that is read', () => {
  test('is read on where it is now, without what it has; an erased person stays erased; and it may come back', async () => {
    const { world, totals } = fleet.sandboxes.get('ben')!;
    const [person] = await rows(
      a!,
      `select c.customer_id as id, c.value from helpdesk.contacts c where account_id = 'ben' and type = 'email' order by c.id limit 1`,
    );
    expect(await run(a!, '--account', 'ben', 'erase', '--customer', person.id, '--yes')).toMatchObject({ code: 0 });
    const known = `select exists (select from sync.secret_erased e, unnest(sync.contact_forms($1)) f (form)
      where e.account_id = 'ben' and e.contact_hash = sync.contact_hash('ben', f.form)) as known`;
    expect(await rows(a!, known, person.value)).toEqual([{ known: true }]);
    const readable = async (db: TestDatabase) =>
      rows(db, `select id, first_name from helpdesk.customers where account_id = 'ben' order by id`);
    const people = await readable(a!);
    const to = await run(a!, 'account', 'move', 'ben', '--to', b!.url, '--yes', '--json');
    expect(to).toMatchObject({ code: 0, stderr: expect.stringContaining('equal there') });
    expect(JSON.parse(to.stdout).tables).toContainEqual({
      table: 'helpdesk.tickets',
      rows: 40,
      digest: expect.stringMatching(/^-?\d+$/),
    });
    expect(await readable(b!)).toEqual(people);
    expect(await rows(b!, known, person.value)).toEqual([{ known: true }]);
    expect(await rows(b!, known.replace(`contact_hash('ben'`, `contact_hash('cem'`), person.value)).toEqual([
      { known: false },
    ]);

    const asked = totals.requests;
    expect(await run(b!, '--account', 'ben', 'sync')).toMatchObject({ code: 0 });
    expect(totals.requests - asked).toBeLessThan(10);
    expect((await readable(b!)).find(one => one.id === person.id)).toMatchObject({ first_name: null });
    expect(
      (await differences(b!.pool, world, 'ben')).filter(one => !/customer|contact|ticket|message|attachment/.test(one)),
    ).toEqual([]);

    expect((await run(b!, 'account', 'move', 'ben', '--to', a!.url, '--yes')).stderr).toContain(
      "has rows of an account 'ben' already",
    );
    expect(await run(a!, 'account', 'remove', 'ben', '--yes')).toMatchObject({ code: 0 });
    // It dies before its mark replaces that of the way there.
    const back = () => changeWarehouse(move('ben', [b!, a!]), watching());
    const other = await a!.pool.connect();
    await other.query(`begin; select from sync.moves where account_id = 'ben' for update`);
    const dying = expect(back()).rejects.toThrow();
    const waiting = 'select pg_terminate_backend(pid) from pg_locks where not granted';
    await vi.waitFor(async () => expect(await rows(a!, waiting)).toHaveLength(1), 60_000);
    await dying;
    await other.query('rollback');
    other.release();
    expect([...(await movesOf(b!, 'ben')), ...(await movesOf(a!, 'ben'))].map(one => one.state)).toEqual([
      'leaving',
      'moved',
    ]);
    await back();
    expect(await run(a!, '--account', 'ben', 'sync')).toMatchObject({ code: 0 });
    expect(await rows(a!, known, person.value)).toEqual([{ known: true }]);
  }, 120_000);

  test(
    'a process that is killed in the middle, or between the two warehouses, leaves it to the next one',
    long,
    async () => {
      const moving = () => shelfdesk(['account', 'move', 'cem', '--to', a!.url, '--yes'], { DATABASE_URL: b!.url });
      for (const [locked, states] of [
        ['helpdesk.tickets', ['leaving', 'arriving']],
        ['sync.operations', ['leaving', 'arriving']],
        ['sync.accounts', ['moved', 'arriving']],
      ] as const) {
        const other = await a!.pool.connect();
        await other.query(`begin; lock table ${locked} in row exclusive mode; lock table ${locked} in share mode`);
        const { process, finished } = moving();
        await vi.waitFor(
          async () =>
            expect(
              await rows(a!, `select from pg_locks where not granted and relation = '${locked}'::regclass`),
            ).not.toEqual([]),
          60_000,
        );
        process.kill('SIGKILL');
        await finished;
        await other.query('rollback');
        other.release();
        expect([...(await movesOf(b!, 'cem')), ...(await movesOf(a!, 'cem'))].map(one => one.state)).toEqual(states);
      }
      const { code, stderr } = await moving().finished;
      expect([code, stderr]).toEqual([0, expect.stringContaining('equal there')]);
      const { world } = fleet.sandboxes.get('cem')!;
      expect(await run(a!, '--account', 'cem', 'sync')).toMatchObject({ code: 0 });
      expect(await differences(a!.pool, world, 'cem')).toEqual([]);
    },
  );

  test('where the new warehouse is lost, it is read on in the former one, once its mark is taken away', async () => {
    expect((await run(b!, '--account', 'cem', 'sync', 'users')).stderr).toContain("account 'cem' moved to");
    const [, steps] = /### The new warehouse is lost\n[\s\S]*?```sh\n([\s\S]*?)```/.exec(manyAccounts) ?? [];
    const [, statement] = /^psql "\$DATABASE_URL" -c "(.*)"$/m.exec(steps!)!;
    await rows(b!, statement!.replace('acme', 'cem'));
    expect(await run(b!, '--account', 'cem', 'sync')).toMatchObject({ code: 0 });
    expect(await differences(b!.pool, fleet.sandboxes.get('cem')!.world, 'cem')).toEqual([]);
    const fenced = `select from pg_trigger where tgfoid = 'sync.refuse_moved'::regproc
      and pg_get_triggerdef(oid) like '%"cem"%'`;
    expect(await rows(b!, fenced)).toEqual([]);
  });
});

/** Whole numbers that count something, and that no warehouse gives. A new column belongs here, or in src/engine/database/move/tables.ts. */
const counts =
  'agents_involved asked assignment_count attachment_count attempts authored_count automatic_count backfill between_ms changes cleaned credit_limit credits deleted expected followed fresh inbound_count inbound_messages inserted interactive latency_seconds message_count minutes note_count number other_count others ours page page_count page_size place position published_year ratings_count refused rejected rejects_allowed reopen_count requests sample seconds seen size sweep target_seconds theirs_least theirs_most token took_ms tries turn turns unchanged updated version volume_count waited_ms';
/** Numbers of runs, rows, hand-offs and processes. */
const numbers =
  '_listed_by _messages_by beside carried_from claimed_by hand_off_id held_by id opened_by retries run_id waits_for worker';

test('each whole number only counts, or is known to be given by the warehouse', async () => {
  const tables = (await accountTables(a!.pool)).filter(name => !stays.includes(name) && name !== 'shop.orders');
  const found = await rows(
    a!,
    `select distinct a.attname::text as name from pg_attribute a
     where a.attnum > 0 and not a.attisdropped and format_type(a.atttypid, null) ~ '^(integer|bigint)' and a.attrelid::regclass::text = any ($1)`,
    tables,
  );
  const known = `${counts} ${numbers}`.split(' ');
  expect(found.map(({ name }) => name).toSorted()).toEqual(known.toSorted());
});
