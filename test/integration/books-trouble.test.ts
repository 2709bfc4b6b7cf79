/** A catalog in trouble: what fails, what is refused, what cannot be stored. Everything else goes on. */
import { describe, expect, test } from 'vitest';
import type { Fault } from '../../packages/sandbox/src/server.ts';
import { servedBy } from '../../src/cli/choose-account.ts';
import { transaction } from '../../src/engine/database/pool.ts';
import { wakeBackfills } from '../../src/engine/runs/ranges.ts';
import { readStatus, type StreamStatus } from '../../src/status/streams.ts';
import { backfillAlone } from '../support/alone.ts';
import { addShelf, addVolumes, bookDifferences, type Catalog, dayMs, openCatalog, placesOf } from '../support/books.ts';
import { long } from '../support/long.ts';
import { differences } from '../support/mirror.ts';

const rejects = (catalog: Catalog) =>
  catalog.rows(
    `select stream, record_id, ask_id, attempts, reason from sync.rejects where cleared_at is null order by key`,
  );
const volumesAsked = (catalog: Catalog) => catalog.asked().filter(path => path.startsWith('/volumes/'));
const statusOf = (catalog: Catalog, stream: string) =>
  catalog
    .rows(
      `select complete_through is not null as complete, waiting, open_rejects, last_state, deferred_until, remedy from sync.status
       where stream = $1`,
      [stream],
    )
    .then(([row]) => row!);
/** Of every record in `items`, or of the record itself. */
const edited = (edit: (record: Record<string, unknown>, place: number) => void): Fault => ({
  kind: 'body',
  edit: json => {
    const body = json as { items?: Record<string, unknown>[] };
    (body.items ?? [body as Record<string, unknown>]).forEach(edit);
    return body;
  },
});

describe.concurrent('a volume that cannot be had', () => {
  test.for<{ fault: Fault; tries: number; says: string }>([
    { fault: { kind: 'status', status: 503, reason: 'backendFailed' }, tries: 6, says: '503 backendFailed' },
    { fault: { kind: 'status', status: 404, reason: 'notFound' }, tries: 2, says: '404 notFound' },
    { fault: edited(record => Object.assign(record, { id: 's1-1' })), tries: 2, says: 'answered with volume s1-1' },
  ])(
    '$says: a few tries, a reject, and all others are here; what comes right later clears it',
    async ({ fault, tries, says }) => {
      await using catalog = await openCatalog();
      const { world, pool } = catalog;
      addShelf(world, 'ada', 1, 4);
      catalog.fault = ({ path }) => (path === '/volumes/s1-2' ? fault : undefined);
      const first = await catalog.sync();
      expect(first).toMatchObject({ state: 'partial', exitCode: 3 });
      expect(first.streams.map(({ state, error }) => [state, error])).toEqual([
        ['completed', null],
        ['partial', '1 volume could not be read'],
      ]);
      const asked = volumesAsked(catalog);
      expect(asked.filter(path => path === '/volumes/s1-2').length).toBe(tries);
      expect(asked.length).toBe(tries + 3);
      expect(await rejects(catalog)).toEqual([
        { stream: 'volumes', record_id: 's1-2', ask_id: 's1-2', attempts: 2, reason: expect.stringContaining(says) },
      ]);
      expect(await statusOf(catalog, 'volumes')).toMatchObject({ complete: true, waiting: 1, open_rejects: 1 });
      expect(await catalog.rows(`select id, title, _detail from books.volumes where _detail <> 'full'`)).toEqual([
        { id: 's1-2', title: 'Title of s1-2', _detail: 'list' },
      ]);
      expect(await bookDifferences(pool, world, ['ada'], { failing: ['s1-2'] })).toEqual([]);

      // It is not due yet.
      expect((await catalog.sync()).exitCode).toBe(0);
      expect(volumesAsked(catalog)).toEqual([]);
      await pool.query('update sync.rejects set next_try_at = now()');
      catalog.fault = () => undefined;
      expect((await catalog.sync()).exitCode).toBe(0);
      expect(volumesAsked(catalog)).toEqual(['/volumes/s1-2']);
      expect(await rejects(catalog)).toEqual([]);
      expect(await catalog.differences()).toEqual([]);
    },
  );

  test('many in a row are no matter of volumes: the run fails, and says why', long, async () => {
    await using catalog = await openCatalog();
    addShelf(catalog.world, 'ada', 1, 1);
    await catalog.sync();
    addShelf(catalog.world, 'ada', 2, 12);
    catalog.asked();
    catalog.fault = ({ path }) => (path.startsWith('/volumes/') ? { kind: 'status', status: 500 } : undefined);
    const result = await catalog.sync();
    expect(result).toMatchObject({ state: 'failed', exitCode: 1 });
    expect(result.streams[1]!.error).toContain('500');
    // Ten of them, and the one that was there before.
    const asked = volumesAsked(catalog);
    expect([asked.length, asked.filter(path => path === '/volumes/s1-0').length]).toEqual([33, 3]);
    await catalog.pool.query('update sync.rejects set next_try_at = now()');
    catalog.fault = () => undefined;
    expect((await catalog.sync()).exitCode).toBe(0);
    expect(await rejects(catalog)).toEqual([]);
    expect(await catalog.differences()).toEqual([]);
  });

  test('so many dead ids in a row hold up nobody', long, async () => {
    await using catalog = await openCatalog();
    addShelf(catalog.world, 'ada', 1, 1);
    await catalog.sync();
    addShelf(catalog.world, 'ada', 2, 12);
    const dead = (path: string) => path.startsWith('/volumes/s2-') && path !== '/volumes/s2-11';
    catalog.fault = ({ path }) => (dead(path) ? { kind: 'status', status: 503, reason: 'backendFailed' } : undefined);
    expect(await catalog.sync()).toMatchObject({ state: 'partial', exitCode: 3 });
    expect(await catalog.rows(`select id from books.volumes where _detail = 'full' order by id`)).toEqual([
      { id: 's1-0' },
      { id: 's2-11' },
    ]);
    expect((await rejects(catalog)).length).toBe(11);
  });
});

