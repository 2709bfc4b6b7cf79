/** Compares the database of Request Tracker with the mirror of it. */
import { compare } from '../compare.ts';

const live = `type = 'ticket' and status <> 'deleted' and ismerged is null`;

await compare('RT_DATABASE', {
  tickets: {
    theirs: `select id, subject, status, priority, queue, owner, creator,
        coalesce(due, '1970-01-01'), coalesce(resolved, '1970-01-01'), created, lastupdated
      from tickets where ${live}`,
    ours: `select id, subject, status, priority, queue_id, owner_id, creator_id, due::timestamp, resolved::timestamp, created::timestamp, last_updated::timestamp
      from rt.tickets where _deleted_at is null`,
  },
  transactions: {
    // The history of a ticket has what happened to those that were merged into it.
    theirs: `select t.id || '/' || x.id, x.type, coalesce(x.field, ''), coalesce(x.oldvalue, ''), coalesce(x.newvalue, ''), x.creator, x.created
      from tickets t join tickets m on m.effectiveid = t.id
        join transactions x on x.objecttype = 'RT::Ticket' and x.objectid = m.id
      where t.${live.replaceAll(' and ', ' and t.')}`,
    ours: `select ticket_id || '/' || id, type, coalesce(field, ''), coalesce(old_value, ''), coalesce(new_value, ''), creator_id, created::timestamp
      from rt.transactions where _deleted_at is null`,
  },
  users: {
    theirs: `select u.id, u.name, coalesce(u.realname, ''), coalesce(u.emailaddress, ''), p.disabled = 1, u.lastupdated
      from users u join principals p on p.id = u.id`,
    ours: `select id, login, coalesce(real_name, ''), coalesce(email_address, ''), disabled in ('1'), last_updated::timestamp
      from rt.users where _deleted_at is null`,
  },
});
