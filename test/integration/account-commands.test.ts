/** `account list | remove | move`: the accounts of a warehouse, with real sandboxes. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { describeLongOnLake } from '../../packages/lake/test/support/lake.ts';
import { shelfdesk } from '../support/cli.ts';
import { openFleet } from '../support/fleet.ts';
import { long } from '../support/long.ts';
import { noSandboxLimits } from '../support/mirror.ts';
import { freshDatabase } from '../support/postgres.ts';

const unlimited = {
  HELPDESK_CREDITS: String(noSandboxLimits.credits),
  HELPDESK_REQUESTS_PER_SECOND: String(noSandboxLimits.requestsPerSecond),
};

async function twoAccounts(stack: AsyncDisposableStack, names = ['ada', 'ben']) {
  const db = stack.use(await freshDatabase());
  const fleet = await openFleet(stack, names, {
    env: { DATABASE_URL: db.url, LAKE_EXTENSIONS: process.env.LAKE_EXTENSIONS ?? '' },
    world: name => ({ ...noSandboxLimits, tickets: 20, seed: name.charCodeAt(0) }),
    settings: () => unlimited,
  });
  const run = (...args: string[]) => shelfdesk(args, fleet.env, fleet.folder).finished;
  for (const name of names) expect((await run('--account', name, 'sync')).code).toBe(0);
  return { db, fleet, run };
}

test(
  'remove takes every row of the account, in each table, and none of others; it asks, and waits for who works',
  long,
  async () => {
    await using stack = new AsyncDisposableStack();
    const { db, fleet, run } = await twoAccounts(stack);
    const rows = async <T>(sql: string, ...values: unknown[]) => (await db.pool.query(sql, values)).rows as T[];
    const tables = (
      await rows<{ name: string }>(
        `select format('%I.%I', c.table_schema, c.table_name) as name
         from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
         where c.column_name = 'account_id' and t.table_type = 'BASE TABLE'`,
      )
    ).map(({ name }) => name);
    expect(tables.length).toBeGreaterThan(40);
    const held = async (account: string) => {
      const found: Record<string, string> = {};
      for (const table of tables)
        found[table] = (
          await rows<{ n: string }>(`select count(*)::text as n from ${table} where account_id = $1`, account)
        )[0]!.n;
      return found;
    };
    const before = await held('ben');
    expect(Object.values(before).filter(n => n !== '0').length).toBeGreaterThan(15);

    const listed = await run('account', 'list', '--json');
    expect(JSON.parse(listed.stdout)).toMatchObject([
      { account: 'ada', sources: { helpdesk: fleet.sandboxes.get('ada')!.url }, workers: 0, has_settings: true },
      { account: 'ben', sources: { helpdesk: fleet.sandboxes.get('ben')!.url }, workers: 0, has_settings: true },
    ]);
    expect(await run('account', 'remove', 'cem')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("holds nothing of an account 'cem'\nChoose from: ada, ben."),
    });
    expect(await run('account', 'remove', 'ada')).toMatchObject({
      code: 2,
      stdout: expect.stringMatching(/^helpdesk\.tickets +20$/m),
      stderr: expect.stringContaining('Add --yes'),
    });

    const worker = fleet.start();
    await worker.begun;
    expect(await run('account', 'remove', 'ada', '--yes')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/is not removed: process \d+ on \S+ serves it/),
    });
    expect((await held('ada'))['helpdesk.tickets']).toBe('20');
    worker.kill('SIGTERM');
    await worker.finished;

    const stays = await held('ben');
    const removed = await run('account', 'remove', 'ada', '--yes');
    expect(removed).toMatchObject({ code: 0, stderr: expect.stringContaining("Removed account 'ada'.") });
    expect(removed.stderr).toContain('It still has settings here');
    expect(Object.entries(await held('ada')).filter(([, n]) => n !== '0')).toEqual([]);
    expect(await held('ben')).toEqual(stays);
    expect(await rows(`select account_id from sync.accounts`)).toEqual([{ account_id: 'ben' }]);
  },
);

test('a removal that is interrupted continues with the same command', long, async () => {
  await using stack = new AsyncDisposableStack();
  const { db, fleet, run } = await twoAccounts(stack);
  const count = async () =>
    (await db.pool.query(`select from helpdesk.tickets where account_id = 'ada'`)).rowCount! +
    (await db.pool.query(`select from sync.accounts where account_id = 'ada'`)).rowCount!;
  // It waits for this lock in the middle of its work.
  const other = await db.pool.connect();
  await other.query('begin; lock table helpdesk.users in access exclusive mode');
  const { process, finished } = shelfdesk(['account', 'remove', 'ada', '--yes'], fleet.env, fleet.folder);
  await vi.waitFor(
    async () => expect((await db.pool.query('select from pg_locks where not granted')).rowCount).toBeGreaterThan(0),
    { timeout: 30_000 },
  );
  process.kill('SIGKILL');
  await finished;
  await other.query('rollback');
  other.release();
  expect(await count()).toBeGreaterThan(0);
  expect((await run('account', 'remove', 'ada', '--yes')).code).toBe(0);
  expect(await count()).toBe(0);
});

test('move binds an account to the new address of the same source, and not to another one', long, async () => {
  await using stack = new AsyncDisposableStack();
  const { db, fleet, run } = await twoAccounts(stack);
  const [ada, ben] = ['ada', 'ben'].map(name => new URL(fleet.sandboxes.get(name)!.url));
  const address = async () => JSON.parse((await run('account', 'list', '--json')).stdout)[0].sources.helpdesk;

  const foreign = await run('account', 'move', 'ada', '--to', ben!.href);
  expect(foreign).toMatchObject({ code: 2, stderr: expect.stringContaining(`account 'ada' is not moved`) });
  const wrong = await run('account', 'move', 'ada', '--to', 'https://desk.example');
  expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining('must end in /api/v1') });
  expect(await address()).toBe(ada!.href);

  const other = new URL(ada!);
  other.hostname = 'localhost';
  const asked = await run('account', 'move', 'ada', '--to', other.href);
  expect(asked).toMatchObject({ code: 2, stderr: expect.stringContaining('Add --yes') });
  const moved = await run('account', 'move', 'ada', '--to', other.href, '--yes');
  expect(moved).toMatchObject({
    code: 0,
    stderr: expect.stringContaining(`Moved account 'ada' from ${ada!.host} to ${other.host}.`),
  });
  expect(moved.stderr).toMatch(/(\d+) of \1 stored records are the same/);
  expect(moved.stderr).toContain(`Now set HELPDESK_BASE_URL=${other.href}`);
  expect(await address()).toBe(other.href);

  // A process with another address than this stores nothing. Addresses of this machine may replace each other.
  await db.pool.query(`update sync.sources set address = 'https://desk.example/api/v1' where account_id = 'ada'`);
  const elsewhere = await run('--account', 'ada', 'sync');
  expect(elsewhere).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('of desk.example, and HELPDESK_BASE_URL names'),
  });
  expect(elsewhere.stderr).toContain(`npx shelfdesk account move ada --to ${ada!.href}`);
  expect((await run('account', 'move', 'ada', '--to', ada!.href, '--yes')).code).toBe(0);
  expect((await run('--account', 'ada', 'sync')).code).toBe(0);
});

test('an address that nothing was read from binds nothing', long, async () => {
  await using stack = new AsyncDisposableStack();
  const db = stack.use(await freshDatabase());
  const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-typo-'));
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  const fleet = await openFleet(stack, ['ada'], { env: {}, world: () => ({ ...noSandboxLimits, tickets: 3 }) });
  const { url, token } = fleet.sandboxes.get('ada')!;
  const env = { DATABASE_URL: db.url, HELPDESK_TOKEN: token, ...unlimited };
  const typo = await shelfdesk(
    ['sync', 'users'],
    { ...env, HELPDESK_BASE_URL: url.replace('/api/v1', '/x/api/v1') },
    folder,
  ).finished;
  expect(typo.code).not.toBe(0);
  expect((await db.pool.query('select from sync.sources')).rowCount).toBe(0);
  expect((await shelfdesk(['sync', 'users'], { ...env, HELPDESK_BASE_URL: url }, folder).finished).code).toBe(0);
  expect((await db.pool.query('select address from sync.sources')).rows).toEqual([{ address: url }]);
});

test('a demo in a warehouse of real data is named with the command that takes it out', long, async () => {
  await using stack = new AsyncDisposableStack();
  const { db, run } = await twoAccounts(stack, ['ada', 'demo']);
  const says = "Account 'demo' is of a demo, and its rows count among yours.";
  const told = async (...args: string[]) => {
    const { stdout, stderr } = await run(...args);
    return (stdout + stderr).replaceAll(/\s+/g, ' ');
  };
  for (const args of [['status'], ['doctor'], ['account', 'list']])
    expect(await told(...args)).toMatch(new RegExp(`${says}.*npx shelfdesk account remove demo`));
  // A real help desk of this name has other agents.
  await db.pool.query(`update helpdesk.users set email = 'ada@desk.test' where account_id = 'demo'`);
  expect(await told('status')).not.toContain(says);
  await db.pool.query(`update helpdesk.users set email = 'ada@harbourlane.example' where account_id = 'demo'`);
  expect((await run('account', 'remove', 'demo', '--yes')).code).toBe(0);
  expect(await told('status')).not.toContain(says);
  expect((await db.pool.query('select distinct account_id from helpdesk.tickets')).rows).toEqual([
    { account_id: 'ada' },
  ]);
});

await describeLongOnLake('with a lake', () => {
  test('remove takes the account out of the lake', long, async () => {
    await using stack = new AsyncDisposableStack();
    const { run } = await twoAccounts(stack);
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
