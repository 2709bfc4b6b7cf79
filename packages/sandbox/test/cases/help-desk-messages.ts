/** Section 4 of the help desk: messages of three shapes, and attachments. */
import { type DeskCase, matching, someText } from './case.ts';
import { MESSAGES } from './worlds.ts';

const note = { type: 'note', user_id: 'u1', body: 'A note', htmlized: false };
const inbound = {
  ...{ type: 'reply', direction: 'in', from_name: 'Nina Nord', from: 'nina@example.com' },
  ...{ body: '<p>Still nothing.</p>', htmlized: true },
};
const outbound = {
  ...{ type: 'reply', direction: 'out', user_id: 'u2', to: 'nina@example.com' },
  ...{ body: 'Tomorrow.', htmlized: false },
};
const shapes = { note, inbound, outbound } as const;
type Shape = keyof typeof shapes;

const at = 'POST /tickets/t2/messages';
const upload = { name: 'a.txt', type: 'text/plain', data: 'YWJj' };
const untouched = { ask: 'GET /tickets/t2?embed=messages', has: { messages: [] } };

/** What is shown of a new message of each shape: all fields of its kind, no others. */
const shown = {
  note: { ...note, id: someText, from_name: 'Ada Lovelace', attachments: [], created_at: '2024-05-01T12:00:00Z' },
  inbound: {
    ...{ ...inbound, id: someText, attachments: [], user_id: null, created_at: '2024-05-01T12:00:00Z' },
    ...{ to: null, more_body: null },
  },
  outbound: {
    ...{ ...outbound, id: someText, attachments: [], created_at: '2024-05-01T12:00:00Z', more_body: null },
    ...{ from_name: 'Grace Hopper' },
  },
};

const made: DeskCase[] = (Object.keys(shapes) as Shape[]).map(shape => ({
  rule: `help-desk 4 ${shape} type`,
  also: ['help-desk 4 success statuses', 'notes help-desk answers'],
  what: 'makes a message with all fields of its kind, at the end of the ticket',
  steps: [
    {
      ask: 'POST /tickets/t1/messages',
      body: shapes[shape],
      status: 201,
      has: shown[shape],
      lacks: ['attachment_ids', ...(shape === 'note' ? ['direction', 'from', 'to', 'more_body'] : [])],
      answers: { location: matching(/^https?:\/\/[^/]+\/api\/v1\/.+$/) },
      keep: { id: 'id' },
    },
    {
      ask: 'GET /tickets/t1?embed=messages',
      has: { messages: [...MESSAGES.map(({ id }) => ({ id })), { ...shown[shape], id: '{id}' }] },
    },
  ],
}));

/** Each field that must be there, missing; with what the refusal names. */
const missing: DeskCase[] = (
  [
    ['note', 'type', 'type'],
    ['note', 'user_id', 'user_id'],
    ['note', 'body', 'body'],
    ['note', 'htmlized', 'htmlized'],
    ['inbound', 'type', 'type'],
    ['inbound', 'direction', 'direction'],
    ['inbound', 'from_name', 'from_name'],
    ['inbound', 'from', 'from'],
    ['inbound', 'body', 'body'],
    ['inbound', 'htmlized', 'htmlized'],
    ['outbound', 'type', 'type'],
    ['outbound', 'direction', 'direction'],
    ['outbound', 'user_id', 'user_id'],
    ['outbound', 'to', 'to'],
    ['outbound', 'body', 'body'],
    ['outbound', 'htmlized', 'htmlized'],
  ] as const
).map(([shape, field, name]) => ({
  rule: `help-desk 4 ${shape} ${field}`,
  what: 'is missing',
  steps: [{ ask: at, body: { ...shapes[shape], [field]: undefined }, errors: [name] }, untouched],
}));

/** Values that a field of a shape does not take. */
const refused: DeskCase[] = (
  [
    ['note', 'type', ['comment', '', null, 1]],
    ['note', 'user_id', ['none', null, 5, ['u1']]],
    ['note', 'body', [5, {}, ['text'], false]],
    ['note', 'htmlized', ['false', 0, null, []]],
    ['note', 'attachment_ids', ['a1', 5, {}, [5], ['none'], [null]]],
    ['inbound', 'direction', ['sideways', '', null, 1]],
    ['inbound', 'from_name', [5, {}, true]],
    ['inbound', 'from', [5, {}, ['nina@example.com']]],
    ['inbound', 'to', [5, {}, true]],
    ['inbound', 'body', [5, {}]],
    ['inbound', 'htmlized', ['true', 1]],
    ['inbound', 'attachment_ids', ['a1', ['none']]],
    ['outbound', 'user_id', ['none', null, 5]],
    ['outbound', 'to', [5, {}, ['nina@example.com'], true]],
    ['outbound', 'body', [5, {}]],
    ['outbound', 'htmlized', ['true', 1]],
    ['outbound', 'attachment_ids', ['a1', ['none'], [['a1']]]],
  ] as const
).flatMap(([shape, field, values]) =>
  values.map(value => ({
    rule: `help-desk 4 ${shape} ${field}`,
    what: `cannot be ${JSON.stringify(value)}`,
    steps: [
      {
        ask: at,
        body: { ...shapes[shape], [field]: value },
        errors: [field === 'attachment_ids' ? 'attachment' : field],
      },
      untouched,
    ],
  })),
);

