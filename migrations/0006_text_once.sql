-- Up Migration

-- The plain text of a message is stored only where it differs from the body. helpdesk.messages becomes a view of
-- internal.messages.

-- A view that others built on the table reads the view from now on.
create temp table views_of_others on commit drop as
select distinct c.oid::regclass::text as name, pg_get_viewdef(c.oid) as text, array_to_string(c.reloptions, ', ') as options, c.relkind
from pg_depend d
join pg_rewrite w on w.oid = d.objid and d.classid = 'pg_rewrite'::regclass
join pg_class c on c.oid = w.ev_class
where d.refclassid = 'pg_class'::regclass and d.refobjid = 'helpdesk.messages'::regclass
  and c.relnamespace::regnamespace::text not in ('sync', 'helpdesk', 'books', 'analytics', 'internal', 'safe');
do $$
declare
  one record;
begin
  for one in select v.name from views_of_others v where v.relkind = 'm' loop
    raise exception 'the materialized view % reads helpdesk.messages, which becomes a view', one.name
      using hint = 'Drop it, run `npx shelfdesk migrate` again, and create it anew.';
  end loop;
end
$$;

alter table helpdesk.messages set schema internal;
comment on table internal.messages is
  'Stored rows of helpdesk.messages. Read helpdesk.messages instead.';
comment on column internal.messages.body_text is 'body as plain text, where it differs from body; else null.';

-- The index of words is an expression of both columns. Search that was on stays on.
do $$
begin
  perform set_config('shelfdesk.search_was_on', (to_regclass('internal.messages_words') is not null)::text, true);
  drop index if exists internal.messages_words;
end
$$;
alter table internal.messages disable trigger user;
update internal.messages set body_text = null where body_text = body;
alter table internal.messages enable trigger user;
do $$
begin
  if current_setting('shelfdesk.search_was_on')::boolean then
    create index messages_words on internal.messages
      using gin (account_id, date_trunc('hour', (created_at at time zone 'UTC')), helpdesk.search_words(coalesce(body_text, body))) with (gin_pending_list_limit = 4096);
  end if;
end
$$;

create or replace view sync.mirror_accounts with (security_barrier) as
select r.account_id from sync.readable_accounts r
union
select a.account_id
from sync.accounts a
where not exists (
  select from pg_roles g
  where g.rolname in ('shelfdesk_reader', 'shelfdesk_reader_pii') and pg_has_role(g.oid, 'usage'));
comment on view sync.mirror_accounts is
  'Accounts whose mirrored rows the current role may read: of a reader those of sync.readable_accounts, of any other role all. Views in the schemas of sources filter by it, as the row-level policies of tables do.';
comment on column sync.mirror_accounts.account_id is 'The account.';

create or replace view helpdesk.ticket_history with (security_barrier) as
select h.* from internal.ticket_history h
where h.account_id = any (array(select r.account_id from sync.mirror_accounts r))
union all
select v.* from internal.first_versions v
where v.account_id = any (array(select r.account_id from sync.mirror_accounts r));

create or replace view helpdesk.messages with (security_barrier) as
select m.account_id, m.id, m.ticket_id, m.position, m.type, m.direction, m.user_id, m.from_name, m.from_address, m.to_address, m.body, m.more_body,
  coalesce(m.body_text, m.body) as body_text, m.htmlized, m.created_at, m._first_seen_at, m._synced_at, m._observed_at, m._deleted_at, m._payload
from internal.messages m
where m.account_id = any (array(select r.account_id from sync.mirror_accounts r));
comment on view helpdesk.messages is
  'Replies and notes of tickets. The messages of a ticket are replaced as a set: messages that the source no longer shows are removed.';
comment on column helpdesk.messages.body_text is 'body as plain text.';

-- The owner of the table owns the view, whoever migrates.
do $$
begin
  execute format('alter view helpdesk.messages owner to %I', (select pg_get_userbyid(c.relowner) from pg_class c where c.oid = 'internal.messages'::regclass));
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
    where c.oid = 'internal.messages'::regclass and a.privilege_type = 'SELECT' and a.grantee <> c.relowner
  loop
    execute format('grant select on helpdesk.messages to %s', one.name);
    if one.name not in ('shelfdesk_writer', 'shelfdesk_sql') then
      execute format('revoke all on internal.messages from %s cascade', one.name);
    end if;
  end loop;
end
$$;
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

drop policy if exists as_before on internal.messages;
drop policy if exists readers on internal.messages;
alter table internal.messages disable row level security;

