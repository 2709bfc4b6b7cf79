-- Up Migration

-- A reader of one account learns nothing of another one by what searching costs. PostgreSQL tells everybody how many rows each
-- index has shown (pg_stat_user_indexes), and each session what is planned in it. So the indexes of what is written alike
-- begin with the account, as that of the words does, and nothing is told while a search function is at work.

drop index helpdesk.tickets_subject_alike;
drop index helpdesk.contacts_value_alike;
set local maintenance_work_mem = '256MB';
create index tickets_subject_alike on helpdesk.tickets using gin (account_id sync.text_ops, lower(subject) sync.gin_trgm_ops)
  with (gin_pending_list_limit = 512);
create index contacts_value_alike on helpdesk.contacts using gin (account_id sync.text_ops, lower(value_normalized) sync.gin_trgm_ops)
  with (gin_pending_list_limit = 512);

alter function helpdesk.search_messages(text, int) set client_min_messages = error;
alter function helpdesk.search_messages(text, int) set enable_bitmapscan = on;

create or replace function helpdesk.similar_subjects(like_this text, at_most int default 20)
returns table (account_id text, ticket_id text, number bigint, subject text, state text, created_at timestamptz, similarity real)
language plpgsql stable security definer rows 20
set search_path = pg_catalog, pg_temp
set client_min_messages = error
-- Only the index that has both, the account and the letters, is to be used.
set enable_seqscan = off
set enable_indexscan = off
set enable_bitmapscan = on
as $$
#variable_conflict use_column
declare
  accounts constant text[] := sync.searched_accounts('helpdesk.tickets');
  -- Without what answering and forwarding have put before it.
  meant constant text := lower(btrim(regexp_replace(left(like_this, 500), '^(\s*(re|fw|fwd|aw|wg|sv|tr|rv)\s*:)+', '', 'i')));
begin
  return query
    select t.account_id, t.id, t.number, t.subject, t.state, t.created_at, c.alike
    from (
      select distinct on (f.account_id, f.id) f.account_id, f.id, sync.similarity(lower(f.subject), meant) as alike
      from unnest(accounts) a (account) cross join unnest(sync.thirds(meant)) p (pattern)
      cross join lateral (
        select x.account_id, x.id, x.subject from helpdesk.tickets x
        where lower(x.subject) like p.pattern and x.account_id = a.account and x._deleted_at is null
        -- Of what is written a thousand times some are enough.
        limit 300) f) c
    join helpdesk.tickets t on t.account_id = c.account_id and t.id = c.id
    where c.alike >= 0.3
    order by c.alike desc, t.created_at desc nulls last, t.account_id, t.id
    limit greatest(coalesce(at_most, 20), 0);
end
$$;

create or replace function helpdesk.similar_contacts(address text, at_most int default 20)
returns table (account_id text, contact_id text, customer_id text, type text, value text, similarity real)
language plpgsql stable security definer rows 20
set search_path = pg_catalog, pg_temp
set client_min_messages = error
-- Only the index that has both, the account and the letters, is to be used.
set enable_seqscan = off
set enable_indexscan = off
set enable_bitmapscan = on
as $$
#variable_conflict use_column
declare
  accounts constant text[] := sync.searched_accounts('helpdesk.contacts');
  meant constant text := lower(btrim(left(address, 500)));
  -- Of addresses what stands before the @: half of all people are at the same few hosts.
  own constant text := coalesce(nullif(split_part(meant, '@', 1), ''), meant);
begin
  return query
    select k.account_id, k.id, k.customer_id, k.type, k.value, c.alike
    from (
      select distinct on (f.account_id, f.id) f.account_id, f.id, sync.similarity(lower(f.value_normalized), meant) as alike
      from unnest(accounts) a (account) cross join unnest(sync.thirds(own)) p (pattern)
      cross join lateral (
        select x.account_id, x.id, x.value_normalized from helpdesk.contacts x
        where lower(x.value_normalized) like p.pattern and x.account_id = a.account
        limit 300) f) c
    join helpdesk.contacts k on k.account_id = c.account_id and k.id = c.id
    where c.alike >= 0.3
    order by c.alike desc, k.account_id, k.id
    limit greatest(coalesce(at_most, 20), 0);
end
$$;
comment on function helpdesk.similar_subjects(text, int) is
  'Tickets whose subject is written nearly like this, the most similar first: similarity is the share of groups of three letters that both have. '
  'Found is what has at least one third of it unchanged; of what very many have, 300 of each account.';

-- As the other views of the star, it joins the zone by a left join: see 0043_turns.sql.
create or replace view analytics.fact_credits with (security_barrier) as
select m.account_id || '/' || m.source || '/' || to_char(m.hour at time zone 'UTC', 'YYYY-MM-DD"T"HH24') as credit_key,
  (m.hour at time zone z.time_zone)::date as date_key, m.account_id as account_key, m.source, m.hour,
  m.interactive, m.fresh, m.backfill, m.sweep, m.others, m.refused, m.waited_seconds, m.hours
from (
  select c.account_id, c.source, date_trunc('hour', c.minute, 'UTC') as hour,
    sum(c.interactive)::bigint as interactive, sum(c.fresh)::bigint as fresh, sum(c.backfill)::bigint as backfill,
    sum(c.sweep)::bigint as sweep, sum(c.others)::bigint as others, sum(c.refused)::bigint as refused,
    (sum(c.waited_ms) / 1000)::float8 as waited_seconds, case when max(c.minutes) > 60 then 24 else 1 end as hours
  from sync.credit_minutes c
  where c.account_id = any (array(select account_id from sync.readable_accounts))
  group by c.account_id, c.source, date_trunc('hour', c.minute, 'UTC')) m
left join analytics.account_zones z on z.account_id = m.account_id;
