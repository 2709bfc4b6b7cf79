/** Section 4 of the help desk, writing: PATCH of a ticket, its labels, and new tickets. */
import { type DeskCase, matching, someInteger, someList, someText } from './case.ts';
import { CUSTOMERS, T1 } from './worlds.ts';

const patch = 'help-desk 4 PATCH /tickets/id';
const post = 'help-desk 4 POST /tickets';
const put = 'help-desk 4 PUT labels';
const remove = 'help-desk 4 DELETE labels';

/** Values that a field does not take, one case each; the ticket stays as it was. */
const refused: DeskCase[] = Object.entries({
  user_id: [5, true, [], {}, 'none'],
  inbox_id: [5, null, false, ['i1'], 'none'],
  state: ['snoozed', 'archived', 'done', '', null, 1, ['open'], 'OPEN'],
  label_ids: ['l1', null, {}, [1], [null], ['none'], ['l1', 'none'], [['l1']], 'l1,l2'],
  spam: ['true', 1, null, []],
  trash: ['false', 0, null, {}],
  subject: [5, true, ['S'], {}],
}).flatMap(([field, values]) =>
  values.map(value => ({
    rule: `${patch} ${field}`,
    what: `refuses ${JSON.stringify(value)}`,
    steps: [
      { ask: 'PATCH /tickets/t1', body: { [field]: value }, errors: [field] },
      { ask: 'GET /tickets/t1', is: T1 },
    ],
  })),
);

/** Values that a field takes; they are in the answer and stay. */
const taken: DeskCase[] = (
  [
    ['user_id', 'u2'],
    ['user_id', null],
    ['inbox_id', 'i2'],
    ['state', 'open'],
    ['state', 'hold'],
    ['state', 'closed'],
    ['label_ids', ['l3']],
    ['label_ids', ['l3', 'l1']],
    ['label_ids', []],
    ['spam', true],
    ['spam', false],
    ['trash', true],
    ['trash', false],
    ['subject', 'Another one'],
    ['subject', ''],
    ['subject', 'Zürich 👩‍👩‍👧 مرحبا'],
  ] as const
).map(([field, value]) => ({
  rule: `${patch} ${field}`,
  what: `takes ${JSON.stringify(value)}`,
  steps: [
    { ask: 'PATCH /tickets/t1', body: { [field]: value }, has: { id: 't1', [field]: value } },
    { ask: `GET /tickets/t1?fields=${field}`, is: { [field]: value } },
  ],
}));

