/** `account list | remove | move`: the accounts of a warehouse, with real sandboxes. The cases follow each other in one warehouse. */

import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { describeLongOnLake } from '../../packages/lake/test/support/lake.ts';
import { systemClock } from '../../src/clock.ts';
import { type Fleet, openFleet } from '../support/fleet.ts';
import { ran } from '../support/here.ts';
import { long } from '../support/long.ts';
import { noSandboxLimits } from '../support/mirror.ts';
import { freshDatabase, type TestDatabase } from '../support/postgres.ts';
import { bePresent } from '../support/present.ts';

const unlimited = {
  HELPDESK_CREDITS: String(noSandboxLimits.credits),
  HELPDESK_REQUESTS_PER_SECOND: String(noSandboxLimits.requestsPerSecond),
};

async function opened(stack: AsyncDisposableStack, names: readonly string[]) {
  const db = stack.use(await freshDatabase());
  const fleet = await openFleet(stack, names, {
    env: { DATABASE_URL: db.url, LAKE_EXTENSIONS: process.env.LAKE_EXTENSIONS ?? '' },
    world: name => ({ ...noSandboxLimits, tickets: 20, seed: name.charCodeAt(0) }),
    settings: () => unlimited,
  });
  const run = (...args: string[]) => ran(args, fleet.env, fleet.folder);
  for (const name of names) expect(await run('--account', name, 'sync')).toMatchObject({ code: 0 });
  return { db, fleet, run };
}

