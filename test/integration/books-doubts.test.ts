/** A catalog that shows odd records, or less than it has: what is believed of it, what waits for a second look, what is kept. */
import { describe, expect, test } from 'vitest';
import { BooksWorld } from '../../packages/sandbox/src/books/world.ts';
import type { Fault } from '../../packages/sandbox/src/server.ts';
import type { BooksConfig } from '../../src/sources/books/settings.ts';
import { backfillAlone } from '../support/alone.ts';
import {
  addShelf,
  addVolumes,
  asOf,
  bookDifferences,
  booksConfig,
  type Catalog,
  dayMs,
  historyOf,
  openCatalog,
  placesOf,
} from '../support/books.ts';
import { long } from '../support/long.ts';
import { syncOnce } from '../support/mirror.ts';

const hourMs = 3_600_000;
const shelvesOnly = ['shelves'];
const adaOnly = { config: { library: false } };
const list = '/users/ada/bookshelves';

const openRejects = (catalog: Catalog) =>
  catalog.rows(`select record_id, ask_id, attempts from sync.rejects where cleared_at is null order by key`);
const completeThrough = async (catalog: Catalog, stream: string) =>
  (await catalog.rows('select sync.complete_through($1, $2) as through', ['default', stream]))[0]!
    .through as Date | null;
const onShelf = async (catalog: Catalog, shelf: number) =>
  (
    await catalog.rows(
      'select volume_id from books.shelf_volumes where shelf_id = $1 and _removed_at is null order by position',
      [String(shelf)],
    )
  ).map(({ volume_id }) => volume_id);

const unavailable: Fault = { kind: 'status', status: 503, reason: 'backendFailed' };
const text = (edit: (text: string) => string): Fault => ({ kind: 'text', edit });
const withItems = (edit: (items: { id: unknown }[]) => { id: unknown }[], more: object = {}): Fault => ({
  kind: 'body',
  edit: json => {
    const { items = [], ...rest } = json as { items?: { id: unknown }[] };
    const left = edit(items);
    return { ...rest, ...(left.length > 0 && { items: left }), ...more };
  },
});
const without = (...ids: unknown[]) => withItems(items => items.filter(({ id }) => !ids.includes(id)));
const withoutItems = (totalItems: number) => withItems(() => [], { totalItems });

