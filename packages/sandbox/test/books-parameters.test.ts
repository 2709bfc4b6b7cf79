import { describe, expect, test, vi } from 'vitest';
import { BooksService, type BooksServiceOptions } from '../src/books/service.ts';
import { askingBooks, emptyBooks, itemIds, ME, someBooks } from './books-in-process.ts';
import { NOON } from './in-process.ts';

const EBOOK = { saleability: 'NOT_FOR_SALE', isEbook: true } as const;
const PRICE = { amount: '9.99', currencyCode: 'EUR' };
const access = (viewability: 'NO_PAGES' | 'PARTIAL' | 'ALL_PAGES', epub = false) => ({
  viewability,
  embeddable: true,
  publicDomain: false,
  textToSpeechPermission: 'ALLOWED' as const,
  epub: { isAvailable: epub },
  pdf: { isAvailable: false },
});

/** Seven volumes, each with something that no other has; all of them are about the tide. */
function tides() {
  const { world, clock } = emptyBooks();
  const description = 'Of the tide.';
  world.addVolume({ id: 'old', info: { title: 'Old Salt', description, publishedDate: '20??', language: 'en-GB' } });
  world.addVolume({
    id: 'tide',
    info: { title: 'The Tide', authors: ['Ada Li'], publishedDate: '1999', printType: 'BOOK', language: 'en' },
    accessInfo: access('PARTIAL'),
  });
  world.addVolume({
    id: 'mag',
    info: { title: 'Monthly', description, publishedDate: '1999-05', printType: 'MAGAZINE', maturityRating: 'MATURE' },
  });
  world.addVolume({
    id: 'free',
    info: { title: 'Harbour', authors: ['Tide Society'], description: '(a+b)? [draft]', language: 'de' },
    saleInfo: { saleability: 'FREE', isEbook: true },
    accessInfo: access('ALL_PAGES', true),
  });
  world.addVolume({
    id: 'paid',
    info: { title: 'Ebb', description, publishedDate: '2019-10-03T00:00:00+02:00', publisher: 'Tide & Sons' },
    saleInfo: { saleability: 'FOR_SALE', isEbook: true, listPrice: PRICE },
  });
  world.addVolume({
    id: 'ids',
    info: {
      title: 'Flood',
      description,
      publishedDate: '2019-10-02',
      categories: ['Science'],
      industryIdentifiers: [
        { type: 'ISBN_13', identifier: '9781402894626' },
        { type: 'ISBN_10', identifier: '155404295X' },
        { type: 'OTHER', identifier: 'LCCN:2001020304' },
        { type: 'OTHER', identifier: 'OCLC:40506070' },
      ],
    },
    saleInfo: EBOOK,
  });
  world.addVolume({
    id: 'ahead',
    info: { title: 'Spring Tide', publishedDate: '2025-02-01', language: 'zh-TW' },
    saleInfo: { saleability: 'FOR_PREORDER', isEbook: false, onSaleDate: '2025-02-01', listPrice: PRICE },
  });
  world.createShelf(ME, { title: 'Mine', volumes: ['tide', 'ahead', 'free', 'ids'] });
  world.add(ME, 3, 'tide');
  return { world, clock };
}

const asking = (options?: BooksServiceOptions) => askingBooks(tides().world, { totalItems: 'true', ...options });
const found = (query: string, options?: BooksServiceOptions) =>
  itemIds(asking(options).get(`/volumes?${query}`))
    ?.split(' ')
    .toSorted()
    .join(' ');

