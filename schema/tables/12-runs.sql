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
