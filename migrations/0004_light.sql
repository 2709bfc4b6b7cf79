-- Up Migration

-- Search is on demand: `shelfdesk search on` makes its three indexes. A warehouse that holds tickets keeps them.

do $$
begin
  if not exists (select from helpdesk.tickets) then
    drop index helpdesk.messages_words, helpdesk.tickets_subject_alike, helpdesk.contacts_value_alike;
  end if;
end
$$;

create or replace function sync.require_search(index_name text) returns void
language plpgsql stable
as $$
begin
  if not exists (select from pg_catalog.pg_index i where i.indexrelid = pg_catalog.to_regclass(index_name) and i.indisvalid) then
    raise exception 'search is off: the index % is missing', index_name
      using errcode = 'object_not_in_prerequisite_state', hint = 'Run `npx shelfdesk search on`. It makes the indexes while the worker runs.';
  end if;
end
$$;
comment on function sync.require_search is 'Raises an error with a hint unless the index exists and is valid.';

create or replace function helpdesk.search_messages(query text, at_most int default 20)
returns table (
  account_id text, message_id text, ticket_id text, number bigint, subject text, created_at timestamptz, type text, direction text, excerpt text)
language plpgsql stable security definer rows 20
set search_path = pg_catalog, pg_temp
-- Without statistics PostgreSQL knows neither how rare a word is nor that an index returns the newest messages first.
set enable_seqscan = off
set enable_sort = off
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
  perform sync.require_search('helpdesk.messages_words');
  if asked is null or numnode(asked) = 0 or wanted = 0 then return; end if;
  foreach account in array accounts loop
    -- Common words are found among the newest messages, rare words by the index alone. For words in between, each
    -- attempt covers a range eight times as long. A hundred messages dated in the future do no harm.
    found := null;
    select m.created_at into newest from helpdesk.messages m
    where m.account_id = account and m.created_at is not null order by m.created_at desc offset 100 limit 1;
    select m.created_at into older from helpdesk.messages m
    where m.account_id = account and m.created_at is not null order by m.created_at desc offset 200 limit 1;
    if older is not null then
      step := greatest(newest - older, interval '1 hour');
      since := date_trunc('hour', newest at time zone 'UTC');
      for round in 1..4 loop
        found := array(
          select f.id from (
            -- The order is a separate step: an index for the order alone would read all texts.
            select m.id, m.created_at from helpdesk.messages m
            where m.account_id = account and date_trunc('hour', m.created_at at time zone 'UTC') >= since
              and helpdesk.search_words(m.body_text) @@ asked
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
          select m.id, m.created_at from helpdesk.messages m
          where m.account_id = account and helpdesk.search_words(m.body_text) @@ asked
          offset 0) f
        order by f.created_at desc nulls last, f.id limit wanted);
    end if;
    found_ids := found_ids || found;
    found_accounts := found_accounts || array_fill(account, array[cardinality(found)]);
  end loop;
  return query
    select m.account_id, m.id, m.ticket_id, t.number, t.subject, m.created_at, m.type, m.direction,
      btrim(regexp_replace(substr(left(m.body_text, 100000), greatest(position(word in lower(left(m.body_text, 100000))) - 60, 1), 160), '\s+', ' ', 'g'))
    from unnest(found_accounts, found_ids) f (account_id, id)
    join helpdesk.messages m on m.account_id = f.account_id and m.id = f.id
    left join helpdesk.tickets t on t.account_id = m.account_id and t.id = m.ticket_id
    order by m.created_at desc nulls last, m.account_id, m.id
    limit wanted;
end
$$;
comment on function helpdesk.search_messages is
  'Messages that match helpdesk.search_query, newest first, in all accounts that the caller may read. Includes messages of deleted tickets. An error while search is off.';

create or replace function helpdesk.similar_subjects(like_this text, at_most int default 20)
returns table (account_id text, ticket_id text, number bigint, subject text, state text, created_at timestamptz, similarity real)
language plpgsql stable security definer rows 20
set search_path = pg_catalog, pg_temp
set client_min_messages = error
-- Uses only the index over both account and letters.
set enable_seqscan = off
set enable_indexscan = off
set enable_bitmapscan = on
as $$
#variable_conflict use_column
declare
  accounts constant text[] := sync.searched_accounts('helpdesk.tickets');
  -- Without prefixes of replies and forwards.
  meant constant text := lower(btrim(regexp_replace(left(like_this, 500), '^(\s*(re|fw|fwd|aw|wg|sv|tr|rv)\s*:)+', '', 'i')));