describe('what a search finds', () => {
  test.each<[what: string, query: string, ids: string | undefined]>([
    ['words anywhere', 'q=tide', 'free ids mag old paid tide'],
    ['not behind a minus', 'q=tide+-ebb', 'free ids mag old tide'],
    ['nor a phrase', 'q=tide+-%22of+the+tide%22', 'free tide'],
    ['nor in a field', 'q=tide+-inauthor:society+-intitle:flood', 'mag old paid tide'],
    ['only what is excluded', 'q=-tide', undefined],
    ['a publisher', 'q=inpublisher:%22tide+%26+sons%22', 'paid'],
    ['a subject', 'q=subject:science', 'ids'],
    ['a minus within a word is none', 'q=of-the', undefined],
    ['signs are no pattern', 'q=%22(a%2Bb)?+[%22', 'free'],
    ['a backslash neither', 'q=%5C', undefined],
    ['ISBN 13', 'q=isbn:9781402894626', 'ids'],
    ['with hyphens', 'q=isbn:978-1-4028-9462-6', 'ids'],
    ['with blanks', 'q=isbn:%22978+1+402894626%22', 'ids'],
    ['ISBN 10', 'q=isbn:1-55404-295-x', 'ids'],
    ['not a part of one', 'q=isbn:978140289', undefined],
    ['a number alone', 'q=9781402894626', 'ids'],
    ['Library of Congress', 'q=lccn:2001020304', 'ids'],
    ['OCLC', 'q=oclc:40506070', 'ids'],
    ['not under the other name', 'q=oclc:2001020304', undefined],
    ['another prefix is text', 'q=note:tide', undefined],
    ['one that every object has, too', 'q=constructor:tide', undefined],
    ['half a character', 'q=%ED%A0%80', undefined],
    ['partial', 'q=tide&filter=partial', 'free tide'],
    ['full', 'q=tide&filter=full', 'free'],
    ['free-ebooks', 'q=tide&filter=free-ebooks', 'free'],
    ['paid-ebooks', 'q=tide&filter=paid-ebooks', 'paid'],
    ['ebooks', 'q=tide&filter=ebooks', 'free ids paid'],
    ['all prints', 'q=tide&printType=all', 'free ids mag old paid tide'],
    ['books', 'q=tide&printType=books', 'free ids old paid tide'],
    ['magazines, in upper case', 'q=tide&printType=MAGAZINES', 'mag'],
    ['nothing meant', 'q=tide&printType=PRINT_TYPE_UNDEFINED&orderBy=ORDER_BY_UNDEFINED', 'free ids mag old paid tide'],
    ['a language', 'q=tide&langRestrict=en', 'old tide'],
    ['with its country', 'q=tide&langRestrict=EN-gb', 'old'],
    ['any language', 'q=tide&langRestrict=', 'free ids mag old paid tide'],
    ['what can be downloaded', 'q=tide&download=epub', 'free'],
    ['for everybody', 'q=tide&maxAllowedMaturityRating=not-mature', 'free ids old paid tide'],
    ['for adults', 'q=tide&maxAllowedMaturityRating=mature', 'free ids mag old paid tide'],
    ['with what is to come', 'q=tide&showPreorders=true', 'ahead free ids mag old paid tide'],
    ['without', 'q=tide&showPreorders=false', 'free ids mag old paid tide'],
    ['several at once', 'q=tide&filter=ebooks&langRestrict=de&printType=books', 'free'],
    ['my library', 'q=tide&libraryRestrict=my-library', 'free ids tide'],
    ['any library', 'q=tide&libraryRestrict=no-restrict', 'free ids mag old paid tide'],
  ])('%s: %s → %s', (_, query, ids) => {
    expect(found(query)).toBe(ids);
  });

  test('relevance: titles before authors before publishers before the rest, and always the same', () => {
    const { get } = asking();
    const order = 'tide free paid old mag ids';
    for (const query of ['q=tide', 'q=tide&orderBy=relevance', 'q=tide']) {
      expect(itemIds(get(`/volumes?${query}`))).toBe(order);
    }
    expect(itemIds(get('/volumes?q=tide&startIndex=2&maxResults=3'))).toBe('paid old mag');
  });

  test('newest: the latest day first, what is not exact as its beginning, what has none last', () => {
    expect(itemIds(asking().get('/volumes?q=tide&orderBy=newest&showPreorders=1'))).toBe(
      'ahead paid ids old mag tide free',
    );
  });

  test('searchDepth: what lies deeper is counted and not shown', () => {
    const { get } = asking({ searchDepth: 4 });
    const page = (start: number) => {
      const got = get(`/volumes?q=tide&maxResults=3&startIndex=${start}`);
      return [itemIds(got), got.json.totalItems];
    };
    expect([page(0), page(3), page(6)]).toEqual([
      ['tide free paid', 6],
      ['old', 6],
      [undefined, 6],
    ]);
  });

  test('libraryRestrict needs to know whose library', () => {
    const got = asking().anonymous('/volumes?q=tide&libraryRestrict=my-library&key=sandbox-books-key');
    expect([got.status, got.json.error.errors[0].reason]).toEqual([401, 'required']);
  });

  test('a shelf hides what is to come, too, but counts it', () => {
    const { get } = asking();
    const shelf = '/mylibrary/bookshelves/1001';
    expect(itemIds(get(`${shelf}/volumes`))).toBe('tide free ids');
    expect(itemIds(get(`${shelf}/volumes?showPreorders=true&startIndex=1`))).toBe('ahead free ids');
    expect(get(shelf).json.volumeCount).toBe(4);
    expect(get('/volumes/ahead').json.saleInfo).toMatchObject({
      saleability: 'FOR_PREORDER',
      onSaleDate: '2025-02-01',
    });
  });

  test('a page of a long shelf looks at its own volumes alone', () => {
    const { world } = someBooks({ volumes: 400 });
    const { get } = askingBooks(world, { totalItems: 'true' });
    const look = vi.spyOn(world, 'volume');
    const got = get('/mylibrary/bookshelves/1001/volumes?startIndex=200&maxResults=7');
    expect([got.json.items.length, look.mock.calls.length]).toEqual([7, 7]);
    expect(got.json.totalItems).toBe(world.shelf(ME, 1001).volumes.length);
  });

  test('a generated catalog sells as many ahead as were ordered', () => {
    const ahead = (preorders?: number) => {
      const { world } = someBooks(preorders === undefined ? {} : { preorders });
      const all = [...world.volumes.values()].filter(({ saleInfo }) => saleInfo?.saleability === 'FOR_PREORDER');
      expect(all.every(({ saleInfo }) => Date.parse(saleInfo?.onSaleDate ?? '') > NOON)).toBe(true);
      return all.length;
    };
    expect([ahead(), ahead(0), ahead(1)]).toEqual([0, 0, 300]);
    expect(ahead(0.1)).toBeGreaterThan(10);
  });
});