create or replace function sync.begin_ticket_history() returns trigger
language plpgsql
as $$
begin
  insert into internal.ticket_history select v.* from after t
  left join sync.accounts k on k.account_id = t.account_id
  cross join lateral sync.first_version(t, k.mirrored_since) v
  where t._deleted_at is not null
  on conflict do nothing;
  -- Messages of the same id may already be here if somebody removed the row of the ticket by hand.
  perform internal.touch_metrics(array_agg(t.account_id), array_agg(t.id)) from after t
  where exists (
    select from internal.messages m where m.account_id = t.account_id and m.ticket_id = t.id);
  return null;
end
$$;

create or replace view safe.messages with (security_barrier) as
select t.account_id, t.id, t.ticket_id, t.position, t.type, t.direction, t.user_id,
  sync.masked('name', t.from_name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as from_name,
  sync.masked_contact(t.from_address, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as from_address,
  sync.masked_contact(t.to_address, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as to_address,
  length(coalesce(t.body_text, t.body)) as body_length,
  t.htmlized, t.created_at, t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at
from internal.messages t
where t.account_id = any (array(select account_id from sync.readable_accounts));

create or replace function helpdesk.search_messages(query text, at_most int default 20)
returns table (
  account_id text, message_id text, ticket_id text, number bigint, subject text, created_at timestamptz, type text, direction text, excerpt text)
language plpgsql stable security definer rows 20
set search_path = pg_catalog, pg_temp
-- Without statistics PostgreSQL knows neither how rare a word is nor that an index returns the newest messages first.
set enable_seqscan = off
set enable_sort = off
set client_min_messages = error
set enable_bitmapscan = on
as $$
#variable_conflict use_column
declare
  asked constant tsquery := helpdesk.search_query(query);
  -- Position of the first matching word, for the excerpt.
  word constant text := lower((regexp_match(asked::text, '''((?:[^'']|'''')+)'''))[1]);
  wanted constant int := greatest(coalesce(at_most, 20), 0);
  accounts constant text[] := sync.searched_accounts('helpdesk.messages');
  account text;
  newest timestamptz;
  older timestamptz;
  since timestamp;
  step interval;
  found text[];
  found_accounts text[] := '{}';
  found_ids text[] := '{}';
begin
  perform sync.require_search('internal.messages_words');
  if asked is null or numnode(asked) = 0 or wanted = 0 then return; end if;
  foreach account in array accounts loop
    -- Common words are found among the newest messages, rare words by the index alone. For words in between, each
    -- attempt covers a range eight times as long. A hundred messages dated in the future do no harm.
    found := null;
    select m.created_at into newest from internal.messages m
    where m.account_id = account and m.created_at is not null order by m.created_at desc offset 100 limit 1;
    select m.created_at into older from internal.messages m
    where m.account_id = account and m.created_at is not null order by m.created_at desc offset 200 limit 1;
    if older is not null then
      step := greatest(newest - older, interval '1 hour');
      since := date_trunc('hour', newest at time zone 'UTC');
      for round in 1..4 loop
        found := array(
          select f.id from (
            -- The order is a separate step: an index for the order alone would read all texts.
            select m.id, m.created_at from internal.messages m
            where m.account_id = account and date_trunc('hour', m.created_at at time zone 'UTC') >= since
              and helpdesk.search_words(coalesce(m.body_text, m.body)) @@ asked
            offset 0) f
          order by f.created_at desc, f.id limit wanted);
        exit when cardinality(found) = wanted;
        found := null;
        -- With few messages, eight times the range, four times over, would reach before the beginning of time.
        step := least(step * 8, interval '500 years');
        since := since - step;
      end loop;
    end if;
    if found is null then
      found := array(
        select f.id from (
          select m.id, m.created_at from internal.messages m
          where m.account_id = account and helpdesk.search_words(coalesce(m.body_text, m.body)) @@ asked
          offset 0) f
        order by f.created_at desc nulls last, f.id limit wanted);
    end if;
    found_ids := found_ids || found;
    found_accounts := found_accounts || array_fill(account, array[cardinality(found)]);
  end loop;
  return query
    select m.account_id, m.id, m.ticket_id, t.number, t.subject, m.created_at, m.type, m.direction,
      btrim(regexp_replace(substr(x.body, greatest(position(word in lower(x.body)) - 60, 1), 160), '\s+', ' ', 'g'))
    from unnest(found_accounts, found_ids) f (account_id, id)
    join internal.messages m on m.account_id = f.account_id and m.id = f.id
    cross join lateral (select left(coalesce(m.body_text, m.body), 100000) as body) x
    left join helpdesk.tickets t on t.account_id = m.account_id and t.id = m.ticket_id
    order by m.created_at desc nulls last, m.account_id, m.id
    limit wanted;
end
$$;

select sync.settle_comments();
select sync.settle_roles();
