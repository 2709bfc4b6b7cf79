/** Section 4 of the help desk: users, customers and their contacts. */
import {
  anyOrderOf,
  type DeskCase,
  FOUR_HEADERS,
  headersWith,
  matching,
  NO_SUCH_METHOD,
  ofLength,
  REFUSED,
  someText,
} from './case.ts';
import { CUSTOMERS, USERS } from './worlds.ts';

const list = 'help-desk 4 GET /customers';
const one = 'help-desk 4 GET /customers/id';
const post = 'help-desk 4 POST /customers';
const patch = 'help-desk 4 PATCH /customers/id';
const nothing = { first_name: null, last_name: null, summary: null, contacts: [] };
const contact = { type: 'email', value: 'new@example.com' };

/** Rows of: parameter, query, ids that it shows. */
const shows = (rows: readonly (readonly [string, string, string])[]): DeskCase[] =>
  rows.map(([parameter, query, ids]) => ({
    rule: `${list} ${parameter}`,
    what: query,
    ask: `GET /customers?${query}`,
    ids,
  }));

/** Values that no customer takes, by field, whether it is made or changed. */
const WRONG = {
  first_name: [5, {}, [], true],
  last_name: [5, {}, []],
  summary: [5, {}, []],
  contacts: ['x', 5, {}, ['x'], [null], [[]]],
};
const refused = Object.entries(WRONG).flatMap(([field, values]) =>
  values.flatMap((value): DeskCase[] => [
    {
      rule: `${post} ${field}`,
      what: `cannot be ${JSON.stringify(value)}`,
      steps: [
        { ask: 'POST /customers', body: { [field]: value }, errors: [field] },
        { ask: 'GET /customers?count=true', answers: { 'total-count': '3' } },
      ],
    },
    {
      rule: patch,
      what: `cannot set ${field} to ${JSON.stringify(value)}`,
      steps: [
        { ask: 'PATCH /customers/c1', body: { [field]: value }, errors: [field] },
        { ask: 'GET /customers/c1', is: CUSTOMERS[0] },
      ],
    },
  ]),
);