describe('values that a parameter does not take', () => {
  test.each<[request: string, location: string]>([
    ['GET /volumes?q=a&maxResults=41', 'maxResults'],
    ['GET /volumes?q=a&maxResults=', 'maxResults'],
    ['GET /volumes?q=a&maxResults=1e1', 'maxResults'],
    ['GET /volumes?q=a&startIndex=-1', 'startIndex'],
    ['GET /volumes?q=a&startIndex=2147483648', 'startIndex'],
    ['GET /volumes?q=a&orderBy=oldest', 'orderBy'],
    ['GET /volumes?q=a&filter=cheap', 'filter'],
    ['GET /volumes?q=a&printType=', 'printType'],
    ['GET /volumes?q=a&printType=papers', 'printType'],
    ['GET /volumes?q=a&langRestrict=english', 'langRestrict'],
    ['GET /volumes?q=a&download=pdf', 'download'],
    ['GET /volumes?q=a&maxAllowedMaturityRating=12', 'maxAllowedMaturityRating'],
    ['GET /volumes?q=a&libraryRestrict=yours', 'libraryRestrict'],
    ['GET /volumes?q=a&showPreorders=yes', 'showPreorders'],
    ['GET /volumes?q=a&projection=heavy', 'projection'],
    ['GET /volumes?q=a&country=Germany', 'country'],
    ['GET /volumes?q=a&alt=atom', 'alt'],
    ['GET /volumes?q=a&callback=show', 'callback'],
    ['GET /volumes?q=a&prettyPrint=nice', 'prettyPrint'],
    ['GET /volumes?q=a&$.xgafv=3', '$.xgafv'],
    ['GET /volumes/tide?includeNonComicsSeries=maybe', 'includeNonComicsSeries'],
    ['GET /volumes/tide?user_library_consistent_read=2', 'user_library_consistent_read'],
    ['GET /mylibrary/bookshelves/1001/volumes?showPreorders=x', 'showPreorders'],
    ['GET /mylibrary/bookshelves?alt=media', 'alt'],
    ['POST /mylibrary/bookshelves/0/addVolume?volumeId=tide&reason=WHIM', 'reason'],
    ['POST /mylibrary/bookshelves/1001/removeVolume?volumeId=tide&reason=IOS_PREX', 'reason'],
    ['POST /mylibrary/bookshelves/1001/moveVolume?volumeId=tide&volumePosition=top', 'volumePosition'],
    ['POST /mylibrary/bookshelves/1001/removeVolume?volumeId=tide&fields=(', 'fields'],
  ])('%s', (request, location) => {
    const { world } = tides();
    const { ask, service } = askingBooks(world);
    const shelves = JSON.stringify([...world.user(ME).shelves]);
    const [method, path] = request.split(' ') as [string, string];
    const { status, json } = ask(method, path, { authorization: `Bearer ${service.tokens.token}` });
    const [error] = json.error.errors;
    expect([status, error.reason, error.locationType, error.location]).toEqual([
      400,
      'invalidParameter',
      'parameter',
      location,
    ]);
    expect(JSON.stringify([...world.user(ME).shelves])).toBe(shelves);
  });

  test.each<[what: string, query: string, location: string]>([
    ['terms', `q=${'tide+'.repeat(65)}`, 'q'],
    ['characters of a term', `q=tide+${'e'.repeat(60_000)}`, 'q'],
    ['characters of a phrase', `q=intitle:"${'tide+'.repeat(300)}"`, 'q'],
    ['fields', `q=a&fields=${'kind,'.repeat(1000)}kind`, 'fields'],
    ['levels of fields', `q=a&fields=${'a('.repeat(2000)}`, 'fields'],
  ])('too many %s', (_, query, location) => {
    const { status, json } = asking().get(`/volumes?${query}`);
    expect([status, json.error.errors[0].location]).toEqual([400, location]);
  });

  test('what is not there is named, too', () => {
    const { get, post } = asking();
    const blamed = [
      get('/volumes'),
      post('/mylibrary/bookshelves/0/addVolume'),
      post('/mylibrary/bookshelves/1001/moveVolume?volumeId=tide'),
    ].map(({ json }) => [json.error.errors[0].reason, json.error.errors[0].location]);
    expect(blamed).toEqual([
      ['required', 'q'],
      ['required', 'volumeId'],
      ['required', 'volumePosition'],
    ]);
  });

  test.each([
    'alt=json',
    'alt=JSON',
    'quotaUser=anybody',
    'userIp=192.0.2.1',
    'source=shelfdesk-test',
    'partner=none',
    'uploadType=media',
    'upload_protocol=raw',
    '$.xgafv=2',
    'prettyPrint=false',
    'country=us',
    'country=',
    'maxResults=0',
    'maxResults=40',
  ])('%s does no harm', more => {
    expect(asking({ parametersChecked: true }).get(`/volumes?q=tide&${more}`).status).toBe(200);
  });

  test('a country is shown in upper case', () => {
    expect(asking().get('/volumes/tide?country=de').json.accessInfo.country).toBe('DE');
  });

  test('parametersChecked: names that an operation does not know', () => {
    const status = (path: string, parametersChecked: boolean) => asking({ parametersChecked }).get(path).status;
    for (const path of [
      '/volumes?q=tide&page=2',
      '/mylibrary/bookshelves/1001?q=tide',
      '/volumes/tide?orderBy=newest',
    ]) {
      expect([status(path, false), status(path, true)]).toEqual([200, 400]);
    }
  });

  test.each<[path: string, fields: string, strict: number]>([
    ['/volumes?q=tide', 'kind,totalItems,items(id,volumeInfo/anything)', 200],
    ['/volumes?q=tide', 'items/*', 200],
    ['/volumes?q=tide', '*/id', 200],
    ['/volumes?q=tide', 'items/name', 400],
    ['/volumes?q=tide', '*/name', 400],
    ['/volumes?q=tide', 'id', 400],
    ['/volumes/tide', 'id,userInfo,layerInfo', 200],
    ['/volumes/tide', 'items', 400],
    ['/mylibrary/bookshelves', 'items(id,volumesLastUpdated)', 200],
    ['/mylibrary/bookshelves', 'items/name', 400],
    ['/mylibrary/bookshelves/1001', 'id,title', 200],
    ['/mylibrary/bookshelves/1001', 'items', 400],
  ])('fieldsChecked: %s has %s: %i', (path, fields, strict) => {
    const ask = (fieldsChecked: boolean) =>
      asking({ fieldsChecked }).get(`${path}${path.includes('?') ? '&' : '?'}fields=${fields}`).status;
    expect([ask(false), ask(true)]).toEqual([200, strict]);
  });
});