describe.concurrent('a record that is odd', () => {
  test('an invalid time becomes null; the shelf and its volumes are mirrored', async () => {
    await using catalog = await openCatalog(adaOnly);
    const { world } = catalog;
    const shelf = addShelf(world, 'ada', 1, 2);
    Object.assign(shelf, { created: '2019-02-30T10:00:00Z', volumesLastUpdated: '2023-02-29T10:00:00Z' });
    const odd = {
      '2019-04-31T10:00:00Z': null,
      '1900-02-29T10:00:00Z': null,
      '2019-13-01T10:00:00Z': null,
      '2019-01-00T10:00:00Z': null,
      '0000-01-01T10:00:00Z': null,
      '2019-01-01T24:00:00Z': null,
      '2016-12-31T23:59:60Z': null,
      '2019-01-01T10:00:00+15:00': null,
      '2019-01-01T10:00:00': null,
      '2019-01-01': null,
      infinity: null,
      '19??': null,
      '2020-02-29T10:00:00Z': '2020-02-29T10:00:00.000Z',
      '2000-02-29T10:00:00.1234567Z': '2000-02-29T10:00:00.123Z',
      '2019-12-31t23:59:59.5+05:30': '2019-12-31T18:29:59.500Z',
    };
    for (const [i, time] of Object.keys(odd).entries())
      Object.assign(world.createShelf('ada', { id: 1001 + i, access: 'PUBLIC' }), { created: time, updated: time });
    expect(await catalog.sync()).toMatchObject({ state: 'completed', exitCode: 0 });
    const rows = await catalog.rows(
      `select _payload ->> 'created' as said, created_at, updated_at, volumes_last_updated_at from books.shelves order by id::int`,
    );
    const at = (time: unknown) => (time as Date | null)?.toISOString() ?? null;
    expect(rows.map(row => [row.said, at(row.created_at)])).toEqual([
      ['2019-02-30T10:00:00Z', null],
      ...Object.entries(odd),
    ]);
    expect(rows[0]!.volumes_last_updated_at).toBeNull();
    expect(rows.slice(1).map(row => at(row.updated_at))).toEqual(Object.values(odd));
    expect(await onShelf(catalog, 1)).toEqual(['s1-0', 's1-1']);
    expect(await catalog.rows(`select count(*) as n from books.volumes where _detail = 'full'`)).toEqual([{ n: 2 }]);
    expect(await openRejects(catalog)).toEqual([]);
    const before = await placesOf(catalog.pool);
    catalog.asked();
    catalog.pass();
    expect((await catalog.sync()).exitCode).toBe(0);
    expect(catalog.asked()).toEqual([list]);
    expect(await placesOf(catalog.pool)).toEqual(before);
  });

  /** PostgreSQL takes no such number, not even into jsonb. */
  const tooBig = '"weight":1e400000';

  test(
    'a shelf that cannot be stored has its row and its contents; a row that is there is not emptied',
    long,
    async () => {
      await using catalog = await openCatalog(adaOnly);
      const { world } = catalog;
      addShelf(world, 'ada', 1, 2);
      addShelf(world, 'ada', 2, 1);
      const refuse = (id: number): void => {
        catalog.fault = ({ path }) =>
          path === list ? text(json => json.replace(`"id":${id},`, `"id":${id},${tooBig},`)) : undefined;
      };
      refuse(1);
      const first = await catalog.sync();
      expect(first).toMatchObject({ state: 'partial', exitCode: 3 });
      expect(first.streams[0]).toMatchObject({ rejected: 1, error: '1 record could not be stored' });
      const reject = { record_id: 'ada/1', ask_id: 'ada/1' };
      expect(await openRejects(catalog)).toEqual([{ ...reject, attempts: 1 }]);
      const titles = () => catalog.rows('select id, title, volume_count from books.shelves order by id');
      expect(await titles()).toEqual([
        { id: '1', title: null, volume_count: null },
        { id: '2', title: 'Shelf 2', volume_count: 1 },
      ]);
      expect(await onShelf(catalog, 1)).toEqual(['s1-0', 's1-1']);
      expect(await catalog.rows(`select id from books.volumes where _detail = 'full' order by id`)).toEqual(
        ['s1-0', 's1-1', 's2-0'].map(id => ({ id })),
      );

      refuse(2);
      catalog.pass();
      addVolumes(world, ['x']);
      world.add('ada', 2, 'x');
      expect((await catalog.sync()).exitCode).toBe(3);
      expect(await titles()).toEqual([
        { id: '1', title: 'Shelf 1', volume_count: 2 },
        { id: '2', title: 'Shelf 2', volume_count: 1 },
      ]);
      expect(await onShelf(catalog, 2)).toEqual(['x', 's2-0']);
      expect(await openRejects(catalog)).toMatchObject([{ record_id: 'ada/2' }]);
      catalog.fault = () => undefined;
      expect((await catalog.sync()).exitCode).toBe(0);
      expect(await openRejects(catalog)).toEqual([]);
      expect(await bookDifferences(catalog.pool, world, ['ada'])).toEqual([]);
    },
  );

  test(
    'a volume of a list that cannot be stored is a reject, and keeps its row and its place on the shelf',
    long,
    async () => {
      await using catalog = await openCatalog(adaOnly);
      const { world } = catalog;
      addShelf(world, 'ada', 1, 2);
      const refuse = (id: string): void => {
        catalog.fault = ({ path }) =>
          path === `${list}/1/volumes`
            ? text(json => json.replace(`"id":"${id}",`, `"id":"${id}",${tooBig},`))
            : undefined;
      };
      refuse('s1-0');
      expect((await catalog.sync(undefined, shelvesOnly)).exitCode).toBe(3);
      const titles = () => catalog.rows('select id, title, _detail from books.volumes order by id');
      expect(await titles()).toEqual([
        { id: 's1-0', title: null, _detail: 'list' },
        { id: 's1-1', title: 'Title of s1-1', _detail: 'list' },
      ]);
      expect(await onShelf(catalog, 1)).toEqual(['s1-0', 's1-1']);
      const reject = { ask_id: 'ada/1/volumes' };
      expect(await openRejects(catalog)).toMatchObject([{ record_id: 's1-0', ...reject }]);

      refuse('s1-1');
      catalog.pass();
      world.move('ada', 1, 's1-1', 0);
      expect((await catalog.sync(undefined, shelvesOnly)).exitCode).toBe(3);
      expect(await titles()).toMatchObject([{ title: 'Title of s1-0' }, { title: 'Title of s1-1' }]);
      expect(await onShelf(catalog, 1)).toEqual(['s1-1', 's1-0']);
      expect(await openRejects(catalog)).toMatchObject([{ record_id: 's1-1', ...reject }]);

      // Nothing has changed: the shelf is not read again, and its reject stays open.
      expect((await catalog.sync()).exitCode).toBe(0);
      expect(await bookDifferences(catalog.pool, world, ['ada'])).toEqual([]);
      expect(await openRejects(catalog)).toMatchObject([{ record_id: 's1-1', ...reject }]);
      catalog.fault = () => undefined;
      expect((await catalog.sync({ shelfAgeMs: 0 })).exitCode).toBe(0);
      expect(await openRejects(catalog)).toEqual([]);
    },
  );
});

