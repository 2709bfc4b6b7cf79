import { describe, expect, test } from 'vitest';
import type { BooksServiceOptions } from '../src/books/service.ts';
import { askingBooks, emptyBooks, ME } from './books-in-process.ts';

const LONG = 'What the tide takes, the tide returns, only never to the same house. '.repeat(20);

/** Twelve volumes a to l, a shelf of each kind, another reader with one shelf that others see. */
function smallCatalog() {
  const { world, clock } = emptyBooks();
  for (const id of 'abcdefghijkl') world.addVolume({ id, info: { title: `Book ${id}`, description: `About ${id}` } });
  world.changeVolume('a', {
    title: 'The Tide Clock',
    authors: ['Ada Li'],
    language: 'en',
    description: LONG,
    publisher: 'Saltmarsh Press',
    categories: ['Fiction / Sea Stories'],
    industryIdentifiers: [{ type: 'ISBN_10', identifier: '155404295X' }],
  });
  world.volume('a').saleInfo = {
    saleability: 'FOR_SALE',
    isEbook: true,
    listPrice: { amount: '1.334E7', currencyCode: 'IDR' },
  };
  world.volume('a').cover = true;
  world.createShelf(ME, { title: 'Mine', description: 'All of them', volumes: [...'abcdefghijkl'] });
  world.addUser('77');
  world.createShelf('77', { title: 'Theirs', access: 'PUBLIC', volumes: ['b', 'a'] });
  world.createShelf('77', { title: 'Hidden' });
  world.addUser('88');
  for (const shelf of world.user('88').shelves.values()) shelf.access = 'PRIVATE';
  return { world, clock };
}

const asking = (options?: BooksServiceOptions) => askingBooks(smallCatalog().world, options);

describe('4 reads', () => {
  test('Bookshelf get, Mylibrary.bookshelves get: the whole shelf, absent fields absent', () => {
    const { get } = asking();
    const times = { created: '2024-05-01T12:00:00.000Z', updated: '2024-05-01T12:00:00.000Z' };
    expect(get('/users/77/bookshelves/1001').json).toStrictEqual({
      kind: 'books#bookshelf',
      id: 1001,
      selfLink: 'http://desk.example/books/v1/users/77/bookshelves/1001',
      title: 'Theirs',
      access: 'PUBLIC',
      ...times,
      volumeCount: 2,
      volumesLastUpdated: '2024-05-01T12:00:00.000Z',
    });
    const mine = get('/mylibrary/bookshelves/1001').json;
    expect(mine).toMatchObject({ id: 1001, access: 'PRIVATE', description: 'All of them', volumeCount: 12 });
    expect(mine.selfLink).toBe('http://desk.example/books/v1/mylibrary/bookshelves/1001');
    expect(get('/mylibrary/bookshelves').json.items.at(-1)).toStrictEqual(mine);
  });

  test('Volume get: the whole volume, with its price as it was written', () => {
    const got = asking().get('/volumes/a?country=DE');
    const { etag } = got.json;
    expect(got.text).toContain('"listPrice":{"amount":1.334E7,"currencyCode":"IDR"}');
    expect(got.text).toContain('"amountInMicros":1.334E13');
    const image = (zoom: number) =>
      `http://books.example/books/content?id=a&printsec=frontcover&img=1&zoom=${zoom}&edge=curl&imgtk=${etag}`;
    expect(got.json).toStrictEqual({
      kind: 'books#volume',
      id: 'a',
      etag: expect.stringMatching(/^[0-9a-f]{8,24}$/),
      selfLink: 'http://desk.example/books/v1/volumes/a',
      volumeInfo: {
        title: 'The Tide Clock',
        authors: ['Ada Li'],
        publisher: 'Saltmarsh Press',
        description: LONG,
        industryIdentifiers: [{ type: 'ISBN_10', identifier: '155404295X' }],
        categories: ['Fiction / Sea Stories'],
        language: 'en',
        imageLinks: { smallThumbnail: image(5), thumbnail: image(1), small: image(2), medium: image(3) },
        previewLink: expect.stringContaining(etag),
        infoLink: 'https://books.example/books?id=a&source=api',
        canonicalVolumeLink: 'https://books.example/books/about/_.html?id=a',
      },
      saleInfo: {
        country: 'DE',
        saleability: 'FOR_SALE',
        isEbook: true,
        listPrice: { amount: 13_340_000, currencyCode: 'IDR' },
        buyLink: 'https://books.example/store',
        offers: [
          {
            finskyOfferType: 1,
            listPrice: { amountInMicros: 1.334e13, currencyCode: 'IDR' },
            retailPrice: { amountInMicros: 1.334e13, currencyCode: 'IDR' },
          },
        ],
      },
      accessInfo: { country: 'DE', ...asking().service.world.volume('a').accessInfo },
    });
  });

  test.each(['/volumes?q=tide', '/users/77/bookshelves/1001/volumes?q=tide', '/mylibrary/bookshelves/1001/volumes'])(
    'lists shorten: %s',
    path => {
      const [volume] = asking().get(path).json.items;
      const { description, language } = volume.volumeInfo;
      expect(language).toBeUndefined();
      expect(description.length).toBeGreaterThan(200);
      expect(description.length).toBeLessThanOrEqual(254);
      expect(LONG.startsWith(description.slice(0, -4))).toBe(true);
      expect(description.endsWith(' ...')).toBe(true);
      expect(Object.keys(volume.volumeInfo.imageLinks)).toEqual(['smallThumbnail', 'thumbnail']);
      expect(volume.searchInfo.textSnippet).toContain('tide');
    },
  );

  test('no character is cut in two', () => {
    const { world } = smallCatalog();
    const { get } = askingBooks(world);
    for (const start of ['', 'x']) {
      world.changeVolume('a', { description: start + '😀'.repeat(200) });
      for (let n = 0; n < 50; n++) {
        const [{ volumeInfo, searchInfo }] = get('/volumes?q=tide').json.items;
        expect(volumeInfo.description.isWellFormed() && searchInfo.textSnippet.isWellFormed()).toBe(true);
      }
    }
  });

  test('a reply differs from the last one though nothing has changed: etag and links, nothing else', () => {
    const { get } = asking();
    const [one, other] = [get('/volumes/a').json, get('/volumes/a').json];
    expect(one.etag).not.toBe(other.etag);
    expect(one.volumeInfo.previewLink).not.toBe(other.volumeInfo.previewLink);
    expect(one.volumeInfo.imageLinks).not.toEqual(other.volumeInfo.imageLinks);
    for (const { volumeInfo } of [one, other]) Object.assign(volumeInfo, { previewLink: '', imageLinks: {} });
    expect({ ...one, etag: '' }).toStrictEqual({ ...other, etag: '' });
  });

  test('projection=lite leaves the long parts out', () => {
    const { get } = asking();
    const lite = get('/volumes/a?projection=lite').json;
    expect(Object.keys(lite)).toEqual(['kind', 'id', 'etag', 'selfLink', 'volumeInfo', 'accessInfo']);
    expect(lite.volumeInfo.description).toBeUndefined();
    expect(lite.volumeInfo).toMatchObject({ title: 'The Tide Clock', authors: ['Ada Li'] });
    expect(get('/volumes/a?projection=full').json.volumeInfo.description).toBe(LONG);
  });

  test('totalItems: wanders, is true, or is missing', () => {
    const totals = (options: BooksServiceOptions, path: string) => {
      const { get } = asking(options);
      return new Set(Array.from({ length: 60 }, () => get(path).json.totalItems));
    };
    expect(totals({ totalItems: 'true' }, '/volumes?q=book')).toEqual(new Set([11]));
    expect(totals({ totalItems: 'missing' }, '/volumes?q=book')).toEqual(new Set([undefined]));
    expect(totals({ totalItems: 'missing' }, '/mylibrary/bookshelves')).toEqual(new Set([undefined]));
    const wandering = totals({}, '/volumes?q=book&maxResults=2');
    expect(Math.max(...wandering)).toBeGreaterThan(11);
    expect(Math.min(...wandering)).toBe(2);
    expect(totals({}, '/mylibrary/bookshelves')).toEqual(new Set([10]));
  });
});

