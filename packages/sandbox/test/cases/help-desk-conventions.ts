/** Section 1 of the help desk: conventions of all endpoints. */
import { type DeskCase, FOUR_HEADERS, headersWith, ofLength, REFUSED, someText, someTime } from './case.ts';
import { CUSTOMERS, LABELS, MESSAGES, T1, USERS } from './worlds.ts';

const rule = 'help-desk 1 ';

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
