/** A lake that is on, where its package is not installed: what says so, what works, and that no erasure seems done. */
import { expect, test } from 'vitest';
import { settingsFor, shelfdesk } from '../../../test/support/cli.ts';
import { inProcess } from '../../../test/support/in-process.ts';
import { long } from '../../../test/support/long.ts';

const source = { url: 'https://desk.example/api/v1', token: 'none' };
const hook = new URL('./support/without-package.ts', import.meta.url).href;
const missing = 'the lake needs the package shelfdesk-lake, which is not installed';
const remedy = 'Run `npm install shelfdesk-lake`; in a clone, `npm ci`.';

test('a lake without its package', long, async () => {
  await using s = await inProcess({ tickets: 8, seed: 3 });
  await s.sync();
  const env = { ...settingsFor(s.url, source), NODE_OPTIONS: `--import=${hook}` };
  const run = (...args: string[]) => shelfdesk(args, env).finished;
  const refused = { code: 2, stderr: `error: ${missing}\n${remedy}\n` };
  expect(await run('lake', 'on')).toMatchObject(refused);
  expect(await s.rows('select from sync.lake')).toEqual([]);

  await s.rows(
    `insert into sync.lake (path, personal, keep_days, turned_on_at, turned_on_by) values ('/nowhere', true, 30, now(), 'test')`,
  );
  await s.rows('select sync.follow_changes(true)');
  expect(await run('lake', 'export')).toMatchObject(refused);
  const status = await run('lake', 'status', '--json');
  expect(JSON.parse(status.stdout)).toMatchObject({ state: 'failing', last_error: missing });

  const [one] = await s.rows('select customer_id as id from helpdesk.tickets where customer_id is not null limit 1');
  const erased = await run('erase', '--customer', String(one!.id), '--with-shared', '--yes');
  expect(erased).toMatchObject({ code: 3 });
  expect(erased.stderr).toContain(`Not done yet: the files of the lake have it until an export, and ${missing}.`);
  expect(
    await s.rows(
      `select distinct unit from sync.lake_pending where erased and unit in ('customer', 'ticket') order by 1`,
    ),
  ).toEqual([{ unit: 'customer' }, { unit: 'ticket' }]);

  const removed = await run('account', 'remove', 'default', '--yes');
  expect(removed).toMatchObject({ code: 2 });
  expect(removed.stderr).toContain(missing);
  expect((await s.rows('select from helpdesk.tickets')).length).toBeGreaterThan(0);
  expect(await run('lake', 'off')).toMatchObject({ code: 0 });
});
