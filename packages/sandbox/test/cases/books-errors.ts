/** Errors and limits of catalogs, from the field notes: a reason for each. */
import { type BooksCase, matching, ofLength, someText } from './case.ts';
import { OWNER } from './worlds.ts';

const rule = 'notes books ';
const MY = '/mylibrary/bookshelves';

/** The error of a catalog. */
const error = (code: number, reason: string) => ({
  error: { code, message: someText, errors: [{ domain: someText, reason, message: someText }] },
});

/** Rows of: what is wrong, with which request, and the reason that is given for it. */
const reasons: BooksCase[] = (
  [
    ['a page too long', 'GET /volumes?q=a&maxResults=41', 400, 'invalidParameter'],
    ['a page of rubbish', 'GET /volumes?q=a&maxResults=ten', 400, 'invalidParameter'],
    ['a page of less than nothing', `GET ${MY}/0/volumes?maxResults=-1`, 400, 'invalidParameter'],
    ['a start of rubbish', `GET ${MY}/0/volumes?startIndex=1.5`, 400, 'invalidParameter'],
    ['a start of a list of shelves', `GET ${MY}?startIndex=x`, 400, 'invalidParameter'],
    ['a projection', 'GET /volumes/v1?projection=heavy', 400, 'invalidParameter'],
    ['a search for nothing', 'GET /volumes', 400, 'required'],
    ['a search for blanks', 'GET /volumes?q=+', 400, 'required'],
    ['a user of a shelf', 'GET /users/nobody/bookshelves/x/volumes', 400, 'invalidUser'],
    ['a shelf', `GET /users/${OWNER}/bookshelves/1009`, 404, 'notFound'],
    ['a shelf that is no number', `GET /users/${OWNER}/bookshelves/Favorites/volumes`, 404, 'notFound'],
    ['a private shelf of another', `GET /users/${OWNER}/bookshelves/1002`, 404, 'notFound'],
    ['volumes of one', `GET /users/${OWNER}/bookshelves/1002/volumes`, 404, 'notFound'],
    ['a private shelf of mine by the public way', 'GET /users/1122334455667788/bookshelves/1001', 404, 'notFound'],
    ['a volume to add', `POST ${MY}/0/addVolume?volumeId=none`, 503, 'backendFailed'],
    ['no volume to add', `POST ${MY}/0/addVolume`, 400, 'required'],
    ['a shelf to add to', `POST ${MY}/1009/addVolume?volumeId=v1`, 404, 'notFound'],
    ['a volume to remove', `POST ${MY}/0/removeVolume?volumeId=v1`, 404, 'notFound'],
    ['a volume to move', `POST ${MY}/0/moveVolume?volumeId=v1&volumePosition=0`, 404, 'notFound'],
    ['no position', `POST ${MY}/1001/moveVolume?volumeId=v1`, 400, 'required'],
    ['a position', `POST ${MY}/1001/moveVolume?volumeId=v1&volumePosition=-1`, 400, 'invalidParameter'],
    ['a verb', `GET ${MY}/0/addVolume?volumeId=v1`, 405, 'httpMethodNotAllowed'],
    ['another verb', `DELETE ${MY}/1001`, 405, 'httpMethodNotAllowed'],
    ['a path', 'GET /users/77', 404, 'notFound'],
    ['a path behind a volume', 'GET /volumes/v1/b', 404, 'notFound'],
    ['a key beside a token', 'GET /volumes?q=book&key=mine', 400, 'keyInvalid'],
  ] as const
).map(([what, ask, status, reason]) => ({
  rule: `${rule}error`,
  what: `with a reason for ${what}`,
  ask,
  status,
  has: error(status, reason),
}));

/** Rows of: what was asked with which credentials, and the reason of the 401. */
const unknown: BooksCase[] = (
  [
    ['a wrong token beside a key', 'GET /volumes?q=book&key=sandbox-books-key', 'Bearer mine', 'authError'],
    ['my library with a key', `GET ${MY}?key=sandbox-books-key`, null, 'required'],
    ['my library with nothing', `GET ${MY}/0/volumes`, null, 'required'],
    ['my library with a wrong token', `GET ${MY}`, 'Bearer mine', 'authError'],
    ['another scheme', `GET ${MY}`, 'Basic c2FuZGJveA==', 'authError'],
  ] as const
).map(([what, ask, as, reason]) => ({
  rule: `${rule}error`,
  what: `of credentials: ${what}`,
  ask,
  as,
  status: 401,
  has: error(401, reason),
  answers: { 'www-authenticate': matching(/^Bearer/) },
}));