describe.concurrent('a list of shelves that shows less than there is', () => {
  const graves = async (catalog: Catalog) =>
    (await catalog.rows('select id from books.shelves where _deleted_at is not null order by id')).map(({ id }) => id);

  test('no items, whatever it counts, and 503 by id: nothing is marked as deleted', long, async () => {
    await using catalog = await openCatalog(adaOnly);
    const { world, pool } = catalog;
    addShelf(world, 'ada', 1, 2);
    await catalog.sync(undefined, shelvesOnly);
    const before = await placesOf(pool);
    for (const totalItems of [1, 0]) {
      catalog.pass();
      catalog.fault = ({ path }) => (path === list ? withoutItems(totalItems) : unavailable);
      const result = await catalog.sync(undefined, shelvesOnly);
      expect(result).toMatchObject({ state: 'partial', exitCode: 3 });
      expect(result.streams[0]!.error).toContain('whether shelf 1 of ada is gone could not be asked');
      expect(await placesOf(pool)).toEqual(before);
    }
  });

  test('503 by id: a second list that lacks it and shows others will do, if it shows as many as it counts', async () => {
    await using catalog = await openCatalog(adaOnly);
    const { world } = catalog;
    addShelf(world, 'ada', 1, 1);
    addShelf(world, 'ada', 1001, 1);
    await catalog.sync(undefined, shelvesOnly);
    world.deleteShelf('ada', 1001);
    catalog.asked();
    for (const [totalItems, exitCode, deleted, pages] of [
      // What lies behind those that came is asked for.
      [2, 3, [], [list, `${list}?1`]],
      [1, 0, ['1001'], [list]],
    ] as const) {
      catalog.pass();
      catalog.fault = ({ path }) => (path === list ? withItems(items => items, { totalItems }) : unavailable);
      expect((await catalog.sync(undefined, shelvesOnly)).exitCode).toBe(exitCode);
      expect(await graves(catalog)).toEqual(deleted);
      expect(catalog.asked()).toEqual([...pages, ...Array(2).fill(`${list}/1001`), ...pages]);
    }
    expect(await onShelf(catalog, 1001)).toEqual([]);
  });

  test('no items at the very first load: nothing is called complete; the next sync heals it', async () => {
    await using catalog = await openCatalog(adaOnly);
    const { world } = catalog;
    addShelf(world, 'ada', 1, 1);
    catalog.fault = ({ path }) => (path === list ? withoutItems(1) : undefined);
    const first = await catalog.sync();
    expect(first).toMatchObject({ state: 'partial', exitCode: 3 });
    expect(first.streams[0]!.error).toBe('the list of shelves of ada shows none, and counts some');
    expect(await completeThrough(catalog, 'shelves')).toBeNull();
    catalog.fault = () => undefined;
    expect((await catalog.sync()).exitCode).toBe(0);
    expect(await completeThrough(catalog, 'shelves')).not.toBeNull();
    expect(await bookDifferences(catalog.pool, world, ['ada'])).toEqual([]);
  });
});

