import { describe, expect, test } from 'vitest';
import type { BooksServiceOptions } from '../../src/sandbox/books/service.ts';
import { askingBooks, emptyBooks, itemIds, ME } from './books-asking.ts';

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
const KEY = 'key=sandbox-books-key';

describe('4 reads', () => {
  const fixed = '0 1 2 3 4 5 6 7 8';
  test.each<[operation: string, path: string, ids: string | undefined]>([
    ['Bookshelf list', '/users/77/bookshelves', `${fixed} 1001`],
    ['Bookshelf list: none that others see', '/users/88/bookshelves', undefined],
    ['Bookshelf list in pages', '/users/77/bookshelves?startIndex=8', '8 1001'],
    ['Bookshelves.volumes list', '/users/77/bookshelves/1001/volumes', 'b a'],
    ['Bookshelves.volumes list: an empty shelf', '/users/77/bookshelves/0/volumes', undefined],
    ['Volume list', '/volumes?q=book', 'b c d e f g h i j k'],
    ['Volume list: the rest', '/volumes?q=BOOK&startIndex=10', 'l'],
    ['Volume list: behind the end', '/volumes?q=book&startIndex=11', undefined],
    ['Volume list: nothing found', '/volumes?q=walrus', undefined],
    ['Volume list: all words', '/volumes?q=clock+tide', 'a'],
    ['Volume list: not one word alone', '/volumes?q=clock+walrus', undefined],
    ['Volume list: a phrase', '/volumes?q=%22clock+tide%22', undefined],
    ['Volume list: in a field', '/volumes?q=inauthor:li', 'a'],
    ['Volume list: a phrase in a field', '/volumes?q=intitle:%22tide+clock%22', 'a'],
    ['Volume list: by ISBN', '/volumes?q=isbn:155404295x', 'a'],
    ['Volume list: by subject and publisher', '/volumes?q=subject:fiction+inpublisher:saltmarsh', 'a'],
    ['Mylibrary.bookshelves list', '/mylibrary/bookshelves', `${fixed} 1001`],
    ['Mylibrary.bookshelves list in pages', '/mylibrary/bookshelves?maxResults=2&startIndex=1', '1 2'],
    ['Mylibrary.bookshelves.volumes list', '/mylibrary/bookshelves/1001/volumes', 'a b c d e f g h i j'],
    ['… next page', '/mylibrary/bookshelves/1001/volumes?startIndex=10', 'k l'],
    ['… largest page', '/mylibrary/bookshelves/1001/volumes?maxResults=40', 'a b c d e f g h i j k l'],
    ['… no page at all', '/mylibrary/bookshelves/1001/volumes?maxResults=0', undefined],
    ['… of a repeated parameter the last', '/mylibrary/bookshelves/1001/volumes?maxResults=9&maxResults=2', 'a b'],
    ['… with a search', '/mylibrary/bookshelves/1001/volumes?q=tide', 'a'],
  ])('%s: %s → %s', (_, path, ids) => {
    const got = asking().get(path);
    expect(got.status).toBe(200);
    expect(itemIds(got)).toBe(ids);
    expect('items' in got.json).toBe(ids !== undefined);
    expect(got.json.kind).toBe(/volumes(\?|$)/.test(path) ? 'books#volumes' : 'books#bookshelves');
  });

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

  test('shelfDates: lists of shelves without the time of their volumes', () => {
    const { get } = asking({ shelfDates: false });
    expect(get('/mylibrary/bookshelves').text).not.toContain('volumesLastUpdated');
    expect(get('/mylibrary/bookshelves/1001').text).toContain('volumesLastUpdated');
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

describe('4 changes of my shelves', () => {
  const volumes = '/mylibrary/bookshelves/1001/volumes?maxResults=40';
  test.each<[operation: string, path: string, ids: string | undefined]>([
    ['addVolume: in front', '/0/addVolume?volumeId=c', 'c'],
    ['addVolume: what is there stays', '/1001/addVolume?volumeId=c', 'a b c d e f g h i j k l'],
    ['removeVolume', '/1001/removeVolume?volumeId=c', 'a b d e f g h i j k l'],
    ['moveVolume to the front', '/1001/moveVolume?volumeId=c&volumePosition=0', 'c a b d e f g h i j k l'],
    ['moveVolume further back', '/1001/moveVolume?volumeId=a&volumePosition=2', 'b c a d e f g h i j k l'],
    ['moveVolume behind the end', '/1001/moveVolume?volumeId=a&volumePosition=99', 'b c d e f g h i j k l a'],
    ['clearVolumes', '/1001/clearVolumes', undefined],
  ])('%s: %s', (_, path, ids) => {
    const { post, get } = asking();
    const got = post(`/mylibrary/bookshelves${path}`);
    expect([got.status, got.text]).toEqual([200, '{}']);
    expect(itemIds(get(path.startsWith('/0') ? volumes.replace('1001', '0') : volumes))).toBe(ids);
  });

  test('posts: 204 answers without a body, and without a type', () => {
    const { text, status, headers } = asking({ posts: 204 }).post('/mylibrary/bookshelves/1001/clearVolumes');
    expect([status, text, headers['Content-Type']]).toEqual([204, '', undefined]);
  });

  test('the shelf tells of it', () => {
    const { world, clock } = smallCatalog();
    const { post, get } = askingBooks(world);
    clock.ms += 1500;
    post('/mylibrary/bookshelves/1001/removeVolume?volumeId=c');
    expect(get('/mylibrary/bookshelves/1001').json).toMatchObject({
      created: '2024-05-01T12:00:00.000Z',
      updated: '2024-05-01T12:00:01.500Z',
      volumesLastUpdated: '2024-05-01T12:00:01.500Z',
      volumeCount: 11,
    });
  });
});

describe('errors', () => {
  test.each<[what: string, request: string, status: number, reason: string, options?: BooksServiceOptions]>([
    ['page too long', 'GET /volumes?q=a&maxResults=41', 400, 'invalidParameter'],
    ['page of rubbish', 'GET /volumes?q=a&maxResults=ten', 400, 'invalidParameter'],
    ['page of less than nothing', 'GET /mylibrary/bookshelves/0/volumes?maxResults=-1', 400, 'invalidParameter'],
    ['start of rubbish', 'GET /mylibrary/bookshelves/0/volumes?startIndex=1.5', 400, 'invalidParameter'],
    ['start of a list of shelves', 'GET /mylibrary/bookshelves?startIndex=x', 400, 'invalidParameter'],
    ['projection', 'GET /volumes/a?projection=heavy', 400, 'invalidParameter'],
    ['search for nothing', 'GET /volumes', 400, 'required'],
    ['search for blanks', 'GET /volumes?q=+', 400, 'required'],
    ['user', 'GET /users/nobody/bookshelves', 400, 'invalidUser'],
    ['user of a shelf', 'GET /users/nobody/bookshelves/x/volumes', 400, 'invalidUser'],
    ['user, read otherwise', 'GET /users/nobody/bookshelves', 404, 'notFound', { unknownUser: 404 }],
    ['shelf', 'GET /users/77/bookshelves/1009', 404, 'notFound'],
    ['shelf that is no number', 'GET /users/77/bookshelves/Favorites/volumes', 404, 'notFound'],
    ['private shelf of another', 'GET /users/77/bookshelves/1002', 404, 'notFound'],
    ['volumes of one', 'GET /users/77/bookshelves/1002/volumes', 404, 'notFound'],
    ['own shelf by the public way', `GET /users/${ME}/bookshelves/1001`, 404, 'notFound'],
    ['shelf of mine', 'GET /mylibrary/bookshelves/1009', 404, 'notFound'],
    ['volume', 'GET /volumes/zzz', 503, 'backendFailed'],
    ['volume that fails', 'GET /volumes/b', 503, 'backendFailed', { failing: ['b'] }],
    ['volume to add', 'POST /mylibrary/bookshelves/0/addVolume?volumeId=zzz', 503, 'backendFailed'],
    ['no volume to add', 'POST /mylibrary/bookshelves/0/addVolume', 400, 'required'],
    ['shelf to add to', 'POST /mylibrary/bookshelves/1009/addVolume?volumeId=a', 404, 'notFound'],
    ['volume to remove', 'POST /mylibrary/bookshelves/0/removeVolume?volumeId=a', 404, 'notFound'],
    ['volume to move', 'POST /mylibrary/bookshelves/0/moveVolume?volumeId=a&volumePosition=0', 404, 'notFound'],
    ['no position', 'POST /mylibrary/bookshelves/1001/moveVolume?volumeId=a', 400, 'required'],
    ['position', 'POST /mylibrary/bookshelves/1001/moveVolume?volumeId=a&volumePosition=-1', 400, 'invalidParameter'],
    ['country', 'GET /volumes?q=book', 403, 'unknownLocation', { countryNeeded: true }],
    ['country of a volume', 'GET /volumes/a?country=', 403, 'unknownLocation', { countryNeeded: true }],
    ['verb', 'GET /mylibrary/bookshelves/0/addVolume?volumeId=a', 405, 'httpMethodNotAllowed'],
    ['verb', 'DELETE /mylibrary/bookshelves/1001', 405, 'httpMethodNotAllowed'],
    ['path', 'GET /users/77', 404, 'notFound'],
    ['path', 'GET /volumes/a/b', 404, 'notFound'],
  ])('%s: %s → %i %s', (_, request, status, reason, options) => {
    const [method, path] = request.split(' ') as [string, string];
    const { ask, service } = asking(options);
    const got = ask(method, path, { authorization: `Bearer ${service.tokens.token}` });
    expect(got.headers['Content-Type']).toBe('application/json; charset=UTF-8');
    const { error } = got.json;
    expect([got.status, error.errors[0].reason]).toEqual([status, reason]);
    expect(error).toStrictEqual({
      code: status,
      message: error.message,
      errors: [
        {
          domain: 'global',
          reason,
          message: error.message,
          ...(status === 400 &&
            reason !== 'invalidUser' && { locationType: 'parameter', location: expect.any(String) }),
        },
      ],
      ...(status === 403 && { status: 'PERMISSION_DENIED' }),
    });
    expect(service.requests.map(({ status, cost }) => [status, cost])).toEqual([[status, 1]]);
  });

  test('with a country what was refused is answered', () => {
    const { get } = asking({ countryNeeded: true });
    expect(get('/volumes/a?country=DE').status).toBe(200);
    expect(get('/mylibrary/bookshelves').status).toBe(200);
  });
});

describe('5 who asks', () => {
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
  test.each<[what: string, path: string, headers: Record<string, string>, status: number, reason?: string]>([
    ['a key', `/volumes?q=book&${KEY}`, {}, 200],
    ['a token instead of a key', '/volumes?q=book', bearer('sandbox-books-token'), 200],
    ['both', `/volumes?q=book&${KEY}`, bearer('sandbox-books-token'), 200],
    ['neither', '/volumes?q=book', {}, 200],
    ['a wrong key', '/users/77/bookshelves?key=mine', {}, 400, 'keyInvalid'],
    ['a wrong key beside a token', '/volumes?q=book&key=mine', bearer('sandbox-books-token'), 400, 'keyInvalid'],
    ['a wrong token beside a key', `/volumes?q=book&${KEY}`, bearer('mine'), 401, 'authError'],
    ['my library with a token', '/mylibrary/bookshelves', bearer('sandbox-books-token'), 200],
    ['my library with a key', `/mylibrary/bookshelves?${KEY}`, {}, 401, 'required'],
    ['my library with nothing', '/mylibrary/bookshelves/0/volumes', {}, 401, 'required'],
    ['my library with a wrong token', '/mylibrary/bookshelves', bearer('mine'), 401, 'authError'],
    ['another scheme', '/mylibrary/bookshelves', { authorization: 'Basic c2FuZGJveA==' }, 401, 'authError'],
    ['a path that is not there, with nothing', '/nowhere', {}, 404, 'notFound'],
  ])('%s: %i %s', (_, path, headers, status, reason) => {
    const { anonymous, service } = asking();
    const got = anonymous(path, headers);
    expect([got.status, got.json.error?.errors[0].reason]).toEqual([status, reason]);
    expect(got.headers['WWW-Authenticate']?.startsWith('Bearer') ?? false).toBe(status === 401);
    expect(service.requests[0]!.cost).toBe([200, 404].includes(status) ? 1 : 0);
  });
});
