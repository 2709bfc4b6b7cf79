/** The public client library against the sandbox: it must accept the sandbox as a book catalog. */
import { auth, books } from '@googleapis/books';
import { OAuth2Client } from 'google-auth-library';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type BooksOptions, startSandbox } from '../src/server.ts';
import { emptyBooks, ME } from './books-in-process.ts';

async function catalog(options: BooksOptions = {}) {
  const { world } = emptyBooks();
  for (const id of 'abcdef') world.addVolume({ id, info: { title: `Book ${id}`, authors: ['Ada Li'] } });
  world.createShelf(ME, { title: 'Mine', volumes: [...'abcde'] });
  world.addUser('77');
  world.createShelf('77', { title: 'Theirs', access: 'PUBLIC', volumes: ['b', 'a'] });
  world.createShelf('77', { title: 'Hidden' });
  const sandbox = await startSandbox({
    tickets: 0,
    books: { world, totalItems: 'true', requestsPerSecond: 1e6, ...options },
  });
  onTestFinished(() => sandbox.close());
  const { url, key, token } = sandbox.books;
  const rootUrl = new URL('/', url).href;
  const withToken = new auth.OAuth2();
  withToken.setCredentials({ access_token: token });
  return {
    sandbox,
    world,
    rootUrl,
    open: books({ version: 'v1', auth: key, rootUrl }),
    mine: books({ version: 'v1', auth: withToken, rootUrl }).mylibrary.bookshelves,
  };
}

const ids = ({ data }: { data: { items?: { id?: string | number | null }[] } }) => data.items?.map(({ id }) => id);

describe('with a key', () => {
  test('bookshelves.list and .get, bookshelves.volumes.list', async () => {
    const { open } = await catalog();
    expect(ids(await open.bookshelves.list({ userId: '77' }))).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 1001]);
    const { data } = await open.bookshelves.get({ userId: '77', shelf: '1001' });
    expect(data).toMatchObject({ id: 1001, title: 'Theirs', access: 'PUBLIC', volumeCount: 2 });
    const list = { userId: '77', shelf: '1001' };
    expect(ids(await open.bookshelves.volumes.list(list))).toEqual(['b', 'a']);
    expect(ids(await open.bookshelves.volumes.list({ ...list, startIndex: 1, maxResults: 1 }))).toEqual(['a']);
    expect(ids(await open.bookshelves.volumes.list({ ...list, shelf: '0' }))).toBeUndefined();
  });

  test('volumes.get and .list', async () => {
    const { open } = await catalog();
    const { data } = await open.volumes.get({ volumeId: 'c', country: 'DE', projection: 'full' });
    expect(data.volumeInfo).toMatchObject({ title: 'Book c', authors: ['Ada Li'] });
    expect(data.accessInfo?.country).toBe('DE');
    const found = await open.volumes.list({ q: 'inauthor:"Ada Li"', maxResults: 2, startIndex: 4, prettyPrint: true });
    expect(found.data).toMatchObject({ kind: 'books#volumes', totalItems: 6, items: [{ id: 'e' }, { id: 'f' }] });
    const part = await open.volumes.list({ q: 'book', fields: 'items(id,volumeInfo/title)', maxResults: 1 });
    expect(part.data).toStrictEqual({ items: [{ id: 'a', volumeInfo: { title: 'Book a' } }] });
  });

  test('an error is one of the client’s, with its status and reason', async () => {
    const { open } = await catalog();
    const failed = await open.volumes.list({ q: 'a', maxResults: 41 }).catch(error => error);
    expect(failed).toMatchObject({ status: 400 });
    expect(failed.response.data.error.errors[0]).toMatchObject({ reason: 'invalidParameter', location: 'maxResults' });
  });

  test('every parameter that the client has for a search', async () => {
    const { open, world } = await catalog({ parametersChecked: true, fieldsChecked: true });
    world.addVolume({
      id: 'g',
      info: { title: 'Tide', publishedDate: '2031', printType: 'BOOK', language: 'de', maturityRating: 'NOT_MATURE' },
      saleInfo: { saleability: 'FOR_PREORDER', isEbook: true, listPrice: { amount: '9.99', currencyCode: 'EUR' } },
      accessInfo: { ...world.volume('a').accessInfo, epub: { isAvailable: true } },
    });
    const everything = {
      q: 'tide intitle:tide',
      download: 'EPUB',
      filter: 'paid-ebooks',
      langRestrict: 'de',
      libraryRestrict: 'no-restrict',
      maxAllowedMaturityRating: 'not-mature',
      maxResults: 40,
      orderBy: 'newest',
      partner: 'none',
      printType: 'BOOKS',
      projection: 'LITE',
      showPreorders: true,
      source: 'test',
      startIndex: 0,
      quotaUser: 'somebody',
      alt: 'json',
      prettyPrint: true,
      '$.xgafv': '2',
      fields: 'items/id',
    };
    expect(ids(await open.volumes.list(everything))).toEqual(['g']);
    expect(ids(await open.volumes.list({ ...everything, showPreorders: false }))).toBeUndefined();
    const one = { volumeId: 'g', partner: 'none', includeNonComicsSeries: true, user_library_consistent_read: false };
    expect((await open.volumes.get({ ...one, source: 'test' })).data.id).toBe('g');
    const list = { userId: '77', shelf: '1001', showPreorders: true, source: 'test' };
    expect(ids(await open.bookshelves.volumes.list(list))).toEqual(['b', 'a']);
  });

  test('newest first, and found on my shelves', async () => {
    const { open, sandbox, world } = await catalog();
    for (const [id, publishedDate] of [
      ['a', '1999'],
      ['f', '2001'],
      ['c', '2001-02'],
    ] as const) {
      world.changeVolume(id, { publishedDate });
    }
    const newest = { q: 'book', orderBy: 'newest', maxResults: 3 };
    expect(ids(await open.volumes.list(newest))).toEqual(['c', 'f', 'a']);
    const { token } = sandbox.books;
    const mine = { ...newest, libraryRestrict: 'my-library', access_token: token };
    expect(ids(await open.volumes.list(mine))).toEqual(['c', 'a', 'b']);
  });
});

