/** Every operation of the book catalog (sections 1 to 5 and 9). Open questions are in books-switches.ts, field notes in books-notes.ts. */
import { type BooksCase, matching, NO_SUCH_METHOD, ofLength, someInteger, someText, titled } from './case.ts';
import { OWNER } from './worlds.ts';

const MY = '/mylibrary/bookshelves';
const SHELVES = `/users/${OWNER}/bookshelves`;

/** The title and the count of a shelf of mine after something was done to it, and what stands on it. */
const now = (ids: string, shelf = 1001) => [
  { ask: `GET ${MY}/${shelf}`, has: { id: shelf, volumeCount: ids === '' ? 0 : ids.split(' ').length } },
  ids === ''
    ? { ask: `GET ${MY}/${shelf}/volumes`, lacks: ['items'] }
    : { ask: `GET ${MY}/${shelf}/volumes`, has: { items: ids.split(' ').map(id => ({ id })) } },
];

export const books: BooksCase[] = [
  { rule: 'books 1 base address', what: 'a resource below it', ask: 'GET /volumes/v1', has: { id: 'v1' } },
  { rule: 'books 1 base address', what: 'nothing at the base itself', ask: 'GET /', status: 404 },
  { rule: 'books 1 base address', what: 'nothing at an unknown path', ask: 'GET /shelves', status: 404 },
  ...['/volumes/v1', '/volumes?q=whale', SHELVES, `${SHELVES}/1001`, `${SHELVES}/1001/volumes`].map(
    (path): BooksCase => ({ rule: 'books 1 public', what: path, ask: `GET ${path}`, as: null }),
  ),
  {
    rule: 'books 2 Bookshelf',
    what: 'of a user',
    ask: `GET ${SHELVES}/1001`,
    has: { kind: 'books#bookshelf', id: 1001, title: 'Of the sea', access: 'PUBLIC', volumeCount: 3 },
  },
  {
    rule: 'books 2 Volume',
    what: 'a single one',
    ask: 'GET /volumes/v1',
    has: { kind: 'books#volume', id: 'v1', volumeInfo: { title: 'The Whale', authors: ['Herman Melville'] } },
  },
  {
    rule: 'books 2 Bookshelves.volumes',
    what: 'a list of volumes',
    ask: `GET ${SHELVES}/1001/volumes`,
    has: { kind: 'books#volumes', items: [{ kind: 'books#volume', id: 'v1' }, { id: 'v2' }, { id: 'v3' }] },
  },
  {
    rule: 'books 2 Mylibrary.bookshelves',
    what: 'one of them',
    ask: `GET ${MY}/1001`,
    has: { kind: 'books#bookshelf', id: 1001, title: 'Mine' },
  },
  {
    rule: 'books 2 Mylibrary.bookshelves.volumes',
    what: 'a list of volumes',
    ask: `GET ${MY}/1001/volumes`,
    has: { kind: 'books#volumes', items: [{ kind: 'books#volume' }, {}, {}] },
  },

  {
    rule: 'books 4 bookshelves list',
    what: 'the public ones alone',
    ask: `GET ${SHELVES}`,
    has: { kind: 'books#bookshelves', items: titled(['Of the sea', 'Nothing yet'], ['Secret']) },
  },
  {
    rule: 'books 4 bookshelves list',
    what: 'of a user with fixed ones only',
    ask: 'GET /users/1122334455667788/bookshelves',
    has: { items: titled(['Favorites'], ['Mine']) },
  },
  {
    rule: 'books 4 bookshelves list',
    what: 'of none that others see',
    ask: 'GET /users/88/bookshelves',
    lacks: ['items'],
  },
  {
    rule: 'books 4 bookshelves get',
    what: 'a public one',
    ask: `GET ${SHELVES}/1003`,
    has: { id: 1003, title: 'Nothing yet', volumeCount: 0 },
  },
  { rule: 'books 4 bookshelves get', what: 'not a private one', ask: `GET ${SHELVES}/1002`, status: 404 },
  {
    rule: 'books 4 bookshelves get',
    what: 'not one of somebody else',
    ask: 'GET /users/1122334455667788/bookshelves/1003',
    status: 404,
  },
  {
    rule: 'books 4 volumes get',
    what: 'one',
    ask: 'GET /volumes/v2',
    has: { id: 'v2', volumeInfo: { title: 'Whale Songs' } },
  },
  { rule: 'books 4 volumes get', what: 'none that is not there', ask: 'GET /volumes/none', status: 503 },
  {
    rule: 'books 4 volumes list',
    what: 'two',
    ask: 'GET /volumes?q=whale',
    has: { kind: 'books#volumes', items: ofLength(2), totalItems: someInteger },
  },
  {
    rule: 'books 4 volumes list',
    what: 'none',
    ask: 'GET /volumes?q=zebrafish',
    lacks: ['items'],
    has: { kind: 'books#volumes', totalItems: 0 },
  },
  {
    rule: 'books 4 bookshelves.volumes list',
    what: 'in their order',
    ask: `GET ${SHELVES}/1001/volumes`,
    has: { items: [{ id: 'v1' }, { id: 'v2' }, { id: 'v3' }] },
  },
  {
    rule: 'books 4 bookshelves.volumes list',
    what: 'of an empty one',
    ask: `GET ${SHELVES}/1003/volumes`,
    lacks: ['items'],
  },
  {
    rule: 'books 4 bookshelves.volumes list',
    what: 'not of a private one',
    ask: `GET ${SHELVES}/1002/volumes`,
    status: 404,
  },
  {
    rule: 'books 4 mylibrary get',
    what: 'a private one of mine',
    ask: `GET ${MY}/1001`,
    has: { id: 1001, title: 'Mine', access: 'PRIVATE', volumeCount: 3 },
  },
  { rule: 'books 4 mylibrary get', what: 'not one of the other', ask: `GET ${MY}/1003`, status: 404 },
  {
    rule: 'books 4 mylibrary list',
    what: 'the private ones too',
    ask: `GET ${MY}`,
    has: { kind: 'books#bookshelves', items: titled(['Favorites', 'Mine'], ['Of the sea']) },
  },
  {
    rule: 'books 4 mylibrary.volumes list',
    what: 'in their order',
    ask: `GET ${MY}/1001/volumes`,
    has: { items: [{ id: 'v1' }, { id: 'v2' }, { id: 'v3' }] },
  },
  { rule: 'books 4 mylibrary.volumes list', what: 'of none', ask: `GET ${MY}/0/volumes`, lacks: ['items'] },
  { rule: 'books 4 mylibrary.volumes list', what: 'of no shelf', ask: `GET ${MY}/7777/volumes`, status: 404 },

  {
    rule: 'books 4 addVolume',
    what: 'to an empty one',
    steps: [{ ask: `POST ${MY}/2/addVolume?volumeId=v3` }, ...now('v3', 2)],
  },
  {
    rule: 'books 4 addVolume',
    what: 'to others',
    steps: [{ ask: `POST ${MY}/1001/addVolume?volumeId=v10` }, { ask: `GET ${MY}/1001`, has: { volumeCount: 4 } }],
  },
  {
    rule: 'books 4 addVolume',
    what: 'twice is once',
    steps: [{ ask: `POST ${MY}/2/addVolume?volumeId=v3`, times: 2 }, ...now('v3', 2)],
  },
  { rule: 'books 4 addVolume', what: 'to no shelf', ask: `POST ${MY}/7777/addVolume?volumeId=v3`, status: 404 },
  {
    rule: 'books 4 addVolume',
    what: 'of no volume',
    ask: `POST ${MY}/2/addVolume?volumeId=none`,
    status: 503,
  },
  { rule: 'books 4 addVolume', what: 'without saying which', ask: `POST ${MY}/2/addVolume`, status: 400 },
  { rule: 'books 4 addVolume', what: 'is no GET', ask: `GET ${MY}/2/addVolume?volumeId=v3`, status: NO_SUCH_METHOD },
  {
    rule: 'books 4 addVolume',
    what: 'not for others',
    ask: `POST ${SHELVES}/1001/addVolume?volumeId=v3`,
    status: 404,
  },
  {
    rule: 'books 4 removeVolume',
    what: 'leaves the others',
    steps: [{ ask: `POST ${MY}/1001/removeVolume?volumeId=v2` }, ...now('v1 v3')],
  },
  {
    rule: 'books 4 removeVolume',
    what: 'leaves the volume itself',
    steps: [{ ask: `POST ${MY}/1001/removeVolume?volumeId=v2` }, { ask: 'GET /volumes/v2', has: { id: 'v2' } }],
  },
  {
    rule: 'books 4 removeVolume',
    what: 'that is not on it, by the default of absentVolume',
    ask: `POST ${MY}/1001/removeVolume?volumeId=v10`,
    status: 404,
  },
  { rule: 'books 4 removeVolume', what: 'without saying which', ask: `POST ${MY}/1001/removeVolume`, status: 400 },
  { rule: 'books 4 removeVolume', what: 'from no shelf', ask: `POST ${MY}/7777/removeVolume?volumeId=v1`, status: 404 },
  {
    rule: 'books 4 clearVolumes',
    what: 'leaves none',
    steps: [{ ask: `POST ${MY}/1001/clearVolumes` }, ...now('')],
  },
  { rule: 'books 4 clearVolumes', what: 'twice', ask: `POST ${MY}/1001/clearVolumes`, times: 2 },
  { rule: 'books 4 clearVolumes', what: 'of no shelf', ask: `POST ${MY}/7777/clearVolumes`, status: 404 },
  {
    rule: 'books 4 clearVolumes',
    what: 'of mine leaves those of others with the same id',
    steps: [{ ask: `POST ${MY}/1001/clearVolumes` }, { ask: `GET ${SHELVES}/1001`, has: { volumeCount: 3 } }],
  },
  ...(
    [
      ['v3', 0, 'v3 v1 v2'],
      ['v1', 2, 'v2 v3 v1'],
      ['v1', 1, 'v2 v1 v3'],
      ['v2', 1, 'v1 v2 v3'],
      ['v1', 99, 'v2 v3 v1'],
    ] as const
  ).map(
    ([volume, position, after]): BooksCase => ({
      rule: 'books 4 moveVolume',
      what: `${volume} to ${position}`,
      steps: [{ ask: `POST ${MY}/1001/moveVolume?volumeId=${volume}&volumePosition=${position}` }, ...now(after)],
    }),
  ),
  {
    rule: 'books 4 moveVolume',
    what: 'that is not on it, by the default of absentVolume',
    ask: `POST ${MY}/1001/moveVolume?volumeId=v10&volumePosition=0`,
    status: 404,
  },
  {
    rule: 'books 4 moveVolume',
    what: 'without saying which',
    ask: `POST ${MY}/1001/moveVolume?volumePosition=0`,
    status: 400,
  },
  {
    rule: 'books 4 moveVolume',
    what: 'without saying where to',
    ask: `POST ${MY}/1001/moveVolume?volumeId=v1`,
    status: 400,
  },
  ...['-1', 'x', '1.5', ''].map(
    (position): BooksCase => ({
      rule: 'books 4 moveVolume',
      what: `to '${position}'`,
      ask: `POST ${MY}/1001/moveVolume?volumeId=v1&volumePosition=${position}`,
      status: 400,
    }),
  ),
  {
    rule: 'books 4 moveVolume',
    what: 'on no shelf',
    ask: `POST ${MY}/7777/moveVolume?volumeId=v1&volumePosition=0`,
    status: 404,
  },
  {
    rule: 'books 4 userId',
    what: 'beyond what a double holds',
    ask: `GET /users/${OWNER}/bookshelves/1001`,
    has: { selfLink: matching(new RegExp(OWNER)) },
  },
  {
    rule: 'books 4 userId',
    what: 'of nobody, by the default of unknownUser',
    ask: 'GET /users/9007199254740992/bookshelves',
    status: 400,
  },
  {
    rule: 'books 4 userId',
    what: 'of nobody, with unknownUser 404',
    options: { unknownUser: 404 },
    ask: 'GET /users/1/bookshelves',
    status: 404,
  },
  { rule: 'books 4 userId', what: 'that is no number', ask: 'GET /users/me%20too/bookshelves', status: 400 },
  ...['7777', 'x', '-1', '1.5', '99999999999999999999'].map(
    (shelf): BooksCase => ({ rule: 'books 4 shelf', what: shelf, ask: `GET ${SHELVES}/${shelf}`, status: 404 }),
  ),
  { rule: 'books 4 shelf', what: 'of all, with id 0', ask: `GET ${SHELVES}/0`, has: { id: 0, title: 'Favorites' } },
  { rule: 'books 4 volumeId', what: 'in the path is exact', ask: 'GET /volumes/V1', status: 503 },
  { rule: 'books 4 volumeId', what: 'that is badly encoded', ask: 'GET /volumes/%E0%A4%A', status: 503 },
  ...[
    'DELETE /volumes/v1',
    'PUT /volumes/v1',
    `PATCH ${MY}/1001`,
    `DELETE ${MY}/1001`,
    `POST ${MY}`,
    'POST /volumes',
  ].map((ask): BooksCase => ({ rule: 'books 4 volumes get', what: `there is no ${ask}`, ask, status: NO_SUCH_METHOD })),
  ...(
    [
      ['not one word alone', 'whale+walrus', undefined],
      ['a phrase', '%22the+whale%22', 'v1'],
      ['a phrase the other way round', '%22whale+the%22', undefined],
      ['in a field', 'inauthor:melville', 'v1'],
      ['a phrase in a field', 'intitle:%22whale+songs%22', 'v2'],
      ['by ISBN', 'isbn:155404295x', 'v1'],
      ['by subject and publisher', 'subject:fiction+inpublisher:saltmarsh', 'v1'],
    ] as const
  ).map(
    ([what, q, id]): BooksCase => ({
      rule: 'books 4 q',
      what: `${what}, as public clients write it`,
      ask: `GET /volumes?q=${q}`,
      ...(id === undefined ? { lacks: ['items'] } : { has: { items: [{ id }] } }),
    }),
  ),
  { rule: 'books 4 q', what: 'is needed', ask: 'GET /volumes', status: 400 },
  { rule: 'books 4 q', what: 'cannot be empty', ask: 'GET /volumes?q=', status: 400 },
  { rule: 'books 4 q', what: 'in any case of letters', ask: 'GET /volumes?q=WHALE', has: { items: ofLength(2) } },
  { rule: 'books 4 q', what: 'of two words: both', ask: 'GET /volumes?q=whale+songs', has: { items: [{ id: 'v2' }] } },
  { rule: 'books 4 q', what: 'of an author', ask: 'GET /volumes?q=melville', has: { items: [{ id: 'v1' }] } },

  ...[MY, `${MY}/1001`, `${MY}/1001/volumes`].map(
    (path): BooksCase => ({
      rule: 'books 5 mylibrary',
      what: `GET ${path} as nobody`,
      ask: `GET ${path}`,
      as: null,
      status: 401,
    }),
  ),
  ...[
    'addVolume?volumeId=v10',
    'clearVolumes',
    'moveVolume?volumeId=v1&volumePosition=2',
    'removeVolume?volumeId=v1',
  ].map(
    (operation): BooksCase => ({
      rule: 'books 5 mylibrary',
      what: `POST ${operation} as nobody changes nothing`,
      steps: [{ ask: `POST ${MY}/1001/${operation}`, as: null, status: 401 }, ...now('v1 v2 v3')],
    }),
  ),
  { rule: 'books 5 mylibrary', what: 'with a wrong token', ask: `GET ${MY}`, as: 'Bearer wrong', status: 401 },
  {
    rule: 'books 5 mylibrary',
    what: 'with a key alone',
    ask: `GET ${MY}?key=sandbox-books-key`,
    as: null,
    status: 401,
  },
  { rule: 'books 5 mylibrary', what: 'with Basic', ask: `GET ${MY}`, as: 'Basic c2FuZGJveDp4', status: 401 },
  {
    rule: 'books 5 mylibrary',
    what: 'names the scheme',
    ask: `GET ${MY}`,
    as: null,
    status: 401,
    answers: { 'www-authenticate': matching(/^Bearer/) },
  },
  { rule: 'books 9 v1', what: 'v1', ask: 'GET /books/v1/volumes/v1', anywhere: true, has: { id: someText } },
];
