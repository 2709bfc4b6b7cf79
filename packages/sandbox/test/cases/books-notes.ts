/** Catalogs in the field notes: fields, parameters, errors and quirks. */
import { type BooksCase, matching, ofLength, someInteger, someText } from './case.ts';
import { OWNER } from './worlds.ts';

const rule = 'notes books ';
const MY = '/mylibrary/bookshelves';
const SHELF = `/users/${OWNER}/bookshelves/1001`;
const INSTANT = matching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);

/** The error of a catalog. */
const error = (code: number, reason: string) => ({
  error: { code, message: someText, errors: [{ domain: someText, reason, message: someText }] },
});

const startIndex: BooksCase[] = (
  [
    ['0', ['v1', 'v2', 'v3']],
    ['1', ['v2', 'v3']],
    ['2', ['v3']],
  ] as const
).flatMap(([start, ids]) =>
  [SHELF, `${MY}/1001`].map(path => ({
    rule: `${rule}startIndex`,
    what: `${start} of ${path}`,
    ask: `GET ${path}/volumes?startIndex=${start}`,
    has: { items: ids.map(id => ({ id })) },
  })),
);

export const booksNotes: BooksCase[] = [
  {
    rule: `${rule}shelf`,
    what: 'has nine fields and a description where there is one',
    ask: `GET ${SHELF}`,
    is: {
      ...{ kind: 'books#bookshelf', id: 1001, selfLink: matching(/\/books\/v1\/users\/\d+\/bookshelves\/1001$/) },
      ...{ title: 'Of the sea', access: 'PUBLIC', volumeCount: 3 },
      ...{ created: INSTANT, updated: INSTANT, volumesLastUpdated: INSTANT },
    },
  },
  {
    rule: `${rule}shelf`,
    what: 'counts of its own user only',
    ask: `GET ${MY}/1001`,
    has: { id: 1001, title: 'Mine' },
  },
  {
    rule: `${rule}shelf`,
    what: 'says when its volumes changed',
    steps: [
      { ask: `POST ${MY}/1001/removeVolume?volumeId=v1`, later: 60 },
      {
        ask: `GET ${MY}/1001`,
        has: { volumesLastUpdated: '2024-05-01T12:01:00.000Z', created: '2024-05-01T12:00:00.000Z' },
      },
    ],
  },
  {
    rule: `${rule}lists`,
    what: 'of shelves',
    ask: `GET ${MY}`,
    has: { kind: 'books#bookshelves', items: ofLength(10) },
  },
  {
    rule: `${rule}lists`,
    what: 'of volumes on a shelf',
    ask: `GET ${SHELF}/volumes`,
    has: { kind: 'books#volumes', items: ofLength(3), totalItems: someInteger },
  },
  {
    rule: `${rule}lists`,
    what: 'of a search',
    ask: 'GET /volumes?q=whale',
    has: { kind: 'books#volumes', items: ofLength(2), totalItems: someInteger },
  },
  {
    rule: `${rule}volume`,
    what: 'has its parts',
    ask: 'GET /volumes/v3?country=ID',
    has: {
      ...{ kind: 'books#volume', id: 'v3', etag: someText, selfLink: matching(/\/books\/v1\/volumes\/v3$/) },
      volumeInfo: { title: 'Prices of Tea', previewLink: someText, infoLink: someText, canonicalVolumeLink: someText },
      saleInfo: { saleability: 'FOR_SALE', isEbook: true },
      accessInfo: { viewability: 'NO_PAGES' },
    },
  },
  {
    rule: `${rule}volume`,
    what: 'leaves out what it has not',
    ask: 'GET /volumes/v2',
    has: { volumeInfo: { title: 'Whale Songs', authors: ['Ada Lovelace', 'Grace Hopper'] } },
    lacks: ['volumeInfo.subtitle', 'volumeInfo.publisher', 'volumeInfo.pageCount', 'volumeInfo.publishedDate'],
  },
  ...startIndex,
  {
    rule: `${rule}startIndex`,
    what: 'of shelves',
    ask: `GET ${MY}?startIndex=8`,
    has: { items: [{ id: 8 }, { id: 1001 }] },
  },
  {
    rule: `${rule}startIndex`,
    what: 'behind the end of a search',
    ask: 'GET /volumes?q=numbered&startIndex=50',
    lacks: ['items'],
  },
  {
    rule: `${rule}maxResults`,
    what: 'of shelves',
    ask: `GET ${MY}?maxResults=2&startIndex=1`,
    has: { items: [{ id: 1 }, { id: 2 }] },
  },
  { rule: `${rule}maxResults`, what: '0 shows nothing', ask: `GET ${MY}/1001/volumes?maxResults=0`, lacks: ['items'] },
  {
    rule: `${rule}maxResults`,
    what: 'twice: the last one',
    ask: `GET ${MY}/1001/volumes?maxResults=9&maxResults=2`,
    has: { items: ofLength(2) },
  },
  {
    rule: `${rule}startIndex`,
    what: 'behind the last one',
    ask: `GET ${SHELF}/volumes?startIndex=3`,
    lacks: ['items'],
  },
  {
    rule: `${rule}startIndex`,
    what: 'of a search',
    ask: 'GET /volumes?q=numbered&startIndex=45',
    has: { items: ofLength(5) },
  },
  ...['-1', 'x', '1.5'].map(
    (value): BooksCase => ({
      rule: `${rule}startIndex`,
      what: `${value} is refused`,
      ask: `GET /volumes?q=numbered&startIndex=${value}`,
      status: 400,
    }),
  ),
  { rule: `${rule}maxResults`, what: '10 by itself', ask: 'GET /volumes?q=numbered', has: { items: ofLength(10) } },
  {
    rule: `${rule}maxResults`,
    what: '40 at most',
    ask: 'GET /volumes?q=numbered&maxResults=40',
    has: { items: ofLength(40) },
  },
  { rule: `${rule}maxResults`, what: '1', ask: 'GET /volumes?q=numbered&maxResults=1', has: { items: ofLength(1) } },
  {
    rule: `${rule}maxResults`,
    what: 'of a shelf',
    ask: `GET ${SHELF}/volumes?maxResults=2`,
    has: { items: [{ id: 'v1' }, { id: 'v2' }] },
  },
  {
    rule: `${rule}maxResults`,
    what: 'and startIndex together walk through a shelf',
    steps: [
      { ask: `GET ${SHELF}/volumes?maxResults=2&startIndex=0`, has: { items: [{ id: 'v1' }, { id: 'v2' }] } },
      { ask: `GET ${SHELF}/volumes?maxResults=2&startIndex=2`, has: { items: [{ id: 'v3' }] } },
    ],
  },
  ...['41', '-1', 'x', '2.5'].map(
    (value): BooksCase => ({
      rule: `${rule}maxResults`,
      what: `${value} is refused`,
      ask: `GET /volumes?q=numbered&maxResults=${value}`,
      status: 400,
    }),
  ),
  {
    rule: `${rule}projection`,
    what: 'lite shows less',
    ask: 'GET /volumes/v1?projection=lite',
    has: { id: 'v1', volumeInfo: { title: 'The Whale' } },
  },
  {
    rule: `${rule}projection`,
    what: 'full',
    ask: 'GET /volumes/v1?projection=full',
    has: { id: 'v1', accessInfo: {} },
  },
  {
    rule: `${rule}projection`,
    what: 'of a search',
    ask: 'GET /volumes?q=melville&projection=lite',
    has: { items: [{ id: 'v1' }] },
  },
  {
    rule: `${rule}projection`,
    what: 'of another kind is refused',
    ask: 'GET /volumes/v1?projection=half',
    status: 400,
  },
  {
    rule: `${rule}country`,
    what: 'is in saleInfo',
    ask: 'GET /volumes/v3?country=DE',
    has: { saleInfo: { country: 'DE' } },
  },
  {
    rule: `${rule}country`,
    what: 'need not be said, by the default of countryNeeded',
    ask: 'GET /volumes/v3',
    has: { id: 'v3' },
  },
  {
    rule: `${rule}fields`,
    what: 'of one level',
    ask: 'GET /volumes/v1?fields=id,kind',
    is: { id: 'v1', kind: 'books#volume' },
  },
  {
    rule: `${rule}fields`,
    what: 'of a path',
    ask: 'GET /volumes/v1?fields=volumeInfo/title',
    is: { volumeInfo: { title: 'The Whale' } },
  },
  {
    rule: `${rule}fields`,
    what: 'of several',
    ask: 'GET /volumes/v1?fields=id,volumeInfo(title,authors)',
    is: { id: 'v1', volumeInfo: { title: 'The Whale', authors: ['Herman Melville'] } },
  },
  {
    rule: `${rule}fields`,
    what: 'of items',
    ask: `GET ${SHELF}/volumes?fields=items(id)`,
    is: { items: [{ id: 'v1' }, { id: 'v2' }, { id: 'v3' }] },
  },
  {
    rule: `${rule}fields`,
    what: 'of items, as a path',
    ask: `GET ${SHELF}/volumes?fields=items/id&maxResults=1`,
    is: { items: [{ id: 'v1' }] },
  },
  ...['items(id', 'a//b', 'items)', '(', 'id,,kind'].map(
    (fields): BooksCase => ({
      rule: `${rule}fields`,
      what: `${fields} is refused`,
      ask: `GET /volumes/v1?fields=${fields}`,
      status: 400,
    }),
  ),
  {
    rule: `${rule}key`,
    what: 'of this service',
    ask: 'GET /volumes/v1?key=sandbox-books-key',
    as: null,
    has: { id: 'v1' },
  },
  {
    rule: `${rule}key`,
    what: 'is needed with keyNeeded',
    options: { keyNeeded: true },
    steps: [
      { ask: 'GET /volumes/v1', as: null, status: 403, has: error(403, 'forbidden') },
      { ask: 'GET /volumes/v1?key=sandbox-books-key', as: null },
    ],
  },
  {
    rule: `${rule}keyInvalid`,
    what: 'a wrong key',
    ask: 'GET /volumes/v1?key=wrong',
    as: null,
    status: 400,
    has: error(400, 'keyInvalid'),
  },
  {
    rule: `${rule}keyInvalid`,
    what: 'of a list of shelves',
    ask: `GET /users/${OWNER}/bookshelves?key=wrong`,
    as: null,
    status: 400,
    has: error(400, 'keyInvalid'),
  },
  {
    rule: `${rule}volumePosition`,
    what: 'in the query, counted from 0',
    steps: [
      { ask: `POST ${MY}/1001/moveVolume?volumeId=v2&volumePosition=0`, status: 200 },
      { ask: `GET ${MY}/1001/volumes`, has: { items: [{ id: 'v2' }, { id: 'v1' }, { id: 'v3' }] } },
    ],
  },
  ...[null, 'application/json', 'text/plain', 'application/x-www-form-urlencoded'].map(
    (type): BooksCase => ({
      rule: `${rule}no body`,
      what: `as ${type ?? 'nothing'}`,
      ask: `POST ${MY}/2/addVolume?volumeId=v3`,
      type,
      status: 200,
      is: {},
    }),
  ),
  {
    rule: `${rule}no body`,
    what: 'and a body does no harm',
    ask: `POST ${MY}/2/addVolume?volumeId=v3`,
    raw: '{',
    status: 200,
  },
  ...[
    'addVolume?volumeId=v10',
    'clearVolumes',
    'moveVolume?volumeId=v1&volumePosition=1',
    'removeVolume?volumeId=v1',
  ].flatMap((operation): BooksCase[] => [
    {
      rule: `${rule}204`,
      what: `${operation} is 200 with {} by default`,
      ask: `POST ${MY}/1001/${operation}`,
      status: 200,
      is: {},
    },
    {
      rule: `${rule}204`,
      what: `${operation} with posts 204`,
      options: { posts: 204 },
      ask: `POST ${MY}/1001/${operation}`,
      status: 204,
    },
  ]),
  ...Object.entries([
    'Favorites',
    'Purchased',
    'To read',
    'Reading now',
    'Have read',
    'Reviewed',
    'Recently viewed',
    'My eBooks',
    'Books for you',
  ]).map(
    ([id, title]): BooksCase => ({
      rule: `${rule}shelf ids`,
      what: `${id} is there for all`,
      ask: `GET ${MY}/${id}`,
      has: { id: Number(id), title },
    }),
  ),
  { rule: `${rule}shelf ids`, what: '9 is not', ask: `GET ${MY}/9`, status: 404 },
];
