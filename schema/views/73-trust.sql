-- Completeness for reports, and integrity checks.

create or replace function internal.stream_standing()
returns table (account_id text, stream text, complete_through timestamptz, gaps bigint, waiting bigint, open_rejects bigint,
  deletes_checked_at timestamptz, state text, source text, complete_from timestamptz, unchecked_since timestamptz)
language sql stable security definer parallel safe
set search_path = pg_catalog, pg_temp
as $$
  select s.account_id, s.stream, s.complete_through, s.gaps, s.waiting, s.open_rejects, s.deletes_checked_at, s.state, s.source, s.complete_from,
    s.unchecked_since
  from (select case current_setting('role') when 'none' then session_user else current_setting('role')::name end as name) asks
  cross join sync.status s
  where has_table_privilege(asks.name, 'sync.readers', 'select') or exists (
    select from sync.readers r
    where r.role_name = asks.name and (r.accounts is null or s.account_id = any (r.accounts)))
$$;
comment on function internal.stream_standing is 'Rows of analytics.completeness, with the rights of the owner.';

create or replace view analytics.completeness with (security_barrier) as
select c.account_id, c.stream, c.complete_through, c.gaps, c.waiting, c.open_rejects, c.deletes_checked_at, c.state,
  c.source, c.complete_from, c.unchecked_since
from internal.stream_standing() c
where c.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.completeness is
  'Completeness of each stream of each account, for reports. An extract of sync.status.';
comment on column analytics.completeness.account_id is 'The operator''s name for the mirrored account.';
comment on column analytics.completeness.complete_through is
  'The table has each change before this time, except for its open rejects; null if it was never read.';
comment on column analytics.completeness.complete_from is
  'Records last changed before this time may be missing: the mirror starts here. Null: complete from the beginning.';
comment on column analytics.completeness.unchecked_since is
  'Edits and deletions that the source does not announce would have been found if they had happened before this time; null if not all of the stream was read again yet.';
comment on column analytics.completeness.gaps is 'Number of unread ranges below the high-water mark; see sync.gaps.';
comment on column analytics.completeness.waiting is
  'Tickets with pending messages; volumes with a pending fetch by id.';
comment on column analytics.completeness.open_rejects is
  'Number of records that could not be stored; see sync.rejects.';
comment on column analytics.completeness.deletes_checked_at is
  'None of the rows shown here had been deleted at the source before this time; null if unknown, such as before the first whole sweep. Messages and volumes: as of their tickets and shelves. Users: as of the last full read that showed every user here.';
comment on column analytics.completeness.state is
  'fresh; catching_up (within its target, but history or details are pending, the first load is running, or the daily quota is used up); stale (behind its target); failing (the last finished run failed); never_synced; paused (by a person, or because the stream that it depends on is paused).';

