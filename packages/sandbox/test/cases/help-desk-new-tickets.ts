/** Section 4 of the help desk: POST /tickets, field by field. */
import { type DeskCase, matching, someInteger, someList, someText } from './case.ts';
import { CUSTOMERS } from './worlds.ts';

const post = 'help-desk 4 POST /tickets';
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
  {
    rule: `${post} customer`,
    what: 'without contacts is made each time',
    steps: [
      {
        ask: 'POST /tickets',
        body: { ...without('customer_id'), customer: { first_name: 'Nina' } },
        status: 201,
        times: 2,
      },
      { ask: 'GET /customers?count=true', answers: { 'total-count': '5' } },
    ],
  },
  {
    rule: `${post} customer`,
    what: 'beside a customer_id does not count',
    ask: 'POST /tickets',
    body: { ...plain, customer: nils },
    status: 201,
    has: { customer_id: 'c2' },
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
  {
    rule: `${post} messages`,
    what: 'of a customer, with nothing but a name',
    ask: 'POST /tickets?fields=state,label_ids',
    body: { ...plain, label_ids: ['l1'], messages: [{ ...inbound, to: null }] },
    status: 201,
    is: { state: 'open', label_ids: [] },
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
