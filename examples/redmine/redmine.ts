/** Redmine 5: issues by their last change, the journal of each, and users. */
import {
  date,
  defineService,
  details,
  flag,
  fullRefresh,
  id,
  incremental,
  integer,
  number,
  object,
  objects,
  perSecond,
  record,
  text,
  time,
} from 'shelfdesk/source';

/** `{"id": 1, "name": "New"}`: its id is the key, because anybody may rename it. */
const named = (column: string, says: string) =>
  object({
    id: text(`Id of ${says}.`).plain({ column: `${column}_id` }),
    name: text(`Name of ${says}.`).plain({ column }),
  });
/** A person: the name is in redmine.users. */
const person = (column: string, says: string) => object({ id: text(says).plain({ column }) });

const issue = record('issues', 'Issues, one row for each.', {
  id: id(),
  project: named('project', 'the project'),
  tracker: named('tracker', 'the tracker'),
  status: named('status', 'the status'),
  priority: named('priority', 'the priority'),
  category: named('category', 'the category'),
  author: person('author_id', 'The user who wrote it.'),
  assigned_to: person('assigned_to_id', 'The user or group that it is assigned to.'),
  subject: text('Subject.').personal('text'),
  description: text('What it says.').personal('text', { apart: true }),
  start_date: date('Day of its beginning.'),
  due_date: date('Day on which it is due.'),
  done_ratio: integer('Per cent of it that is done.'),
  is_private: flag('Whether only some may see it.'),
  estimated_hours: number('Hours that it may take.'),
  custom_fields: objects({ id: text('Id of the field.').plain() }),
  created_on: time('When it was created.').always(),
  updated_on: time('When it was last changed.').always(),
  closed_on: time('When it was last closed.'),
});

const journal = record('journals', 'Changes of issues and notes on them, one row for each.', {
  id: id(),
  user: person('user_id', 'The user who made the change.'),
  notes: text('The note.').personal('text'),
  private_notes: flag('Whether only some may read the note.'),
  details: objects({ property: text('Kind of what was changed.').plain(), name: text('What was changed.').plain() }),
  created_on: time('When it was written.').always(),
});

const user = record('users', 'Users, one row for each.', {
  id: id(),
  login: text('Login.').personal('name'),
  firstname: text('First name.').personal('name'),
  lastname: text('Last name.').personal('name'),
  mail: text('E-mail address.').personal('contact'),
  admin: flag('Whether the user is an administrator.'),
  updated_on: time('When the user was last changed.').always(),
});

export const redmine = defineService({
  name: 'redmine',
  label: 'Redmine',
  says: 'Redmine: issues with their journals, and users.',
  keyHeader: 'X-Redmine-API-Key',
  limits: [perSecond(20)],
  paginator: { type: 'offset', offsetParam: 'offset', limitParam: 'limit', limit: 100, totalPath: 'total_count' },
  streams: [
    fullRefresh(user, '/users.json', { dataSelector: 'users', params: { status: '' }, updatedAt: 'updated_on' }),
    incremental(issue, '/issues.json', {
      dataSelector: 'issues',
      // Without the first parameter the list has no closed issues.
      params: { status_id: '*', sort: 'updated_on,id' },
      cursor: 'updated_on',
      startParam: 'updated_on',
      datetimeFormat: '>=%Y-%m-%dT%H:%M:%SZ',
      // `>=` begins a second earlier, for times that have parts of one.
      startSlackSeconds: 1,
      get: '/issues/:id.json',
      getSelector: 'issue',
    }),
    details(journal, '/issues/:id.json', {
      parent: 'issues',
      params: { include: 'journals' },
      paginator: { type: 'single_page' },
      dataSelector: 'issue.journals',
      // A note that is edited is no change of its issue.
      ageDays: 7,
    }),
  ],
});
