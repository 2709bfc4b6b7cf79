/** Section 4 of the help desk: PATCH of a ticket, and its labels. */
import type { DeskCase } from './case.ts';
import { T1 } from './worlds.ts';

const patch = 'help-desk 4 PATCH /tickets/id';
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
