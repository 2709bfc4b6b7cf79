/** The public client, pointed at the sandbox: what it takes for a book catalog is one. */
import { auth, books } from '@googleapis/books';
import { OAuth2Client } from 'google-auth-library';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type BooksOptions, startSandbox } from '../../src/sandbox/server.ts';
import { emptyBooks, ME } from './books-asking.ts';

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
    expect(failed.response.data.error.errors[0].reason).toBe('invalidParameter');
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
