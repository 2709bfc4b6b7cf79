/** Sections 6 and 7 of the help desk: no webhooks, and every error. */
import { type DeskCase, FOUR_HEADERS, headersWith, REFUSED, type Step, someText } from './case.ts';
import { options } from './help-desk-credentials.ts';

/** Bodies that nobody can parse. */
const BROKEN: readonly (readonly [string, string | Buffer])[] = [
  ['cut off', '{"subject": "S'],
  ['with a comma at the end', '{"subject": "S",}'],
  ['with single quotes', "{'subject': 'S'}"],
  ['with bare names', '{subject: "S"}'],
  ['of a form', 'subject=S&state=open'],
  ['two objects', '{}{}'],
  ['with a comment', '{/* S */}'],
  ['not a number', '{"subject": NaN}'],
  ['no UTF-8', Buffer.from([0x7b, 0x22, 0x73, 0x22, 0x3a, 0x22, 0xff, 0xfe, 0x22, 0x7d])],
  ['Latin-1', Buffer.from('{"subject":"Zürich"}', 'latin1')],
  ['a bare line break in a text', '{"subject": "a\nb"}'],
  ['nested 5,000 deep', '['.repeat(5_000) + ']'.repeat(5_000)],
  ['nested 200 deep', `{"subject":${'['.repeat(200)}${']'.repeat(200)}}`],
  ['nothing but blanks', '  \n '],
];