export const changes: DeskCase[] = [
  { rule: patch, what: 'of nothing', ask: 'PATCH /tickets/t1', body: {}, has: { id: 't1', subject: T1.subject } },
  {
    rule: patch,
    what: 'of all fields',
    ask: 'PATCH /tickets/t1',
    body: { user_id: 'u2', inbox_id: 'i2', state: 'hold', label_ids: ['l3'], spam: false, trash: true, subject: 'S' },
    has: { user_id: 'u2', inbox_id: 'i2', state: 'hold', label_ids: ['l3'], spam: false, trash: true, subject: 'S' },
  },
  {
    rule: patch,
    what: 'leaves alone what cannot be changed',
    ask: 'PATCH /tickets/t1',
    body: { id: 'x', number: 1, created_at: '2000-01-01T00:00:00Z', customer_id: 'c2', type: 'sms', nothing: 1 },
    has: { id: 't1', number: 101, created_at: T1.created_at, customer_id: 'c1', type: 'email' },
    lacks: ['nothing'],
  },
  { rule: patch, what: 'that is not there', ask: 'PATCH /tickets/none', body: { state: 'open' }, status: 404 },
  {
    rule: patch,
    what: 'with one wrong field changes none',
    steps: [
      { ask: 'PATCH /tickets/t1', body: { subject: 'S', state: 'done' }, errors: ['state'] },
      { ask: 'GET /tickets/t1', is: T1 },
    ],
  },
  {
    rule: patch,
    also: ['help-desk 7.2 errors'],
    what: 'with several wrong fields tells all of them',
    ask: 'PATCH /tickets/t1',
    body: { subject: 1, state: 'done', user_id: 2, inbox_id: 3, label_ids: 4 },
    errors: ['subject', 'state', 'user_id', 'inbox_id', 'label_ids'],
  },
  ...['[]', '"text"', '1', 'null', 'true'].map(
    (raw): DeskCase => ({ rule: patch, what: `with ${raw} as the body`, ask: 'PATCH /tickets/t1', raw, status: 422 }),
  ),
  { rule: patch, what: 'with nothing as the body', ask: 'PATCH /tickets/t1', raw: '', status: 422 },
  ...taken,
  ...refused,
  {
    rule: `${patch} label_ids`,
    what: 'is found by its new labels',
    steps: [
      { ask: 'PATCH /tickets/t2', body: { label_ids: ['l3'] } },
      { ask: 'GET /tickets?label_id=l3', ids: 't2' },
    ],
  },
  {
    rule: `${patch} state`,
    what: 'is found by its new state',
    steps: [
      { ask: 'PATCH /tickets/t1', body: { state: 'hold' } },
      { ask: 'GET /tickets?state=hold', ids: 't2 t1' },
    ],
  },
  {
    rule: `${patch} user_id`,
    what: 'is found by its new user',
    steps: [
      { ask: 'PATCH /tickets/t1', body: { user_id: 'u3' } },
      { ask: 'GET /tickets?user_id=u3&sort=created_at', ids: 't1 t12' },
      { ask: 'GET /tickets?user_id=u1', ids: '' },
    ],
  },

  ...(
    [
      ['t2', 'l1', ['l1']],
      ['t2', 'l1,l2', ['l1', 'l2']],
      ['t2', 'l1%2Cl3', ['l1', 'l3']],
      ['t3', 'l1', ['l2', 'l1']],
      ['t3', 'l2', ['l2']],
      ['t1', 'l1,l2,l3', ['l1', 'l2', 'l3']],
      ['t2', 'l1,l1', ['l1']],
    ] as const
  ).map(
    ([id, labels, after]): DeskCase => ({
      rule: put,
      what: `${labels} on ${id}`,
      steps: [
        { ask: `PUT /tickets/${id}/labels/${labels}`, type: 'application/json', status: 204 },
        { ask: `GET /tickets/${id}?fields=label_ids`, is: { label_ids: after } },
      ],
    }),
  ),
  { rule: put, what: 'bears a body', ask: 'PUT /tickets/t2/labels/l1', body: {}, status: 204 },
  { rule: put, what: 'on no ticket', ask: 'PUT /tickets/none/labels/l1', type: 'application/json', status: 404 },
  {
    rule: put,
    what: 'an unknown one adds none of the others',
    steps: [
      { ask: 'PUT /tickets/t2/labels/l1,none', type: 'application/json', status: 404 },
      { ask: 'GET /tickets/t2', has: { label_ids: [] } },
    ],
  },
  { rule: put, what: 'none at all', ask: 'PUT /tickets/t2/labels/', type: 'application/json', status: 404 },
  { rule: put, what: 'without a name', ask: 'PUT /tickets/t2/labels', type: 'application/json', status: 404 },
  ...(
    [
      ['t1', 'l1', ['l2']],
      ['t1', 'l1,l2', []],
      ['t1', 'l2%2Cl1', []],
      ['t3', 'l2', []],
    ] as const
  ).map(
    ([id, labels, after]): DeskCase => ({
      rule: remove,
      what: `${labels} from ${id}`,
      steps: [
        { ask: `DELETE /tickets/${id}/labels/${labels}`, status: 204 },
        { ask: `GET /tickets/${id}?fields=label_ids`, is: { label_ids: after } },
      ],
    }),
  ),
  {
    rule: remove,
    what: 'one that is not on it changes nothing',
    steps: [
      { ask: 'DELETE /tickets/t1/labels/l3', status: 204 },
      { ask: 'GET /tickets/t1', has: { label_ids: ['l1', 'l2'] } },
    ],
  },
  { rule: remove, what: 'an unknown one', ask: 'DELETE /tickets/t1/labels/none', status: 404 },
  { rule: remove, what: 'from no ticket', ask: 'DELETE /tickets/none/labels/l1', status: 404 },
];

const plain = { type: 'email', subject: 'A new one', customer_id: 'c2' };
const nils = { first_name: 'Nils', last_name: 'Neu', contacts: [{ type: 'email', value: 'nils@example.com' }] };
const note = { type: 'note', user_id: 'u1', body: 'N', htmlized: false };
const inbound = { type: 'reply', direction: 'in', from_name: 'Omar', from: '+4930123456', body: 'I', htmlized: false };
const outbound = {
  type: 'reply',
  direction: 'out',
  user_id: 'u2',
  to: 'omar@example.com',
  body: '<b>O</b>',
  htmlized: true,
};

