-- Runs, their streams, the schedule, and the worker processes.

create table sync.workers (
  id integer generated always as identity primary key,
  account_id text not null,
  works boolean not null,
  host text not null,
  pid integer not null,
  version text not null,
  started_at timestamptz not null
);
comment on table sync.workers is
  'Processes that are at work on an account, or watch a run of it. A row may outlive its process: sync.is_alive(id) tells.';
comment on column sync.workers.id is 'Number of the process, and of the lock that it holds as long as it lives.';
comment on column sync.workers.account_id is 'The operator''s name for the account.';
comment on column sync.workers.works is 'True if it takes jobs; false for a command that only watches its run.';
comment on column sync.workers.host is 'The machine, or the container.';
comment on column sync.workers.pid is 'Its number there.';
comment on column sync.workers.version is 'The version of Shelfdesk.';
comment on column sync.workers.started_at is 'When it was started, by its own clock.';

create or replace function sync.is_alive(worker int) returns boolean
language sql stable
begin atomic
  -- 'SHSW'; see src/warehouse/workers.ts.
  select exists (
    select from pg_locks l
    where l.locktype = 'advisory' and l.classid = 1397248855 and l.objid = worker::oid and l.objsubid = 2 and l.granted
      and l.database = (select d.oid from pg_database d where d.datname = current_database()));
end;
comment on function sync.is_alive is 'Whether this process of sync.workers is alive: it holds its lock.';

create or replace view sync.live_workers as
select w.id, w.account_id, w.works, w.host, w.pid, w.version, w.started_at
from sync.workers w
where w.id in (
  select l.objid::bigint from pg_locks l
  where l.locktype = 'advisory' and l.classid = 1397248855 and l.objsubid = 2 and l.granted
    and l.database = (select d.oid from pg_database d where d.datname = current_database()));
comment on view sync.live_workers is
  'The processes of sync.workers that are alive, found by one look at the locks: for whoever asks for more than one of them. Not to be joined row by row.';

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
comment on table sync.stored_runs is
  'Runs as they were written down: one whose process died is still called running here. Read sync.runs.';
comment on column sync.stored_runs.id is 'Number of the run.';
comment on column sync.stored_runs.kind is
  'sync, backfill, verify: commands; fresh and nightly: the schedule, and fresh also what slept over a spent day; sweep: a command, or the night; hydrate: tickets or volumes wait to be asked for by id; audit: nobody else wants the credits.';
comment on column sync.stored_runs.state is
  'running, completed, partial (it ended, but something could not be had), failed, or interrupted (the next run goes on).';
comment on column sync.stored_runs.started_at is 'When it was started.';
comment on column sync.stored_runs.finished_at is 'When it ended.';
comment on column sync.stored_runs.opened_by is 'The process of sync.workers that opened it.';
comment on column sync.stored_runs.since is 'A backfill reads from here on; null: from the beginning.';
comment on column sync.stored_runs.until is 'A backfill reads up to here.';
comment on column sync.stored_runs.again is
  'True if a backfill reads also what is covered, and a sweep also what was checked lately.';
comment on column sync.stored_runs.again_before is
  'Messages that were read before this time of the source are read again by this backfill, and customers that were checked before it are suspects of this sweep; null until its first reply.';
comment on column sync.stored_runs.accept_deletions is
  'True for a sweep that may bury more than SWEEP_MOST_DELETED_PERCENT of a stream: somebody has said so.';
comment on column sync.stored_runs.forecast is
  'What it was expected to take, reckoned before it began: requests, credits and seconds, in all and by stream; null where nobody asked.';
comment on column sync.stored_runs.retries is 'The run that this one tries again, because somebody asked for it; else null.';
comment on column sync.stored_runs.beside is
  'Of a run that reads again: the runs of the account that were open when it was opened.';

create or replace view sync.runs as
select r.id, r.account_id, r.kind,
  case when r.state = 'running' and not sync.is_alive(r.opened_by)
      -- Whoever works goes on with every open run; who opened one begins to work where nobody else does.
      and not exists (
        select from sync.workers w where w.account_id = r.account_id and w.works and sync.is_alive(w.id))
    then 'interrupted' else r.state end as state,
  r.started_at, r.finished_at, r.opened_by, r.since, r.until, r.again, r.again_before