describe('switches of my library', () => {
  test('userInfo: absent, the same in every reply, or another one each time', () => {
    const infos = (userInfo: 'none' | 'steady' | 'varies', path: string) => {
      const { world, clock } = tides();
      world.add(ME, 1, 'free');
      const { get } = askingBooks(world, { userInfo });
      return [0, 5000].map(ms => {
        clock.ms += ms;
        const { json } = get(path);
        return (json.items ?? [json]).map(({ userInfo }: { userInfo?: object }) => userInfo);
      });
    };
    const shelf = '/mylibrary/bookshelves/1001/volumes';
    const about = (isPurchased: boolean, updated: string) => ({
      isPurchased,
      isPreordered: false,
      isInMyBooks: true,
      updated,
    });
    const at = (time: string) => [about(false, time), about(true, time), about(false, time)];
    expect(infos('none', shelf).flat()).toEqual(Array(6).fill(undefined));
    expect(infos('steady', shelf)).toEqual([at('2024-05-01T12:00:00.000Z'), at('2024-05-01T12:00:00.000Z')]);
    expect(infos('varies', shelf)).toEqual([at('2024-05-01T12:00:00.000Z'), at('2024-05-01T12:00:05.000Z')]);
    for (const other of ['/volumes/tide', `/users/${ME}/bookshelves/1/volumes`]) {
      expect(infos('varies', other).flat()).toEqual([undefined, undefined]);
    }
  });

  test.each([
    'addVolume?volumeId=tide',
    'clearVolumes',
    'removeVolume?volumeId=old',
    'moveVolume?volumeId=old&volumePosition=0',
  ])('fixedShelvesLocked: %s', operation => {
    const statuses = (fixedShelvesLocked: boolean) => {
      const { world } = tides();
      for (const shelf of world.user(ME).shelves.values()) shelf.volumes = ['ids', 'old'];
      const { post } = askingBooks(world, { fixedShelvesLocked });
      return [...world.user(ME).shelves.keys()].map(id => post(`/mylibrary/bookshelves/${id}/${operation}`).status);
    };
    expect(statuses(false)).toEqual(Array(10).fill(200));
    expect(statuses(true)).toEqual([200, 403, 200, 200, 200, 403, 403, 403, 403, 200]);
  });
});

