/**
 * The mirror of the book catalog against the sandbox, end to end: real HTTP, real PostgreSQL. What is read, and when: each
 * request is counted, since a thousand are all that there are in a day.
 */
import { describe, expect, test } from 'vitest';
import { generateBooks } from '../../packages/sandbox/src/books/content/generate.ts';
import { LAST_RESERVED_ID } from '../../packages/sandbox/src/books/records.ts';
import { Interrupted } from '../../src/errors.ts';
import { backfillAlone } from '../support/alone.ts';
import { addShelf, bookDifferences, openCatalog, ownersOf, placesOf } from '../support/books.ts';
import { long } from '../support/long.ts';
import { differences, syncOnce } from '../support/mirror.ts';

const users = ['118446744073709551615', '42'];

/** A reading of its pages and of the end, a second one that agrees, and a look whether the shelf says the same still; before it one, where the list does not say. */
const readings = (volumes: number, says: boolean) =>
  volumes === 0 ? 1 : 2 * Math.ceil(volumes / 40) + 1 + (says ? 1 : 2);

describe.concurrent.for([true, false])('lists of shelves say when: %s', shelfDates => {
  test(
    'a first load is equal at the expected cost; a sync without changes costs a request for each list and writes nothing',
    shelfDates ? {} : long,
    async () => {
      await using catalog = await openCatalog({
        shelfDates,
        config: { users },
        world: now => generateBooks({ now, volumes: 90, seed: 4 }),
      });
      const { world, sandbox, pool } = catalog;
      const owners = ownersOf(catalog.config());
      const visible = [
        ...world.user(world.me).shelves.values(),
        ...users.flatMap(user => [...world.user(user).shelves.values()].filter(({ access }) => access === 'PUBLIC')),
      ];
      const volumes = new Set(visible.flatMap(shelf => shelf.volumes));
      expect(world.shelf(world.me, LAST_RESERVED_ID + 1).volumes.length).toBeGreaterThan(40);

      const first = await catalog.sync();
      expect(first).toMatchObject({ state: 'completed', exitCode: 0 });
      expect(await bookDifferences(pool, world, owners, { shelfDates })).toEqual([]);
      const asked = catalog.asked();
      const least = owners.length + visible.reduce((sum, shelf) => sum + readings(shelf.volumes.length, shelfDates), 0);
      expect(asked.length).toBe(least + volumes.size);
      // Each volume once, on however many shelves it is.
      expect(new Set(asked.filter(path => path.startsWith('/volumes/'))).size).toBe(volumes.size);
      expect(first.streams.reduce((sum, { credits }) => sum + credits, 0)).toBe(sandbox.books.totals.requests);

      catalog.pass();
      const before = await placesOf(pool);
      const second = await catalog.sync();
      expect(second.streams.map(s => [s.stream, s.inserted, s.updated, s.deleted])).toEqual([
        ['shelves', 0, 0, 0],
        ['volumes', 0, 0, 0],
      ]);
      expect(await placesOf(pool)).toEqual(before);
      const looks = shelfDates ? 0 : visible.filter(shelf => shelf.volumes.length > 0).length;
      expect(catalog.asked().length).toBe(owners.length + looks);
    },
  );
});

