-- Up Migration

-- The page of a run shows its last requests.

create unlogged table sync.request_logs (
  run_id bigint,
  stream_key text,
  account_id text not null,
  written_at timestamptz not null,
  requests jsonb not null,
  constraint request_logs_run_id_fkey foreign key (run_id) references sync.stored_runs on delete cascade,
  primary key (run_id, stream_key)
);
comment on table sync.request_logs is
  'The last requests of each stream of a run, for its page. Kept for a day, and emptied by a crash of the server: nothing depends on it.';
comment on column sync.request_logs.run_id is 'The run.';
comment on column sync.request_logs.stream_key is 'Key of the stream: source.stream, as helpdesk.tickets.';
comment on column sync.request_logs.account_id is 'The operator''s name for the account.';
comment on column sync.request_logs.written_at is 'When the row was last written.';
comment on column sync.request_logs.requests is
  'The last 30 requests and waits, oldest first: at, request, status, ms, credits, says.';