/** An upload, then a message of each shape that names it twice over: once is taken, the second time is refused. */
const withAttachments: DeskCase[] = (Object.keys(shapes) as Shape[]).flatMap(shape => [
  {
    rule: `help-desk 4 ${shape} attachment_ids`,
    what: 'of two uploads, in their order',
    steps: [
      { ask: 'POST /attachments', body: upload, status: 201, keep: { first: 'id' } },
      { ask: 'POST /attachments', body: { ...upload, name: 'b.txt' }, status: 201, keep: { second: 'id' } },
      {
        ask: at,
        body: { ...shapes[shape], attachment_ids: ['{second}', '{first}'] },
        status: 201,
        has: {
          attachments: [
            { id: '{second}', name: 'b.txt', size: 3, type: 'text/plain' },
            { id: '{first}', name: 'a.txt', size: 3, type: 'text/plain' },
          ],
        },
      },
    ],
  },
  {
    rule: `help-desk 4 ${shape} attachment_ids`,
    what: 'of none',
    ask: at,
    body: { ...shapes[shape], attachment_ids: [] },
    status: 201,
    has: { attachments: [] },
  },
]);

export const messages: DeskCase[] = [
  ...made,
  ...missing,
  ...refused,
  ...withAttachments,
  {
    rule: 'help-desk 4 inbound to',
    what: 'is kept',
    ask: at,
    body: { ...inbound, to: 'sales@desk.example' },
    status: 201,
    has: { to: 'sales@desk.example' },
  },
  {
    rule: 'help-desk 4 inbound from',
    what: 'can be a phone number',
    ask: at,
    body: { ...inbound, from: '+4930123456' },
    status: 201,
    has: { from: '+4930123456', user_id: null },
  },
  {
    rule: 'help-desk 4 note type',
    also: ['help-desk 7.2 errors'],
    what: 'alone tells all that is missing',
    ask: at,
    body: { type: 'note' },
    errors: ['user_id', 'body', 'htmlized'],
  },
  {
    rule: 'help-desk 4 inbound direction',
    also: ['help-desk 7.2 errors'],
    what: 'alone tells all that is missing',
    ask: at,
    body: { type: 'reply', direction: 'in' },
    errors: ['from_name', 'from', 'body', 'htmlized'],
  },
  {
    rule: 'help-desk 4 outbound direction',
    also: ['help-desk 7.2 errors'],
    what: 'alone tells all that is missing',
    ask: at,
    body: { type: 'reply', direction: 'out' },
    errors: ['user_id', 'to', 'body', 'htmlized'],
  },
  {
    rule: 'help-desk 4 note type',
    what: 'has no direction, whatever is sent',
    ask: at,
    body: { ...note, direction: 'in', from: 'x@example.com', to: 'y@example.com' },
    status: 201,
    lacks: ['direction', 'from', 'to', 'more_body'],
  },
  {
    rule: 'help-desk 4 inbound direction',
    what: 'has no user, whatever is sent',
    ask: at,
    body: { ...inbound, user_id: 'u1' },
    status: 201,
    has: { user_id: null, from_name: 'Nina Nord' },
  },
  { rule: 'help-desk 4 note type', what: 'on no ticket', ask: 'POST /tickets/none/messages', body: note, status: 404 },
  { rule: 'help-desk 4 note type', what: 'as an array', ask: at, body: [note], status: 422 },
  { rule: 'help-desk 4 note type', what: 'as text', ask: at, body: note, type: 'text/plain', status: 415 },
  {
    rule: 'help-desk 4 note body',
    what: 'can be empty',
    ask: at,
    body: { ...note, body: '' },
    status: 201,
    has: { body: '' },
  },
  {
    rule: 'help-desk 4 outbound htmlized',
    what: 'keeps HTML as it is',
    ask: at,
    body: { ...outbound, htmlized: true, body: '<p>Grüße &amp; <script>x</script></p>' },
    status: 201,
    has: { body: '<p>Grüße &amp; <script>x</script></p>', htmlized: true },
  },
  {
    rule: 'help-desk 4 messages are embedded',
    what: 'in the order in which they came',
    steps: [
      { ask: at, body: { ...note, body: '1' }, status: 201 },
      { ask: at, body: { ...inbound, body: '2' }, status: 201, later: 1 },
      { ask: at, body: { ...outbound, body: '3' }, status: 201, later: 1 },
      { ask: 'GET /tickets/t2?embed=messages', has: { messages: [{ body: '1' }, { body: '2' }, { body: '3' }] } },
    ],
  },
];

