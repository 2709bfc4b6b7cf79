/** What the field notes know of the errors of catalogs of this shape: a reason for each, and the limits. */
import { type BooksCase, matching, ofLength, someText } from './case.ts';

const rule = 'notes books ';
const MY = '/mylibrary/bookshelves';

/** The error of a catalog. */
const error = (code: number, reason: string) => ({
  error: { code, message: someText, errors: [{ domain: someText, reason, message: someText }] },
});

export const booksErrors: BooksCase[] = [
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
