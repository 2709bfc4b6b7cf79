/** Section 5 of the help desk: credentials and their headers. */
import { type DeskCase, someText } from './case.ts';

export const TOKEN = 'token-of-the-cases';
const basic = (credentials: string) => `Basic ${Buffer.from(credentials).toString('base64')}`;
/** Of a desk with two instances, and a caller without access. */
export const options = { tokens: [TOKEN, 'another-instance'], blockedToken: 'blocked' };
/** As the specification says them, where other cases have no limits. */
export const SPECIFIED = { credits: 100, periodSeconds: 60, requestsPerSecond: 6 };

const lets = (rule: string, rows: readonly (readonly [string, string])[]): DeskCase[] =>
  rows.map(([what, as]) => ({ rule: `help-desk 5.${rule}`, what, options, ask: 'GET /users', as }));
const knows = (rows: readonly (readonly [string, string | null])[]): DeskCase[] =>
  rows.map(([what, as]) => ({
    rule: 'help-desk 5.5 401',
    also: ['help-desk 7 401'],
    what,
    options,
    ask: 'GET /users',
    as,
    status: 401,
    has: { message: someText },
    answers: { 'rate-limit-used': '0' },
  }));

export const credentials: DeskCase[] = [
  ...lets('1 token', [
    ['of the first instance', `Bearer ${TOKEN}`],
    ['of another instance', 'Bearer another-instance'],
  ]),
  ...lets('2 Bearer', [
    ['as it is written', `Bearer ${TOKEN}`],
    ['in small letters', `bearer ${TOKEN}`],
    ['in capital letters', `BEARER ${TOKEN}`],
  ]),
  ...lets('3 Basic', [
    ['with a dummy password', basic(`${TOKEN}:x`)],
    ['with an empty password', basic(`${TOKEN}:`)],
    ['with colons in the password', basic(`${TOKEN}:a:b:c`)],
    ['without a colon', basic(TOKEN)],
    ['in small letters', basic(`${TOKEN}:x`).replace('Basic', 'basic')],
  ]),
  ...[
    'GET /tickets/t1',
    'GET /tickets/t3',
    'GET /customers/c2',
    'GET /attachments/a1',
    'GET /tickets?user_id=null',
  ].map(
    (ask): DeskCase => ({ rule: 'help-desk 5.4 all rights', what: ask, options, ask, as: 'Bearer another-instance' }),
  ),
  {
    rule: 'help-desk 5.4 all rights',
    what: 'to change as well',
    options,
    ask: 'PATCH /tickets/t2',
    body: { user_id: 'u3', inbox_id: 'i1' },
    as: basic('another-instance:x'),
    has: { user_id: 'u3', inbox_id: 'i1' },
  },
  ...knows([
    ['without any', null],
    ['empty', ''],
    ['with a wrong token', 'Bearer wrong'],
    ['with a token and something behind it', `Bearer ${TOKEN}x`],
    ['with a token and a word behind it', `Bearer ${TOKEN} too`],
    ['with a token in capital letters', `Bearer ${TOKEN.toUpperCase()}`],
    ['with the scheme alone', 'Bearer'],
    ['with the token alone', TOKEN],
    ['of an unknown scheme', `Token ${TOKEN}`],
    ['of Basic with a wrong token', basic('wrong:x')],
    ['of Basic with the token as the password', basic(`x:${TOKEN}`)],
    ['of Basic that is no Base64', 'Basic %%%'],
    ['of Basic with nothing', 'Basic '],
    ['of Basic with the plain token', `Basic ${TOKEN}:x`],
  ]),
  ...['GET /nothing', 'POST /tickets', 'PATCH /tickets/none', 'GET /tickets?per_page=1000', 'DELETE /tickets'].map(
    (ask): DeskCase => ({
      rule: 'help-desk 5.5 401',
      what: `comes before all else: ${ask}`,
      ask,
      as: null,
      status: 401,
    }),
  ),
  {
    rule: 'help-desk 5.5 401',
    what: 'changes nothing',
    steps: [
      { ask: 'PATCH /tickets/t1', body: { state: 'closed' }, as: null, status: 401 },
      { ask: 'GET /tickets/t1', has: { state: 'open' } },
    ],
  },
  {
    rule: 'help-desk 5.5 401',
    what: 'costs nothing',
    options: SPECIFIED,
    steps: [
      { ask: 'GET /users', answers: { 'rate-limit-remaining': '99' } },
      { ask: 'GET /users', as: null, status: 401, answers: { 'rate-limit-remaining': '99', 'rate-limit-used': '0' } },
      { ask: 'GET /users', answers: { 'rate-limit-remaining': '98' } },
    ],
  },
  ...['GET /users', 'GET /tickets/t1', 'GET /nothing'].map(
    (ask): DeskCase => ({
      rule: 'help-desk 5.5 403',
      also: ['help-desk 7 403'],
      what: ask,
      options,
      ask,
      as: 'Bearer blocked',
      status: 403,
      has: { message: someText },
    }),
  ),
  {
    rule: 'help-desk 5.5 403',
    what: 'by Basic, changing nothing',
    options,
    steps: [
      { ask: 'PATCH /tickets/t1', body: { state: 'closed' }, as: basic('blocked:x'), status: 403 },
      { ask: 'GET /tickets/t1', has: { state: 'open' } },
    ],
  },
];
