/** The questions of docs/queries over several accounts: each row is of one account, and says of which. */
import { expect, test } from 'vitest';
import { startSandbox } from '../../packages/sandbox/src/server.ts';
import { readQueries } from '../../src/analytics/questions.ts';
import { addQuery } from '../../src/cli/look/query.ts';
import { ask, askAccounts } from '../../src/cli/look/sql.ts';
import { syncAlone } from '../support/alone.ts';
import { command } from '../support/command.ts';
import { long } from '../support/long.ts';
import { configFor, noSandboxLimits } from '../support/mirror.ts';
import { freshDatabase } from '../support/postgres.ts';

/** They ask what things are called, not what an account has. */
const ofNoAccount = ['definitions', 'find-a-column'];
/** They show the account already. */
const says = ['how-complete'];

test('no answer mixes accounts, and each equals the answer for the account alone', long, async ({ onTestFinished }) => {
  await using db = await freshDatabase();
  // The same seed gives the same ids, with other tickets.
  const sandboxes = await Promise.all(
    [40, 25].map(tickets =>
      startSandbox({ tickets, customers: 8, begin: Date.parse('2026-01-01'), ...noSandboxLimits }),
    ),
  );
  onTestFinished(async () => void (await Promise.all(sandboxes.map(sandbox => sandbox.close()))));
  const warehouse = { pg: db.pool, url: db.url };
  // All of them where there is time.
  const few = ['backlog-by-inbox', 'labels', 'how-complete', 'definitions'];
  const queries = (await readQueries()).filter(({ name }) => long.skip === undefined || few.includes(name));

  await syncAlone(configFor(db.url, sandboxes[0]!, { account: 'acme' }));
  const alone = new Map<string, unknown>();
  for (const { name, sql } of queries) {
    const { names, rows } = await askAccounts(warehouse, sql, undefined);
    alone.set(name, rows);
    if (!few.includes(name)) continue;
    const asItStands = await ask(warehouse, sql);
    expect([names, rows], name).toEqual([asItStands.fields.map(field => field.name), asItStands.rows]);
  }

  await syncAlone(configFor(db.url, sandboxes[1]!, { account: 'umbra' }));
  for (const { name, sql } of queries) {
    const acme = await askAccounts(warehouse, sql, 'acme');
    expect(acme.rows, name).toEqual(alone.get(name));
    if (!few.includes(name)) continue;
    const [umbra, both] = [await askAccounts(warehouse, sql, 'umbra'), await askAccounts(warehouse, sql, undefined)];
    if (ofNoAccount.includes(name)) {
      expect(both, name).toEqual(acme);
      continue;
    }
    const prefixed = (account: string, rows: readonly (readonly unknown[])[]) =>
      says.includes(name) ? rows : rows.map(row => [account, ...row]);
    expect(both.names[0], name).toBe(says.includes(name) ? 'account_id' : 'account');
    expect(both.rows, name).toEqual([...prefixed('acme', acme.rows), ...prefixed('umbra', umbra.rows)]);
  }
  // Asked as it stands, it mixes the two.
  const { sql } = queries.find(({ name }) => name === 'backlog-by-inbox')!;
  const apart = [await askAccounts(warehouse, sql, 'acme'), await askAccounts(warehouse, sql, 'umbra')];
  expect((await ask(warehouse, sql)).rows).not.toEqual(apart.flatMap(({ rows }) => rows));

  const config = configFor(db.url, sandboxes[0]!);
  const run = (...args: string[]) => command(addQuery, config, 'query', 'run', 'backlog-by-inbox', ...args);
  const rows: { account: string }[] = JSON.parse((await run('--json')).stdout);
  expect(new Set(rows.map(({ account }) => account))).toEqual(new Set(['acme', 'umbra']));
  await expect(askAccounts(warehouse, sql, 'nobody')).rejects.toMatchObject({
    message: expect.stringContaining("there is no account 'nobody'"),
    remedy: expect.stringContaining('Choose with --account: acme, umbra.'),
  });
});