test.concurrent('what is odd about a volume: every column, exactly', long, async () => {
  await using catalog = await openCatalog({ config: { users: [], country: 'DE' } });
  const { world } = catalog;
  const price = (amount: string, currencyCode: string) => ({ amount, currencyCode });
  const long = 'What the tide takes. '.repeat(40);
  world.addVolume({
    id: 'full',
    cover: true,
    info: {
      title: '𠮷野川の渡し',
      subtitle: '',
      authors: ['N.N.', 'N.N.', ''],
      publisher: 'Eastmere',
      publishedDate: '2019-10-03T00:00:00+02:00',
      description: long,
      industryIdentifiers: [
        { type: 'OTHER', identifier: 'X:1' },
        { type: 'ISBN_10', identifier: '155404295X' },
        { type: 'ISBN_13', identifier: '9781554042951' },
      ],
      pageCount: 312,
      printType: 'BOOK',
      categories: ['Rivers'],
      averageRating: 4.5,
      ratingsCount: 2,
      maturityRating: 'NOT_MATURE',
      language: 'ja',
    },
    saleInfo: {
      saleability: 'FOR_SALE',
      isEbook: true,
      listPrice: price('1.334E7', 'IDR'),
      retailPrice: price('9007199254740993', 'VND'),
    },
  });
  world.addVolume({ id: 'bare', info: { title: '', pageCount: 0, publishedDate: '19??' } });
  world.addVolume({
    id: 'cents',
    info: { title: 'Cents', authors: [], publishedDate: '1999-05', description: '' },
    saleInfo: { saleability: 'FREE', isEbook: true, listPrice: price('0.10', 'EUR') },
  });
  world.createShelf(world.me, { id: 1, volumes: ['full', 'bare', 'cents'] });
  expect((await catalog.sync()).exitCode).toBe(0);
  const nothing = {
    subtitle: null,
    authors: null,
    publisher: null,
    published_year: null,
    description: null,
    isbn_10: null,
    isbn_13: null,
    page_count: null,
    print_type: null,
    categories: null,
    average_rating: null,
    ratings_count: null,
    maturity_rating: null,
    language: null,
    list_price: null,
    list_price_currency: null,
    retail_price: null,
    retail_price_currency: null,
    saleability: null,
    viewability: 'NO_PAGES',
    country: null,
    thumbnail: null,
  };
  const rows = await catalog.rows(
    `select to_jsonb(v) - '{account_id,_payload,_first_seen_at,_synced_at,_observed_at,_checked_at}'::text[]
         || jsonb_build_object('list_price', list_price::text, 'retail_price', retail_price::text) as row
       from books.volumes v order by id`,
  );
  const always = { _detail: 'full', _waits_since: null, _deleted_at: null };
  const link = (id: string) => `https://books.example/books/about/_.html?id=${id}`;
  expect(rows.map(({ row }) => row)).toEqual([
    { ...nothing, ...always, id: 'bare', title: '', published_date: '19??', canonical_link: link('bare') },
    {
      ...nothing,
      ...always,
      ...{ id: 'cents', title: 'Cents', authors: [], published_date: '1999-05', published_year: 1999, description: '' },
      ...{ list_price: '0.10', list_price_currency: 'EUR', saleability: 'FREE', country: 'DE' },
      canonical_link: link('cents'),
    },
    {
      ...always,
      ...{ id: 'full', title: '𠮷野川の渡し', subtitle: '', authors: ['N.N.', 'N.N.', ''], publisher: 'Eastmere' },
      ...{ published_date: '2019-10-03T00:00:00+02:00', published_year: 2019, description: long, language: 'ja' },
      ...{
        isbn_10: '155404295X',
        isbn_13: '9781554042951',
        page_count: 312,
        print_type: 'BOOK',
        categories: ['Rivers'],
      },
      ...{ average_rating: 4.5, ratings_count: 2, maturity_rating: 'NOT_MATURE', viewability: 'NO_PAGES' },
      ...{ list_price: '13340000', list_price_currency: 'IDR', saleability: 'FOR_SALE', country: 'DE' },
      ...{ retail_price: '9007199254740993', retail_price_currency: 'VND', canonical_link: link('full') },
      thumbnail: expect.stringMatching(/^http:.*zoom=1/),
    },
  ]);

  // The payload is the reply, number by number, without what varies.
  const { url, key } = catalog.sandbox.books;
  const reply = await fetch(`${url}/volumes/full?country=DE&key=${key}`);
  const [same] = await catalog.rows(
    `select _payload = $1::jsonb - 'etag' - 'searchInfo' #- '{volumeInfo,previewLink}' #- '{volumeInfo,infoLink}'
         #- '{volumeInfo,imageLinks}' as same, _payload #>> '{saleInfo,listPrice,amount}' as amount
       from books.volumes where id = 'full'`,
    [await reply.text()],
  );
  expect(same).toEqual({ same: true, amount: '13340000' });
});

