/** Accounts that the warehouse holds and no settings name, as after `demo`: whatever reads the warehouse knows them. */
import { expect, test } from 'vitest';
import { startSandbox } from '../../packages/sandbox/src/server.ts';
import type { Config } from '../../src/app/config.ts';
import { configuredSources } from '../../src/app/context.ts';
import type { AddCommand } from '../../src/cli/command.ts';
import { addRejects } from '../../src/cli/look/rejects.ts';
import { addStatus } from '../../src/cli/look/status.ts';
import { addWhy } from '../../src/cli/look/why.ts';
import { addErase } from '../../src/cli/setup/erase.ts';
import { addCalendar } from '../../src/cli/setup/warehouse/calendar.ts';
import { addPause, addResume } from '../../src/cli/work/pause.ts';
import { addPlan } from '../../src/cli/work/plan.ts';
import { addRuns } from '../../src/cli/work/runs.ts';
import { addSchedule } from '../../src/cli/work/schedule.ts';
import { command } from '../support/command.ts';
import { configFor, noSandboxLimits, syncOnce } from '../support/mirror.ts';
import { pageWorld } from '../support/page.ts';
import { freshDatabase } from '../support/postgres.ts';

const each: [AddCommand, words: string, shows: string | RegExp][] = [
  [addStatus, 'status', /^tickets +fresh /m],
  [addRuns, 'runs list', /^ *\d+ +sync +completed /m],
  [addRejects, 'rejects list', 'No open rejects.'],
  [addRejects, 'rejects drift', 'No differences.'],
  [addSchedule, 'schedule list', /^acme +nightly /m],
  [addPlan, 'plan', "account 'acme' has no settings here"],
  [addPlan, 'plan backfill --again', /^tickets +\d+ /m],
  [addPause, 'pause messages', /^acme +messages /m],
  [addResume, 'resume messages', "Nothing of account 'acme' is paused."],
];

test('the only one is the default, and several are named', async ({ onTestFinished }) => {
  await using db = await freshDatabase();
  const sandbox = await startSandbox({ tickets: 5, customers: 2, books: { volumes: 3 }, ...noSandboxLimits });
  onTestFinished(() => sandbox.close());
  const acme = configFor(db.url, sandbox, { account: 'acme' });
  expect(await syncOnce(acme)).toMatchObject({ exitCode: 0 });
  const { helpdesk: _, ...rest } = acme;
  const unset: Config = { ...rest, account: 'default', helpdesk: undefined };
  const ask = (add: AddCommand, words: string) => command(add, unset, ...words.split(' '));
  const asked = sandbox.requests.length;
  const before = await db.pool.query('select * from sync.accounts');
  const {
    rows: [ticket],
  } = await db.pool.query('select id, customer_id from helpdesk.tickets');

  const ofTicket: typeof each = [
    [addWhy, `why ${ticket.id}`, `ticket ${ticket.id}`],
    [addErase, `erase --customer ${ticket.customer_id} --dry-run`, 'Nothing was changed.'],
    [addRuns, 'runs show 1', /^kind +sync: reads what is new/m],
  ];
  for (const [add, words, shows] of [...each, ...ofTicket]) {
    const { code, stdout, stderr } = await ask(add, words);
    expect(code, words + stderr).toBe(0);
    expect(stdout + stderr, words).toMatch(shows);
  }
  expect(JSON.parse((await ask(addStatus, 'status --json')).stdout)).toMatchObject({
    account: 'acme',
    helpdesk: false,
  });
  const office = ['office', '--time-zone', 'UTC', '--hours', 'mon 09:00-17:00'];
  expect(await command(addCalendar, unset, 'calendar', 'set', ...office)).toMatchObject({ code: 0 });
  expect((await ask(addCalendar, 'calendar assign office')).stderr).toContain("account 'acme'");
  // Nothing is asked of a source whose token nobody knows, and a plan leaves the account as it was.
  expect(sandbox.requests).toHaveLength(asked);
  expect((await db.pool.query('select * from sync.accounts')).rows).toEqual(before.rows);

  // Whoever has settings means that account.
  const set = { ...configFor(db.url, sandbox), account: 'default' };
  expect((await command(addRuns, set, 'runs', 'list')).stdout).toBe('');
  expect(JSON.parse((await command(addStatus, set, 'status', '--json')).stdout)).toMatchObject({
    ...{ account: 'default', helpdesk: true, books: false },
    streams: ['users', 'customers', 'tickets', 'messages'].map(stream => ({ stream, state: 'never_synced' })),
  });

  await db.pool.query(`insert into sync.accounts (account_id) values ('umbra')`);
  for (const [add, words] of [...each, ...ofTicket]) {
    if (words.startsWith('status') || words.startsWith('schedule')) continue;
    expect(await ask(add, words), words).toMatchObject({
      code: 2,
      stderr: 'several accounts exist and none was chosen\nChoose with --account: acme, umbra.\n',
    });
  }
  const both = await ask(addStatus, 'status');
  expect(both.stdout).toMatch(/^acme +tickets /m);
  expect(both.stderr).toContain("Account 'umbra' has no settings here, so it is not synced.");
});

test('the page shows them, and no account that is neither set nor held', async () => {
  await using world = await pageWorld();
  const config = { ...configFor(world.url, { url: 'http://127.0.0.1:1/api/v1', token: 'x' }), helpdesk: undefined };
  const app = await world.app(
    { host: '127.0.0.1', token: undefined, viewerToken: undefined },
    {
      accounts: () => [{ config, sources: configuredSources(config) }],
    },
  );
  const page = await app.inject({ method: 'GET', url: '/', headers: { host: '127.0.0.1:8090' } });
  expect(page.body).toContain('/accounts/fresh');
  expect(page.body).not.toContain('/accounts/default');
});
