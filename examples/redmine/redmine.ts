/** Redmine 5: issues by their last change, the journal of each, and users. */
// biome-ignore format: a line for each name would be a fifth of the file
import {
  date, defineService, details, flag, fullRefresh, id, incremental, integer, known, number, object, objects, perSecond,
  record, text, time,
} from 'shelfdesk/source';

/** `{"id": 1, "name": "New"}`: its id is the key, because anybody may rename it. */
const named = (column: string, says: string) =>
  object({
    id: text(`Id of ${says}.`).plain({ column: `${column}_id` }),
    name: text(`Name of ${says}.`).plain({ column }),
  });
/** Of a person the name is in redmine.users. */
const idOf = (column: string, says: string) => object({ id: text(says).plain({ column }) });

const issue = record('issues', 'Issues, one row for each.', {
  id: id(),
  project: named('project', 'the project'),
  tracker: named('tracker', 'the tracker'),
  status: named('status', 'the status'),
  priority: named('priority', 'the priority'),
  category: named('category', 'the category'),
  fixed_version: named('version', 'the version that it is for'),
  parent: idOf('parent_id', 'The issue that it is a part of.'),
  author: idOf('author_id', 'The user who wrote it.'),
  assigned_to: idOf('assigned_to_id', 'The user or group that it is assigned to.'),
  subject: text('Subject.').personal('text'),
  description: text('What it says.').personal('text', { apart: true }),
  start_date: date('Day of its beginning.'),
  due_date: date('Day on which it is due.'),
  done_ratio: integer('Per cent of it that is done.'),
  is_private: flag('Whether only some may see it.'),
  estimated_hours: number('Hours that it may take.'),
  total_estimated_hours: number('Hours that it may take with its parts.'),
  // No list tells that somebody logs time: nothing is compared with them, and they are in no column.
  spent_hours: known('numeric', { varies: true }),
  total_spent_hours: known('numeric', { varies: true }),
  custom_fields: objects({ id: text('Id of the field.').plain() }),
  created_on: time('When it was created.').always(),
  updated_on: time('When it was last changed.').always(),
  closed_on: time('When it was last closed.'),
});

const journal = record('journals', 'Changes of issues and notes on them, one row for each.', {
  id: id(),
  user: idOf('user_id', 'The user who made the change.'),
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
  created_on: time('When the user was created.'),
  last_login_on: time('When the user last logged in.'),
  passwd_changed_on: time('When the password was last changed.'),
  twofa_scheme: known('text'),
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