describe.concurrent('the list of a shelf, and the volume itself', () => {
  test(
    'a row of a list never replaces the full record; if the row has changed, the volume is fetched again',
    long,
    async () => {
      await using catalog = await openCatalog();
      const { world, pool } = catalog;
      const { volumes } = addShelf(world, 'ada', 1, 3);
      world.createShelf(world.me, { id: 1, volumes });
      await catalog.sync();
      catalog.asked();
      const full = await placesOf(pool, `name = 'volumes'`);

      // Etags and links are others each time that the shelf is read: they say nothing.
      catalog.pass();
      expect((await catalog.sync({ shelfAgeMs: 0 })).exitCode).toBe(0);
      expect(catalog.asked().filter(path => path.startsWith('/volumes/'))).toEqual([]);
      expect(await placesOf(pool, `name = 'volumes'`)).toEqual(full);

      // Behind the place where lists cut the description: nobody can see it there.
      const { description } = world.volume('s1-0').info;
      world.changeVolume('s1-0', { description: `${description} The end.` });
      world.changeVolume('s1-1', { subtitle: 'A changed one' });
      catalog.pass();
      await catalog.sync({ shelfAgeMs: 0 }, ['shelves']);
      catalog.asked();
      expect(
        await catalog.rows('select id, subtitle, description, language, _detail from books.volumes order by id'),
      ).toEqual(
        ['s1-0', 's1-1', 's1-2'].map(id => ({
          ...{ id, subtitle: null, language: 'en', _detail: 'full' },
          description: `All about ${id}. `.repeat(30),
        })),
      );
      expect(await catalog.rows(`select id from sync.waiting_volumes`)).toEqual([{ id: 's1-1' }]);
      await catalog.sync();
      expect(catalog.asked()).toEqual(['/users/ada/bookshelves', '/mylibrary/bookshelves', '/volumes/s1-1']);
      catalog.pass();
      await catalog.sync({ shelfAgeMs: 0 });
      expect(catalog.asked().filter(path => path.startsWith('/volumes/'))).toEqual([]);
      expect(await catalog.differences()).toEqual([expect.stringContaining('volumes s1-0: ')]);

      // After a while each is asked for again, and only what has changed is written.
      const before = await placesOf(pool, `name <> 'volumes'`);
      catalog.pass();
      await catalog.sync({ volumeAgeMs: 1000 });
      expect(catalog.asked().slice(2).sort()).toEqual(['/volumes/s1-0', '/volumes/s1-1', '/volumes/s1-2']);
      expect(await catalog.differences()).toEqual([]);
      expect(await placesOf(pool, `name <> 'volumes'`)).toEqual(before);
      await catalog.sync({ volumeAgeMs: 60_000 });
      expect(catalog.asked()).toEqual(['/users/ada/bookshelves', '/mylibrary/bookshelves']);
    },
  );

  test('newest shelves first, there by their places; what has left its shelf before is not asked for', async () => {
    await using catalog = await openCatalog();
    const { world } = catalog;
    addShelf(world, 'ada', 1, 2, 'old');
    catalog.pass();
    addShelf(world, world.me, 1, 3, 'new');
    await catalog.sync(undefined, ['shelves']);
    catalog.asked();
    world.remove(world.me, 1, 'new1');
    await catalog.sync();
    expect(catalog.asked().filter(path => path.startsWith('/volumes/'))).toEqual(
      ['new0', 'new2', 'old0', 'old1'].map(id => `/volumes/${id}`),
    );
  });
});

describe.concurrent('backfill --again', () => {
  test('reads every shelf and every volume once more, and none twice when it is interrupted', async () => {
    await using catalog = await openCatalog();
    const { world, pool } = catalog;
    addShelf(world, 'ada', 1, 3);
    addShelf(world, 'ada', 2, 2);
    addShelf(world, world.me, 1, 2, 'mine');
    await catalog.sync();
    catalog.asked();
    catalog.pass();
    const places = await placesOf(pool, `name <> 'volumes'`);
    const stop = new AbortController();
    catalog.before = ({ path }) => {
      if (path === '/volumes/s1-1') stop.abort(new Interrupted());
    };
    const first = await catalog.again(stop.signal);
    expect(first).toMatchObject({ state: 'interrupted', exitCode: 130 });
    catalog.before = () => {};
    const second = await catalog.again();
    expect(second).toMatchObject({ run: first.run, state: 'completed', exitCode: 0 });
    const volumes = ['s1-0', 's1-1', 's1-2', 's2-0', 's2-1', 'mine0', 'mine1'].map(id => `/volumes/${id}`);
    const shelf = (path: string, count: number) => [path, `${path}?${count}`];
    expect(catalog.asked().sort()).toEqual(
      [
        ...['/users/ada/bookshelves', '/mylibrary/bookshelves'],
        // What is known counts as the first of two readings.
        ...shelf('/users/ada/bookshelves/1/volumes', 3),
        ...shelf('/users/ada/bookshelves/2/volumes', 2),
        ...shelf('/mylibrary/bookshelves/1/volumes', 2),
        ...volumes,
      ].sort(),
    );
    expect(await placesOf(pool, `name <> 'volumes'`)).toEqual(places);
    expect(await catalog.differences()).toEqual([]);
    const third = await catalog.again();
    expect(third.run).not.toBe(first.run);
    expect(catalog.asked().filter(path => path.startsWith('/volumes/')).length).toBe(7);
  });

  test('interrupted among the shelves, it goes on with those that it has not read', long, async () => {
    await using catalog = await openCatalog();
    for (const id of [1, 2, 3]) addShelf(catalog.world, 'ada', id, 1);
    await catalog.sync();
    catalog.asked();
    catalog.pass();
    const stop = new AbortController();
    catalog.before = ({ path }) => {
      if (path === '/users/ada/bookshelves/2/volumes') stop.abort(new Interrupted());
    };
    expect((await catalog.again(stop.signal)).exitCode).toBe(130);
    expect((await catalog.again()).exitCode).toBe(0);
    const read = catalog.asked().filter(path => path.endsWith('/volumes'));
    expect(read.sort()).toEqual([1, 2, 3].map(id => `/users/ada/bookshelves/${id}/volumes`));
  });
});

