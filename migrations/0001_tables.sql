-- Up Migration

-- Schemas and extensions.

-- The schema sync and its table of migrations exist before the first migration.
create schema if not exists sync;

create schema if not exists helpdesk;

create schema if not exists books;

create schema if not exists analytics;

create schema if not exists internal;

create schema if not exists safe;

-- Trusted extensions: a role that may create schemas may also create these extensions.
create extension if not exists btree_gist with schema sync;

create extension if not exists btree_gin with schema sync;

create extension if not exists pg_trgm with schema sync;

-- Accounts, their sources, and the streams of each source.

-- A time without a zone would depend on the settings of the role that runs the migration.
alter table sync.migrations alter column run_on type timestamptz;

create table sync.view_sets (
  id integer generated always as identity primary key,
  checksum text not null,
  made text[] not null,
  run_on timestamptz default now() not null
);

create table sync.accounts (
  account_id text primary key,
  since timestamptz default '1970-01-01 00:00:00+00' not null,
  queue uuid default gen_random_uuid() not null,
  mirrored_since timestamptz default now() not null,
  lookback interval default '00:02:00' not null
);

create table sync.sources (
  account_id text,
  source text,
  address text not null,
  primary key (account_id, source)
);

create table sync.streams (
  stream text,
  source text,
  place integer not null,
  follows text,
  one_reader boolean not null,
  stream_key text generated always as (source || '.' || stream) stored not null,
  personal boolean default false not null,
  deletions text,
  swept boolean default false not null,
  unique (place),
  unique (stream_key),
  primary key (source, stream)
);

create table sync.source_files (
  source text,
  name text,
  checksum text not null,
  run_on timestamptz default now() not null,
  primary key (source, name)
);

create table sync.paused (
  account_id text,
  stream text default '' not null,
  paused_at timestamptz not null,
  paused_by text not null,
  reason text,
  source text default '' not null,
  stream_key text generated always as (
case stream
    when '' then ''
    else (source || '.' || stream)
end) stored,
  primary key (account_id, stream_key),
  constraint paused_source_and_stream check ((source = '') = (stream = ''))
);

create table sync.field_rules (
  account_id text,
  rule text not null,
  since timestamptz not null,
  applied_at timestamptz,
  key_mark text,
  full_rule text,
  primary key (account_id, full_rule)
);

create table sync.operations (
  id bigint generated always as identity primary key,
  at timestamptz not null,
  account_id text not null,
  who text not null,
  action text not null,
  subject text default '' not null,
  outcome text not null
);

create index operations_at on sync.operations (account_id, at desc);

insert into sync.streams (stream, source, place, follows, one_reader, personal, swept) values
  ('users', 'helpdesk', 1, null, false, true, false),
  ('customers', 'helpdesk', 2, null, false, true, true),
  ('tickets', 'helpdesk', 3, null, false, true, true),
  ('messages', 'helpdesk', 4, 'tickets', true, true, false),
  ('shelves', 'books', 5, null, true, false, false),
  ('volumes', 'books', 6, 'shelves', true, false, false);

create table sync.secret_ended_sessions (
  session text primary key,
  ends_at timestamptz not null
);

-- Credits: requests in flight, and spent credits.

