/** Request Tracker 5, by its REST 2: tickets by their last change, the transactions of each, and users. */
import {
  defineService,
  details,
  fullRefresh,
  id,
  incremental,
  known,
  object,
  oneOf,
  perSecond,
  record,
  text,
  time,
} from 'shelfdesk/source';

/** What each entry of a list has, whatever it is asked for. Kind and address are known, and no column. */
const entry = { type: known('text'), _url: known('text') };
/** What a ticket is of: `{"id": "1", "type": "queue", "_url": "…"}`. */
const of = (column: string, says: string) => object({ id: text(says).plain({ column }) });

const ticket = record('tickets', 'Tickets that are neither deleted nor merged into another one.', {
  id: id(),
  ...entry,
  Subject: text('Subject.').personal('text'),
  Status: oneOf(['new', 'open', 'stalled', 'resolved', 'rejected'], 'Where it stands: '),
  Priority: text('Priority, a number.').plain(),
  Queue: of('queue_id', 'The queue.'),
  Owner: of('owner_id', 'The user who owns it.'),
  Creator: of('creator_id', 'The user who created it.'),
  Due: time('When it is due; 1970: at no time.'),
  Resolved: time('When it was last resolved; 1970: never.'),
  Created: time('When it was created.').always(),
  LastUpdated: time('When it was last changed.').always(),
});

const transaction = record('transactions', 'What happened to tickets, one row for each event.', {
  id: id(),
  ...entry,
  Type: text('Kind of the event, such as Create, Comment, Correspond or Status.').plain(),
  Field: text('What was changed.').plain(),
  OldValue: text('The value before.').personal('text'),
  NewValue: text('The value after.').personal('text'),
  Creator: of('creator_id', 'The user who did it.'),
  Created: time('When it happened.').always(),
});

const user = record('users', 'Users, also those who are disabled.', {
  id: id(),
  ...entry,
  Name: text('Login; of somebody who wrote a mail, the address.').personal('contact', { column: 'login' }),
  RealName: text('Full name.').personal('name'),
  EmailAddress: text('E-mail address.').personal('contact'),
  Disabled: text('1: the user cannot log in.').plain(),
  LastUpdated: time('When the user was last changed.').always(),
});

/** The lists name ids alone, and of people their logins instead, unless they are asked for more. */
const fieldsOf = (of: { readonly fields: object }, inner: Readonly<Record<string, string>> = {}) => ({
  fields: Object.keys(of.fields)
    .filter(name => !(name in entry))
    .join(),
  ...inner,
});
const people = { 'fields[Owner]': 'id', 'fields[Creator]': 'id' };

export const requestTracker = defineService({
  name: 'rt',
  label: 'Request Tracker',
  says: 'Request Tracker: tickets with their transactions, and users.',
  dialect: { authorization: token => ({ authorization: `token ${token}` }) },
  limits: [perSecond(20)],
  paginator: { type: 'page_number', pageParam: 'page', limitParam: 'per_page', limit: 100, totalPath: 'total' },
  dataSelector: 'items',
  streams: [
    fullRefresh(user, '/users?orderby=id', {
      params: { query: '[]', find_disabled_rows: '1', ...fieldsOf(user) },
      updatedAt: 'LastUpdated',
    }),
    incremental(ticket, '/tickets?orderby=LastUpdated&order=ASC&orderby=id&order=ASC', {
      params: { query: 'id > 0', ...fieldsOf(ticket, people) },
      cursor: 'LastUpdated',
      startParam: 'query',
      datetimeFormat: "LastUpdated >= '%Y-%m-%d %H:%M:%S'",
    }),
    details(transaction, '/ticket/:id/history', {
      parent: 'tickets',
      params: fieldsOf(transaction, people),
      ageDays: 7,
    }),
  ],
});
