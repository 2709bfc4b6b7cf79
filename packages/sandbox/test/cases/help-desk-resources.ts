/** Sections 2 and 3 of the help desk: every field of every resource, and the states of a ticket. */
import { anyOrderOf, type DeskCase, notBefore, someInteger, someText, someTime } from './case.ts';
import { CUSTOMERS, LABELS, MESSAGES, T1, USERS } from './worlds.ts';

const rule = 'help-desk 2 ';

/** One case for each field of something, with nothing but that field in the reply. */
function eachField(name: string, path: string, record: object): DeskCase[] {
  return Object.entries(record).map(([field, value]) => ({
    rule: `${rule}${name}.${field}`,
    what: 'as it was written',
    ask: `GET ${path}?fields=${field}`,
    is: { [field]: value },
  }));
}

/** One case for each field of a message of t1, of those that came `from` there on. */
function ofMessages(name: string, fields: readonly string[]): DeskCase[] {
  return fields.map(field => ({
    rule: `${rule}${name}.${field}`,
    what: 'of each message that has it',
    ask: 'GET /tickets/t1?embed=messages',
    has: { messages: MESSAGES.map(message => (field in message ? { [field]: message[field as 'id'] } : {})) },
  }));
}

const note = { type: 'note', user_id: 'u1', body: 'N', htmlized: false };
const upload = { name: 'a.txt', type: 'text/plain', data: 'YWJj' };
const newTicket = { type: 'email', subject: 'S', customer_id: 'c1' };
const TYPES_OF_TICKETS = ['email', 'phone', 'chat', 'twitter', 'web', 'whatsapp', 'sms', 'twitter_dm'];

