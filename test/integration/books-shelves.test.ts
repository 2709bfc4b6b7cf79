/**
 * Shelves that change while they are read, and shelves that go: what is taken for the truth, what is left as it was known.
 */
import { describe, expect, test } from 'vitest';
import { BooksWorld } from '../../packages/sandbox/src/books/world.ts';
import { addShelf, addVolumes, asOf, bookDifferences, historyOf, openCatalog, placesOf } from '../support/books.ts';
import { long } from '../support/long.ts';

const listOf = (path: string) => /^\/(?:users\/)?(\w+)\/bookshelves\/(\d+)\/volumes/.exec(path);

describe.concurrent('a shelf that changes while it is read', () => {
  test('one that never settles is left as it was known, and said; the others are right, and later it is as well', async () => {
    await using catalog = await openCatalog();
    const { world, pool } = catalog;
    addShelf(world, 'ada', 1, 4);
    addShelf(world, 'ada', 2, 2);
    addVolumes(world, ['x']);
    await catalog.sync();
    const through = () => catalog.rows('select complete_through from sync.status');
    const before = await through();
    catalog.pass();
    const known = await placesOf(pool, `name like 'shelf_volume%' and row ->> 'shelf_id' = '1'`);
    world.add('ada', 2, 'x');
    world.move('ada', 1, 's1-0', 2);
    catalog.asked();
    catalog.before = ({ path }) => {
      if (path.endsWith('/1/volumes')) world.move('ada', 1, world.shelf('ada', 1).volumes[3]!, 0);
    };
    const result = await catalog.sync();
    expect(result).toMatchObject({ state: 'partial', exitCode: 3 });
    expect(result.streams[0]).toMatchObject({ state: 'partial', error: 'shelf 1 of ada moved while it was read' });
    expect(await placesOf(pool, `name like 'shelf_volume%' and row ->> 'shelf_id' = '1'`)).toEqual(known);
    // A bound: some readings, of a page and its end.
    expect(catalog.asked().filter(path => path.includes('/1/volumes')).length).toBeLessThan(20);
    expect(await through()).toEqual(before);
    catalog.before = () => {};
    catalog.pass();
    expect((await catalog.sync()).exitCode).toBe(0);
    expect(await catalog.differences()).toEqual([]);
    const times = (rows: Record<string, unknown>[]) => rows.map(row => (row.complete_through as Date).getTime());
    expect(Math.min(...times(await through()))).toBeGreaterThan(Math.max(...times(before)));
  });

  test('one that is gone when it is read leaves the others as they are, and is marked as deleted by the next run', async () => {
    await using catalog = await openCatalog();
    const { world } = catalog;
    addShelf(world, 'ada', 1, 2);
    addShelf(world, 'ada', 1001, 2);
    catalog.before = ({ path }) => {
      if (listOf(path)?.[2] === '1001' && world.user('ada').shelves.has(1001)) world.deleteShelf('ada', 1001);
    };
    const first = await catalog.sync();
    expect(first).toMatchObject({ state: 'partial', exitCode: 3 });
    expect(first.streams[0]!.error).toContain('shelf 1001 of ada was gone');
    expect((await catalog.sync()).exitCode).toBe(0);
    expect(await catalog.differences()).toEqual([]);
  });
});

test('a second change within the second of the reading is found, though Date is ahead', async () => {
  await using catalog = await openCatalog({ config: { library: false } });
  const { world } = catalog;
  addShelf(world, 'ada', 1, 3);
  await catalog.sync();
  // The database's clock is a witness: it does not reach this second while the test runs. A whole one: so the catalog writes it.
  catalog.pass((Math.floor(Date.now() / 1000) + 60) * 1000 - catalog.now());
  world.clock.jumpDate(180_000);
  world.move('ada', 1, 's1-0', 2);
  await catalog.sync();
  world.move('ada', 1, 's1-1', 2);
  await catalog.sync();
  expect(await bookDifferences(catalog.pool, world, ['ada'])).toEqual([]);
});

test('silent moves on shelves are known up to the oldest reading of one of them', async () => {
  await using catalog = await openCatalog();
  addShelf(catalog.world, 'ada', 1, 2);
  addShelf(catalog.world, 'ada', 2, 2);
  await catalog.sync();
  const known = async () => (await catalog.rows(`select sync.unchecked_since('default', 'shelves') as at`))[0]!.at;
  await catalog.rows(`update sync.shelf_readings set as_of = '2020-01-01' where shelf_id = '2'`);
  expect(await known()).toEqual(new Date('2020-01-01'));
  await catalog.rows(`delete from sync.shelf_readings where shelf_id = '2'`);
  expect(await known()).toBeNull();
});

test('a volume that has changed is asked for once, when the first of its shelves shows it, were that a new one', async () => {
  await using catalog = await openCatalog({ config: { library: false } });
  const { world } = catalog;
  const { volumes } = addShelf(world, 'ada', 1, 2);
  world.createShelf('ada', { id: 2, access: 'PUBLIC' });
  await catalog.sync();
  catalog.pass();
  world.changeVolume('s1-0', { subtitle: 'A changed one' });
  for (const id of volumes) world.add('ada', 2, id);
  catalog.asked();
  const volumesAsked = () => catalog.asked().filter(path => path.startsWith('/volumes/'));
  await catalog.sync();
  expect(volumesAsked()).toEqual(['/volumes/s1-0']);
  expect(await bookDifferences(catalog.pool, world, ['ada'])).toEqual([]);
  catalog.pass();
  await catalog.sync({ shelfAgeMs: 0 });
  expect(volumesAsked()).toEqual([]);
});