describe.concurrent('a shelf that shows less than it counts', () => {
  /** Five are known, one is put in front, and the last one is not shown. */
  async function shortened(): Promise<Catalog> {
    const catalog = await openCatalog(adaOnly);
    const { world } = catalog;
    addShelf(world, 'ada', 1, 5);
    await catalog.sync(undefined, shelvesOnly);
    catalog.pass();
    addVolumes(world, ['x']);
    world.add('ada', 1, 'x');
    catalog.fault = ({ path }) => (path.endsWith('/volumes') ? without('s1-4') : undefined);
    return catalog;
  }
  const known = [0, 1, 2, 3, 4].map(n => `s1-${n}`);

  test('is left as it is known, said, and believed when the next run finds the very same', async () => {
    await using catalog = await shortened();
    const before = await placesOf(catalog.pool, `name like 'shelf_volume%'`);
    const read = await asOf(catalog, 1);
    const isComplete = async () => (await completeThrough(catalog, 'shelves'))!.getTime() > catalog.now() - 60_000;
    catalog.pass();
    const first = await catalog.sync(undefined, shelvesOnly);
    expect(first).toMatchObject({ state: 'partial', exitCode: 3 });
    expect(await isComplete()).toBe(false);
    expect(first.streams[0]).toMatchObject({ deleted: 0, error: 'shelf 1 of ada shows fewer volumes than it counts' });
    expect(await placesOf(catalog.pool, `name like 'shelf_volume%'`)).toEqual(before);
    expect(await asOf(catalog, 1)).toBe(read);
    catalog.pass();
    const seen = catalog.now();
    expect((await catalog.sync(undefined, shelvesOnly)).exitCode).toBe(0);
    expect(await isComplete()).toBe(true);
    expect(await onShelf(catalog, 1)).toEqual(['x', ...known.slice(0, 4)]);
    // Nobody had looked in between whom one could believe; and what counts otherwise than it shows tells no time.
    expect((await historyOf(catalog, 's1-4')).at(-1)).toBe(
      `null [${new Date(Math.floor(seen / 1000) * 1000 + 999).toISOString()}, now) after ${read}`,
    );
    catalog.asked();
    expect((await catalog.sync(undefined, shelvesOnly)).exitCode).toBe(0);
    expect(catalog.asked()).toEqual([list]);
  });

  test('is doubted anew when the next run finds something else, and healed when one finds all', async () => {
    await using catalog = await shortened();
    const { world } = catalog;
    expect((await catalog.sync(undefined, shelvesOnly)).exitCode).toBe(3);
    catalog.pass();
    catalog.fault = ({ path }) => (path.endsWith('/volumes') ? without(...known, 'x') : undefined);
    expect((await catalog.sync(undefined, shelvesOnly)).exitCode).toBe(3);
    expect(await onShelf(catalog, 1)).toEqual(known);
    catalog.pass();
    catalog.fault = () => undefined;
    expect((await catalog.sync()).exitCode).toBe(0);
    expect(await bookDifferences(catalog.pool, world, ['ada'])).toEqual([]);
  });

  test('at the first load what it shows is here, and the next run reads it again', async () => {
    await using catalog = await openCatalog(adaOnly);
    const { world } = catalog;
    addShelf(world, 'ada', 1, 3);
    catalog.fault = ({ path }) => (path.endsWith('/volumes') ? without('s1-2') : undefined);
    const first = await catalog.sync();
    expect(first).toMatchObject({ state: 'partial', exitCode: 3 });
    expect(first.streams[0]!.error).toContain('shows fewer volumes than it counts');
    expect(await completeThrough(catalog, 'shelves')).toBeNull();
    expect(await catalog.rows(`select id from books.volumes where _detail = 'full' order by id`)).toEqual(
      ['s1-0', 's1-1'].map(id => ({ id })),
    );
    catalog.fault = () => undefined;
    catalog.pass();
    expect((await catalog.sync()).exitCode).toBe(0);
    expect(await bookDifferences(catalog.pool, world, ['ada'])).toEqual([]);
  });

  test('with a record without an id it is read once more by the next run, and then no more', long, async () => {
    await using catalog = await openCatalog(adaOnly);
    const { world } = catalog;
    addShelf(world, 'ada', 1, 3);
    await catalog.sync(undefined, shelvesOnly);
    catalog.pass();
    world.remove('ada', 1, 's1-0');
    catalog.fault = ({ path }) =>
      path.endsWith('/volumes') ? text(json => json.replace('"id":"s1-2"', '"xd":"s1-2"')) : undefined;
    const asks: number[] = [];
    for (const exitCode of [3, 3, 0]) {
      catalog.pass();
      catalog.asked();
      expect((await catalog.sync(undefined, shelvesOnly)).exitCode).toBe(exitCode);
      asks.push(catalog.asked().filter(path => path.includes('/volumes')).length);
      // Any of those that are not seen may be the one that cannot be read.
      expect((await onShelf(catalog, 1)).toSorted()).toEqual(['s1-0', 's1-1', 's1-2']);
    }
    expect(asks.map(n => n > 0)).toEqual([true, true, false]);
    expect(await openRejects(catalog)).toMatchObject([{ record_id: null, ask_id: 'ada/1/volumes' }]);
  });
});

