/** Section 1 of the help desk: content types, methods, and X-HTTP-Method-Override. */
import { type DeskCase, NO_SUCH_METHOD } from './case.ts';
import { CUSTOMERS, T1 } from './worlds.ts';

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

export const verbs: DeskCase[] = [
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
    what: 'a verb that is not offered is named as it is meant',
    ask: 'POST /users',
    headers: override('delete'),
    status: NO_SUCH_METHOD,
    has: { message: 'DELETE is not offered at /users' },
  },
  ...['', 'FOO', 'POST'].map(
    (verb): DeskCase => ({
      rule: `${rule}method override`,
      what: `'${verb}' leaves a POST a POST`,
      ask: 'POST /customers',
      headers: override(verb),
      body: {},
      status: 201,
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
];
