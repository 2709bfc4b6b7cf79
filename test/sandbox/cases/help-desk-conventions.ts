/** Section 1 of the help desk: what holds at every endpoint. */
import {
  type DeskCase,
  FOUR_HEADERS,
  headersWith,
  NO_SUCH_METHOD,
  ofLength,
  REFUSED,
  someText,
  someTime,
} from './case.ts';
import { CUSTOMERS, LABELS, MESSAGES, T1, USERS } from './worlds.ts';

const rule = 'help-desk 1 ';
const override = (verb: string) => ({ 'x-http-method-override': verb });

/** Which content types are refused, and which are not. */
const contentTypes: DeskCase[] = [
  ...['text/plain', 'application/x-www-form-urlencoded', 'text/json', 'application/jsonx', 'application/json-patch'],
  'application/vnd.api+json',
  'application/json; charset=iso-8859-1',
  null,
].flatMap((type): DeskCase[] =>
  (
    [
      ['POST /tickets', { type: 'email', subject: 'S', customer_id: 'c1' }],
      ['PATCH /tickets/t1', { subject: 'S' }],
    ] as const
  ).map(([ask, body]) => ({
    rule: `${rule}content type`,
    also: ['help-desk 7 415'],
    what: `${ask} as ${type ?? 'nothing'} is a 415`,
    ask,
    body,
    type,
    status: 415,
  })),
);
for (const type of ['application/json; charset=utf-8', 'application/json;charset=UTF-8', 'Application/JSON']) {
  contentTypes.push({
    rule: `${rule}content type`,
    what: `${type} is JSON`,
    ask: 'PATCH /tickets/t1',
    body: { subject: 'S' },
    type,
    has: { subject: 'S' },
  });
}

/** Which resources are embedded under which name. */
const embedded = {
  user: USERS[0],
  inbox: { id: 'i1', name: 'Support' },
  customer: CUSTOMERS[0],
  labels: LABELS.slice(0, 2),
  messages: MESSAGES,
};

