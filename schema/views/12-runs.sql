comment on table sync.workers is
  'Processes that work for an account, or that watch a run of the account. A row may outlive its process: sync.is_alive(id) shows whether the process is alive.';
comment on column sync.workers.id is 'Number of the process, and of the lock that the process holds while alive.';
comment on column sync.workers.account_id is 'The operator''s name for the account.';
comment on column sync.workers.works is 'True if the process takes jobs; false for a command that only watches its run.';
comment on column sync.workers.host is 'The machine or the container.';
comment on column sync.workers.pid is 'Process id on that machine.';
comment on column sync.workers.version is 'Version of Shelfdesk.';
comment on column sync.workers.started_at is 'Start of the process, by its own clock.';
comment on column sync.workers.page_url is 'Address at which the process serves the page; null if it does not.';
comment on column sync.workers.page_error is
  'Why the process cannot serve the page at SHELFDESK_WEB_PORT; null if it can, or does not have to.';

create or replace function sync.is_alive(worker int) returns boolean
language sql stable
begin atomic
  -- Lock class 'SHSW'; see src/engine/runs/workers.ts.
  select exists (
    select from pg_locks l
    where l.locktype = 'advisory' and l.classid = 1397248855 and l.objid = worker::oid and l.objsubid = 2 and l.granted
      and l.database = (select d.oid from pg_database d where d.datname = current_database()));
end;
comment on function sync.is_alive is 'True if this process of sync.workers is alive, that is, if the process holds its lock.';

create or replace view sync.live_workers as
select w.id, w.account_id, w.works, w.host, w.pid, w.version, w.started_at, w.page_url, w.page_error
from sync.workers w
where w.id in (
  select l.objid::bigint from pg_locks l
  where l.locktype = 'advisory' and l.classid = 1397248855 and l.objsubid = 2 and l.granted
    and l.database = (select d.oid from pg_database d where d.datname = current_database()));
comment on view sync.live_workers is
  'Live processes of sync.workers, found in one scan of the locks. Use this view for several processes at a time, and sync.is_alive for a single one. Do not join this view row by row.';
comment on table sync.stored_runs is 'Runs as stored. A run whose process died is still `running` here; read sync.runs instead.';
comment on column sync.stored_runs.id is 'Number of the run.';
comment on column sync.stored_runs.kind is
  'sync, backfill, verify: a command. fresh, nightly: the schedule. fresh also resumes streams that the daily quota deferred. sweep: a command, a worker by day, or the nightly schedule. hydrate: fetches waiting tickets or volumes by id. audit: checks the mirror with credits that no other work needs.';
comment on column sync.stored_runs.state is
  'running, completed, partial (ended, but some data could not be read), failed, or interrupted (the next run resumes the work).';
comment on column sync.stored_runs.started_at is 'Start of the run.';
comment on column sync.stored_runs.finished_at is 'End of the run.';
comment on column sync.stored_runs.opened_by is 'The process of sync.workers that opened the run.';
comment on column sync.stored_runs.since is 'Start of the range of a backfill; null: from the beginning.';
comment on column sync.stored_runs.until is 'End of the range of a backfill.';
comment on column sync.stored_runs.again is
  'True if a backfill also re-reads synced ranges, or if a sweep also re-reads recently checked records.';
comment on column sync.stored_runs.again_before is
  'Time limit of a re-read, by the source''s clock; null until the first reply of the run. A backfill re-reads messages that were read before this time. In a sweep, customers last checked before this time become deletion candidates.';
comment on column sync.stored_runs.accept_deletions is
  'True for a sweep that may mark more than SWEEP_MOST_DELETED_PERCENT of a stream as deleted, after confirmation by a person.';
comment on column sync.stored_runs.forecast is
  'Forecast made before the run began: requests, credits and seconds, in total and by stream. Null if no forecast was made.';
comment on column sync.stored_runs.retries is
  'The run that this run retries at the request of a person; null for all other runs.';
comment on column sync.stored_runs.beside is
  'For a run that re-reads: the runs of the account that were open when this run opened.';

