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
