/** What stood where, and since when: the time of each change, and how exactly it is known. */
import { describe, expect, test } from 'vitest';
import { BooksWorld } from '../../packages/sandbox/src/books/world.ts';
import { between, makeRng, pick } from '../../packages/sandbox/src/random.ts';
import { addShelf, addVolumes, asOf, bookDifferences, historyOf, openCatalog } from '../support/books.ts';
import { long } from '../support/long.ts';

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

  /** Where a volume stood: what the world knew, and what is written down. */
  type Told = { at: number; position: number | null }[];

  describe.for([
    { seed: 7, moveShows: false, during: false },
    { seed: 3, moveShows: true, during: true },
  ])('%o', ({ seed, moveShows, during }) =>
    test('each change happened after change_after, and by valid_from', long, async () => {
      const rng = makeRng(seed);
      await using catalog = await openCatalog({
        config: { library: false, shelfAgeMs: moveShows ? 1e12 : 0 },
        world: now => {
          const world = new BooksWorld({ now, moveShows });
          world.addUser('ada').shelves.clear();
          return world;
        },
      });
      const { world } = catalog;
      addShelf(world, 'ada', 1, 6);
      const { volumes } = addShelf(world, 'ada', 2, 5);
      const spare = addVolumes(world, ['x', 'y', 'z']);
      const told = new Map<string, Told>();
      const note = () => {
        for (const id of [1, 2]) {
          for (const volume of [...world.volumes.keys()]) {
            const key = `${id}/${volume}`;
            const place = world.shelf('ada', id).volumes.indexOf(volume);
            const position = place < 0 ? null : place;
            const before = told.get(key) ?? [];
            if (before.length > 0 || position !== null)
              if (before.length === 0 || before.at(-1)!.position !== position)
                told.set(key, [...before, { at: catalog.now(), position }]);
          }
        }
      };
      const change = () => {
        const shelf = world.shelf('ada', pick(rng, [1, 2]));
        // A move that does not show, beside something that does, looks as if it had come with that.
        const kind = moveShows ? pick(rng, ['add', 'remove', 'move', 'move']) : 'move';
        const absent = [...volumes, ...spare].filter(id => !shelf.volumes.includes(id));
        if (kind === 'add' && absent.length > 0) world.add('ada', shelf.id, pick(rng, absent), between(rng, 0, 3));
        else if (kind === 'remove' && shelf.volumes.length > 2) world.remove('ada', shelf.id, pick(rng, shelf.volumes));
        else world.move('ada', shelf.id, pick(rng, shelf.volumes), between(rng, 0, 3));
        note();
      };
      note();
      for (let round = 0; round < 6; round++) {
        await catalog.sync(undefined, ['shelves']);
        catalog.pass(between(rng, 5000, 60_000));
        for (let changes = between(rng, 0, 3); changes > 0; changes--) {
          change();
          catalog.pass(between(rng, 0, 20_000));
        }
        let left = during ? 2 : 0;
        catalog.before = () => {
          if (left > 0 && rng() < 0.5) {
            left--;
            catalog.pass(between(rng, 0, 900));
            change();
          }
          catalog.pass(between(rng, 0, 900));
        };
      }
      catalog.before = () => {};
      catalog.pass();
      await catalog.sync({ shelfAgeMs: 0 });
      expect(await bookDifferences(catalog.pool, world, ['ada'])).toEqual([]);

      const rows = await catalog.rows(
        `select shelf_id || '/' || volume_id as key, position, change_after, valid_from from books.shelf_volume_history`,
      );
      expect(rows.length).toBeGreaterThan(11);
      const wrong = rows.filter(({ key, position, change_after, valid_from }) => {
        const [after, by] = [(change_after as Date | null)?.getTime() ?? 0, (valid_from as Date).getTime()];
        return !told.get(key as string)!.some(one => one.position === position && after < one.at && one.at <= by);
      });
      expect(wrong.map(row => [row, told.get(row.key as string)])).toEqual([]);
    }),
  );
});