describe.concurrent('when it was', () => {
  const time = (catalog: Catalog) => new Date(catalog.now()).toISOString();
  /** What the catalog tells is cut to whole seconds. */
  const seen = (catalog: Catalog) => new Date(Math.floor(catalog.now() / 1000) * 1000 + 999).toISOString();

  test('a move is not dated before it was seen, where it did not show', async () => {
    await using catalog = await openCatalog({
      ...adaOnly,
      world: now => {
        const world = new BooksWorld({ now, moveShows: false });
        world.addUser('ada').shelves.clear();
        return world;
      },
    });
    const { world } = catalog;
    addShelf(world, 'ada', 1, 4);
    addVolumes(world, ['new']);
    catalog.pass(hourMs);
    await catalog.sync(undefined, shelvesOnly);
    const read = await asOf(catalog, 1);
    catalog.pass(hourMs);
    const added = time(catalog);
    world.add('ada', 1, 'new', 4);
    catalog.pass(5 * hourMs);
    const moved = time(catalog);
    world.move('ada', 1, 's1-0', 2);
    catalog.pass(hourMs);
    await catalog.sync(undefined, shelvesOnly);
    const dated = seen(catalog);
    expect(dated >= moved).toBe(true);
    const last = async (volume: string) => (await historyOf(catalog, volume)).at(-1);
    for (const [position, volume] of ['s1-1', 's1-2', 's1-0'].entries())
      expect(await last(volume)).toBe(`${position} [${dated}, now) after ${read}`);
    expect(await historyOf(catalog, 's1-3')).toHaveLength(1);
    expect(await historyOf(catalog, 'new')).toEqual([`4 [${added}, now) after ${read}`]);
  });
});