export const resources: DeskCase[] = [
  { rule: `${rule}Ticket.id`, what: 'and all fields, no others', ask: 'GET /tickets/t1', is: T1 },
  ...eachField('Ticket', '/tickets/t1', T1),
  {
    rule: `${rule}Ticket.number`,
    what: 'is another one for every new ticket',
    steps: [
      { ask: 'POST /tickets', body: newTicket, status: 201, has: { number: someInteger }, keep: { first: 'number' } },
      { ask: 'POST /tickets', body: newTicket, status: 201, has: { number: notBefore(2) }, keep: { second: 'number' } },
      { ask: 'GET /tickets?per_page=2&fields=number', is: [{ number: '{second}' }, { number: '{first}' }] },
    ],
  },
  {
    rule: `${rule}Ticket.user_id`,
    what: 'of nobody is null',
    ask: 'GET /tickets/t2?fields=user_id',
    is: { user_id: null },
  },
  {
    rule: `${rule}Ticket.label_ids`,
    what: 'of none is []',
    ask: 'GET /tickets/t2?fields=label_ids',
    is: { label_ids: [] },
  },
  ...(
    [
      ['t1', 'open'],
      ['t2', 'hold'],
      ['t3', 'closed'],
      ['t6', 'snoozed'],
      ['t7', 'archived'],
    ] as const
  ).map(
    ([id, state]): DeskCase => ({
      rule: `${rule}Ticket.state`,
      what: `can be ${state}`,
      ask: `GET /tickets/${id}?fields=state`,
      is: { state },
    }),
  ),
  {
    rule: `${rule}Ticket.snoozed_until`,
    what: 'of a snoozed ticket is a time',
    ask: 'GET /tickets/t6?fields=snoozed_until',
    is: { snoozed_until: '2024-06-01T00:00:00Z' },
  },
  { rule: `${rule}Ticket.subject`, what: 'can be null', ask: 'GET /tickets/t11?fields=subject', is: { subject: null } },
  { rule: `${rule}Ticket.subject`, what: 'can be empty', ask: 'GET /tickets/t12?fields=subject', is: { subject: '' } },
  ...TYPES_OF_TICKETS.map(
    (type, i): DeskCase => ({
      rule: `${rule}Ticket.type`,
      what: `can be ${type}`,
      ask: `GET /tickets/t${i + 1}?fields=type`,
      is: { type },
    }),
  ),
  {
    rule: `${rule}Ticket.type`,
    what: 'and the last three of eleven',
    ask: 'GET /tickets?id=t9,t10,t11&fields=type',
    is: [{ type: 'call' }, { type: 'instagram_dm' }, { type: 'fb_messenger' }],
  },
  { rule: `${rule}Ticket.spam`, what: 'can be true', ask: 'GET /tickets/t4', has: { spam: true, trash: false } },
  { rule: `${rule}Ticket.trash`, what: 'can be true', ask: 'GET /tickets/t5', has: { spam: false, trash: true } },
  { rule: `${rule}Ticket.summary`, what: 'can be null', ask: 'GET /tickets/t2?fields=summary', is: { summary: null } },
  {
    rule: `${rule}Ticket.summary`,
    what: 'is in lists as well',
    ask: 'GET /tickets?id=t1&fields=summary',
    is: [{ summary: T1.summary }],
  },
  {
    rule: `${rule}Ticket with group`,
    what: 'is accepted, and costs what a type costs',
    ask: 'GET /tickets/t1?embed=group',
    has: T1,
    answers: { 'rate-limit-used': '2' },
  },
  {
    rule: `${rule}Ticket with customer`,
    what: 'without contacts',
    ask: 'GET /tickets/t11?embed=customer',
    has: { customer: CUSTOMERS[2] },
  },

  ...ofMessages('Message', ['id', 'from_name', 'body', 'htmlized', 'attachments', 'user_id', 'type', 'created_at']),
  ...ofMessages('Reply', ['direction', 'from', 'to', 'more_body']),

  ...eachField('Attachment', '/attachments/a1', MESSAGES[1]!.attachments[0]!),
  {
    rule: `${rule}Attachment first`,
    what: 'uploaded, then named by a message',
    steps: [
      { ask: 'POST /attachments', body: upload, status: 201, keep: { id: 'id' } },
      {
        ask: 'POST /tickets/t1/messages',
        body: { ...note, attachment_ids: ['{id}'] },
        status: 201,
        has: { attachments: [{ id: '{id}', name: 'a.txt', type: 'text/plain', size: 3 }] },
      },
      { ask: 'GET /attachments/{id}', has: { id: '{id}' } },
    ],
  },
  {
    rule: `${rule}Attachment first`,
    what: 'cannot be named before',
    ask: 'POST /tickets/t1/messages',
    body: { ...note, attachment_ids: ['none'] },
    errors: ['attachment'],
  },
  {
    rule: `${rule}Attachment once`,
    what: 'not in a second message',
    steps: [
      { ask: 'POST /attachments', body: upload, status: 201, keep: { id: 'id' } },
      { ask: 'POST /tickets/t1/messages', body: { ...note, attachment_ids: ['{id}'] }, status: 201 },
      { ask: 'POST /tickets/t2/messages', body: { ...note, attachment_ids: ['{id}'] }, errors: ['attachment'] },
      { ask: 'GET /tickets/t2?embed=messages', has: { messages: [] } },
    ],
  },
  {
    rule: `${rule}Attachment once`,
    what: 'not one that a message has had for long',
    ask: 'POST /tickets/t2/messages',
    body: { ...note, attachment_ids: ['a1'] },
    errors: ['attachment'],
  },
  {
    rule: `${rule}Attachment once`,
    what: 'not in two messages of one new ticket',
    steps: [
      { ask: 'POST /attachments', body: upload, status: 201, keep: { id: 'id' } },
      {
        ask: 'POST /tickets',
        body: { ...newTicket, messages: [1, 2].map(() => ({ ...note, attachment_ids: ['{id}'] })) },
        errors: ['attachment'],
      },
      { ask: 'POST /tickets/t1/messages', body: { ...note, attachment_ids: ['{id}'] }, status: 201 },
    ],
  },
  {
    rule: `${rule}Attachment forgotten`,
    what: 'is there at first, and gone after a month that no message named it',
    steps: [
      { ask: 'POST /attachments', body: upload, status: 201, keep: { id: 'id' } },
      { ask: 'GET /attachments/{id}', has: { id: '{id}' } },
      { ask: 'GET /attachments/{id}', later: 31 * 86_400, status: 404 },
    ],
  },
  {
    rule: `${rule}Attachment forgotten`,
    what: 'cannot be named by a message any more',
    steps: [
      { ask: 'POST /attachments', body: upload, status: 201, keep: { id: 'id' } },
      {
        ask: 'POST /tickets/t1/messages',
        later: 31 * 86_400,
        body: { ...note, attachment_ids: ['{id}'] },
        errors: ['attachment'],
      },
    ],
  },
  {
    rule: `${rule}Attachment forgotten`,
    what: 'not one that a message names',
    steps: [
      { ask: 'POST /attachments', body: upload, status: 201, keep: { id: 'id' } },
      { ask: 'POST /tickets/t1/messages', body: { ...note, attachment_ids: ['{id}'] }, status: 201 },
      { ask: 'GET /attachments/{id}', later: 31 * 86_400, has: { id: '{id}' } },
      { ask: 'GET /attachments/a1' },
    ],
  },

  ...(['id', 'first_name', 'last_name', 'email'] as const).map(
    (field): DeskCase => ({
      rule: `${rule}User.${field}`,
      what: 'of each user',
      ask: `GET /users?fields=${field}`,
      is: anyOrderOf(USERS.map(user => ({ [field]: user[field] }))),
    }),
  ),
  ...eachField('Customer', '/customers/c1', CUSTOMERS[0]!),
  {
    rule: `${rule}Customer.summary`,
    what: 'can be null',
    ask: 'GET /customers/c2?fields=summary',
    is: { summary: null },
  },
  {
    rule: `${rule}Customer.first_name`,
    what: 'can be null',
    ask: 'GET /customers/c3?fields=first_name',
    is: { first_name: null },
  },
  {
    rule: `${rule}Customer.last_name`,
    what: 'can be empty',
    ask: 'GET /customers/c2?fields=last_name',
    is: { last_name: '' },
  },
  {
    rule: `${rule}Customer.contacts`,
    what: 'can be []',
    ask: 'GET /customers/c3?fields=contacts',
    is: { contacts: [] },
  },
  {
    rule: `${rule}Customer.contacts`,
    what: 'are in lists as well',
    ask: 'GET /customers?fields=contacts',
    is: [{ contacts: [] }, { contacts: CUSTOMERS[1]!.contacts }, { contacts: CUSTOMERS[0]!.contacts }],
  },
  {
    rule: `${rule}Contact.id`,
    what: 'beside type and value',
    ask: 'GET /customers/c1',
    has: { contacts: CUSTOMERS[0]!.contacts },
  },
  ...(
    [
      ['email', 'new@example.com'],
      ['twitter', 'new_one'],
      ['phone', '+49 30 654321'],
    ] as const
  ).flatMap(([type, value]): DeskCase[] =>
    [`${rule}Contact.type`, `${rule}Contact.value`].map(name => ({
      rule: name,
      what: `of ${type}`,
      ask: 'POST /customers/c3/contacts',
      body: { type, value },
      status: 201,
      is: { id: someText, type, value },
    })),
  ),
  {
    rule: `${rule}inbox`,
    what: 'embedded',
    ask: 'GET /tickets/t2?embed=inbox',
    has: { inbox: { id: 'i2', name: 'Sales' } },
  },
  {
    rule: `${rule}label`,
    what: 'embedded',
    ask: 'GET /tickets/t3?embed=labels&fields=labels',
    is: { labels: [LABELS[1]] },
  },
];

