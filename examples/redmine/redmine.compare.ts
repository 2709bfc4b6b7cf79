/** Compares the database of Redmine with the mirror of it. */
import { compare } from '../compare.ts';

await compare('REDMINE_DATABASE', {
  issues: {
    theirs: `select i.id, i.project_id, i.tracker_id, s.name, i.priority_id, i.category_id, i.fixed_version_id, i.parent_id, i.author_id, i.assigned_to_id, i.subject, i.description,
        i.start_date, i.due_date, i.done_ratio, i.is_private, i.estimated_hours::numeric,
        date_trunc('second', i.created_on), date_trunc('second', i.updated_on), date_trunc('second', i.closed_on),
        (select string_agg(v.value, ',') from custom_values v where v.customized_type = 'Issue' and v.customized_id = i.id)
      from issues i join issue_statuses s on s.id = i.status_id`,
    ours: `select id, project_id, tracker_id, status, priority_id, category_id, version_id, parent_id, author_id, assigned_to_id, subject, description,
        start_date, due_date, done_ratio, is_private, estimated_hours,
        created_on::timestamp, updated_on::timestamp, closed_on::timestamp, _payload #>> '{custom_fields,0,value}'
      from redmine.issues where _deleted_at is null`,
  },
  journals: {
    // Redmine shows no change that has neither a note nor a changed field.
    theirs: `select j.journalized_id || '/' || j.id, j.user_id, coalesce(j.notes, ''), j.private_notes, date_trunc('second', j.created_on),
        (select count(*) from journal_details d where d.journal_id = j.id)
      from journals j where j.notes <> '' or exists (select from journal_details d where d.journal_id = j.id)`,
    ours: `select issue_id || '/' || id, user_id, coalesce(notes, ''), private_notes, created_on::timestamp, jsonb_array_length(_payload -> 'details')
      from redmine.journals where _deleted_at is null`,
  },
  users: {
    theirs: `select u.id, u.login, u.firstname, u.lastname, e.address, u.admin, date_trunc('second', u.created_on),
        date_trunc('second', u.last_login_on), date_trunc('second', u.passwd_changed_on), date_trunc('second', u.updated_on)
      from users u join email_addresses e on e.user_id = u.id and e.is_default where u.type = 'User'`,
    ours: `select id, login, firstname, lastname, mail, admin, created_on::timestamp,
        last_login_on::timestamp, passwd_changed_on::timestamp, updated_on::timestamp
      from redmine.users where _deleted_at is null`,
  },
});
