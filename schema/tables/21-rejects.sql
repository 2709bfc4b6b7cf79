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
