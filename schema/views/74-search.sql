-- Search in messages, subjects and addresses. Its three indexes are made by `shelfdesk warehouse search on`.

create or replace function sync.require_search(index_name text) returns void
language plpgsql stable
as $$
begin
  if not exists (select from pg_catalog.pg_index i where i.indexrelid = pg_catalog.to_regclass(index_name) and i.indisvalid) then
    raise exception 'search is off: the index % is missing', index_name
      using errcode = 'object_not_in_prerequisite_state', hint = 'Run `npx shelfdesk warehouse search on`. It makes the indexes while the worker runs.';
  end if;
end
$$;
comment on function sync.require_search is 'Raises an error with a hint unless the index exists and is valid.';

create or replace function helpdesk.search_query(query text) returns tsquery
language sql immutable parallel safe
begin atomic
  select websearch_to_tsquery('simple', regexp_replace(
    replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(query, '_', ' '), '.', ' '), '/', ' '), ':', ' '), '@', ' '), '&', ' '), '<', ' '), '~', ' '), '+', ' '), '#', ' '), '%', ' '), '?', ' '), '=', ' '), '([^\s"])-+', '\1 ', 'g'));
end;
comment on function helpdesk.search_query is
  'Converts the text of a search box for helpdesk.search_words: all words, "words in this order", one or the other, -without this one.';

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
comment on function helpdesk.search_messages is
  'Messages that match helpdesk.search_query, newest first, in all accounts that the caller may read. Includes messages of deleted tickets. An error while search is off.';

-- Comparing with every text takes seconds. Two typos leave at least one third of a text unchanged, so candidates must
-- contain one of the thirds. The index finds them by groups of three adjacent letters.
create or replace function sync.thirds(value text) returns text[]
language sql immutable parallel safe
begin atomic
  select coalesce(array_agg('%' || regexp_replace(t.piece, '([\\%_])', '\\\1', 'g') || '%'), '{}')
  from (
    select distinct case when length(value) < 9 then value
      else substr(value, 1 + (i * length(value)) / 3, ((i + 1) * length(value)) / 3 - (i * length(value)) / 3) end as piece
    from generate_series(0, 2) i) t
  where t.piece ~ '[[:alnum:]]{3}';
end;
comment on function sync.thirds is
  'Thirds of a text as LIKE patterns: similar texts contain at least one of them. Short texts are one pattern. Skips patterns without three adjacent letters or digits, because the index does not contain them.';

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
