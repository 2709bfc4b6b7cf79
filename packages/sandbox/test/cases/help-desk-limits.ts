/** Sections 8 and 9 of the help desk: limits, and one version. */
import { between, type DeskCase, notBefore, REFUSED, someDigits } from './case.ts';
import { options, SPECIFIED, TOKEN } from './help-desk-credentials.ts';

const basic = (credentials: string) => `Basic ${Buffer.from(credentials).toString('base64')}`;
const two = { credits: 10, periodSeconds: 60 };
const left = (remaining: number, used = 1) => ({
  'rate-limit-remaining': String(remaining),
  'rate-limit-used': String(used),
});

export const limits: DeskCase[] = [
  {
    rule: 'help-desk 8 rate',
    what: '100 in a minute and no more',
    options: { ...SPECIFIED, requestsPerSecond: 1e9 },
    steps: [
      { ask: 'GET /users', answers: left(99) },
      { ask: 'GET /users', times: 98 },
      { ask: 'GET /users', answers: left(0) },
      { ask: 'GET /users', status: 429, answers: { 'rate-limit-remaining': '0' } },
      { ask: 'GET /users', later: 60, answers: left(99) },
    ],
  },
  {
    rule: 'help-desk 8 rate',
    what: 'for all endpoints and tokens together',
    options: { ...two, ...options },
    steps: [
      { ask: 'GET /users', as: 'Bearer another-instance', answers: left(9) },
      { ask: 'GET /tickets', answers: left(8) },
      { ask: 'GET /customers/c1', as: basic(`${TOKEN}:x`), answers: left(7) },
      { ask: 'PATCH /tickets/t1', body: {}, answers: left(6) },
      { ask: 'DELETE /tickets/t1/labels/l1', status: 204, answers: left(5) },
    ],
  },
  {
    rule: 'help-desk 8 cost',
    what: 'of each kind of request',
    options: two,
    steps: [
      { ask: 'GET /tickets/t1', answers: left(9, 1) },
      { ask: 'GET /tickets/t1?embed=user,labels', answers: left(6, 3) },
      { ask: 'GET /tickets?count=true', answers: left(4, 2) },
      { ask: 'GET /tickets/t1?fields=id&envelope=true', answers: left(3, 1) },
      { ask: 'PATCH /tickets/t1', body: {}, answers: left(2, 1) },
      { ask: 'GET /tickets?per_page=0', answers: left(1, 1) },
    ],
  },
  {
    rule: 'help-desk 8 cost',
    what: 'that is more than there is: refused, and a cheaper one goes',
    options: two,
    steps: [
      { ask: 'GET /users', times: 8 },
      { ask: 'GET /tickets/t1?embed=user,labels', status: 429, answers: { 'rate-limit-remaining': '2' } },
      { ask: 'GET /tickets?count=true', answers: left(0, 2) },
    ],
  },
  {
    rule: 'help-desk 8 burst',
    what: 'six, and the seventh is refused',
    options: SPECIFIED,
    steps: [
      { ask: 'GET /users', times: 6 },
      { ask: 'GET /users', status: 429, answers: { 'rate-limit-reset': notBefore(1), 'rate-limit-remaining': '94' } },
      { ask: 'GET /users', later: 1 },
    ],
  },
  {
    rule: 'help-desk 8 burst',
    what: 'counts requests, not credits',
    options: SPECIFIED,
    steps: [{ ask: 'GET /tickets/t1?embed=user,inbox,customer,labels,messages', times: 6 }],
  },
  {
    rule: 'help-desk 8 burst',
    what: 'of all tokens together',
    options: { ...SPECIFIED, ...options },
    steps: [
      { ask: 'GET /users', times: 3 },
      { ask: 'GET /users', as: 'Bearer another-instance', times: 3 },
      { ask: 'GET /users', as: 'Bearer another-instance', status: 429 },
    ],
  },
  { rule: 'help-desk 8 page size', what: '100 is allowed', ask: 'GET /tickets?per_page=100' },
  { rule: 'help-desk 8 page size', what: '101 is not', ask: 'GET /customers?per_page=101', status: REFUSED },
  {
    rule: 'help-desk 8 depth',
    what: 'page 100 of 100 is the last one',
    ask: 'GET /tickets?per_page=100&page=100',
    is: [],
  },
  { rule: 'help-desk 8 depth', what: 'page 1000 of 10 is the last one', ask: 'GET /customers?page=1000', is: [] },
  ...['GET /tickets?per_page=100&page=101', 'GET /tickets?page=1001', 'GET /customers?per_page=100&page=101'].map(
    (ask): DeskCase => ({ rule: 'help-desk 8 depth', what: `${ask}, by the default of beyondDepth`, ask, status: 422 }),
  ),
  {
    rule: 'help-desk 8 depth',
    what: 'of 4: the second page of two is the last one',
    options: { depth: 4 },
    steps: [
      { ask: 'GET /tickets?per_page=2&page=2', ids: 't10 t9' },
      { ask: 'GET /tickets?per_page=2&page=3', status: 422 },
      { ask: 'GET /tickets?per_page=2&sort=created_at&since_created_at=2024-04-05T00:00:00Z', ids: 't5 t6' },
    ],
  },
  ...['GET /tickets', 'GET /tickets/t1', 'GET /nothing', 'GET /users', 'GET /tickets?page=0'].map(
    (ask): DeskCase => ({
      rule: 'help-desk 8 Rate-Limit-Limit',
      what: ask,
      options: SPECIFIED,
      ask,
      status: ask.endsWith('nothing') ? 404 : ask.endsWith('0') ? REFUSED : 200,
      answers: { 'rate-limit-limit': '100' },
    }),
  ),
  {
    rule: 'help-desk 8 Rate-Limit-Remaining',
    what: 'goes down by what was used',
    options: SPECIFIED,
    steps: [
      { ask: 'GET /users', answers: left(99) },
      { ask: 'GET /tickets/t1?embed=labels', answers: left(97, 2) },
      { ask: 'GET /tickets/none', status: 404, answers: left(96) },
    ],
  },
  {
    rule: 'help-desk 8 Rate-Limit-Used',
    what: 'of a refused request is 0, by the default of chargeRefused',
    options: { credits: 1 },
    steps: [{ ask: 'GET /users' }, { ask: 'GET /users', status: 429, answers: { 'rate-limit-used': '0' } }],
  },
  {
    rule: 'help-desk 8 Rate-Limit-Reset',
    what: 'counts down to the next period',
    options: { ...SPECIFIED, requestsPerSecond: 1e9 },
    steps: [
      { ask: 'GET /users', answers: { 'rate-limit-reset': between(1, 60) } },
      { ask: 'GET /users', later: 20, answers: { 'rate-limit-reset': between(1, 40), 'rate-limit-remaining': '98' } },
      { ask: 'GET /users', later: 39, answers: { 'rate-limit-reset': between(0, 1) } },
      { ask: 'GET /users', later: 1, answers: { 'rate-limit-reset': between(59, 60), 'rate-limit-remaining': '99' } },
    ],
  },
  {
    rule: 'help-desk 8 Rate-Limit-Reset',
    what: 'is whole seconds',
    options: SPECIFIED,
    ask: 'GET /users',
    later: 0.4,
    answers: { 'rate-limit-reset': someDigits },
  },
  {
    rule: 'help-desk 8 429',
    what: 'until Reset has passed, and not after it',
    options: two,
    steps: [
      { ask: 'GET /users', times: 10 },
      { ask: 'GET /users', later: 30, status: 429, answers: { 'rate-limit-reset': between(1, 30) } },
      { ask: 'GET /users', later: 29, status: 429, answers: { 'rate-limit-reset': between(1, 1) } },
      { ask: 'GET /users', later: 1, answers: left(9) },
    ],
  },
  {
    rule: 'help-desk 8 429',
    what: 'changes nothing',
    options: { credits: 1 },
    steps: [
      { ask: 'GET /users' },
      { ask: 'PATCH /tickets/t1', body: { state: 'closed' }, status: 429 },
      { ask: 'GET /tickets/t1', later: 60, has: { state: 'open' } },
    ],
  },
  { rule: 'help-desk 9.1 versionless', what: 'no parameter', ask: 'GET /users?version=2' },
  {
    rule: 'help-desk 9.1 versionless',
    what: 'no header',
    ask: 'GET /users',
    headers: { 'accept-version': '2', 'api-version': '7' },
  },
  {
    rule: 'help-desk 9.1 versionless',
    what: 'any Accept',
    ask: 'GET /users',
    headers: { accept: 'application/vnd.x.v9+json' },
  },
  ...['/api/v2/users', '/api/users', '/users', '/v1/users', '/api/v1', '/api/v1users', '/API/v1/users'].map(
    (path): DeskCase => ({
      rule: 'help-desk 9.2 prefix',
      what: `not ${path}`,
      ask: `GET ${path}`,
      anywhere: true,
      status: 404,
    }),
  ),
];