begin
  perform sync.require_search('helpdesk.tickets_subject_alike');
  return query
    select t.account_id, t.id, t.number, t.subject, t.state, t.created_at, c.alike
    from (
      select distinct on (f.account_id, f.id) f.account_id, f.id, sync.similarity(lower(f.subject), meant) as alike
      from unnest(accounts) a (account) cross join unnest(sync.thirds(meant)) p (pattern)
      cross join lateral (
        select x.account_id, x.id, x.subject from helpdesk.tickets x
        where lower(x.subject) like p.pattern and x.account_id = a.account and x._deleted_at is null
        -- A sample is enough for texts that occur a thousand times.
        limit 300) f) c
    join helpdesk.tickets t on t.account_id = c.account_id and t.id = c.id
    where c.alike >= 0.3
    order by c.alike desc, t.created_at desc nulls last, t.account_id, t.id
    limit greatest(coalesce(at_most, 20), 0);
end
$$;
comment on function helpdesk.similar_subjects is
  'Tickets with a similar subject, most similar first. similarity is the share of common groups of three letters. Finds subjects with at least one unchanged third; at most 300 candidates per account.';

create or replace function helpdesk.similar_contacts(address text, at_most int default 20)
returns table (account_id text, contact_id text, customer_id text, type text, value text, similarity real)
language plpgsql stable security definer rows 20
set search_path = pg_catalog, pg_temp
set client_min_messages = error
-- Uses only the index over both account and letters.
set enable_seqscan = off
set enable_indexscan = off
set enable_bitmapscan = on
as $$
#variable_conflict use_column
declare
  accounts constant text[] := sync.searched_accounts('helpdesk.contacts');
  meant constant text := lower(btrim(left(address, 500)));
  -- Compares the part of an address before the @, because half of all people share a few hosts.
  own constant text := coalesce(nullif(split_part(meant, '@', 1), ''), meant);
begin
  perform sync.require_search('helpdesk.contacts_value_alike');
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
comment on function helpdesk.similar_contacts is
  'Customer addresses with a similar spelling, most similar first. similarity is the share of common groups of three letters. Finds addresses with at least one unchanged third of the part before the @.';

alter function helpdesk.search_messages(text, int) set client_min_messages = error;
alter function helpdesk.search_messages(text, int) set enable_bitmapscan = on;
comment on function helpdesk.search_words is
  'Text search vector of a message: all words in lower case with positions, without stemming or stop words. Only the first 100,000 characters count. The index messages_words, which `shelfdesk search on` makes, uses this function.';

-- Metrics once a transaction.

drop trigger keep_metrics_inserted on helpdesk.ticket_history;
drop trigger keep_metrics_updated on helpdesk.ticket_history;
drop trigger keep_metrics_deleted on helpdesk.ticket_history;
drop function internal.keep_metrics_of_history();

-- A page or a ticket is written by several statements. The worker's transactions keep the metrics once, at their end.
create or replace function internal.touch_metrics(accounts text[], tickets text[]) returns void
language plpgsql
as $$
begin
  if accounts is null then return; end if;
  if current_setting('shelfdesk.keep_metrics', true) = 'at the end' then
    perform set_config('shelfdesk.touched', concat_ws(E'\n', nullif(current_setting('shelfdesk.touched', true), ''),
      jsonb_build_array(accounts, tickets)), true);
  else
    perform internal.keep_metrics(accounts, tickets);
  end if;
end
$$;
comment on function internal.touch_metrics is
  'Stores the metrics of these tickets now, or notes the tickets for internal.keep_touched_metrics if shelfdesk.keep_metrics is "at the end".';

create or replace function internal.keep_touched_metrics() returns void
language plpgsql
as $$
declare
  touched constant text := nullif(current_setting('shelfdesk.touched', true), '');
