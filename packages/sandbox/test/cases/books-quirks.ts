/** Odd replies and access tokens of catalogs, from the field notes. */
import { type BooksCase, between, matching, someText } from './case.ts';
import { OWNER } from './worlds.ts';

const rule = 'notes books ';
const MY = '/mylibrary/bookshelves';
const SHELF = `/users/${OWNER}/bookshelves/1001`;
/** What the token endpoint is asked with. */
const OAUTH = { clientId: 'client', clientSecret: 'secret', refreshToken: 'refresh', tokenSeconds: 3600 };

export const booksQuirks: BooksCase[] = [
  {
    rule: `${rule}etag`,
    what: 'differs from reply to reply',
    steps: [
      { ask: 'GET /volumes/v1', keep: { etag: 'etag' } },
      { ask: 'GET /volumes/v1', has: { etag: someText }, differs: { etag: '{etag}' } },
    ],
  },
  {
    rule: `${rule}links`,
    what: 'differ from reply to reply',
    steps: [
      { ask: 'GET /volumes?q=melville', keep: { link: 'items.0.volumeInfo.previewLink' } },
      { ask: 'GET /volumes?q=melville', differs: { 'items.0.volumeInfo.previewLink': '{link}' } },
    ],
  },
  {
    rule: `${rule}totalItems`,
    what: 'true',
    options: { totalItems: 'true' },
    ask: 'GET /volumes?q=numbered',
    has: { totalItems: 50 },
  },
  {
    rule: `${rule}totalItems`,
    what: 'missing',
    options: { totalItems: 'missing' },
    ask: 'GET /volumes?q=numbered',
    lacks: ['totalItems'],
  },
  {
    rule: `${rule}totalItems`,
    what: 'wanders near the truth by default',
    ask: 'GET /volumes?q=numbered',
    has: { totalItems: between(1, 5000) },
  },
  { rule: `${rule}items`, what: 'of an empty shelf', ask: `GET ${MY}/4/volumes`, lacks: ['items'] },
  { rule: `${rule}items`, what: 'of a search that finds nothing', ask: 'GET /volumes?q=zebrafish', lacks: ['items'] },
  {
    rule: `${rule}cut description`,
    what: 'in a search',
    ask: 'GET /volumes?q=melville',
    has: { items: [{ volumeInfo: { description: matching(/^.{200,260}$/s) } }] },
    lacks: ['items.0.volumeInfo.language'],
  },
  {
    rule: `${rule}cut description`,
    what: 'on a shelf',
    ask: `GET ${SHELF}/volumes?maxResults=1`,
    has: { items: [{ volumeInfo: { description: matching(/^.{200,260}$/s) } }] },
    lacks: ['items.0.volumeInfo.language'],
  },
  {
    rule: `${rule}cut description`,
    what: 'not of one volume',
    ask: 'GET /volumes/v1',
    has: { volumeInfo: { language: 'en', description: matching(/^.{500,}$/s) } },
  },
  {
    rule: `${rule}publishedDate`,
    what: 'of a month',
    ask: 'GET /volumes/v1?fields=volumeInfo/publishedDate',
    is: { volumeInfo: { publishedDate: '1999-05' } },
  },
  { rule: `${rule}publishedDate`, what: 'of none', ask: 'GET /volumes/v2', lacks: ['volumeInfo.publishedDate'] },
  { rule: `${rule}pageCount`, what: 'of 0', ask: 'GET /volumes/v1', has: { volumeInfo: { pageCount: 0 } } },
  { rule: `${rule}prices`, what: 'with an exponent', ask: 'GET /volumes/v3?country=ID', text: /"amount": ?1\.334E7\b/ },
  { rule: `${rule}prices`, what: 'with a point', ask: 'GET /volumes/v3?country=ID', text: /"amount": ?24\.99\b/ },
  {
    rule: `${rule}token`,
    options: OAUTH,
    what: 'is given for the refresh token',
    steps: [
      {
        ask: 'POST /oauth/token',
        anywhere: true,
        as: null,
        ...form('refresh'),
        has: { token_type: matching(/^Bearer$/i), expires_in: 3600, access_token: someText },
        keep: { token: 'access_token' },
      },
      { ask: `GET ${MY}/1001`, as: 'Bearer {token}', has: { id: 1001 } },
    ],
  },
  {
    rule: `${rule}token`,
    options: OAUTH,
    what: 'expires, and another one can be had',
    steps: [
      { ask: 'POST /oauth/token', anywhere: true, as: null, ...form('refresh'), keep: { token: 'access_token' } },
      { ask: `GET ${MY}/1001`, as: 'Bearer {token}', later: 3601, status: 401 },
      { ask: 'POST /oauth/token', anywhere: true, as: null, ...form('refresh'), keep: { token: 'access_token' } },
      { ask: `GET ${MY}/1001`, as: 'Bearer {token}' },
    ],
  },
  {
    rule: `${rule}token`,
    options: OAUTH,
    what: 'not for a wrong refresh token',
    ask: 'POST /oauth/token',
    anywhere: true,
    as: null,
    ...form('wrong'),
    status: 400,
    has: { error: 'invalid_grant' },
  },
];

function form(refresh: string) {
  const fields = { grant_type: 'refresh_token', refresh_token: refresh, client_id: 'client', client_secret: 'secret' };
  return { raw: new URLSearchParams(fields).toString(), type: 'application/x-www-form-urlencoded' };
}
