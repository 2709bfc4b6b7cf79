/** Open questions of the help desk specification: each switch with its default and its other values. */
import { type DeskCase, matching, ofLength, someText } from './case.ts';
import { T1 } from './worlds.ts';

const rule = 'notes help-desk ';
const json = { type: 'application/json' };
const NOW = '2024-05-01T12:00:00Z';
const inbound = { type: 'reply', direction: 'in', from_name: 'N', from: 'n@example.com', body: 'B', htmlized: false };
const note = { type: 'note', user_id: 'u1', body: 'B', htmlized: false };
const upload = { name: 'a.txt', type: 'text/plain', data: 'YWJj' };

/** What moves `updated_at` of t1 and what does not, once it is switched to be quiet. */
const moving: DeskCase[] = (
  [
    ['reply', { ask: 'POST /tickets/t1/messages', body: inbound, status: 201 }],
    ['note', { ask: 'POST /tickets/t1/messages', body: note, status: 201 }],
    ['labels', { ask: 'PUT /tickets/t1/labels/l3', ...json, status: 204 }],
    ['state', { ask: 'PATCH /tickets/t1', body: { state: 'closed' } }],
  ] as const
).flatMap(([kind, step]): DeskCase[] => [
  {
    rule: `${rule}updated_at`,
    what: `moves with ${kind}, by the default of quietly`,
    steps: [step, { ask: 'GET /tickets/t1', has: { updated_at: NOW } }],
  },
  {
    rule: `${rule}updated_at`,
    what: `stays with ${kind} that is quiet`,
    options: { quietly: [kind] },
    steps: [step, { ask: 'GET /tickets/t1', has: { updated_at: T1.updated_at } }],
  },
]);

