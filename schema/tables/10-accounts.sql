-- Accounts, their sources, and the streams of each source.

-- A time without a zone would depend on the settings of the role that runs the migration.
alter table sync.migrations alter column run_on type timestamptz;

create table sync.view_sets (
  id integer generated always as identity primary key,
  checksum text not null,
  made text[] not null,
  run_on timestamptz default now() not null,
  version text not null
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
  dated_by text,
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

create table sync.moves (
  account_id text primary key,
  move_id uuid default gen_random_uuid() not null,
  state text not null,
  place text not null,
  who text not null,
  began_at timestamptz not null,
  ended_at timestamptz,
  progress jsonb,
  check (state = any (array['leaving', 'moved', 'arriving', 'arrived']))
);

insert into sync.streams (stream, source, place, follows, one_reader, personal, swept, dated_by) values
  ('users', 'helpdesk', 1, null, false, true, false, null),
  ('customers', 'helpdesk', 2, null, false, true, true, null),
  ('tickets', 'helpdesk', 3, null, false, true, true, 'updated_at'),
  ('messages', 'helpdesk', 4, 'tickets', true, true, false, null),
  ('shelves', 'books', 5, null, true, false, false, null),
  ('volumes', 'books', 6, 'shelves', true, false, false, null);

create table sync.secret_ended_sessions (
  session text primary key,
  ends_at timestamptz not null
);