create table sync.budget (
  account_id text,
  version bigint default 1 not null,
  source text default 'helpdesk',
  state json not null,
  primary key (account_id, source)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

create table sync.credit_minutes (
  account_id text,
  minute timestamptz,
  credit_limit bigint not null,
  interactive bigint default 0 not null,
  fresh bigint default 0 not null,
  backfill bigint default 0 not null,
  others bigint default 0 not null,
  waited_ms bigint default 0 not null,
  refused bigint default 0 not null,
  source text default 'helpdesk',
  sweep bigint default 0 not null,
  requests bigint default 0 not null,
  took_ms bigint default 0 not null,
  followed bigint default 0 not null,
  between_ms bigint default 0 not null,
  minutes integer default 1 not null,
  primary key (account_id, source, minute)
);

alter table sync.budget alter column state set storage main;

-- Runs, their streams, the schedule, and the worker processes.

create table sync.workers (
  id integer generated always as identity primary key,
  account_id text not null,
  works boolean not null,
  host text not null,
  pid integer not null,
  version text not null,
  started_at timestamptz not null,
  page_url text,
  page_error text
);

create table sync.stored_runs (
  id bigint generated always as identity (sequence name sync.runs_id_seq),
  account_id text not null,
  kind text not null,
  state text default 'running' not null,
  started_at timestamptz not null,
  finished_at timestamptz,
  opened_by integer,
  since timestamptz,
  until timestamptz,
  again boolean default false not null,
  again_before timestamptz,
  accept_deletions boolean default false not null,
  forecast jsonb,
  retries bigint,
  beside bigint[] default '{}'::bigint[] not null,
  constraint runs_pkey primary key (id)
);

create index runs_account on sync.stored_runs (account_id, id desc);

create index stored_runs_finished on sync.stored_runs (finished_at);

create index stored_runs_kind on sync.stored_runs (account_id, kind, id desc);

create index stored_runs_open on sync.stored_runs (account_id) where (state = 'running');

create table sync.stored_run_streams (
  run_id bigint,
  account_id text not null,
  stream text not null,
  token integer default 0 not null,
  state text default 'waiting' not null,
  expected bigint,
  seen bigint default 0 not null,
  inserted bigint default 0 not null,
  updated bigint default 0 not null,
  unchanged bigint default 0 not null,
  deleted bigint default 0 not null,
  rejected bigint default 0 not null,
  cleaned bigint default 0 not null,
  credits bigint default 0 not null,
  carried_from bigint,
  started_at timestamptz,
  finished_at timestamptz,
  error text,
  remedy text,
  exit_code smallint,
  worker integer,
  job text,
  waits_for bigint,
  deferred_until timestamptz,
  note text,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored,
  answer text,
  failing_since timestamptz,
  constraint run_streams_pkey primary key (run_id, stream_key),
  constraint run_streams_run_id_fkey foreign key (run_id) references sync.stored_runs(id) on delete cascade
);

create index stored_run_streams_held on sync.stored_run_streams (worker) where (state = 'running');

create index run_streams_latest on sync.stored_run_streams (account_id, stream_key, run_id desc);

create index stored_run_streams_done on sync.stored_run_streams (account_id, stream_key, finished_at) where (state = 'completed');

create table sync.run_lists (
  run_id bigint,
  account_id text not null,
  stream text not null,
  list text,
  until timestamptz not null,
  covered tstzmultirange default '{}' not null,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored,
  primary key (run_id, stream_key, list),
  foreign key (run_id) references sync.stored_runs(id) on delete cascade
);

create index run_lists_list on sync.run_lists (account_id, stream_key, list);

create table sync.schedule_slots (
  account_id text,
  schedule text,
  slot timestamptz,
  claimed_at timestamptz not null,
  claimed_by integer not null,
  run_id bigint,
  skipped text,
  primary key (account_id, schedule, slot)
);

create table sync.plans (
  account_id text,
  kind text,
  question jsonb,
  made_at timestamptz not null,
  forecast jsonb not null,
  primary key (account_id, kind, question)
);

create unlogged table sync.request_logs (
  run_id bigint,
  stream_key text,
  account_id text not null,
  written_at timestamptz not null,
  requests jsonb not null,
  constraint request_logs_run_id_fkey foreign key (run_id) references sync.stored_runs on delete cascade,
  primary key (run_id, stream_key)
);

-- Hand-offs: messages that a load is complete, and their deliveries.

create table sync.hand_off_settings (
  account_id text primary key,
  channels text[] not null,
  notify text,
  runs text[] not null,
  rejects_allowed integer default 0 not null,
  due_within interval,
  due_by time,
  time_zone text default 'UTC' not null,
  since timestamptz not null
);

create table sync.hand_offs (
  id bigint generated always as identity primary key,
  account_id text not null,
  run_id bigint not null,
  kind text not null,
  started_at timestamptz not null,
  ended_at timestamptz not null,
  issued_at timestamptz,
  certificate jsonb,
  withheld text,
  unique (account_id, run_id),
  constraint hand_offs_issued_or_withheld check ((certificate is null) = (issued_at is null) and (certificate is null) = (withheld is not null))
);

create index hand_offs_issued on sync.hand_offs (account_id, id desc) where (issued_at is not null);

create index hand_offs_undecided on sync.hand_offs (account_id, id desc) where (withheld ^@ 'it could not be decided: ');

create table sync.hand_off_deliveries (
  hand_off_id bigint,
  channel text,
  account_id text not null,
  tries integer default 0 not null,
  next_try_at timestamptz not null,
  held_by integer,
  delivered_at timestamptz,
  last_error text,
  primary key (hand_off_id, channel),
  foreign key (hand_off_id) references sync.hand_offs(id) on delete cascade
);

create index hand_off_deliveries_open on sync.hand_off_deliveries (account_id, channel, hand_off_id) where (delivered_at is null);

-- Common parts of all mirrored tables: changes of rows, and change latency.

create table sync.changes (
  id bigint generated always as identity primary key,
  account_id text not null,
  table_name text not null,
  record_id text not null,
  parent_id text,
  seen_at timestamptz not null,
  as_of timestamptz not null,
  run_id bigint,
  changes jsonb not null,
  source text not null
);

create index changes_record on sync.changes (account_id, table_name, record_id, id);

create index changes_parent on sync.changes (account_id, table_name, parent_id, id) where (parent_id is not null);

create index changes_seen on sync.changes (account_id, seen_at);

create index changes_given on sync.changes (account_id, record_id) where ((source = 'helpdesk') and (table_name = 'tickets') and (changes ? 'customer_id'));

create table sync.change_latencies (
  account_id text,
  stream text not null,
  minute timestamptz,
  latency_seconds integer,
  changes bigint not null,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored,
  primary key (account_id, stream_key, minute, latency_seconds)
);

-- Records that could not be stored, and differences between a source and its documentation.

create table sync.rejects (
  id bigint generated always as identity primary key,
  account_id text not null,
  stream text not null,
  key text not null,
  record_id text,
  ask_id text,
  reason text not null,
  payload text,
  replayable boolean not null,
  attempts integer default 1 not null,
  first_seen_at timestamptz not null,
  last_seen_at timestamptz not null,
  next_try_at timestamptz,
  gone_at timestamptz,
  cleared_at timestamptz,
  as_of timestamptz,
  place integer,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored not null,
  path text
);

create unique index rejects_open on sync.rejects (account_id, stream_key, key) where (cleared_at is null);

create index rejects_ask on sync.rejects (account_id, stream_key, ask_id) where (cleared_at is null);

create index rejects_of_record on sync.rejects (record_id, account_id, stream_key) where (length(record_id) <= 500);

create index rejects_asked on sync.rejects (ask_id, account_id, stream_key);

create table sync.drift (
  account_id text,
  stream text not null,
  kind text,
  path text,
  value text default '',
  seen bigint not null,
  first_seen_at timestamptz not null,
  last_seen_at timestamptz not null,
  sample text,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored,
  primary key (account_id, stream_key, kind, path, value)
);

-- Coverage: synced ranges, and the gaps between them.

create table sync.coverage (
  account_id text,
  stream text not null,
  list text,
  covered tstzmultirange default '{}' not null,
  redundant boolean default false not null,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored,
  since timestamptz,
  lookback interval,
  page_size integer,
  pages_vary boolean default false not null,
  ends_proven_through timestamptz,
  primary key (account_id, stream_key, list)
);

create table sync.gap_reasons (
  account_id text,
  stream text not null,
  list text,
  gap tstzrange,
  reason text not null,
  found_at timestamptz not null,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored,
  primary key (account_id, stream_key, list, gap)
);

create table sync.walks (
  account_id text,
  stream text not null,
  list text,
  since timestamptz not null,
  as_of timestamptz not null,
  page integer not null,
  deep boolean not null,
  until timestamptz default 'infinity',
  updated_since timestamptz,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored,
  primary key (account_id, stream_key, list, until)
);

create table sync.ties (
  account_id text,
  stream text not null,
  list text,
  seconds tstzrange,
  told_by timestamptz not null,
  members text[] not null,
  held boolean default false not null,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored,
  primary key (account_id, stream_key, list, seconds)
);

-- Users, inboxes, labels, customers and contacts of the help desk.

create table helpdesk.users (
  account_id text,
  id text,
  first_name text,
  last_name text,
  email text,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _deleted_at timestamptz,
  _payload jsonb not null,
  primary key (account_id, id)
);

create table helpdesk.inboxes (
  account_id text,
  id text,
  name text,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz,
  _deleted_at timestamptz,
  _payload jsonb,
  primary key (account_id, id)
);

create table helpdesk.labels (
  account_id text,
  id text,
  name text,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz,
  _deleted_at timestamptz,
  _payload jsonb,
  primary key (account_id, id)
);

create table helpdesk.customers (
  account_id text,
  id text,
  first_name text,
  last_name text,
  summary text,
  _created_after timestamptz not null,
  _created_before timestamptz not null,
  _checked_at timestamptz not null,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _deleted_at timestamptz,
  _payload jsonb not null,
  _deleted_after timestamptz,
  primary key (account_id, id)
);

create table helpdesk.contacts (
  account_id text,
  id text,
  customer_id text not null,
  type text,
  value text,
  value_normalized text generated always as (
case
    when (type = 'email') then lower(btrim(value))
    when (type = 'twitter') then lower(ltrim(btrim(value), '@'))
    when (type = 'phone') then (
    case
        when (btrim(value) ~~ '+%') then '+'
        else ''
    end || regexp_replace(value, '[^0-9]', '', 'g'))
    else btrim(value)
end) stored,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _deleted_at timestamptz,
  _payload jsonb not null,
  primary key (account_id, id)
);

create index contacts_customer on helpdesk.contacts (account_id, customer_id);

create index contacts_value on helpdesk.contacts (account_id, value_normalized);

-- Tickets and their history.

create table helpdesk.tickets (
  account_id text,
  id text,
  number bigint,
  customer_id text,
  user_id text,
  inbox_id text,
  label_ids text[],
  state text,
  type text,
  subject text,
  summary text,
  spam boolean,
  trash boolean,
  snoozed_until timestamptz,
  reply_to text,
  reply_cc text,
  created_at timestamptz,
  updated_at timestamptz not null,
  _messages_as_of timestamptz,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _deleted_at timestamptz,
  _payload jsonb not null,
  _deleted_after timestamptz,
  _listed_by bigint,
  _messages_by bigint,
  _true_by timestamptz,
  primary key (account_id, id)
);

create index tickets_waiting on helpdesk.tickets (account_id, updated_at desc) where (((_messages_as_of is null) or (_messages_as_of < updated_at)) and (_deleted_at is null));

create index tickets_updated_at on helpdesk.tickets (account_id, updated_at);

create index tickets_created_at on helpdesk.tickets (account_id, created_at);

create index tickets_customer on helpdesk.tickets (account_id, customer_id);

create index tickets_user on helpdesk.tickets (account_id, user_id);

create index tickets_waiting_open on helpdesk.tickets (account_id, updated_at desc) where (((_messages_as_of is null) or (_messages_as_of < updated_at)) and (_deleted_at is null) and (state = any (array['open', 'hold'])));

create or replace function analytics.is_backlog(state text, spam boolean, trash boolean) returns boolean
language sql immutable parallel safe
begin atomic
  -- Uses only expressions that PostgreSQL can push into an index, also through the views of readers.
  select (state is null or state not in ('closed', 'archived')) and spam is not true and trash is not true;
end;

create table internal.ticket_history (
  account_id text,
  ticket_id text,
  state text,
  user_id text,
  inbox_id text,
  label_ids text[],
  spam boolean,
  trash boolean,
  valid_from timestamptz,
  valid_to timestamptz,
  change_after timestamptz,
  deleted_after timestamptz,
  is_first boolean default false not null,
  change_by timestamptz,
  constraint ticket_history_no_overlap exclude using gist (hashtextextended(ticket_id, (0)::bigint) with =, (((account_id || '/') || ticket_id)) with =, tstzrange(valid_from, valid_to) with &&) where ((valid_to is not null)),
  primary key (account_id, ticket_id, valid_from),
  constraint ticket_history_check check (valid_from < valid_to),
  constraint ticket_history_check1 check (change_after < valid_from)
);

create unique index ticket_history_open on internal.ticket_history (account_id, ticket_id) where (valid_to is null);

create index ticket_history_backlog on internal.ticket_history (account_id, valid_to) where analytics.is_backlog(state, spam, trash);

create table internal.messages (
  account_id text,
  id text,
  ticket_id text not null,
  position integer not null,
  type text,
  direction text,
  user_id text,
  from_name text,
  from_address text,
  to_address text,
  body text,
  more_body text,
  body_text text,
  htmlized boolean,
  created_at timestamptz,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _deleted_at timestamptz,
  _payload jsonb not null,
  primary key (account_id, id)
);

create index messages_ticket on internal.messages (account_id, ticket_id, "position");

create index messages_user on internal.messages (account_id, user_id);

create index messages_created_at on internal.messages (account_id, created_at);

create table helpdesk.attachments (
  account_id text,
  id text,
  message_id text not null,
  ticket_id text not null,
  name text,
  type text,
  size bigint,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _deleted_at timestamptz,
  _payload jsonb not null,
  primary key (account_id, id)
);

create index attachments_message on helpdesk.attachments (account_id, message_id);

create index attachments_ticket on helpdesk.attachments (account_id, ticket_id);

-- Shelves and volumes of the book catalog.

create table books.shelves (
  account_id text,
  owner_id text,
  id text,
  title text,
  description text,
  access text,
  created_at timestamptz,
  updated_at timestamptz,
  volumes_last_updated_at timestamptz,
  volume_count bigint,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _deleted_at timestamptz,
  _payload jsonb not null,
  primary key (account_id, owner_id, id)
);

create table books.volumes (
  account_id text,
  id text,
  title text,
  subtitle text,
  authors text[],
  publisher text,
  published_date text,
  published_year integer,
  description text,
  isbn_10 text,
  isbn_13 text,
  page_count bigint,
  print_type text,
  categories text[],
  average_rating numeric,
  ratings_count bigint,
  maturity_rating text,
  language text,
  list_price numeric,
  list_price_currency text,
  retail_price numeric,
  retail_price_currency text,
  saleability text,
  viewability text,
  country text,
  canonical_link text,
  thumbnail text,
  _detail text default 'list' not null,
  _checked_at timestamptz,
  _waits_since timestamptz,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _deleted_at timestamptz,
  _payload jsonb not null,
  primary key (account_id, id)
);

create index volumes_waiting on books.volumes (account_id, _waits_since) where (_waits_since is not null);

create index volumes_checked on books.volumes (account_id, _checked_at);

create table books.shelf_volumes (
  account_id text,
  owner_id text,
  shelf_id text,
  volume_id text,
  position integer not null,
  _removed_at timestamptz,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _payload jsonb not null,
  primary key (account_id, owner_id, shelf_id, volume_id)
);

create index shelf_volumes_volume on books.shelf_volumes (account_id, volume_id);

create table books.shelf_volume_history (
  account_id text,
  owner_id text,
  shelf_id text,
  volume_id text,
  position integer,
  valid_from timestamptz,
  valid_to timestamptz,
  change_after timestamptz,
  constraint shelf_volume_history_no_overlap exclude using gist (account_id with =, owner_id with =, shelf_id with =, volume_id with =, tstzrange(valid_from, valid_to) with &&),
  primary key (account_id, owner_id, shelf_id, volume_id, valid_from),
  constraint shelf_volume_history_check check (valid_from < valid_to)
);

create index shelf_volume_history_volume on books.shelf_volume_history (account_id, volume_id);

create table sync.shelf_readings (
  account_id text,
  owner_id text,
  shelf_id text,
  as_of timestamptz,
  version text,
  primary key (account_id, owner_id, shelf_id)
);

-- Compresses long texts with lz4, if the server supports it, because lz4 needs less CPU than pglz. Stored values stay
-- as they are and remain readable.
do $$
declare
  one record;
begin
  if not exists (
    select from pg_settings s where s.name = 'default_toast_compression' and 'lz4' = any (s.enumvals)) then
    return;
  end if;
  for one in
    select c.oid::regclass as relation, a.attname as name
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid
    where c.relkind = 'r' and c.relnamespace::regnamespace::text in ('helpdesk', 'books', 'internal')
      and a.attname in ('_payload', 'body', 'more_body', 'body_text')
  loop
    execute format('alter table %s alter column %I set compression lz4', one.relation, one.name);
  end loop;
end
$$;

-- Sweeps and deletion candidates.

create table sync.swept (
  account_id text not null,
  stream text not null,
  list text not null,
  created tstzrange not null,
  as_of timestamptz not null,
  run_id bigint not null,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored not null,
  constraint swept_no_overlap exclude using gist (account_id with =, stream_key with =, list with =, created with &&),
  check (not isempty(created))
);

create index swept_from on sync.swept (account_id, stream_key, list, coalesce(lower(created), '-infinity'));

create table sync.deletion_candidates (
  account_id text,
  stream text not null,
  record_id text,
  missing_since timestamptz not null,
  alive_at timestamptz not null,
  gone_at timestamptz,
  gone_since timestamptz,
  attempts integer default 0 not null,
  error text,
  run_id bigint,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored,
  primary key (account_id, stream_key, record_id)
);

create index deletion_candidates_gone on sync.deletion_candidates (account_id, stream_key) where (gone_at is not null);

-- Comparisons of the mirror with the source: audits and verifications.

create table sync.audit (
  account_id text,
  id bigint generated always as identity,
  run_id bigint not null,
  stream text not null,
  record_id text not null,
  checked_at timestamptz not null,
  ours_as_of timestamptz,
  random boolean not null,
  unread boolean default false not null,
  differences jsonb,
  kind text,
  repaired_at timestamptz,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored not null,
  primary key (account_id, id)
);

create index audit_checked on sync.audit (checked_at);

create index audit_differs on sync.audit (account_id, checked_at) where (kind is not null);

create unique index audit_record on sync.audit (account_id, run_id, stream_key, record_id);

create index audit_of_record on sync.audit (account_id, stream_key, record_id);

create table sync.verifications (
  run_id bigint primary key,
  account_id text not null,
  sample integer,
  repair boolean not null,
  credits bigint not null,
  seconds bigint not null,
  foreign key (run_id) references sync.stored_runs(id) on delete cascade
);

create table sync.verified_lists (
  run_id bigint,
  account_id text not null,
  stream text not null,
  list text,
  place text,
  ours bigint,
  theirs_least bigint,
  theirs_most bigint,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored,
  primary key (run_id, stream_key, list),
  foreign key (run_id) references sync.stored_runs(id) on delete cascade
);

-- Readers, their accounts, and the rights of each role.

create table sync.readers (
  role_name name primary key,
  accounts text[],
  pii boolean not null,
  created_at timestamptz not null,
  created_by text not null
);

create table sync.secret_salt (
  is_one boolean default true primary key,
  inner_key bytea not null,
  outer_key bytea not null,
  check (is_one)
);

-- Erased customers, and the hashes by which they are recognised.

create table sync.erased (
  account_id text,
  customer_id text,
  erased_at timestamptz not null,
  found_again boolean not null,
  primary key (account_id, customer_id)
);

create table sync.erased_tickets (
  account_id text,
  ticket_id text,
  erased_at timestamptz not null,
  primary key (account_id, ticket_id)
);

create table sync.secret_erased (
  account_id text,
  contact_hash text,
  erased_at timestamptz not null,
  primary key (account_id, contact_hash)
);

create table sync.secret_erasure (
  is_one boolean default true primary key,
  inner_key bytea not null,
  outer_key bytea not null,
  check (is_one)
);

do $$
declare
  -- Three UUIDs with 122 random bits each, from the server's strong random source.
  key constant bytea := sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
  inner_key bytea := decode(repeat('36', 64), 'hex');
  outer_key bytea := decode(repeat('5c', 64), 'hex');
begin
  for i in 0..31 loop
    inner_key := set_byte(inner_key, i, get_byte(inner_key, i) # get_byte(key, i));
    outer_key := set_byte(outer_key, i, get_byte(outer_key, i) # get_byte(key, i));
  end loop;
  insert into sync.secret_erasure (inner_key, outer_key) values (inner_key, outer_key);
end
$$;

create table sync.targets (
  account_id text,
  subject text,
  target interval not null,
  primary key (account_id, subject)
);

-- Problems and alarms.

create table sync.alarms (
  id bigint generated always as identity primary key,
  account_id text not null,
  problem text not null,
  stream text default '' not null,
  severity text not null,
  says text not null,
  remedy text not null,
  began_at timestamptz not null,
  gone_at timestamptz,
  ended_at timestamptz,
  begin_delivered_at timestamptz,
  end_delivered_at timestamptz,
  tries integer default 0 not null,
  next_try_at timestamptz,
  last_error text,
  source text default '' not null,
  stream_key text generated always as (
case stream
    when '' then source
    else (source || '.' || stream)
end) stored not null,
  constraint alarms_source_and_stream check (stream = '' or source <> '')
);

create index alarms_due on sync.alarms (next_try_at) where (next_try_at is not null);

create unique index alarms_open on sync.alarms (account_id, problem, stream_key) where (ended_at is null);

-- Business hours, and seconds of business time.

create table analytics.calendars (
  name text primary key,
  time_zone text not null,
  check (name <> '')
);

create table analytics.calendar_hours (
  calendar text,
  weekday integer,
  opens time(0) without time zone,
  closes time(0) without time zone not null,
  primary key (calendar, weekday, opens),
  foreign key (calendar) references analytics.calendars(name) on update cascade on delete cascade,
  constraint calendar_hours_check check (opens < closes),
  check ((weekday >= 1) and (weekday <= 7))
);

create table analytics.calendar_holidays (
  calendar text,
  day date,
  name text,
  primary key (calendar, day),
  foreign key (calendar) references analytics.calendars(name) on update cascade on delete cascade
);

create table internal.stored_calendar_assignments (
  account_id text not null,
  inbox_id text,
  calendar text not null,
  unique nulls not distinct (account_id, inbox_id),
  foreign key (calendar) references analytics.calendars(name) on update cascade
);

create index stored_calendar_assignments_calendar on internal.stored_calendar_assignments (calendar);

create table analytics.calendar_spans (
  calendar text,
  opens_at timestamptz,
  closes_at timestamptz not null,
  seconds_before bigint not null,
  primary key (calendar, opens_at) with (fillfactor = 10),
  foreign key (calendar) references analytics.calendars(name) on update cascade on delete cascade,
  constraint calendar_spans_check check (opens_at < closes_at)
);

create table internal.stored_recomputes (
  account_id text primary key,
  asked integer default 1 not null
);

-- Metrics of tickets, maintained by triggers.

create table analytics.metric_definitions (
  relation text,
  name text,
  unit text not null,
  kind text not null,
  formula text not null,
  other_vendors text,
  primary key (relation, name),
  check (kind = any (array['exact', 'observed']))
);

create table internal.stored_reply_turns (
  account_id text,
  ticket_id text,
  turn integer,
  waiting_since timestamptz,
  answered_at timestamptz,
  wait_seconds double precision,
  wait_business_seconds double precision,
  user_id text,
  inbound_messages integer,
  first_message_id text,
  reply_message_id text,
  is_answered boolean,
  is_first_response boolean,
  primary key (account_id, ticket_id, turn)
);

create table internal.stored_ticket_metrics (
  account_id text,
  ticket_id text,
  message_count integer,
  inbound_count integer,
  authored_count integer,
  automatic_count integer,
  note_count integer,
  other_count integer,
  attachment_count integer,
  agents_involved integer,
  last_inbound_at timestamptz,
  last_authored_at timestamptz,
  is_outbound_initiated boolean,
  is_one_touch boolean,
  is_unreplied boolean,
  first_response_seconds double precision,
  first_response_business_seconds double precision,
  first_responder_id text,
  first_reply_seconds double precision,
  first_reply_business_seconds double precision,
  turns integer,
  waiting_since timestamptz,
  total_wait_seconds double precision,
  average_wait_seconds double precision,
  longest_wait_seconds double precision,
  total_wait_business_seconds double precision,
  average_wait_business_seconds double precision,
  longest_wait_business_seconds double precision,
  first_closed_at timestamptz,
  first_closed_error_seconds double precision,
  last_closed_at timestamptz,
  last_closed_error_seconds double precision,
  first_resolution_seconds double precision,
  first_resolution_error_seconds double precision,
  first_resolution_business_seconds double precision,
  full_resolution_seconds double precision,
  full_resolution_error_seconds double precision,
  full_resolution_business_seconds double precision,
  reopen_count integer,
  reopen_error_seconds double precision,
  assignment_count integer,
  assignment_error_seconds double precision,
  seconds_open double precision,
  open_error_seconds double precision,
  seconds_hold double precision,
  hold_error_seconds double precision,
  seconds_snoozed double precision,
  snoozed_error_seconds double precision,
  seconds_closed double precision,
  closed_error_seconds double precision,
  seconds_archived double precision,
  archived_error_seconds double precision,
  first_closing_seen boolean default false not null,
  last_closing_seen boolean default false not null,
  primary key (account_id, ticket_id)
);

-- Service targets: how long a first response and a resolution may take, and how each ticket keeps them.

create table internal.stored_service_targets (
  account_id text not null,
  inbox_id text,
  label_id text,
  metric text not null,
  target_seconds integer not null,
  unique nulls not distinct (account_id, inbox_id, label_id, metric),
  constraint stored_service_targets_metric check (metric = any (array['first_response', 'resolution'])),
  constraint stored_service_targets_seconds check (target_seconds > 0)
);

-- What the lake is told: where it is, what changed since its last export, and its exports.

create table sync.lake (
  is_one boolean default true primary key,
  path text not null,
  personal boolean not null,
  keep_days integer not null,
  turned_on_at timestamptz not null,
  turned_on_by text not null,
  queue text default 'lake-' || gen_random_uuid() not null,
  tidied_at timestamptz,
  check (is_one),
  check (keep_days > 0)
);

create table sync.lake_pending (
  unit text not null,
  account_id text not null,
  id text not null,
  month date,
  erased boolean default false not null,
  xact xid8 default pg_current_xact_id() not null
);

create table sync.lake_exports (
  id bigint generated always as identity primary key,
  started_at timestamptz not null,
  finished_at timestamptz,
  state text not null,
  moment timestamptz,
  snapshot_id bigint,
  units bigint default 0 not null,
  inserted bigint default 0 not null,
  deleted bigint default 0 not null,
  files_cleared bigint default 0 not null,
  error text,
  check (state = any (array['running', 'done', 'failed']))
);

create table sync.lake_parts (
  export_id bigint,
  part integer,
  accounts text[] not null,
  done_at timestamptz,
  files text,
  error text,
  primary key (export_id, part),
  foreign key (export_id) references sync.lake_exports(id) on delete cascade
);