test.concurrent(
  'of an owner who is not mirrored any more nothing is asked, and nothing waits; when he comes back, it goes on',
  long,
  async () => {
    const both = ['ada', 'bob'];
    await using catalog = await openCatalog({ config: { library: false, users: both } });
    const { world, pool } = catalog;
    world.addUser('bob').shelves.clear();
    addShelf(world, 'ada', 1, 1, 'a');
    addShelf(world, 'bob', 2, 2, 'b');
    catalog.fault = ({ path }) =>
      path === '/volumes/b1' ? { kind: 'status', status: 404, reason: 'notFound' } : undefined;
    expect((await catalog.sync()).exitCode).toBe(3);
    catalog.pass();
    addVolumes(world, ['b2', 'b3']);
    world.add('bob', 2, 'b2');
    expect((await catalog.sync(undefined, shelvesOnly)).exitCode).toBe(0);
    const waiting = async () =>
      (await catalog.rows('select id from sync.waiting_volumes order by id')).map(({ id }) => id);
    expect(await waiting()).toEqual(['b1', 'b2']);
    catalog.pass(60 * dayMs);
    await pool.query(`update sync.rejects set next_try_at = '2026-01-01Z'`);
    catalog.asked();
    const volumeAgeMs = 30 * dayMs;
    expect((await catalog.sync({ users: ['ada'], volumeAgeMs })).exitCode).toBe(0);
    expect(catalog.asked()).toEqual([list, '/volumes/a0']);
    expect(await waiting()).toEqual([]);
    const through = await completeThrough(catalog, 'volumes');
    expect(through).toEqual(await completeThrough(catalog, 'shelves'));
    expect(through!.getTime()).toBeGreaterThan(catalog.now() - 60_000);
    expect(await catalog.rows(`select id from books.shelves where _deleted_at is not null`)).toEqual([]);

    world.add('bob', 2, 'b3');
    catalog.fault = () => undefined;
    expect((await catalog.sync({ volumeAgeMs })).exitCode).toBe(0);
    const asked = catalog.asked();
    expect(asked.filter(path => path.startsWith('/volumes/')).toSorted()).toEqual(
      ['b0', 'b1', 'b2', 'b3'].map(id => `/volumes/${id}`),
    );
    expect(await waiting()).toEqual([]);
    expect(await openRejects(catalog)).toEqual([]);
    expect(await bookDifferences(pool, world, both)).toEqual([]);
  },
);

