/** Who may read and write the lake in a warehouse with several logins. */
import { expect, test } from 'vitest';
import { makePool } from '../../../src/engine/database/pool.ts';
import { openLake } from '../../../src/lake/package.ts';
import { alone, readLakeFiles, turnOff, turnOn } from '../../../src/lake/state.ts';
import { revoke } from '../../../src/privacy/readers.ts';
import { lakeTables } from '../../../src/sources/index.ts';
import { inProcess } from '../../../test/support/in-process.ts';
import { long } from '../../../test/support/long.ts';
import { aName, letReaderIn, sessionOf } from '../../../test/support/readers.ts';
import { compareLake } from '../src/compare.ts';
import { exportTo } from '../src/export.ts';
import { describeOnLake } from './support/lake.ts';
import { lakeBeside } from './support/lake-beside.ts';

await describeOnLake('the lake', () => {
  test('a worker of shelfdesk_writer exports what the owner has turned on, and both can go on', long, async () => {
    await using s = await inProcess({ tickets: 8, seed: 3 });
    await s.sync();
    // An owner that is no superuser.
    const [owner, worker, second] = [aName('owner'), aName('worker'), aName('owner')];
    const as = (name: string) => {
      const url = new URL(s.url);
      [url.username, url.password] = [name, 'test'];
      return url.href;
    };
    try {
      for (const name of [owner, worker, second]) await s.rows(`create role ${name} login password 'test'`);
      await s.rows(`grant shelfdesk_owner to ${owner}; grant shelfdesk_writer to ${worker}`);
      await s.rows(`grant create on database ${new URL(s.url).pathname.slice(1)} to ${owner}`);
      await s.rows("select sync.hand_over('shelfdesk_owner')");
      await using beside = await lakeBeside(as(owner));
      for (const name of [worker, owner]) {
        await s.rows(`update helpdesk.users set first_name = $1`, name);
        await using lake = await openLake(as(name), beside.place);
        await alone(as(name), client => exportTo(lake, client, lakeTables));
        expect(await alone(as(name), client => compareLake(lake, client, lakeTables))).toEqual([]);
        const session = await sessionOf(as(name));
        expect((await readLakeFiles(session.client))!.files).toBeGreaterThan(20);
        await session.client.end();
      }
      // Another member of the group may let readers in and out.
      await s.rows(`grant shelfdesk_owner to ${second}; alter role ${second} createrole`);
      await s.rows(`grant shelfdesk_reader, shelfdesk_reader_pii to ${second} with admin option`);
      const pool = makePool(as(second));
      try {
        await using reader = await letReaderIn({ pool, url: s.url }, { pii: true });
        expect(await reader.refused('select count(*) from lake.ducklake_schema')).toBeUndefined();
      } finally {
        await pool.end();
      }
      await turnOff(as(second));
    } finally {
      for (const name of [owner, worker, second]) await s.rows(`drop owned by ${name}; drop role ${name}`);
    }
  });

  test('a reader of all of it may read the catalog; others may not, and all can be removed', async () => {
    await using s = await inProcess({ tickets: 8, seed: 3 });
    await s.sync();
    await using before = await letReaderIn(s);
    await using few = await letReaderIn(s, { accounts: ['default'] });
    await using _beside = await lakeBeside(s.url, { personal: true });
    await using masked = await letReaderIn(s);
    await using whole = await letReaderIn(s, { pii: true });
    const asked = 'select count(*) from lake.ducklake_schema';
    const denied = 'permission denied for schema lake';
    expect(await Promise.all([before, few, masked, whole].map(reader => reader.refused(asked)))).toEqual([
      ...[denied, denied, denied, undefined],
    ]);
  });

  test('a reader who was there before may read the catalog of a masked lake', async () => {
    await using s = await inProcess({ tickets: 8, seed: 3 });
    await using before = await letReaderIn(s);
    await using _beside = await lakeBeside(s.url, { personal: false });
    expect(await before.refused('select count(*) from lake.ducklake_schema')).toBeUndefined();
  });

  test('is turned on once, and takes no schema that has something else', async () => {
    await using s = await inProcess({ tickets: 8, seed: 3 });
    const reach = { extensions: process.env.LAKE_EXTENSIONS };
    const on = () =>
      turnOn(s.url, reach, { path: '/nowhere', personal: false, keepDays: 1 }, { who: 'a test', now: new Date() });
    const catalog = () =>
      s.rows(`select count(*)::int as n from pg_class where relnamespace = to_regnamespace('lake')`);
    await s.rows('create schema lake; create function lake.depth() returns int language sql return 7');
    await expect(on()).rejects.toThrow(/needs the schema lake, and that has depth/);
    await using reader = await letReaderIn(s);
    await revoke(s.pool, reader.name, 'a test', new Date());
    await s.rows('drop function lake.depth(); create table lake.ducklake_table as select 1 as table_id');
    await expect(on()).rejects.toThrow(/that has the catalog of another lake/);
    // What an interrupted call leaves.
    await s.rows('truncate lake.ducklake_table');
    await on();
    const made = await catalog();
    await expect(on()).rejects.toThrow('the lake is on already');
    expect(await catalog()).toEqual(made);
  });
});