export const errors: DeskCase[] = [
  ...BROKEN.map(
    ([what, raw]): DeskCase => ({
      rule: 'help-desk 7 400',
      what,
      steps: [
        { ask: 'PATCH /tickets/t1', raw, status: 400, has: { message: someText } },
        { ask: 'GET /tickets/t1', has: { subject: 'An order that did not come' } },
      ],
    }),
  ),
  ...['GET /tickets/t1', 'DELETE /tickets/t1/labels/l1'].map(
    (ask): DeskCase => ({
      rule: 'help-desk 7 400',
      what: `not for a body that nobody reads: ${ask}`,
      ask,
      raw: '{',
      status: ask.startsWith('GET') ? 200 : 204,
    }),
  ),
  {
    rule: 'help-desk 7 400',
    what: 'not for a byte order mark in front',
    ask: 'PATCH /tickets/t1',
    raw: '\ufeff{"subject":"S"}',
    has: { subject: 'S' },
  },
  {
    rule: 'help-desk 7 400',
    what: 'is 413 where it is too large',
    options: { mostBodyBytes: 1000 },
    steps: [
      { ask: 'PATCH /tickets/t1', raw: JSON.stringify({ subject: 'x'.repeat(1000) }), status: 413 },
      { ask: 'PATCH /tickets/t1', raw: JSON.stringify({ subject: 'x'.repeat(900) }), status: 200 },
    ],
  },
  {
    rule: 'help-desk 7 400',
    what: 'not for the same name twice: the later one counts',
    ask: 'PATCH /tickets/t1',
    raw: '{"subject": "A", "subject": "B"}',
    has: { subject: 'B' },
  },
  {
    rule: 'help-desk 7 400',
    what: 'not for names that mean something to the language',
    ask: 'PATCH /tickets/t1',
    raw: '{"__proto__": {"state": "closed"}, "constructor": 1, "subject": "S"}',
    has: { subject: 'S', state: 'open' },
  },
  ...[
    'GET /tickets/none',
    'GET /customers/none',
    'GET /attachments/none',
    'GET /nothing',
    'GET /tickets/t1/nothing',
  ].map((ask): DeskCase => ({ rule: 'help-desk 7 404', what: ask, ask, status: 404, has: { message: someText } })),
  {
    rule: 'help-desk 7 415',
    what: 'has a message',
    ask: 'POST /customers',
    raw: '{}',
    type: 'text/plain',
    status: 415,
    has: { message: someText },
  },
  {
    rule: 'help-desk 7 422',
    what: 'of something new',
    ask: 'POST /tickets',
    body: { type: 'email', customer_id: 'c1' },
    errors: ['subject'],
  },
  {
    rule: 'help-desk 7 422',
    what: 'of a change',
    ask: 'PATCH /tickets/t1',
    body: { state: 'gone' },
    errors: ['state'],
  },
  {
    rule: 'help-desk 7 429',
    what: 'has a message',
    options: { credits: 1 },
    steps: [{ ask: 'GET /users' }, { ask: 'GET /users', status: 429, has: { message: someText } }],
  },
  ...[500, 501, 502, 503, 504].map(
    (status): DeskCase => ({
      rule: 'help-desk 7 5xx',
      also: ['help-desk 7.3 no body'],
      what: `${status} has no body`,
      options: { fault: () => ({ kind: 'status', status }) },
      ask: 'GET /tickets/t1',
      status,
    }),
  ),
  ...(
    [
      ['GET /nothing', null, 401],
      ['GET /nothing', undefined, 404],
      ['GET /tickets?page=0', undefined, REFUSED],
      ['DELETE /tickets/t1', undefined, 405],
      ['POST /tickets', undefined, 415],
    ] as const
  ).map(
    ([ask, as, status]): DeskCase => ({
      rule: 'help-desk 7.1 message',
      what: `${ask} as ${as === null ? 'nobody' : 'somebody'}`,
      ask,
      ...(as === null && { as }),
      status,
      has: { message: someText },
      answers: { 'content-type': 'application/json' },
    }),
  ),
  {
    rule: 'help-desk 7.2 errors',
    what: 'has one for each failure and a message for all',
    ask: 'POST /customers/c1/contacts',
    body: { type: 'fax' },
    has: { message: someText, errors: [{ message: someText }, { message: someText }] },
    errors: ['type', 'value'],
  },
  ...(
    [
      ['a 401', { ask: 'GET /users?envelope=true', as: null }, 401],
      ['a 400 of a parameter', { ask: 'GET /tickets?sort=x&envelope=true' }, 400],
      ['a 404', { ask: 'GET /tickets/none?envelope=true' }, 404],
      ['a 415', { ask: 'POST /tickets?envelope=true', type: 'text/plain' }, 415],
      ['a 400', { ask: 'POST /tickets?envelope=true', raw: '{' }, 400],
    ] as const
  ).map(
    ([what, step, status]): DeskCase => ({
      rule: 'help-desk 7.4 enveloped errors',
      what,
      ...(step as Step),
      is: { status, headers: headersWith(FOUR_HEADERS), response: { message: someText } },
    }),
  ),
  {
    rule: 'help-desk 7.4 enveloped errors',
    what: 'a 500, around nothing',
    options: { fault: () => ({ kind: 'status', status: 500 }) },
    ask: 'GET /users?envelope=true',
    is: { status: 500, headers: headersWith(FOUR_HEADERS), response: null },
  },
  {
    rule: 'help-desk 7.4 enveloped errors',
    what: 'a 403',
    options,
    ask: 'GET /users?envelope=true',
    as: 'Bearer blocked',
    is: { status: 403, headers: headersWith(FOUR_HEADERS), response: { message: someText } },
  },
  {
    rule: 'help-desk 7.4 enveloped errors',
    what: 'a 422 with its errors',
    ask: 'PATCH /tickets/t1?envelope=true',
    body: { state: 'gone' },
    is: {
      status: 422,
      headers: headersWith(FOUR_HEADERS),
      response: { message: someText, errors: [{ message: someText }] },
    },
  },
  {
    rule: 'help-desk 7.4 enveloped errors',
    what: 'a 429',
    options: { credits: 1 },
    steps: [
      { ask: 'GET /users' },
      {
        ask: 'GET /users?envelope=true',
        is: { status: 429, headers: headersWith(FOUR_HEADERS), response: { message: someText } },
        answers: { 'rate-limit-remaining': '0' },
      },
    ],
  },
  { rule: 'help-desk 6 no events', what: 'no hooks', ask: 'GET /webhooks', status: 404 },
  {
    rule: 'help-desk 6 no events',
    what: 'no subscriptions',
    ask: 'POST /hooks',
    body: { url: 'http://x.example' },
    status: 404,
  },
];