create or replace view sync.runs as
select r.id, r.account_id, r.kind,
  case when r.state = 'running' and not sync.is_alive(r.opened_by)
      -- Any worker resumes every open run. The process that opened a run starts to work if no worker is live.
      and not exists (
        select from sync.workers w where w.account_id = r.account_id and w.works and sync.is_alive(w.id))
    then 'interrupted' else r.state end as state,
  r.started_at, r.finished_at, r.opened_by, r.since, r.until, r.again, r.again_before
from sync.stored_runs r;
comment on view sync.runs is 'Runs that people, the schedule or a worker started, one row each.';
comment on column sync.runs.state is
  'running (or about to run, in a live process), completed, partial (ended, but some data could not be read), failed, or interrupted. interrupted without finished_at: no live process can resume the run until the next worker starts.';
comment on table sync.stored_run_streams is
  'Streams of runs as stored. A stream whose process died is still `running` here; read sync.run_streams instead.';
comment on column sync.stored_run_streams.token is
  'Fencing token. A process that takes up the stream raises the token; a commit with an older token fails.';
comment on column sync.stored_run_streams.state is 'waiting, running, completed, partial, failed or interrupted.';
comment on column sync.stored_run_streams.expected is
  'Number of records that the source counted for this run; of a sweep the rows that are here; null if nothing counted them.';
comment on column sync.stored_run_streams.seen is 'Records that arrived.';
comment on column sync.stored_run_streams.inserted is 'New rows in the mirror.';
comment on column sync.stored_run_streams.updated is 'Rows whose content changed.';
comment on column sync.stored_run_streams.unchanged is
  'Records that the mirror already holds, in the same version or a newer one.';
comment on column sync.stored_run_streams.deleted is 'Rows that got a tombstone, and members of sets that were removed.';
comment on column sync.stored_run_streams.rejected is 'Records that went to sync.rejects.';
comment on column sync.stored_run_streams.cleaned is
  'Characters that PostgreSQL cannot store (NUL, lone surrogates), replaced by U+FFFD.';
comment on column sync.stored_run_streams.credits is 'Credits used.';
comment on column sync.stored_run_streams.carried_from is
  'The run that read the stream instead of this run, for example an interrupted run that completed the stream moments before. Null if this run read the stream.';
comment on column sync.stored_run_streams.started_at is 'When work on the stream began.';
comment on column sync.stored_run_streams.finished_at is 'When work on the stream ended.';
comment on column sync.stored_run_streams.error is 'Problem with the stream in this run; null if none.';
comment on column sync.stored_run_streams.remedy is 'Recommended action for the problem.';
comment on column sync.stored_run_streams.exit_code is 'Exit code that the command line returns for this result.';
comment on column sync.stored_run_streams.worker is 'The process of sync.workers that works on the stream, or worked on it last.';
comment on column sync.stored_run_streams.job is 'The queue job that works on the stream, or worked on it last.';
comment on column sync.stored_run_streams.waits_for is 'The run that must first end its work on the same stream.';
comment on column sync.stored_run_streams.deferred_until is
  'Time at which a worker resumes the stream after the daily quota deferred it; null if not deferred.';
comment on column sync.stored_run_streams.answer is
  'An outage of the source that ended the stream, as: The help desk answers 503. Null otherwise.';
comment on column sync.stored_run_streams.failing_since is
  'When the first request of the outage failed. Null otherwise.';
comment on column sync.stored_run_streams.note is
  'Reason for a pause in the work, in words for people who watch the run; null while work proceeds.';

create or replace view sync.run_streams as
select s.run_id, s.account_id, s.stream, s.token,
  case when s.state = 'running' and not sync.is_alive(s.worker) then 'interrupted' else s.state end as state,
  s.expected, s.seen, s.inserted, s.updated, s.unchanged, s.deleted, s.rejected, s.cleaned, s.credits, s.carried_from,
  case when s.state = 'waiting' then s.waits_for end as waits_for,
  s.worker, s.job, s.started_at, s.finished_at, s.error, s.remedy, s.exit_code, s.deferred_until,
  s.source, s.stream_key
