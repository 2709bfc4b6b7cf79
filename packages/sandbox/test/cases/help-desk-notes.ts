/** Help desks in the field notes: habits of real clients and real desks beyond the specification. */
import { type DeskCase, matching, ofLength, REFUSED, someText, someTime } from './case.ts';
import { MESSAGES, T1 } from './worlds.ts';

const rule = 'notes help-desk ';
const json = { type: 'application/json' };
const inbound = { type: 'reply', direction: 'in', from_name: 'N', from: 'n@example.com', body: 'B', htmlized: false };
const outbound = { type: 'reply', direction: 'out', user_id: 'u1', to: 'n@example.com', body: 'B', htmlized: false };
const note = { type: 'note', user_id: 'u1', body: 'B', htmlized: false };

export const habits: DeskCase[] = [
  {
    rule: `${rule}opaque ids`,
    what: 'are texts that fit into a path',
    ask: 'POST /customers',
    body: {},
    status: 201,
    has: { id: matching(/^[A-Za-z0-9_-]+$/) },
  },
  ...[
    ['subject', 'PATCH /tickets/t1', ''],
    ['first_name', 'PATCH /customers/c1', ''],
    ['last_name', 'PATCH /customers/c1', ''],
  ].map(
    ([field, ask, value]): DeskCase => ({
      rule: `${rule}empty texts`,
      what: `${field} can be ''`,
      ask: ask!,
      body: { [field!]: value },
      has: { [field!]: value },
    }),
  ),
  {
    rule: `${rule}empty texts`,
    what: 'of subjects in lists',
    ask: 'GET /tickets?id=t11,t12&fields=subject',
    is: [{ subject: '' }, { subject: null }],
  },
  {
    rule: `${rule}notes lack`,
    what: 'four keys',
    ask: 'GET /tickets/t1?embed=messages&fields=messages',
    is: { messages: MESSAGES },
  },
  {
    rule: `${rule}unassign`,
    what: 'and find it among those of nobody',
    steps: [
      { ask: 'PATCH /tickets/t1', body: { user_id: null }, has: { user_id: null } },
      { ask: 'GET /tickets?user_id=null', ids: 't2 t1' },
    ],
  },
  {
    rule: `${rule}answers`,
    what: 'PATCH has the object',
    ask: 'PATCH /tickets/t1',
    body: { state: 'hold' },
    is: { ...T1, state: 'hold', updated_at: someTime },
  },
  { rule: `${rule}answers`, what: 'PUT labels has nothing', ask: 'PUT /tickets/t1/labels/l3', ...json, status: 204 },
  { rule: `${rule}answers`, what: 'DELETE labels has nothing', ask: 'DELETE /tickets/t1/labels/l1', status: 204 },
  { rule: `${rule}answers`, what: 'DELETE contact has nothing', ask: 'DELETE /customers/c1/contacts/k1', status: 204 },
  {
    rule: `${rule}answers`,
    what: 'POST message has the message and its Location',
    ask: 'POST /tickets/t1/messages',
    body: note,
    status: 201,
    has: { type: 'note', body: 'B' },
    answers: { location: someText },
  },
  ...['/tickets', '/customers', '/tickets?state=open'].map(
    (path): DeskCase => ({
      rule: `${rule}cheap total`,
      what: path,
      ask: `GET ${path}${path.includes('?') ? '&' : '?'}per_page=0&count=true`,
      is: [],
      answers: {
        'total-count': path === '/customers' ? '3' : path === '/tickets' ? '12' : '8',
        'rate-limit-used': '2',
      },
    }),
  ),
  ...(
    [
      ['t2', 'held', 'open'],
      ['t3', 'closed', 'open'],
      ['t6', 'snoozed', 'open'],
      ['t7', 'archived, which stays by the default of archivedReopens', 'archived'],
      ['t1', 'open', 'open'],
    ] as const
  ).map(
    ([id, what, state]): DeskCase => ({
      rule: `${rule}reopening`,
      what,
      steps: [
        { ask: `POST /tickets/${id}/messages`, body: inbound, status: 201 },
        { ask: `GET /tickets/${id}`, has: { state, snoozed_until: null } },
      ],
    }),
  ),
  ...[note, outbound].map(
    (body): DeskCase => ({
      rule: `${rule}reopening`,
      what: `not by ${body === note ? 'a note' : 'a reply to the customer'}`,
      steps: [
        { ask: 'POST /tickets/t3/messages', body, status: 201 },
        { ask: 'GET /tickets/t3', has: { state: 'closed' } },
      ],
    }),
  ),
  { rule: `${rule}archived`, what: 'is shown', ask: 'GET /tickets?type=sms', has: [{ id: 't7', state: 'archived' }] },
  { rule: `${rule}archived`, what: 'is no filter', ask: 'GET /tickets?state=archived', status: REFUSED },
  ...(
    [
      ['state=open&state=hold&id=t1,t2,t3', 't2 t1'],
      ['id=t1&id=t2', 't2 t1'],
      ['label_id=l1&label_id=l2', 't3 t1'],
      ['user_id=u1&user_id=null', 't2 t1'],
      ['type=phone&type=chat', 't3 t2'],
      ['inbox_id=i1&inbox_id=none', 't3 t1'],
    ] as const
  ).map(
    ([query, ids]): DeskCase => ({
      rule: `${rule}repeated parameters`,
      what: query,
      ask: `GET /tickets?${query}`,
      ids,
    }),
  ),
  {
    rule: `${rule}repeated parameters`,
    what: 'of embed',
    ask: 'GET /tickets/t1?embed=messages&embed=labels',
    has: { messages: MESSAGES, labels: [{ id: 'l1' }, { id: 'l2' }] },
    answers: { 'rate-limit-used': '3' },
  },
  {
    rule: `${rule}repeated parameters`,
    what: 'of fields',
    ask: 'GET /tickets/t1?fields=id&fields=state',
    is: { id: 't1', state: 'open' },
  },
  {
    rule: `${rule}false flags`,
    what: 'count=false',
    ask: 'GET /tickets?count=false',
    answers: { 'total-count': null, 'rate-limit-used': '1' },
  },
  { rule: `${rule}false flags`, what: 'envelope=false', ask: 'GET /tickets/t1?envelope=false', is: T1 },
  {
    rule: `${rule}false flags`,
    what: 'spam=false and trash=false',
    ask: 'GET /tickets?spam=false&trash=false&id=t1,t4,t5',
    ids: 't1',
  },
  ...['since_created_at', 'since_updated_at'].map(
    (name): DeskCase => ({
      rule: `${rule}offsets`,
      what: name,
      ask: `GET /tickets?${name}=2024-04-12T08%3A00%3A00%2B00%3A00&id=t1,t12`,
      ids: name === 'since_created_at' ? 't12' : 't12 t1',
    }),
  ),
  {
    rule: `${rule}offsets`,
    what: 'with a fraction',
    ask: 'GET /tickets?since_created_at=2024-04-12T07:59:59.123456%2B00:00',
    ids: 't12',
  },
  { rule: `${rule}empty user_id`, what: 'alone', ask: 'GET /tickets?user_id=', ids: 't2' },
  { rule: `${rule}empty user_id`, what: 'beside another filter', ask: 'GET /tickets?user_id=&state=open', ids: '' },
  { rule: `${rule}content type on GET`, what: 'JSON', ask: 'GET /tickets/t1', ...json, is: T1 },
  { rule: `${rule}content type on GET`, what: 'anything', ask: 'GET /tickets/t1', type: 'text/plain', is: T1 },
  {
    rule: `${rule}content type on GET`,
    what: 'and on DELETE',
    ask: 'DELETE /tickets/t1/labels/l1',
    ...json,
    status: 204,
  },
  ...['x', '', 'X', 'correct horse'].map(
    (password): DeskCase => ({
      rule: `${rule}Basic`,
      what: `'${password}'`,
      options: { tokens: ['some-token'] },
      ask: 'GET /users',
      as: `Basic ${Buffer.from(`some-token:${password}`).toString('base64')}`,
      is: ofLength(3),
    }),
  ),
  ...["['l1', 'l2']", '["l1","l2"]', "['l1']"].map(
    (written): DeskCase => ({
      rule: `${rule}label lists`,
      what: `${written} in a path adds nothing`,
      steps: [
        { ask: `PUT /tickets/t2/labels/${encodeURIComponent(written)}`, ...json, status: 422 },
        { ask: 'GET /tickets/t2', has: { label_ids: [] } },
      ],
    }),
  ),
  {
    rule: `${rule}label lists`,
    what: 'as a text in a body',
    ask: 'PATCH /tickets/t1',
    body: { label_ids: "['l1', 'l2']" },
    errors: ['label_ids'],
  },
  {
    rule: `${rule}uploads`,
    what: 'with filename and content_type',
    ask: 'POST /attachments',
    body: { filename: 'a.txt', content_type: 'text/plain', data: 'YWJj' },
    errors: ['name', 'type'],
  },
  ...(
    [
      ['emoji with joiners', '👩‍👩‍👧‍👦 🏳️‍🌈'],
      ['right to left', 'مرحبا بالعالم \u202eabc'],
      ['NUL', 'a\u0000b'],
      ['a lone surrogate', 'a\ud800b'],
      ['empty', ''],
      ['200,000 characters', 'x'.repeat(200_000)],
      ['HTML with a quote', '<div>Hi<blockquote type="cite">&gt; <b>old</b></blockquote></div>'],
      ['line ends', 'a\r\nb\u2028c\n'],
    ] as const
  ).map(
    ([what, body]): DeskCase => ({
      rule: `${rule}bodies`,
      what,
      steps: [
        { ask: 'POST /tickets/t2/messages', body: { ...inbound, body }, status: 201, has: { body } },
        { ask: 'GET /tickets/t2?embed=messages', has: { messages: [{ body }] } },
      ],
    }),
  ),
];