describe('fields', () => {
  test.each<[fields: string, expected: unknown]>([
    [
      'kind,items(id,volumeInfo/title),totalItems',
      { kind: 'books#volumes', totalItems: 1, items: [{ id: 'a', volumeInfo: { title: 'The Tide Clock' } }] },
    ],
    ['items/id', { items: [{ id: 'a' }] }],
    ['items/volumeInfo(title,authors)', { items: [{ volumeInfo: { title: 'The Tide Clock', authors: ['Ada Li'] } }] }],
    ['items(volumeInfo/title),items/id', { items: [{ id: 'a', volumeInfo: { title: 'The Tide Clock' } }] }],
    [
      'items/*/title',
      { items: [{ volumeInfo: { title: 'The Tide Clock' }, saleInfo: {}, accessInfo: {}, searchInfo: {} }] },
    ],
    [
      'items/saleInfo/listPrice/*',
      { items: [{ saleInfo: { listPrice: { amount: 13_340_000, currencyCode: 'IDR' } } }] },
    ],
    ['nothing', {}],
    ['items/saleInfo/listPrice/amount/*', { items: [{ saleInfo: { listPrice: {} } }] }],
    ['kind , totalItems', { kind: 'books#volumes', totalItems: 1 }],
  ])('%s', (fields, expected) => {
    const got = asking({ totalItems: 'true' }).get(`/volumes?q=tide&fields=${encodeURIComponent(fields)}`);
    expect(got.json).toStrictEqual(expected);
  });

  test('* is all, and a price keeps its digits', () => {
    const { get } = asking();
    expect(Object.keys(get('/volumes/a?fields=*').json)).toEqual(Object.keys(get('/volumes/a').json));
    expect(get('/volumes/a?fields=saleInfo/listPrice/amount').text).toBe(
      '{"saleInfo":{"listPrice":{"amount":1.334E7}}}',
    );
  });

  test.each(['items(', 'items)', 'a,,b', 'a/', '()', 'items(id', ',', 'a b'])('%s cannot be parsed', fields => {
    const got = asking().get(`/volumes?q=tide&fields=${encodeURIComponent(fields)}`);
    expect([got.status, got.json.error.errors[0].reason]).toEqual([400, 'invalidParameter']);
  });

  test('an error is whole; prettyPrint and alt do no harm', () => {
    const { get } = asking();
    expect(get('/volumes/zzz?fields=id').json.error.code).toBe(503);
    expect(get('/mylibrary/bookshelves/0?prettyPrint=true&fields=id').text).toBe('{\n  "id": 0\n}');
    expect(get('/mylibrary/bookshelves/0?prettyPrint=false&alt=json&fields=id').text).toBe('{"id":0}');
  });
});
