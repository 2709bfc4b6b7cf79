-- Common parts of all mirrored tables: changes of rows, change latency, and what is stored just as it came.

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

create table internal.stored_sets (
  account_id text,
  stream_key text,
  record_id text,
  proof bytea not null,
  primary key (account_id, stream_key, record_id)
);
