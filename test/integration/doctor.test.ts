/** The doctor finds what is well to be well, for one credit each time, and stores nothing. */
import { expect, test } from 'vitest';
import { settingsFor } from '../support/cli.ts';
import { examined } from '../support/examined.ts';
import { configFor, syncOnce } from '../support/mirror.ts';
import { openSandbox } from '../support/open-sandbox.ts';
import { freshDatabase } from '../support/postgres.ts';

test('a mirror that is well has no failed check, costs one credit, and no secret gets out', async () => {
  await using db = await freshDatabase();
  await using stack = new AsyncDisposableStack();
  const sandbox = stack.use(await openSandbox({ tickets: 20, customers: 5 }));
  await syncOnce(configFor(db.url, sandbox));
  const settings = settingsFor(db.url, sandbox);
  for (let n = 0; n < 2; n++) {
    const before = sandbox.totals.credits;
    const report = await examined(settings);
    expect(report.states().fail).toBeUndefined();
    for (const name of ['help desk', 'clock of the help desk', 'limits', 'use by others', 'pages of the help desk'])
      expect([name, report.of(name).state]).toEqual([name, 'ok']);
    expect([report.credits, sandbox.totals.credits - before]).toEqual([1, 1]);
    for (const secret of [sandbox.token, new URL(db.url).password])
      expect(JSON.stringify(report)).not.toContain(secret);
  }
  const { rows } = await db.pool.query(`select to_regclass('sync.source_behaviour') as gone`);
  expect(rows).toEqual([{ gone: null }]);
});
