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