export const customers: DeskCase[] = [
  { rule: 'help-desk 4 GET /users', what: 'shows all with four fields', ask: 'GET /users', is: anyOrderOf(USERS) },
  { rule: 'help-desk 4 GET /users', what: 'is not in pages', ask: 'GET /users?page=2&per_page=1', is: ofLength(3) },
  { rule: 'help-desk 4 GET /users', what: 'one at a time is not there', ask: 'GET /users/u1', status: 404 },
  {
    rule: 'help-desk 4 GET /users',
    what: 'in an envelope',
    ask: 'GET /users?envelope=true&fields=email',
    is: { status: 200, headers: headersWith(FOUR_HEADERS), response: ofLength(3) },
  },

  { rule: list, what: 'shows all with their contacts', ask: 'GET /customers', is: [...CUSTOMERS].reverse() },
  { rule: list, what: 'bears a parameter that it does not know', ask: 'GET /customers?state=open', ids: 'c3 c2 c1' },
  ...shows([
    ['contacts.type', 'contacts.type=email&contacts.value=nina@example.com', 'c1'],
    ['contacts.type', 'contacts.type=twitter&contacts.value=nina_t', 'c1'],
    ['contacts.type', 'contacts.type=phone&contacts.value=%2B4930123456', 'c2'],
    ['contacts.type', 'contacts.type=twitter&contacts.value=nina@example.com', ''],
    ['contacts.value', 'contacts.type=email&contacts.value=nina%40example.com', 'c1'],
    ['contacts.value', 'contacts.type=email&contacts.value=nobody@example.com', ''],
    ['contacts.value', 'contacts.type=email&contacts.value=nina', ''],
    ['contacts.value', 'contacts.type=email&contacts.value=nina@example.com&since_created_at=2024-04-02T00:00:00Z', ''],
    ['contacts.type', 'contacts.type=phone', 'c2'],
    ['contacts.type', 'contacts.type=email', 'c1'],
    ['contacts.value', 'contacts.value=nina_t', 'c1'],
    // A plus sign that was not encoded arrives as a blank.
    ['contacts.value', 'contacts.type=phone&contacts.value=+4930123456', ''],
    ['page', 'page=2&per_page=2', 'c1'],
    ['page', 'page=1&per_page=2', 'c3 c2'],
    ['page', 'page=3&per_page=2', ''],
    ['per_page', 'per_page=1', 'c3'],
    ['per_page', 'per_page=0', ''],
    ['per_page', 'per_page=100', 'c3 c2 c1'],
    ['since_created_at', 'since_created_at=2024-04-02T00:00:00Z', 'c3 c2'],
    ['since_created_at', 'since_created_at=2024-04-02T00:00:00%2B00%3A00', 'c3 c2'],
    ['since_created_at', 'since_created_at=2024-04-03T08:00:01Z', ''],
    ['since_created_at', 'since_created_at=2024-04-02T00:00:00Z&sort=created_at', 'c2 c3'],
    ['sort', 'sort=created_at', 'c1 c2 c3'],
    ['sort', 'sort=created_at&per_page=1&page=2', 'c2'],
  ]),
  ...[
    ...[
      'page=0',
      'page=-1',
      'page=x',
      'per_page=101',
      'per_page=-1',
      'per_page=2.5',
      'sort=updated_at',
      'sort=first_name',
    ],
    ...['since_created_at=soon', 'since_created_at=2024-02-30T00:00:00Z', 'contacts.type=fax&contacts.value=1'],
  ].map(
    (query): DeskCase => ({
      rule: `${list} ${query.split('=')[0]}`,
      what: `${query} is refused`,
      ask: `GET /customers?${query}`,
      status: REFUSED,
    }),
  ),
  {
    rule: `${list} fields`,
    what: 'of two',
    ask: 'GET /customers?fields=id,last_name&per_page=1',
    is: [{ id: 'c3', last_name: null }],
  },
  {
    rule: `${list} fields`,
    what: 'of contacts alone',
    ask: 'GET /customers?fields=contacts&per_page=1',
    is: [{ contacts: [] }],
  },
  {
    rule: `${list} count`,
    what: 'of who has a contact',
    ask: 'GET /customers?count=true&contacts.type=phone&contacts.value=%2B4930123456',
    answers: { 'total-count': '1', 'rate-limit-used': '2' },
  },
  {
    rule: `${list} count`,
    what: 'since a time',
    ask: 'GET /customers?count=true&per_page=1&since_created_at=2024-04-02T00:00:00Z',
    is: ofLength(1),
    answers: { 'total-count': '2' },
  },
  {
    rule: `${list} envelope`,
    what: 'with a count',
    ask: 'GET /customers?envelope=true&count=true&per_page=0',
    is: { status: 200, headers: headersWith({ ...FOUR_HEADERS, 'Total-Count': /^3$/ }), response: [] },
  },
  { rule: one, what: 'shows five fields', ask: 'GET /customers/c1', is: CUSTOMERS[0] },
  { rule: one, what: 'that is not there', ask: 'GET /customers/none', status: 404 },
  { rule: one, what: 'with fields', ask: 'GET /customers/c1?fields=first_name', is: { first_name: 'Nina' } },
  {
    rule: one,
    what: 'in an envelope',
    ask: 'GET /customers/c2?envelope=true',
    has: { status: 200, response: CUSTOMERS[1] },
  },

  {
    rule: post,
    also: ['help-desk 4 success statuses'],
    what: 'of nothing, read again at its Location',
    steps: [
      {
        ask: 'POST /customers',
        body: {},
        status: 201,
        is: { id: someText, ...nothing },
        answers: { location: matching(/^https?:\/\/[^/]+\/api\/v1\/customers\/[^/]+$/) },
        keep: { id: 'id', at: 'location' },
      },
      { ask: 'GET {at}', is: { id: '{id}', ...nothing } },
      { ask: 'GET /customers?per_page=1', ids: '{id}' },
    ],
  },
  {
    rule: post,
    what: 'of all fields',
    ask: 'POST /customers',
    body: {
      first_name: 'Nils',
      last_name: 'Neu',
      summary: 'New.',
      contacts: [contact, { type: 'phone', value: '+491' }],
    },
    status: 201,
    is: {
      ...{ id: someText, first_name: 'Nils', last_name: 'Neu', summary: 'New.' },
      contacts: [
        { id: someText, ...contact },
        { id: someText, type: 'phone', value: '+491' },
      ],
    },
  },
  {
    rule: post,
    what: 'bears fields that it does not know',
    ask: 'POST /customers',
    body: { x: 1 },
    status: 201,
    lacks: ['x'],
  },
  { rule: post, what: 'from text', ask: 'POST /customers', body: {}, type: 'text/plain', status: 415 },
  ...['[]', '"x"', 'null'].map(
    (raw): DeskCase => ({ rule: post, what: `from ${raw}`, ask: 'POST /customers', raw, status: 422 }),
  ),
  ...(['first_name', 'last_name', 'summary'] as const).flatMap((field): DeskCase[] =>
    ['Jürgen', '', null].map(value => ({
      rule: `${post} ${field}`,
      what: `takes ${JSON.stringify(value)}`,
      ask: 'POST /customers',
      body: { [field]: value },
      status: 201,
      has: { [field]: value },
    })),
  ),
  ...['email', 'twitter', 'phone'].map(
    (type): DeskCase => ({
      rule: `${post} contacts`,
      what: `of ${type}, found again by it`,
      steps: [
        { ask: 'POST /customers', body: { contacts: [{ type, value: 'one' }] }, status: 201, keep: { id: 'id' } },
        { ask: `GET /customers?contacts.type=${type}&contacts.value=one`, ids: '{id}' },
      ],
    }),
  ),
  ...(
    [
      ['of an unknown type', [{ type: 'fax', value: '1' }], ['type']],
      ['without a type', [{ value: '1' }], ['type']],
      ['without a value', [{ type: 'email' }], ['value']],
      ['with a number', [{ type: 'phone', value: 4930 }], ['value']],
      ['of nothing', [{}], ['type', 'value']],
      ['good and bad', [contact, { type: 'fax', value: '1' }], ['type']],
    ] as const
  ).map(
    ([what, contacts, errors]): DeskCase => ({
      rule: `${post} contacts`,
      what,
      ask: 'POST /customers',
      body: { contacts },
      errors,
    }),
  ),
  ...refused,

  { rule: patch, what: 'of nothing', ask: 'PATCH /customers/c1', body: {}, is: CUSTOMERS[0] },
  ...(['first_name', 'last_name', 'summary'] as const).map(
    (field): DeskCase => ({
      rule: patch,
      what: `sets ${field} and leaves the others`,
      steps: [
        { ask: 'PATCH /customers/c1', body: { [field]: 'Neu' }, is: { ...CUSTOMERS[0], [field]: 'Neu' } },
        { ask: 'GET /customers/c1', is: { ...CUSTOMERS[0], [field]: 'Neu' } },
      ],
    }),
  ),
  {
    rule: patch,
    what: 'sets contacts',
    ask: 'PATCH /customers/c3',
    body: { contacts: [contact] },
    is: { ...CUSTOMERS[2], contacts: [{ id: someText, ...contact }] },
  },
  {
    rule: patch,
    what: 'of a bad contact',
    ask: 'PATCH /customers/c3',
    body: { contacts: [{ type: 'fax', value: '1' }] },
    errors: ['type'],
  },
  {
    rule: patch,
    what: 'sets to null, and removes all contacts',
    ask: 'PATCH /customers/c1',
    body: { first_name: null, last_name: null, summary: null, contacts: [] },
    is: { ...CUSTOMERS[2], id: 'c1' },
  },
  { rule: patch, what: 'leaves the id', ask: 'PATCH /customers/c1', body: { id: 'x' }, has: { id: 'c1' } },
  { rule: patch, what: 'of nobody', ask: 'PATCH /customers/none', body: {}, status: 404 },
  { rule: patch, what: 'without a content type', ask: 'PATCH /customers/c1', body: {}, type: null, status: 415 },
];