const uploads = 'help-desk 4 POST /attachments';
export const attachments: DeskCase[] = [
  {
    rule: uploads,
    also: ['help-desk 4 GET /attachments/id', 'help-desk 4 success statuses'],
    what: 'shows four fields, there and at its Location',
    steps: [
      {
        ask: 'POST /attachments',
        body: upload,
        status: 201,
        is: { id: someText, name: 'a.txt', type: 'text/plain', size: 3 },
        answers: { location: matching(/\/api\/v1\/attachments\/[^/]+$/) },
        keep: { id: 'id', at: 'location' },
      },
      { ask: 'GET {at}', is: { id: '{id}', name: 'a.txt', type: 'text/plain', size: 3 } },
    ],
  },
  { rule: uploads, what: 'as text', ask: 'POST /attachments', body: upload, type: 'text/plain', status: 415 },
  {
    rule: uploads,
    also: ['help-desk 7.2 errors'],
    what: 'of nothing tells all that is missing',
    ask: 'POST /attachments',
    body: {},
    errors: ['name', 'type', 'data'],
  },
  ...(['name', 'type', 'data'] as const).flatMap((field): DeskCase[] => [
    {
      rule: `${uploads} ${field}`,
      what: 'is missing',
      ask: 'POST /attachments',
      body: { ...upload, [field]: undefined },
      errors: [field],
    },
    ...[5, null, {}, ['YWJj'], true].map(value => ({
      rule: `${uploads} ${field}`,
      what: `cannot be ${JSON.stringify(value)}`,
      ask: 'POST /attachments',
      body: { ...upload, [field]: value },
      errors: [field],
    })),
  ]),
  ...(
    [
      ['', 0],
      ['YQ==', 1],
      ['+/8=', 2],
      ['YWI=', 2],
      ['YWJj', 3],
      ['YW\nJj\r\n', 3],
      ['AAECAwQFBgcICf8=', 11],
      [Buffer.alloc(100_000, 7).toString('base64'), 100_000],
    ] as const
  ).map(
    ([data, size]): DeskCase => ({
      rule: `${uploads} data`,
      also: [`help-desk 2 Attachment.size`],
      what: `of ${size} bytes: ${JSON.stringify(data.slice(0, 20))}`,
      ask: 'POST /attachments',
      body: { ...upload, data },
      status: 201,
      has: { size },
    }),
  ),
  ...[
    'YR==',
    '_-8=',
    'YQ',
    'not base64!',
    'YWJj$',
    'Y',
    'YWJjZ',
    '=YWJ',
    'YW=Jj',
    '\u00ff\u00ff\u00ff\u00ff',
    'data:text/plain;base64,YWJj',
  ].map(
    (data): DeskCase => ({
      rule: `${uploads} data`,
      what: `is not Base64: ${data}`,
      ask: 'POST /attachments',
      body: { ...upload, data },
      errors: ['data'],
    }),
  ),
  {
    rule: `${uploads} name`,
    what: 'of any script, with a path in it',
    ask: 'POST /attachments',
    body: { ...upload, name: '../счёт 🧾.pdf' },
    status: 201,
    has: { name: '../счёт 🧾.pdf' },
  },
  {
    rule: `${uploads} type`,
    what: 'of any kind',
    ask: 'POST /attachments',
    body: { ...upload, type: 'image/svg+xml' },
    status: 201,
    has: { type: 'image/svg+xml' },
  },
  {
    rule: 'help-desk 4 GET /attachments/id',
    what: 'of a message',
    ask: 'GET /attachments/a1',
    is: { id: 'a1', name: 'label.pdf', size: 1234, type: 'application/pdf' },
  },
  { rule: 'help-desk 4 GET /attachments/id', what: 'that is not there', ask: 'GET /attachments/none', status: 404 },
  {
    rule: 'help-desk 4 GET /attachments/id',
    what: 'with fields',
    ask: 'GET /attachments/a1?fields=size',
    is: { size: 1234 },
  },
];