describe('with a token', () => {
  test('mylibrary.bookshelves.list and .get, .volumes.list', async () => {
    const { mine } = await catalog();
    expect(ids(await mine.list())).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 1001]);
    expect((await mine.get({ shelf: '1001' })).data).toMatchObject({
      title: 'Mine',
      access: 'PRIVATE',
      volumeCount: 5,
    });
    expect(ids(await mine.volumes.list({ shelf: '1001' }))).toEqual([...'abcde']);
    expect(ids(await mine.volumes.list({ shelf: '1001', startIndex: 3, maxResults: 40 }))).toEqual(['d', 'e']);
  });

  test.each([200, 204] as const)(
    '.addVolume, .moveVolume, .removeVolume, .clearVolumes, answered with %i',
    async posts => {
      const { mine, world } = await catalog({ posts });
      const shelf = '1001';
      const now = () => world.shelf(ME, 1001).volumes.join('');
      const added = await mine.addVolume({ shelf, volumeId: 'f' });
      expect([added.status, added.data, now()]).toEqual([posts, posts === 200 ? {} : '', 'fabcde']);
      expect([(await mine.moveVolume({ shelf, volumeId: 'f', volumePosition: 2 })).status, now()]).toEqual([
        posts,
        'abfcde',
      ]);
      expect([(await mine.removeVolume({ shelf, volumeId: 'a' })).status, now()]).toEqual([posts, 'bfcde']);
      expect([(await mine.clearVolumes({ shelf })).status, now()]).toEqual([posts, '']);
    },
  );

  test('reasons, searches on a shelf, and a shelf that the service keeps', async () => {
    const { mine } = await catalog({ parametersChecked: true, fixedShelvesLocked: true, userInfo: 'steady' });
    const shelf = '1001';
    expect((await mine.addVolume({ shelf, volumeId: 'f', reason: 'ONBOARDING', source: 'test' })).status).toBe(200);
    expect((await mine.removeVolume({ shelf, volumeId: 'f', reason: 'ONBOARDING' })).status).toBe(200);
    const search = { shelf, q: 'intitle:c', country: 'DE', projection: 'full', showPreorders: false };
    const { data } = await mine.volumes.list(search);
    expect(data.items).toMatchObject([{ id: 'c', userInfo: { isInMyBooks: true }, accessInfo: { country: 'DE' } }]);
    const failed = await mine.addVolume({ shelf: '7', volumeId: 'f' }).catch(error => error);
    expect([failed.status, failed.response.data.error.errors[0].reason]).toEqual([403, 'forbidden']);
  });

  test('a client that names itself by Basic gets its token', async () => {
    const { sandbox, rootUrl } = await catalog();
    const { clientId, clientSecret, refreshToken, tokenUrl } = sandbox.books;
    const request = async (secret: string) => {
      const authorization = `Basic ${Buffer.from(`${clientId}:${secret}`).toString('base64')}`;
      const body = new URLSearchParams({ grant_type: 'refresh_token', refresh_token: refreshToken });
      return fetch(tokenUrl, { method: 'POST', headers: { authorization }, body });
    };
    const client = new auth.OAuth2();
    client.setCredentials((await (await request(clientSecret)).json()) as { access_token: string });
    expect((await client.request({ url: `${rootUrl}books/v1/mylibrary/bookshelves`, method: 'HEAD' })).status).toBe(
      200,
    );
    expect((await request('wrong')).status).toBe(401);
  });

  test('a token that expires is refreshed by the client, once for each time', async () => {
    const { sandbox, rootUrl } = await catalog();
    const { clientId, clientSecret, refreshToken, tokenUrl, expireTokens, tokensGiven } = sandbox.books;
    const client = new OAuth2Client({ clientId, clientSecret, endpoints: { oauth2TokenUrl: tokenUrl } });
    client.setCredentials({ refresh_token: refreshToken });
    const status = async () => (await client.request({ url: `${rootUrl}books/v1/mylibrary/bookshelves` })).status;
    expect([await status(), await status(), tokensGiven()]).toEqual([200, 200, 1]);
    expireTokens();
    client.forceRefreshOnFailure = true;
    expect([await status(), tokensGiven()]).toEqual([200, 2]);
    expect(sandbox.books.requests.map(({ status }) => status)).toEqual([200, 200, 401, 200]);
  });

  test('a refresh token that is wrong is told as the client knows it', async () => {
    const { sandbox, rootUrl } = await catalog();
    const { clientId, clientSecret, tokenUrl } = sandbox.books;
    const client = new OAuth2Client({ clientId, clientSecret, endpoints: { oauth2TokenUrl: tokenUrl } });
    client.setCredentials({ refresh_token: 'wrong' });
    await expect(client.request({ url: `${rootUrl}books/v1/mylibrary/bookshelves` })).rejects.toThrow('invalid_grant');
  });
});
