-- Accounts, their sources, and the streams of each source.

-- A time without a zone would depend on the settings of the role that migrates.
alter table sync.migrations alter column run_on type timestamptz;
comment on table sync.migrations is 'One row for each change of the tables that has been applied to this database.';
comment on column sync.migrations.id is 'The order in which they were applied.';
comment on column sync.migrations.name is 'The file in migrations/, without .sql.';
comment on column sync.migrations.run_on is 'When it was applied.';

create table sync.accounts (
  account_id text primary key,
  since timestamptz default '1970-01-01 00:00:00+00' not null,
  queue uuid default gen_random_uuid() not null,
  mirrored_since timestamptz default now() not null,
  lookback interval default '00:02:00' not null
);
comment on table sync.accounts is 'One row for each mirrored account.';
comment on column sync.accounts.account_id is 'The operator''s name for the account; part of every key.';
comment on column sync.accounts.since is
  'The mirror wants everything from here on (HELPDESK_SINCE); 1970-01-01 means everything.';
comment on column sync.accounts.queue is 'Names the account''s job queue, so that warehouses that share a Redis stay apart.';
comment on column sync.accounts.mirrored_since is
  'Changes later than this are new ones, and not history that a first load has to catch up.';
comment on column sync.accounts.lookback is
  'How late the source may show what happened, as it was last set (HELPDESK_LOOKBACK_SECONDS): what was not seen then may have happened so long before.';

create table sync.sources (
  account_id text,
  source text,
  address text not null,
  primary key (account_id, source)
);
comment on table sync.sources is
  'The sources of each account, one row for each: its rows come from this address and from no other.';
comment on column sync.sources.account_id is 'The account.';
comment on column sync.sources.source is 'The source, which is also the schema of its tables: helpdesk, books.';
comment on column sync.sources.address is 'The base address that the account was bound to when it was first synced.';

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
comment on table sync.streams is 'What is mirrored, one row for each stream.';
comment on column sync.streams.stream is 'The short name of the stream, unique within its source.';
comment on column sync.streams.source is
  'Where it is read from: helpdesk or books. Streams of two sources do not wait for each other.';
comment on column sync.streams.place is 'Its place in a run: streams of one source are read one after the other.';
comment on column sync.streams.follows is
  'The stream of the same source whose records name the ids to fetch for this one; null where lists are read.';
comment on column sync.streams.one_reader is
  'True if one run at a time reads it; false if a backfill of its gaps may be at work beside another run.';
comment on column sync.streams.stream_key is
  'The key of the stream, unique among all sources: source.stream, as helpdesk.tickets.';
comment on column sync.streams.personal is
  'True if its tables hold personal data. Readers without the right to see it read masked views in the schema safe.';
comment on column sync.streams.deletions is 'Why deletions of the stream are unknown; null if the mirror finds them.';
comment on column sync.streams.swept is 'True if a sweep re-reads it, for deletions and silent changes.';

create or replace view sync.source_schemas as
select source::name as name, bool_or(personal) as personal from sync.streams group by source;
comment on view sync.source_schemas is 'The schemas of mirrored tables, one for each source.';
comment on column sync.source_schemas.name is 'The schema, which has the name of its source.';
comment on column sync.source_schemas.personal is 'True if one of its streams holds personal data.';

create table sync.source_files (
  source text,
  name text,
  checksum text not null,
  run_on timestamptz default now() not null,
  primary key (source, name)
);
comment on table sync.source_files is
  'Schema files of sources that were applied to this database. A later edit of such a file is refused.';
comment on column sync.source_files.source is 'The source that brings the file.';
comment on column sync.source_files.name is 'The name of the file.';
comment on column sync.source_files.checksum is 'SHA-256 of the file as it was applied.';
comment on column sync.source_files.run_on is 'When it was applied.';

create or replace function sync.key_of(stream text) returns text
language sql stable
begin atomic
  select case when strpos(key_of.stream, '.') > 0 then key_of.stream else (
    select min(k.stream_key) from sync.streams k where k.stream = key_of.stream having count(*) = 1) end;
end;
comment on function sync.key_of is
  'The key of a stream, source.stream, from its key or from a short name that only one source has; null for any other short name.';

create or replace function sync.option_of(account text) returns text
language sql immutable
begin atomic
  select case when account = 'default' then '' else ' --account ' || account end;
end;
comment on function sync.option_of is 'What a command needs to mean this account: nothing for the one that is called default.';

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
comment on table sync.paused is
  'What people have told to wait: nothing of it is read until they resume it. Runs and slots of the schedule that come meanwhile wait, or are skipped.';
comment on column sync.paused.stream is 'The stream; empty: the whole account.';
comment on column sync.paused.paused_at is 'Since when.';
comment on column sync.paused.paused_by is 'Who did it: see sync.operations.who.';
comment on column sync.paused.reason is 'Why, in their words.';
comment on column sync.paused.source is 'The source of the stream: helpdesk or books. Empty for the whole account.';
comment on column sync.paused.stream_key is
  'The key of the stream: source.stream, as helpdesk.tickets. Empty for the whole account.';

create or replace function sync.is_paused(account text, stream text) returns boolean
language sql stable
begin atomic
  select exists (
    select from sync.paused p where p.account_id = account and p.stream_key in ('', is_paused.stream));
end;
comment on function sync.is_paused is 'True if people have paused the stream, named by its key, or the whole account.';

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
comment on table sync.operations is
  'What people did to the work, at a terminal or on the page: pauses and their end, runs that they canceled, tried again or started there, customers that they erased, readers that they let in or revoked. One row for each time and account, also where it was refused. What a command reads by itself is in sync.runs.';
comment on column sync.operations.id is 'Its number.';
comment on column sync.operations.at is 'When.';
comment on column sync.operations.account_id is 'The operator''s name for the mirrored account.';
comment on column sync.operations.who is
  'Who: user and machine of a terminal, or the role and the address of a browser; the worker, where it erases by itself who was erased before and comes again.';
comment on column sync.operations.action is
  'What: run, pause, resume, retry, cancel, erase, let a reader in, revoke a reader, calendar.';
comment on column sync.operations.subject is 'To what: a stream, a run, a customer, a reader; empty: the whole account.';
comment on column sync.operations.outcome is 'What came of it: done, or why it was refused.';

create or replace function sync.in_words(span interval) returns text
language sql immutable
begin atomic
  select case
    when s < 90 then round(s) || ' s' when s < 90 * 60 then round(s / 60) || ' min'
    when s < 48 * 3600 then round(s / 3600) || ' h' else round(s / 86400) || ' d' end
  from (select greatest(0, extract(epoch from span)) as s) seconds;
end;
comment on function sync.in_words is 'A span of time as people say it, in two digits: 3 s, 4 min, 33 h, 9 d.';

create or replace function sync.counted(n bigint, one text, many text default null) returns text
language sql immutable
begin atomic
  select n || ' ' || case n when 1 then one else coalesce(many, one || 's') end;
end;
comment on function sync.counted is 'A number with its noun: 1 record, 2 records. Without many the plural has an s.';

insert into sync.streams (stream, source, place, follows, one_reader, personal, swept) values
  ('users', 'helpdesk', 1, null, false, true, false),
  ('customers', 'helpdesk', 2, null, false, true, true),
  ('tickets', 'helpdesk', 3, null, false, true, true),
  ('messages', 'helpdesk', 4, 'tickets', true, true, false),
  ('shelves', 'books', 5, null, true, false, false),
  ('volumes', 'books', 6, 'shelves', true, false, false);