from sync.stored_runs r;
comment on view sync.runs is 'What people or the schedule started: one row for each run.';
comment on column sync.runs.state is
  'running (or about to be, by a process that lives), completed, partial (it ended, but something could not be had), failed, or interrupted; interrupted without finished_at: nobody is alive to go on with it, until the next worker starts.';

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
  sleeps_until timestamptz,
  note text,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored,
  constraint run_streams_pkey primary key (run_id, stream_key),
  constraint run_streams_run_id_fkey foreign key (run_id) references sync.stored_runs(id) on delete cascade
);
create index stored_run_streams_held on sync.stored_run_streams (worker) where (state = 'running');
create index run_streams_latest on sync.stored_run_streams (account_id, stream_key, run_id desc);
create index stored_run_streams_done on sync.stored_run_streams (account_id, stream_key, finished_at) where (state = 'completed');
comment on table sync.stored_run_streams is
  'Streams of runs as they were written down: one whose process died is still called running here. Read sync.run_streams.';
comment on column sync.stored_run_streams.token is
  'Fencing token: whoever takes the work up raises it, and a commit under an older one fails.';
comment on column sync.stored_run_streams.state is 'waiting, running, completed, partial, failed or interrupted.';
comment on column sync.stored_run_streams.expected is 'How many records the source counted for this run, where it was asked.';
comment on column sync.stored_run_streams.seen is 'Records that arrived.';
comment on column sync.stored_run_streams.inserted is 'Rows that are new here.';
comment on column sync.stored_run_streams.updated is 'Rows whose content changed.';
comment on column sync.stored_run_streams.unchanged is 'Records that were here already, as they are, or in a newer version.';
comment on column sync.stored_run_streams.deleted is 'Rows that got a tombstone, and members of sets that were removed.';
comment on column sync.stored_run_streams.rejected is 'Records that went to sync.rejects.';
comment on column sync.stored_run_streams.cleaned is
  'Characters that PostgreSQL cannot store (NUL, lone surrogates) and that were replaced by U+FFFD.';
comment on column sync.stored_run_streams.credits is 'Credits used.';
comment on column sync.stored_run_streams.carried_from is
  'The interrupted run that had completed the stream moments before, so that this run did not have to; null if this run read it.';
comment on column sync.stored_run_streams.started_at is 'When work on the stream began.';
comment on column sync.stored_run_streams.finished_at is 'When work on the stream ended.';
comment on column sync.stored_run_streams.error is 'What went wrong.';
comment on column sync.stored_run_streams.remedy is 'What to do about it.';
comment on column sync.stored_run_streams.exit_code is 'The exit code that the command line gives for it.';
comment on column sync.stored_run_streams.worker is 'The process of sync.workers that is, or was, at work on it.';
comment on column sync.stored_run_streams.job is 'The job of the queue under which it is, or was, at work.';
comment on column sync.stored_run_streams.waits_for is 'The run whose work on the same stream it waits for.';
comment on column sync.stored_run_streams.sleeps_until is
  'The requests of the day were spent: a worker goes on with the stream at this time. Null otherwise.';
comment on column sync.stored_run_streams.note is
  'Why nothing happens just now, in words for who watches; null while something does.';

create or replace view sync.run_streams as
select s.run_id, s.account_id, s.stream, s.token,
  case when s.state = 'running' and not sync.is_alive(s.worker) then 'interrupted' else s.state end as state,
  s.expected, s.seen, s.inserted, s.updated, s.unchanged, s.deleted, s.rejected, s.cleaned, s.credits, s.carried_from,
  case when s.state = 'waiting' then s.waits_for end as waits_for,
  s.worker, s.job, s.started_at, s.finished_at, s.error, s.remedy, s.exit_code, s.sleeps_until,
  s.source, s.stream_key
from sync.stored_run_streams s;
comment on view sync.run_streams is 'What a run did, stream by stream.';
comment on column sync.run_streams.state is
  'waiting, running, completed, partial, failed or interrupted; interrupted without finished_at: its process died, and the next one that works takes it up.';