from sync.stored_run_streams s;
comment on view sync.run_streams is 'Progress and result of each run, stream by stream.';
comment on column sync.run_streams.state is
  'waiting, running, completed, partial, failed or interrupted. interrupted without finished_at: the process died, and the next live worker takes up the stream.';
comment on column sync.run_streams.carried_from is
  'The run that already read the stream, so that this run did not; null if this run read the stream.';
comment on table sync.run_lists is
  'Progress of runs in each list. For a backfill: the end of its range in the list, and with --again the ranges read so far. For a sweep: the ranges of customers walked so far.';
comment on column sync.run_lists.until is
  'End of the range of a backfill: the run''s own `until`, else the high-water mark when the run first read the list. Without a mark, or with --again, the default is the start of the run. For shelves and volumes, --again re-reads records that were read before this time. For a sweep: the start of its walk.';
comment on column sync.run_lists.covered is 'Ranges that this run has read; recorded for --again and for sweeps.';
comment on table sync.schedule_slots is
  'One row for each due time of the schedule. The first process that writes the row opens the run. Rows are kept for 35 days.';
comment on column sync.schedule_slots.schedule is 'The schedule: fresh or nightly.';
comment on column sync.schedule_slots.slot is 'Time when the run was due.';
comment on column sync.schedule_slots.claimed_at is
  'When a process claimed the slot; later than the slot if no process was live then. Of several missed slots, a process claims only the last one.';
comment on column sync.schedule_slots.claimed_by is 'The process of sync.workers that claimed the slot.';
comment on column sync.schedule_slots.run_id is 'The run that the slot opened; null if none.';
comment on column sync.schedule_slots.skipped is 'Why the slot opened no run: another run was open, or the streams were paused.';
comment on table sync.plans is
  'Latest forecast of `plan` for each question. A run of the same question within one hour is compared with this forecast.';
comment on column sync.plans.kind is 'The kind of run: sync, backfill, sweep or verify.';
comment on column sync.plans.question is 'Scope of the forecast: streams, range, sample.';
comment on column sync.plans.made_at is 'When the forecast was made.';
comment on column sync.plans.forecast is 'The forecast: see sync.stored_runs.forecast.';

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
  'Forecast and actual cost of runs, one row for each run with a forecast. A ratio above 1 means that the run took more than its forecast.';
comment on column sync.forecasts.run is 'The run.';
comment on column sync.forecasts.kind is 'Kind of the run: sync or backfill.';
comment on column sync.forecasts.state is
  'State of the run as stored; see sync.runs. Ratios are meaningful only for finished runs.';
comment on column sync.forecasts.started_at is 'Start of the run.';
comment on column sync.forecasts.forecast_requests is 'Forecast number of requests.';
comment on column sync.forecasts.forecast_credits is
  'Forecast number of credits, including those of the catalog at one credit a request.';
comment on column sync.forecasts.credits is 'Credits that the run has used so far, or in total after its end.';
comment on column sync.forecasts.credits_ratio is 'Used credits divided by forecast credits.';
comment on column sync.forecasts.forecast_seconds is 'Forecast duration in seconds.';
comment on column sync.forecasts.seconds is
  'Actual duration in seconds; null while the run is running. For an interrupted run that resumed, the duration includes the time between.';
comment on column sync.forecasts.seconds_ratio is 'Actual duration divided by forecast duration.';
comment on column sync.forecasts.counted_with_credits is 'Credits used before the run to count the records at the source.';
comment on table sync.request_logs is
  'The last requests of each stream of a run, for its page. Kept for a day, and emptied by a crash of the server: nothing depends on it.';
comment on column sync.request_logs.run_id is 'The run.';
comment on column sync.request_logs.stream_key is 'Key of the stream: source.stream, as helpdesk.tickets.';
comment on column sync.request_logs.account_id is 'The operator''s name for the account.';
comment on column sync.request_logs.written_at is 'When the row was last written.';
comment on column sync.request_logs.requests is
  'The last 30 requests and waits, oldest first: at, request, status, ms, credits, says.';