export const switched: DeskCase[] = [
  ...moving,
  ...['GET /tickets?embed=labels', 'GET /customers/c1?embed=tickets', 'GET /users?embed='].flatMap(
    (ask): DeskCase[] => [
      { rule: 'help-desk 1 embed somewhere only', what: `${ask}: not from everywhere, by default in silence`, ask },
      {
        rule: 'help-desk 1 embed somewhere only',
        what: `${ask}: refused with strayEmbed`,
        options: { strayEmbed: 'refused' },
        ask,
        status: 400,
      },
    ],
  ),
  ...(
    [
      ['since_created_at=2024-04-12T08:00:00Z', 't12'],
      ['since_updated_at=2024-04-24T08:00:00Z', 't1'],
    ] as const
  ).flatMap(([query, ids]): DeskCase[] => [
    { rule: `${rule}since inclusive`, what: `${query} by default`, ask: `GET /tickets?${query}`, ids },
    {
      rule: `${rule}since inclusive`,
      what: `${query} with sinceInclusive false`,
      options: { sinceInclusive: false },
      ask: `GET /tickets?${query}`,
      ids: '',
    },
  ]),
  {
    rule: `${rule}since inclusive`,
    what: 'of customers, both ways',
    options: { sinceInclusive: false },
    ask: 'GET /customers?since_created_at=2024-04-02T08:00:00Z',
    ids: 'c3',
  },
  {
    rule: `${rule}default list`,
    what: 'shows spam, trash, asleep and archived by default',
    ask: 'GET /tickets?id=t4,t5,t6,t7',
    ids: 't7 t6 t5 t4',
  },
  {
    rule: `${rule}default list`,
    what: 'without spam, unless it is asked for',
    options: { spamListed: false },
    steps: [
      { ask: 'GET /tickets?id=t4,t5', ids: 't5' },
      { ask: 'GET /tickets?id=t4,t5&spam=true', ids: 't4' },
    ],
  },
  {
    rule: `${rule}default list`,
    what: 'without trash, unless it is asked for',
    options: { trashListed: false },
    steps: [
      { ask: 'GET /tickets?id=t4,t5&count=true', ids: 't4', answers: { 'total-count': '1' } },
      { ask: 'GET /tickets?id=t4,t5&trash=true', ids: 't5' },
    ],
  },
  ...(
    [
      ['', 't6 t7'],
      ['&spam=true', 't4'],
      ['&trash=true', 't5'],
    ] as const
  ).map(
    ([query, ids]): DeskCase => ({
      rule: `${rule}default list`,
      what: `with neither spam nor trash: '${query}'`,
      options: { spamListed: false, trashListed: false },
      ask: `GET /tickets?id=t4,t5,t6,t7&sort=created_at${query}`,
      ids,
    }),
  ),
  ...(
    [
      [{ archivedListed: false }, 'id=t6,t7', 't6'],
      [{ snoozedListed: false }, 'id=t6,t7', 't7'],
      [{ archivedListed: false, snoozedListed: false }, 'type=sms,whatsapp', ''],
      [{ archivedListed: false, snoozedListed: false }, 'state=open,hold&id=t1,t2,t6,t7', 't2 t1'],
    ] as const
  ).map(
    ([options, query, ids]): DeskCase => ({
      rule: `${rule}default list`,
      what: `${query} with ${JSON.stringify(options)}`,
      options,
      ask: `GET /tickets?${query}`,
      ids,
    }),
  ),
  ...(['archive', 'wake'] as const).flatMap((kind): DeskCase[] =>
    [true, false].map(quiet => ({
      rule: `${rule}updated_at`,
      what: `${quiet ? 'stays' : 'moves'} with ${kind}${quiet ? ' that is quiet' : ', by the default of quietly'}`,
      options: { archiveHours: 1000, ...(quiet && { quietly: [kind] }) },
      steps: [
        {
          // t3 was closed at 8:00 on April 22nd, t6 sleeps until June 1st.
          ask: `GET /tickets/${kind === 'archive' ? 't3' : 't6'}`,
          later: 40 * 86_400,
          has: {
            state: kind === 'archive' ? 'archived' : 'open',
            updated_at: quiet ? matching(/^2024-04/) : matching(/^2024-06/),
          },
        },
      ],
    })),
  ),
  {
    rule: `${rule}archived`,
    what: 'never by itself, by the default of archiveHours',
    ask: 'GET /tickets/t3',
    later: 400 * 86_400,
    has: { state: 'closed' },
  },
  {
    rule: `${rule}reopening`,
    what: 'an archived one with archivedReopens',
    options: { archivedReopens: true },
    steps: [
      { ask: 'POST /tickets/t7/messages', body: inbound, status: 201 },
      { ask: 'GET /tickets/t7', has: { state: 'open' } },
    ],
  },
  ...(['ignored', 'exact'] as const).map(
    (emailCase): DeskCase => ({
      rule: 'help-desk 4 GET /customers contacts.value',
      what: `in other letters with emailCase ${emailCase}`,
      options: { emailCase },
      ask: 'GET /customers?contacts.type=email&contacts.value=Nina@Example.com',
      ids: emailCase === 'ignored' ? 'c1' : '',
    }),
  ),
  ...(['replaced', 'added'] as const).map(
    (patchedContacts): DeskCase => ({
      rule: 'help-desk 4 PATCH /customers/id',
      what: `of contacts with patchedContacts ${patchedContacts}; the same one keeps its id`,
      options: { patchedContacts },
      ask: 'PATCH /customers/c1',
      body: {
        contacts: [
          { type: 'twitter', value: 'nina_t' },
          { type: 'phone', value: '1' },
        ],
      },
      has: {
        contacts: [
          ...(patchedContacts === 'added' ? [{ id: 'k1' }] : []),
          { id: 'k2', type: 'twitter', value: 'nina_t' },
          { id: someText, type: 'phone', value: '1' },
        ],
      },
    }),
  ),
  {
    rule: `${rule}page cap`,
    what: 'cuts pages of all lists, and the next page continues behind it',
    options: { pageCap: 2 },
    steps: [
      { ask: 'GET /tickets?sort=created_at&per_page=100', ids: 't1 t2' },
      { ask: 'GET /tickets?sort=created_at&per_page=100&page=2', ids: 't3 t4' },
      { ask: 'GET /users?per_page=100', has: ofLength(2) },
      { ask: 'GET /users?per_page=100&page=2', has: ofLength(1) },
    ],
  },
  {
    rule: `${rule}beyond depth`,
    what: 'is empty with beyondDepth empty',
    options: { depth: 4, beyondDepth: 'empty' },
    ask: 'GET /tickets?per_page=2&page=3',
    is: [],
  },
  {
    rule: `${rule}beyond depth`,
    what: 'is a 422 by default, of customers too',
    options: { depth: 2 },
    ask: 'GET /customers?per_page=2&page=2',
    errors: ['since_created_at'],
  },
  ...([true, false] as const).map(
    (chargeErrors): DeskCase => ({
      rule: `${rule}charged errors`,
      what: `a 404 with chargeErrors ${chargeErrors}`,
      options: { credits: 10, chargeErrors },
      steps: [
        { ask: 'GET /tickets/none', status: 404, answers: { 'rate-limit-used': chargeErrors ? '1' : '0' } },
        { ask: 'GET /users', answers: { 'rate-limit-remaining': chargeErrors ? '8' : '9' } },
      ],
    }),
  ),
  {
    rule: `${rule}charged errors`,
    what: 'a 422 by default',
    options: { credits: 10 },
    ask: 'PATCH /tickets/t1',
    body: { state: 'gone' },
    errors: ['state'],
    answers: { 'rate-limit-used': '1', 'rate-limit-remaining': '9' },
  },
  {
    rule: `${rule}charged errors`,
    what: 'a 429 with chargeRefused true',
    options: { credits: 3, chargeRefused: true },
    steps: [
      { ask: 'GET /users', times: 2 },
      { ask: 'GET /tickets/t1?embed=user,labels', status: 429, answers: { 'rate-limit-remaining': '0' } },
    ],
  },
  {
    rule: `${rule}window`,
    what: 'fixed: all comes back at once',
    options: { credits: 2 },
    steps: [
      { ask: 'GET /users' },
      { ask: 'GET /users', later: 30 },
      { ask: 'GET /users', later: 30, answers: { 'rate-limit-remaining': '1' } },
    ],
  },
  {
    rule: `${rule}window`,
    what: 'sliding: each comes back a minute after its use',
    options: { credits: 2, window: 'sliding' },
    steps: [
      { ask: 'GET /users' },
      { ask: 'GET /users', later: 30 },
      { ask: 'GET /users', later: 30, answers: { 'rate-limit-remaining': '0' } },
      { ask: 'GET /users', later: 1, status: 429 },
    ],
  },
  {
    rule: `${rule}count cap`,
    what: 'of 5',
    options: { totalCountCap: 5 },
    ask: 'GET /tickets?count=true&per_page=1',
    answers: { 'total-count': '5' },
  },
  {
    rule: `${rule}count cap`,
    what: 'none by default',
    ask: 'GET /tickets?count=true',
    answers: { 'total-count': '12' },
  },
  {
    rule: 'help-desk 1 content type',
    what: 'PUT without body and type with emptyPut accepted',
    options: { emptyPut: 'accepted' },
    ask: 'PUT /tickets/t2/labels/l1',
    status: 204,
  },
  {
    rule: 'help-desk 3 spam or trash',
    what: 'the new one lifts the old one with spamAndTrash replaced',
    options: { spamAndTrash: 'replaced' },
    ask: 'PATCH /tickets/t5',
    body: { spam: true },
    has: { spam: true, trash: false },
  },
  {
    rule: 'help-desk 2 Attachment forgotten',
    what: 'never with attachmentHours 0',
    options: { attachmentHours: 0 },
    steps: [
      { ask: 'POST /attachments', body: upload, status: 201, keep: { id: 'id' } },
      { ask: 'GET /attachments/{id}', later: 31 * 86_400 },
    ],
  },
  {
    rule: 'help-desk 4 POST contacts',
    what: 'that another customer has is refused, by the default of contactsUnique',
    ask: 'POST /customers/c3/contacts',
    body: { type: 'email', value: 'nina@example.com' },
    status: 422,
  },
  {
    rule: 'help-desk 4 POST contacts',
    what: 'that another customer has with contactsUnique false',
    options: { contactsUnique: false },
    ask: 'POST /customers/c3/contacts',
    body: { type: 'email', value: 'nina@example.com' },
    status: 201,
  },
];