comment on column sync.run_streams.carried_from is
  'The run that had read the stream already, so that this one did not have to; null if this run read it.';

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
comment on table sync.run_lists is
  'How far a backfill reads each list, from its first look on; what one that reads again (--again) has read so far; and what a sweep has walked of the customers.';
comment on column sync.run_lists.until is
  'Up to here: as the run was told, else up to the top of what was covered when it first looked. Of shelves and volumes: what was read before this time is read again.';
comment on column sync.run_lists.covered is 'With --again, and of a sweep: ranges that this run has read.';

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
comment on table sync.schedule_slots is
  'One row for each time at which the schedule was due: whichever process writes it first opens the run. Kept for 35 days.';
comment on column sync.schedule_slots.schedule is 'fresh or nightly.';
comment on column sync.schedule_slots.slot is 'When it was due.';
comment on column sync.schedule_slots.claimed_at is
  'When a process took it: later than the slot if nobody was there at the time. Of several missed slots only the last one is taken.';
comment on column sync.schedule_slots.claimed_by is 'The process of sync.workers that took it.';
comment on column sync.schedule_slots.run_id is 'The run that it opened; null if it opened none.';
comment on column sync.schedule_slots.skipped is 'Why it opened no run: another one was open.';

create table sync.plans (
  account_id text,
  kind text,
  question jsonb,
  made_at timestamptz not null,
  forecast jsonb not null,
  primary key (account_id, kind, question)
);
comment on table sync.plans is
  'What `plan` has answered last to each question. A run that is asked for the same within the hour is compared with it.';
comment on column sync.plans.kind is 'The kind of run: sync, backfill, sweep or verify.';
comment on column sync.plans.question is 'What of it was asked for: streams, range, sample.';
comment on column sync.plans.made_at is 'When it was answered.';
comment on column sync.plans.forecast is 'The answer: see sync.stored_runs.forecast.';

create or replace view sync.forecasts as
select r.account_id, r.id as run, r.kind, r.state, r.started_at,
  (r.forecast ->> 'requests')::bigint as forecast_requests,
  (r.forecast ->> 'credits')::bigint as forecast_credits,
  t.credits,
  round(t.credits / nullif((r.forecast ->> 'credits')::numeric, 0), 3) as credits_ratio,
  round((r.forecast ->> 'seconds')::numeric, 1) as forecast_seconds,
  round(extract(epoch from r.finished_at - r.started_at), 1) as seconds,
  round(extract(epoch from r.finished_at - r.started_at) / nullif((r.forecast ->> 'seconds')::numeric, 0), 3) as seconds_ratio,
  (r.forecast ->> 'counted_with_credits')::bigint as counted_with_credits
from sync.stored_runs r
cross join lateral (
  select sum(s.credits)::bigint as credits from sync.stored_run_streams s where s.run_id = r.id) t
where r.forecast is not null;
comment on view sync.forecasts is
  'What runs were expected to take beside what they took: one row for each run that was reckoned before it began. A ratio above 1: it took more.';
comment on column sync.forecasts.run is 'The run.';
comment on column sync.forecasts.kind is 'Its kind: sync, backfill, sweep or verify.';
comment on column sync.forecasts.state is
  'How it stands, as it was written down; see sync.runs. Ratios say something of runs that are over.';
comment on column sync.forecasts.started_at is 'When it began.';
comment on column sync.forecasts.forecast_requests is 'Requests that were expected.';
comment on column sync.forecasts.forecast_credits is
  'Credits that were expected. Those of the catalog, a request each, are among them.';
comment on column sync.forecasts.credits is 'Credits that it has used so far, or did.';
comment on column sync.forecasts.credits_ratio is 'Used, divided by expected.';
comment on column sync.forecasts.forecast_seconds is 'How long it was expected to take.';
comment on column sync.forecasts.seconds is
  'How long it took; null while it runs. One that was interrupted and gone on with: with the time between.';
comment on column sync.forecasts.seconds_ratio is 'Taken, divided by expected.';
comment on column sync.forecasts.counted_with_credits is 'Credits that were used beforehand, to count what there is.';