export const booksErrors: BooksCase[] = [
  ...reasons,
  ...unknown,
  {
    rule: `${rule}error`,
    what: 'of a shelf that is not there',
    ask: `GET ${MY}/7777`,
    status: 404,
    has: error(404, 'notFound'),
  },
  {
    rule: `${rule}error`,
    what: 'of who is not known',
    ask: `GET ${MY}`,
    as: null,
    status: 401,
    has: { error: { code: 401, message: someText, errors: ofLength(1) } },
  },
  {
    rule: `${rule}error`,
    what: 'of a parameter',
    ask: 'GET /volumes',
    status: 400,
    has: { error: { code: 400, message: someText, errors: ofLength(1) } },
  },
  {
    rule: `${rule}error`,
    what: 'of a path that is not there',
    ask: 'GET /nothing',
    status: 404,
    has: { error: { code: 404 } },
  },
  {
    rule: `${rule}rateLimitExceeded`,
    what: 'the third of two in a second, and the next second',
    options: { requestsPerSecond: 2 },
    steps: [
      { ask: 'GET /volumes/v1', times: 2 },
      { ask: 'GET /volumes/v1', status: 429, has: error(429, 'rateLimitExceeded') },
      { ask: 'GET /volumes/v1', later: 1 },
    ],
  },
  {
    rule: `${rule}rateLimitExceeded`,
    what: 'with tooFast 403',
    options: { requestsPerSecond: 1, tooFast: 403 },
    steps: [
      { ask: 'GET /volumes/v1' },
      {
        ask: 'GET /volumes/v1',
        status: 403,
        has: { error: { code: 403, errors: [{ reason: matching(/ateLimitExceeded$/) }] } },
      },
    ],
  },
  {
    rule: `${rule}dailyLimitExceeded`,
    what: 'until the next day, of daySeconds',
    options: { requestsPerDay: 1, daySeconds: 60 },
    steps: [
      { ask: 'GET /volumes/v1' },
      { ask: `GET ${MY}`, later: 59, status: 403, has: error(403, 'dailyLimitExceeded') },
      { ask: 'GET /volumes/v1', later: 1 },
    ],
  },
  {
    rule: `${rule}dailyLimitExceeded`,
    what: 'is not charged to who is not known',
    options: { requestsPerDay: 1 },
    steps: [
      { ask: `GET ${MY}`, as: null, status: 401 },
      { ask: 'GET /volumes/v1?key=wrong', as: null, status: 400 },
      { ask: 'GET /volumes/none', status: 503 },
      { ask: 'GET /volumes/v1', status: 403 },
    ],
  },
  {
    rule: `${rule}dailyLimitExceeded`,
    what: 'until the next day',
    options: { requestsPerDay: 2 },
    steps: [
      { ask: 'GET /volumes/v1', times: 2 },
      { ask: 'GET /volumes/v1', status: 403, has: error(403, 'dailyLimitExceeded') },
      { ask: 'GET /volumes/v1', later: 3600, status: 403 },
      { ask: 'GET /volumes/v1', later: 82_800 },
    ],
  },
  {
    rule: `${rule}unknownLocation`,
    what: 'with countryNeeded',
    options: { countryNeeded: true },
    ask: 'GET /volumes/v1',
    status: 403,
    has: error(403, 'unknownLocation'),
  },
  {
    rule: `${rule}unknownLocation`,
    what: 'not where country is said',
    options: { countryNeeded: true },
    ask: 'GET /volumes/v1?country=DE',
    has: { id: 'v1' },
  },
  {
    rule: `${rule}invalidUser`,
    what: 'of shelves',
    ask: 'GET /users/1/bookshelves',
    status: 400,
    has: error(400, 'invalidUser'),
  },
  {
    rule: `${rule}invalidUser`,
    what: 'of volumes',
    ask: 'GET /users/1/bookshelves/0/volumes',
    status: 400,
    has: error(400, 'invalidUser'),
  },
  {
    rule: `${rule}backendFailed`,
    what: 'of an unknown volume',
    ask: 'GET /volumes/none',
    status: 503,
    has: error(503, 'backendFailed'),
  },
  {
    rule: `${rule}backendFailed`,
    what: 'of one that cannot be had',
    options: { failing: ['v1'] },
    ask: 'GET /volumes/v1',
    status: 503,
    has: error(503, 'backendFailed'),
  },
];