const add = 'help-desk 4 POST contacts';
const remove = 'help-desk 4 DELETE contacts';
export const contacts: DeskCase[] = [
  {
    rule: add,
    also: ['help-desk 4 success statuses'],
    what: 'shows three fields, and is with the customer then',
    steps: [
      {
        ask: 'POST /customers/c3/contacts',
        body: contact,
        status: 201,
        is: { id: someText, ...contact },
        answers: { location: matching(/^https?:\/\/[^/]+\/api\/v1\/customers\/c3\/contacts\/[^/]+$/) },
        keep: { id: 'id' },
      },
      { ask: 'GET /customers/c3', has: { contacts: [{ id: '{id}', ...contact }] } },
      { ask: 'GET /customers?contacts.type=email&contacts.value=new@example.com', ids: 'c3' },
    ],
  },
  {
    rule: add,
    what: 'behind those that are there',
    steps: [
      { ask: 'POST /customers/c1/contacts', body: contact, status: 201 },
      { ask: 'GET /customers/c1', has: { contacts: [{ id: 'k1' }, { id: 'k2' }, contact] } },
    ],
  },
  {
    rule: add,
    what: 'that the customer has already is refused',
    ask: 'POST /customers/c1/contacts',
    body: { type: 'email', value: 'nina@example.com' },
    status: 422,
  },
  { rule: add, what: 'to nobody', ask: 'POST /customers/none/contacts', body: contact, status: 404 },
  { rule: add, what: 'as text', ask: 'POST /customers/c3/contacts', body: contact, type: 'text/plain', status: 415 },
  { rule: add, what: 'as an array', ask: 'POST /customers/c3/contacts', body: [contact], status: 422 },
  { rule: add, what: 'of nothing', ask: 'POST /customers/c3/contacts', body: {}, errors: ['type', 'value'] },
  ...(['type', 'value'] as const).map(
    (field): DeskCase => ({
      rule: `${add} ${field}`,
      what: 'is missing',
      ask: 'POST /customers/c3/contacts',
      body: { ...contact, [field]: undefined },
      errors: [field],
    }),
  ),
  ...Object.entries({ type: ['fax', '', null, 1, 'Email'], value: [null, 1, {}, []] }).flatMap(([field, values]) =>
    values.map(
      (value): DeskCase => ({
        rule: `${add} ${field}`,
        what: `cannot be ${JSON.stringify(value)}`,
        ask: 'POST /customers/c3/contacts',
        body: { ...contact, [field]: value },
        errors: [field],
      }),
    ),
  ),
  { rule: add, what: 'cannot be read alone', ask: 'GET /customers/c1/contacts', status: NO_SUCH_METHOD },
  {
    rule: remove,
    also: ['help-desk 4 success statuses'],
    what: 'leaves the others',
    steps: [
      { ask: 'DELETE /customers/c1/contacts/k1', status: 204 },
      { ask: 'GET /customers/c1', has: { contacts: [CUSTOMERS[0]!.contacts[1]] } },
      { ask: 'GET /customers?contacts.type=email&contacts.value=nina@example.com', ids: '' },
    ],
  },
  {
    rule: remove,
    what: 'leaves [] behind the last one',
    steps: [
      { ask: 'DELETE /customers/c2/contacts/k3', status: 204 },
      { ask: 'GET /customers/c2', has: { contacts: [] } },
    ],
  },
  {
    rule: remove,
    what: 'twice',
    steps: [
      { ask: 'DELETE /customers/c1/contacts/k1', status: 204 },
      { ask: 'DELETE /customers/c1/contacts/k1', status: 404 },
    ],
  },
  { rule: remove, what: 'that is not there', ask: 'DELETE /customers/c1/contacts/none', status: 404 },
  {
    rule: remove,
    what: 'of somebody else',
    steps: [
      { ask: 'DELETE /customers/c1/contacts/k3', status: 404 },
      { ask: 'GET /customers/c2', is: CUSTOMERS[1] },
    ],
  },
  { rule: remove, what: 'of nobody', ask: 'DELETE /customers/none/contacts/k1', status: 404 },
];