describe('two accounts', long, () => {
  const stack = new AsyncDisposableStack();
  let db: TestDatabase;
  let fleet: Fleet;
  let run: Awaited<ReturnType<typeof opened>>['run'];
  beforeAll(async () => {
    ({ db, fleet, run } = await opened(stack, ['ada', 'ben']));
  });
  afterAll(() => stack.disposeAsync());
  const rows = async <T>(sql: string, ...values: unknown[]) => (await db.pool.query(sql, values)).rows as T[];

  test('move binds an account to the new address of the same source, and not to another one', async () => {
    const [ada, ben] = ['ada', 'ben'].map(name => new URL(fleet.sandboxes.get(name)!.url));
    const address = async () => JSON.parse((await run('account', 'list', '--json')).stdout)[0].sources.helpdesk;
    const move = (...args: string[]) => run('account', 'move', 'ada', '--to', ...args);
    const other = new URL(ada!);
    other.hostname = 'localhost';
    for (const [to, says] of [
      [ben!.href, `account 'ada' is not moved`],
      ['https://desk.example', 'must end in /api/v1'],
      [other.href, 'Add --yes'],
    ] as const)
      expect(await move(to)).toMatchObject({ code: 2, stderr: expect.stringContaining(says) });
    expect(await address()).toBe(ada!.href);

    const moved = await move(other.href, '--yes');
    expect(moved).toMatchObject({
      code: 0,
      stderr: expect.stringContaining(`Moved account 'ada' from ${ada!.host} to ${other.host}.`),
    });
    expect(moved.stderr).toMatch(/(\d+) of \1 stored records are the same/);
    expect(moved.stderr).toContain(`Now set HELPDESK_BASE_URL=${other.href}`);
    expect(await address()).toBe(other.href);

    // A process with another address than this stores nothing. Addresses of this machine may replace each other.
    await rows(`update sync.sources set address = 'https://desk.example/api/v1' where account_id = 'ada'`);
    const elsewhere = await run('--account', 'ada', 'sync');
    expect(elsewhere).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('of desk.example, and HELPDESK_BASE_URL names'),
    });
    expect(elsewhere.stderr).toContain(`npx shelfdesk account move ada --to ${ada!.href}`);
    expect((await move(ada!.href, '--yes')).code).toBe(0);
    expect((await run('--account', 'ada', 'sync')).code).toBe(0);
  });

  test('an address without a read does not bind the account', async () => {
    await using fresh = await freshDatabase();
    const { url, token } = fleet.sandboxes.get('ada')!;
    const sync = (at: string) =>
      ran(['sync', 'users'], { DATABASE_URL: fresh.url, HELPDESK_TOKEN: token, HELPDESK_BASE_URL: at, ...unlimited });
    const addresses = async () => (await fresh.pool.query('select address from sync.sources')).rows;
    expect((await sync(url.replace('/api/v1', '/x/api/v1'))).code).not.toBe(0);
    expect(await addresses()).toEqual([]);
    expect((await sync(url)).code).toBe(0);
    expect(await addresses()).toEqual([{ address: url }]);
  });

  test('remove takes every row of the account, in each table, and none of others; it asks, and waits for who works', async () => {
    const tables = await rows<{ name: string }>(
      `select format('%I.%I', c.table_schema, c.table_name) as name
       from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
       where c.column_name = 'account_id' and t.table_type = 'BASE TABLE'`,
    );
    expect(tables.length).toBeGreaterThan(40);
    const held = async (account: string) => {
      const found: Record<string, number> = {};
      for (const { name } of tables) {
        const [{ n } = { n: 0 }] = await rows<{ n: number }>(
          `select count(*)::int as n from ${name} where account_id = $1`,
          account,
        );
        if (n > 0) found[name] = n;
      }
      return found;
    };
    const stays = await held('ben');
    expect(Object.keys(stays).length).toBeGreaterThan(15);

    const listed = await run('account', 'list', '--json');
    expect(JSON.parse(listed.stdout)).toMatchObject(
      ['ada', 'ben'].map(account => ({
        ...{ account, workers: 0, has_settings: true },
        sources: { helpdesk: fleet.sandboxes.get(account)!.url },
      })),
    );
    expect(await run('account', 'remove', 'cem')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("holds nothing of an account 'cem'\nChoose from: ada, ben."),
    });
    expect(await run('account', 'remove', 'ada')).toMatchObject({
      code: 2,
      stdout: expect.stringMatching(/^helpdesk\.tickets +20$/m),
      stderr: expect.stringContaining('Add --yes'),
    });
    {
      const worker = { account: 'ada', works: true, host: 'here', pid: 1, version: '1' };
      await using _ = await bePresent(db.url, worker, systemClock);
      expect(await run('account', 'remove', 'ada', '--yes')).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/is not removed: process \d+ on \S+ serves it/),
      });
      expect((await held('ada'))['helpdesk.tickets']).toBe(20);
    }

    const removed = await run('account', 'remove', 'ada', '--yes');
    expect(removed).toMatchObject({ code: 0, stderr: expect.stringContaining("Removed account 'ada'.") });
    expect(removed.stderr).toContain('It still has settings here');
    expect(await held('ada')).toEqual({});
    expect(await held('ben')).toEqual(stays);
    expect(await rows(`select account_id from sync.accounts`)).toEqual([{ account_id: 'ben' }]);
  });

  test('a removal that ends in the middle continues with the same command', async () => {
    const count = async () => {
      const of = (table: string) => rows(`select from ${table} where account_id = 'ben'`);
      return (await of('helpdesk.tickets')).length + (await of('sync.accounts')).length;
    };
    // It waits for this lock in the middle of its work, and loses its connection there.
    const other = await db.pool.connect();
    await other.query('begin; lock table helpdesk.users in access exclusive mode');
    const removing = run('account', 'remove', 'ben', '--yes');
    await vi.waitFor(
      async () =>
        expect(await rows('select pg_terminate_backend(pid) from pg_locks where not granted')).toHaveLength(1),
      { timeout: 30_000 },
    );
    expect((await removing).code).not.toBe(0);
    await other.query('rollback');
    other.release();
    expect(await count()).toBeGreaterThan(0);
    expect((await run('account', 'remove', 'ben', '--yes')).code).toBe(0);
    expect(await count()).toBe(0);
  });
});

await describeLongOnLake('with a lake', () => {
  test('remove takes the account out of the lake', async () => {
    await using stack = new AsyncDisposableStack();
    const { run } = await opened(stack, ['ada', 'ben']);
    for (const args of [['on', '--to', 'copy', '--pii'], ['export']])
      expect(await run('lake', ...args), args.join(' ')).toMatchObject({ code: 0 });
    const question = 'select distinct account_id from helpdesk.tickets order by 1';
    const accounts = async () => (await run('lake', 'sql', question)).stdout.match(/^(ada|ben)$/gm);
    expect(await accounts()).toEqual(['ada', 'ben']);
    expect(await run('account', 'remove', 'ada', '--yes')).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('loses these rows, and all snapshots but its newest'),
    });
    expect(await accounts()).toEqual(['ben']);
  });
});