test('one that failed and is on no shelf any more is not asked for', async () => {
  await using catalog = await openCatalog();
  const { world } = catalog;
  addShelf(world, 'ada', 1, 2);
  catalog.fault = ({ path }) => (path === '/volumes/s1-1' ? { kind: 'status', status: 503 } : undefined);
  expect((await catalog.sync()).exitCode).toBe(3);
  catalog.pass();
  world.remove('ada', 1, 's1-1');
  await catalog.rows(`update sync.rejects set next_try_at = '2026-01-01Z'`);
  catalog.asked();
  expect((await catalog.sync()).exitCode).toBe(0);
  expect(volumesAsked(catalog)).toEqual([]);
});

describe.concurrent('the requests of a day', () => {
  const untilOf = (error: string | null) =>
    /^the quota of the book catalog is used up; reading resumes at (\S+)$/.exec(error ?? '')?.[1];

  test.for([
    { requestsPerDay: 12, shelves: 'completed' },
    // With the look whether the first shelf says the same still.
    { requestsPerDay: 4, shelves: 'partial' },
  ])(
    '$requestsPerDay of them, spent in the middle: the run says until when, and is gone on with by hand',
    async ({ requestsPerDay, shelves }) => {
      await using catalog = await openCatalog({ requestsPerDay, config: { library: false } });
      const { world, sandbox } = catalog;
      addShelf(world, 'ada', 1, 3);
      addShelf(world, 'ada', 2, 3);
      const first = await catalog.sync();
      expect(first).toMatchObject({ state: 'partial', exitCode: 3 });
      expect(first.streams.map(({ state }) => state)).toEqual([shelves, 'partial']);
      const until = untilOf(first.streams[1]!.error);
      expect(Date.parse(until ?? '')).toBeGreaterThan(Date.now());
      const sleeps = expect.objectContaining({ deferred_until: expect.any(Date) });
      expect(
        await catalog.rows(`select deferred_until from sync.run_streams where state = 'partial' order by stream`),
      ).toEqual(shelves === 'partial' ? [sleeps, sleeps] : [sleeps]);
      const status = await statusOf(catalog, 'volumes');
      expect((status.deferred_until as Date).toISOString().slice(0, 19)).toBe(until?.slice(0, 19));
      expect(status.remedy).toContain('resumes automatically');
      // The one that was refused is the last one.
      expect(catalog.asked().length).toBe(requestsPerDay + 1);
      expect(sandbox.books.totals.refused).toBe(1);

      // Somebody asks by hand: it is tried once.
      expect((await catalog.sync()).exitCode).toBe(3);
      expect([catalog.asked().length, sandbox.books.totals.refused]).toEqual([1, 2]);
      for (let days = 0, exitCode: number | undefined; exitCode !== 0; days++) {
        expect(days).toBeLessThan(8);
        sandbox.books.beginNewDay();
        exitCode = (await catalog.sync()).exitCode;
      }
      expect(await catalog.differences()).toEqual([]);
      expect(await rejects(catalog)).toEqual([]);
      expect(await statusOf(catalog, 'volumes')).toMatchObject({
        deferred_until: null,
        waiting: 0,
        last_state: 'completed',
      });
    },
  );

  test(
    'a backfill that reads again goes on each day where it was, by hand and by itself, and asks for each volume once',
    long,
    async () => {
      await using catalog = await openCatalog({ requestsPerDay: 5, config: { library: false } });
      const { world, sandbox, pool } = catalog;
      addShelf(world, 'ada', 1, 11);
      const nextDay = () => sandbox.books.beginNewDay();
      for (; (await catalog.sync()).exitCode !== 0; ) nextDay();
      nextDay();
      catalog.pass();
      catalog.asked();
      const again = () => backfillAlone(catalog.config(), ['volumes'], { again: true });
      const first = await again();
      expect(first).toMatchObject({ state: 'partial', exitCode: 3 });
      nextDay();
      expect(await again()).toMatchObject({ run: first.run, state: 'partial' });
      // A worker looks for it; here its run is only opened again.
      await pool.query(
        `update sync.stored_run_streams set deferred_until = now() - interval '1 minute' where run_id = $1`,
        [first.run],
      );
      await transaction(pool, client => wakeBackfills(client, 'default', 0, new Date()));
      expect(
        await catalog.rows('select state, deferred_until from sync.stored_run_streams where run_id = $1', [first.run]),
      ).toEqual([{ state: 'waiting', deferred_until: null }]);
      nextDay();
      expect(await again()).toMatchObject({ run: first.run, state: 'completed' });
      const asked = catalog.asked();
      expect([asked.length, new Set(asked).size]).toEqual([11 + 2, 11]);
      expect((await again()).run).not.toBe(first.run);
    },
  );

  test('as long as volumes sleep, status says that they take longer than that', long, async () => {
    await using catalog = await openCatalog({ config: { library: false } });
    addShelf(catalog.world, 'ada', 1, 2);
    const config = catalog.config({ limits: { credits: 1000, periodMs: dayMs, requestsPerSecond: 1, reserve: 0 } });
    const volumes = async () =>
      (await readStatus(catalog.pool, [config.account], [servedBy(config)])).find(
        ({ stream }) => stream === 'volumes',
      ) as StreamStatus;
    expect((await catalog.sync(undefined, ['shelves'])).exitCode).toBe(0);
    // As many as a second brings.
    expect(await volumes()).toMatchObject({ waiting: 2, time_left_seconds: 2, deferred_until: null });
    catalog.fault = () => ({ kind: 'status', status: 403, reason: 'dailyLimitExceeded' });
    expect((await catalog.sync(undefined, ['volumes'])).exitCode).toBe(3);
    const before = Date.now();
    const { waiting, time_left_seconds, deferred_until } = await volumes();
    const deferredSeconds = (deferred_until!.getTime() - before) / 1000;
    expect([waiting, deferredSeconds > 600]).toEqual([2, true]);
    expect(time_left_seconds).toBeGreaterThan(deferredSeconds);
    expect(time_left_seconds).toBeLessThan(deferredSeconds + 10);
  });
});