begin
  if touched is null then return; end if;
  perform set_config('shelfdesk.touched', '', true);
  perform internal.keep_metrics(array_agg(k.account_id), array_agg(k.ticket_id))
  from (
    select distinct a.account_id, a.ticket_id
    from string_to_table(touched, E'\n') as line
    cross join lateral rows from (jsonb_array_elements_text(line::jsonb -> 0), jsonb_array_elements_text(line::jsonb -> 1)) as a (account_id, ticket_id)) k;
end
$$;
comment on function internal.keep_touched_metrics is
  'Stores the metrics of all tickets that the transaction has touched, in one call.';

-- For the tables that metrics are computed from. Runs after the whole statement: if a statement writes several of them,
-- each trigger sees all rows.
create or replace function internal.keep_metrics_of_members() returns trigger
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
declare
  accounts text[];
  tickets text[];
begin
  if tg_op = 'INSERT' then
    if tg_table_name = 'ticket_history' and current_setting('shelfdesk.metrics', true) = 'with the ticket' then return null; end if;
    select array_agg(c.account_id), array_agg(c.ticket_id) into accounts, tickets
    from (select distinct n.account_id, n.ticket_id from news n) c;
  elsif tg_op = 'DELETE' then
    select array_agg(c.account_id), array_agg(c.ticket_id) into accounts, tickets
    from (select distinct o.account_id, o.ticket_id from olds o) c;
  else
    select array_agg(c.account_id), array_agg(c.ticket_id) into accounts, tickets
    from (select o.account_id, o.ticket_id from olds o union select n.account_id, n.ticket_id from news n) c;
  end if;
  -- A transaction that writes the messages of a ticket holds the lock of the ticket's row. If a message moves to another ticket,
  -- no transaction holds the lock of the former ticket. Without this lock, outdated metrics could overwrite newer ones.
  if tg_table_name <> 'ticket_history' and cardinality(tickets) > 1 then
    perform from (
      select k.account_id, k.ticket_id from unnest(accounts, tickets) as k (account_id, ticket_id) order by k.account_id, k.ticket_id) k
    cross join lateral (
      select from helpdesk.tickets t
      where t.account_id = k.account_id and t.id >= k.ticket_id and t.id <= k.ticket_id
      order by t.id limit 1 for no key update) t;
  end if;
  perform internal.touch_metrics(accounts, tickets);
  return null;
end
$$;
comment on function internal.keep_metrics_of_members is
  'Updates the metrics of tickets whose messages, attachments or history were written. For new tickets, sync.begin_ticket_history stores the metrics.';

create or replace function sync.begin_ticket_history() returns trigger
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
declare
  begun int;