create or replace view analytics.integrity with (security_barrier) as
select c.check_name, a.account_id, c.found, c.means
from sync.readable_accounts a
cross join lateral (values
  ('messages without their ticket',
    (select count(*) from internal.messages m where m.account_id = a.account_id
      and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and t.id = m.ticket_id)),
    'Messages come with their ticket: there should be none.'),
  ('attachments without their message',
    (select count(*) from helpdesk.attachments f where f.account_id = a.account_id
      -- One look-up each: messages are many times as many.
      and not exists (select from internal.messages m where m.account_id = a.account_id and m.id = f.message_id offset 0)),
    'Attachments come with their message: there should be none.'),
  ('tickets without their customer',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t.customer_id is not null
      and not exists (select from helpdesk.customers c where c.account_id = a.account_id and c.id = t.customer_id)),
    'The customer has not been read yet, or the source had already deleted it.'),
  ('contacts without their customer',
    (select count(*) from helpdesk.contacts k where k.account_id = a.account_id
      and not exists (select from helpdesk.customers c where c.account_id = a.account_id and c.id = k.customer_id)),
    'Contacts come with their customer: there should be none.'),
  ('tickets of a user who is not here',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t.user_id is not null
      and not exists (select from helpdesk.users u where u.account_id = a.account_id and u.id = t.user_id)),
    'The list of users does not show who has left before the mirror began, or they have not been read yet.'),
  ('messages of a user who is not here',
    (select count(*) from internal.messages m where m.account_id = a.account_id and m.user_id is not null
      and not exists (select from helpdesk.users u where u.account_id = a.account_id and u.id = m.user_id)),
    'The list of users does not show who has left before the mirror began, or they have not been read yet.'),
  ('tickets of an inbox that is not here',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t.inbox_id is not null
      and not exists (select from helpdesk.inboxes i where i.account_id = a.account_id and i.id = t.inbox_id)),
    'Inboxes are written with the first ticket that mentions them: there should be none.'),
  ('labels of tickets without the label',
    (select count(distinct (t.id, l.label_id)) from helpdesk.tickets t
     cross join lateral unnest(t.label_ids) l (label_id)
     where t.account_id = a.account_id and t._deleted_at is null
       and not t.label_ids <@ array(select n.id from helpdesk.labels n where n.account_id = a.account_id)
       and l.label_id is not null
       and not exists (select from helpdesk.labels n where n.account_id = a.account_id and n.id = l.label_id)),
    'Labels are written with the first ticket that mentions them: there should be none.'),
  ('tickets whose history tells otherwise',
    -- A ticket without stored history has the history that its row tells.
    (select count(*) from internal.ticket_history h
     join helpdesk.tickets t on t.account_id = h.account_id and t.id = h.ticket_id
     where h.account_id = a.account_id and h.valid_to is null and t._deleted_at is null
       and not ((h.state, h.user_id, h.inbox_id, h.spam, h.trash) is not distinct from (t.state, t.user_id, t.inbox_id, t.spam, t.trash)
         and sync.same_set(h.label_ids, t.label_ids)))
    + (select count(distinct h.ticket_id) from internal.ticket_history h
       join helpdesk.tickets t on t.account_id = h.account_id and t.id = h.ticket_id
       where h.account_id = a.account_id and t._deleted_at is null and not exists (
         select from internal.ticket_history o where o.account_id = a.account_id and o.ticket_id = h.ticket_id and o.valid_to is null)),
    'The open row of its history is what the ticket is now: there should be none.'),
  ('history of tickets that are not here',
    (select count(*) from internal.ticket_history h where h.account_id = a.account_id
      and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and t.id = h.ticket_id)),
    'History goes with the row of its ticket: there should be none.'),
  ('history that overlaps',
    -- A constraint excludes it among rows that have ended.
    (select count(*) from internal.ticket_history o
     join internal.ticket_history h on h.account_id = o.account_id and h.ticket_id = o.ticket_id
     where o.account_id = a.account_id and o.valid_to is null and (h.valid_to > o.valid_from or h.valid_from > o.valid_from)),
    'A ticket is one thing at a time: there should be none.'),
  ('tickets without metrics',
    (select count(*) from (
      select t.id from helpdesk.tickets t where t.account_id = a.account_id
        and not exists (select from internal.stored_ticket_metrics s where s.account_id = a.account_id and s.ticket_id = t.id)
      offset 0) t
     where exists (select from internal.messages m where m.account_id = a.account_id and m.ticket_id = t.id)
       or exists (select from internal.ticket_history h where h.account_id = a.account_id and h.ticket_id = t.id)),
    'Metrics are written with the messages and the changes of a ticket: there should be none. If there are, call analytics.recompute.'),
  ('business times that are not worked out anew',
    (select count(*) from internal.stored_recomputes q where q.account_id = a.account_id),
    'A calendar has changed, and analytics.recompute has not gone through since: business times of some tickets are those of before. Call it, or run npx shelfdesk warehouse calendar set again.'),
  ('metrics of tickets that are not here',
    (select count(*) from internal.stored_ticket_metrics s where s.account_id = a.account_id
      and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and t.id = s.ticket_id)),
    'Metrics go with the row of their ticket: there should be none.'),
  ('tickets whose messages are not complete',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t._deleted_at is null
      and (t._messages_as_of is null or t._messages_as_of < t.updated_at or exists (
        select from sync.rejects r
        where r.account_id = a.account_id and r.stream_key in ('helpdesk.tickets', 'helpdesk.messages') and r.ask_id = t.id and r.cleared_at is null))),
    'Their messages are pending, or a part of them was rejected: ticket_metrics.messages_complete is false.'),
  ('volumes on a shelf that are not here',
    (select count(*) from books.shelf_volumes v where v.account_id = a.account_id
      and not exists (select from books.volumes b where b.account_id = a.account_id and b.id = v.volume_id)),
    'Volumes are written with their shelf: there should be none.'),
  ('volumes on a shelf that is not here',
    (select count(*) from books.shelf_volumes v where v.account_id = a.account_id
      and not exists (select from books.shelves s where s.account_id = a.account_id and s.owner_id = v.owner_id and s.id = v.shelf_id)),
    'A shelf is written before what is on it: there should be none.')
) c (check_name, found, means);
comment on view analytics.integrity is
  'Integrity checks: each counts inconsistent rows per account. The view reads all tables.';
comment on column analytics.integrity.check_name is 'Name of the check.';
comment on column analytics.integrity.account_id is 'The operator''s name for the mirrored account.';
comment on column analytics.integrity.found is 'Number of findings.';
comment on column analytics.integrity.means is 'Meaning of the check, and whether findings are allowed.';