describe.concurrent('what cannot be stored as it came', () => {
  test('NUL and lone surrogates: cleaned and counted, and written once', async () => {
    await using catalog = await openCatalog();
    const { world, pool } = catalog;
    const { volumes } = addShelf(world, 'ada', 1, 2);
    const naughty = { title: 'a\0b \ud800 c', authors: ['\udfff', 'Zoë'], subtitle: '\\u0000 \ud83d\ude00' };
    addVolumes(world, ['naughty'], { info: naughty });
    world.add('ada', 1, 'naughty', 1);
    world.createShelf(world.me, { id: 2, title: 'Sh\0elf', description: '\ud800', volumes: [...volumes] });
    const result = await catalog.sync();
    expect(result).toMatchObject({ state: 'completed', exitCode: 0 });
    expect(await catalog.rows(`select title, subtitle, authors from books.volumes where id = 'naughty'`)).toEqual([
      { title: 'a\ufffdb \ufffd c', subtitle: '\\u0000 \ud83d\ude00', authors: ['\ufffd', 'Zoë'] },
    ]);
    expect(await catalog.differences()).toEqual([]);
    expect(result.streams.map(({ cleaned }) => cleaned)).toEqual([8, 3]);
    expect(
      await catalog.rows(`select stream, path, seen from sync.drift where kind = 'unstorable' order by stream, path`),
    ).toEqual([
      { stream: 'shelves', path: 'description', seen: 1 },
      { stream: 'shelves', path: 'title', seen: 1 },
      { stream: 'shelves', path: 'volumeInfo.authors', seen: 2 },
      { stream: 'shelves', path: 'volumeInfo.title', seen: 4 },
      { stream: 'volumes', path: 'volumeInfo.authors', seen: 1 },
      { stream: 'volumes', path: 'volumeInfo.title', seen: 2 },
    ]);
    expect(await rejects(catalog)).toEqual([]);
    const before = await placesOf(pool);
    catalog.pass();
    await catalog.sync({ shelfAgeMs: 0 });
    expect(await placesOf(pool)).toEqual(before);
  });

  test('a shelf without an id in the list may be any: none is taken for gone', long, async () => {
    await using catalog = await openCatalog();
    const { world } = catalog;
    addShelf(world, 'ada', 1, 1);
    addShelf(world, 'ada', 2, 1);
    await catalog.sync();
    catalog.pass();
    catalog.asked();
    catalog.fault = ({ path }) =>
      path === '/users/ada/bookshelves' ? edited((shelf, place) => place === 0 && delete shelf.id) : undefined;
    expect(await catalog.sync()).toMatchObject({ state: 'partial', exitCode: 3 });
    expect(catalog.asked()).toEqual(['/users/ada/bookshelves', '/mylibrary/bookshelves']);
    expect(await rejects(catalog)).toMatchObject([{ stream: 'shelves', ask_id: 'ada' }]);
    expect(await catalog.differences()).toEqual([]);
    catalog.fault = () => undefined;
    expect((await catalog.sync()).exitCode).toBe(0);
    expect(await rejects(catalog)).toEqual([]);
  });

  test('what has another type than it should is null, and counted as drift: no reject', async () => {
    await using catalog = await openCatalog();
    const { world } = catalog;
    const price = { amount: '2', currencyCode: 'EUR' };
    addVolumes(world, ['v'], {
      saleInfo: { saleability: 'FOR_SALE', isEbook: true, listPrice: price, retailPrice: price },
    });
    world.createShelf('ada', { id: 1, access: 'PUBLIC', volumes: ['v'] });
    catalog.fault = ({ path }) =>
      path === '/volumes/v'
        ? edited(volume => {
            const { saleInfo, volumeInfo } = volume as Record<string, Record<string, unknown>>;
            (saleInfo!.listPrice as Record<string, unknown>).amount = 'gratis';
            Object.assign(volumeInfo!, { pageCount: 'many', authors: 'Ada', printType: 'SCROLL' });
            Object.assign(volume, { mood: 'odd' });
          })
        : undefined;
    expect((await catalog.sync()).exitCode).toBe(0);
    expect(
      await catalog.rows(
        `select list_price, list_price_currency, retail_price::text, page_count, authors, print_type, _payload ->> 'mood' as mood,
           _payload #>> '{saleInfo,listPrice,amount}' as amount from books.volumes`,
      ),
    ).toEqual([
      {
        ...{ list_price: null, list_price_currency: 'EUR', retail_price: '2', page_count: null, authors: null },
        ...{ print_type: 'SCROLL', mood: 'odd', amount: 'gratis' },
      },
    ]);
    expect(
      await catalog.rows(`select kind, path, value from sync.drift where stream = 'volumes' order by kind, path`),
    ).toEqual([
      { kind: 'unknown_field', path: 'mood', value: '' },
      { kind: 'unknown_value', path: 'volumeInfo.printType', value: 'SCROLL' },
      ...['saleInfo.listPrice.amount', 'volumeInfo.authors', 'volumeInfo.pageCount'].map(path => ({
        ...{ kind: 'wrong_type', path, value: '' },
      })),
    ]);
    expect(await rejects(catalog)).toEqual([]);
  });
});

