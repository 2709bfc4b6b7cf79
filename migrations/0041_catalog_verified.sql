-- Up Migration

-- The catalog is verified and audited as well.

comment on table sync.audit is
  'Records that an audit or `verify --sample` read again and compared, one row each time; of `verify --full` only those that differ.';
comment on column sync.audit.stream is
  'tickets (with their labels), customers (with their contacts), users, labels and inboxes; messages: all messages and attachments of one ticket; shelves, with what stands on them (shelf_volumes); volumes.';
comment on column sync.audit.record_id is 'The record at the source; of messages, their ticket; of shelves, owner/shelf.';
comment on column sync.certainty.stream is
  'tickets, customers, or messages: then a record is a ticket whose messages are complete, with all of them and their attachments; shelves, with what stands on them; volumes that stand on a shelf.';
comment on column sync.verifications.sample is
  'So many tickets, customers, shelves and volumes, chosen at random; null: everything.';
comment on column sync.verifications.credits is 'The credits that it was expected to take; of the catalog, requests.';

create or replace view sync.proposals as
select k.account_id, k.stream, k.kind, k.times, k.last_at, r.setting, r.remedy
from (
  select a.account_id, a.stream, one.kind, count(*) as times, max(a.checked_at) as last_at
  from sync.audit a, unnest(string_to_array(a.kind, '; ')) one (kind)
  where a.checked_at > now() - interval '30 days' and a.kind is not null
  group by a.account_id, a.stream, one.kind
  having count(distinct a.run_id) >= 2) k
cross join lateral (
  select case
      when k.kind in ('changed here', 'only here') then null
      when k.kind in ('a change was missed', 'missing here') then null
      when k.stream in ('labels', 'inboxes') then null
      when k.stream = 'messages' then 'MESSAGES_AGE_DAYS'
      when k.stream = 'users' then 'SCHEDULE_NIGHTLY'
      when k.stream = 'shelves' then 'BOOKS_SHELF_AGE_HOURS'
      when k.stream = 'volumes' then 'BOOKS_VOLUME_AGE_DAYS'
      else 'SWEEP_AGE_DAYS' end as setting,
    case
      when k.kind in ('changed here', 'only here') then 'Somebody else writes to these tables: let nobody but the worker do so.'
      when k.kind in ('a change was missed', 'missing here') then 'Read the range again: backfill --again. If it happens anew, please report it.'
      when k.stream in ('labels', 'inboxes') then 'Nothing to do: names of labels and inboxes are looked at again once a week.'
      when k.stream = 'messages' then 'Nothing announces it: set MESSAGES_AGE_DAYS, so that messages are read again after so many days.'
      when k.stream = 'users' then 'Nothing announces it: let the night come more often, by SCHEDULE_NIGHTLY.'
      when k.stream = 'shelves' then 'Nothing announces it: set BOOKS_SHELF_AGE_HOURS lower, so that shelves are read again sooner.'
      when k.stream = 'volumes' then 'Nothing announces it: set BOOKS_VOLUME_AGE_DAYS lower, so that volumes are read again sooner.'
      else 'Nothing announces it: set SWEEP_AGE_DAYS lower, so that everything is looked at again sooner.' end as remedy) r;
