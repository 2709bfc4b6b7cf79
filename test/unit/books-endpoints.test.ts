/** Each operation of the book catalog as the request that it is, and what is asked of a record. */
import { expect, test } from 'vitest';
import { check } from '../../src/engine/http/request.ts';
import * as books from '../../src/sources/books/endpoints.ts';
import { shelf, volume } from '../../src/sources/books/records.ts';
import { checkOf, factsOf } from '../../src/sources/record/check.ts';

const page = { startIndex: 40, maxResults: 20 };
const own = { as: 'user' };

test.for<[name: string, request: object, expected: object]>([
  ['Bookshelf list', books.listShelves('a/b'), { path: '/users/a%2Fb/bookshelves', query: { maxResults: '40' } }],
  ['Bookshelf get', books.getShelf('ada', '3'), { path: '/users/ada/bookshelves/3', query: {}, shape: 'single' }],
  ['Volume get', books.getVolume('v/1?'), { path: '/volumes/v%2F1%3F', query: {}, shape: 'single' }],
  [
    'Bookshelves.volumes list',
    books.listVolumes('ada', '3', page),
    { path: '/users/ada/bookshelves/3/volumes', query: { startIndex: '40', maxResults: '20' }, ofOne: true },
  ],
  [
    'Mylibrary.bookshelves get',
    books.getShelf('mylibrary', '3'),
    { ...own, path: '/mylibrary/bookshelves/3', query: {}, shape: 'single' },
  ],
  [
    'Mylibrary.bookshelves list',
    books.listShelves('mylibrary', { startIndex: 40 }),
    { ...own, path: '/mylibrary/bookshelves', query: { startIndex: '40', maxResults: '40' } },
  ],
  [
    'Mylibrary.bookshelves.volumes list',
    books.listVolumes('mylibrary', '3', page),
    { ...own, path: '/mylibrary/bookshelves/3/volumes', query: { startIndex: '40', maxResults: '20' }, ofOne: true },
  ],
])('%s', ([, request, expected]) => {
  const { record, ...rest } = request as { record: unknown };
  // For the field rules.
  const { path } = expected as { path: string };
  const kind = /volumes(\/[^/]+)?$/.test(path) ? 'volumes' : 'shelves';
  expect(rest).toEqual({ shape: 'items', cost: 1, kind, ...expected });
  expect(record).toBeDefined();
});

test.for<[schema: 'shelf' | 'volume', id: unknown, read: string | undefined]>([
  ['shelf', 7, '7'],
  ['shelf', '1001', '1001'],
  ['shelf', 2 ** 60, undefined],
  ['shelf', null, undefined],
  ['volume', 'zyTCAlFPjgYC', 'zyTCAlFPjgYC'],
  ['volume', '', undefined],
  ['volume', '..', undefined],
  ['volume', 'a\0', undefined],
  ['volume', 7, undefined],
])('a %s with the id %j: only the id has to be readable', ([kind, id, read]) => {
  const record = { id, volumeInfo: 'no object', volumeCount: 'many', more: [1] };
  const checked = check<{ id: string }>(checkOf(kind === 'shelf' ? shelf : volume), record, 0);
  if (read !== undefined) expect(checked).toEqual({ readable: { ...record, id: read } });
  else expect(checked).toMatchObject({ path: 'id', raw: record });
});

test('what is expected of fields tells wrong types, and nothing of what is absent or new', () => {
  const [ofShelf, ofVolume] = [factsOf(shelf), factsOf(volume)];
  expect([ofShelf, ofVolume].map(({ expected }) => expected!.safeParse({ x: 1 }).success)).toEqual([true, true]);
  const wrong = ofVolume.expected!.safeParse({ id: 'v', volumeInfo: { authors: 'Ada', pageCount: 0 }, saleInfo: [] });
  expect(wrong.error?.issues.map(({ path }) => path.join('.'))).toEqual(['volumeInfo.authors', 'saleInfo']);
  expect(ofShelf.fields).toContain('volumesLastUpdated');
});
