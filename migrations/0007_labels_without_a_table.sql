-- Up Migration

-- Labels of tickets are the arrays of the tickets. helpdesk.ticket_labels becomes a view of them.

-- A view that others built on the table reads the view from now on.
create temp table views_of_others on commit drop as
select distinct c.oid::regclass::text as name, pg_get_viewdef(c.oid) as text, array_to_string(c.reloptions, ', ') as options, c.relkind
from pg_depend d
join pg_rewrite w on w.oid = d.objid and d.classid = 'pg_rewrite'::regclass
join pg_class c on c.oid = w.ev_class
where d.refclassid = 'pg_class'::regclass and d.refobjid = 'helpdesk.ticket_labels'::regclass
  and c.relnamespace::regnamespace::text not in ('sync', 'helpdesk', 'books', 'analytics', 'internal', 'safe');
do $$
declare
  one record;
begin
  for one in select v.name from views_of_others v where v.relkind = 'm' loop
    raise exception 'the materialized view % reads helpdesk.ticket_labels, which becomes a view', one.name
      using hint = 'Drop it, run `npx shelfdesk migrate` again, and create it anew.';
  end loop;
end
$$;

alter table helpdesk.ticket_labels rename to ticket_labels_stored;

create or replace view helpdesk.ticket_labels with (security_barrier) as
select t.account_id, t.id as ticket_id, l.label_id
from helpdesk.tickets t
cross join lateral (select distinct u.label_id from unnest(t.label_ids) u (label_id) where u.label_id is not null) l
where t._deleted_at is null and t.account_id = any (array(select r.account_id from sync.mirror_accounts r));
comment on view helpdesk.ticket_labels is
  'Labels of tickets: tickets.label_ids as one row per label. Deleted tickets have none.';
comment on column helpdesk.ticket_labels.ticket_id is 'Joins helpdesk.tickets.id.';
comment on column helpdesk.ticket_labels.label_id is 'Joins helpdesk.labels.id.';

-- The owner of the table owns the view, whoever migrates.
do $$
begin
  execute format('alter view helpdesk.ticket_labels owner to %I', (select pg_get_userbyid(c.relowner) from pg_class c where c.oid = 'helpdesk.ticket_labels_stored'::regclass));
end
$$;

-- Roles that could read the table can read the view, which filters by account itself.
do $$
declare
  one record;
begin
  for one in
    select distinct case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as name
    from pg_class c cross join aclexplode(c.relacl) a
    where c.oid = 'helpdesk.ticket_labels_stored'::regclass and a.privilege_type = 'SELECT' and a.grantee <> c.relowner
  loop
    execute format('grant select on helpdesk.ticket_labels to %s', one.name);
  end loop;
end
$$;

create or replace view safe.ticket_labels with (security_barrier) as
select t.account_id, t.ticket_id, t.label_id
from helpdesk.ticket_labels t
where t.account_id = any (array(select account_id from sync.readable_accounts));

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
      and not exists (select from internal.messages m where m.account_id = a.account_id and m.id = f.message_id)),
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
    (select count(*) from helpdesk.ticket_labels l where l.account_id = a.account_id
      and not exists (select from helpdesk.labels n where n.account_id = a.account_id and n.id = l.label_id)),
    'Labels are written with the first ticket that mentions them: there should be none.'),
  ('tickets whose history tells otherwise',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t._deleted_at is null
      and not exists (
        select from helpdesk.ticket_history h
        where h.account_id = a.account_id and h.ticket_id = t.id and h.valid_to is null
          and (h.state, h.user_id, h.inbox_id, h.spam, h.trash) is not distinct from (t.state, t.user_id, t.inbox_id, t.spam, t.trash)
          and sync.same_set(h.label_ids, t.label_ids))),
    'The open row of its history is what the ticket is now: there should be none.'),
  ('history of tickets that are not here',
    (select count(*) from internal.ticket_history h where h.account_id = a.account_id
      and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and t.id = h.ticket_id)),
    'History goes with the row of its ticket: there should be none.'),
  ('history that overlaps',
    (select count(*) from (
      select h.valid_from < lag(coalesce(h.valid_to, 'infinity')) over (partition by h.ticket_id order by h.valid_from) as overlaps
      from helpdesk.ticket_history h where h.account_id = a.account_id) o
     where o.overlaps),
    'A ticket is one thing at a time: there should be none.'),
  ('tickets without metrics',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id
      and not exists (select from internal.stored_ticket_metrics s where s.account_id = a.account_id and s.ticket_id = t.id)
      and (exists (select from internal.messages m where m.account_id = a.account_id and m.ticket_id = t.id)
        or exists (select from internal.ticket_history h where h.account_id = a.account_id and h.ticket_id = t.id))),
    'Metrics are written with the messages and the changes of a ticket: there should be none. If there are, call analytics.recompute.'),
  ('business times that are not worked out anew',
    (select count(*) from internal.stored_recomputes q where q.account_id = a.account_id),
    'A calendar has changed, and analytics.recompute has not gone through since: business times of some tickets are those of before. Call it, or run npx shelfdesk calendar set again.'),
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

create or replace view analytics.fact_ticket_labels with (security_barrier) as
select l.account_id || '/' || l.ticket_id || '/' || l.label_id as ticket_label_key,
  l.account_id || '/' || l.ticket_id as ticket_key, l.account_id || '/' || l.label_id as label_key, l.account_id as account_key
from helpdesk.ticket_labels l
where l.account_id = any (array(select account_id from sync.readable_accounts));

do $$
declare
  one record;
begin
  for one in select v.* from views_of_others v loop
    execute format('create or replace view %s %s as %s', one.name, 'with (' || one.options || ')', one.text);
  end loop;
end
$$;
drop table views_of_others;
drop table helpdesk.ticket_labels_stored;
-- Only the search for a ticket of a due name used it. That search reads the labels of all tickets anyway.
drop index if exists helpdesk.tickets_inbox;

select sync.settle_comments();
select sync.settle_roles();