describe.concurrent('a shelf that is not in the list any more', () => {
  const shelves = 'select id, _deleted_at is not null as deleted from books.shelves order by id';

  test('is looked at by its id, and marked as deleted; one that comes back is read anew', async () => {
    await using catalog = await openCatalog();
    const { world } = catalog;
    addShelf(world, 'ada', 1, 1);
    const { volumes } = addShelf(world, 'ada', 1001, 2);
    await catalog.sync();
    catalog.pass();
    const read = await asOf(catalog, 1001);
    world.deleteShelf('ada', 1001);
    const deleted = catalog.now();
    catalog.asked();
    expect((await catalog.sync()).exitCode).toBe(0);
    expect(catalog.asked()).toEqual([
      '/users/ada/bookshelves',
      '/users/ada/bookshelves/1001',
      '/mylibrary/bookshelves',
    ]);
    expect(await catalog.rows(shelves)).toEqual([
      { id: '1', deleted: false },
      { id: '1001', deleted: true },
    ]);
    expect(await catalog.differences()).toEqual([]);
    const ended = await catalog.rows(
      `select position, change_after, valid_from from books.shelf_volume_history
       where shelf_id = '1001' and valid_to is null`,
    );
    expect(ended).toMatchObject(volumes.map(() => ({ position: null, change_after: new Date(read) })));
    expect(ended.every(({ valid_from }) => (valid_from as Date).getTime() >= deleted)).toBe(true);

    catalog.pass();
    world.createShelf('ada', { id: 1001, title: 'Back', access: 'PUBLIC', volumes: volumes.toReversed() });
    expect((await catalog.sync()).exitCode).toBe(0);
    expect(await catalog.differences()).toEqual([]);
    expect(await catalog.rows(shelves)).toMatchObject([{ deleted: false }, { deleted: false }]);
    expect((await historyOf(catalog, 's1001-0')).map(row => row.split(' ')[0])).toEqual(['0', 'null', '1']);
  });

  test('one that has become private is gone from what is public, and stays in the own library', long, async () => {
    await using catalog = await openCatalog({
      config: { users: ['me', 'ada'] },
      world: now => {
        const world = new BooksWorld({ now, me: 'me' });
        world.addUser('ada');
        for (const { shelves } of world.users.values()) shelves.clear();
        return world;
      },
    });
    const { world } = catalog;
    addShelf(world, 'me', 1001, 2);
    await catalog.sync();
    catalog.pass();
    world.changeShelf('me', 1001, { access: 'PRIVATE' });
    expect((await catalog.sync()).exitCode).toBe(0);
    expect(
      await catalog.rows('select owner_id, access, _deleted_at is null as there from books.shelves order by 1'),
    ).toEqual([
      { owner_id: 'me', access: 'PUBLIC', there: false },
      { owner_id: 'mylibrary', access: 'PRIVATE', there: true },
    ]);
    expect(await bookDifferences(catalog.pool, world, ['me', 'ada', 'mylibrary'])).toEqual([]);
    world.changeShelf('me', 1001, { access: 'PUBLIC' });
    expect((await catalog.sync()).exitCode).toBe(0);
    expect(await bookDifferences(catalog.pool, world, ['me', 'ada', 'mylibrary'])).toEqual([]);
  });

  test('a list that comes back without items once deletes nothing, and the run says so', async () => {
    await using catalog = await openCatalog();
    const { world, pool } = catalog;
    addShelf(world, 'ada', 1, 2);
    addShelf(world, 'ada', 1001, 1);
    await catalog.sync();
    catalog.pass();
    const before = await placesOf(pool);
    let left = 1;
    catalog.fault = ({ path }) =>
      path === '/users/ada/bookshelves' && left-- > 0
        ? { kind: 'body', edit: () => ({ kind: 'books#bookshelves', totalItems: 0 }) }
        : undefined;
    const result = await catalog.sync();
    expect(result).toMatchObject({ state: 'partial', exitCode: 3 });
    expect(result.streams[0]!.error).toContain('leaves out shelf 1, which is there');
    expect(await placesOf(pool)).toEqual(before);
    expect((await catalog.sync()).exitCode).toBe(0);
    expect(await placesOf(pool)).toEqual(before);
  });

  test('where it cannot be looked at by its id, a second list has to lack it as well', async () => {
    await using catalog = await openCatalog();
    const { world } = catalog;
    addShelf(world, 'ada', 1, 1);
    addShelf(world, 'ada', 1001, 1);
    addShelf(world, 'ada', 1002, 1);
    await catalog.sync();
    catalog.pass();
    world.deleteShelf('ada', 1001);
    // Every page of the first list lacks it.
    let isListed = false;
    const without = (id: number) => (json: unknown) => ({
      items: (json as { items: { id: number }[] }).items.filter(shelf => shelf.id !== id),
    });
    catalog.fault = ({ path }) => {
      if (/\/100.$/.test(path)) {
        isListed = true;
        return { kind: 'status', status: 503, reason: 'backendFailed' };
      }
      return path === '/users/ada/bookshelves' && !isListed ? { kind: 'body', edit: without(1002) } : undefined;
    };
    const result = await catalog.sync();
    expect(result.streams[0]!.error).toContain('showed shelf 1002 only the second time');
    expect(await catalog.rows(shelves)).toMatchObject([
      { deleted: false },
      { id: '1001', deleted: true },
      { deleted: false },
    ]);
    expect(await catalog.differences()).toEqual([]);
  });
});