describe.concurrent('a token that is refused', () => {
  test('ends the streams of the catalog immediately, with exit 4 and a remedy; the help desk is still read', async () => {
    await using catalog = await openCatalog({ helpdesk: { tickets: 3 } });
    addShelf(catalog.world, 'ada', 1, 1);
    const result = await catalog.sync({ accessToken: 'wrong-one' });
    expect(result).toMatchObject({ state: 'failed', exitCode: 4 });
    expect(result.streams.map(({ stream, state, exit_code }) => [stream, state, exit_code])).toEqual([
      ...['users', 'customers', 'tickets', 'messages'].map(stream => [stream, 'completed', 0]),
      ['shelves', 'failed', 4],
      ['volumes', 'failed', 4],
    ]);
    expect(result.streams[4]!.error).toContain('401');
    expect(result.streams[4]!.remedy).toContain('BOOKS_ACCESS_TOKEN');
    expect(JSON.stringify(result)).not.toContain('wrong-one');
    expect(catalog.asked().filter(path => path.startsWith('/mylibrary'))).toEqual(['/mylibrary/bookshelves']);
    expect(volumesAsked(catalog)).toEqual([]);
    expect(await differences(catalog.pool, catalog.sandbox.world)).toEqual([]);
    expect((await catalog.sync()).exitCode).toBe(0);
    expect(await catalog.differences()).toEqual([]);
  });
});
