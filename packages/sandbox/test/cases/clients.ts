/** Request sequences of real clients, from the field notes. */
import { type DeskCase, ofLength, someText } from './case.ts';

const TOKEN = 'token-of-an-instance';
const as = `Basic ${Buffer.from(`${TOKEN}:x`).toString('base64')}`;
const options = { tokens: [TOKEN], credits: 100, periodSeconds: 60 };
const python = { 'user-agent': 'python-requests/2.32', accept: '*/*', 'accept-encoding': 'gzip, deflate' };

export const clients: DeskCase[] = [
  {
    rule: 'notes help-desk content type on GET',
    also: ['notes help-desk Basic', 'notes help-desk repeated parameters'],
    what: 'a client that sends the same headers with everything',
    options,
    steps: [
      { ask: 'GET /users', as, headers: python, type: 'application/json', is: ofLength(3) },
      {
        ask: 'GET /tickets?state=open&state=hold&per_page=2&page=2',
        as,
        headers: python,
        type: 'application/json',
        ids: 't10 t9',
      },
      {
        ask: 'GET /tickets/t1?embed=messages&embed=labels&embed=customer',
        as,
        headers: python,
        type: 'application/json',
        has: { messages: ofLength(3), labels: ofLength(2), customer: { id: 'c1' } },
        answers: { 'rate-limit-used': '4' },
      },
    ],
  },
  {
    rule: 'notes help-desk cheap total',
    also: ['help-desk 1 count'],
    what: 'then all pages until one is not full',
    options,
    steps: [
      { ask: 'GET /tickets?per_page=0&count=true', answers: { 'total-count': '12' } },
      { ask: 'GET /tickets?per_page=5&page=1&sort=created_at', is: ofLength(5) },
      { ask: 'GET /tickets?per_page=5&page=2&sort=created_at', is: ofLength(5) },
      { ask: 'GET /tickets?per_page=5&page=3&sort=created_at', ids: 't11 t12' },
    ],
  },
  {
    rule: 'notes help-desk offsets',
    also: ['help-desk 4 GET /tickets since_updated_at'],
    what: 'a mirror that asks for what is new since the last row',
    options,
    steps: [
      {
        ask: 'GET /tickets?sort=updated_at&per_page=3&since_updated_at=2024-04-21T00%3A00%3A00%2B00%3A00',
        ids: 't4 t3 t2',
        keep: { last: '2.updated_at' },
      },
      { ask: 'GET /tickets?sort=updated_at&per_page=3&since_updated_at={last}', ids: 't2 t1' },
      { ask: 'PATCH /tickets/t9', body: { state: 'closed' } },
      { ask: 'GET /tickets?sort=updated_at&since_updated_at={last}', ids: 't2 t1 t9' },
    ],
  },
  {
    rule: 'help-desk 4 POST /tickets customer',
    also: ['help-desk 2 Attachment first', 'help-desk 4 POST /tickets messages'],
    what: 'a form on a web page: an upload, and a ticket with a message by somebody new',
    options,
    steps: [
      {
        ask: 'POST /attachments',
        body: { name: 'p.png', type: 'image/png', data: 'iVBORw0KGgo=' },
        status: 201,
        keep: { file: 'id' },
      },
      {
        ask: 'POST /tickets',
        body: {
          type: 'email',
          subject: 'Contact form',
          customer: { first_name: 'Ü', last_name: '', contacts: [{ type: 'email', value: 'u@example.com' }] },
          messages: [
            {
              ...{ type: 'reply', direction: 'in', from_name: 'Ü', from: 'u@example.com', body: 'Hello' },
              ...{ htmlized: false, attachment_ids: ['{file}'] },
            },
          ],
        },
        status: 201,
        keep: { id: 'id' },
      },
      {
        ask: 'GET /tickets/{id}?embed=messages,customer',
        has: {
          messages: [{ direction: 'in', attachments: [{ id: '{file}', size: 8 }] }],
          customer: { first_name: 'Ü', last_name: '', contacts: [{ value: 'u@example.com' }] },
        },
      },
    ],
  },
  {
    rule: 'help-desk 3 set by PATCH',
    also: ['help-desk 4 outbound type', 'help-desk 1 method override'],
    what: 'a user answers, labels and closes, with nothing but GET and POST',
    options,
    steps: [
      {
        ask: 'POST /tickets/t2/messages',
        body: { type: 'reply', direction: 'out', user_id: 'u1', to: 'o@example.com', body: 'Done.', htmlized: false },
        status: 201,
      },
      {
        ask: 'POST /tickets/t2/labels/l1,l3',
        headers: { 'x-http-method-override': 'PUT' },
        type: 'application/json',
        status: 204,
      },
      {
        ask: 'POST /tickets/t2',
        headers: { 'x-http-method-override': 'PATCH' },
        body: { state: 'closed', user_id: 'u1' },
        has: { state: 'closed' },
      },
      {
        ask: 'GET /tickets/t2?embed=messages',
        has: { label_ids: ['l1', 'l3'], user_id: 'u1', messages: [{ direction: 'out' }] },
      },
    ],
  },
  {
    rule: 'help-desk 4 GET /customers contacts.value',
    also: ['help-desk 4 POST /customers', 'help-desk 4 POST contacts'],
    what: 'a client that looks for a customer, makes one and completes it',
    options,
    steps: [
      { ask: 'GET /customers?contacts.type=email&contacts.value=new%40example.com', is: [] },
      {
        ask: 'POST /customers',
        body: { first_name: 'New', contacts: [{ type: 'email', value: 'new@example.com' }] },
        status: 201,
        keep: { id: 'id' },
      },
      {
        ask: 'POST /customers/{id}/contacts',
        body: { type: 'phone', value: '+1' },
        status: 201,
        keep: { phone: 'id' },
      },
      {
        ask: 'PATCH /customers/{id}',
        body: { last_name: 'One' },
        has: { first_name: 'New', last_name: 'One', contacts: ofLength(2) },
      },
      { ask: 'DELETE /customers/{id}/contacts/{phone}', status: 204 },
      {
        ask: 'GET /customers?contacts.type=email&contacts.value=new%40example.com',
        is: [
          {
            id: '{id}',
            first_name: 'New',
            last_name: 'One',
            summary: null,
            contacts: [{ id: someText, type: 'email', value: 'new@example.com' }],
          },
        ],
      },
    ],
  },
  {
    rule: 'help-desk 8 429',
    also: ['help-desk 8 burst', 'help-desk 8 Rate-Limit-Reset'],
    what: 'a client that waits as long as Reset says is never refused twice',
    options: { credits: 4, periodSeconds: 60 },
    steps: [
      { ask: 'GET /users', times: 4 },
      { ask: 'GET /users', status: 429, answers: { 'rate-limit-reset': '60' } },
      { ask: 'GET /users', later: 60 },
    ],
  },
];
