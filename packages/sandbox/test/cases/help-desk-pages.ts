/** Section 1 of the help desk: envelopes, pages and orders. */
import {
  between,
  type DeskCase,
  FOUR_HEADERS,
  headersWith,
  ofLength,
  REFUSED,
  someDigits,
  someText,
  someTime,
} from './case.ts';
import { CUSTOMERS, T1 } from './worlds.ts';

const rule = 'help-desk 1 ';
const enveloped = (status: number, response: unknown) => ({ status, headers: headersWith(FOUR_HEADERS), response });

export const envelopes: DeskCase[] = [
  {
    rule: `${rule}envelope`,
    what: 'of a resource has three parts and no more',
    ask: 'GET /tickets/t1?envelope=true',
    is: enveloped(200, T1),
  },
  {
    rule: `${rule}envelope`,
    what: 'has every real header, and each outside as well',
    options: { credits: 100 },
    ask: 'GET /users?count=true&fields=email&per_page=1&envelope=true',
    has: {
      headers: {
        Date: 'Wed, 01 May 2024 12:00:00 GMT',
        'Content-Type': 'application/json',
        'Rate-Limit-Limit': '100',
        'Rate-Limit-Remaining': '98',
        'Rate-Limit-Used': '2',
        'Rate-Limit-Reset': '60',
        'Total-Count': '3',
      },
    },
    answers: { 'rate-limit-remaining': '98', 'rate-limit-used': '2', 'total-count': '3' },
  },
  {
    rule: `${rule}envelope`,
    what: 'of a collection',
    ask: 'GET /tickets?id=t1&envelope=true',
    is: enveloped(200, [T1]),
  },
  {
    rule: `${rule}envelope`,
    what: 'the rate-limit headers are outside as well',
    ask: 'GET /tickets/t1?envelope=true',
    answers: { 'rate-limit-limit': someDigits, 'rate-limit-reset': between(0, 60) },
  },
  {
    rule: `${rule}envelope`,
    what: 'of something new has its status and its Location inside',
    ask: 'POST /customers?envelope=true',
    body: {},
    is: {
      status: 201,
      headers: headersWith({ Location: /\/api\/v1\/customers\/[^/]+$/ }),
      response: { ...CUSTOMERS[2], id: someText },
    },
  },
  {
    rule: `${rule}envelope`,
    what: 'of a 204 holds null',
    ask: 'DELETE /tickets/t1/labels/l1?envelope=true',
    is: enveloped(204, null),
  },
  {
    rule: `${rule}envelope`,
    what: 'of a changed ticket',
    ask: 'PATCH /tickets/t1?envelope=true',
    body: { subject: 'S' },
    is: enveloped(200, { ...T1, subject: 'S', updated_at: someTime }),
  },
  {
    rule: `${rule}envelope`,
    what: 'is true or false, and any other word refused',
    ask: 'GET /tickets/t1?envelope=yes',
    status: 400,
  },
];

/** Values of page and per_page with what they show of twelve tickets, by any collection that has pages. */
export const pages: DeskCase[] = [
  { rule: `${rule}page`, what: 'begins with 1', ask: 'GET /tickets?per_page=2&page=1', ids: 't12 t11' },
  { rule: `${rule}page`, what: '1 is the default', ask: 'GET /tickets?per_page=2', ids: 't12 t11' },
  { rule: `${rule}page`, what: 'goes on behind the one before', ask: 'GET /tickets?per_page=2&page=2', ids: 't10 t9' },
  { rule: `${rule}page`, what: 'the last one is shorter', ask: 'GET /tickets?per_page=5&page=3', ids: 't2 t1' },
  { rule: `${rule}page`, what: 'behind the last one is empty', ask: 'GET /tickets?per_page=5&page=4', is: [] },
  { rule: `${rule}per_page`, what: '10 is the default', ask: 'GET /tickets', is: ofLength(10) },
  { rule: `${rule}per_page`, what: '0 shows nothing', ask: 'GET /tickets?per_page=0', is: [] },
  { rule: `${rule}per_page`, what: '0 on page 2 shows nothing', ask: 'GET /tickets?per_page=0&page=2', is: [] },
  { rule: `${rule}per_page`, what: '1 shows one', ask: 'GET /tickets?per_page=1', ids: 't12' },
  { rule: `${rule}per_page`, what: '100 shows all', ask: 'GET /tickets?per_page=100', is: ofLength(12) },
  ...['page', 'per_page'].flatMap(name =>
    [name === 'page' ? '0' : '101', '-1', '1.5', 'abc', '1e1', '99999999999999999999', '0x1', '%201', '1;2'].map(
      (value): DeskCase => ({
        rule: `${rule}${name}`,
        what: `${value} is refused`,
        ask: `GET /tickets?${name}=${value}`,
        status: REFUSED,
      }),
    ),
  ),

  { rule: `${rule}sort`, what: 'ascending', ask: 'GET /tickets?sort=created_at&per_page=3', ids: 't1 t2 t3' },
  { rule: `${rule}sort`, what: 'descending', ask: 'GET /tickets?sort=-created_at&per_page=3', ids: 't12 t11 t10' },
  { rule: `${rule}sort`, what: 'beside a page', ask: 'GET /tickets?sort=created_at&per_page=2&page=2', ids: 't3 t4' },
  ...['number', '-number', 'subject', 'id', '--created_at', '%2Bcreated_at'].map(
    (sort): DeskCase => ({
      rule: `${rule}sort`,
      what: `not by ${sort}`,
      ask: `GET /tickets?sort=${sort}`,
      status: REFUSED,
    }),
  ),
  { rule: `${rule}default order`, what: 'of tickets', ask: 'GET /tickets?per_page=3', ids: 't12 t11 t10' },
  { rule: `${rule}default order`, what: 'of customers', ask: 'GET /customers', ids: 'c3 c2 c1' },
  {
    rule: `${rule}default order`,
    what: 'has the newest before all',
    steps: [
      { ask: 'POST /customers', body: {}, status: 201, keep: { id: 'id' } },
      { ask: 'GET /customers', ids: '{id} c3 c2 c1' },
    ],
  },
];