begin
  -- A ticket arrives with its messages and mostly exists here already. Then no history begins.
  if not exists (select from after) then return null; end if;
  perform set_config('shelfdesk.metrics', 'with the ticket', true);
  insert into helpdesk.ticket_history
    (account_id, ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, valid_to, change_after, change_by, deleted_after, is_first)
  select t.account_id, t.id, t.state, t.user_id, t.inbox_id, t.label_ids, t.spam, t.trash, f.valid_from,
    case when t._deleted_at is not null then greatest(t._deleted_at, f.valid_from + interval '1 second') end,
    case when t.created_at <= f.valid_from then t.created_at - interval '1 second' end,
    -- A ticket that was created while the mirror ran was seen soon afterwards. For older tickets the times of the
    -- source count.
    case when t.updated_at >= k.mirrored_since and y.by > f.valid_from then y.by end,
    t._deleted_after, true
  from after t
  left join sync.accounts k on k.account_id = t.account_id
  cross join lateral (select sync.true_by(t._true_by, t._observed_at) as by) y
  cross join lateral (select least(t.updated_at, y.by) as valid_from) f
  on conflict do nothing;
  perform set_config('shelfdesk.metrics', '', true);

  insert into internal.stored_ticket_metrics (
    account_id, ticket_id, message_count, inbound_count, authored_count, automatic_count, note_count, other_count, attachment_count,
    agents_involved, is_outbound_initiated, is_one_touch, is_unreplied, turns,
    first_closed_at, first_closed_error_seconds, last_closed_at, last_closed_error_seconds,
    first_resolution_seconds, first_resolution_error_seconds, first_resolution_business_seconds,
    full_resolution_seconds, full_resolution_error_seconds, full_resolution_business_seconds,
    reopen_count, reopen_error_seconds, assignment_count, assignment_error_seconds,
    seconds_open, open_error_seconds, seconds_hold, hold_error_seconds, seconds_snoozed, snoozed_error_seconds,
    seconds_closed, closed_error_seconds, seconds_archived, archived_error_seconds)
  select n.account_id, n.id, 0, 0, 0, 0, 0, 0, 0, 0, false, false, false, 0,
    r.closed_at, r.closed_within, r.closed_at, r.closed_within, r.took, r.closed_within, r.took_business, r.took, r.closed_within, r.took_business,
    0, n.within, (n.user_id is not null)::int, n.within, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
  from (
    select t.account_id, t.id, t.user_id, t.inbox_id, t.created_at, f.valid_from, t.state in ('closed', 'archived') as resolved,
      case when t.created_at <= f.valid_from then date_part('epoch', f.valid_from - (t.created_at - interval '1 second')) end as within
    from after t
    cross join lateral (select sync.true_by(t._true_by, t._observed_at) as by) y
    cross join lateral (select least(t.updated_at, y.by) as valid_from) f
    where t._deleted_at is null
      and t.account_id = any (array(select account_id from sync.readable_accounts))
      and (
        -- The order of the index, as in internal.keep_metrics.
        select true from helpdesk.messages m where m.account_id = t.account_id and m.ticket_id = t.id
        order by m.position limit 1) is null
    offset 0) n
  left join lateral (
    select n.valid_from as closed_at, n.within as closed_within, date_part('epoch', n.valid_from - n.created_at) as took,
      case when exists (select from internal.stored_calendar_assignments)
        then analytics.business_seconds(analytics.calendar_of(n.account_id, n.inbox_id), n.created_at, n.valid_from)::float8 end as took_business
    where n.resolved) r on true
  on conflict do nothing;
  get diagnostics begun = row_count;
  if begun < (select count(*) from after) then
    perform internal.touch_metrics(array_agg(t.account_id), array_agg(t.id)) from after t;
  end if;
  return null;
end
$$;
create or replace function internal.keep_metrics_of_ticket() returns trigger
language plpgsql
as $$
begin
  if tg_op = 'DELETE' then
    delete from internal.stored_ticket_metrics s where s.account_id = old.account_id and s.ticket_id = old.id;
    delete from internal.stored_reply_turns s where s.account_id = old.account_id and s.ticket_id = old.id;
  else
    perform internal.touch_metrics(array[new.account_id], array[new.id]);
  end if;
  return null;
end
$$;
comment on function internal.keep_metrics_of_ticket is
  'Updates the metrics of a ticket after a change that ticket_history does not record. After the removal of a ticket row, deletes its metrics and turns.';

create trigger keep_metrics_inserted after insert on helpdesk.ticket_history referencing new table as news for each statement execute function internal.keep_metrics_of_members();
create trigger keep_metrics_updated after update on helpdesk.ticket_history referencing old table as olds new table as news for each statement execute function internal.keep_metrics_of_members();
create trigger keep_metrics_deleted after delete on helpdesk.ticket_history referencing old table as olds for each statement execute function internal.keep_metrics_of_members();

-- A re-read that changes nothing leaves no change.

drop trigger keep_change on helpdesk.tickets;
create trigger keep_change after update on helpdesk.tickets for each row when (((new._messages_as_of is null) or (old._messages_as_of = new._messages_as_of))) execute function sync.keep_change('', '{account_id}');
comment on column sync.changes.changes is
  'Changed fields, each as [old, new]: columns by name, and fields of _payload without a column. {} if only the spelling differs. With "id": the row was removed. With "_messages_as_of": the messages of the ticket were re-read, and had changed.';
comment on column helpdesk.tickets._messages_by is
  'The run that read the messages, as of _messages_as_of. Null like _listed_by. Earlier reads that brought changes are in sync.changes.';
comment on column safe.tickets._messages_by is
  'The run that read the messages, as of _messages_as_of. Null like _listed_by. Earlier reads that brought changes are in sync.changes.';