/** A POST that is refused for what is wrong with these fields, and makes nothing. */
const fails = (field: string, what: string, body: unknown, errors: readonly string[] = [field]): DeskCase => ({
  rule: `${post} ${field}`,
  what,
  steps: [
    { ask: 'POST /tickets', body, errors },
    { ask: 'GET /tickets?count=true&per_page=0', answers: { 'total-count': '12' } },
    { ask: 'GET /customers?count=true&per_page=0', answers: { 'total-count': '3' } },
  ],
});
const without = (field: keyof typeof plain) => ({ ...plain, [field]: undefined });

export const newTickets: DeskCase[] = [
  {
    rule: post,
    also: ['help-desk 4 success statuses'],
    what: 'shows all fields of what it made',
    steps: [
      {
        ask: 'POST /tickets',
        body: { ...plain, inbox_id: 'i1' },
        status: 201,
        is: {
          ...{ id: someText, number: someInteger, customer_id: 'c2', user_id: null, inbox_id: 'i1', label_ids: [] },
          ...{ state: 'open', snoozed_until: null, subject: 'A new one', type: 'email', spam: false, trash: false },
          ...{ updated_at: '2024-05-01T12:00:00Z', created_at: '2024-05-01T12:00:00Z' },
          ...{ reply_to: null, reply_cc: null, summary: null },
        },
        keep: { at: 'location', id: 'id' },
      },
      { ask: 'GET {at}', has: { id: '{id}', subject: 'A new one' } },
      { ask: 'GET /tickets?per_page=1', ids: '{id}' },
    ],
  },
  {
    rule: post,
    what: 'has an absolute Location',
    ask: 'POST /tickets',
    body: plain,
    status: 201,
    answers: { location: matching(/^https?:\/\/[^/]+\/api\/v1\/tickets\/[^/]+$/) },
  },
  {
    rule: post,
    what: 'bears fields that it does not know',
    ask: 'POST /tickets',
    body: { ...plain, x: 1 },
    status: 201,
    lacks: ['x'],
  },
  {
    rule: post,
    also: ['help-desk 7.2 errors'],
    what: 'with nothing tells all that is missing',
    ask: 'POST /tickets',
    body: {},
    errors: ['type', 'subject', 'customer'],
  },
  ...['[]', '"text"', 'null', '7'].map(
    (raw): DeskCase => ({ rule: post, what: `with ${raw} as the body`, ask: 'POST /tickets', raw, status: 422 }),
  ),
  fails('type', 'is missing', without('type')),
  ...['twitter', 'phone', 'chat', 'web', 'sms', 'whatsapp', 'call', 'fax', '', 'Email', null, 1].map(type =>
    fails('type', `cannot be ${JSON.stringify(type)}`, { ...plain, type }),
  ),
  fails('subject', 'is missing', without('subject')),
  ...[5, {}, [], true].map(subject => fails('subject', `cannot be ${JSON.stringify(subject)}`, { ...plain, subject })),
  fails('customer_id', 'is missing', without('customer_id'), ['customer']),
  fails('customer_id', 'is unknown', { ...plain, customer_id: 'none' }),
  ...[5, {}, ['c1'], ''].map(customer_id =>
    fails('customer_id', `cannot be ${JSON.stringify(customer_id)}`, { ...plain, customer_id }, ['customer']),
  ),
  {
    rule: `${post} customer_id`,
    what: 'of a known one',
    ask: 'POST /tickets',
    body: { ...plain, customer_id: 'c3' },
    status: 201,
    has: { customer_id: 'c3' },
  },
  ...(
    [
      ['an email address', 'c1', [{ type: 'email', value: 'nina@example.com' }]],
      ['a screen name', 'c1', [{ type: 'twitter', value: 'nina_t' }]],
      ['a phone number', 'c2', [{ type: 'phone', value: '+4930123456' }]],
      ['one of two contacts', 'c1', [nils.contacts[0], { type: 'twitter', value: 'nina_t' }]],
    ] as const
  ).map(
    ([what, customer_id, contacts]): DeskCase => ({
      rule: `${post} customer`,
      what: `is found by ${what}, not made`,
      steps: [
        {
          ask: 'POST /tickets',
          body: { ...without('customer_id'), customer: { ...nils, contacts } },
          status: 201,
          has: { customer_id },
        },
        { ask: 'GET /customers?count=true', answers: { 'total-count': '3' } },
        {
          ask: `GET /customers/${customer_id}`,
          has: { first_name: CUSTOMERS.find(({ id }) => id === customer_id)!.first_name },
        },
      ],
    }),
  ),
  {
    rule: `${post} customer`,
    what: 'is made where nobody is found, and found the next time',
    steps: [
      {
        ask: 'POST /tickets',
        body: { ...without('customer_id'), customer: nils },
        status: 201,
        keep: { id: 'customer_id' },
      },
      {
        ask: 'GET /customers/{id}',
        is: { id: '{id}', summary: null, ...nils, contacts: [{ id: someText, ...nils.contacts[0] }] },
      },
      {
        ask: 'POST /tickets',
        body: { ...without('customer_id'), customer: nils },
        status: 201,
        has: { customer_id: '{id}' },
      },
      { ask: 'GET /customers?count=true', answers: { 'total-count': '4' } },
    ],
  },
  {
    rule: `${post} customer`,
    what: 'is not found by a value of another type',
    ask: 'POST /tickets',
    body: { ...without('customer_id'), customer: { contacts: [{ type: 'email', value: 'nina_t' }] } },
    status: 201,
    has: { customer_id: matching(/^(?!c1$)/) },
  },
  ...['nobody', 5, [], true].map(customer =>
    fails('customer', `cannot be ${JSON.stringify(customer)}`, { ...without('customer_id'), customer }),
  ),
  fails(
    'customer',
    'has a contact of an unknown type',
    {
      ...without('customer_id'),
      customer: { contacts: [{ type: 'fax', value: '1' }] },
    },
    ['type'],
  ),
  fails(
    'customer',
    'has a contact without a value',
    {
      ...without('customer_id'),
      customer: { contacts: [{ type: 'email' }] },
    },
    ['value'],
  ),
  {
    rule: `${post} user_id`,
    what: 'of a known one',
    ask: 'POST /tickets',
    body: { ...plain, user_id: 'u2' },
    status: 201,
    has: { user_id: 'u2' },
  },
  fails('user_id', 'is unknown', { ...plain, user_id: 'none' }),
  fails('user_id', 'is a number', { ...plain, user_id: 1 }),
  {
    rule: `${post} inbox_id`,
    what: 'of a known one',
    ask: 'POST /tickets',
    body: { ...plain, inbox_id: 'i2' },
    status: 201,
    has: { inbox_id: 'i2' },
  },
  {
    rule: `${post} inbox_id`,
    what: 'is some inbox if not said',
    ask: 'POST /tickets',
    body: plain,
    status: 201,
    has: { inbox_id: matching(/^i[12]$/) },
  },
  fails('inbox_id', 'is unknown', { ...plain, inbox_id: 'none' }),
  fails('inbox_id', 'is a number', { ...plain, inbox_id: 1 }),
  {
    rule: `${post} messages`,
    what: 'of all three shapes',
    steps: [
      {
        ask: 'POST /tickets',
        body: { ...plain, messages: [inbound, outbound, note] },
        status: 201,
        keep: { id: 'id' },
      },
      {
        ask: 'GET /tickets/{id}?embed=messages',
        has: {
          state: 'open',
          messages: [
            { ...inbound, id: someText, user_id: null, attachments: someList },
            { ...outbound, id: someText },
            { ...note, id: someText },
          ],
        },
      },
    ],
  },
  { rule: `${post} messages`, what: 'of none', ask: 'POST /tickets', body: { ...plain, messages: [] }, status: 201 },
  ...['x', {}, 5].map(messages => fails('messages', `cannot be ${JSON.stringify(messages)}`, { ...plain, messages })),
  fails('messages', 'holds something else', { ...plain, messages: [note, 'x'] }),
  fails('messages', 'lacks a body in one of them', { ...plain, messages: [note, { ...note, body: undefined }] }, [
    'body',
  ]),
  fails('messages', 'is of an unknown shape', { ...plain, messages: [{ ...note, type: 'call' }] }, ['type']),
  fails('messages', 'is by an unknown user', { ...plain, messages: [{ ...note, user_id: 'none' }] }, ['user_id']),
  ...['reply_to', 'reply_cc'].map(
    (field): DeskCase => ({
      rule: `${post} ${field}`,
      what: 'is kept',
      ask: 'POST /tickets',
      body: { ...plain, [field]: 'nils@example.com' },
      status: 201,
      has: { [field]: 'nils@example.com' },
    }),
  ),
  ...['reply_to', 'reply_cc'].map(field => fails(field, 'is a number', { ...plain, [field]: 7 })),
];