const three = 'help-desk 3 ';
const both = { spam: true, trash: true };

export const states: DeskCase[] = [
  {
    rule: `${three}born open`,
    what: 'and read again at its Location',
    steps: [
      {
        ask: 'POST /tickets',
        body: newTicket,
        status: 201,
        has: { state: 'open' },
        keep: { at: 'location', id: 'id' },
      },
      { ask: 'GET {at}', has: { id: '{id}', state: 'open' } },
    ],
  },
  {
    rule: `${three}born open`,
    what: 'even where another state is sent',
    ask: 'POST /tickets',
    body: { ...newTicket, state: 'closed' },
    status: 201,
    has: { state: 'open' },
  },
  ...['t1', 't2', 't3', 't6', 't7'].flatMap(id =>
    ['open', 'hold', 'closed'].map(
      (state): DeskCase => ({
        rule: `${three}set by PATCH`,
        what: `of ${id} to ${state}`,
        steps: [
          { ask: `PATCH /tickets/${id}`, body: { state }, has: { state } },
          { ask: `GET /tickets/${id}`, has: { state, updated_at: someTime } },
        ],
      }),
    ),
  ),
  {
    rule: `${three}set by PATCH`,
    what: 'ends a snooze',
    ask: 'PATCH /tickets/t6',
    body: { state: 'open' },
    has: { state: 'open', snoozed_until: null },
  },
  {
    rule: `${three}set by PATCH`,
    what: 'of something else leaves a snooze alone',
    ask: 'PATCH /tickets/t6',
    body: { subject: 'S', user_id: 'u1' },
    has: { state: 'snoozed', snoozed_until: '2024-06-01T00:00:00Z' },
  },
  ...['snoozed', 'archived'].map(
    (state): DeskCase => ({
      rule: `${three}set by PATCH`,
      what: `not to ${state}`,
      ask: 'PATCH /tickets/t1',
      body: { state },
      errors: ['state'],
    }),
  ),
  {
    rule: `${three}spam or trash`,
    what: 'not both in one PATCH',
    steps: [
      { ask: 'PATCH /tickets/t1', body: both, status: 422 },
      { ask: 'GET /tickets/t1', has: { spam: false, trash: false } },
    ],
  },
  {
    rule: `${three}spam or trash`,
    what: 'no spam where trash is',
    ask: 'PATCH /tickets/t5',
    body: { spam: true },
    status: 422,
  },
  {
    rule: `${three}spam or trash`,
    what: 'no trash where spam is',
    ask: 'PATCH /tickets/t4',
    body: { trash: true },
    status: 422,
  },
  {
    rule: `${three}spam or trash`,
    what: 'one for the other in one PATCH',
    ask: 'PATCH /tickets/t5',
    body: { spam: true, trash: false },
    has: { spam: true, trash: false },
  },
];