describe('how it is asked', () => {
  const TOKEN = 'sandbox-books-token';
  test.each<[what: string, path: string, headers: Record<string, string>, status: number, reason?: string]>([
    ['a key in a header', '/volumes?q=tide', { 'x-goog-api-key': 'sandbox-books-key' }, 200],
    ['a wrong one', '/volumes?q=tide', { 'x-goog-api-key': 'mine' }, 400, 'keyInvalid'],
    [
      'a wrong one beside a right one',
      '/volumes?q=tide&key=sandbox-books-key',
      { 'x-goog-api-key': 'x' },
      400,
      'keyInvalid',
    ],
    ['an empty key', '/volumes?q=tide&key=', {}, 400, 'keyInvalid'],
    ['access_token', `/mylibrary/bookshelves?access_token=${TOKEN}`, {}, 200],
    ['oauth_token', `/mylibrary/bookshelves?oauth_token=${TOKEN}`, {}, 200],
    ['a wrong one', '/mylibrary/bookshelves?access_token=mine', {}, 401, 'authError'],
    ['an empty one', '/mylibrary/bookshelves?access_token=', {}, 401, 'authError'],
    [
      'a wrong one beside a right one',
      '/volumes?q=a&oauth_token=x',
      { authorization: `Bearer ${TOKEN}` },
      401,
      'authError',
    ],
    ['a header without a token', '/volumes?q=a&key=sandbox-books-key', { authorization: 'Bearer' }, 401, 'authError'],
  ])('%s: %s %o → %i', (_, path, headers, status, reason) => {
    const got = asking().anonymous(path, headers);
    expect([got.status, got.json.error?.errors[0].reason]).toEqual([status, reason]);
    if (status === 401)
      expect(got.json.error.errors[0]).toMatchObject({ locationType: 'header', location: 'Authorization' });
  });

  const bearer = { authorization: `Bearer ${TOKEN}` };
  const overriding = (verb: string, url: string, type?: string, body?: string) => {
    const { service } = asking();
    const headers = { ...bearer, 'x-http-method-override': verb, ...(type && { 'content-type': type }) };
    const asked = { method: 'POST', url: `/books/v1${url}`, headers, ...(body && { body: Buffer.from(body) }) };
    const { status, text } = service.handle(asked);
    return { status, json: JSON.parse(text), seen: service.requests[0] };
  };

  test('a POST that stands for GET, with its query in the URL, in a form, or in both', () => {
    const form = 'application/x-www-form-urlencoded; charset=UTF-8';
    const ids = (got: { json: { items: { id: string }[] } }) => got.json.items.map(({ id }) => id).join(' ');
    expect(ids(overriding('GET', '/volumes?q=ebb'))).toBe('paid');
    expect(ids(overriding('get', '/volumes', form, 'q=ebb'))).toBe('paid');
    expect(ids(overriding('GET', '/volumes?q=tide&maxResults=9', form, 'maxResults=1'))).toBe('tide');
    expect(overriding('GET', '/volumes', 'text/plain', 'q=ebb').status).toBe(400);
    expect(overriding('GET', '/volumes', form, `q=${'e'.repeat(70_000)}`)).toMatchObject({
      status: 413,
      json: { error: { errors: [{ reason: 'uploadTooLarge' }] } },
    });
    expect(overriding('GET', '/volumes?q=ebb').seen).toMatchObject({ method: 'GET', cost: 1 });
  });

  test('or for what is not offered, or for nothing known', () => {
    expect(overriding('DELETE', '/mylibrary/bookshelves/1001').status).toBe(405);
    expect(overriding('NONSENSE', '/mylibrary/bookshelves/1001/clearVolumes').status).toBe(200);
    const { ask } = asking();
    expect(ask('GET', '/mylibrary/bookshelves', { ...bearer, 'x-http-method-override': 'DELETE' }).status).toBe(200);
  });

  test('a form of a POST that is one means nothing, however odd', () => {
    const { service } = asking();
    for (const body of ['volumeId=old', '{{{', '\0']) {
      const url = '/books/v1/mylibrary/bookshelves/0/addVolume';
      const headers = { ...bearer, 'content-type': 'application/x-www-form-urlencoded' };
      expect(service.handle({ method: 'POST', url, headers, body: Buffer.from(body) }).status).toBe(400);
      expect(
        service.handle({ method: 'POST', url: `${url}?volumeId=tide`, headers, body: Buffer.from(body) }).status,
      ).toBe(200);
    }
  });

  test('X-Goog-FieldMask stands for fields', () => {
    const { service } = asking();
    const headers = { ...bearer, 'x-goog-fieldmask': 'id' };
    expect(service.handle({ method: 'GET', url: '/books/v1/volumes/tide', headers }).text).toBe('{"id":"tide"}');
  });

  test('HEAD is answered and charged as GET', () => {
    const { ask, service } = asking();
    const [head, get] = ['HEAD', 'GET'].map(method => ask(method, '/mylibrary/bookshelves', bearer));
    expect(head).toEqual(get);
    expect(ask('HEAD', '/mylibrary/bookshelves/0/clearVolumes', bearer).status).toBe(405);
    expect(service.requests.map(({ method, cost }) => [method, cost])).toEqual([
      ['HEAD', 1],
      ['GET', 1],
      ['HEAD', 1],
    ]);
  });

  test('the base address itself is the catalog’s, and nothing', async () => {
    for (const url of ['/books/v1', '/books/v1/', '/books/v1?key=sandbox-books-key']) {
      expect(BooksService.takes(url)).toBe(true);
      const reply = asking().service.handle({ method: 'GET', url, headers: bearer });
      expect([reply.status, JSON.parse(reply.text).error.errors[0].reason]).toEqual([404, 'notFound']);
    }
    for (const url of ['/books/v10/volumes', '/books', '/api/v1/books/v1/volumes']) {
      expect(BooksService.takes(url)).toBe(false);
    }
  });

  test('links begin as the client has asked', () => {
    const { service } = asking();
    const link = (secure: boolean) => {
      const asked = {
        method: 'GET',
        url: '/books/v1/volumes/tide',
        headers: { host: 'books.test', ...bearer },
        secure,
      };
      return JSON.parse(service.handle(asked).text).selfLink;
    };
    expect(link(false)).toBe('http://books.test/books/v1/volumes/tide');
    expect(link(true)).toBe('https://books.test/books/v1/volumes/tide');
  });

  test('405 tells what is offered', () => {
    const { ask } = asking();
    const allow = (method: string, path: string) => ask(method, path, bearer).headers.Allow;
    expect(allow('DELETE', '/volumes/tide')).toBe('GET, HEAD, POST, OPTIONS');
    expect(ask('POST', '/volumes/tide', { ...bearer, 'x-http-method-override': 'GET' }).status).toBe(200);
    expect(allow('GET', '/mylibrary/bookshelves/0/addVolume')).toBe('POST, OPTIONS');
    expect(allow('DELETE', '/nowhere')).toBeUndefined();
  });

  test('OPTIONS costs nothing and needs no credentials', () => {
    const { ask, service } = asking({ requestsPerDay: 0 });
    const page = { origin: 'https://shop.example', 'access-control-request-headers': 'authorization' };
    expect(ask('OPTIONS', '/mylibrary/bookshelves')).toMatchObject({
      status: 204,
      headers: { Allow: 'GET, HEAD, POST, OPTIONS' },
    });
    expect(ask('OPTIONS', '/mylibrary/bookshelves/0/addVolume', page)).toMatchObject({
      status: 204,
      text: '',
      headers: {
        'Access-Control-Allow-Origin': '*',
        'Access-Control-Allow-Methods': 'POST, OPTIONS',
        'Access-Control-Allow-Headers': 'authorization',
      },
    });
    expect(ask('OPTIONS', '/nowhere', page).status).toBe(404);
    expect(service.requests.map(({ cost }) => cost)).toEqual([0, 0, 0]);
  });

  test('a page of another origin may read replies and errors', () => {
    const { ask } = asking();
    const origin = { origin: 'https://shop.example' };
    expect(ask('GET', '/volumes/tide', { ...bearer, ...origin }).headers['Access-Control-Allow-Origin']).toBe('*');
    expect(ask('GET', '/volumes/tide', origin).headers['Access-Control-Allow-Origin']).toBe('*');
    expect('Access-Control-Allow-Origin' in ask('GET', '/volumes/tide', bearer).headers).toBe(false);
  });
});