describe.concurrent('keys and tokens', () => {
  test('403 without either: exit 4, and what to set', async () => {
    await using catalog = await openCatalog({ ...adaOnly, keyNeeded: true });
    addShelf(catalog.world, 'ada', 1, 1);
    const { apiKey, accessToken, ...books } = catalog.config().books as BooksConfig;
    expect([apiKey, accessToken]).toEqual([expect.any(String), expect.any(String)]);
    const result = await syncOnce({ ...catalog.config(), books });
    expect(result).toMatchObject({ state: 'failed', exitCode: 4 });
    expect(result.streams.map(({ exit_code }) => exit_code)).toEqual([4, 4]);
    expect(result.streams[0]!.error).toContain('403 forbidden');
    expect(result.streams[0]!.remedy).toContain('BOOKS_API_KEY');
    expect(catalog.asked()).toEqual([list]);
  });

  test('403 for one user, with a key: the others are mirrored', async () => {
    await using catalog = await openCatalog({ config: { library: false, users: ['bob', 'ada'] } });
    const { world } = catalog;
    world.addUser('bob');
    addShelf(world, 'ada', 1, 1);
    catalog.fault = ({ path }) =>
      path.startsWith('/users/bob/') ? { kind: 'status', status: 403, reason: 'forbidden' } : undefined;
    const result = await catalog.sync();
    expect(result).toMatchObject({ state: 'partial', exitCode: 3 });
    expect(result.streams.map(({ exit_code }) => exit_code)).toEqual([3, 0]);
    expect(result.streams[0]!.error).toContain('does not show the shelves of bob');
    expect(await bookDifferences(catalog.pool, world, ['ada'])).toEqual([]);
    expect(await completeThrough(catalog, 'shelves')).toBeNull();
  });

  test('a key that the catalog echoes is in no table, however it is written; what it stood in is', async () => {
    const key = 'sandbox/books-key';
    await using catalog = await openCatalog({ ...adaOnly, key });
    addShelf(catalog.world, 'ada', 1, 2);
    const echo = `${key}&again=${encodeURIComponent(key)}&lower=${encodeURIComponent(key).toLowerCase()}&json=${key.replace('/', '\\/')}`;
    catalog.fault = () =>
      text(json =>
        json
          .replaceAll('"selfLink":"', `"selfLink":"http://books.example/it?key=${echo}#`)
          // One that is rejected as it is, too.
          .replace('"id":"s1-1",', '"xd":"s1-1",'),
      );
    expect((await catalog.sync()).exitCode).toBe(3);
    const tables = await catalog.rows(
      `select format('%I.%I', table_schema, table_name) as name from information_schema.tables
       where table_schema in ('books', 'helpdesk', 'sync') and table_type = 'BASE TABLE'`,
    );
    const all = tables.map(({ name }) => `select '${name}' as name, t::text as row from ${name} t`).join(' union all ');
    expect(await catalog.rows(`select * from (${all}) a where row ~* 'sandbox.{0,5}books-key'`)).toEqual([]);
    const links = await catalog.rows(
      `select _payload ->> 'selfLink' as link from books.shelves union all
       select _payload ->> 'selfLink' from books.volumes union all select _payload ->> 'selfLink' from books.shelf_volumes`,
    );
    expect(links).toHaveLength(3);
    for (const { link } of links) expect(link).toMatch(/\?key=…&again=…&lower=…&json=…#/);
  });

  test('a token as short as a word does not redact content', async () => {
    await using catalog = await openCatalog({ token: 'Title' });
    const { world } = catalog;
    addShelf(world, 'ada', 1, 1);
    addShelf(world, world.me, 2, 1);
    expect(booksConfig(catalog.sandbox).accessToken).toBe('Title');
    expect((await catalog.sync()).exitCode).toBe(0);
    expect(await catalog.rows('select title from books.volumes order by id')).toEqual([
      { title: 'Title of s1-0' },
      { title: 'Title of s2-0' },
    ]);
    expect(await catalog.differences()).toEqual([]);
  });
});

test.concurrent(
  'a day that is spent is tried again by a sync and a backfill of the catalog, not by those of tickets',
  long,
  async () => {
    await using catalog = await openCatalog({ ...adaOnly, helpdesk: { tickets: 1 } });
    addShelf(catalog.world, 'ada', 1, 1);
    catalog.fault = () => ({ kind: 'status', status: 403, reason: 'dailyLimitExceeded' });
    const frozenUntil = async () =>
      Number(
        (await catalog.rows(`select state -> 'frozenUntilMs' as until from sync.budget where source = 'books'`))[0]!
          .until,
      );
    expect((await catalog.sync(undefined, shelvesOnly)).exitCode).toBe(3);
    const until = await frozenUntil();
    expect(until).toBeGreaterThan(Date.now() + 60_000);
    catalog.asked();
    expect((await catalog.sync(undefined, ['tickets'])).exitCode).toBe(0);
    expect((await backfillAlone(catalog.config(), ['tickets'])).exitCode).toBe(0);
    expect(await frozenUntil()).toBe(until);
    expect((await backfillAlone(catalog.config(), shelvesOnly)).exitCode).toBe(3);
    expect(catalog.asked()).toEqual([list]);
    catalog.fault = () => undefined;
    expect((await catalog.sync(undefined, shelvesOnly)).exitCode).toBe(0);
    expect(await frozenUntil()).toBeLessThan(Date.now());
    expect(await bookDifferences(catalog.pool, catalog.world, ['ada'])).not.toContain('shelves ada/1: missing');
  },
);