describe.concurrent('what is configured', () => {
  const statusOf = 'select stream, source, complete_through is not null as complete from sync.status order by stream';

  test('the catalog alone, and then another owner: what is not read any more is not claimed', async () => {
    await using catalog = await openCatalog({ config: { library: false } });
    const { world } = catalog;
    addShelf(world, 'ada', 1, 1);
    addShelf(world, world.me, 1, 1, 'mine');
    const result = await catalog.sync();
    expect(result.streams.map(({ stream, state }) => [stream, state])).toEqual([
      ['shelves', 'completed'],
      ['volumes', 'completed'],
    ]);
    expect(await catalog.rows(statusOf)).toEqual([
      { stream: 'shelves', source: 'books', complete: true },
      { stream: 'volumes', source: 'books', complete: true },
    ]);
    const lists = `select list, not isempty(covered) as covered from sync.coverage where stream = 'shelves' order by 1`;
    expect(await catalog.rows(lists)).toEqual([{ list: 'ada', covered: true }]);
    await catalog.sync({ users: [], library: true });
    expect(await catalog.rows(lists)).toEqual([{ list: 'mylibrary', covered: true }]);
    expect((await catalog.rows('select 1 from books.shelves where _deleted_at is null')).length).toBe(2);
    expect(await bookDifferences(catalog.pool, world)).toEqual([]);
  });

  test('an owner whom the catalog does not show leaves the rest as it is, and the run says so', async () => {
    await using catalog = await openCatalog({ config: { users: ['nobody', 'ada'] } });
    addShelf(catalog.world, 'ada', 1, 2);
    const result = await catalog.sync();
    expect(result).toMatchObject({ state: 'partial', exitCode: 3 });
    expect(result.streams[0]!.error).toContain('does not show the shelves of nobody');
    expect(await bookDifferences(catalog.pool, catalog.world, ['ada', 'mylibrary'])).toEqual([]);
    expect(await catalog.rows(statusOf)).toMatchObject([{ complete: false }, { complete: false }]);
  });

  test('the help desk alone, and both of them', async () => {
    await using catalog = await openCatalog({ helpdesk: { tickets: 3 } });
    addShelf(catalog.world, 'ada', 1, 1);
    const alone = await syncOnce({ ...catalog.config(), books: undefined });
    const desk = ['users', 'customers', 'tickets', 'messages'];
    expect(alone.streams.map(({ stream }) => stream)).toEqual(desk);
    expect((await catalog.rows(statusOf)).map(({ stream }) => stream)).toEqual(desk.toSorted());
    expect(catalog.asked()).toEqual([]);
    const both = await catalog.sync();
    expect(both.streams.map(({ stream, state }) => [stream, state])).toEqual(
      [...desk, 'shelves', 'volumes'].map(stream => [stream, 'completed']),
    );
    expect(await catalog.differences()).toEqual([]);
    expect(await differences(catalog.pool, catalog.sandbox.world)).toEqual([]);
    // Without --again there is nothing of the catalog that a backfill could fill.
    catalog.asked();
    expect((await backfillAlone(catalog.config(), ['shelves'])).exitCode).toBe(0);
    expect(catalog.asked()).toEqual(['/users/ada/bookshelves', '/mylibrary/bookshelves']);
  });
});
