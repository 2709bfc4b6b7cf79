/** What stood where, and since when: the time of each change, and how exactly it is known. */
import { describe, expect, test } from 'vitest';
import { BooksWorld } from '../../packages/sandbox/src/books/world.ts';
import { addShelf, addVolumes, asOf, bookDifferences, historyOf, openCatalog } from '../support/books.ts';

describe.concurrent('what was where, and since when', () => {
  test('put in front, taken off, put back: times as the shelf says them, after the reading before', async () => {
    await using catalog = await openCatalog({ config: { library: false } });
    const { world } = catalog;
    addShelf(world, 'ada', 1, 2);
    addVolumes(world, ['new']);
    const time = () => new Date(catalog.now()).toISOString();
    const t0 = time();
    catalog.pass();
    await catalog.sync();
    const times: Record<'read' | 'changed', string>[] = [];
    const change = async (make: () => void) => {
      catalog.pass();
      make();
      times.push({ changed: time(), read: await asOf(catalog, 1) });
      catalog.pass();
      expect((await catalog.sync()).exitCode).toBe(0);
      expect(await bookDifferences(catalog.pool, world, ['ada'])).toEqual([]);
    };
    await change(() => world.add('ada', 1, 'new'));
    await change(() => world.remove('ada', 1, 's1-0'));
    const [gone] = await catalog.rows(
      `select position, _removed_at, _synced_at <> _first_seen_at as again from books.shelf_volumes where volume_id = 's1-0'`,
    );
    expect(gone).toEqual({ position: 1, _removed_at: new Date(times[1]!.changed), again: true });
    await change(() => world.add('ada', 1, 's1-0', 2));
    const [t1, t2, t3] = times as [(typeof times)[0], (typeof times)[0], (typeof times)[0]];
    expect(await historyOf(catalog, 's1-0')).toEqual([
      `0 [${t0}, ${t1.changed}) after never`,
      `1 [${t1.changed}, ${t2.changed}) after ${t1.read}`,
      `null [${t2.changed}, ${t3.changed}) after ${t2.read}`,
      `2 [${t3.changed}, now) after ${t3.read}`,
    ]);
    expect(await historyOf(catalog, 's1-1')).toEqual([
      `1 [${t0}, ${t1.changed}) after never`,
      `2 [${t1.changed}, ${t2.changed}) after ${t1.read}`,
      `1 [${t2.changed}, now) after ${t2.read}`,
    ]);
    expect(await historyOf(catalog, 'new')).toEqual([`0 [${t1.changed}, now) after ${t1.read}`]);
    expect(new Set(times.map(({ read }) => read)).size).toBe(3);
  });

  test('a shelf that does not show its moves is read when it has come of age', async () => {
    await using catalog = await openCatalog({
      config: { library: false },
      world: now => {
        const world = new BooksWorld({ now, moveShows: false });
        world.addUser('ada').shelves.clear();
        return world;
      },
    });
    const { world } = catalog;
    addShelf(world, 'ada', 1, 3);
    await catalog.sync();
    catalog.pass();
    const read = await asOf(catalog, 1);
    world.move('ada', 1, 's1-0', 2);
    await catalog.sync({ shelfAgeMs: 2 * 3_600_000 });
    expect((await bookDifferences(catalog.pool, world, ['ada'])).length).toBe(6);
    expect(await asOf(catalog, 1)).toBe(read);
    await catalog.sync({ shelfAgeMs: 3_600_000 });
    expect(await bookDifferences(catalog.pool, world, ['ada'])).toEqual([]);
    const [row] = await catalog.rows(
      `select position, valid_from, change_after from books.shelf_volume_history where volume_id = 's1-0' and valid_to is null`,
    );
    expect(row).toMatchObject({ position: 2, change_after: new Date(read) });
    // It happened just now, and the catalog writes its time in whole seconds.
    const lateMs = (row!.valid_from as Date).getTime() - catalog.now();
    expect([lateMs >= 0, lateMs < 1000]).toEqual([true, true]);
  });

  test('a move between the list of shelves and the reading is not dated as the list says', async () => {
    await using catalog = await openCatalog({ config: { library: false } });
    const { world } = catalog;
    addShelf(world, 'ada', 1, 3);
    await catalog.sync();
    catalog.pass();
    world.move('ada', 1, 's1-0', 2);
    let movedMs: number | undefined;
    catalog.before = ({ path }) => {
      if (movedMs !== undefined || !path.endsWith('/volumes')) return;
      catalog.pass(5000);
      world.move('ada', 1, 's1-2', 0);
      movedMs = catalog.now();
    };
    await catalog.sync();
    const [row] = await catalog.rows(
      `select position, valid_from from books.shelf_volume_history where volume_id = 's1-2' and valid_to is null`,
    );
    expect(row!.position).toBe(0);
    expect((row!.valid_from as Date).getTime()).toBeGreaterThanOrEqual(movedMs!);
  });
});