export const conventions: DeskCase[] = [
  { rule: `${rule}base address`, what: 'a resource below it', ask: 'GET /users', is: ofLength(3) },
  { rule: `${rule}base address`, what: 'nothing at the base itself', ask: 'GET /', status: 404 },
  { rule: `${rule}base address`, what: 'nothing at an unknown path', ask: 'GET /nothing', status: 404 },
  { rule: `${rule}base address`, what: 'nothing deeper than a resource', ask: 'GET /tickets/t1/x/y', status: 404 },
  { rule: `${rule}transport`, what: 'the sandbox answers without TLS by default', ask: 'GET /users' },
  {
    rule: `${rule}json`,
    what: 'a reply says that it is JSON',
    ask: 'GET /tickets',
    answers: { 'content-type': 'application/json' },
  },
  {
    rule: `${rule}json`,
    what: 'so does an error',
    ask: 'GET /tickets/none',
    status: 404,
    answers: { 'content-type': 'application/json' },
    has: { message: someText },
  },
  ...contentTypes,
  {
    rule: `${rule}content type`,
    what: 'PUT without a body has to say it too, by default',
    ask: 'PUT /tickets/t2/labels/l1',
    status: 415,
  },
  {
    rule: `${rule}content type`,
    what: 'PUT that says it needs no body',
    ask: 'PUT /tickets/t2/labels/l1',
    type: 'application/json',
    status: 204,
  },
  { rule: `${rule}content type`, what: 'DELETE need not say it', ask: 'DELETE /tickets/t1/labels/l1', status: 204 },
  {
    rule: `${rule}content type`,
    what: 'a refused request has changed nothing',
    steps: [
      { ask: 'PATCH /tickets/t1', body: { subject: 'S' }, type: 'text/plain', status: 415 },
      { ask: 'GET /tickets/t1', has: { subject: T1.subject } },
    ],
  },

  { rule: `${rule}verbs`, what: 'GET reads a resource', ask: 'GET /customers/c1', has: { id: 'c1' } },
  { rule: `${rule}verbs`, what: 'POST creates', ask: 'POST /customers', body: {}, status: 201 },
  {
    rule: `${rule}verbs`,
    what: 'PATCH leaves what it does not name',
    ask: 'PATCH /tickets/t1',
    body: { subject: 'S' },
    has: { subject: 'S', state: 'open', label_ids: ['l1', 'l2'], user_id: 'u1' },
  },
  {
    rule: `${rule}verbs`,
    what: 'PUT twice is PUT once',
    steps: [
      { ask: 'PUT /tickets/t2/labels/l1', type: 'application/json', times: 2, status: 204 },
      { ask: 'GET /tickets/t2', has: { label_ids: ['l1'] } },
    ],
  },
  {
    rule: `${rule}verbs`,
    what: 'DELETE deletes',
    steps: [
      { ask: 'DELETE /customers/c1/contacts/k1', status: 204 },
      { ask: 'GET /customers/c1', has: { contacts: [CUSTOMERS[0]!.contacts[1]] } },
    ],
  },
  ...['DELETE /tickets', 'DELETE /tickets/t1', 'DELETE /customers/c1', 'DELETE /users', 'GET /attachments'].map(
    (ask): DeskCase => ({ rule: `${rule}verbs`, what: `there is no ${ask}`, ask, status: NO_SUCH_METHOD }),
  ),
  ...['PUT /tickets', 'PUT /tickets/t1', 'PATCH /tickets', 'POST /users', 'PATCH /attachments/a1'].map(
    (ask): DeskCase => ({ rule: `${rule}verbs`, what: `there is no ${ask}`, ask, body: {}, status: NO_SUCH_METHOD }),
  ),

  ...['PATCH', 'patch', 'Patch'].map(
    (verb): DeskCase => ({
      rule: `${rule}method override`,
      what: `POST as ${verb}`,
      ask: 'POST /tickets/t1',
      headers: override(verb),
      body: { state: 'closed' },
      has: { id: 't1', state: 'closed' },
    }),
  ),
  {
    rule: `${rule}method override`,
    what: 'POST as PUT',
    steps: [
      { ask: 'POST /tickets/t2/labels/l3', headers: override('PUT'), type: 'application/json', status: 204 },
      { ask: 'GET /tickets/t2', has: { label_ids: ['l3'] } },
    ],
  },
  {
    rule: `${rule}method override`,
    what: 'POST as DELETE needs no content type',
    steps: [
      { ask: 'POST /tickets/t1/labels/l1', headers: override('DELETE'), status: 204 },
      { ask: 'GET /tickets/t1', has: { label_ids: ['l2'] } },
    ],
  },
  {
    rule: `${rule}method override`,
    what: 'POST as PATCH has to be JSON',
    ask: 'POST /tickets/t1',
    headers: override('PATCH'),
    body: {},
    type: 'text/plain',
    status: 415,
  },
  {
    rule: `${rule}method override`,
    what: 'a GET stays a GET',
    steps: [
      { ask: 'GET /tickets/t1/labels/l1', headers: override('DELETE'), status: NO_SUCH_METHOD },
      { ask: 'GET /tickets/t1', headers: override('PATCH'), has: { id: 't1', label_ids: ['l1', 'l2'] } },
    ],
  },
  {
    rule: `${rule}method override`,
    what: 'a PATCH stays a PATCH',
    ask: 'PATCH /tickets/t1',
    headers: override('DELETE'),
    body: { subject: 'S' },
    has: { subject: 'S' },
  },
  {
    rule: `${rule}method override`,
    what: 'a verb that it does not stand for reads nothing',
    ask: 'POST /tickets/t1',
    headers: override('GET'),
    body: {},
    status: NO_SUCH_METHOD,
  },

  { rule: `${rule}single`, what: 'a ticket is an object', ask: 'GET /tickets/t1', is: T1 },
  { rule: `${rule}collection`, what: 'of one item is an array too', ask: 'GET /tickets?id=t1', is: [T1] },
  { rule: `${rule}collection`, what: 'of nothing is an empty array', ask: 'GET /tickets?id=none', is: [] },
  ...['t1', 't6'].map(
    (id): DeskCase => ({
      rule: `${rule}timestamps`,
      what: `of ${id}`,
      ask: `GET /tickets/${id}`,
      has: { created_at: someTime, updated_at: someTime, snoozed_until: id === 't6' ? someTime : null },
    }),
  ),
  {
    rule: `${rule}timestamps`,
    what: 'of messages',
    ask: 'GET /tickets/t1?embed=messages&fields=messages',
    has: { messages: MESSAGES.map(({ created_at }) => ({ created_at })) },
  },
  {
    rule: `${rule}timestamps`,
    what: 'of something new',
    ask: 'POST /tickets',
    body: { type: 'email', subject: 'S', customer_id: 'c1' },
    status: 201,
    has: { created_at: '2024-05-01T12:00:00Z', updated_at: '2024-05-01T12:00:00Z' },
  },
  {
    rule: `${rule}unset fields`,
    what: 'of a ticket',
    ask: 'GET /tickets/t11',
    has: { label_ids: [], snoozed_until: null, subject: null, reply_to: null, reply_cc: null, summary: null },
  },
  { rule: `${rule}unset fields`, what: 'of a customer', ask: 'GET /customers/c3', is: CUSTOMERS[2] },
  {
    rule: `${rule}unset fields`,
    what: 'of a message',
    ask: 'GET /tickets/t1?embed=messages',
    has: { messages: [{ attachments: [], user_id: null, more_body: null }, {}, { attachments: [] }] },
  },

  { rule: `${rule}fields`, what: 'of a single resource', ask: 'GET /tickets/t1?fields=id', is: { id: 't1' } },
  {
    rule: `${rule}fields`,
    what: 'of each item of a collection',
    ask: 'GET /tickets?id=t1,t2&fields=id,state',
    is: [
      { id: 't2', state: 'hold' },
      { id: 't1', state: 'open' },
    ],
  },
  {
    rule: `${rule}fields`,
    what: 'of users',
    ask: 'GET /users?fields=id',
    is: ofLength(3),
    has: [{ id: 'u3' }, { id: 'u2' }, { id: 'u1' }],
  },
  {
    rule: `${rule}fields`,
    what: 'unknown names select nothing more',
    ask: 'GET /tickets/t1?fields=id,nothing',
    is: { id: 't1' },
  },
  { rule: `${rule}fields`, what: 'only unknown names', ask: 'GET /tickets/t1?fields=nothing', is: {} },
  { rule: `${rule}fields`, what: 'blanks around names', ask: 'GET /tickets/t1?fields=id,%20', is: { id: 't1' } },
  {
    rule: `${rule}fields`,
    what: 'of a changed ticket',
    ask: 'PATCH /tickets/t1?fields=id,subject',
    body: { subject: 'S' },
    is: { id: 't1', subject: 'S' },
  },
  {
    rule: `${rule}fields`,
    what: 'of something new',
    ask: 'POST /customers?fields=first_name',
    body: { first_name: 'Nils', last_name: 'Nord' },
    status: 201,
    is: { first_name: 'Nils' },
  },
  {
    rule: `${rule}fields`,
    what: 'that are embedded',
    ask: 'GET /tickets/t1?embed=user,labels&fields=id,labels',
    is: { id: 't1', labels: embedded.labels },
  },
  {
    rule: `${rule}fields`,
    what: 'inside an envelope filter the response alone',
    ask: 'GET /tickets/t1?fields=id&envelope=true',
    is: { status: 200, headers: headersWith(FOUR_HEADERS), response: { id: 't1' } },
  },
  {
    rule: `${rule}fields`,
    what: 'an error keeps its message',
    ask: 'GET /tickets/none?fields=id',
    status: 404,
    has: { message: someText },
  },

  ...Object.entries(embedded).map(
    ([type, value]): DeskCase => ({
      rule: `${rule}embed`,
      also: [`help-desk 2 Ticket with ${type}`, 'help-desk 4 GET /tickets/id embed'],
      what: `${type} beside the fields of the ticket`,
      ask: `GET /tickets/t1?embed=${type}`,
      is: { ...T1, [type]: value },
      answers: { 'rate-limit-used': '2' },
    }),
  ),
  {
    rule: `${rule}embed`,
    what: 'all types at once',
    ask: `GET /tickets/t1?embed=${Object.keys(embedded)}`,
    has: embedded,
  },
  { rule: `${rule}embed`, what: 'labels of none', ask: 'GET /tickets/t2?embed=labels', has: { labels: [] } },
  { rule: `${rule}embed`, what: 'messages of none', ask: 'GET /tickets/t2?embed=messages', has: { messages: [] } },
  {
    rule: `${rule}embed`,
    what: 'a user of nobody',
    ask: 'GET /tickets/t2?embed=user',
    has: { user_id: null, user: null },
  },
  { rule: `${rule}embed`, what: 'nothing unasked', ask: 'GET /tickets/t1', lacks: Object.keys(embedded) },
  {
    rule: `${rule}embed`,
    what: 'beside the envelope',
    ask: 'GET /tickets/t1?embed=labels&envelope=true',
    has: { response: { labels: embedded.labels } },
  },
  ...['GET /tickets/t1?embed=owner', 'GET /tickets/t1?embed=labels,owner', 'GET /tickets/t1?embed=label'].map(
    (ask): DeskCase => ({ rule: `${rule}embed somewhere only`, what: `${ask} is refused`, ask, status: REFUSED }),
  ),
  ...['GET /tickets?embed=labels', 'GET /customers/c1?embed=labels', 'GET /users?embed=labels'].map(
    (ask): DeskCase => ({
      rule: `${rule}embed somewhere only`,
      what: `${ask} is a parameter that nobody knows there, and costs nothing`,
      ask,
      lacks: ['labels', '0.labels'],
      answers: { 'rate-limit-used': '1' },
    }),
  ),
  ...(
    [
      ['user', 2],
      ['user,inbox', 3],
      ['user,inbox,customer', 4],
      ['user,inbox,customer,labels', 5],
      ['user,inbox,customer,labels,messages', 6],
      ['user,user', 2],
    ] as const
  ).map(
    ([types, used]): DeskCase => ({
      rule: `${rule}embed cost`,
      also: ['help-desk 8 cost'],
      what: `${types}: ${used}`,
      ask: `GET /tickets/t1?embed=${types}`,
      answers: { 'rate-limit-used': String(used) },
    }),
  ),

  {
    rule: `${rule}count`,
    what: 'tells all, not those of the page',
    ask: 'GET /tickets?count=true&per_page=2',
    is: ofLength(2),
    answers: { 'total-count': '12' },
  },
  {
    rule: `${rule}count`,
    what: 'of what a filter finds',
    ask: 'GET /tickets?count=true&per_page=1&inbox_id=i1',
    is: ofLength(1),
    answers: { 'total-count': '2' },
  },
  { rule: `${rule}count`, what: 'of nothing', ask: 'GET /tickets?count=true&id=none', answers: { 'total-count': '0' } },
  {
    rule: `${rule}count`,
    what: 'behind the last page',
    ask: 'GET /tickets?count=true&page=9',
    is: [],
    answers: { 'total-count': '12' },
  },
  { rule: `${rule}count`, what: 'of customers', ask: 'GET /customers?count=true', answers: { 'total-count': '3' } },
  { rule: `${rule}count`, what: 'of users', ask: 'GET /users?count=true', answers: { 'total-count': '3' } },
  { rule: `${rule}count`, what: 'not unasked', ask: 'GET /tickets', answers: { 'total-count': null } },
  {
    rule: `${rule}count`,
    what: 'not of a single resource',
    ask: 'GET /tickets/t1?count=true',
    answers: { 'total-count': null },
  },
  {
    rule: `${rule}count`,
    what: 'inside an envelope',
    ask: 'GET /tickets?count=true&envelope=true',
    has: { headers: headersWith({ ...FOUR_HEADERS, 'Total-Count': /^12$/ }) },
  },
  {
    rule: `${rule}count cost`,
    what: 'of a collection: 2',
    ask: 'GET /tickets?count=true',
    answers: { 'rate-limit-used': '2' },
  },
  { rule: `${rule}count cost`, what: 'not asked for: 1', ask: 'GET /tickets', answers: { 'rate-limit-used': '1' } },
  {
    rule: `${rule}count cost`,
    what: 'beside a filter: 2',
    ask: 'GET /tickets?state=open&count=true',
    answers: { 'rate-limit-used': '2' },
  },
];
