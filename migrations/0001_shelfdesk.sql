-- Up Migration

-- Schemas and extensions.

-- The schema sync and its table of migrations exist before the first migration.
create schema if not exists sync;
create schema helpdesk;
create schema books;
create schema analytics;
create schema internal;
create schema safe;
comment on schema sync is 'Records of the sync itself: synced ranges, times of runs, costs in credits, and gaps.';
comment on schema helpdesk is
  'The mirror of the help desk. Read sync.status to see up to when each table is complete.';
comment on schema books is
  'The mirror of the book catalog: shelves, their volumes, and the history of each volume''s place. Read sync.status to see up to when the mirror is complete.';
comment on schema analytics is
  'Facts and metrics for analysts, updated in the same commit as the ticket. No row names a person. Readers see only rows of accounts that they may read.';
comment on schema internal is 'Computation and storage of the metrics. Readers have no access: analytics shows the results.';
comment on schema safe is
  'The mirror of the help desk without personal data. Identifying values are left out, or replaced by keyed hashes: equal values have equal hashes.';

-- Trusted extensions: a role that may create schemas may also create these extensions.
create extension if not exists btree_gist with schema sync;
create extension if not exists btree_gin with schema sync;
create extension if not exists pg_trgm with schema sync;

-- Function bodies name tables that later files create.
set local check_function_bodies = off;
-- Accounts, their sources, and the streams of each source.

-- A time without a zone would depend on the settings of the role that runs the migration.
alter table sync.migrations alter column run_on type timestamptz;
comment on table sync.migrations is 'Migrations that were applied to this database, one row each.';
comment on column sync.migrations.id is 'Order in which the migrations were applied.';
comment on column sync.migrations.name is 'Name of the file in migrations/, without .sql.';
comment on column sync.migrations.run_on is 'When the migration was applied.';

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
  'Start of the range that the mirror reads (HELPDESK_SINCE); 1970-01-01 means everything.';
comment on column sync.accounts.queue is
  'Id of the account''s job queue. A separate id keeps warehouses apart that share one Redis.';
comment on column sync.accounts.mirrored_since is
  'Start of the mirror. Later changes are new; earlier changes are history that the first load reads.';
comment on column sync.accounts.lookback is
  'Lookback window: the longest delay until the source shows a change, as last set (HELPDESK_LOOKBACK_SECONDS). A reply may miss changes that happened less than this long before it.';

create table sync.sources (
  account_id text,
  source text,
  address text not null,
  primary key (account_id, source)
);
comment on table sync.sources is 'The sources of each account, one row each. All rows of a source come from this one address.';
comment on column sync.sources.account_id is 'The account.';
comment on column sync.sources.source is 'The source, which is also the schema of its tables: helpdesk or books.';
comment on column sync.sources.address is 'Base address of the source. The first sync binds the account to this address.';

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
comment on table sync.streams is 'Mirrored streams, one row each.';
comment on column sync.streams.stream is 'Short name of the stream, unique within its source.';
comment on column sync.streams.source is
  'The source of the stream: helpdesk or books. Streams of two sources do not wait for each other.';
comment on column sync.streams.place is
  'Position of the stream in a run. A run reads the streams of one source one after the other.';
comment on column sync.streams.follows is
  'The stream of the same source whose records name the ids to fetch; null for streams that are read as lists.';
comment on column sync.streams.one_reader is
  'True if only one run at a time reads the stream. False if a backfill may read gaps of the stream concurrently with another run.';
comment on column sync.streams.stream_key is
  'Key of the stream, unique across all sources: source.stream, for example helpdesk.tickets.';
comment on column sync.streams.personal is
  'True if tables of the stream hold personal data. Readers without the right to personal data read masked views in the schema safe.';
comment on column sync.streams.deletions is 'Why deletions in the stream are unknown; null if the mirror finds deletions.';
comment on column sync.streams.swept is 'True if a sweep re-reads the stream to find deletions and silent changes.';

create or replace view sync.source_schemas as
select source::name as name, bool_or(personal) as personal from sync.streams group by source;
comment on view sync.source_schemas is 'Schemas of mirrored tables, one for each source.';
comment on column sync.source_schemas.name is 'The schema, named after its source.';
comment on column sync.source_schemas.personal is 'True if at least one stream of the source holds personal data.';

create table sync.source_files (
  source text,
  name text,
  checksum text not null,
  run_on timestamptz default now() not null,
  primary key (source, name)
);
comment on table sync.source_files is
  'Schema files of sources that were applied to this database. Shelfdesk refuses later edits of an applied file.';
comment on column sync.source_files.source is 'The source that owns the file.';
comment on column sync.source_files.name is 'Name of the file.';
comment on column sync.source_files.checksum is 'SHA-256 of the file when it was applied.';
comment on column sync.source_files.run_on is 'When the file was applied.';

create or replace function sync.key_of(stream text) returns text
language sql stable
begin atomic
  select case when strpos(key_of.stream, '.') > 0 then key_of.stream else (
    select min(k.stream_key) from sync.streams k where k.stream = key_of.stream having count(*) = 1) end;
end;
comment on function sync.key_of is
  'Key of a stream (source.stream), from the key itself or from a short name that only one source has. Any other short name gives null.';

create or replace function sync.option_of(account text) returns text
language sql immutable
begin atomic
  select case when account = 'default' then '' else ' --account ' || account end;
end;
comment on function sync.option_of is 'Command-line option that selects this account; empty for the account named default.';

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
  'Streams and accounts that people paused. No run reads a paused stream until people resume it. Meanwhile open runs wait, and the schedule skips paused streams.';
comment on column sync.paused.stream is 'The paused stream; empty for the whole account.';
comment on column sync.paused.paused_at is 'Start of the pause.';
comment on column sync.paused.paused_by is 'The person who paused the stream or account: see sync.operations.who.';
comment on column sync.paused.reason is 'Reason for the pause, in the person''s own words.';
comment on column sync.paused.source is 'Source of the paused stream: helpdesk or books. Empty for the whole account.';
comment on column sync.paused.stream_key is
  'Key of the paused stream: source.stream, for example helpdesk.tickets. Empty for the whole account.';

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
  'Actions of people at a terminal or on the page, one row for each action and account, refused actions included. Actions: pause and resume; start of a run on the page; cancel and retry of a run; erasure of a customer; access of readers; calendars. Runs that a command starts are in sync.runs.';
comment on column sync.operations.id is 'Number of the action.';
comment on column sync.operations.at is 'When the action happened.';
comment on column sync.operations.account_id is 'The operator''s name for the mirrored account.';
comment on column sync.operations.who is
  'The person: user and machine of a terminal, or role and address of a browser. The worker, when a customer comes back after an erasure and the worker erases the customer again.';
comment on column sync.operations.action is
  'The action: run, pause, resume, retry, cancel, erase, let a reader in, revoke a reader, calendar.';
comment on column sync.operations.subject is
  'Object of the action: a stream, a run, a kind of run, a customer, a reader or a calendar; empty for the whole account.';
comment on column sync.operations.outcome is 'Result of the action, or the reason for the refusal.';

create or replace function sync.in_words(span interval) returns text
language sql immutable
begin atomic
  select case
    when s < 90 then round(s) || ' s' when s < 90 * 60 then round(s / 60) || ' min'
    when s < 48 * 3600 then round(s / 3600) || ' h' else round(s / 86400) || ' d' end
  from (select greatest(0, extract(epoch from span)) as s) seconds;
end;
comment on function sync.in_words is 'A time span in short form, rounded to one unit: 3 s, 4 min, 33 h, 9 d.';

create or replace function sync.counted(n bigint, one text, many text default null) returns text
language sql immutable
begin atomic
  select n || ' ' || case n when 1 then one else coalesce(many, one || 's') end;
end;
comment on function sync.counted is 'A number with its noun: 1 record, 2 records. Without `many`, the plural adds an s.';

insert into sync.streams (stream, source, place, follows, one_reader, personal, swept) values
  ('users', 'helpdesk', 1, null, false, true, false),
  ('customers', 'helpdesk', 2, null, false, true, true),
  ('tickets', 'helpdesk', 3, null, false, true, true),
  ('messages', 'helpdesk', 4, 'tickets', true, true, false),
  ('shelves', 'books', 5, null, true, false, false),
  ('volumes', 'books', 6, 'shelves', true, false, false);
-- Credits: requests in flight, and spent credits.

create table sync.budget (
  account_id text,
  version bigint default 1 not null,
  source text default 'helpdesk',
  state json not null,
  primary key (account_id, source)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table sync.budget is
  'Current credits of each source of an account, shared by all processes on all machines. For reports read sync.credit_minutes.';
comment on column sync.budget.account_id is 'The operator''s name for the account.';
comment on column sync.budget.version is
  'Grows by one at each change. A change based on an older version is refused and retried.';
comment on column sync.budget.source is
  'helpdesk or books: each source has its own credits. A credit of the catalog is a request.';
comment on column sync.budget.state is
  'Requests in flight, requests answered within the last period, waiting requests, and the last limits that the source sent. Times are milliseconds since 1970 by the clock of this database.';

create table sync.credit_minutes (
  account_id text,
  minute timestamptz,
  credit_limit bigint not null,
  interactive bigint default 0 not null,
  fresh bigint default 0 not null,
  backfill bigint default 0 not null,
  others bigint default 0 not null,
  waited_ms bigint default 0 not null,
  refused bigint default 0 not null,
  source text default 'helpdesk',
  sweep bigint default 0 not null,
  requests bigint default 0 not null,
  took_ms bigint default 0 not null,
  followed bigint default 0 not null,
  between_ms bigint default 0 not null,
  minutes integer default 1 not null,
  primary key (account_id, source, minute)
);
comment on table sync.credit_minutes is
  'Credits that an account spent, by purpose. One row a minute; after five weeks one row an hour; after one year one row a day. Times without requests have no row.';
comment on column sync.credit_minutes.account_id is 'The operator''s name for the account.';
comment on column sync.credit_minutes.minute is
  'Start of the minute or the hour, by the clock of this database. For a day: start of the first hour with a request. A request counts in the minute of its reply.';
comment on column sync.credit_minutes.credit_limit is
  'Credits in a period for all clients of the account together, as of the last reply.';
comment on column sync.credit_minutes.interactive is 'Credits that Shelfdesk used for requests with a person waiting.';
comment on column sync.credit_minutes.fresh is 'Credits that Shelfdesk used to keep up with recent changes.';
comment on column sync.credit_minutes.backfill is 'Credits that Shelfdesk used to read history.';
comment on column sync.credit_minutes.others is
  'Highest usage by other clients of the account in one period, as seen in this minute. For an hour or a day: the sum over its minutes.';
comment on column sync.credit_minutes.waited_ms is
  'Total time that the requests of this row waited for credits, in milliseconds.';
comment on column sync.credit_minutes.refused is
  'Requests that the source refused for lack of credits (429; for the catalog also 403). A refusal counts as credits only if the source said so.';
comment on column sync.credit_minutes.source is 'helpdesk or books. A credit of the catalog is a request.';
comment on column sync.credit_minutes.sweep is 'Credits that Shelfdesk used to re-read data: sweeps, audits, verifications.';
comment on column sync.credit_minutes.requests is
  'Answered requests, including refusals and time-outs. Rows from before this column existed have 0.';
comment on column sync.credit_minutes.took_ms is 'Total time from the grant of credits to the reply, in milliseconds.';
comment on column sync.credit_minutes.followed is
  'Requests of this row that immediately followed another request of the same process, with no other request in flight.';
comment on column sync.credit_minutes.between_ms is
  'Total time from the previous reply to the next request, for the requests in `followed`, in milliseconds. The process stores the reply in this time.';
comment on column sync.credit_minutes.minutes is
  'Length of the row in minutes: 1, an hour (60) or a day (1440) of the account''s time zone.';

alter table sync.budget alter column state set storage main;
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
  'Processes that work for an account, or that watch a run of the account. A row may outlive its process: sync.is_alive(id) shows whether the process is alive.';
comment on column sync.workers.id is 'Number of the process, and of the lock that the process holds while alive.';
comment on column sync.workers.account_id is 'The operator''s name for the account.';
comment on column sync.workers.works is 'True if the process takes jobs; false for a command that only watches its run.';
comment on column sync.workers.host is 'The machine or the container.';
comment on column sync.workers.pid is 'Process id on that machine.';
comment on column sync.workers.version is 'Version of Shelfdesk.';
comment on column sync.workers.started_at is 'Start of the process, by its own clock.';

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
select w.id, w.account_id, w.works, w.host, w.pid, w.version, w.started_at
from sync.workers w
where w.id in (
  select l.objid::bigint from pg_locks l
  where l.locktype = 'advisory' and l.classid = 1397248855 and l.objsubid = 2 and l.granted
    and l.database = (select d.oid from pg_database d where d.datname = current_database()));
comment on view sync.live_workers is
  'Live processes of sync.workers, found in one scan of the locks. Use this view for several processes at a time, and sync.is_alive for a single one. Do not join this view row by row.';

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
comment on table sync.stored_runs is 'Runs as stored. A run whose process died is still `running` here; read sync.runs instead.';
comment on column sync.stored_runs.id is 'Number of the run.';
comment on column sync.stored_runs.kind is
  'sync, backfill, verify: a command. fresh, nightly: the schedule. fresh also resumes streams that the daily quota deferred. sweep: a command or the nightly schedule. hydrate: fetches waiting tickets or volumes by id. audit: checks the mirror with credits that no other work needs.';
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
  'Streams of runs as stored. A stream whose process died is still `running` here; read sync.run_streams instead.';
comment on column sync.stored_run_streams.token is
  'Fencing token. A process that takes up the stream raises the token; a commit with an older token fails.';
comment on column sync.stored_run_streams.state is 'waiting, running, completed, partial, failed or interrupted.';
comment on column sync.stored_run_streams.expected is
  'Number of records that the source counted for this run; null if the run did not ask for a count.';
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
comment on column sync.stored_run_streams.sleeps_until is
  'Time at which a worker resumes the stream after the daily quota deferred it; null if not deferred.';
comment on column sync.stored_run_streams.note is
  'Reason for a pause in the work, in words for people who watch the run; null while work proceeds.';

create or replace view sync.run_streams as
select s.run_id, s.account_id, s.stream, s.token,
  case when s.state = 'running' and not sync.is_alive(s.worker) then 'interrupted' else s.state end as state,
  s.expected, s.seen, s.inserted, s.updated, s.unchanged, s.deleted, s.rejected, s.cleaned, s.credits, s.carried_from,
  case when s.state = 'waiting' then s.waits_for end as waits_for,
  s.worker, s.job, s.started_at, s.finished_at, s.error, s.remedy, s.exit_code, s.sleeps_until,
  s.source, s.stream_key
from sync.stored_run_streams s;
comment on view sync.run_streams is 'Progress and result of each run, stream by stream.';
comment on column sync.run_streams.state is
  'waiting, running, completed, partial, failed or interrupted. interrupted without finished_at: the process died, and the next live worker takes up the stream.';
comment on column sync.run_streams.carried_from is
  'The run that already read the stream, so that this run did not; null if this run read the stream.';

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
  'Progress of runs in each list. For a backfill: the end of its range in the list, and with --again the ranges read so far. For a sweep: the ranges of customers walked so far.';
comment on column sync.run_lists.until is
  'End of the range of a backfill: the run''s own `until`, else the high-water mark when the run first read the list. Without a mark, or with --again, the default is the start of the run. For shelves and volumes, --again re-reads records that were read before this time. For a sweep: the start of its walk.';
comment on column sync.run_lists.covered is 'Ranges that this run has read; recorded for --again and for sweeps.';

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
  'One row for each due time of the schedule. The first process that writes the row opens the run. Rows are kept for 35 days.';
comment on column sync.schedule_slots.schedule is 'The schedule: fresh or nightly.';
comment on column sync.schedule_slots.slot is 'Time when the run was due.';
comment on column sync.schedule_slots.claimed_at is
  'When a process claimed the slot; later than the slot if no process was live then. Of several missed slots, a process claims only the last one.';
comment on column sync.schedule_slots.claimed_by is 'The process of sync.workers that claimed the slot.';
comment on column sync.schedule_slots.run_id is 'The run that the slot opened; null if none.';
comment on column sync.schedule_slots.skipped is 'Why the slot opened no run: another run was open, or the streams were paused.';

create table sync.plans (
  account_id text,
  kind text,
  question jsonb,
  made_at timestamptz not null,
  forecast jsonb not null,
  primary key (account_id, kind, question)
);
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
comment on column sync.forecasts.kind is 'Kind of the run: sync, backfill, sweep or verify.';
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
-- Common parts of all mirrored tables: changes of rows, and change latency.

create table sync.changes (
  id bigint generated always as identity primary key,
  account_id text not null,
  table_name text not null,
  record_id text not null,
  parent_id text,
  seen_at timestamptz not null,
  as_of timestamptz not null,
  run_id bigint,
  changes jsonb not null
);
create index changes_record on sync.changes (account_id, table_name, record_id, id);
create index changes_parent on sync.changes (account_id, table_name, parent_id, id) where (parent_id is not null);
create index changes_seen on sync.changes (account_id, seen_at);
create index changes_given on sync.changes (account_id, record_id) where ((table_name = 'tickets') and (changes ? 'customer_id'));
comment on table sync.changes is
  'Old and new values of mirrored rows, one row for each change or removal. New records have no row here: see _first_seen_at. Relations between records have their own history: helpdesk.ticket_history, books.shelf_volume_history.';
comment on column sync.changes.id is 'Number of the change, in the order in which the mirror saw the changes.';
comment on column sync.changes.table_name is
  'tickets, messages, attachments, customers, contacts, users, labels, inboxes, shelves, volumes or shelf_volumes.';
comment on column sync.changes.record_id is 'Id of the changed row; joins the id of its table. For shelf_volumes: volume_id.';
comment on column sync.changes.parent_id is
  'The ticket of a message or an attachment, the customer of a contact, the owner of a shelf. For shelf_volumes: owner/shelf. Null otherwise.';
comment on column sync.changes.seen_at is
  'When the mirror stored the change, by the worker''s clock. Only updated_at shows when the change happened at the source.';
comment on column sync.changes.as_of is
  'The source showed the new values at this time, by its own clock. For a tombstone: the record was gone by this time.';
comment on column sync.changes.run_id is 'The run that stored the change; null if a person replayed a reject.';
comment on column sync.changes.changes is
  'Changed fields, each as [old, new]: columns by name, and fields of _payload without a column. {} if only the spelling differs. With "id": the row was removed. With "_messages_as_of": the messages of the ticket were re-read.';

create or replace function sync.kept_of(payload jsonb, kept text[]) returns jsonb
language sql immutable parallel safe
begin atomic
  select coalesce(jsonb_object_agg(p.key, p.value), '{}')
  from jsonb_each(case when jsonb_typeof(payload) = 'object' then payload else '{}' end) p
  where p.key = any (kept);
end;
comment on function sync.kept_of is 'The fields of an object that have one of these names.';

-- Labels of tickets and places of volumes are only in ticket_history and shelf_volume_history; other changes are here.
create or replace function sync.keep_change() returns trigger
language plpgsql
-- The worker forces a new query plan for each page. In this trigger that would mean a new plan for each row.
set plan_cache_mode = force_generic_plan
as $$
declare
  -- Names to skip: table columns that belong to another record or derive from other columns, and _payload fields with a column.
  besides constant text[] := tg_argv[1]::text[];
  merge constant text := current_setting('shelfdesk.merge', true);
  parent constant text[] := string_to_array(tg_argv[0], ',');
  before constant jsonb := to_jsonb(old);
  after constant jsonb := case when tg_op = 'UPDATE' then to_jsonb(new) else '{}' end;
  changes jsonb;
begin
  if merge is null or merge = '' then return null; end if;
  select coalesce(jsonb_object_agg(d.field, jsonb_build_array(d.old, d.new)), '{}') into changes
  from (
    select b.key as field, b.value as old, after -> b.key as new
    from jsonb_each(before) b
    where b.value <> coalesce(after -> b.key, 'null') and b.key <> all (besides)
      and (b.key not like '\_%' or b.key like any ('{\\_deleted%,\\_messages%}'))
    union all
    select coalesce(b.key, a.key), b.value, a.value
    from jsonb_each(before -> '_payload') b full join jsonb_each(after -> '_payload') a on a.key = b.key
    where b.value is distinct from a.value and not before ? coalesce(b.key, a.key)
      and coalesce(b.key, a.key) <> all (besides)) d;
  if changes = '{}' and before -> '_payload' = after -> '_payload' then return null; end if;
  insert into sync.changes (account_id, table_name, record_id, parent_id, seen_at, as_of, run_id, changes)
  values (old.account_id, tg_table_name, before ->> coalesce(tg_argv[2], 'id'),
    (select string_agg(before ->> p.name, '/' order by p.place) from unnest(parent) with ordinality p (name, place)),
    (merge::jsonb ->> 'seen_at')::timestamptz, coalesce(merge::jsonb ->> 'as_of', after ->> '_deleted_at')::timestamptz, (merge::jsonb ->> 'run')::bigint, changes);
  return null;
end
$$;
comment on function sync.keep_change is
  'Records the old and new values in sync.changes when a merge changes a row, marks it as deleted or removes it. Arguments: the columns that name the parent, the names to skip, and the id column if not `id`.';

create or replace function sync.add_mirror(mirrored regclass) returns void
language plpgsql
as $$
begin
  execute format('alter table %s
    add column _first_seen_at timestamptz not null,
    add column _synced_at timestamptz not null,
    add column _observed_at timestamptz not null,
    add column _deleted_at timestamptz,
    add column _payload jsonb not null', mirrored);
  execute format('comment on column %s._first_seen_at is %L', mirrored, 'When the mirror first stored the record, by the clock of the worker.');
  execute format('comment on column %s._synced_at is %L', mirrored, 'When the mirror last changed the row, by the clock of the worker.');
  execute format('comment on column %s._observed_at is %L', mirrored, 'The reply that the row comes from holds all changes up to this time, by the clock of the source.');
  execute format('comment on column %s._deleted_at is %L', mirrored, 'When the record was found to be deleted at the source; null while it exists.');
  execute format('comment on column %s._payload is %L', mirrored, 'The record as the source sent it.');
  execute format('create trigger keep_change after update or delete on %s
    for each row execute function sync.keep_change(%L, %L)', mirrored, '', '{account_id}');
end
$$;
comment on function sync.add_mirror is
  'Turns a table with account_id and id into a mirrored table: adds the columns of every mirrored table, and records its changes in sync.changes.';

create or replace function sync.true_by(true_by timestamptz, observed_at timestamptz) returns timestamptz
language sql immutable
begin atomic
  select coalesce(true_by, observed_at + interval '1 minute');
end;
comment on function sync.true_by is
  'Time by which the source had shown the content of a row: true_by, or one minute after observed_at if true_by is null.';

create or replace function sync.dated(updated_at timestamptz, observed_at timestamptz) returns timestamptz
language sql stable
begin atomic
  select case when updated_at > observed_at + interval '1 hour' then observed_at else updated_at end;
end;
comment on function sync.dated is
  'Date of a ticket version: updated_at, or observed_at if updated_at is more than one hour later. Such a late updated_at is an error of the source''s clock.';

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
comment on table sync.change_latencies is
  'Change latency: time from a change at the source to its row in the mirror. Counts by whole second, for each minute of arrival. Only changes after the start of the mirror count.';
comment on column sync.change_latencies.stream is
  'The stream. A change of messages counts once all messages of the ticket are in the mirror.';
comment on column sync.change_latencies.minute is
  'Minute in which the changes were stored in the mirror, by the source''s clock.';
comment on column sync.change_latencies.latency_seconds is
  'Seconds from the change at the source to its row in the mirror, by the source''s clock.';
comment on column sync.change_latencies.changes is 'Number of changes.';

create or replace function sync.change_latency(account text, stream text, percent numeric, since timestamptz default now() - interval '1 hour')
returns interval
language sql stable
begin atomic
  select make_interval(secs => min(c.latency_seconds)) from (
    select a.latency_seconds, sum(a.changes) over (order by a.latency_seconds) as upto, sum(a.changes) over () as total
    from (
      select g.latency_seconds, sum(g.changes) as changes from sync.change_latencies g
      where g.account_id = account and g.stream_key = sync.key_of(change_latency.stream) and g.minute >= since + coalesce((
        select (b.state #>> '{clock,offsetMs}')::float8 * interval '1 millisecond'
        from sync.streams k join sync.budget b on (b.account_id, b.source) = (account, k.source)
        where k.stream_key = sync.key_of(change_latency.stream)), interval '0')
      group by 1) a) c
  where c.upto >= c.total * percent / 100;
end;
comment on function sync.change_latency is
  'Percentile of the change latency since a given time (default: the last hour); null if no change arrived. Example: change_latency(account, stream, 95) is the p95.';

revoke execute on function sync.add_mirror(regclass) from public;
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
  stream_key text generated always as (source || '.' || stream) stored not null
);
create unique index rejects_open on sync.rejects (account_id, stream_key, key) where (cleared_at is null);
create index rejects_ask on sync.rejects (account_id, stream_key, ask_id) where (cleared_at is null);
create index rejects_of_record on sync.rejects (record_id, account_id, stream_key) where (length(record_id) <= 500);
create index rejects_asked on sync.rejects (ask_id, account_id, stream_key);
comment on table sync.rejects is
  'Rejects: records that could not be stored, and tickets and volumes that could not be fetched by id. A reject never blocks other records.';
comment on column sync.rejects.id is 'Number of the reject.';
comment on column sync.rejects.key is 'Id of the record, or a hash of its text if the id is unreadable.';
comment on column sync.rejects.record_id is 'Id of the record; null if unreadable.';
comment on column sync.rejects.ask_id is
  'Id for the next fetch: the record''s own id, or that of its ticket. For shelves: the owner, shelf or volumes of the shelf that showed the record.';
comment on column sync.rejects.reason is 'Reason for the rejection.';
comment on column sync.rejects.payload is 'The record as JSON text; null if no record arrived.';
comment on column sync.rejects.replayable is 'True if the stored payload can be retried without a request.';
comment on column sync.rejects.attempts is 'Number of attempts.';
comment on column sync.rejects.first_seen_at is 'Time of the first rejection.';
comment on column sync.rejects.last_seen_at is 'Time of the last rejection.';
comment on column sync.rejects.next_try_at is
  'When the next fetch by id is due; the run that is active then makes the request. Null: no automatic retry. Rejects of shelves are never fetched by id: shelves are re-read when they change or reach a set age.';
comment on column sync.rejects.gone_at is
  'When the source first answered a fetch by id that the record no longer exists. A second such answer gives a ticket its tombstone.';
comment on column sync.rejects.cleared_at is
  'When a version that could be stored cleared the reject; null while the reject is open.';
comment on column sync.rejects.as_of is
  'The source showed the payload at this time, by its own clock; null if no record arrived.';
comment on column sync.rejects.place is 'Position in the reply, from 1. For a message: position within its ticket.';

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
comment on table sync.drift is
  'Drift: differences between the source and its documentation. Drift is counted and causes no reject.';
comment on column sync.drift.kind is
  'unknown_field, unknown_value, wrong_type. unstorable: characters that PostgreSQL cannot store. simplified_html: a body with too much markup; body_text keeps its words without its layout. repeated_id: an id that occurs twice in a reply, or that belongs to another record already (two tickets with one message). Only one row is kept. clock: the source''s clock moved by more than the lookback.';
comment on column sync.drift.path is
  'Place of the field in the record. The path … collects all difference kinds after the first hundred of a reply.';
comment on column sync.drift.value is
  'The unknown value. For an id that moved from one record to another: "of another record". For clock: the size of the move. Empty otherwise.';
comment on column sync.drift.seen is 'Number of occurrences.';
comment on column sync.drift.first_seen_at is 'Time of the first occurrence.';
comment on column sync.drift.last_seen_at is 'Time of the last occurrence.';
comment on column sync.drift.sample is
  'A record with this drift, as JSON text, cut at 2,000 characters. Null if none is kept: older versions of Shelfdesk stored no samples, and erasures remove samples.';

create table sync.source_behaviour (
  account_id text,
  question text,
  answer text not null,
  evidence text not null,
  credits integer not null,
  found_at timestamptz not null,
  primary key (account_id, question)
);
comment on table sync.source_behaviour is
  'How this source behaves where its specification is unclear, as found by `doctor`. The mirror is correct under every reading; this table names the actual one.';
comment on column sync.source_behaviour.question is 'The open question.';
comment on column sync.source_behaviour.answer is 'The finding; unknown if no data at the source could tell.';
comment on column sync.source_behaviour.evidence is 'Evidence for the finding.';
comment on column sync.source_behaviour.credits is 'Credits used for the finding.';
comment on column sync.source_behaviour.found_at is 'When the finding was made.';
-- Coverage: synced ranges, and the gaps between them.

create table sync.coverage (
  account_id text,
  stream text not null,
  list text,
  covered tstzmultirange default '{}' not null,
  redundant boolean default false not null,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored,
  primary key (account_id, stream_key, list)
);
comment on table sync.coverage is
  'Synced ranges: for each list of a stream, the time ranges in which the mirror holds all records that the source showed.';
comment on column sync.coverage.stream is
  'users, customers, tickets or shelves. Gaps in messages and volumes follow from tickets and shelves.';
comment on column sync.coverage.list is
  'default, or a separate list that the source may hide from the default one (spam, trash). For shelves: their owner.';
comment on column sync.coverage.covered is
  'Synced ranges, read and committed. Tickets: ranges of update time. Customers: ranges of creation time. Users and shelves: the range up to the last full read.';
comment on column sync.coverage.redundant is
  'True once the default list showed records of this list, so that no run needs to read this list.';

create or replace view sync.separate_lists as
select c.account_id, bool_or(c.list = 'spam') as spam, bool_or(c.list = 'trash') as trash
from sync.coverage c
where c.stream_key = 'helpdesk.tickets' and not c.redundant
group by c.account_id;
comment on view sync.separate_lists is
  'Tickets that the default list of an account may hide, so that runs read them in separate lists.';
comment on column sync.separate_lists.account_id is 'The account.';
comment on column sync.separate_lists.spam is 'True if spam is read in a separate list.';
comment on column sync.separate_lists.trash is 'True if the trash is read in a separate list.';

create table sync.gap_reasons (
  account_id text,
  stream text not null,
  list text,
  gap tstzrange,
  reason text not null,
  found_at timestamptz not null,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored,
  primary key (account_id, stream_key, list, gap)
);
comment on table sync.gap_reasons is 'Reasons why ranges could not be read. sync.gaps shows whether a range is still a gap.';
comment on column sync.gap_reasons.gap is 'The range that could not be read.';
comment on column sync.gap_reasons.reason is 'Reason for the failure.';
comment on column sync.gap_reasons.found_at is 'When the failure was found.';

create or replace view sync.gaps as
select c.account_id, c.stream, c.list, lower(h.gap) as gap_from, upper(h.gap) as gap_to,
  (select string_agg(distinct r.reason, '; ')
   from sync.gap_reasons r
   where r.account_id = c.account_id and r.stream_key = c.stream_key and r.list = c.list and r.gap && h.gap) as reason,
  c.source, c.stream_key
from sync.coverage c
join sync.accounts a using (account_id)
cross join unnest(
  case when isempty(c.covered) then '{}'::tstzmultirange
    else tstzmultirange(tstzrange(a.since, greatest(a.since, upper(c.covered)))) - c.covered
  end) as h (gap)
where not c.redundant;
comment on view sync.gaps is 'Gaps: unread ranges below the high-water mark, with the reason where known.';
comment on column sync.gaps.account_id is 'The account.';
comment on column sync.gaps.stream is 'The stream.';
comment on column sync.gaps.list is 'The list of the stream.';
comment on column sync.gaps.gap_from is 'Start of the gap.';
comment on column sync.gaps.gap_to is 'End of the gap, exclusive.';
comment on column sync.gaps.reason is 'Why the gap could not be read; null if the range is merely unread.';

create table sync.walks (
  account_id text,
  stream text not null,
  list text,
  since timestamptz not null,
  as_of timestamptz not null,
  page integer not null,
  deep boolean not null,
  until timestamptz default 'infinity',
  updated_since timestamptz,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored,
  primary key (account_id, stream_key, list, until)
);
comment on table sync.walks is
  'Positions of unfinished walks through a list: by pages, from the last page to the first, or by creation time. A walk proves nothing before its end, and then becomes coverage.';
comment on column sync.walks.since is 'The walk reads everything created since this time.';
comment on column sync.walks.as_of is 'The walk proves which records existed at this time.';
comment on column sync.walks.page is 'Next page to read; counts down to 1.';
comment on column sync.walks.deep is 'True if the list is longer than paging reaches, so that another walk must follow.';
comment on column sync.walks.until is 'The walk reads records created before this time; infinity: all records.';
comment on column sync.walks.updated_since is
  'The walk reads only records updated since this time, in order of creation, from `since` on. Null: a walk by pages.';

create table sync.ties (
  account_id text,
  stream text not null,
  list text,
  seconds tstzrange,
  told_by timestamptz not null,
  members text[] not null,
  held boolean default false not null,
  source text not null,
  stream_key text generated always as (source || '.' || stream) stored,
  primary key (account_id, stream_key, list, seconds)
);
comment on table sync.ties is
  'Ties: seconds shared by many records, read by pages. A record may have left its second before the last page arrived, so that pages missed other records. Until a sync rules this out, the second counts as synced, unless `held`. If a record did leave, the second becomes a gap and is re-read.';
comment on column sync.ties.seconds is 'Range that the pages proved.';
comment on column sync.ties.told_by is
  'When the last page arrived, by the source''s clock. The tie is certain once a sync has read all changes up to this time.';
comment on column sync.ties.members is 'Records on the pages of the tie; each joins the id of its table.';
comment on column sync.ties.held is
  'True if a reply showed a ticket in this second in an earlier version than its row, and the two versions cannot be ordered. The second counts as synced only when re-read after told_by and the lookback.';

create or replace function sync.lists_complete_through(account text, stream text) returns timestamptz
language sql stable
begin atomic
  select case when bool_and(not isempty(c.covered))
    then least(
      min(lower(tstzmultirange(tstzrange(a.since, null)) - c.covered)),
      min((
        select min(lower(w.seconds)) from sync.ties w
        where w.held and (w.account_id, w.stream_key, w.list) = (c.account_id, c.stream_key, c.list)))) end
  from sync.coverage c
  join sync.accounts a using (account_id)
  where c.account_id = account
    and c.stream_key = lists_complete_through.stream
    and not c.redundant;
end;
comment on function sync.lists_complete_through is
  'Every list of the stream is read without a gap up to this time; null if one list was never read. The stream is named by its key.';
-- Users, inboxes, labels, customers and contacts of the help desk.

create table helpdesk.users (
  account_id text,
  id text,
  first_name text,
  last_name text,
  email text,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _deleted_at timestamptz,
  _payload jsonb not null,
  primary key (account_id, id)
);
comment on table helpdesk.users is 'The team: people who answer tickets.';
comment on column helpdesk.users.first_name is 'First name.';
comment on column helpdesk.users.last_name is 'Last name.';
comment on column helpdesk.users.email is 'E-mail address.';

create table helpdesk.inboxes (
  account_id text,
  id text,
  name text,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz,
  _deleted_at timestamptz,
  _payload jsonb,
  primary key (account_id, id)
);
comment on table helpdesk.inboxes is 'Inboxes that tickets belong to.';
comment on column helpdesk.inboxes.name is 'Name; null until a reply has shown it.';

create table helpdesk.labels (
  account_id text,
  id text,
  name text,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz,
  _deleted_at timestamptz,
  _payload jsonb,
  primary key (account_id, id)
);
comment on table helpdesk.labels is 'Labels of tickets.';
comment on column helpdesk.labels.name is 'Name; null until a reply has shown it.';

create table helpdesk.customers (
  account_id text,
  id text,
  first_name text,
  last_name text,
  summary text,
  _created_after timestamptz not null,
  _created_before timestamptz not null,
  _checked_at timestamptz not null,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _deleted_at timestamptz,
  _payload jsonb not null,
  _deleted_after timestamptz,
  primary key (account_id, id)
);
comment on table helpdesk.customers is
  'People who write in. New customers arrive with the next sync. The source does not announce edits of known customers; see _observed_at.';
comment on column helpdesk.customers.first_name is
  'First name. The source distinguishes '''' from null, and so does this column.';
comment on column helpdesk.customers.last_name is 'Last name.';
comment on column helpdesk.customers.summary is 'Short summary of the customer, if the source has one.';
comment on column helpdesk.customers._created_after is
  'The customer was created at or after this time. The source gives no created_at; this is the bracket in which the customer appeared.';
comment on column helpdesk.customers._created_before is 'The customer was created before this time.';
comment on column helpdesk.customers._checked_at is
  'Time at which a list last confirmed the customer as stored here. Each sweep of all customers advances it.';
comment on column helpdesk.customers._deleted_at is
  'Deleted at the source by this time: a request by id answered 404. Null while the customer exists.';
comment on column helpdesk.customers._payload is
  'The record as the source sent it, with unknown fields and contacts. So a change of contacts alone changes this column.';
comment on column helpdesk.customers._deleted_after is
  'Deleted after this time and by _deleted_at. Null while the customer exists.';

create table helpdesk.contacts (
  account_id text,
  id text,
  customer_id text not null,
  type text,
  value text,
  value_normalized text generated always as (
case
    when (type = 'email') then lower(btrim(value))
    when (type = 'twitter') then lower(ltrim(btrim(value), '@'))
    when (type = 'phone') then (
    case
        when (btrim(value) ~~ '+%') then '+'
        else ''
    end || regexp_replace(value, '[^0-9]', '', 'g'))
    else btrim(value)
end) stored,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _deleted_at timestamptz,
  _payload jsonb not null,
  primary key (account_id, id)
);
create index contacts_customer on helpdesk.contacts (account_id, customer_id);
create index contacts_value on helpdesk.contacts (account_id, value_normalized);
create index contacts_value_alike on helpdesk.contacts using gin (account_id, lower(value_normalized) sync.gin_trgm_ops) with (gin_pending_list_limit='512');
comment on table helpdesk.contacts is
  'Addresses of customers. The contacts of a customer are replaced as a set: contacts that the source no longer shows are removed.';
comment on column helpdesk.contacts.type is 'email, twitter or phone. Other values are stored unchanged.';
comment on column helpdesk.contacts.value is 'The address, screen name or number as the source spells it.';
comment on column helpdesk.contacts.value_normalized is
  'value, normalised for comparison: e-mail in lower case; screen name in lower case without @; phone number as digits, with the leading + if value has one.';

create or replace function sync.contact_form(value text) returns text
language sql immutable parallel safe
begin atomic
  select case
    when btrim(value) ~ '^\+?[0-9 ()./-]{3,}$'
      then case when btrim(value) like '+%' then '+' else '' end || regexp_replace(value, '[^0-9]', '', 'g')
    when btrim(value) like '@%' then lower(ltrim(btrim(value), '@'))
    else lower(btrim(value)) end;
end;
comment on function sync.contact_form is
  'Normalises an address of unknown type for comparison: e-mail and screen name in lower case, screen name without @, phone number as digits with the leading + if present.';

create or replace function sync.contact_forms(value text) returns text[]
language sql immutable parallel safe
begin atomic
  select case
    when v.text ~ '[^][{}`?<>()",;:@[:space:]]@[^][{}`?<>()",;:@[:space:]]' then array(
      select distinct e.mail
      from regexp_matches(v.text, '([^][{}`?<>()",;:@[:space:]]+@[^][{}`?<>()",;:@[:space:]]+)', 'g') found,
        lateral (select btrim(found[1], '.''!*')) e (mail)
      -- Shared sender addresses identify nobody.
      where e.mail !~ '^((no|do-?not)[-_.]?reply|mailer-daemon|postmaster|nobody|null|none|unknown|undefined|anonymous)([-_.+][^@]*)?@')
    when v.text ~ '^([a-z]+:)?[-0-9+()./,;[:space:]]*$' then array(
      select distinct d.digits
      from regexp_split_to_table(v.text, '[,;]') part,
        lateral (select regexp_replace(part, '[^0-9]', '', 'g')) d (digits)
      -- Repeated or consecutive digits are placeholders for a missing number.
      where length(d.digits) >= 7 and d.digits <> repeat(left(d.digits, 1), length(d.digits))
        and strpos('012345678901234567890', d.digits) = 0 and strpos('098765432109876543210', d.digits) = 0)
    -- Words that stand for a missing address identify nobody.
    when length(v.text) >= 3 and regexp_replace(v.text, '[^a-z0-9]', '', 'g') not in
      ('null', 'none', 'undefined', 'unknown', 'anonymous', 'nobody', 'nil', 'nan', 'na', 'test', 'true', 'false') then array[v.text]
    else '{}'::text[] end
  -- Unusual spaces and hyphens, invisible characters, and U+FFFD, which replaces bytes that could not be stored.
  from (select lower(btrim(
    translate(value, U&'\00A0\202F\2011\200B\200C\200D\2060\FEFF\00AD\FFFD', '  -'), ' @')) as text) v;
end;
comment on function sync.contact_forms is
  'Normalises a contact value, or a field with several values, for comparison. Returns each e-mail address in lower case; else each phone number of at least seven digits; else the text in lower case without a leading @. Returns nothing for placeholders such as unknown, 0000000 and noreply@shop.example.';

create trigger keep_change after update on helpdesk.customers for each row when (((old._checked_at = new._checked_at) or (old._payload <> new._payload) or (old._deleted_at is distinct from new._deleted_at))) execute function sync.keep_change('', '{account_id}');
create trigger keep_change after delete or update on helpdesk.contacts for each row execute function sync.keep_change('customer_id', '{account_id,value_normalized}');
create trigger keep_change after delete or update on helpdesk.users for each row execute function sync.keep_change('', '{account_id}');
create trigger keep_change after update on helpdesk.labels for each row when (((old._payload IS not NULL) and (old._payload is distinct from new._payload))) execute function sync.keep_change('', '{account_id}');
create trigger keep_change after update on helpdesk.inboxes for each row when (((old._payload IS not NULL) and (old._payload is distinct from new._payload))) execute function sync.keep_change('', '{account_id}');
-- Tickets, their labels, and their history.

create table helpdesk.tickets (
  account_id text,
  id text,
  number bigint,
  customer_id text,
  user_id text,
  inbox_id text,
  label_ids text[],
  state text,
  type text,
  subject text,
  summary text,
  spam boolean,
  trash boolean,
  snoozed_until timestamptz,
  reply_to text,
  reply_cc text,
  created_at timestamptz,
  updated_at timestamptz not null,
  _messages_as_of timestamptz,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _deleted_at timestamptz,
  _payload jsonb not null,
  _deleted_after timestamptz,
  _listed_by bigint,
  _messages_by bigint,
  _true_by timestamptz,
  primary key (account_id, id)
);
create index tickets_waiting on helpdesk.tickets (account_id, updated_at desc) where (((_messages_as_of is null) or (_messages_as_of < updated_at)) and (_deleted_at is null));
create index tickets_updated_at on helpdesk.tickets (account_id, updated_at);
create index tickets_created_at on helpdesk.tickets (account_id, created_at);
create index tickets_customer on helpdesk.tickets (account_id, customer_id);
create index tickets_user on helpdesk.tickets (account_id, user_id);
create index tickets_inbox on helpdesk.tickets (account_id, inbox_id);
create index tickets_waiting_open on helpdesk.tickets (account_id, updated_at desc) where (((_messages_as_of is null) or (_messages_as_of < updated_at)) and (_deleted_at is null) and (state = any (array['open', 'hold'])));
create index tickets_subject_alike on helpdesk.tickets using gin (account_id, lower(subject) sync.gin_trgm_ops) with (gin_pending_list_limit='512');
comment on table helpdesk.tickets is
  'Conversations with customers, one row per ticket, in the last version that the source showed.';
comment on column helpdesk.tickets.number is 'Friendly ticket number, unique across the help desk.';
comment on column helpdesk.tickets.user_id is 'The assigned user; null while unassigned. Joins helpdesk.users.id.';
comment on column helpdesk.tickets.inbox_id is 'The inbox; joins helpdesk.inboxes.id.';
comment on column helpdesk.tickets.label_ids is 'Labels on the ticket, as in helpdesk.ticket_labels.';
comment on column helpdesk.tickets.state is
  'open, hold, closed, snoozed or archived. Other values are stored unchanged.';
comment on column helpdesk.tickets.type is
  'Channel: email, twitter, twitter_dm, phone, chat, web, sms, whatsapp, fb_messenger, instagram_dm or call. Other values are stored unchanged.';
comment on column helpdesk.tickets.subject is
  'Subject. The source distinguishes '''' from null, and so does this column.';
comment on column helpdesk.tickets.summary is 'Short summary of the conversation that the source writes.';
comment on column helpdesk.tickets.spam is 'True if the ticket is marked as spam.';
comment on column helpdesk.tickets.trash is 'True if the ticket is in the trash.';
comment on column helpdesk.tickets.snoozed_until is 'When a snoozed ticket reopens.';
comment on column helpdesk.tickets.reply_to is 'Default To of a new reply (deprecated at the source).';
comment on column helpdesk.tickets.reply_cc is 'Default Cc of a new reply (deprecated at the source).';
comment on column helpdesk.tickets.created_at is 'Creation time at the source.';
comment on column helpdesk.tickets.updated_at is 'Time of the last update at the source, in whole seconds.';
comment on column helpdesk.tickets._messages_as_of is
  'The messages of this ticket are those that the source showed at this time. If null or earlier than updated_at, the messages are pending.';
comment on column helpdesk.tickets._deleted_at is
  'Deleted at the source by this time: a request by id answered 404. Null while the ticket exists.';
comment on column helpdesk.tickets._deleted_after is
  'Deleted after this time and by _deleted_at. Null while the ticket exists.';
comment on column helpdesk.tickets._listed_by is
  'The run that first stored this ticket, at _first_seen_at. Null if that was before runs were recorded. Joins sync.runs.id while the run is kept.';
comment on column helpdesk.tickets._messages_by is
  'The run that read the messages, as of _messages_as_of. Null like _listed_by. Earlier reads are in sync.changes.';
comment on column helpdesk.tickets._true_by is
  'Upper bound of the time of this version, by the source''s clock: the Date of the reply plus its grain of one second. _observed_at is the lower bound, up to which the reply is complete. Null for rows from before this column and for replayed rejects; there the upper bound is one minute after _observed_at.';

create table helpdesk.ticket_labels (
  account_id text,
  ticket_id text,
  label_id text,
  primary key (account_id, ticket_id, label_id)
);
create index ticket_labels_label on helpdesk.ticket_labels (account_id, label_id);
comment on table helpdesk.ticket_labels is
  'Labels of tickets: tickets.label_ids as one row per label, changed in the same transaction.';
comment on column helpdesk.ticket_labels.ticket_id is 'Joins helpdesk.tickets.id.';
comment on column helpdesk.ticket_labels.label_id is 'Joins helpdesk.labels.id.';

create or replace function analytics.is_backlog(state text, spam boolean, trash boolean) returns boolean
language sql immutable
begin atomic
  -- Uses only expressions that PostgreSQL can push into an index, also through the views of readers.
  select (state is null or state not in ('closed', 'archived')) and spam is not true and trash is not true;
end;
comment on function analytics.is_backlog is
  'True if a ticket in this state is open work: not closed, archived, spam or in the trash.';

create table helpdesk.ticket_history (
  account_id text,
  ticket_id text,
  state text,
  user_id text,
  inbox_id text,
  label_ids text[],
  spam boolean,
  trash boolean,
  valid_from timestamptz,
  valid_to timestamptz,
  change_after timestamptz,
  deleted_after timestamptz,
  is_first boolean default false not null,
  change_by timestamptz,
  constraint ticket_history_no_overlap exclude using gist (hashtextextended(ticket_id, (0)::bigint) with =, (((account_id || '/') || ticket_id)) with =, tstzrange(valid_from, valid_to) with &&) where ((valid_to is not null)),
  primary key (account_id, ticket_id, valid_from),
  constraint ticket_history_check check (valid_from < valid_to),
  constraint ticket_history_check1 check (change_after < valid_from)
);
create unique index ticket_history_open on helpdesk.ticket_history (account_id, ticket_id) where (valid_to is null);
create index ticket_history_valid_from on helpdesk.ticket_history (account_id, valid_from);
create index ticket_history_backlog on helpdesk.ticket_history (account_id, valid_to) where analytics.is_backlog(state, spam, trash);
comment on table helpdesk.ticket_history is
  'Past and present state of each ticket: a new row for each change of state, user_id, inbox_id, label_ids (unordered), spam or trash. Rows of a ticket do not overlap; the only gaps are deletions. Adjacent rows may be equal, because two changes within one second share a row.';
comment on column helpdesk.ticket_history.state is
  'open, hold, closed, snoozed or archived. Other values are stored unchanged.';
comment on column helpdesk.ticket_history.user_id is 'The assigned user; null while unassigned. Joins helpdesk.users.id.';
comment on column helpdesk.ticket_history.inbox_id is 'The inbox; joins helpdesk.inboxes.id.';
comment on column helpdesk.ticket_history.label_ids is 'Labels on the ticket; each joins helpdesk.labels.id.';
comment on column helpdesk.ticket_history.spam is 'True while the ticket was marked as spam.';
comment on column helpdesk.ticket_history.trash is 'True while the ticket was in the trash.';
comment on column helpdesk.ticket_history.valid_from is
  'Start of the row: the updated_at of the version that shows the change, if it moved; else the time by which the reply was true. A first row starts at the updated_at at which the ticket was first seen; earlier states are unknown. If another edit moved updated_at and this change did not, the change happened later, by change_by.';
comment on column helpdesk.ticket_history.valid_to is
  'End of the row, exclusive. Null for the current row. For a deleted ticket: tickets._deleted_at.';
comment on column helpdesk.ticket_history.change_after is
  'Lower bound of the time of the change, in whole seconds of the source: the old values were last seen then. For a first row: one second before the creation. Null if unknown. The upper bound is change_by, or valid_from if change_by is null. A change that was undone in between is unknown.';
comment on column helpdesk.ticket_history.deleted_after is
  'For a row that ends with the deletion of the ticket: the deletion happened after this time and by valid_to. Null otherwise, or if unknown.';
comment on column helpdesk.ticket_history.is_first is
  'True for the first row of a ticket. The states before valid_from are unknown.';
comment on column helpdesk.ticket_history.change_by is
  'Upper bound of the time of the change, if later than valid_from: the reply that showed the change was true by then. Null if the change happened by valid_from, and for first rows of tickets that were last updated before the mirror began.';

create or replace function sync.same_set(one text[], other text[]) returns boolean
language sql immutable
begin atomic
  select one is not distinct from other or coalesce(one @> other and one <@ other, false);
end;
comment on function sync.same_set is
  'True if both arrays hold the same values, in any order. Null means unknown and differs from the empty set.';

create or replace function sync.begin_ticket_history() returns trigger
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
declare
  begun int;
begin
  -- A ticket arrives with its messages and mostly exists here already. Then no history begins.
  if not exists (select from after) then return null; end if;
  perform set_config('shelfdesk.metrics', 'with the ticket', true);
  insert into helpdesk.ticket_history
    (account_id, ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, valid_to, change_after, change_by, deleted_after, is_first)
  select t.account_id, t.id, t.state, t.user_id, t.inbox_id, t.label_ids, t.spam, t.trash, f.valid_from,
    case when t._deleted_at is not null then greatest(t._deleted_at, f.valid_from + interval '1 second') end,
    case when t.created_at <= f.valid_from then t.created_at - interval '1 second' end,
    -- A ticket that was created while the mirror ran was seen soon afterwards. For older tickets the times of the
    -- source count.
    case when t.updated_at >= k.mirrored_since and y.by > f.valid_from then y.by end,
    t._deleted_after, true
  from after t
  left join sync.accounts k on k.account_id = t.account_id
  cross join lateral (select sync.true_by(t._true_by, t._observed_at) as by) y
  cross join lateral (select least(t.updated_at, y.by) as valid_from) f
  on conflict do nothing;
  perform set_config('shelfdesk.metrics', '', true);

  insert into internal.stored_ticket_metrics (
    account_id, ticket_id, message_count, inbound_count, authored_count, automatic_count, note_count, other_count, attachment_count,
    agents_involved, is_outbound_initiated, is_one_touch, is_unreplied, turns,
    first_closed_at, first_closed_error_seconds, last_closed_at, last_closed_error_seconds,
    first_resolution_seconds, first_resolution_error_seconds, first_resolution_business_seconds,
    full_resolution_seconds, full_resolution_error_seconds, full_resolution_business_seconds,
    reopen_count, reopen_error_seconds, assignment_count, assignment_error_seconds,
    seconds_open, open_error_seconds, seconds_hold, hold_error_seconds, seconds_snoozed, snoozed_error_seconds,
    seconds_closed, closed_error_seconds, seconds_archived, archived_error_seconds)
  select n.account_id, n.id, 0, 0, 0, 0, 0, 0, 0, 0, false, false, false, 0,
    r.closed_at, r.closed_within, r.closed_at, r.closed_within, r.took, r.closed_within, r.took_business, r.took, r.closed_within, r.took_business,
    0, n.within, (n.user_id is not null)::int, n.within, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
  from (
    select t.account_id, t.id, t.user_id, t.inbox_id, t.created_at, f.valid_from, t.state in ('closed', 'archived') as resolved,
      case when t.created_at <= f.valid_from then date_part('epoch', f.valid_from - (t.created_at - interval '1 second')) end as within
    from after t
    cross join lateral (select sync.true_by(t._true_by, t._observed_at) as by) y
    cross join lateral (select least(t.updated_at, y.by) as valid_from) f
    where t._deleted_at is null
      and t.account_id = any (array(select account_id from sync.readable_accounts))
      and (
        -- The order of the index, as in internal.keep_metrics.
        select true from helpdesk.messages m where m.account_id = t.account_id and m.ticket_id = t.id
        order by m.position limit 1) is null
    offset 0) n
  left join lateral (
    select n.valid_from as closed_at, n.within as closed_within, date_part('epoch', n.valid_from - n.created_at) as took,
      case when exists (select from internal.stored_calendar_assignments)
        then analytics.business_seconds(analytics.calendar_of(n.account_id, n.inbox_id), n.created_at, n.valid_from)::float8 end as took_business
    where n.resolved) r on true
  on conflict do nothing;
  get diagnostics begun = row_count;
  if begun < (select count(*) from after) then
    perform internal.keep_metrics(array_agg(t.account_id), array_agg(t.id)) from after t;
  end if;
  return null;
end
$$;
comment on function sync.begin_ticket_history is
  'Writes the first rows of helpdesk.ticket_history for new tickets, and their first metrics.';

create or replace function sync.keep_ticket_history() returns trigger
language plpgsql
-- A cached plan would fit the rows of another statement: one ticket, or an empty warehouse.
set plan_cache_mode = force_custom_plan
as $$
declare
  -- The times of the source are whole seconds. A parameter instead of a literal would cause new plans.
  second constant interval := '1 second';
begin
  -- Most updates change no tracked column. A full join never becomes a nested loop, whatever the plan expected.
  if not exists (
    select from before b full join after a using (account_id, id)
    where (b._deleted_at is null) <> (a._deleted_at is null)
      or a.state is distinct from b.state or a.user_id is distinct from b.user_id or a.inbox_id is distinct from b.inbox_id
      or a.spam is distinct from b.spam or a.trash is distinct from b.trash or not sync.same_set(a.label_ids, b.label_ids)) then
    return null;
  end if;
  with changed as materialized (
    select a.account_id, a.id, a.state, a.user_id, a.inbox_id, a.label_ids, a.spam, a.trash,
      a._deleted_at is null as alive,
      case
        when a._deleted_at is not null then greatest(a._deleted_at, last.valid_from + second)
        else greatest(last.valid_from, last.valid_to, case
          -- The ticket was deleted at its tombstone. An older version does not tell when it came back.
          when a.updated_at <> b.updated_at and (b._deleted_at is null or a.updated_at > b._deleted_at)
            then least(a.updated_at, y.by)
          else y.by end)
      end as at,
      y.by,
      last.valid_from as last_from, last.valid_from is not null and last.valid_to is null as is_open,
      case
        when last.valid_from is null then a.created_at - second
        -- The ticket came back after its deletion. How long it had been back before it was seen is unknown.
        when b._deleted_at is not null then greatest(b._observed_at - k.lookback, b._deleted_after)
        -- A version shows everything up to the second of its date, unless the date is wrong: later than the reply, or
        -- later than the next version. A reply shows everything up to a lookback before it.
        else greatest(
          case when b.updated_at <= least(a.updated_at, sync.true_by(b._true_by, b._observed_at)) then b.updated_at - second end,
          b._observed_at - k.lookback, w.as_of, last.change_after)
      end as before_at,
      a._deleted_after
    from before b
    join after a using (account_id, id)
    cross join lateral (select sync.true_by(a._true_by, a._observed_at) as by) y
    left join lateral (
      select h.valid_from, h.valid_to, h.change_after from helpdesk.ticket_history h
      where h.account_id = a.account_id and h.ticket_id = a.id
      order by h.valid_from desc limit 1) last on true
    left join sync.accounts k on k.account_id = b.account_id
    left join sync.separate_lists apart on apart.account_id = b.account_id
    left join lateral sync.swept_at(b.account_id, b.created_at, b.state, b.spam, b.trash, apart.spam, apart.trash) w on true
    where (b._deleted_at is null) <> (a._deleted_at is null)
      or a._deleted_at is null and (
        a.state is distinct from b.state or a.user_id is distinct from b.user_id or a.inbox_id is distinct from b.inbox_id
        or a.spam is distinct from b.spam or a.trash is distinct from b.trash or not sync.same_set(a.label_ids, b.label_ids))),
  -- Finds the open row by its flag and not by its time, because a thousand tickets may change in one second. Two
  -- changes at one time share a row with the later values and the lower bound of the first change.
  replaced as (
    update helpdesk.ticket_history h
    set state = c.state, user_id = c.user_id, inbox_id = c.inbox_id, label_ids = c.label_ids, spam = c.spam, trash = c.trash,
      change_by = case when c.by > c.at then c.by end
    from changed c
    where c.is_open and c.alive and c.at = c.last_from
      and h.account_id = c.account_id and h.ticket_id = c.id and h.valid_to is null),
  ended as (
    update helpdesk.ticket_history h set valid_to = c.at, deleted_after = c._deleted_after
    from changed c
    where c.is_open and (c.at > c.last_from or not c.alive)
      and h.account_id = c.account_id and h.ticket_id = c.id and h.valid_to is null
    returning h.account_id, h.ticket_id)
  -- Ends the current row before the next begins: a ticket has one open row.
  insert into helpdesk.ticket_history
    (account_id, ticket_id, state, user_id, inbox_id, label_ids, spam, trash, valid_from, change_after, change_by, is_first)
  select c.account_id, c.id, c.state, c.user_id, c.inbox_id, c.label_ids, c.spam, c.trash, c.at,
    case when c.before_at is not null then least(c.before_at, c.at - second) end,
    case when c.by > c.at then c.by end, c.last_from is null
  from changed c left join ended e on e.account_id = c.account_id and e.ticket_id = c.id
  where c.alive and (e.ticket_id is not null or not c.is_open);
  return null;
end
$$;
comment on function sync.keep_ticket_history is
  'Writes changes of tickets to helpdesk.ticket_history. A tombstone ends the history.';

create or replace function sync.end_ticket_history() returns trigger
language plpgsql
as $$
begin
  delete from helpdesk.ticket_history h where (h.account_id, h.ticket_id) in (select b.account_id, b.id from before b);
  return null;
end
$$;
comment on function sync.end_ticket_history is
  'Removes the history of tickets whose rows are deleted, by hand or with their account. A ticket that is deleted at the source keeps its row with a tombstone.';

create trigger keep_change after update on helpdesk.tickets for each row when (((old._messages_as_of IS not NULL) or (new._messages_as_of is null))) execute function sync.keep_change('', '{account_id}');
create trigger begin_ticket_history after insert on helpdesk.tickets referencing new table as after for each statement execute function sync.begin_ticket_history();
create trigger keep_ticket_history after update on helpdesk.tickets referencing old table as before new table as after for each statement execute function sync.keep_ticket_history();
create trigger end_ticket_history after delete on helpdesk.tickets referencing old table as before for each statement execute function sync.end_ticket_history();
-- Messages and attachments.

-- PostgreSQL's text parser looks ahead for addresses, paths, tags, numbers and compounds, which takes minutes on long
-- runs of such characters. So these characters become spaces, here and in search terms: an address becomes its words.
-- The vector stays below PostgreSQL's limit of 1 MB: 100,000 characters of four bytes with their positions.
create or replace function helpdesk.search_words(body text) returns tsvector
language sql immutable parallel safe
begin atomic
  -- Nested replace is ten times as fast as translate.
  select to_tsvector('simple',
    replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(left(body, 100000), '-', ' '), '_', ' '), '.', ' '), '/', ' '), ':', ' '), '@', ' '), '&', ' '), '<', ' '), '~', ' '), '+', ' '), '#', ' '), '%', ' '), '?', ' '), '=', ' '));
end;
comment on function helpdesk.search_words is
  'Text search vector of a message: all words in lower case with positions, without stemming or stop words. Only the first 100,000 characters count. The index messages_words uses this function.';

create table helpdesk.messages (
  account_id text,
  id text,
  ticket_id text not null,
  position integer not null,
  type text,
  direction text,
  user_id text,
  from_name text,
  from_address text,
  to_address text,
  body text,
  more_body text,
  body_text text,
  htmlized boolean,
  created_at timestamptz,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _deleted_at timestamptz,
  _payload jsonb not null,
  primary key (account_id, id)
);
create index messages_ticket on helpdesk.messages (account_id, ticket_id, "position");
create index messages_user on helpdesk.messages (account_id, user_id);
create index messages_created_at on helpdesk.messages (account_id, created_at);
create index messages_words on helpdesk.messages using gin (account_id, date_trunc('hour', (created_at AT TIME ZONE 'UTC')), helpdesk.search_words(body_text)) with (gin_pending_list_limit='4096');
comment on table helpdesk.messages is
  'Replies and notes of tickets. The messages of a ticket are replaced as a set: messages that the source no longer shows are removed.';
comment on column helpdesk.messages.position is 'Place within the ticket as the source lists it, from 1.';
comment on column helpdesk.messages.type is 'reply or note. Other values are stored unchanged.';
comment on column helpdesk.messages.direction is 'in (from a customer) or out (to a customer); null on notes.';
comment on column helpdesk.messages.user_id is
  'Author, if a team member; null for customers and automatic replies. Joins helpdesk.users.id.';
comment on column helpdesk.messages.from_name is 'Display name of the sender.';
comment on column helpdesk.messages.from_address is 'Contact information of the sender (from at the source).';
comment on column helpdesk.messages.to_address is 'Contact information of the recipient (to at the source).';
comment on column helpdesk.messages.body is 'The text as the source sent it: HTML if htmlized is true.';
comment on column helpdesk.messages.more_body is 'The signature that the source cut from body.';
comment on column helpdesk.messages.body_text is 'body as plain text.';
comment on column helpdesk.messages.htmlized is 'True if body is HTML.';
comment on column helpdesk.messages.created_at is 'Creation time at the source. Order equal times by position.';

create table helpdesk.attachments (
  account_id text,
  id text,
  message_id text not null,
  ticket_id text not null,
  name text,
  type text,
  size bigint,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _deleted_at timestamptz,
  _payload jsonb not null,
  primary key (account_id, id)
);
create index attachments_message on helpdesk.attachments (account_id, message_id);
create index attachments_ticket on helpdesk.attachments (account_id, ticket_id);
comment on table helpdesk.attachments is 'Metadata of files attached to messages. The content is not mirrored.';
comment on column helpdesk.attachments.message_id is 'The message; joins helpdesk.messages.id.';
comment on column helpdesk.attachments.ticket_id is 'The ticket of that message; joins helpdesk.tickets.id.';
comment on column helpdesk.attachments.name is 'File name.';
comment on column helpdesk.attachments.type is 'MIME type.';
comment on column helpdesk.attachments.size is 'Size in bytes.';

create trigger keep_change after delete or update on helpdesk.messages for each row execute function sync.keep_change('ticket_id', '{account_id,body_text,from,to}');
create trigger keep_change after delete or update on helpdesk.attachments for each row execute function sync.keep_change('ticket_id', '{account_id}');
-- Shelves and volumes of the book catalog.

create table books.shelves (
  account_id text,
  owner_id text,
  id text,
  title text,
  description text,
  access text,
  created_at timestamptz,
  updated_at timestamptz,
  volumes_last_updated_at timestamptz,
  volume_count bigint,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _deleted_at timestamptz,
  _payload jsonb not null,
  primary key (account_id, owner_id, id)
);
comment on table books.shelves is 'Shelves of the mirrored users, and of the library of the token''s owner.';
comment on column books.shelves.owner_id is
  'Owner of the shelf: a user id from BOOKS_USERS, or mylibrary for the owner of the token.';
comment on column books.shelves.id is 'Id at the source, unique per owner_id.';
comment on column books.shelves.title is 'Title.';
comment on column books.shelves.description is 'Description.';
comment on column books.shelves.access is 'PUBLIC or PRIVATE. Other values are stored unchanged.';
comment on column books.shelves.created_at is 'Creation time at the source.';
comment on column books.shelves.updated_at is 'Time at the source of the last change of title, description or access.';
comment on column books.shelves.volumes_last_updated_at is
  'Time at the source when volumes were last added or removed. Whether moves within the shelf count is unknown.';
comment on column books.shelves.volume_count is
  'Number of volumes that the source states. books.shelf_volumes holds the actual volumes.';
comment on column books.shelves._observed_at is 'The source showed this content at this time, by its own clock.';
comment on column books.shelves._payload is
  'The record as the source sent it, with unknown fields. Fields that vary between replies without a change are left out: etag, searchInfo, preview, info and image links.';

create table books.volumes (
  account_id text,
  id text,
  title text,
  subtitle text,
  authors text[],
  publisher text,
  published_date text,
  published_year integer,
  description text,
  isbn_10 text,
  isbn_13 text,
  page_count bigint,
  print_type text,
  categories text[],
  average_rating numeric,
  ratings_count bigint,
  maturity_rating text,
  language text,
  list_price numeric,
  list_price_currency text,
  retail_price numeric,
  retail_price_currency text,
  saleability text,
  viewability text,
  country text,
  canonical_link text,
  thumbnail text,
  _detail text default 'list' not null,
  _checked_at timestamptz,
  _waits_since timestamptz,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _deleted_at timestamptz,
  _payload jsonb not null,
  primary key (account_id, id)
);
create index volumes_waiting on books.volumes (account_id, _waits_since) where (_waits_since is not null);
create index volumes_checked on books.volumes (account_id, _checked_at);
comment on table books.volumes is
  'Volumes that are or were on a shelf. A volume is complete once it was fetched by id; until then it holds the shorter record of the shelf''s list.';
comment on column books.volumes.title is 'Title.';
comment on column books.volumes.subtitle is 'Subtitle.';
comment on column books.volumes.authors is 'Authors in order; null if the source names none.';
comment on column books.volumes.publisher is 'Publisher.';
comment on column books.volumes.published_date is
  'Publication date as the source writes it: 2019-10-03, 1999-05, 1999, 19?? or other text.';
comment on column books.volumes.published_year is 'Year of published_date, if that begins with four digits.';
comment on column books.volumes.description is 'Description; shortened while _detail is list.';
comment on column books.volumes.isbn_10 is 'ISBN of ten characters.';
comment on column books.volumes.isbn_13 is 'ISBN of thirteen digits.';
comment on column books.volumes.page_count is 'Number of pages; null if unknown, which the source writes as 0.';
comment on column books.volumes.print_type is 'BOOK or MAGAZINE. Other values are stored unchanged.';
comment on column books.volumes.categories is 'Subjects in their order.';
comment on column books.volumes.average_rating is 'Mean rating, 1 to 5.';
comment on column books.volumes.ratings_count is 'Number of ratings in average_rating.';
comment on column books.volumes.maturity_rating is 'NOT_MATURE or MATURE. Other values are stored unchanged.';
comment on column books.volumes.language is 'Language code; null while _detail is list, because lists omit it.';
comment on column books.volumes.list_price is 'Suggested retail price, exactly as the source writes it.';
comment on column books.volumes.list_price_currency is 'Currency of list_price.';
comment on column books.volumes.retail_price is 'Selling price, exactly as the source writes it.';
comment on column books.volumes.retail_price_currency is 'Currency of retail_price.';
comment on column books.volumes.saleability is 'FOR_SALE, FREE, NOT_FOR_SALE, FOR_PREORDER or other values.';
comment on column books.volumes.viewability is 'Extent of the preview: NO_PAGES, PARTIAL, ALL_PAGES or other values.';
comment on column books.volumes.country is 'Country to which prices and saleability apply.';
comment on column books.volumes.canonical_link is 'Link to the web page of the volume.';
comment on column books.volumes.thumbnail is
  'Link to the cover, from the last change of the content. Such links vary between replies and are not compared.';
comment on column books.volumes._detail is
  'full: the record that the source shows by id; list: the shorter record of a shelf''s list.';
comment on column books.volumes._checked_at is 'Time of the last fetch by id, by the source''s clock; null if never.';
comment on column books.volumes._waits_since is
  'A shelf''s list showed the volume as new or changed at this time, and the fetch by id is pending. Null if none is pending.';
comment on column books.volumes._observed_at is 'The source showed this content at this time, by its own clock.';
comment on column books.volumes._payload is
  'The record as the source sent it, with unknown fields. Fields that vary between replies without a change are left out: etag, searchInfo, preview, info and image links.';

create table books.shelf_volumes (
  account_id text,
  owner_id text,
  shelf_id text,
  volume_id text,
  position integer not null,
  _removed_at timestamptz,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _payload jsonb not null,
  primary key (account_id, owner_id, shelf_id, volume_id)
);
create index shelf_volumes_volume on books.shelf_volumes (account_id, volume_id);
comment on table books.shelf_volumes is
  'Volumes on shelves, with their positions. Rows with _removed_at are former entries.';
comment on column books.shelf_volumes.owner_id is 'The owner of the shelf; joins books.shelves.owner_id.';
comment on column books.shelf_volumes.shelf_id is 'The shelf; joins books.shelves.id.';
comment on column books.shelf_volumes.volume_id is 'The volume; joins books.volumes.id.';
comment on column books.shelf_volumes.position is
  'Position on the shelf, from 0, like startIndex. For a removed volume: its last position.';
comment on column books.shelf_volumes._removed_at is
  'The volume had left the shelf by this time. The lower bound is change_after in books.shelf_volume_history. Null while the volume is on the shelf.';
comment on column books.shelf_volumes._observed_at is 'The source showed this content at this time, by its own clock.';
comment on column books.shelf_volumes._payload is
  'The volume as this shelf''s list shows it, without fields that vary between replies.';

create table books.shelf_volume_history (
  account_id text,
  owner_id text,
  shelf_id text,
  volume_id text,
  position integer,
  valid_from timestamptz,
  valid_to timestamptz,
  change_after timestamptz,
  constraint shelf_volume_history_no_overlap exclude using gist (account_id with =, owner_id with =, shelf_id with =, volume_id with =, tstzrange(valid_from, valid_to) with &&),
  primary key (account_id, owner_id, shelf_id, volume_id, valid_from),
  constraint shelf_volume_history_check check (valid_from < valid_to)
);
create index shelf_volume_history_volume on books.shelf_volume_history (account_id, volume_id);
comment on table books.shelf_volume_history is
  'Past and present position of each volume on each shelf. The source does not announce changes: each happened after change_after and by valid_from.';
comment on column books.shelf_volume_history.owner_id is 'The owner of the shelf; joins books.shelves.owner_id.';
comment on column books.shelf_volume_history.shelf_id is 'The shelf; joins books.shelves.id.';
comment on column books.shelf_volume_history.volume_id is 'The volume; joins books.volumes.id.';
comment on column books.shelf_volume_history.position is
  'Position on the shelf, from 0; null while the volume was not on the shelf.';
comment on column books.shelf_volume_history.valid_from is
  'Start of the row: the shelf''s volumes_last_updated_at, if it moved; else the time when the change was seen.';
comment on column books.shelf_volume_history.valid_to is 'End of the row, exclusive. Null for the current row.';
comment on column books.shelf_volume_history.change_after is
  'Lower bound of the time of the change: the previous full read of the shelf. Null if the shelf had not been read before.';

create table sync.shelf_readings (
  account_id text,
  owner_id text,
  shelf_id text,
  as_of timestamptz,
  version text,
  primary key (account_id, owner_id, shelf_id)
);
comment on table sync.shelf_readings is
  'Last full read of each shelf. While the list of shelves shows the same version, and the read is recent enough, the volumes are not read again.';
comment on column sync.shelf_readings.owner_id is 'The owner of the shelf.';
comment on column sync.shelf_readings.shelf_id is 'The shelf.';
comment on column sync.shelf_readings.as_of is
  'books.shelf_volumes shows the content of the shelf at this time, by the source''s clock. Null if the shelf was never read whole.';
comment on column sync.shelf_readings.version is
  'Time of the last update and number of volumes that the catalog stated before the read. Null if it states none. A word if the version proves nothing: unsettled (the second of the last update had not ended), gone, or doubted (fewer volumes were shown than counted; then with the result of the check).';

create or replace view sync.waiting_volumes as
select v.account_id, v.id, v._waits_since as waits_since,
  exists (
    select from sync.rejects r
    where r.account_id = v.account_id and r.stream_key = 'books.volumes' and r.ask_id = v.id and r.cleared_at is null) as rejected
from books.volumes v
where v._waits_since is not null and exists (
  select from books.shelf_volumes m
  join sync.coverage c on (c.account_id, c.stream_key, c.list) = (m.account_id, 'books.shelves', m.owner_id)
  where m.account_id = v.account_id and m.volume_id = v.id and m._removed_at is null);
comment on view sync.waiting_volumes is
  'Volumes that are new or changed on a shelf of a mirrored owner and whose fetch by id is pending.';
comment on column sync.waiting_volumes.account_id is 'The account.';
comment on column sync.waiting_volumes.id is 'The volume; joins books.volumes.id.';
comment on column sync.waiting_volumes.waits_since is
  'Time when a shelf''s list showed the volume, by the source''s clock.';
comment on column sync.waiting_volumes.rejected is 'True if the fetch failed; see sync.rejects.';

create trigger keep_change after update on books.shelves for each row when (((old._payload <> new._payload) or (old._deleted_at is distinct from new._deleted_at))) execute function sync.keep_change('owner_id', '{account_id}');
create trigger keep_change after update on books.volumes for each row when (((old._detail = 'full'::text) and ((old._payload <> new._payload) or (old._deleted_at is distinct from new._deleted_at)))) execute function sync.keep_change('', '{account_id,thumbnail}');
create trigger keep_change after update on books.shelf_volumes for each row when ((old._payload <> new._payload)) execute function sync.keep_change('owner_id,shelf_id', '{account_id,position}', 'volume_id');

-- Compresses long texts with lz4, if the server supports it, because lz4 needs less CPU than pglz. Stored values stay
-- as they are and remain readable.
do $$
declare
  one record;
begin
  if not exists (
    select from pg_settings s where s.name = 'default_toast_compression' and 'lz4' = any (s.enumvals)) then
    return;
  end if;
  for one in
    select c.oid::regclass as relation, a.attname as name
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid
    where c.relkind = 'r' and c.relnamespace::regnamespace::text in ('helpdesk', 'books')
      and a.attname in ('_payload', 'body', 'more_body', 'body_text')
  loop
    execute format('alter table %s alter column %I set compression lz4', one.relation, one.name);
  end loop;
end
$$;
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
comment on table sync.swept is 'Ranges of creation time that sweeps read whole, with the newest read of each range.';
comment on column sync.swept.stream is 'tickets or customers.';
comment on column sync.swept.list is
  'List of the stream: default, spam or trash. open: open and held tickets, which a sweep reads daily. undated: tickets without created_at, fetched by id.';
comment on column sync.swept.created is 'Range of creation time that was read whole. For undated: everything.';
comment on column sync.swept.as_of is
  'The read shows everything that happened up to this time: one lookback before the replies, because a source may show changes late. For customers one minute more, because a reply may be slower than the first reply of the walk.';
comment on column sync.swept.run_id is 'The run that read the range.';

create or replace function sync.swept_at(account text, created_at timestamptz, state text, spam boolean, trash boolean, spam_apart boolean, trash_apart boolean)
returns table (as_of timestamptz)
language sql stable
begin atomic
  select max(w.as_of)
  from (values
    ('undated', swept_at.created_at is null),
    ('spam', swept_at.spam),
    ('trash', swept_at.trash),
    ('open', swept_at.state in ('open', 'hold') and not coalesce(swept_at.spam, false) and not coalesce(swept_at.trash, false)),
    ('default', not coalesce(spam_apart and swept_at.spam or trash_apart and swept_at.trash, false))) l (list, speaks)
  cross join lateral (
    -- Ranges of a list do not overlap, so only the last range that begins before this time can contain it.
    select w.created, w.as_of
    from sync.swept w
    where w.account_id = account and w.stream_key = 'helpdesk.tickets' and w.list = l.list
      and coalesce(lower(w.created), '-infinity') <= coalesce(swept_at.created_at, '-infinity')
    order by coalesce(lower(w.created), '-infinity') desc
    limit 1) w
  where l.speaks and w.created @> coalesce(swept_at.created_at, '-infinity');
end;
comment on function sync.swept_at is
  'Time of the last sweep of a list that shows a ticket with this creation time and state. Spam and trash have lists of their own if the source separates them.';

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
comment on table sync.deletion_candidates is
  'Rows that a list of the source should have shown and did not. Each is fetched by id; only an answer of 404 leads to a tombstone.';
comment on column sync.deletion_candidates.stream is 'tickets or customers.';
comment on column sync.deletion_candidates.record_id is 'Id of the row in that table.';
comment on column sync.deletion_candidates.missing_since is
  'As-of time of the read that did not show the row. A row that was observed later is not a candidate.';
comment on column sync.deletion_candidates.alive_at is 'Last time at which the source demonstrably had the record.';
comment on column sync.deletion_candidates.gone_at is
  'Deleted at the source by this time, by its own clock: a request by id answered 404. Null before that.';
comment on column sync.deletion_candidates.gone_since is
  'Time of the first 404, if every later answer was 404 too. Null with gone_at.';
comment on column sync.deletion_candidates.attempts is 'Number of fetches by id that failed for other reasons.';
comment on column sync.deletion_candidates.error is 'Error of the last fetch by id.';
comment on column sync.deletion_candidates.run_id is
  'The run that last fetched the record by id. Null if none has, or if a new fetch is due.';

create or replace function sync.is_settled(deleted_at timestamptz, observed_at timestamptz, missing_since timestamptz) returns boolean
language sql immutable
begin atomic
  select deleted_at is not null or observed_at >= missing_since;
end;
comment on function sync.is_settled is
  'True if a former deletion candidate is settled: it has its tombstone, or was observed after the list lacked it.';

create or replace view sync.open_deletion_candidates as
select s.account_id, s.stream, s.record_id, s.missing_since, s.alive_at, s.gone_at, s.gone_since, s.attempts, s.error, s.run_id,
  s.source, s.stream_key
from sync.deletion_candidates s
where case s.stream_key
  when 'helpdesk.tickets' then exists (
    select from helpdesk.tickets t
    where t.account_id = s.account_id and t.id = s.record_id
      and not sync.is_settled(t._deleted_at, greatest(t._observed_at, t._messages_as_of), s.missing_since))
  when 'helpdesk.customers' then exists (
    select from helpdesk.customers c
    where c.account_id = s.account_id and c.id = s.record_id
      and not sync.is_settled(c._deleted_at, greatest(c._observed_at, c._checked_at), s.missing_since))
  end;
comment on view sync.open_deletion_candidates is
  'Deletion candidates that still need a fetch by id or a tombstone. The other rows of sync.deletion_candidates were observed later.';

create or replace view sync.checked_tickets as
select t.account_id, t.id as ticket_id,
  case
    when exists (
      select from sync.rejects r
      where r.account_id = t.account_id and r.stream_key = 'helpdesk.tickets' and r.ask_id = t.id and r.cleared_at is null)
      then least(t._observed_at, s.alive_at)
    when s.alive_at is not null then s.alive_at
    else greatest(t._observed_at, w.as_of)
  end as checked_at
from helpdesk.tickets t
left join sync.open_deletion_candidates s on s.account_id = t.account_id and s.stream_key = 'helpdesk.tickets' and s.record_id = t.id
left join sync.separate_lists apart on apart.account_id = t.account_id
left join lateral sync.swept_at(t.account_id, t.created_at, t.state, t.spam, t.trash, apart.spam, apart.trash) w on true
where t._deleted_at is null;
comment on view sync.checked_tickets is
  'For every existing ticket: the last time at which a list of the source confirmed the ticket as stored here.';
comment on column sync.checked_tickets.account_id is 'The account.';
comment on column sync.checked_tickets.checked_at is
  'Last time at which a list of the source confirmed the ticket as stored here. While a newer version is rejected (sync.rejects), sweeps do not count.';

create or replace function sync.ticket_checked_at(account text, id text) returns timestamptz
language sql stable
begin atomic
  select c.checked_at from sync.checked_tickets c where c.account_id = account and c.ticket_id = ticket_checked_at.id;
end;
comment on function sync.ticket_checked_at is
  'Last time at which a list of the source confirmed the ticket as stored here; null for a ticket that is deleted.';

create or replace function sync.deletes_checked_at(account text, stream text) returns timestamptz
language sql stable
begin atomic
  with asked as materialized (
    select sync.key_of(deletes_checked_at.stream) as stream_key),
  swept as (
    select s.list, s.created, s.as_of
    from sync.coverage c
    join sync.swept s using (account_id, stream_key, list)
    where c.account_id = account and c.stream_key = (select a.stream_key from asked a) and not c.redundant),
  reach as (
    select c.list, (
        select upper(part)
        from (select range_agg(s.created) as parts from swept s where s.list = c.list) one, unnest(one.parts) part
        where part @> '1970-01-01T00:00:00Z'::timestamptz) as top
    from sync.coverage c
    where c.account_id = account and c.stream_key = (select a.stream_key from asked a) and not c.redundant)
  select case
    when not exists (select from sync.streams k join asked a using (stream_key) where k.swept) then null
    when (select count(*) = 0 or bool_or(r.top is null) from reach r) then null
    when (select a.stream_key from asked a) = 'helpdesk.tickets'
      and exists (
        select from helpdesk.tickets t where t.account_id = account and t.created_at is null and t._deleted_at is null)
      and not exists (
        select from sync.swept s where s.account_id = account and s.stream_key = 'helpdesk.tickets' and s.list = 'undated') then null
    else least(
      (select min(r.top) from reach r),
      (select min(s.as_of) from swept s join reach r using (list) where lower(s.created) < r.top),
      (select min(s.as_of) from sync.swept s
       where s.account_id = account and s.stream_key = (select a.stream_key from asked a) and s.list = 'undated'
         and s.stream_key = 'helpdesk.tickets' and exists (
           select from helpdesk.tickets t
           where t.account_id = account and t.created_at is null and t._deleted_at is null)),
      (select min(o.alive_at) from sync.open_deletion_candidates o
       where o.account_id = account and o.stream_key = (select a.stream_key from asked a)))
  end;
end;
comment on function sync.deletes_checked_at is
  'Up to this time, the source had deleted none of the records that the stream shows as existing. Null if the stream was never swept whole. The argument is the stream''s key, or its short name if only one source has a stream of that name.';
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
comment on table sync.audit is
  'Records that an audit or `verify --sample` compared with the source, one row per comparison. `verify --full` stores only the records that differ.';
comment on column sync.audit.id is 'Number of the comparison.';
comment on column sync.audit.run_id is 'The run that made the comparison; joins sync.runs.id while the run is kept.';
comment on column sync.audit.stream is
  'tickets (with labels), customers (with contacts), users, labels, inboxes; messages: all messages and attachments of one ticket; shelves with their shelf_volumes; volumes.';
comment on column sync.audit.record_id is
  'Id of the record at the source. For messages: the ticket id; for shelves: owner/shelf.';
comment on column sync.audit.checked_at is 'The source showed the compared record at this time, by its own clock.';
comment on column sync.audit.ours_as_of is
  'The source had shown the stored row at this time; null if no row was stored.';
comment on column sync.audit.random is
  'True if the record was drawn at random. Only random comparisons allow a conclusion about other records.';
comment on column sync.audit.unread is
  'True if the record could not be fetched or compared. Then the comparison has no result.';
comment on column sync.audit.differences is
  'Differences by field: [stored, at the source]. Null if there are none or if unread. row: the whole row is missing on one side. For child rows both sides are {id: value}.';
comment on column sync.audit.kind is
  'Kinds of difference, separated by ''; '': changed here (the row contradicts its own _payload), a change was missed, deleted, label edits do not move updated_at, and so on.';
comment on column sync.audit.repaired_at is 'Time of the repair, by our clock; null if not repaired.';

-- Probability of at most this many differences in the sample, if a share p of all records differs. The bound is the p
-- at which it falls to 5 %.
create or replace function sync.at_most(differ bigint, "of" bigint) returns numeric
language plpgsql immutable parallel safe
as $$
declare
  many constant bigint := at_most."of";
  -- ln C(many, differ)
  choose float8 := 0;
  low float8;
  high float8 := 1;
  p float8;
  -- Terms of the sum, from the last to the first, each relative to the last.
  term float8;
  total float8;
begin
  if differ is null or many is null then return null; end if;
  if many <= 0 or differ >= many then return 100; end if;
  for i in 1..differ loop
    choose := choose + ln((many - differ + i)::float8 / i);
  end loop;
  low := greatest(differ, 0)::float8 / many;
  for step in 1..64 loop
    p := (low + high) / 2;
    exit when p <= low or p >= high;
    term := 1;
    total := 1;
    for i in reverse differ..1 loop
      term := term * i / (many - i + 1) * (1 - p) / p;
      exit when term < 1e-17;
      total := total + term;
    end loop;
    if choose + differ * ln(p) + (many - differ) * ln(1 - p) + ln(total) > ln(0.05::float8) then
      low := p;
    else
      high := p;
    end if;
  end loop;
  return trim_scale(ceil(high::numeric * 1000000) / 10000);
end;
$$;
comment on function sync.at_most is
  'Upper bound of the share of differing records, in percent, with 95 % confidence, from a random sample (Clopper and Pearson, one-sided).';

create or replace view sync.audit_confidence as
with counted as not materialized (
  select account_id, source, stream, stream_key, record_id, checked_at, unread, differences
  from sync.audit
  where random and checked_at > now() - interval '7 days'),
totals as not materialized (
  select account_id, source, stream, stream_key, count(distinct record_id) as drawn, count(distinct record_id) filter (where not unread) as checked,
    min(checked_at) as as_of
  from counted
  group by account_id, source, stream, stream_key),
differing as not materialized (
  select c.account_id, c.stream_key, f.field, count(distinct c.record_id) as differed
  from counted c cross join lateral (select '' as field union all select jsonb_object_keys(c.differences)) f
  where c.differences is not null
  group by c.account_id, c.stream_key, f.field)
select t.account_id, t.stream, f.field, t.checked, coalesce(d.differed, 0) as differed, t.drawn - t.checked as unread,
  sync.at_most(coalesce(d.differed, 0), t.checked) as at_most_percent, t.as_of, t.source, t.stream_key
from totals t
join (select account_id, stream_key, '' as field from totals union select account_id, stream_key, field from differing) f
  using (account_id, stream_key)
left join differing d using (account_id, stream_key, field);
comment on view sync.audit_confidence is
  'Confidence from the random comparisons of the last seven days: the upper bound, at 95 %, of the share of stored records that differ from the source in a field. The bound does not cover records that are not stored or could not be fetched.';
comment on column sync.audit_confidence.account_id is 'The account.';
comment on column sync.audit_confidence.stream is
  'tickets, customers or volumes (on a shelf); messages: one record is a ticket with complete messages and attachments; shelves: one record is a shelf with its contents.';
comment on column sync.audit_confidence.field is 'A field with differences; '''' stands for any field.';
comment on column sync.audit_confidence.checked is 'Number of compared records, each counted once.';
comment on column sync.audit_confidence.differed is
  'Number of records that differed in any comparison of these seven days. Audits repaired theirs.';
comment on column sync.audit_confidence.unread is
  'Number of further records that were drawn but could not be fetched or compared. They may differ.';
comment on column sync.audit_confidence.at_most_percent is
  'Upper bound, in percent with 95 % confidence, of the share of stored and fetchable records that differ.';
comment on column sync.audit_confidence.as_of is 'The oldest comparison that counts, by the source''s clock.';

create table sync.verifications (
  run_id bigint primary key,
  account_id text not null,
  sample integer,
  repair boolean not null,
  credits bigint not null,
  seconds bigint not null,
  foreign key (run_id) references sync.stored_runs(id) on delete cascade
);
comment on table sync.verifications is 'Request and forecast of each `verify` run.';
comment on column sync.verifications.sample is
  'Number of records drawn at random for each of tickets, customers, shelves and volumes; null: all records.';
comment on column sync.verifications.repair is 'True if the run repairs differences.';
comment on column sync.verifications.credits is 'Forecast of the credits; for the catalog, of the requests.';
comment on column sync.verifications.seconds is 'Forecast of the duration at the configured limits, in seconds.';

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
comment on table sync.verified_lists is 'Counts and progress of `verify`, one row per list of a stream.';
comment on column sync.verified_lists.list is 'List of the stream; default if the stream has only one.';
comment on column sync.verified_lists.place is
  'Position up to which the list was compared: a creation time or an id; null at the beginning. The next worker resumes here.';
comment on column sync.verified_lists.ours is 'Number of stored rows; null if not counted.';
comment on column sync.verified_lists.theirs_least is
  'Number of records that the source counts, without records that arrived after the stream was complete. Null if the source was not asked or cannot count that far.';
comment on column sync.verified_lists.theirs_most is 'The same, with records that may have arrived afterwards.';

create or replace view sync.recommendations as
select k.account_id, k.stream, k.kind, k.times, k.last_at, r.setting, r.remedy, k.source, k.stream_key
from (
  select a.account_id, a.source, a.stream, a.stream_key, one.kind, count(*) as times, max(a.checked_at) as last_at
  from sync.audit a, unnest(string_to_array(a.kind, '; ')) one (kind)
  where a.checked_at > now() - interval '30 days' and a.kind is not null
  group by a.account_id, a.source, a.stream, a.stream_key, one.kind
  having count(distinct a.run_id) >= 2) k
cross join lateral (
  select case
      when k.kind in ('changed here', 'only here') then null
      when k.kind in ('a change was missed', 'missing here') then null
      when k.stream_key in ('helpdesk.labels', 'helpdesk.inboxes') then null
      when k.stream_key = 'helpdesk.messages' then 'MESSAGES_AGE_DAYS'
      when k.stream_key = 'helpdesk.users' then 'SCHEDULE_NIGHTLY'
      when k.stream_key = 'books.shelves' then 'BOOKS_SHELF_AGE_HOURS'
      when k.stream_key = 'books.volumes' then 'BOOKS_VOLUME_AGE_DAYS'
      else 'SWEEP_AGE_DAYS' end as setting,
    case
      when k.kind in ('changed here', 'only here') then 'Another program writes to these tables. Only the worker may write to them.'
      when k.kind in ('a change was missed', 'missing here') then 'Read the range again: backfill --again. If it happens anew, please report it.'
      when k.stream_key in ('helpdesk.labels', 'helpdesk.inboxes') then 'Nothing to do: names of labels and inboxes are looked at again once a week.'
      when k.stream_key = 'helpdesk.messages' then 'The source does not announce such changes. Set MESSAGES_AGE_DAYS to re-read messages after that many days.'
      when k.stream_key = 'helpdesk.users' then 'Nothing announces it: let the night come more often, by SCHEDULE_NIGHTLY.'
      when k.stream_key = 'books.shelves' then 'Nothing announces it: set BOOKS_SHELF_AGE_HOURS lower, so that shelves are read again sooner.'
      when k.stream_key = 'books.volumes' then 'Nothing announces it: set BOOKS_VOLUME_AGE_DAYS lower, so that volumes are read again sooner.'
      else 'Nothing announces it: set SWEEP_AGE_DAYS lower, so that everything is looked at again sooner.' end as remedy) r;
comment on view sync.recommendations is
  'Kinds of difference that audits and verifications found in at least two runs of the last 30 days, with their remedy.';
comment on column sync.recommendations.account_id is 'The account.';
comment on column sync.recommendations.stream is 'The stream, as in sync.audit.';
comment on column sync.recommendations.kind is 'The kind of difference.';
comment on column sync.recommendations.times is 'Number of findings.';
comment on column sync.recommendations.last_at is 'Time of the last finding, by the source''s clock.';
comment on column sync.recommendations.setting is 'The setting that prevents the difference; null if none does.';
comment on column sync.recommendations.remedy is 'Recommended action.';
-- Readers, their accounts, and the rights of each role.

create table sync.readers (
  role_name name primary key,
  accounts text[],
  pii boolean not null,
  created_at timestamptz not null,
  created_by text not null
);
comment on table sync.readers is
  'Roles for readers of the mirrored data (npx shelfdesk reader create), with the accounts that each may see. A role that is neither listed here nor the owner of the tables sees no account.';
comment on column sync.readers.role_name is 'Login role of the reader.';
comment on column sync.readers.accounts is 'Accounts that the reader sees; null: all, including future ones.';
comment on column sync.readers.pii is 'True if the reader also sees personal data: names, addresses and texts.';
comment on column sync.readers.created_at is 'When the reader was created.';
comment on column sync.readers.created_by is 'Who created the reader.';

-- A session can narrow itself to one account: set shelfdesk.account = 'acme'. The setting never widens access.
create or replace view sync.readable_accounts with (security_barrier) as
select a.account_id
from sync.accounts a
-- A role that may read sync.readers is the owner or the worker.
where (
    has_table_privilege(current_user, 'sync.readers'::regclass, 'select')
    or exists (
      select from sync.readers r
      where r.role_name = current_user and (r.accounts is null or a.account_id = any (r.accounts))))
  and a.account_id = coalesce(nullif(current_setting('shelfdesk.account', true), ''), a.account_id);
comment on view sync.readable_accounts is
  'Accounts that the current role may read. Every view of analytics and safe shows only these accounts.';
comment on column sync.readable_accounts.account_id is 'The account.';

create table sync.secret_salt (
  is_one boolean default true primary key,
  inner_key bytea not null,
  outer_key bytea not null,
  check (is_one)
);
comment on table sync.secret_salt is
  'Key of the hashes in schema safe: one row of random bytes, readable only by the owner. The key allows guessing names and addresses from their hashes. A dump of the database contains it.';
comment on column sync.secret_salt.is_one is 'True; allows one row at most.';
comment on column sync.secret_salt.inner_key is
  'The key, padded with zeros to 64 bytes, each XOR 0x36: start of the inner hash of HMAC.';
comment on column sync.secret_salt.outer_key is
  'The key, padded with zeros to 64 bytes, each XOR 0x5C: start of the outer hash of HMAC.';

create or replace function sync.hand_over(heir name) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  one record;
  -- Reads everything first: a table cannot change its owner while a query of the same session reads it.
  schemas constant name[] := '{sync,analytics,internal,safe,bullmq}'::name[] || array(select s.name from sync.source_schemas s);
begin
  for one in
    select format('schema %I', n.nspname) as thing from pg_namespace n
    where n.nspname = any (schemas) and n.nspowner = current_user::regrole
    union all
    -- Sequences of columns, indexes and row types follow their tables.
    select format('%s %s', case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' else 'table' end, c.oid::regclass)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = any (schemas) and c.relkind in ('r', 'p', 'v', 'm', 'S')
      and c.relowner = current_user::regrole and not (c.relkind = 'S' and exists (
        select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype in ('a', 'i')))
    union all
    select format('routine %s', p.oid::regprocedure)
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname = any (schemas) and p.proowner = current_user::regrole
      and not exists (
        select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
  loop
    if one.thing like 'schema %' then execute format('grant create, usage on %s to %I', one.thing, heir); end if;
    execute format('alter %s owner to %I', one.thing, heir);
  end loop;
end
$$;
comment on function sync.hand_over is
  'Makes a role the owner of all Shelfdesk objects in this database that the caller owns.';

create or replace function sync.wanted_rights() returns table (role name, relation regclass, kind "char", right_name text)
language sql stable
begin atomic
  with ours as (
    select c.oid, n.nspname, c.relname, c.relkind, c.reloptions,
      -- The worker writes none of these.
      n.nspname = 'sync' and c.relname in ('readers', 'migrations') as to_be_read,
      n.nspname = 'sync' and (c.relname = 'readers' or starts_with(c.relname, 'secret_'))
        -- analytics.tickets_as_of reads this view with the rights of its caller.
        or n.nspname = 'internal' and c.relname <> 'ticket_basics' as hidden,
      -- If somebody granted a view by hand, the view kept its owner's rights and would show every account.
      (n.nspname = 'sync' or n.nspname in (select s.name from sync.source_schemas s)) and c.relkind = 'v' and c.oid <> 'sync.readable_accounts'::regclass
        and not coalesce('security_invoker=true' = any (c.reloptions), false) as unfiltered
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where (n.nspname in ('sync', 'analytics', 'internal', 'safe', 'bullmq') or n.nspname in (select s.name from sync.source_schemas s)) and c.relkind in ('r', 'p', 'v', 'm', 'S')
      and not exists (
        select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e'))
  select 'shelfdesk_reader'::name, o.oid::regclass, o.relkind, 'select' from ours o
  where o.relkind <> 'S' and not o.hidden and not o.unfiltered
    and (o.nspname in ('analytics', 'internal', 'safe') or o.nspname in (select s.name from sync.source_schemas s where not s.personal) or o.oid = 'sync.readable_accounts'::regclass)
  union all
  select 'shelfdesk_reader_pii', o.oid, o.relkind, 'select' from ours o
  where o.relkind <> 'S' and not o.hidden and not o.unfiltered and o.nspname <> 'bullmq'
  union all
  -- The rights of shelfdesk_sql: everything that the owner reads, without the keys.
  select 'shelfdesk_sql', o.oid, o.relkind, 'select' from ours o
  where o.relkind <> 'S' and not (o.nspname = 'sync' and starts_with(o.relname, 'secret_'))
  union all
  select 'shelfdesk_writer', o.oid, o.relkind, p.name from ours o
  cross join unnest(case
    when o.relkind = 'S' then '{usage,select}'
    when o.relkind in ('v', 'm') or o.to_be_read then '{select}'
    else '{select,insert,update,delete}' end::text[]) p (name)
  where o.oid <> 'sync.secret_salt'::regclass;
end;
comment on function sync.wanted_rights is
  'Rights of each Shelfdesk role on each table, view and sequence. Readers have no access to the schema internal, to sync.readers, and to tables of sync whose name begins with secret_.';

create or replace function sync.settle_roles() returns text[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  one record;
  groups name[];
  all_groups constant text[] := '{shelfdesk_owner,shelfdesk_writer,shelfdesk_reader,shelfdesk_reader_pii,shelfdesk_sql}';
  missing text[] := '{}';
  key bytea;
  inner_key bytea := decode(repeat('36', 64), 'hex');
  outer_key bytea := decode(repeat('5c', 64), 'hex');
begin
  if not exists (select from sync.secret_salt) then
    -- Three UUIDs with 122 random bits each, from the server's strong random source.
    key := sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
    for i in 0..31 loop
      inner_key := set_byte(inner_key, i, get_byte(inner_key, i) # get_byte(key, i));
      outer_key := set_byte(outer_key, i, get_byte(outer_key, i) # get_byte(key, i));
    end loop;
    insert into sync.secret_salt (inner_key, outer_key) values (inner_key, outer_key) on conflict do nothing;
  end if;

  for one in
    select g.name, r.rolcanlogin from unnest(all_groups) g (name) left join pg_roles r on r.rolname = g.name
  loop
    -- A login of this name belongs to somebody else and gets no new rights.
    if one.rolcanlogin then
      missing := missing || format('%s can log in, so it is not the role of that name that Shelfdesk means', one.name);
    elsif one.rolcanlogin is null then
      begin
        execute format('create role %I nologin', one.name);
        groups := groups || one.name::name;
      exception
        -- Another database of this server may create the role at the same time.
        when duplicate_object or unique_violation then groups := groups || one.name::name;
        when insufficient_privilege then
          missing := missing || format('there is no role %s, and %s may not make one', one.name, current_user);
      end;
    else
      groups := groups || one.name::name;
    end if;
  end loop;

  -- Several people may run migrations: a member of shelfdesk_owner hands over the objects that it owns.
  if 'shelfdesk_owner' = any (groups) and exists (
    select from pg_auth_members m
    where m.roleid = 'shelfdesk_owner'::regrole and m.member = current_user::regrole
      -- PostgreSQL 16 makes the creator of a role its administrator, but not a member with its rights.
      and coalesce((to_jsonb(m) ->> 'inherit_option')::boolean, true)) then
    perform sync.hand_over('shelfdesk_owner');
  end if;

  -- Views for readers run with the caller's rights, so that row-level security applies.
  if groups @> '{shelfdesk_reader,shelfdesk_reader_pii}' then
    for one in
      select c.oid::regclass as relation from pg_class c
      where c.relnamespace in (select n.oid from pg_namespace n where n.nspname = 'sync' or n.nspname in (select s.name from sync.source_schemas s)) and c.relkind = 'v'
        and c.oid <> 'sync.readable_accounts'::regclass and pg_has_role(c.relowner, 'usage')
        and not coalesce('security_invoker=true' = any (c.reloptions), false)
        and not exists (
          select from aclexplode(c.relacl) a left join pg_roles r on r.oid = a.grantee
          where a.grantee <> c.relowner and not coalesce(r.rolname = any (groups), false))
    loop
      execute format('alter view %s set (security_invoker = true)', one.relation);
    end loop;
    for one in
      select c.oid::regclass as relation, c.relrowsecurity,
        exists (select from pg_policy p where p.polrelid = c.oid and p.polname = 'as_before') as open,
        exists (select from pg_policy p where p.polrelid = c.oid and p.polname = 'readers') as filtered
      from pg_class c
      join pg_attribute a on a.attrelid = c.oid and a.attname = 'account_id' and not a.attisdropped
      where c.relnamespace in (select n.oid from pg_namespace n where n.nspname in ('sync', 'analytics') or n.nspname in (select s.name from sync.source_schemas s))
        and c.relkind in ('r', 'p') and pg_has_role(c.relowner, 'usage')
      order by c.oid
    loop
      -- Roles with earlier access keep it. Each reader sees its own accounts.
      if not one.open then
        execute format('create policy as_before on %s using (true) with check (true)', one.relation);
      end if;
      if not one.filtered then
        execute format('create policy readers on %s as restrictive to shelfdesk_reader, shelfdesk_reader_pii '
          'using (account_id = any (array(select account_id from sync.readable_accounts)))', one.relation);
      end if;
      if not one.relrowsecurity then execute format('alter table %s enable row level security', one.relation); end if;
    end loop;
  end if;

  -- Default privileges of the database may have exposed the keys and the list of readers.
  for one in
    select distinct c.oid::regclass as relation, a.grantee, case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as name
    from pg_class c cross join aclexplode(c.relacl) a
    where c.relnamespace = 'sync'::regnamespace and c.relkind in ('r', 'p') and (c.relname = 'readers' or starts_with(c.relname, 'secret_'))
      and pg_has_role(c.relowner, 'usage') and a.grantee <> c.relowner
      and a.grantee <> all (array(
        select r.oid from pg_roles r
        where r.rolname = any (groups) and (r.rolname = 'shelfdesk_writer' or r.rolname = 'shelfdesk_sql' and c.relname = 'readers')))
  loop
    execute format('revoke all on table %s from %s cascade', one.relation, one.name);
  end loop;

  for one in
    select n.nspname as schema, g.name as role
    from pg_namespace n
    cross join (values ('shelfdesk_writer', '{sync,analytics,internal,safe,bullmq}'::name[], true),
      ('shelfdesk_sql', '{sync,analytics,internal,safe,bullmq}', true),
      ('shelfdesk_reader', '{analytics,safe}', false),
      ('shelfdesk_reader_pii', '{sync,analytics,safe}', true)) g (name, schemas, personal)
    where (n.nspname = any (g.schemas) or exists (
        select from sync.source_schemas s where s.name = n.nspname and (g.personal or not s.personal)))
      and g.name = any (groups) and pg_has_role(n.nspowner, 'usage') and not has_schema_privilege(g.name, n.oid, 'usage')
  loop
    execute format('grant usage on schema %I to %I', one.schema, one.role);
  end loop;
  for one in
    select w.role, w.relation, w.kind, string_agg(w.right_name, ', ') as rights
    from sync.wanted_rights() w join pg_class c on c.oid = w.relation
    where w.role = any (groups) and pg_has_role(c.relowner, 'usage') and not case
      when w.kind = 'S' then has_sequence_privilege(w.role, w.relation, w.right_name)
      else has_table_privilege(w.role, w.relation, w.right_name) end
    group by 1, 2, 3
  loop
    execute format('grant %s on %s %s to %I', one.rights, case one.kind when 'S' then 'sequence' else 'table' end, one.relation, one.role);
  end loop;
  -- By default everybody may call functions.
  for one in
    select p.oid::regprocedure as routine, g.name as role
    from pg_proc p cross join unnest(groups) g (name)
    where p.pronamespace in (select n.oid from pg_namespace n where n.nspname in ('sync', 'analytics', 'internal', 'safe') or n.nspname in (select s.name from sync.source_schemas s))
      and g.name <> 'shelfdesk_owner' and not p.prosecdef and p.proname not in ('settle_roles', 'settle_comments', 'hand_over')
      and pg_has_role(p.proowner, 'usage') and not has_function_privilege(g.name, p.oid, 'execute')
  loop
    execute format('grant execute on routine %s to %I', one.routine, one.role);
  end loop;
  return missing;
end
$$;
comment on function sync.settle_roles is
  'Creates the Shelfdesk roles, if allowed, and grants missing rights. Changes nothing if everything is in place. Returns the obstacles.';

-- PostgreSQL applies row-level policies before an index that might leak rows, so a search would read every message.
-- Therefore these functions run with their owner's rights, and check the accounts of the caller themselves.
create or replace function sync.searched_accounts(relation text) returns text[]
language plpgsql stable
as $$
declare
  -- The caller, also in functions with owner's rights: the role that was set, or the login.
  asker constant name := coalesce(nullif(current_setting('role'), 'none'), session_user);
begin
  if not has_table_privilege(asker, relation, 'select') then
    raise insufficient_privilege using message = format('permission denied for table %s', relation),
      hint = 'A reader with --pii may search (npx shelfdesk reader create).';
  end if;
  return array(
    select a.account_id from sync.accounts a
    where has_table_privilege(asker, 'sync.readers', 'select')
      or exists (select from sync.readers r where r.role_name = asker and (r.accounts is null or a.account_id = any (r.accounts)))
    order by 1);
end
$$;
comment on function sync.searched_accounts is
  'Accounts in which the caller may search, like sync.readable_accounts, for functions that run with their owner''s rights. Raises an error if the caller may not read the table.';

revoke execute on function sync.settle_roles(), sync.hand_over(name) from public;
-- Views for readers without the right to personal data: keyed hashes replace personal values.

create or replace function sync.masked(kind text, value text, inner_key bytea, outer_key bytea) returns text
language sql immutable parallel safe
begin atomic
  select case when value = '' then ''
    else encode(sha256(outer_key || sha256(inner_key || convert_to(kind || ':' || value, 'UTF8'))), 'hex') end;
end;
comment on function sync.masked is
  'Keyed hash of a value: HMAC-SHA-256 in hexadecimal, with the keys of sync.secret_salt. null and '''' stay. Values of different kinds never share a hash.';

create or replace function sync.masked_contact(value text, inner_key bytea, outer_key bytea) returns text
language sql immutable parallel safe
begin atomic
  select sync.masked('contact', case when value = '' then '' else sync.contact_form(value) end, inner_key, outer_key);
end;
comment on function sync.masked_contact is
  'Keyed hash of an address, equal for all spellings of the address, in messages, tickets, contacts and users.';

create or replace function sync.masked_title(name text, inner_key bytea, outer_key bytea) returns text
language sql immutable parallel safe
begin atomic
  select case when regexp_replace(normalize(name, nfkc), '[^[:alnum:]@]', '', 'g') ~ '@|[[:digit:]]{6}' then sync.masked('title', name, inner_key, outer_key) else name end;
end;
comment on function sync.masked_title is
  'Name of an inbox or label, hashed if it may contain an address or number: an @, or six digits, also with spaces or punctuation between them.';

create or replace view safe.users with (security_barrier) as
select t.account_id, t.id,
  sync.masked('first name', t.first_name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as first_name,
  sync.masked('last name', t.last_name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as last_name,
  sync.masked_contact(t.email, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as email,
  t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at
from helpdesk.users t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.users is 'helpdesk.users with hashes of names and address.';
comment on column safe.users.first_name is 'Keyed hash of users.first_name: equal where that is equal; null and '''' stay.';
comment on column safe.users.last_name is 'Keyed hash of users.last_name: equal where that is equal; null and '''' stay.';
comment on column safe.users.email is 'Keyed hash of users.email: equal where that is equal; null and '''' stay.';

create or replace view safe.inboxes with (security_barrier) as
select t.account_id, t.id,
  sync.masked_title(t.name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as name,
  t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at
from helpdesk.inboxes t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.inboxes is
  'helpdesk.inboxes. A name with an @ or six digits, also with spaces or punctuation between them, is hashed.';

create or replace view safe.labels with (security_barrier) as
select t.account_id, t.id,
  sync.masked_title(t.name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as name,
  t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at
from helpdesk.labels t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.labels is
  'helpdesk.labels. A name with an @ or six digits, also with spaces or punctuation between them, is hashed.';

create or replace view safe.customers with (security_barrier) as
select t.account_id, t.id,
  sync.masked('first name', t.first_name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as first_name,
  sync.masked('last name', t.last_name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as last_name,
  sync.masked('summary', t.summary, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as summary,
  t._created_after, t._created_before, t._checked_at, t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at, t._deleted_after
from helpdesk.customers t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.customers is 'helpdesk.customers with hashes of names and summary.';
comment on column safe.customers.first_name is
  'Keyed hash of customers.first_name: equal where that is equal; null and '''' stay.';
comment on column safe.customers.last_name is 'Keyed hash of customers.last_name: equal where that is equal; null and '''' stay.';
comment on column safe.customers.summary is 'Keyed hash of customers.summary: equal where that is equal; null and '''' stay.';

create or replace view safe.contacts with (security_barrier) as
select t.account_id, t.id, t.customer_id, t.type,
  sync.masked_contact(t.value, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as value,
  sync.masked_contact(t.value, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as value_normalized,
  t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at
from helpdesk.contacts t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.contacts is
  'helpdesk.contacts with hashes of the addresses. Equal addresses have equal hashes in safe.messages, safe.tickets and safe.users.';
comment on column safe.contacts.customer_id is 'The customer; joins safe.customers.id.';
comment on column safe.contacts.value is 'Keyed hash of contacts.value: equal where that is equal; null and '''' stay.';
comment on column safe.contacts.value_normalized is
  'Keyed hash of contacts.value_normalized: equal where that is equal; null and '''' stay.';

-- The date of a ticket version may be later than its change. Then later changes wait for a reply that tells which
-- version is newer.

create or replace view safe.tickets with (security_barrier) as
select t.account_id, t.id, t.number, t.customer_id, t.user_id, t.inbox_id, t.label_ids, t.state, t.type,
  sync.masked('subject', t.subject, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as subject,
  sync.masked('summary', t.summary, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as summary,
  t.spam, t.trash, t.snoozed_until,
  sync.masked_contact(t.reply_to, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as reply_to,
  sync.masked_contact(t.reply_cc, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as reply_cc,
  t.created_at, t.updated_at, t._messages_as_of, t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at,
  t._deleted_after, t._listed_by, t._messages_by, t._true_by
from helpdesk.tickets t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.tickets is
  'helpdesk.tickets without personal data: subject, summary and addresses are keyed hashes.';
comment on column safe.tickets.customer_id is 'The customer; joins safe.customers.id.';
comment on column safe.tickets.user_id is 'The assigned user; null while unassigned. Joins safe.users.id.';
comment on column safe.tickets.inbox_id is 'The inbox; joins safe.inboxes.id.';
comment on column safe.tickets.subject is 'Keyed hash of tickets.subject: equal where that is equal; null and '''' stay.';
comment on column safe.tickets.summary is 'Keyed hash of tickets.summary: equal where that is equal; null and '''' stay.';
comment on column safe.tickets.reply_to is 'Keyed hash of tickets.reply_to: equal where that is equal; null and '''' stay.';
comment on column safe.tickets.reply_cc is 'Keyed hash of tickets.reply_cc: equal where that is equal; null and '''' stay.';

create or replace view safe.ticket_labels with (security_barrier) as
select t.account_id, t.ticket_id, t.label_id
from helpdesk.ticket_labels t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.ticket_labels is 'helpdesk.ticket_labels: which ticket carries which label.';
comment on column safe.ticket_labels.ticket_id is 'Joins safe.tickets.id.';
comment on column safe.ticket_labels.label_id is 'Joins safe.labels.id.';

-- Also shows change_by to readers without the right to personal data.

create or replace view safe.ticket_history with (security_barrier) as
select t.account_id, t.ticket_id, t.state, t.user_id, t.inbox_id, t.label_ids, t.spam, t.trash, t.valid_from, t.valid_to, t.change_after, t.is_first, t.deleted_after, t.change_by
from helpdesk.ticket_history t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.ticket_history is 'helpdesk.ticket_history: past and present state of each ticket.';
comment on column safe.ticket_history.ticket_id is 'The ticket; joins safe.tickets.id.';
comment on column safe.ticket_history.user_id is 'The assigned user; null while unassigned. Joins safe.users.id.';
comment on column safe.ticket_history.inbox_id is 'The inbox; joins safe.inboxes.id.';
comment on column safe.ticket_history.label_ids is 'Labels on the ticket; each joins safe.labels.id.';
comment on column safe.ticket_history.valid_from is
  'Start of the row: the updated_at of the version that shows the change, if it moved; else the time when the change was seen. A first row starts at the updated_at at which the ticket was first seen; earlier states are unknown. If another edit moved updated_at and this change did not, the change happened later, at the latest when that version was read.';
comment on column safe.ticket_history.change_after is
  'Lower bound of the time of the change, in whole seconds of the source: the old values were last seen then. For a first row: one second before the creation. Null if unknown. The change happened by valid_from if it moved updated_at; see valid_from. A change that was undone in between is unknown.';

create or replace view safe.messages with (security_barrier) as
select t.account_id, t.id, t.ticket_id, t.position, t.type, t.direction, t.user_id,
  sync.masked('name', t.from_name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as from_name,
  sync.masked_contact(t.from_address, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as from_address,
  sync.masked_contact(t.to_address, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as to_address,
  length(t.body_text) as body_length,
  t.htmlized, t.created_at, t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at
from helpdesk.messages t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.messages is
  'helpdesk.messages without texts: names and addresses are keyed hashes; body_length replaces the body.';
comment on column safe.messages.ticket_id is 'The ticket; joins safe.tickets.id.';
comment on column safe.messages.user_id is
  'Author, if a team member; null for customers and automatic replies. Joins safe.users.id.';
comment on column safe.messages.from_name is 'Keyed hash of messages.from_name: equal where that is equal; null and '''' stay.';
comment on column safe.messages.from_address is
  'Keyed hash of messages.from_address: equal where that is equal; null and '''' stay.';
comment on column safe.messages.to_address is 'Keyed hash of messages.to_address: equal where that is equal; null and '''' stay.';
comment on column safe.messages.body_length is 'Number of characters in body_text.';

create or replace view safe.attachments with (security_barrier) as
select t.account_id, t.id, t.message_id, t.ticket_id,
  sync.masked('file', t.name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as name,
  -- A parameter after the semicolon may hold a file name: text/plain; name="…".
  split_part(t.type, ';', 1) as type, t.size, t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at
from helpdesk.attachments t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.attachments is 'helpdesk.attachments with hashes of the file names.';
comment on column safe.attachments.message_id is 'The message; joins safe.messages.id.';
comment on column safe.attachments.ticket_id is 'The ticket of that message; joins safe.tickets.id.';
comment on column safe.attachments.name is 'Keyed hash of attachments.name: equal where that is equal; null and '''' stay.';
comment on column safe.attachments.type is 'MIME type, without its parameters.';
-- Erased customers, and the hashes by which they are recognised.

create table sync.erased (
  account_id text,
  customer_id text,
  erased_at timestamptz not null,
  found_again boolean not null,
  primary key (account_id, customer_id)
);
comment on table sync.erased is
  'Customers whose personal data was erased (npx shelfdesk erase) and stays out: later replies are reduced to ids, times and states before they are stored.';
comment on column sync.erased.erased_at is 'Time of the first erasure.';
comment on column sync.erased.found_again is
  'False if this customer was named in the request; true if a contact value identified it.';

create table sync.erased_tickets (
  account_id text,
  ticket_id text,
  erased_at timestamptz not null,
  primary key (account_id, ticket_id)
);
comment on table sync.erased_tickets is
  'Tickets of erased customers. They stay erased, even if the source assigns them to another customer.';
comment on column sync.erased_tickets.erased_at is 'Time of the first erasure.';

create table sync.secret_erased (
  account_id text,
  contact_hash text,
  erased_at timestamptz not null,
  primary key (account_id, contact_hash)
);
comment on table sync.secret_erased is
  'Keyed hashes of contact values that identify an erased person under another customer id. The values cannot be derived from the hashes.';
comment on column sync.secret_erased.contact_hash is
  'HMAC-SHA-256 of a normalised contact value (sync.contact_forms), with the key of sync.secret_erasure.';
comment on column sync.secret_erased.erased_at is 'Time when the hash was first stored.';

create table sync.secret_erasure (
  is_one boolean default true primary key,
  inner_key bytea not null,
  outer_key bytea not null,
  check (is_one)
);
comment on table sync.secret_erasure is
  'Key of the hashes in sync.secret_erased: one row of random bytes, different from the key of schema safe. Without the key, erased persons are not recognised.';
comment on column sync.secret_erasure.is_one is 'True; allows one row at most.';
comment on column sync.secret_erasure.inner_key is
  'The key, padded with zeros to 64 bytes, each XOR 0x36: start of the inner hash of HMAC.';
comment on column sync.secret_erasure.outer_key is
  'The key, padded with zeros to 64 bytes, each XOR 0x5C: start of the outer hash of HMAC.';

create or replace function sync.any_erased(account text) returns boolean
language plpgsql volatile
as $$
begin
  -- 'SHER': an erasure waits for running commits, and new commits wait for the erasure. The lock is taken before the
  -- lookup.
  perform pg_advisory_xact_lock_shared(1397245266, hashtext(account));
  if not exists (select from sync.erased e where e.account_id = account) then return false; end if;
  if not exists (select from sync.secret_erasure) then
    raise exception 'the key in sync.secret_erasure is gone: erased persons would not be recognised, so nothing is stored in account %', account
      using hint = 'Bring its one row back from the dump that the database was restored from: docs/how-to/erase-a-person.md.';
  end if;
  return true;
end
$$;
comment on function sync.any_erased is
  'True if the account has erased people. Until the transaction ends no further erasure begins, so stored data stays screened.';

create or replace function sync.contact_hash(form text) returns text
language sql stable parallel safe
begin atomic
  select sync.masked('erased', form, k.inner_key, k.outer_key) from sync.secret_erasure k;
end;
comment on function sync.contact_hash is 'Keyed hash of a normalised contact value, as in sync.secret_erased.';

do $$
declare
  -- Three UUIDs with 122 random bits each, from the server's strong random source.
  key constant bytea := sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
  inner_key bytea := decode(repeat('36', 64), 'hex');
  outer_key bytea := decode(repeat('5c', 64), 'hex');
begin
  for i in 0..31 loop
    inner_key := set_byte(inner_key, i, get_byte(inner_key, i) # get_byte(key, i));
    outer_key := set_byte(outer_key, i, get_byte(outer_key, i) # get_byte(key, i));
  end loop;
  insert into sync.secret_erasure (inner_key, outer_key) values (inner_key, outer_key);
end
$$;
-- How complete each stream is.

create or replace function sync.complete_through(account text, stream text) returns timestamptz
language sql stable
begin atomic
  select case
    when sync.key_of(complete_through.stream) = 'helpdesk.messages' then case
      -- least() ignores null. A stream that was never read has no complete_through.
      when sync.lists_complete_through(account, 'helpdesk.tickets') is not null then least(
        sync.lists_complete_through(account, 'helpdesk.tickets'),
        (select t.updated_at
         from helpdesk.tickets t
         where t.account_id = account
           and (t._messages_as_of is null or t._messages_as_of < t.updated_at)
           and t._deleted_at is null
         order by t.updated_at
         limit 1)) end
    when sync.key_of(complete_through.stream) = 'books.volumes' then case
      when sync.lists_complete_through(account, 'books.shelves') is not null then least(
        sync.lists_complete_through(account, 'books.shelves'),
        (select min(w.waits_since) from sync.waiting_volumes w where w.account_id = account and not w.rejected)) end
    else sync.lists_complete_through(account, sync.key_of(complete_through.stream))
  end;
end;
comment on function sync.complete_through is
  'The stream is complete up to this time, except for its open rejects; null if it was never read. Messages: up to the first ticket with pending messages. Volumes: up to the first volume with a pending fetch by id. The argument is the stream''s key, or its short name if only one source has a stream of that name.';

create or replace function sync.void_since(account text, source text, since timestamptz) returns void
language sql
begin atomic
  update sync.coverage c set covered = c.covered * tstzmultirange(tstzrange(null, since))
  from sync.streams k
  where k.source = void_since.source and c.stream_key = k.stream_key and c.account_id = account
    and c.covered && tstzrange(since, null);
  delete from sync.walks w using sync.streams k
  where k.source = void_since.source and w.stream_key = k.stream_key and w.account_id = account and w.as_of > since;
  delete from sync.swept s using sync.streams k
  where k.source = void_since.source and s.stream_key = k.stream_key and s.account_id = account and s.as_of > since;
  -- Any later reply overwrites rows from after that time, even with a version of an older date.
  update helpdesk.tickets t set
    _observed_at = least(t._observed_at, since),
    -- `since` is early by the tolerance of the clock.
    _true_by = least(coalesce(t._true_by, t._observed_at + interval '1 minute'),
      since + (select greatest(a.lookback, interval '5 seconds') from sync.accounts a where a.account_id = t.account_id)),
    _messages_as_of = case when t._messages_as_of > since then since else t._messages_as_of end
  where void_since.source = 'helpdesk' and t.account_id = account
    and (t.updated_at > since or t._observed_at > since or t._messages_as_of > since);
  update helpdesk.customers c set
    _observed_at = least(c._observed_at, since),
    _checked_at = case when c._checked_at > since then since else c._checked_at end
  where void_since.source = 'helpdesk' and c.account_id = account and (c._observed_at > since or c._checked_at > since);
  update helpdesk.users u set _observed_at = since
  where void_since.source = 'helpdesk' and u.account_id = account and u._observed_at > since;
  delete from helpdesk.ticket_history h
  where void_since.source = 'helpdesk' and h.account_id = account and h.valid_from > since and exists (
    select from helpdesk.ticket_history l
    where l.account_id = h.account_id and l.ticket_id = h.ticket_id and l.valid_from > h.valid_from);
  update helpdesk.ticket_history h set
    valid_to = greatest(since, h.valid_from + interval '1 second'),
    deleted_after = case when h.deleted_after < since then h.deleted_after end
  where void_since.source = 'helpdesk' and h.account_id = account and h.valid_from <= since and h.valid_to > since;
  update helpdesk.ticket_history h set
    valid_from = p.at,
    valid_to = case when h.valid_to is not null then greatest(h.valid_to, p.at + interval '1 second') end,
    change_after = case
      when p.last_from is not null then least(h.change_after, p.last_from - interval '1 second')
      when p.created_at <= p.at then p.created_at - interval '1 second' end,
    is_first = p.last_from is null
  from (
    select l.account_id, l.ticket_id, l.valid_from, b.valid_from as last_from, greatest(since, b.valid_to) as at, t.created_at
    from helpdesk.ticket_history l
    join helpdesk.tickets t on t.account_id = l.account_id and t.id = l.ticket_id
    left join lateral (
      select e.valid_from, e.valid_to from helpdesk.ticket_history e
      where e.account_id = l.account_id and e.ticket_id = l.ticket_id and e.valid_from < l.valid_from
      order by e.valid_from desc limit 1) b on true
    where l.account_id = account and l.valid_from > since) p
  where void_since.source = 'helpdesk' and h.account_id = p.account_id and h.ticket_id = p.ticket_id and h.valid_from = p.valid_from;
end;
comment on function sync.void_since is
  'Handles a source clock that was set back to this time. Synced, swept and confirmed ranges end there; later replies overwrite rows with later times; the history of tickets has no later rows.';

create table sync.targets (
  account_id text,
  subject text,
  target interval not null,
  primary key (account_id, subject)
);
comment on table sync.targets is
  'Freshness targets: the longest lag of each stream, and the longest duration of a nightly run. Copied from the settings at each start.';
comment on column sync.targets.subject is 'Key of a stream, source.stream, or nightly.';
comment on column sync.targets.target is 'Longest lag, or longest duration.';

create or replace function sync.behind(account text, stream text, at timestamptz default now()) returns interval
language sql stable
begin atomic
  with known as (
    select k.stream_key, a.mirrored_since,
      behind.at + coalesce((
        select (b.state #>> '{clock,offsetMs}')::float8 * interval '1 millisecond'
        from sync.budget b where (b.account_id, b.source) = (behind.account, k.source)), interval '0') as source_at,
      (select case when not bool_or(isempty(c.covered)) then min(upper(c.covered)) end
       from sync.coverage c
       where c.account_id = behind.account and c.stream_key = coalesce(k.source || '.' || k.follows, k.stream_key) and not c.redundant) as top
    from sync.accounts a cross join sync.streams k
    where a.account_id = behind.account and k.stream_key = sync.key_of(behind.stream))
  select greatest(interval '0', n.source_at - least(n.top, case n.stream_key
    when 'helpdesk.messages' then (
      select t.updated_at from helpdesk.tickets t
      where t.account_id = behind.account and (t._messages_as_of is null or t._messages_as_of < t.updated_at)
        and t._deleted_at is null and t.updated_at > n.mirrored_since
        and not exists (
          select from sync.rejects r
          where r.account_id = t.account_id and r.stream_key = 'helpdesk.messages' and r.ask_id = t.id and r.cleared_at is null
          offset 0)
      order by t.updated_at limit 1)
    when 'books.volumes' then (
      select min(w.waits_since) from sync.waiting_volumes w join books.volumes v using (account_id, id)
      where w.account_id = behind.account and not w.rejected and (v._checked_at is not null or exists (
        select from books.shelf_volume_history h
        where h.account_id = w.account_id and h.volume_id = w.id and h.position is not null and h.change_after is not null)))
    end))
  from known n
  where n.top > n.mirrored_since - interval '1 hour';
end;
comment on function sync.behind is
  'Lag of the newest part of the stream: every change older than this, and later than the start of the mirror, is stored, except for open rejects. Missing history does not count. Null until the first load has reached the start of the mirror, and while a list of the stream was never read. The lookback (HELPDESK_LOOKBACK_SECONDS) is part of the lag, because changes that young may be missing.';

create or replace view sync.status as
select s.account_id, k.stream,
  e.complete_through,
  now() - e.complete_through as lag,
  h.gaps,
  w.waiting,
  (select count(*) from sync.rejects r
   where r.account_id = s.account_id and r.stream_key = s.stream_key and r.cleared_at is null) as open_rejects,
  l.run_id as last_run,
  l.state as last_state,
  l.finished_at as last_finished_at,
  (select g.finished_at from sync.stored_run_streams g
   where g.account_id = s.account_id and g.stream_key = s.stream_key and g.state = 'completed'
     and (select o.kind from sync.stored_runs o where o.id = g.run_id) not in ('audit', 'verify')
   order by g.finished_at desc limit 1) as last_success_at,
  case when l.state = 'interrupted' and l.finished_at is null then 'its process is gone' else l.error end as last_error,
  case when l.state = 'interrupted' and l.finished_at is null
    then 'Nothing to do while a worker runs: it resumes there. Otherwise run `npx shelfdesk start`, or the same command again.' else l.remedy end as remedy,
  k.source,
  l.sleeps_until,
  sync.deletes_checked_at(s.account_id, s.stream_key) as deletes_checked_at,
  -- As sync.audit_confidence computes it over all fields, but only for the requested stream.
  (select case when count(*) > 0 then
      sync.at_most(count(distinct u.record_id) filter (where u.differences is not null), count(distinct u.record_id) filter (where not u.unread)) end
   from sync.audit u
   where u.account_id = s.account_id and u.stream_key = s.stream_key and u.random and u.checked_at > now() - interval '7 days') as differ_at_most_percent,
  (select min(u.checked_at) from sync.audit u
   where u.account_id = s.account_id and u.stream_key = s.stream_key and u.random and u.checked_at > now() - interval '7 days') as differ_as_of,
  b.behind,
  t.target,
  case
    when sync.is_paused(s.account_id, s.stream_key) or sync.is_paused(s.account_id, k.source || '.' || k.follows) then 'paused'
    when l.run_id is null then 'never_synced'
    when d.state = 'failed' then 'failing'
    when b.behind is null then 'catching_up'
    when b.behind > t.target and not coalesce(d.sleeps_until > now(), false) then 'stale'
    when (w.waiting > 0 or h.gaps > 0)
      and not coalesce(e.complete_through > now() - greatest(t.target, b.behind), false) then 'catching_up'
    when d.sleeps_until > now() and w.waiting > 0 then 'catching_up'
    else 'fresh' end as state,
  sync.change_latency(s.account_id, s.stream_key, 50) as age_p50,
  sync.change_latency(s.account_id, s.stream_key, 95) as age_p95,
  s.stream_key
from (
  select distinct c.account_id, k.stream_key
  from sync.coverage c join sync.streams k on c.source = k.source and c.stream in (k.stream, k.follows)
) s
join sync.streams k using (stream_key)
cross join lateral (select sync.complete_through(s.account_id, s.stream_key) as complete_through offset 0) e
cross join lateral (
  select count(*) as gaps from sync.gaps h where h.account_id = s.account_id and h.stream_key = s.stream_key) h
cross join lateral (
  select case s.stream_key
    when 'helpdesk.messages' then (
      select count(*) from helpdesk.tickets t
      where t.account_id = s.account_id
        and (t._messages_as_of is null or t._messages_as_of < t.updated_at)
        and t._deleted_at is null)
    when 'books.volumes' then (select count(*) from sync.waiting_volumes w where w.account_id = s.account_id)
    else 0 end as waiting) w
cross join lateral (select sync.behind(s.account_id, s.stream_key) as behind offset 0) b
left join sync.targets t on (t.account_id, t.subject) = (s.account_id, s.stream_key)
left join lateral (
  select r.run_id,
    case when r.state = 'waiting' and (select u.state from sync.runs u where u.id = r.run_id) = 'interrupted'
      then 'interrupted' else r.state end as state,
    r.finished_at, r.error, r.remedy, r.sleeps_until
  from sync.run_streams r
  -- Audits and verifications do not extend coverage, so their runs do not count here.
  where r.account_id = s.account_id and r.stream_key = s.stream_key
    and (select u.kind from sync.stored_runs u where u.id = r.run_id) not in ('audit', 'verify')
  order by r.run_id desc
  limit 1
) l on true
-- A running run has no result yet.
left join lateral (
  select r.state, r.sleeps_until
  from sync.stored_run_streams r
  where r.account_id = s.account_id and r.stream_key = s.stream_key and r.state not in ('waiting', 'running')
    and (select u.kind from sync.stored_runs u where u.id = r.run_id) not in ('audit', 'verify', 'sweep', 'backfill')
  order by r.run_id desc
  limit 1
) d on true;
comment on view sync.status is 'How complete each stream of each account is, and what is missing.';
comment on column sync.status.account_id is 'The account.';
comment on column sync.status.stream is 'The stream.';
comment on column sync.status.complete_through is
  'The table is complete up to this time, except for its open rejects; null if it was never read.';
comment on column sync.status.lag is 'Time since complete_through.';
comment on column sync.status.gaps is 'Number of unread ranges below the high-water mark; see sync.gaps.';
comment on column sync.status.waiting is 'Tickets with pending messages; volumes with a pending fetch by id.';
comment on column sync.status.open_rejects is 'Number of records that could not be stored; see sync.rejects.';
comment on column sync.status.last_run is 'The last run that read the stream. Audits and verifications do not count.';
comment on column sync.status.last_state is 'State of that run.';
comment on column sync.status.last_finished_at is 'End of that run; null while it is running.';
comment on column sync.status.last_success_at is 'End of the last completed run that read the stream.';
comment on column sync.status.last_error is 'Error of the last run.';
comment on column sync.status.source is 'Source of the stream: helpdesk or books.';
comment on column sync.status.deletes_checked_at is
  'None of the rows shown here had been deleted at the source before this time; null if the stream was never swept whole. Unknown for messages; see sync.ticket_completeness.';
comment on column sync.status.differ_at_most_percent is
  'Upper bound, in percent with 95 % confidence, of the share of stored records that differ from the source, from random comparisons of the last seven days. For messages: of tickets with complete messages. Null without comparisons. sync.audit_confidence has the bounds by field.';
comment on column sync.status.differ_as_of is 'The oldest comparison behind this bound, by the source''s clock.';
comment on column sync.status.behind is
  'Lag of the newest part of the stream: every older change since the start of the mirror is stored. Unlike lag, it ignores missing history. See sync.behind.';
comment on column sync.status.target is 'Freshness target from the settings; see sync.targets.';
comment on column sync.status.state is
  'fresh; catching_up (within its target, but history or details are pending, the first load is running, or the daily quota is used up); stale (behind its target); failing (the last finished run failed); never_synced; paused (by a person, or because the stream that it depends on is paused).';
comment on column sync.status.age_p50 is
  'Median change latency of the last hour: age of a change when it was stored. Null without changes.';
comment on column sync.status.age_p95 is
  '95th percentile of the change latency of the last hour. Null without changes.';

create or replace view sync.ticket_completeness as
select t.account_id, t.id as ticket_id,
  t._messages_as_of is not null and t._messages_as_of >= t.updated_at and r.open_rejects = 0 as messages_complete,
  t._messages_as_of as messages_as_of,
  k.checked_at,
  r.open_rejects
from helpdesk.tickets t
join sync.checked_tickets k on (k.account_id, k.ticket_id) = (t.account_id, t.id)
cross join lateral (
  select count(*) as open_rejects from sync.rejects r
  where r.account_id = t.account_id and r.stream_key in ('helpdesk.tickets', 'helpdesk.messages') and r.ask_id = t.id and r.cleared_at is null) r
where t._deleted_at is null;
comment on view sync.ticket_completeness is
  'For every existing ticket: whether all its messages are stored, and when the source last confirmed the ticket as stored here.';
comment on column sync.ticket_completeness.account_id is 'The account.';
comment on column sync.ticket_completeness.messages_complete is
  'True if the messages were read in the current version of the ticket and none was rejected. The source does not announce a change of a message without a change of the ticket; see messages_as_of.';
comment on column sync.ticket_completeness.messages_as_of is
  'The source showed the messages at this time; null if they were never read.';
comment on column sync.ticket_completeness.checked_at is
  'Last time at which a list of the source confirmed the ticket as stored here; see sync.ticket_checked_at.';
comment on column sync.ticket_completeness.open_rejects is
  'Number of parts of the ticket that could not be stored or fetched; see sync.rejects.';

create or replace function sync.require_complete(account text, stream text, through timestamptz, rejects_allowed bigint default 0)
returns timestamptz
language plpgsql stable
as $$
declare
  asked_key constant text := sync.key_of(stream);
  complete constant timestamptz := sync.complete_through(account, asked_key);
  gap record;
  open_rejects bigint;
  waiting bigint;
begin
  if account is null or stream is null or through is null then
    raise exception 'sync.require_complete(account, stream, through) was asked about nothing: one of them is null'
      using errcode = 'null_value_not_allowed';
  end if;
  if asked_key is null and exists (select from sync.streams k where k.stream = require_complete.stream) then
    raise exception 'more than one source has a stream %', stream
      using errcode = 'ambiguous_parameter', hint = (
        select 'Name one of: ' || string_agg(k.stream_key, ', ' order by k.place) || '.' from sync.streams k where k.stream = require_complete.stream);
  end if;
  if not exists (
    select from sync.coverage c join sync.streams k on c.source = k.source and c.stream in (k.stream, k.follows)
    where c.account_id = account and k.stream_key = asked_key) then
    raise exception 'nothing is mirrored of the stream % for the account %', stream, account
      using errcode = 'no_data_found', hint = 'sync.status lists accounts and streams.';
  end if;
  if complete is null or complete < through then
    select h.list, h.gap_from, h.gap_to, h.reason into gap
    from sync.gaps h join sync.streams k on h.source = k.source and h.stream in (k.stream, k.follows)
    where h.account_id = account and k.stream_key = asked_key and h.gap_from < through
    order by h.gap_from limit 1;
    select s.waiting into waiting from sync.status s where s.account_id = account and s.stream_key = asked_key;
    raise exception '% of the account % % complete through %, not through %', stream, account,
      case when complete is null then 'was never read:' else 'is' end, coalesce(complete::text, 'nothing'), through
      using errcode = 'object_not_in_prerequisite_state', hint = case
        when gap.gap_from is not null then format('There is a gap from %s to %s%s. Run `npx shelfdesk backfill %s`.',
          gap.gap_from, gap.gap_to, coalesce(' (' || gap.reason || ')', ''), stream)
        when waiting > 0 then format('%s to be read by id: `npx shelfdesk start` reads while it runs, and so does `npx shelfdesk sync`.',
          sync.counted(waiting, 'record waits', 'records wait'))
        else 'Run `npx shelfdesk sync`, or wait for the next slot of the schedule.' end;
  end if;
  select count(*) into open_rejects
  from sync.rejects r join sync.streams k on r.source = k.source and r.stream in (k.stream, k.follows)
  where r.account_id = account and k.stream_key = asked_key and r.cleared_at is null;
  if open_rejects > rejects_allowed then
    raise exception '% of % of the account % could not be stored', sync.counted(open_rejects, 'record'), stream, account
      using errcode = 'object_not_in_prerequisite_state',
        hint = 'See `npx shelfdesk rejects list`. A report that can do without them says how many, as fourth argument.';
  end if;
  return complete;
end
$$;
comment on function sync.require_complete is
  'Guard at the beginning of a report. Returns complete_through of the stream if it reaches the given time; otherwise raises an error that says what is missing. Also raises if more than rejects_allowed records are rejected.';
-- Problems and alarms.

create table sync.alarms (
  id bigint generated always as identity primary key,
  account_id text not null,
  problem text not null,
  stream text default '' not null,
  severity text not null,
  says text not null,
  remedy text not null,
  began_at timestamptz not null,
  gone_at timestamptz,
  ended_at timestamptz,
  told_begin_at timestamptz,
  told_end_at timestamptz,
  tries integer default 0 not null,
  next_try_at timestamptz,
  last_error text,
  source text default '' not null,
  stream_key text generated always as (
case stream
    when '' then ''
    else (source || '.' || stream)
end) stored not null,
  constraint alarms_source_and_stream check ((source = '') = (stream = ''))
);
create index alarms_due on sync.alarms (next_try_at) where (next_try_at is not null);
create unique index alarms_open on sync.alarms (account_id, problem, stream_key) where (ended_at is null);
comment on table sync.alarms is
  'Problems of sync.problems that are reported to people, through the webhook if one is set. One row from the start to the end of a problem, kept for 35 days afterwards.';
comment on column sync.alarms.id is 'Number of the alarm, part of each notification.';
comment on column sync.alarms.account_id is 'The operator''s name for the mirrored account.';
comment on column sync.alarms.problem is 'The problem, as in sync.problems.';
comment on column sync.alarms.stream is 'The stream; empty for the whole account.';
comment on column sync.alarms.severity is 'critical or warning.';
comment on column sync.alarms.says is 'Description of the problem when it was last seen.';
comment on column sync.alarms.remedy is 'Remedy.';
comment on column sync.alarms.began_at is
  'When the problem was first seen. A notification is due once the problem has lasted one minute.';
comment on column sync.alarms.gone_at is
  'Since when the problem is no longer seen; null while it is. After one minute the alarm ends.';
comment on column sync.alarms.ended_at is 'End of the alarm; null while it lasts.';
comment on column sync.alarms.told_begin_at is
  'When the webhook accepted the notification of the start; null if it has not.';
comment on column sync.alarms.told_end_at is
  'When the webhook accepted the notification of the end; null if it has not.';
comment on column sync.alarms.tries is 'Number of failed deliveries of the next notification.';
comment on column sync.alarms.next_try_at is
  'Time of the next delivery, and of the retry if the delivering process dies; null if no notification is due.';
comment on column sync.alarms.last_error is 'Error of the last delivery; null if none failed.';
comment on column sync.alarms.source is 'Source of the stream: helpdesk or books. Empty for the whole account.';
comment on column sync.alarms.stream_key is
  'Key of the stream: source.stream, as helpdesk.tickets. Empty for the whole account.';

create or replace view sync.problems as
with streams as not materialized (
  select distinct c.account_id, k.stream_key
  from sync.coverage c join sync.streams k on c.source = k.source and c.stream in (k.stream, k.follows)),
last_runs as (
  -- The last finished run that synced a stream, and the last that swept it.
  select s.account_id, k.stream, s.stream_key, k.source, false as sweeps, d.*
  from streams s join sync.streams k using (stream_key)
  cross join lateral (
    select r.run_id, (select u.kind from sync.stored_runs u where u.id = r.run_id) as kind,
      r.state, r.error, r.remedy, r.exit_code, r.finished_at
    from sync.stored_run_streams r
    where r.account_id = s.account_id and r.stream_key = s.stream_key and r.state not in ('waiting', 'running')
      and (select u.kind from sync.stored_runs u where u.id = r.run_id) not in ('sweep', 'audit', 'verify', 'backfill')
    order by r.run_id desc limit 1) d
  union all
  select s.account_id, k.stream, s.stream_key, k.source, true, d.*
  from streams s join sync.streams k using (stream_key)
  cross join lateral (
    select r.run_id, u.kind, r.state, r.error, r.remedy, r.exit_code, r.finished_at
    from (
      select i.id, i.kind from sync.stored_runs i
      where i.account_id = s.account_id and i.kind = 'sweep' order by i.id desc offset 0) u
    cross join lateral (
      select * from sync.stored_run_streams i
      where i.run_id = u.id and i.stream_key = s.stream_key and i.state not in ('waiting', 'running') offset 0) r
    order by u.id desc limit 1) d),
failing as (
  select d.*,
    case
      when d.exit_code = 4 and not p.proven then case when not d.sweeps then 'token_refused' end
      when d.sweeps and d.error like '%seem to have been deleted at the source%' then 'mass_deletion_stopped'
      else 'run_failed' end as problem,
    (select coalesce(min(f.finished_at), d.finished_at)
     from sync.stored_run_streams f
     where f.account_id = d.account_id and f.stream_key = d.stream_key and f.state = 'failed'
       and case when d.sweeps then (select u.kind from sync.stored_runs u where u.id = f.run_id) = 'sweep'
         else (select u.kind from sync.stored_runs u where u.id = f.run_id) not in ('sweep', 'audit', 'verify', 'backfill') end
       and f.run_id > coalesce((
         select g.run_id from sync.stored_run_streams g
         where g.account_id = d.account_id and g.stream_key = d.stream_key and g.state in ('completed', 'partial')
           and case when d.sweeps then (select u.kind from sync.stored_runs u where u.id = g.run_id) = 'sweep'
             else (select u.kind from sync.stored_runs u where u.id = g.run_id) not in ('sweep', 'audit', 'verify', 'backfill') end
         order by g.run_id desc limit 1), 0)) as failing_since
  from last_runs d
  -- Any later reply proves that the source accepts the token.
  cross join lateral (
    select exists (
      select from sync.streams k join sync.stored_run_streams o on o.account_id = d.account_id and o.stream_key = k.stream_key
      where k.source = d.source and o.run_id > d.run_id and o.state in ('completed', 'partial') and o.credits > 0) as proven) p
  where d.state = 'failed'),
nights as (
  select a.account_id, n.slot, n.run_id, coalesce(t.target, interval '6 hours') as target
  from sync.accounts a
  cross join lateral (
    select s.slot, s.run_id from sync.schedule_slots s
    where s.account_id = a.account_id and s.schedule = 'nightly' and s.run_id is not null
    order by s.slot desc limit 1) n
  left join sync.targets t on (t.account_id, t.subject) = (a.account_id, 'nightly')),
-- A query of its own, because pg_locks cannot be filtered by account: otherwise each account would pay for all.
alive as materialized (
  select distinct w.account_id from sync.live_workers w where w.works),
found as (
  select r.account_id, r.stream_key, r.problem, case r.problem when 'run_failed' then 'warning' else 'critical' end as severity,
    case r.problem
      when 'token_refused' then format('The source refuses our token: %s.', min(r.error))
      when 'run_failed' then string_agg(
        format('Run %s (%s) of %s failed: %s.', r.run_id, r.kind, r.stream, r.error), ' ' order by r.run_id)
      else format('%s and perhaps more seem to have been deleted at the source, too many to be believed; none was marked as deleted here.',
        sync.counted(min(g.many), rtrim(r.stream, 's'), r.stream)) end as says,
    case r.problem
      when 'token_refused' then coalesce(min(r.remedy), 'Set a token that is valid, and start the workers again.')
      when 'run_failed' then string_agg(distinct coalesce(r.remedy, 'Look at the log.'), ' ')
      else format('Look there whether it is so; if it is, run `npx shelfdesk sweep %s --accept-deletions%s`; if not, the next sweep asks again.',
        r.stream, sync.option_of(r.account_id)) end as remedy,
    min(coalesce(g.since, r.failing_since)) as since
  from failing r
  left join lateral (
    select count(*) as many, min(o.gone_since) as since from sync.open_deletion_candidates o
    where o.account_id = r.account_id and o.stream_key = r.stream_key and o.gone_at is not null) g on r.problem = 'mass_deletion_stopped'
  where r.problem <> 'mass_deletion_stopped' or g.many > 0
  group by r.account_id, r.stream, r.stream_key, r.problem
  union all
  select n.account_id, null, 'nightly_failed', 'critical',
    string_agg(format(case n.kind when 'sweep' then 'The sweep of the night (run %s) %s.' else 'The nightly run %s %s.' end, n.id,
      case n.state when 'failed' then 'failed' else 'was interrupted and not resumed' end), ' ' order by n.id),
    string_agg(format('See `npx shelfdesk runs show %s%s`; then run `npx shelfdesk runs retry %1$s%2$s`, or wait for the next night.',
      n.id, sync.option_of(n.account_id)), ' ' order by n.id),
    min(n.finished_at)
  from (
    select r.* from sync.accounts a
    cross join lateral (
      select r.account_id, r.kind, r.id, r.state, r.finished_at from sync.stored_runs r
      where r.account_id = a.account_id and r.kind = 'nightly' and r.finished_at is not null
      order by r.id desc limit 1) r
    union all
    -- The sweep of a night is a run of its own, opened with its slot.
    select r.* from sync.accounts a
    cross join lateral (
      select r.account_id, r.kind, r.id, r.state, r.finished_at from sync.stored_runs r
      where r.account_id = a.account_id and r.kind = 'sweep' and r.finished_at is not null and exists (
        select from sync.schedule_slots p
        where p.account_id = r.account_id and p.schedule = 'nightly' and p.claimed_at = r.started_at
        offset 0)
      order by r.id desc limit 1) r
    where not exists (
        select from sync.stored_runs o
        where o.account_id = r.account_id and o.kind = 'sweep' and o.id > r.id and o.state in ('completed', 'partial')
        offset 0)
      -- A run that stopped for a mass deletion has a problem of its own.
      and exists (
        select from sync.stored_run_streams s
        where s.run_id = r.id and s.state in ('failed', 'interrupted')
          and coalesce(s.error, '') not like '%seem to have been deleted at the source%'
        offset 0)) n
  where n.state = 'failed' or n.state = 'interrupted' and not exists (
    -- The person who canceled the run knows about it.
    select from sync.operations o
    where o.account_id = n.account_id and o.action = 'cancel' and o.subject = n.id::text and o.outcome = 'done'
    offset 0)
  group by n.account_id
  union all
  select n.account_id, null, 'nightly_late', 'warning',
    format('The nightly run %s was due %s ago and is still running; its target is %s.',
      n.run_id, sync.in_words(now() - n.slot), sync.in_words(n.target)),
    format('See what it does by `npx shelfdesk runs show %s%s`; if it needs that long, raise NIGHTLY_WITHIN_HOURS.',
      n.run_id, sync.option_of(n.account_id)),
    n.slot + n.target
  from nights n
  where now() > n.slot + n.target and exists (
    select from sync.stored_runs r join sync.stored_run_streams s on s.run_id = r.id
    where r.id = n.run_id and r.state = 'running' and s.state in ('waiting', 'running')
      and not sync.is_paused(s.account_id, s.stream_key)
    offset 0)
  union all
  select b.account_id, b.stream_key, 'past_target', 'warning',
    format('%s is %s behind; %s were promised.', b.stream, sync.in_words(b.behind), sync.in_words(b.target)),
    format('See `npx shelfdesk status%s` for what holds it up; if more cannot be had at these limits, raise FRESHNESS_TARGETS.',
      sync.option_of(b.account_id)),
    now() - (b.behind - b.target)
  from (
    select s.account_id, k.stream, s.stream_key, t.target, l.behind
    from streams s join sync.streams k using (stream_key) join sync.targets t on (t.account_id, t.subject) = (s.account_id, s.stream_key)
    cross join lateral (select sync.behind(s.account_id, s.stream_key) as behind offset 0) l) b
  where b.behind > b.target and not coalesce((
    select r.sleeps_until > now() from sync.stored_run_streams r
    where r.account_id = b.account_id and r.stream_key = b.stream_key and r.state not in ('waiting', 'running')
      and (select u.kind from sync.stored_runs u where u.id = r.run_id) not in ('sweep', 'audit', 'verify', 'backfill')
    order by r.run_id desc limit 1), false)
  union all
  select c.account_id, null, 'credits_refused', 'warning',
    format('Within the last 15 minutes %s refused for want of credits (429): %s.',
      case sum(c.refused) when 1 then '1 request was' else sum(c.refused) || ' requests were' end,
      string_agg(case c.source when 'books' then 'by the book catalog ' else 'by the help desk ' end || c.refused, ', ' order by c.source desc)),
    'Somebody else uses more than the reserve, or the limits are lower than the settings say: compare HELPDESK_CREDITS, HELPDESK_REQUESTS_PER_SECOND and HELPDESK_RESERVE (of the catalog BOOKS_REQUESTS_PER_DAY) with what the source allows.',
    min(c.since)
  from (
    select m.account_id, m.source, sum(m.refused) as refused, min(m.minute) as since
    from sync.accounts a join sync.credit_minutes m using (account_id)
    where m.source in ('helpdesk', 'books') and m.minute > now() - interval '15 minutes' and m.refused > 0
    group by 1, 2) c
  group by c.account_id
  union all
  select d.account_id, d.stream_key, 'audit_found_drift', 'warning',
    format('Within the last 24 hours %s of %s %s found to differ from the source: %s.', sync.counted(count(distinct d.record_id), 'record'), d.stream,
      case count(distinct d.record_id) when 1 then 'was' else 'were' end,
      string_agg(distinct d.kind, '; ')),
    format('See `npx shelfdesk sql "select * from sync.audit where account_id = %L and kind is not null"` for what differs. It ends by itself after 24 hours without another one.',
      d.account_id),
    min(d.checked_at)
  from (
    select u.account_id, coalesce(k.stream, 'tickets') as stream, coalesce(k.stream_key, 'helpdesk.tickets') as stream_key, u.stream || ' ' || u.record_id as record_id, u.kind, u.checked_at
    from sync.accounts a join sync.audit u using (account_id) left join sync.streams k on k.stream_key = u.stream_key
    where u.kind is not null and u.checked_at > now() - interval '24 hours') d
  group by d.account_id, d.stream, d.stream_key
  union all
  select h.account_id, h.stream_key, 'gap', 'warning',
    format('%s of %s could not be read, the first from %s on: %s.', sync.counted(count(*), 'range'), h.stream,
      to_char(min(h.gap_from) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), min(h.reason)),
    format('Run `npx shelfdesk backfill %s%s`.', h.stream, sync.option_of(h.account_id)),
    (select min(r.found_at) from sync.gap_reasons r where r.account_id = h.account_id and r.stream_key = h.stream_key)
  from sync.gaps h where h.reason is not null
  group by h.account_id, h.stream, h.stream_key
  union all
  select r.account_id, r.stream_key, 'rejects_open', 'warning',
    format('%s of %s could not be stored, or read.', sync.counted(count(*), 'record'), r.stream),
    format('See `npx shelfdesk rejects list%s`; what can be asked for again is asked for again by itself.', sync.option_of(r.account_id)),
    min(r.first_seen_at)
  from sync.rejects r where r.cleared_at is null
  group by r.account_id, r.stream, r.stream_key
  union all
  select a.account_id, null, 'no_worker', 'critical', 'No worker is running for this account, so its schedule is not kept.',
    format('Run `npx shelfdesk start`; if the account is to rest, `npx shelfdesk pause%s`.', sync.option_of(a.account_id)),
    s.last_at
  from sync.accounts a
  cross join lateral (
    select max(l.claimed_at) as last_at
    from (values ('fresh'), ('nightly')) w (schedule)
    cross join lateral (
      select p.claimed_at from sync.schedule_slots p
      where p.account_id = a.account_id and p.schedule = w.schedule
      order by p.slot desc limit 1) l) s
  where s.last_at is not null
    -- A person reads the stream without the scheduler, for example with cron.
    and not coalesce((
      select r.started_at > greatest(s.last_at, now() - interval '26 hours') from sync.stored_runs r
      where r.account_id = a.account_id and r.kind = 'sync' order by r.id desc limit 1), false)
    and exists (select from sync.targets t where t.account_id = a.account_id)
    and not exists (select from alive w where w.account_id = a.account_id)
  union all
  select m.account_id, null, 'alarms_undelivered', 'warning',
    format('The webhook does not take %s: %s.', sync.counted(count(*), 'alarm'), (array_agg(m.last_error order by m.id desc))[1]),
    'Look at its receiver, and at ALARM_WEBHOOK_URL and ALARM_FORMAT; it is tried again, in the end once an hour.',
    min(m.began_at)
  from sync.alarms m where m.next_try_at is not null and m.last_error is not null
  group by m.account_id
  union all
  select p.account_id, nullif(p.stream_key, ''), 'paused', 'info',
    format('%s was told to wait by %s%s.', coalesce(nullif(p.stream, ''), 'The account'), p.paused_by, coalesce(': ' || p.reason, '')),
    format('Run `npx shelfdesk resume%s%s`.', coalesce(' ' || nullif(p.stream, ''), ''), sync.option_of(p.account_id)),
    p.paused_at
  from sync.paused p
  union all
  select p.account_id, coalesce(k.stream_key, 'helpdesk.tickets'), 'recommendation', 'info',
    format('Comparisons found of %s, more than once: %s.', coalesce(k.stream, 'tickets'), string_agg(distinct p.kind, '; ')),
    string_agg(distinct p.remedy, ' '), max(p.last_at)
  from sync.recommendations p left join sync.streams k on k.stream_key = p.stream_key
  group by p.account_id, k.stream, k.stream_key)
select f.account_id, split_part(f.stream_key, '.', 2) as stream, f.problem, f.severity, f.says, f.remedy, f.since,
  split_part(f.stream_key, '.', 1) as source, f.stream_key
from found f
left join sync.streams k on k.stream_key = f.stream_key
where f.problem in ('paused', 'alarms_undelivered') or not exists (
  select from sync.paused p
  where p.account_id = f.account_id
    and p.stream_key in ('', f.stream_key, case when f.problem = 'past_target' then k.source || '.' || k.follows end));
comment on view sync.problems is
  'Current problems, one row per problem of an account or stream: the content of the page, the alarms, `doctor` and the health endpoints. Empty if everything is well. A paused stream shows only that it is paused.';
comment on column sync.problems.account_id is 'The account.';
comment on column sync.problems.stream is 'The stream; null for the whole account.';
comment on column sync.problems.problem is
  'Code of the problem: token_refused, run_failed, nightly_failed, nightly_late, past_target, credits_refused, mass_deletion_stopped, audit_found_drift, gap, rejects_open, no_worker, alarms_undelivered, paused, recommendation.';
comment on column sync.problems.severity is
  'critical: work has stopped until a person acts; warning: a target is missed; info.';
comment on column sync.problems.says is 'Description in one sentence.';
comment on column sync.problems.since is 'Start of the problem, if known.';
comment on column sync.problems.source is 'Source of the stream: helpdesk or books; null for the whole account.';
comment on column sync.problems.stream_key is
  'Key of the stream: source.stream, as helpdesk.tickets; null for the whole account.';
-- Business hours, and seconds of business time.

create table analytics.calendars (
  name text primary key,
  time_zone text not null,
  check (name <> '')
);
comment on table analytics.calendars is
  'Business calendars by name: weekly hours and holidays in a time zone. Created with npx shelfdesk calendar set.';
comment on column analytics.calendars.name is 'Name of the calendar.';
comment on column analytics.calendars.time_zone is 'Time zone of the hours and holidays, such as Europe/Berlin.';

create table analytics.calendar_hours (
  calendar text,
  weekday integer,
  opens time(0) without time zone,
  closes time(0) without time zone not null,
  primary key (calendar, weekday, opens),
  foreign key (calendar) references analytics.calendars(name) on update cascade on delete cascade,
  constraint calendar_hours_check check (opens < closes),
  check ((weekday >= 1) and (weekday <= 7))
);
comment on table analytics.calendar_hours is
  'Weekly hours of a calendar. A day may have several spans; overlapping time counts once. A day without rows is closed.';
comment on column analytics.calendar_hours.weekday is 'Day of the week: 1 Monday to 7 Sunday.';
comment on column analytics.calendar_hours.opens is 'Opening time, local.';
comment on column analytics.calendar_hours.closes is
  'Closing time, local and exclusive; 24:00 is the end of the day. Hours that cross midnight are two rows.';

create table analytics.calendar_holidays (
  calendar text,
  day date,
  name text,
  primary key (calendar, day),
  foreign key (calendar) references analytics.calendars(name) on update cascade on delete cascade
);
comment on table analytics.calendar_holidays is
  'Local days on which a calendar is closed, whatever its weekly hours are.';
comment on column analytics.calendar_holidays.day is 'The day, from midnight to midnight in the zone of the calendar.';
comment on column analytics.calendar_holidays.name is 'Name of the holiday; null if not given.';

create table internal.stored_calendar_assignments (
  account_id text not null,
  inbox_id text,
  calendar text not null,
  unique nulls not distinct (account_id, inbox_id),
  foreign key (calendar) references analytics.calendars(name) on update cascade
);
create index stored_calendar_assignments_calendar on internal.stored_calendar_assignments (calendar);
comment on table internal.stored_calendar_assignments is
  'Storage of analytics.calendar_assignments, for all accounts.';
comment on column internal.stored_calendar_assignments.account_id is 'The operator''s name for the mirrored account.';
comment on column internal.stored_calendar_assignments.inbox_id is
  'The inbox; null for all other inboxes of the account.';

create or replace view analytics.calendar_assignments with (security_barrier) as
select a.account_id, a.inbox_id, a.calendar
from internal.stored_calendar_assignments a
where a.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.calendar_assignments is
  'Calendar of each inbox. Without a calendar, business time is null. Created with npx shelfdesk calendar assign.';
comment on column analytics.calendar_assignments.inbox_id is
  'The inbox; joins helpdesk.inboxes.id. Null for tickets without an inbox, and of inboxes without a calendar of their own.';

create table analytics.calendar_spans (
  calendar text,
  opens_at timestamptz,
  closes_at timestamptz not null,
  seconds_before bigint not null,
  primary key (calendar, opens_at) with (fillfactor = 20),
  foreign key (calendar) references analytics.calendars(name) on update cascade on delete cascade,
  constraint calendar_spans_check check (opens_at < closes_at)
);
comment on table analytics.calendar_spans is
  'Open spans of each calendar as instants, from 2000 to the end of 2059. Maintained by triggers on the calendars; do not write here.';
comment on column analytics.calendar_spans.opens_at is 'Start of business hours.';
comment on column analytics.calendar_spans.closes_at is 'End of business hours.';
comment on column analytics.calendar_spans.seconds_before is 'Seconds of business time in all earlier spans.';

create or replace function analytics.calendar_of(account text, inbox text) returns text
language plpgsql stable parallel safe
set plan_cache_mode = force_generic_plan
as $$
begin
  return (
    select a.calendar from analytics.calendar_assignments a
    where a.account_id = account and (a.inbox_id = inbox or a.inbox_id is null)
    order by a.inbox_id nulls last limit 1);
end
$$;
comment on function analytics.calendar_of is
  'Calendar for tickets of an inbox: that of the inbox, else that of the account; null without either.';

-- Rejects an unknown time zone at the write, where the error names it.
create or replace function internal.check_time_zone() returns trigger
language plpgsql
as $$
begin
  perform 'epoch'::timestamptz at time zone new.time_zone;
  return new;
end
$$;
comment on function internal.check_time_zone is 'Rejects a calendar whose time zone PostgreSQL does not know.';

create or replace function analytics.zone_offsets(time_zone text, since timestamptz, until timestamptz)
returns table (starts timestamptz, ends timestamptz, utc_offset interval)
language plpgsql stable strict parallel safe rows 300
as $$
declare
  -- Whole seconds suffice: no zone changes its offset between two seconds.
  low bigint := floor(extract(epoch from since));
  last constant bigint := ceil(extract(epoch from until));
  high bigint;
  middle bigint;
  next_offset interval;
begin
  starts := to_timestamp(low);
  utc_offset := (starts at time zone time_zone) - (starts at time zone 'UTC');
  while low < last loop
    high := least(low + 86400, last);
    ends := to_timestamp(high);
    next_offset := (ends at time zone time_zone) - (ends at time zone 'UTC');
    if next_offset = utc_offset then
      low := high;
      continue;
    end if;
    -- The offset changes on this day: bisect until one second is left.
    while high - low > 1 loop
      middle := (low + high) / 2;
      if (to_timestamp(middle) at time zone time_zone) - (to_timestamp(middle) at time zone 'UTC') = utc_offset then
        low := middle;
      else
        high := middle;
      end if;
    end loop;
    ends := to_timestamp(high);
    return next;
    starts := ends;
    utc_offset := (starts at time zone time_zone) - (starts at time zone 'UTC');
    low := high;
  end loop;
  ends := to_timestamp(last);
  if starts < ends then return next; end if;
end
$$;
comment on function analytics.zone_offsets is
  'UTC offsets of a time zone between two instants: one row per period with a constant offset.';

create or replace function analytics.open_spans(calendar text, since timestamptz, until timestamptz)
returns table (opens_at timestamptz, closes_at timestamptz)
language sql stable strict parallel safe rows 10000
as $$
  select lower(open.span), upper(open.span)
  from unnest((
    select range_agg(tstzrange(s.opens_at, s.closes_at))
    from analytics.calendars c
    cross join lateral analytics.zone_offsets(c.time_zone, $2, $3) z
    -- Local days that overlap the period of this offset.
    cross join lateral generate_series(
      date_trunc('day', (z.starts at time zone 'UTC') + z.utc_offset), (z.ends at time zone 'UTC') + z.utc_offset, interval '1 day') d (day)
    join analytics.calendar_hours h on h.calendar = c.name and h.weekday = extract(isodow from d.day)
    cross join lateral (
      select greatest((d.day::date + h.opens - z.utc_offset) at time zone 'UTC', z.starts, $2) as opens_at,
        least((d.day::date + h.closes - z.utc_offset) at time zone 'UTC', z.ends, $3) as closes_at) s
    where c.name = $1 and s.opens_at < s.closes_at
      and not exists (select from analytics.calendar_holidays f where f.calendar = c.name and f.day = d.day::date))) open (span)
$$;
comment on function analytics.open_spans is
  'Open spans of a calendar between two instants, in order, from its hours and holidays. analytics.calendar_spans stores them for 2000 to 2059.';

create or replace function analytics.business_seconds(calendar text, since timestamptz, until timestamptz) returns float8
language plpgsql stable strict parallel safe
-- The worker's connections plan each statement anew. Here that would mean each call.
set plan_cache_mode = force_generic_plan
as $$
declare
  first_stored constant timestamptz := '2000-01-01T00:00:00Z';
  last_stored constant timestamptz := '2060-01-01T00:00:00Z';
  before_since bigint;
  before_until bigint;
  of_since float8;
  of_until float8;
  seconds float8;
begin
  -- Two small statements take a third less time than one with a join.
  select s.seconds_before, date_part('epoch', least($2, s.closes_at) - s.opens_at) into before_since, of_since
  from analytics.calendar_spans s where s.calendar = $1 and s.opens_at <= $2 order by s.opens_at desc limit 1;
  select s.seconds_before, date_part('epoch', least($3, s.closes_at) - s.opens_at) into before_until, of_until
  from analytics.calendar_spans s where s.calendar = $1 and s.opens_at <= $3 order by s.opens_at desc limit 1;
  seconds := coalesce(before_until, 0) - coalesce(before_since, 0) + (coalesce(of_until, 0) - coalesce(of_since, 0));
  if $2 >= first_stored and $2 <= last_stored and $3 >= first_stored and $3 <= last_stored then
    if before_since is null and before_until is null and not exists (select from analytics.calendars c where c.name = $1) then return null; end if;
    return seconds;
  end if;

  -- Beyond the stored spans it computes them.
  if not isfinite($2) or not isfinite($3) or not exists (select from analytics.calendars c where c.name = $1) then return null; end if;
  return seconds + case when $3 < $2 then -1 else 1 end * (
    select coalesce(sum(extract(epoch from o.closes_at - o.opens_at)), 0)
    from (values
      (least($2, $3), least(greatest($2, $3), first_stored)),
      (greatest(least($2, $3), last_stored), greatest($2, $3))) beyond (since, until)
    cross join lateral analytics.open_spans($1, beyond.since, beyond.until) o
    where beyond.since < beyond.until);
end
$$;
comment on function analytics.business_seconds is
  'Seconds of business time from one instant to another in a calendar. Counts elapsed seconds, also across clock changes. Negative if the second instant is earlier. Null for an unknown calendar and for instants that are null or infinite.';

create or replace function internal.rebuild_calendar(calendar text) returns void
language plpgsql
as $$
begin
  -- One rebuild at a time: the waiting one sees what the other wrote.
  perform from analytics.calendars c where c.name = rebuild_calendar.calendar for no key update;
  delete from analytics.calendar_spans s where s.calendar = rebuild_calendar.calendar;
  insert into analytics.calendar_spans (calendar, opens_at, closes_at, seconds_before)
  select rebuild_calendar.calendar, o.opens_at, o.closes_at,
    coalesce(sum(extract(epoch from o.closes_at - o.opens_at)) over (order by o.opens_at rows between unbounded preceding and 1 preceding), 0)
  from analytics.open_spans(rebuild_calendar.calendar, '2000-01-01T00:00:00Z', '2060-01-01T00:00:00Z') o;
end
$$;
comment on function internal.rebuild_calendar is
  'Recomputes analytics.calendar_spans of a calendar. Triggers call it on every change; call it by hand only after PostgreSQL has received new time zone rules.';

create or replace function internal.keep_calendar_spans() returns trigger
language plpgsql
as $$
declare
  changed text;
begin
  if tg_table_name = 'calendars' then
    -- A new calendar has no hours yet; deleting a calendar deletes its hours.
    for changed in select n.name from news n join olds o on o.name = n.name and o.time_zone <> n.time_zone loop
      perform internal.rebuild_calendar(changed);
    end loop;
  elsif tg_op = 'INSERT' then
    for changed in select distinct n.calendar from news n loop
      perform internal.rebuild_calendar(changed);
    end loop;
  elsif tg_op = 'DELETE' then
    -- Only calendars that still exist.
    for changed in select c.name from analytics.calendars c where c.name in (select o.calendar from olds o) loop
      perform internal.rebuild_calendar(changed);
    end loop;
  else
    for changed in
      select c.name from analytics.calendars c where c.name in (select o.calendar from olds o union all select n.calendar from news n)
    loop
      perform internal.rebuild_calendar(changed);
    end loop;
  end if;
  return null;
end
$$;
comment on function internal.keep_calendar_spans is 'Updates analytics.calendar_spans after a change of a calendar.';

create table internal.stored_recomputes (
  account_id text primary key,
  asked integer default 1 not null
);
comment on table internal.stored_recomputes is
  'Accounts whose calendars changed since the last analytics.recompute; see analytics.integrity.';
comment on column internal.stored_recomputes.account_id is 'The account.';
comment on column internal.stored_recomputes.asked is
  'Number of changes since the last recompute. The counter keeps changes that happen during a recompute.';

create or replace function internal.ask_for_recompute() returns trigger
language plpgsql
as $$
begin
  if tg_table_name = 'stored_calendar_assignments' then
    insert into internal.stored_recomputes (account_id)
    select case tg_op when 'DELETE' then old.account_id else new.account_id end
    on conflict (account_id) do update set asked = stored_recomputes.asked + 1;
  else
    insert into internal.stored_recomputes (account_id)
    select distinct a.account_id from internal.stored_calendar_assignments a
    where a.calendar in (select s.calendar from changed s) order by 1
    on conflict (account_id) do update set asked = stored_recomputes.asked + 1;
  end if;
  return null;
end
$$;
comment on function internal.ask_for_recompute is
  'Records in internal.stored_recomputes which accounts have outdated business times.';

-- The time zone in which days and hours are shown.
create or replace view analytics.account_zones with (security_barrier) as
select r.account_id, coalesce(c.time_zone, 'UTC') as time_zone
from sync.readable_accounts r
left join internal.stored_calendar_assignments z on z.account_id = r.account_id and z.inbox_id is null
left join analytics.calendars c on c.name = z.calendar;
comment on view analytics.account_zones is 'Time zone for days and hours of an account: that of its calendar, or UTC.';
comment on column analytics.account_zones.time_zone is 'The time zone.';

create trigger keep_spans after update on analytics.calendars referencing old table as olds new table as news for each statement execute function internal.keep_calendar_spans();
create trigger keep_spans_inserted after insert on analytics.calendar_hours referencing new table as news for each statement execute function internal.keep_calendar_spans();
create trigger keep_spans_updated after update on analytics.calendar_hours referencing old table as olds new table as news for each statement execute function internal.keep_calendar_spans();
create trigger keep_spans_deleted after delete on analytics.calendar_hours referencing old table as olds for each statement execute function internal.keep_calendar_spans();
create trigger keep_spans_inserted after insert on analytics.calendar_holidays referencing new table as news for each statement execute function internal.keep_calendar_spans();
create trigger keep_spans_updated after update on analytics.calendar_holidays referencing old table as olds new table as news for each statement execute function internal.keep_calendar_spans();
create trigger keep_spans_deleted after delete on analytics.calendar_holidays referencing old table as olds for each statement execute function internal.keep_calendar_spans();
create trigger check_time_zone before insert or update on analytics.calendars for each row execute function internal.check_time_zone();
create trigger ask_for_recompute after insert or delete or update on internal.stored_calendar_assignments for each row execute function internal.ask_for_recompute();
create trigger ask_for_recompute_written after insert on analytics.calendar_spans referencing new table as changed for each statement execute function internal.ask_for_recompute();
create trigger ask_for_recompute_removed after delete on analytics.calendar_spans referencing old table as changed for each statement execute function internal.ask_for_recompute();
-- Tickets at any time in the past, and the backlog of each day.

create or replace view analytics.ticket_history with (security_barrier) as
select h.account_id, h.ticket_id, h.state, h.user_id, h.inbox_id, h.label_ids, h.spam, h.trash, h.valid_from, h.valid_to, h.change_after,
  h.deleted_after, h.is_first, h.change_by
from helpdesk.ticket_history h
where h.account_id = any (array(select r.account_id from sync.readable_accounts r));
comment on view analytics.ticket_history is
  'Past and present state of each ticket: a new row for each change of state, user_id, inbox_id, label_ids (unordered), spam or trash. Rows of a ticket do not overlap; the only gaps are deletions. Adjacent rows may be equal, because two changes within one second share a row.';

create or replace view analytics.ticket_state_intervals with (security_barrier) as
select i.account_id, i.ticket_id, i.state, i.valid_from,
  case when i.ends then i.valid_to else i.next_valid_to end as valid_to,
  i.change_after,
  extract(epoch from i.valid_from - i.change_after)::float8 as error_seconds,
  case when i.ends then i.deleted_after else i.next_deleted_after end as deleted_after,
  i.change_by
from (
  -- Keeps the first and the last row of each series with one state: the first has the start, the last the end.
  select b.*, lead(b.valid_to) over once as next_valid_to, lead(b.deleted_after) over once as next_deleted_after
  from (
    select h.account_id, h.ticket_id, h.state, h.valid_from, h.valid_to, h.change_after, h.change_by, h.deleted_after,
      lag(h.valid_to) over w is distinct from h.valid_from or lag(h.state) over w is distinct from h.state as begins,
      lead(h.valid_from) over w is distinct from h.valid_to or lead(h.state) over w is distinct from h.state as ends
    from helpdesk.ticket_history h
    where h.account_id = any (array(select r.account_id from sync.readable_accounts r))
    window w as (partition by h.account_id, h.ticket_id order by h.valid_from)) b
  where b.begins or b.ends
  window once as (partition by b.account_id, b.ticket_id order by b.valid_from)) i
where i.begins;
comment on view analytics.ticket_state_intervals is
  'Past and present states of each ticket: helpdesk.ticket_history with one row per change of state.';
comment on column analytics.ticket_state_intervals.account_id is 'The account.';
comment on column analytics.ticket_state_intervals.state is 'The state; null if the source showed none.';
comment on column analytics.ticket_state_intervals.valid_from is
  'Start of the state. For the first state of a ticket only an upper bound: the updated_at at which the ticket was first seen.';
comment on column analytics.ticket_state_intervals.valid_to is
  'End of the state, exclusive; null for the current state.';
comment on column analytics.ticket_state_intervals.change_after is
  'Lower bound of the time of the change; the upper bound is change_by, or valid_from if change_by is null. Null if unknown.';
comment on column analytics.ticket_state_intervals.error_seconds is
  'Upper bound of the error of valid_from in seconds: valid_from − change_after.';
comment on column analytics.ticket_state_intervals.deleted_after is
  'For a state that ends with the deletion of the ticket: the deletion happened after this time and by valid_to. Null otherwise, or if unknown.';
comment on column analytics.ticket_state_intervals.change_by is
  'Upper bound of the time of the change, if later than valid_from; see helpdesk.ticket_history.change_by.';

create or replace view internal.ticket_basics with (security_barrier) as
select t.account_id, t.id as ticket_id, t.number, t.customer_id, t.type, t.created_at, t.updated_at, t._first_seen_at as first_seen_at,
  t._deleted_after as deleted_after, t._deleted_at as deleted_at
from helpdesk.tickets t
where t.account_id = any (array(select r.account_id from sync.readable_accounts r));
comment on view internal.ticket_basics is
  'Columns of each ticket that its history lacks: number, customer, channel, and times of creation and deletion.';
comment on column internal.ticket_basics.account_id is 'The account.';
comment on column internal.ticket_basics.ticket_id is 'The ticket.';
comment on column internal.ticket_basics.customer_id is 'The customer.';
comment on column internal.ticket_basics.type is 'Channel: email, chat, phone and so on.';
comment on column internal.ticket_basics.first_seen_at is 'When the ticket was first stored here.';
comment on column internal.ticket_basics.deleted_after is
  'Deleted after this time and by deleted_at; null while the ticket exists.';
comment on column internal.ticket_basics.deleted_at is
  'Deleted at the source by this time; null while the ticket exists.';

create or replace function analytics.tickets_as_of(at timestamptz)
returns table (account_id text, ticket_id text, number bigint, customer_id text, inbox_id text, user_id text, state text, type text,
  label_ids text[], spam boolean, trash boolean, created_at timestamptz, valid_from timestamptz, valid_to timestamptz, certain boolean)
language sql stable
begin atomic
  select t.account_id, t.ticket_id, t.number, t.customer_id, h.inbox_id, h.user_id, h.state, t.type, h.label_ids, h.spam, h.trash,
    t.created_at, h.valid_from, h.valid_to,
    h.valid_from is not null and coalesce(h.change_by <= tickets_as_of.at, true) and case
      when h.valid_to is null then true
      when n.ticket_id is null then coalesce(h.deleted_after >= tickets_as_of.at, false)
      else coalesce(n.change_after >= tickets_as_of.at, false) and coalesce(h.deleted_after >= tickets_as_of.at, true) end
  from internal.ticket_basics t
  left join analytics.ticket_history h
    on h.account_id = t.account_id and h.ticket_id = t.ticket_id
      and h.valid_from <= tickets_as_of.at and (h.valid_to is null or h.valid_to > tickets_as_of.at)
  -- The row that follows directly. If there is none, the ticket was deleted.
  left join analytics.ticket_history n
    on n.account_id = h.account_id and n.ticket_id = h.ticket_id and n.valid_from = h.valid_to
  where coalesce(t.created_at <= tickets_as_of.at, h.valid_from is not null) and (h.valid_from is not null or exists (
    select from analytics.ticket_history f
    where f.account_id = t.account_id and f.ticket_id = t.ticket_id and f.is_first and f.valid_from > tickets_as_of.at));
end;
comment on function analytics.tickets_as_of is
  'Every ticket that existed at a given time, with its values at that time. certain is false if the values may have been different: the change that ended the row may have happened by then, or the change that began the row may have happened later. If the ticket was first seen or changed later, its values are null. certain covers observed changes only: a change that was undone between two reads left no trace. For times after complete_through in analytics.completeness, the answer covers what the mirror knows so far.';

create or replace function analytics.backlog_daily(from_day date, to_day date, time_zone text default 'UTC')
returns table (account_id text, day date, state text, inbox_id text, user_id text, tickets bigint, uncertain bigint)
language sql stable
begin atomic
  with days as materialized (
    select g.n::int as n, from_day + g.n::int - 1 as day
    from generate_series(1, to_day - from_day + 1) g (n)),
  -- Ends of days plus one microsecond, so that the number of a time is the number of days that ended before it. Where
  -- clocks go back to midnight, that midnight occurs twice and PostgreSQL takes the later one; the day ends with the
  -- first.
  ends as materialized (
    select array_agg(m.at - case
      when (m.at - interval '1 hour') at time zone time_zone >= (d.day + 1)::timestamp then interval '1 hour'
      else interval '0' end + interval '1 microsecond' order by d.n) as at
    from days d cross join lateral (select (d.day + 1)::timestamp at time zone time_zone as at) m),
  -- Ends of days after the first number, up to the second.
  span as (
    select h.account_id, h.state, h.inbox_id, h.user_id, width_bucket(h.valid_from, (select e.at from ends e)) as after,
      coalesce(width_bucket(h.valid_to, (select e.at from ends e)), (select cardinality(e.at) from ends e)) as through,
      count(*) as tickets, 0 as uncertain
    from analytics.ticket_history h
    where analytics.is_backlog(h.state, h.spam, h.trash) and (h.valid_to is null or h.valid_to >= (select e.at[1] from ends e))
    group by 1, 2, 3, 4, 5, 6
    union all
    -- Values before the first row.
    select h.account_id, null, null, null, width_bucket(h.change_after + interval '1 second', (select e.at from ends e)),
      width_bucket(h.valid_from, (select e.at from ends e)), 1, 1
    from analytics.ticket_history h
    where h.is_first and h.valid_from >= (select e.at[1] from ends e) and h.change_after < (select e.at[cardinality(e.at)] from ends e)
    union all
    -- Values between the first row and the reply that showed them.
    select h.account_id, null, null, null, width_bucket(h.valid_from, (select e.at from ends e)),
      width_bucket(h.change_by, (select e.at from ends e)), 0, 1
    from analytics.ticket_history h
    where h.is_first and h.change_by >= (select e.at[1] from ends e) and h.valid_from < (select e.at[cardinality(e.at)] from ends e)
    union all
    -- A change that may have happened before or after the end of a day makes both the old and the new values
    -- uncertain.
    select n.account_id, d.state, d.inbox_id, d.user_id, greatest(n.after, o.after), n.through, 0, 1
    from (
      select h.*,
        case
          when h.is_first then width_bucket(h.valid_from, (select e.at from ends e))
          else coalesce(width_bucket(h.change_after + interval '1 microsecond', (select e.at from ends e)), 0) end as after,
        width_bucket(greatest(h.valid_from, h.change_by), (select e.at from ends e)) as through
      from analytics.ticket_history h
      where (not h.is_first and h.valid_from >= (select e.at[1] from ends e) or h.change_by >= (select e.at[1] from ends e))
        and coalesce(h.change_after < (select e.at[cardinality(e.at)] from ends e), true)) n
    left join lateral (
      select h.state, h.inbox_id, h.user_id, h.valid_to, analytics.is_backlog(h.state, h.spam, h.trash) as counts,
        width_bucket(h.valid_from, (select e.at from ends e)) as after
      from analytics.ticket_history h
      -- Found by the primary key.
      where h.account_id = n.account_id and h.ticket_id = n.ticket_id and h.valid_from < n.valid_from
      order by h.valid_from desc
      limit 1) o on o.valid_to = n.valid_from
    cross join lateral (
      select o.state, o.inbox_id, o.user_id where o.counts
      union all
      select n.state, n.inbox_id, n.user_id where analytics.is_backlog(n.state, n.spam, n.trash)) d
    where n.after < n.through and not (coalesce(o.counts, false) and analytics.is_backlog(n.state, n.spam, n.trash)
      and n.state is not distinct from o.state and n.inbox_id is not distinct from o.inbox_id and n.user_id is not distinct from o.user_id)
    union all
    -- The same for a deletion.
    select h.account_id, h.state, h.inbox_id, h.user_id,
      greatest(width_bucket(h.valid_from, (select e.at from ends e)), width_bucket(h.deleted_after + interval '1 microsecond', (select e.at from ends e))),
      width_bucket(h.valid_to, (select e.at from ends e)), 0, 1
    from analytics.ticket_history h
    where analytics.is_backlog(h.state, h.spam, h.trash) and h.deleted_after is not null and h.valid_to >= (select e.at[1] from ends e)),
  event as (
    select s.account_id, s.state, s.inbox_id, s.user_id, e.n, sum(e.sign * s.tickets) as tickets, sum(e.sign * s.uncertain) as uncertain
    from span s cross join lateral (values (s.after + 1, 1), (s.through + 1, -1)) e (n, sign)
    where s.after < s.through
    group by 1, 2, 3, 4, 5),
  total as (
    select b.account_id, b.state, b.inbox_id, b.user_id, b.n, sum(sum(b.tickets)) over w as tickets, sum(sum(b.uncertain)) over w as uncertain
    from (
      select e.account_id, e.state, e.inbox_id, e.user_id, e.n, e.tickets, e.uncertain from event e
      union all
      select k.account_id, k.state, k.inbox_id, k.user_id, d.n, 0, 0
      from (select distinct e.account_id, e.state, e.inbox_id, e.user_id from event e) k cross join days d) b
    group by 1, 2, 3, 4, 5
    window w as (partition by b.account_id, b.state, b.inbox_id, b.user_id order by b.n))
  select t.account_id, d.day, t.state, t.inbox_id, t.user_id, t.tickets::bigint, t.uncertain::bigint
  from total t join days d on d.n = t.n
  where t.tickets > 0 or t.uncertain > 0;
end;
comment on function analytics.backlog_daily is
  'Number of open tickets at the end of each day in a time zone, by state, inbox and user: analytics.tickets_as_of at that midnight, without spam, trash, closed and archived tickets. State null counts tickets whose values at that time are unknown. uncertain is the number of tickets that may belong on the other side: their change lies between change_after and valid_from (or change_by), or is unknown, and the midnight is in that range. It can exceed tickets. A change that was undone between two reads is in neither number; a deletion without deleted_after counts as of valid_to. A day that is not over shows the state so far.';

create or replace view analytics.shelf_events with (security_barrier) as
select h.account_id, h.owner_id, h.shelf_id, h.volume_id,
  case
    when h.position is null then 'removed'
    when h.was_on_shelf then 'moved'
    when h.change_after is null then 'found'
    else 'added' end as event,
  h.position, h.valid_from as at, h.change_after
from (
  select s.*, lag(s.position) over (partition by s.account_id, s.owner_id, s.shelf_id, s.volume_id order by s.valid_from) is not null as was_on_shelf
  from books.shelf_volume_history s
  where s.account_id = any (array(select account_id from sync.readable_accounts))) h
-- An absence is no event.
where h.position is not null or h.was_on_shelf;
comment on view analytics.shelf_events is
  'Events on the shelves. The catalog announces nothing: each event happened after change_after and by "at". A volume that came and went between two reads is missing.';
comment on column analytics.shelf_events.account_id is 'The operator''s name for the mirrored account.';
comment on column analytics.shelf_events.owner_id is 'The owner of the shelf.';
comment on column analytics.shelf_events.event is
  'added; moved (to another position); removed; or found: present at the first read of the shelf, since an unknown time.';
comment on column analytics.shelf_events.position is 'New position on the shelf, from 0; null if removed.';
comment on column analytics.shelf_events.at is 'Upper bound of the time of the event.';
comment on column analytics.shelf_events.change_after is
  'Lower bound of the time of the event; null if the time before is unknown.';
-- Metrics of tickets, maintained by triggers.

create table analytics.metric_definitions (
  relation text,
  name text,
  unit text not null,
  kind text not null,
  formula text not null,
  other_vendors text,
  primary key (relation, name),
  check (kind = any (array['exact', 'observed']))
);
comment on table analytics.metric_definitions is
  'Definitions of the metrics in this schema, and the definitions that other vendors use for the same name.';
comment on column analytics.metric_definitions.relation is
  'The view or function in analytics that has the metric as a column.';
comment on column analytics.metric_definitions.name is 'The column of the metric.';
comment on column analytics.metric_definitions.unit is
  'Unit, such as seconds, messages or tickets; time, flag or id for a column that is not a number.';
comment on column analytics.metric_definitions.kind is
  'exact: computed from messages, which carry their own times. observed: computed from the states that the mirror saw, since the source keeps no history; another column of the relation bounds the error.';
comment on column analytics.metric_definitions.formula is
  'How the metric is computed. Inbound: replies of customers. Authored: replies by team members. Automatic: replies without an author. Messages are ordered by created_at, then by position.';
comment on column analytics.metric_definitions.other_vendors is
  'Definitions of other help desks for the same name, according to their manuals. Null if no vendor has the metric, or if all define it alike.';

-- Metrics of support teams. internal.ticket_metrics_defined defines each metric once. analytics.ticket_metrics shows stored rows.
-- A row is stored in the transaction that writes the ticket, its messages or its history.

create or replace function analytics.message_kind(type text, direction text, user_id text) returns text
language sql immutable parallel safe
begin atomic
  select case
    when type = 'reply' and direction = 'in' then 'inbound'
    when type = 'reply' and direction = 'out' then case when user_id is null then 'automatic' else 'authored' end
    when type = 'note' then 'note'
    else 'other' end;
end;
comment on function analytics.message_kind is 'The kind of a message: see analytics.message_kinds.kind.';

create or replace view analytics.message_kinds with (security_barrier) as
select m.account_id, m.id as message_id, m.ticket_id, analytics.message_kind(m.type, m.direction, m.user_id) as kind,
  m.user_id, m.created_at, m.position
from helpdesk.messages m
where m.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.message_kinds is
  'Every message and its kind. Order the messages of a ticket by created_at, then by position; messages without a time come last.';
comment on column analytics.message_kinds.account_id is 'The operator''s name for the mirrored account.';
comment on column analytics.message_kinds.message_id is 'The message; joins helpdesk.messages.id.';
comment on column analytics.message_kinds.ticket_id is 'The ticket; joins analytics.ticket_metrics.ticket_id.';
comment on column analytics.message_kinds.kind is
  'inbound: a reply of a customer. authored: a reply by a team member. automatic: a reply without an author. note: a private note. other: all other messages.';
comment on column analytics.message_kinds.user_id is
  'The team member who wrote the message; null for customers and automatic replies.';
comment on column analytics.message_kinds.created_at is 'When the message was created, at the source.';
comment on column analytics.message_kinds.position is
  'Position of the message within the ticket, in the order of the source, from 1.';

-- Turns are stored together with the metrics, by the same call. While turns were a plain view, each join computed all turns first.
-- PostgreSQL also estimated a single row, since the output of windows and groups has no statistics. A table has statistics.

create or replace view internal.reply_turns_defined with (security_barrier) as
select g.account_id, g.ticket_id,
  row_number() over (partition by g.account_id, g.ticket_id order by g.replies_before)::int as turn,
  g.waiting_since, g.answered_at,
  date_part('epoch', g.answered_at - g.waiting_since) as wait_seconds,
  -- Same rule as analytics.calendar_of, which would look up the readable accounts once for each turn.
  analytics.business_seconds((
    select a.calendar from internal.stored_calendar_assignments a
    where a.account_id = g.account_id and (a.inbox_id = t.inbox_id or a.inbox_id is null)
    order by a.inbox_id nulls last limit 1), g.waiting_since, g.answered_at)::float8 as wait_business_seconds,
  g.user_id, g.inbound_messages, g.first_message_id, g.reply_message_id,
  g.reply_message_id is not null as is_answered,
  g.reply_message_id is not null and g.replies_before = 0 as is_first_response
from (
  select o.account_id, o.ticket_id, o.replies_before,
    min(o.created_at) filter (where o.kind = 'inbound') as waiting_since,
    max(o.created_at) filter (where o.kind = 'authored') as answered_at,
    max(o.user_id) filter (where o.kind = 'authored') as user_id,
    count(*) filter (where o.kind = 'inbound')::int as inbound_messages,
    (array_agg(o.message_id order by o.created_at, o.position, o.message_id) filter (where o.kind = 'inbound'))[1] as first_message_id,
    max(o.message_id) filter (where o.kind = 'authored') as reply_message_id
  from (
    select k.account_id, k.ticket_id, k.message_id, k.kind, k.user_id, k.created_at, k.position,
      count(*) filter (where k.kind = 'authored') over (
        partition by k.account_id, k.ticket_id order by k.created_at, k.position, k.message_id
        rows between unbounded preceding and 1 preceding) as replies_before
    from (
      select m.account_id, m.ticket_id, m.id as message_id, analytics.message_kind(m.type, m.direction, m.user_id) as kind,
        m.user_id, m.created_at, m.position
      from helpdesk.messages m
      where m.account_id = any (array(select account_id from sync.readable_accounts))
      order by m.account_id, m.ticket_id, m.position) k
    where k.kind in ('inbound', 'authored')) o
  group by o.account_id, o.ticket_id, o.replies_before
  -- A reply without a customer message before it is not a turn.
  having count(*) filter (where o.kind = 'inbound') > 0) g
join helpdesk.tickets t on t.account_id = g.account_id and t.id = g.ticket_id;
comment on view internal.reply_turns_defined is
  'Definition of a turn, computed from the messages on each query. analytics.reply_turns shows the stored result. Use this view to read the definition and to check the stored rows.';
comment on column internal.reply_turns_defined.ticket_id is 'The ticket; joins analytics.ticket_metrics.ticket_id.';
comment on column internal.reply_turns_defined.turn is 'Number of the turn within its ticket, from 1.';
comment on column internal.reply_turns_defined.waiting_since is
  'When the first message of the burst was created. A burst is a series of customer messages without a team reply between them.';
comment on column internal.reply_turns_defined.answered_at is
  'When the reply was created; null while the burst is unanswered.';
comment on column internal.reply_turns_defined.wait_seconds is
  'Seconds from waiting_since to answered_at; null while the burst is unanswered.';
comment on column internal.reply_turns_defined.wait_business_seconds is
  'Business seconds from waiting_since to answered_at, by the calendar of the ticket''s current inbox. Null without a calendar, and while the burst is unanswered.';
comment on column internal.reply_turns_defined.user_id is
  'The team member who replied; joins helpdesk.users.id. Null while the burst is unanswered.';
comment on column internal.reply_turns_defined.inbound_messages is 'Number of customer messages in the burst.';
comment on column internal.reply_turns_defined.first_message_id is 'The first message of the burst; joins helpdesk.messages.id.';
comment on column internal.reply_turns_defined.reply_message_id is
  'The reply; joins helpdesk.messages.id. Null while the burst is unanswered.';
comment on column internal.reply_turns_defined.is_answered is 'True if the burst has a reply.';
comment on column internal.reply_turns_defined.is_first_response is
  'True if the reply of this turn is the first response of the ticket, with no earlier reply by the team.';

create table internal.stored_reply_turns (
  account_id text,
  ticket_id text,
  turn integer,
  waiting_since timestamptz,
  answered_at timestamptz,
  wait_seconds double precision,
  wait_business_seconds double precision,
  user_id text,
  inbound_messages integer,
  first_message_id text,
  reply_message_id text,
  is_answered boolean,
  is_first_response boolean,
  primary key (account_id, ticket_id, turn)
);
comment on table internal.stored_reply_turns is
  'Stored rows of internal.reply_turns_defined, updated in the transaction that changes the ticket. Read analytics.reply_turns instead.';
comment on column internal.stored_reply_turns.account_id is 'The operator''s name for the mirrored account.';
comment on column internal.stored_reply_turns.ticket_id is 'The ticket; joins analytics.ticket_metrics.ticket_id.';
comment on column internal.stored_reply_turns.turn is 'Number of the turn within its ticket, from 1.';
comment on column internal.stored_reply_turns.waiting_since is
  'When the first message of the burst was created. A burst is a series of customer messages without a team reply between them.';
comment on column internal.stored_reply_turns.answered_at is
  'When the reply was created; null while the burst is unanswered.';
comment on column internal.stored_reply_turns.wait_seconds is
  'Seconds from waiting_since to answered_at; null while the burst is unanswered.';
comment on column internal.stored_reply_turns.wait_business_seconds is
  'Business seconds from waiting_since to answered_at, by the calendar of the ticket''s current inbox. Null without a calendar, and while the burst is unanswered.';
comment on column internal.stored_reply_turns.user_id is
  'The team member who replied; joins helpdesk.users.id. Null while the burst is unanswered.';
comment on column internal.stored_reply_turns.inbound_messages is 'Number of customer messages in the burst.';
comment on column internal.stored_reply_turns.first_message_id is 'The first message of the burst; joins helpdesk.messages.id.';
comment on column internal.stored_reply_turns.reply_message_id is
  'The reply; joins helpdesk.messages.id. Null while the burst is unanswered.';
comment on column internal.stored_reply_turns.is_answered is 'True if the burst has a reply.';
comment on column internal.stored_reply_turns.is_first_response is
  'True if the reply of this turn is the first response of the ticket, with no earlier reply by the team.';

create or replace view analytics.reply_turns with (security_barrier) as
select s.account_id, s.ticket_id, s.turn, s.waiting_since, s.answered_at, s.wait_seconds, s.wait_business_seconds, s.user_id,
  s.inbound_messages, s.first_message_id, s.reply_message_id, s.is_answered, s.is_first_response
from internal.stored_reply_turns s
where s.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.reply_turns is
  'Customer waits and team replies: one row for each burst of customer messages, with the reply by a team member that ends the wait. Automatic replies and notes end no wait. Updated in the transaction that changes the ticket.';

create or replace view internal.ticket_metrics_defined with (security_barrier) as
select t.account_id, t.id as ticket_id,
  m.message_count, m.inbound_count, m.authored_count, m.automatic_count, m.note_count, m.other_count, a.attachment_count,
  m.agents_involved, m.last_inbound_at, m.last_authored_at,
  coalesce(m.talk[1] = 'authored', false) as is_outbound_initiated,
  m.authored_count = 1 and m.talk[1] = 'inbound' and m.talk[cardinality(m.talk)] = 'authored' as is_one_touch,
  m.inbound_count > 0 and m.authored_count = 0 as is_unreplied,
  date_part('epoch', w.first_response) as first_response_seconds,
  w.first_response_business::float8 as first_response_business_seconds,
  w.first_responder_id,
  date_part('epoch', r.first_reply_at - t.created_at) as first_reply_seconds,
  analytics.business_seconds(c.calendar, t.created_at, r.first_reply_at)::float8 as first_reply_business_seconds,
  w.turns, w.waiting_since,
  date_part('epoch', w.total_wait) as total_wait_seconds,
  date_part('epoch', w.total_wait) / w.timed_turns as average_wait_seconds,
  date_part('epoch', w.longest_wait) as longest_wait_seconds,
  w.total_wait_business::float8 as total_wait_business_seconds,
  (w.total_wait_business / w.timed_turns)::float8 as average_wait_business_seconds,
  w.longest_wait_business::float8 as longest_wait_business_seconds,
  h.first_closed_at, date_part('epoch', h.first_closed_error) as first_closed_error_seconds,
  h.last_closed_at, date_part('epoch', h.last_closed_error) as last_closed_error_seconds,
  date_part('epoch', h.first_closed_at - t.created_at) as first_resolution_seconds,
  date_part('epoch', h.first_closed_error) as first_resolution_error_seconds,
  analytics.business_seconds(c.calendar, t.created_at, h.first_closed_at)::float8 as first_resolution_business_seconds,
  case when h.is_resolved then date_part('epoch', h.last_closed_at - t.created_at) end as full_resolution_seconds,
  case when h.is_resolved then date_part('epoch', h.last_closed_error) end as full_resolution_error_seconds,
  case when h.is_resolved then analytics.business_seconds(c.calendar, t.created_at, h.last_closed_at)::float8 end as full_resolution_business_seconds,
  h.reopen_count, date_part('epoch', u.unseen) as reopen_error_seconds,
  u.assignment_count, date_part('epoch', u.unseen) as assignment_error_seconds,
  h.seconds_open, h.open_error_seconds, h.seconds_hold, h.hold_error_seconds, h.seconds_snoozed, h.snoozed_error_seconds,
  h.seconds_closed, h.closed_error_seconds, h.seconds_archived, h.archived_error_seconds,
  h.first_closing_seen, h.last_closing_seen
from (
  select k.account_id, k.id, k.inbox_id, k.created_at
  from helpdesk.tickets k
  where k.account_id = any (array(select account_id from sync.readable_accounts))
  order by k.account_id, k.id) t
cross join lateral (
  select case when exists (select from internal.stored_calendar_assignments)
    then analytics.calendar_of(t.account_id, t.inbox_id) end as calendar offset 0) c
cross join lateral (
  select count(*)::int as message_count,
    count(*) filter (where k.kind = 'inbound')::int as inbound_count,
    count(*) filter (where k.kind = 'authored')::int as authored_count,
    count(*) filter (where k.kind = 'automatic')::int as automatic_count,
    count(*) filter (where k.kind = 'note')::int as note_count,
    count(*) filter (where k.kind = 'other')::int as other_count,
    count(distinct k.user_id) filter (where k.kind in ('authored', 'note'))::int as agents_involved,
    max(k.created_at) filter (where k.kind = 'inbound') as last_inbound_at,
    max(k.created_at) filter (where k.kind = 'authored') as last_authored_at,
    array_agg(k.kind order by k.created_at, k.position, k.message_id) filter (where k.kind in ('inbound', 'authored')) as talk,
    array_agg(k.created_at order by k.created_at, k.position, k.message_id) filter (where k.kind = 'authored') as authored_at
  from (
    select m.id as message_id, analytics.message_kind(m.type, m.direction, m.user_id) as kind, m.user_id, m.created_at, m.position
    from helpdesk.messages m
    where m.account_id = t.account_id and m.ticket_id = t.id
    order by m.position) k) m
-- If the team wrote first, the second team reply counts as the first reply.
cross join lateral (select m.authored_at[case when m.talk[1] = 'authored' then 2 else 1 end] as first_reply_at) r
cross join lateral (
  select count(*)::int as attachment_count
  from (
    select from helpdesk.attachments f
    where f.account_id = t.account_id and f.ticket_id >= t.id and f.ticket_id <= t.id
    order by f.ticket_id) f) a
cross join lateral (
  select count(*) filter (where q.is_answered)::int as turns,
    nullif(count(q.wait), 0) as timed_turns,
    max(q.waiting_since) filter (where not q.is_answered) as waiting_since,
    sum(q.wait) as total_wait, max(q.wait) as longest_wait,
    sum(q.business) as total_wait_business, max(q.business) as longest_wait_business,
    max(q.wait) filter (where q.is_first_response) as first_response,
    max(q.business) filter (where q.is_first_response) as first_response_business,
    max(q.user_id) filter (where q.is_first_response) as first_responder_id
  from (
    select n.is_answered, n.is_first_response, n.user_id, n.waiting_since, n.answered_at - n.waiting_since as wait,
      analytics.business_seconds(c.calendar, n.waiting_since, n.answered_at) as business
    from analytics.reply_turns n
    where n.account_id = t.account_id and n.ticket_id = t.id
    offset 0) q) w
cross join lateral (
  select min(i.valid_from) filter (where i.resolved) as first_closed_at,
    (array_agg(i.began_within order by i.valid_from) filter (where i.resolved))[1] as first_closed_error,
    max(i.valid_from) filter (where i.resolved and not i.was_resolved) as last_closed_at,
    (array_agg(i.began_within order by i.valid_from desc) filter (where i.resolved and not i.was_resolved))[1] as last_closed_error,
    coalesce((array_agg(i.resolved order by i.valid_from desc))[1], false) as is_resolved,
    count(*) filter (where not i.resolved and i.was_resolved)::int as reopen_count,
    -- A closing was observed if another interval precedes it. Only the first interval has no predecessor.
    coalesce(bool_or(i.was_seen) filter (where i.resolved and not i.was_resolved), false)
      and coalesce(bool_and(i.was_seen or not i.resolved), true) as first_closing_seen,
    coalesce(bool_or(i.was_seen) filter (where i.resolved and not i.was_resolved), false) as last_closing_seen,
    date_part('epoch', coalesce(sum(i.lasted) filter (where i.state = 'open'), interval '0')) as seconds_open,
    date_part('epoch', coalesce(sum(i.lasted) filter (where i.state = 'hold'), interval '0')) as seconds_hold,
    date_part('epoch', coalesce(sum(i.lasted) filter (where i.state = 'snoozed'), interval '0')) as seconds_snoozed,
    date_part('epoch', coalesce(sum(i.lasted) filter (where i.state = 'closed'), interval '0')) as seconds_closed,
    date_part('epoch', coalesce(sum(i.lasted) filter (where i.state = 'archived'), interval '0')) as seconds_archived,
    -- The error of each sum is at most the uncertainty of the interval boundaries. One unknown boundary makes the error unknown.
    case when bool_and(i.within is not null) filter (where i.state = 'open' and i.lasted is not null) is not false
      then date_part('epoch', coalesce(sum(i.within) filter (where i.state = 'open'), interval '0')) end as open_error_seconds,
    case when bool_and(i.within is not null) filter (where i.state = 'hold' and i.lasted is not null) is not false
      then date_part('epoch', coalesce(sum(i.within) filter (where i.state = 'hold'), interval '0')) end as hold_error_seconds,
    case when bool_and(i.within is not null) filter (where i.state = 'snoozed' and i.lasted is not null) is not false
      then date_part('epoch', coalesce(sum(i.within) filter (where i.state = 'snoozed'), interval '0')) end as snoozed_error_seconds,
    case when bool_and(i.within is not null) filter (where i.state = 'closed' and i.lasted is not null) is not false
      then date_part('epoch', coalesce(sum(i.within) filter (where i.state = 'closed'), interval '0')) end as closed_error_seconds,
    case when bool_and(i.within is not null) filter (where i.state = 'archived' and i.lasted is not null) is not false
      then date_part('epoch', coalesce(sum(i.within) filter (where i.state = 'archived'), interval '0')) end as archived_error_seconds
  from (
    select s.state, s.valid_from, s.resolved, coalesce(s.was_resolved, false) as was_resolved,
      s.was_resolved is not null as was_seen,
      s.valid_from - s.change_after as began_within, s.valid_to - s.valid_from as lasted,
      -- If the next interval starts at valid_to, the end is as uncertain as that start. Otherwise a deletion ended the interval.
      s.valid_from - s.change_after + case
        when s.next_from = s.valid_to then s.next_from - s.next_after
        else s.valid_to - s.deleted_after end as within
    from (
      select v.state, v.valid_from, v.valid_to, v.change_after, v.deleted_after, d.resolved,
        lag(d.resolved) over once as was_resolved,
        lead(v.valid_from) over once as next_from, lead(v.change_after) over once as next_after
      from analytics.ticket_state_intervals v
      cross join lateral (select coalesce(v.state in ('closed', 'archived'), false) as resolved) d
      where v.account_id = t.account_id and v.ticket_id >= t.id and v.ticket_id <= t.id
      window once as (partition by v.ticket_id order by v.valid_from)) s) i) h
cross join lateral (
  select count(*) filter (where e.user_id is not null and e.user_id is distinct from e.user_before)::int as assignment_count,
    case when count(e.change_after) = count(*) then sum(e.valid_from - e.change_after) end as unseen
  from (
    select x.user_id, x.valid_from, x.change_after, lag(x.user_id) over (partition by x.ticket_id order by x.valid_from) as user_before
    from helpdesk.ticket_history x
    where x.account_id = t.account_id and x.ticket_id >= t.id and x.ticket_id <= t.id) e) u;
comment on view internal.ticket_metrics_defined is
  'Definition of each metric of a ticket, computed on each query. analytics.ticket_metrics shows the stored result. Use this view to read the definitions and to check the stored rows.';
comment on column internal.ticket_metrics_defined.ticket_id is 'The ticket; joins helpdesk.tickets.id.';
comment on column internal.ticket_metrics_defined.message_count is 'Number of messages of all kinds.';
comment on column internal.ticket_metrics_defined.inbound_count is 'Number of replies by customers.';
comment on column internal.ticket_metrics_defined.authored_count is 'Number of replies by team members.';
comment on column internal.ticket_metrics_defined.automatic_count is
  'Number of automatic replies to customers, that is, replies without a user.';
comment on column internal.ticket_metrics_defined.note_count is 'Number of private notes.';
comment on column internal.ticket_metrics_defined.other_count is
  'Number of messages that are neither inbound, authored, automatic nor notes.';
comment on column internal.ticket_metrics_defined.attachment_count is
  'Number of files attached to the messages of the ticket.';
comment on column internal.ticket_metrics_defined.agents_involved is
  'Number of team members who wrote replies or notes.';
comment on column internal.ticket_metrics_defined.last_inbound_at is 'When a customer last wrote.';
comment on column internal.ticket_metrics_defined.last_authored_at is 'When a team member last replied.';
comment on column internal.ticket_metrics_defined.is_outbound_initiated is
  'True if the team wrote before any customer. Notes and automatic replies do not count.';
comment on column internal.ticket_metrics_defined.is_one_touch is
  'True if a single team reply was enough: a customer wrote first, and no customer wrote after the reply.';
comment on column internal.ticket_metrics_defined.is_unreplied is
  'True if a customer wrote and no team member ever replied. For customers who wait after a reply, see waiting_since.';
comment on column internal.ticket_metrics_defined.first_response_seconds is
  'Seconds from the first customer message to the first team reply after it. Null while unanswered, or if the team wrote first.';
comment on column internal.ticket_metrics_defined.first_response_business_seconds is
  'first_response_seconds in business hours; null without a calendar.';
comment on column internal.ticket_metrics_defined.first_responder_id is
  'The team member who gave the first response; joins helpdesk.users.id. Null if first_response_seconds is null.';
comment on column internal.ticket_metrics_defined.first_reply_seconds is
  'Seconds from the creation of the ticket to the first team reply. If the team wrote first: to the second team reply.';
comment on column internal.ticket_metrics_defined.first_reply_business_seconds is
  'first_reply_seconds in business hours; null without a calendar.';
comment on column internal.ticket_metrics_defined.turns is
  'Number of answered bursts of customer messages: see analytics.reply_turns.';
comment on column internal.ticket_metrics_defined.waiting_since is
  'Start of the current wait of a customer: time of the first customer message after the last team reply. Null if no customer waits.';
comment on column internal.ticket_metrics_defined.total_wait_seconds is
  'Total wait of customers over all answered turns; null without answered turns.';
comment on column internal.ticket_metrics_defined.average_wait_seconds is
  'total_wait_seconds divided by the number of answered turns.';
comment on column internal.ticket_metrics_defined.longest_wait_seconds is 'Longest wait of an answered turn.';
comment on column internal.ticket_metrics_defined.total_wait_business_seconds is
  'total_wait_seconds in business hours; null without a calendar.';
comment on column internal.ticket_metrics_defined.average_wait_business_seconds is
  'average_wait_seconds in business hours; null without a calendar.';
comment on column internal.ticket_metrics_defined.longest_wait_business_seconds is
  'Longest wait of an answered turn in business hours; null without a calendar.';
comment on column internal.ticket_metrics_defined.first_closed_at is
  'When the ticket was first seen resolved, that is, closed or archived; null if never. The ticket was resolved by this time. If first_closing_seen is false, this is only an upper bound: updated_at when the ticket was first seen. The mirror cannot know an earlier closing that was undone before.';
comment on column internal.ticket_metrics_defined.first_closed_error_seconds is
  'Upper bound of how many seconds before first_closed_at the ticket was resolved; null if unknown.';
comment on column internal.ticket_metrics_defined.last_closed_at is
  'Start of the current or last resolved period; null if the ticket was never seen resolved. The period began by this time. If last_closing_seen is false, this is only an upper bound: updated_at when the ticket was first seen.';
comment on column internal.ticket_metrics_defined.last_closed_error_seconds is
  'Upper bound of how many seconds before last_closed_at the ticket was resolved; null if unknown.';
comment on column internal.ticket_metrics_defined.first_resolution_seconds is
  'Seconds from the creation of the ticket to first_closed_at; an upper bound if first_closing_seen is false.';
comment on column internal.ticket_metrics_defined.first_resolution_error_seconds is
  'Upper bound of the overestimate of first_resolution_seconds; null if unknown.';
comment on column internal.ticket_metrics_defined.first_resolution_business_seconds is
  'first_resolution_seconds in business hours; null without a calendar. The error is at most first_resolution_error_seconds.';
comment on column internal.ticket_metrics_defined.full_resolution_seconds is
  'Seconds from the creation of the ticket to last_closed_at while the ticket is resolved; null otherwise. An upper bound if last_closing_seen is false.';
comment on column internal.ticket_metrics_defined.full_resolution_error_seconds is
  'Upper bound of the overestimate of full_resolution_seconds; null if unknown, or if full_resolution_seconds is null.';
comment on column internal.ticket_metrics_defined.full_resolution_business_seconds is
  'full_resolution_seconds in business hours; null without a calendar. The error is at most full_resolution_error_seconds.';
comment on column internal.ticket_metrics_defined.reopen_count is
  'Number of observed reopenings: changes from resolved to unresolved since the ticket was first seen.';
comment on column internal.ticket_metrics_defined.reopen_error_seconds is
  'Total length in seconds of the periods in which the observed changes may have happened; null if unknown. A change that was undone within such a period is not counted. Neither is a change that was undone between two reads without a difference.';
comment on column internal.ticket_metrics_defined.assignment_count is
  'Number of observed assignments to a team member who was not assigned just before, including the assignee when the ticket was first seen.';
comment on column internal.ticket_metrics_defined.assignment_error_seconds is
  'Total length in seconds of the periods in which the observed changes may have happened; null if unknown. A change that was undone within such a period is not counted. Neither is a change that was undone between two reads without a difference.';
comment on column internal.ticket_metrics_defined.seconds_open is
  'Total seconds in the state open, over ended periods since the ticket was first seen. A current period is in analytics.ticket_state_intervals. The time before the first row of history is unknown.';
comment on column internal.ticket_metrics_defined.open_error_seconds is
  'Upper bound of the error of seconds_open, for the time since the ticket was first seen; null if unknown.';
comment on column internal.ticket_metrics_defined.seconds_hold is
  'Total seconds in the state hold, over ended periods since the ticket was first seen. The time before the first row of history is unknown.';
comment on column internal.ticket_metrics_defined.hold_error_seconds is
  'Upper bound of the error of seconds_hold, for the time since the ticket was first seen; null if unknown.';
comment on column internal.ticket_metrics_defined.seconds_snoozed is
  'Total seconds in the state snoozed, over ended periods since the ticket was first seen. The time before the first row of history is unknown.';
comment on column internal.ticket_metrics_defined.snoozed_error_seconds is
  'Upper bound of the error of seconds_snoozed, for the time since the ticket was first seen; null if unknown.';
comment on column internal.ticket_metrics_defined.seconds_closed is
  'Total seconds in the state closed, over ended periods since the ticket was first seen. The time before the first row of history is unknown.';
comment on column internal.ticket_metrics_defined.closed_error_seconds is
  'Upper bound of the error of seconds_closed, for the time since the ticket was first seen; null if unknown.';
comment on column internal.ticket_metrics_defined.seconds_archived is
  'Total seconds in the state archived, over ended periods since the ticket was first seen. The time before the first row of history is unknown.';
comment on column internal.ticket_metrics_defined.archived_error_seconds is
  'Upper bound of the error of seconds_archived, for the time since the ticket was first seen; null if unknown.';
comment on column internal.ticket_metrics_defined.first_closing_seen is
  'True if the ticket was seen unresolved before first_closed_at. False if the ticket was resolved when first seen: then first_closed_at, first_closed_date and first_resolution_seconds are only upper bounds. Also false if first_closed_at is null.';
comment on column internal.ticket_metrics_defined.last_closing_seen is
  'True if the ticket was seen unresolved before last_closed_at. False if the ticket was resolved when first seen, and not reopened and resolved since: then last_closed_at and full_resolution_seconds are only upper bounds. Also false if last_closed_at is null.';

create table internal.stored_ticket_metrics (
  account_id text,
  ticket_id text,
  message_count integer,
  inbound_count integer,
  authored_count integer,
  automatic_count integer,
  note_count integer,
  other_count integer,
  attachment_count integer,
  agents_involved integer,
  last_inbound_at timestamptz,
  last_authored_at timestamptz,
  is_outbound_initiated boolean,
  is_one_touch boolean,
  is_unreplied boolean,
  first_response_seconds double precision,
  first_response_business_seconds double precision,
  first_responder_id text,
  first_reply_seconds double precision,
  first_reply_business_seconds double precision,
  turns integer,
  waiting_since timestamptz,
  total_wait_seconds double precision,
  average_wait_seconds double precision,
  longest_wait_seconds double precision,
  total_wait_business_seconds double precision,
  average_wait_business_seconds double precision,
  longest_wait_business_seconds double precision,
  first_closed_at timestamptz,
  first_closed_error_seconds double precision,
  last_closed_at timestamptz,
  last_closed_error_seconds double precision,
  first_resolution_seconds double precision,
  first_resolution_error_seconds double precision,
  first_resolution_business_seconds double precision,
  full_resolution_seconds double precision,
  full_resolution_error_seconds double precision,
  full_resolution_business_seconds double precision,
  reopen_count integer,
  reopen_error_seconds double precision,
  assignment_count integer,
  assignment_error_seconds double precision,
  seconds_open double precision,
  open_error_seconds double precision,
  seconds_hold double precision,
  hold_error_seconds double precision,
  seconds_snoozed double precision,
  snoozed_error_seconds double precision,
  seconds_closed double precision,
  closed_error_seconds double precision,
  seconds_archived double precision,
  archived_error_seconds double precision,
  first_closing_seen boolean default false not null,
  last_closing_seen boolean default false not null,
  primary key (account_id, ticket_id)
);
comment on table internal.stored_ticket_metrics is
  'Stored rows of internal.ticket_metrics_defined, updated in the transaction that changes the ticket. Read analytics.ticket_metrics instead.';
comment on column internal.stored_ticket_metrics.account_id is 'The operator''s name for the mirrored account.';
comment on column internal.stored_ticket_metrics.message_count is 'Number of messages of all kinds.';
comment on column internal.stored_ticket_metrics.inbound_count is 'Number of replies by customers.';
comment on column internal.stored_ticket_metrics.authored_count is 'Number of replies by team members.';
comment on column internal.stored_ticket_metrics.automatic_count is
  'Number of automatic replies to customers, that is, replies without a user.';
comment on column internal.stored_ticket_metrics.note_count is 'Number of private notes.';
comment on column internal.stored_ticket_metrics.other_count is
  'Number of messages that are neither inbound, authored, automatic nor notes.';
comment on column internal.stored_ticket_metrics.attachment_count is
  'Number of files attached to the messages of the ticket.';
comment on column internal.stored_ticket_metrics.agents_involved is
  'Number of team members who wrote replies or notes.';
comment on column internal.stored_ticket_metrics.last_inbound_at is 'When a customer last wrote.';
comment on column internal.stored_ticket_metrics.last_authored_at is 'When a team member last replied.';
comment on column internal.stored_ticket_metrics.is_outbound_initiated is
  'True if the team wrote before any customer. Notes and automatic replies do not count.';
comment on column internal.stored_ticket_metrics.is_one_touch is
  'True if a single team reply was enough: a customer wrote first, and no customer wrote after the reply.';
comment on column internal.stored_ticket_metrics.is_unreplied is
  'True if a customer wrote and no team member ever replied. For customers who wait after a reply, see waiting_since.';
comment on column internal.stored_ticket_metrics.first_response_seconds is
  'Seconds from the first customer message to the first team reply after it. Null while unanswered, or if the team wrote first.';
comment on column internal.stored_ticket_metrics.first_response_business_seconds is
  'first_response_seconds in business hours; null without a calendar.';
comment on column internal.stored_ticket_metrics.first_responder_id is
  'The team member who gave the first response; joins helpdesk.users.id. Null if first_response_seconds is null.';
comment on column internal.stored_ticket_metrics.first_reply_seconds is
  'Seconds from the creation of the ticket to the first team reply. If the team wrote first: to the second team reply.';
comment on column internal.stored_ticket_metrics.first_reply_business_seconds is
  'first_reply_seconds in business hours; null without a calendar.';
comment on column internal.stored_ticket_metrics.turns is
  'Number of answered bursts of customer messages: see analytics.reply_turns.';
comment on column internal.stored_ticket_metrics.waiting_since is
  'Start of the current wait of a customer: time of the first customer message after the last team reply. Null if no customer waits.';
comment on column internal.stored_ticket_metrics.total_wait_seconds is
  'Total wait of customers over all answered turns; null without answered turns.';
comment on column internal.stored_ticket_metrics.average_wait_seconds is
  'total_wait_seconds divided by the number of answered turns.';
comment on column internal.stored_ticket_metrics.longest_wait_seconds is 'Longest wait of an answered turn.';
comment on column internal.stored_ticket_metrics.total_wait_business_seconds is
  'total_wait_seconds in business hours; null without a calendar.';
comment on column internal.stored_ticket_metrics.average_wait_business_seconds is
  'average_wait_seconds in business hours; null without a calendar.';
comment on column internal.stored_ticket_metrics.longest_wait_business_seconds is
  'Longest wait of an answered turn in business hours; null without a calendar.';
comment on column internal.stored_ticket_metrics.first_closed_at is
  'When the ticket was first seen resolved, that is, closed or archived; null if never. The ticket was resolved by this time. If first_closing_seen is false, this is only an upper bound: updated_at when the ticket was first seen. The mirror cannot know an earlier closing that was undone before.';
comment on column internal.stored_ticket_metrics.first_closed_error_seconds is
  'Upper bound of how many seconds before first_closed_at the ticket was resolved; null if unknown.';
comment on column internal.stored_ticket_metrics.last_closed_at is
  'Start of the current or last resolved period; null if the ticket was never seen resolved. The period began by this time. If last_closing_seen is false, this is only an upper bound: updated_at when the ticket was first seen.';
comment on column internal.stored_ticket_metrics.last_closed_error_seconds is
  'Upper bound of how many seconds before last_closed_at the ticket was resolved; null if unknown.';
comment on column internal.stored_ticket_metrics.first_resolution_seconds is
  'Seconds from the creation of the ticket to first_closed_at; an upper bound if first_closing_seen is false.';
comment on column internal.stored_ticket_metrics.first_resolution_error_seconds is
  'Upper bound of the overestimate of first_resolution_seconds; null if unknown.';
comment on column internal.stored_ticket_metrics.first_resolution_business_seconds is
  'first_resolution_seconds in business hours; null without a calendar. The error is at most first_resolution_error_seconds.';
comment on column internal.stored_ticket_metrics.full_resolution_seconds is
  'Seconds from the creation of the ticket to last_closed_at while the ticket is resolved; null otherwise. An upper bound if last_closing_seen is false.';
comment on column internal.stored_ticket_metrics.full_resolution_error_seconds is
  'Upper bound of the overestimate of full_resolution_seconds; null if unknown, or if full_resolution_seconds is null.';
comment on column internal.stored_ticket_metrics.full_resolution_business_seconds is
  'full_resolution_seconds in business hours; null without a calendar. The error is at most full_resolution_error_seconds.';
comment on column internal.stored_ticket_metrics.reopen_count is
  'Number of observed reopenings: changes from resolved to unresolved since the ticket was first seen.';
comment on column internal.stored_ticket_metrics.reopen_error_seconds is
  'Total length in seconds of the periods in which the observed changes may have happened; null if unknown. A change that was undone within such a period is not counted. Neither is a change that was undone between two reads without a difference.';
comment on column internal.stored_ticket_metrics.assignment_count is
  'Number of observed assignments to a team member who was not assigned just before, including the assignee when the ticket was first seen.';
comment on column internal.stored_ticket_metrics.assignment_error_seconds is
  'Total length in seconds of the periods in which the observed changes may have happened; null if unknown. A change that was undone within such a period is not counted. Neither is a change that was undone between two reads without a difference.';
comment on column internal.stored_ticket_metrics.seconds_open is
  'Total seconds in the state open, over ended periods since the ticket was first seen. A current period is in analytics.ticket_state_intervals. The time before the first row of history is unknown.';
comment on column internal.stored_ticket_metrics.open_error_seconds is
  'Upper bound of the error of seconds_open, for the time since the ticket was first seen; null if unknown.';
comment on column internal.stored_ticket_metrics.seconds_hold is
  'Total seconds in the state hold, over ended periods since the ticket was first seen. The time before the first row of history is unknown.';
comment on column internal.stored_ticket_metrics.hold_error_seconds is
  'Upper bound of the error of seconds_hold, for the time since the ticket was first seen; null if unknown.';
comment on column internal.stored_ticket_metrics.seconds_snoozed is
  'Total seconds in the state snoozed, over ended periods since the ticket was first seen. The time before the first row of history is unknown.';
comment on column internal.stored_ticket_metrics.snoozed_error_seconds is
  'Upper bound of the error of seconds_snoozed, for the time since the ticket was first seen; null if unknown.';
comment on column internal.stored_ticket_metrics.seconds_closed is
  'Total seconds in the state closed, over ended periods since the ticket was first seen. The time before the first row of history is unknown.';
comment on column internal.stored_ticket_metrics.closed_error_seconds is
  'Upper bound of the error of seconds_closed, for the time since the ticket was first seen; null if unknown.';
comment on column internal.stored_ticket_metrics.seconds_archived is
  'Total seconds in the state archived, over ended periods since the ticket was first seen. The time before the first row of history is unknown.';
comment on column internal.stored_ticket_metrics.archived_error_seconds is
  'Upper bound of the error of seconds_archived, for the time since the ticket was first seen; null if unknown.';
comment on column internal.stored_ticket_metrics.first_closing_seen is
  'True if the ticket was seen unresolved before first_closed_at. False if the ticket was resolved when first seen: then first_closed_at, first_closed_date and first_resolution_seconds are only upper bounds. Also false if first_closed_at is null.';
comment on column internal.stored_ticket_metrics.last_closing_seen is
  'True if the ticket was seen unresolved before last_closed_at. False if the ticket was resolved when first seen, and not reopened and resolved since: then last_closed_at and full_resolution_seconds are only upper bounds. Also false if last_closed_at is null.';

create or replace view analytics.ticket_metrics with (security_barrier) as
select t.account_id, t.id as ticket_id, t.number, t.customer_id, t.inbox_id, t.user_id, t.state, t.type, t.spam, t.trash,
  t.created_at, t.updated_at, t._deleted_at as deleted_at,
  coalesce(t._messages_as_of >= t.updated_at, false) and t._deleted_at is null and not exists (
    select from sync.rejects r
    where r.account_id = t.account_id and r.stream_key in ('helpdesk.tickets', 'helpdesk.messages') and r.ask_id = t.id and r.cleared_at is null) as messages_complete,
  s.message_count, s.inbound_count, s.authored_count, s.automatic_count, s.note_count, s.other_count, s.attachment_count,
  s.agents_involved, s.last_inbound_at, s.last_authored_at,
  s.is_outbound_initiated, s.is_one_touch, s.is_unreplied,
  s.first_response_seconds, s.first_response_business_seconds, s.first_responder_id,
  s.first_reply_seconds, s.first_reply_business_seconds,
  s.turns, s.waiting_since,
  s.total_wait_seconds, s.average_wait_seconds, s.longest_wait_seconds,
  s.total_wait_business_seconds, s.average_wait_business_seconds, s.longest_wait_business_seconds,
  s.first_closed_at, s.first_closed_error_seconds, s.last_closed_at, s.last_closed_error_seconds,
  s.first_resolution_seconds, s.first_resolution_error_seconds, s.first_resolution_business_seconds,
  s.full_resolution_seconds, s.full_resolution_error_seconds, s.full_resolution_business_seconds,
  s.reopen_count, s.reopen_error_seconds, s.assignment_count, s.assignment_error_seconds,
  s.seconds_open, s.open_error_seconds, s.seconds_hold, s.hold_error_seconds, s.seconds_snoozed, s.snoozed_error_seconds,
  s.seconds_closed, s.closed_error_seconds, s.seconds_archived, s.archived_error_seconds,
  s.first_closing_seen, s.last_closing_seen
from helpdesk.tickets t
left join internal.stored_ticket_metrics s on s.account_id = t.account_id and s.ticket_id = t.id
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.ticket_metrics is
  'Every ticket and its metrics, one row each, updated in the transaction that changes the ticket. analytics.metric_definitions defines each metric. Filter out tickets with messages_complete false, spam, trash and deleted tickets where a report must not count them.';
comment on column analytics.ticket_metrics.number is 'Ticket number that people see.';
comment on column analytics.ticket_metrics.customer_id is 'The customer; joins analytics.customer_summary.customer_id.';
comment on column analytics.ticket_metrics.inbox_id is 'The inbox.';
comment on column analytics.ticket_metrics.user_id is 'The assigned user; null while unassigned.';
comment on column analytics.ticket_metrics.type is 'Channel, such as email, chat, web or phone.';
comment on column analytics.ticket_metrics.updated_at is 'When the ticket was last updated, at the source.';
comment on column analytics.ticket_metrics.deleted_at is
  'When the ticket was found deleted at the source; null while the ticket exists. The metrics of a deleted ticket stay.';
comment on column analytics.ticket_metrics.messages_complete is
  'True if the messages are as new as the ticket, no record of the ticket is rejected, and the ticket is not deleted. If false, metrics of messages count only the mirrored messages.';

create or replace function internal.keep_metrics(accounts text[], tickets text[]) returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
begin
  -- Turns come first, since the metrics are computed from them. Turn numbers start at 1, so stored turns above the new count go.
  with defined as materialized (
    select k.account_id, k.ticket_id, d.turns
    from (select distinct k.account_id, k.ticket_id from unnest(accounts, tickets) as k (account_id, ticket_id)) k
    cross join lateral (
      select array_agg(d) as turns from internal.reply_turns_defined d
      where d.account_id = k.account_id and d.ticket_id = k.ticket_id) d),
  gone as (
    delete from internal.stored_reply_turns s using defined d
    where s.account_id = d.account_id and s.ticket_id = d.ticket_id and s.turn > coalesce(cardinality(d.turns), 0))
  insert into internal.stored_reply_turns as s
  select n.* from defined d cross join lateral unnest(d.turns) n
  where not exists (
    select from internal.stored_reply_turns s
    where s.account_id = d.account_id and s.ticket_id = d.ticket_id and s.turn = n.turn and s is not distinct from n
    offset 0)
  on conflict (account_id, ticket_id, turn) do update set (waiting_since, answered_at, wait_seconds, wait_business_seconds,
    user_id, inbound_messages, first_message_id, reply_message_id, is_answered, is_first_response) = row
    (excluded.waiting_since, excluded.answered_at, excluded.wait_seconds, excluded.wait_business_seconds, excluded.user_id,
    excluded.inbound_messages, excluded.first_message_id, excluded.reply_message_id, excluded.is_answered,
    excluded.is_first_response);

  insert into internal.stored_ticket_metrics as s (account_id, ticket_id, message_count, inbound_count, authored_count,
    automatic_count, note_count, other_count, attachment_count, agents_involved, last_inbound_at, last_authored_at,
    is_outbound_initiated, is_one_touch, is_unreplied, first_response_seconds, first_response_business_seconds,
    first_responder_id, first_reply_seconds, first_reply_business_seconds, turns, waiting_since, total_wait_seconds,
    average_wait_seconds, longest_wait_seconds, total_wait_business_seconds, average_wait_business_seconds,
    longest_wait_business_seconds, first_closed_at, first_closed_error_seconds, last_closed_at, last_closed_error_seconds,
    first_resolution_seconds, first_resolution_error_seconds, first_resolution_business_seconds, full_resolution_seconds,
    full_resolution_error_seconds, full_resolution_business_seconds, reopen_count, reopen_error_seconds, assignment_count,
    assignment_error_seconds, seconds_open, open_error_seconds, seconds_hold, hold_error_seconds, seconds_snoozed,
    snoozed_error_seconds, seconds_closed, closed_error_seconds, seconds_archived, archived_error_seconds, first_closing_seen,
    last_closing_seen)
  select d.account_id, d.ticket_id, d.message_count, d.inbound_count, d.authored_count, d.automatic_count, d.note_count,
    d.other_count, d.attachment_count, d.agents_involved, d.last_inbound_at, d.last_authored_at, d.is_outbound_initiated,
    d.is_one_touch, d.is_unreplied, d.first_response_seconds, d.first_response_business_seconds, d.first_responder_id,
    d.first_reply_seconds, d.first_reply_business_seconds, d.turns, d.waiting_since, d.total_wait_seconds,
    d.average_wait_seconds, d.longest_wait_seconds, d.total_wait_business_seconds, d.average_wait_business_seconds,
    d.longest_wait_business_seconds, d.first_closed_at, d.first_closed_error_seconds, d.last_closed_at,
    d.last_closed_error_seconds, d.first_resolution_seconds, d.first_resolution_error_seconds,
    d.first_resolution_business_seconds, d.full_resolution_seconds, d.full_resolution_error_seconds,
    d.full_resolution_business_seconds, d.reopen_count, d.reopen_error_seconds, d.assignment_count, d.assignment_error_seconds,
    d.seconds_open, d.open_error_seconds, d.seconds_hold, d.hold_error_seconds, d.seconds_snoozed, d.snoozed_error_seconds,
    d.seconds_closed, d.closed_error_seconds, d.seconds_archived, d.archived_error_seconds, d.first_closing_seen,
    d.last_closing_seen
  from (select distinct k.account_id, k.ticket_id from unnest(accounts, tickets) as k (account_id, ticket_id)) k
  cross join lateral (
    select d.* from internal.ticket_metrics_defined d
    where d.account_id = k.account_id and d.ticket_id >= k.ticket_id and d.ticket_id <= k.ticket_id
    offset 0) d
  where not exists (
    select from internal.stored_ticket_metrics s
    where s.account_id = k.account_id and s.ticket_id = k.ticket_id and (s.message_count, s.inbound_count, s.authored_count,
      s.automatic_count, s.note_count, s.other_count, s.attachment_count, s.agents_involved, s.last_inbound_at,
      s.last_authored_at, s.is_outbound_initiated, s.is_one_touch, s.is_unreplied, s.first_response_seconds,
      s.first_response_business_seconds, s.first_responder_id, s.first_reply_seconds, s.first_reply_business_seconds, s.turns,
      s.waiting_since, s.total_wait_seconds, s.average_wait_seconds, s.longest_wait_seconds, s.total_wait_business_seconds,
      s.average_wait_business_seconds, s.longest_wait_business_seconds, s.first_closed_at, s.first_closed_error_seconds,
      s.last_closed_at, s.last_closed_error_seconds, s.first_resolution_seconds, s.first_resolution_error_seconds,
      s.first_resolution_business_seconds, s.full_resolution_seconds, s.full_resolution_error_seconds,
      s.full_resolution_business_seconds, s.reopen_count, s.reopen_error_seconds, s.assignment_count,
      s.assignment_error_seconds, s.seconds_open, s.open_error_seconds, s.seconds_hold, s.hold_error_seconds, s.seconds_snoozed,
      s.snoozed_error_seconds, s.seconds_closed, s.closed_error_seconds, s.seconds_archived, s.archived_error_seconds,
      s.first_closing_seen, s.last_closing_seen) is not distinct from (d.message_count, d.inbound_count, d.authored_count,
      d.automatic_count, d.note_count, d.other_count, d.attachment_count, d.agents_involved, d.last_inbound_at,
      d.last_authored_at, d.is_outbound_initiated, d.is_one_touch, d.is_unreplied, d.first_response_seconds,
      d.first_response_business_seconds, d.first_responder_id, d.first_reply_seconds, d.first_reply_business_seconds, d.turns,
      d.waiting_since, d.total_wait_seconds, d.average_wait_seconds, d.longest_wait_seconds, d.total_wait_business_seconds,
      d.average_wait_business_seconds, d.longest_wait_business_seconds, d.first_closed_at, d.first_closed_error_seconds,
      d.last_closed_at, d.last_closed_error_seconds, d.first_resolution_seconds, d.first_resolution_error_seconds,
      d.first_resolution_business_seconds, d.full_resolution_seconds, d.full_resolution_error_seconds,
      d.full_resolution_business_seconds, d.reopen_count, d.reopen_error_seconds, d.assignment_count,
      d.assignment_error_seconds, d.seconds_open, d.open_error_seconds, d.seconds_hold, d.hold_error_seconds, d.seconds_snoozed,
      d.snoozed_error_seconds, d.seconds_closed, d.closed_error_seconds, d.seconds_archived, d.archived_error_seconds,
      d.first_closing_seen, d.last_closing_seen)
    offset 0)
  order by k.account_id, k.ticket_id
  on conflict (account_id, ticket_id) do update set (message_count, inbound_count, authored_count, automatic_count, note_count,
    other_count, attachment_count, agents_involved, last_inbound_at, last_authored_at, is_outbound_initiated, is_one_touch,
    is_unreplied, first_response_seconds, first_response_business_seconds, first_responder_id, first_reply_seconds,
    first_reply_business_seconds, turns, waiting_since, total_wait_seconds, average_wait_seconds, longest_wait_seconds,
    total_wait_business_seconds, average_wait_business_seconds, longest_wait_business_seconds, first_closed_at,
    first_closed_error_seconds, last_closed_at, last_closed_error_seconds, first_resolution_seconds,
    first_resolution_error_seconds, first_resolution_business_seconds, full_resolution_seconds, full_resolution_error_seconds,
    full_resolution_business_seconds, reopen_count, reopen_error_seconds, assignment_count, assignment_error_seconds,
    seconds_open, open_error_seconds, seconds_hold, hold_error_seconds, seconds_snoozed, snoozed_error_seconds, seconds_closed,
    closed_error_seconds, seconds_archived, archived_error_seconds, first_closing_seen, last_closing_seen) = row
    (excluded.message_count, excluded.inbound_count, excluded.authored_count, excluded.automatic_count, excluded.note_count,
    excluded.other_count, excluded.attachment_count, excluded.agents_involved, excluded.last_inbound_at,
    excluded.last_authored_at, excluded.is_outbound_initiated, excluded.is_one_touch, excluded.is_unreplied,
    excluded.first_response_seconds, excluded.first_response_business_seconds, excluded.first_responder_id,
    excluded.first_reply_seconds, excluded.first_reply_business_seconds, excluded.turns, excluded.waiting_since,
    excluded.total_wait_seconds, excluded.average_wait_seconds, excluded.longest_wait_seconds,
    excluded.total_wait_business_seconds, excluded.average_wait_business_seconds, excluded.longest_wait_business_seconds,
    excluded.first_closed_at, excluded.first_closed_error_seconds, excluded.last_closed_at, excluded.last_closed_error_seconds,
    excluded.first_resolution_seconds, excluded.first_resolution_error_seconds, excluded.first_resolution_business_seconds,
    excluded.full_resolution_seconds, excluded.full_resolution_error_seconds, excluded.full_resolution_business_seconds,
    excluded.reopen_count, excluded.reopen_error_seconds, excluded.assignment_count, excluded.assignment_error_seconds,
    excluded.seconds_open, excluded.open_error_seconds, excluded.seconds_hold, excluded.hold_error_seconds,
    excluded.seconds_snoozed, excluded.snoozed_error_seconds, excluded.seconds_closed, excluded.closed_error_seconds,
    excluded.seconds_archived, excluded.archived_error_seconds, excluded.first_closing_seen, excluded.last_closing_seen);
end
$$;
comment on function internal.keep_metrics is
  'Stores the turns and metrics of the given tickets. Both arrays have the same length and form pairs of account and ticket. Triggers call this function; analytics.recompute calls it by hand.';

create or replace function internal.keep_metrics_of_history() returns trigger
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
declare
  accounts text[];
  tickets text[];
begin
  if tg_op = 'INSERT' then
    if current_setting('shelfdesk.metrics', true) = 'with the ticket' then return null; end if;
    select array_agg(n.account_id), array_agg(n.ticket_id) into accounts, tickets from news n;
  elsif tg_op = 'UPDATE' then
    -- If the same statement also inserts the next row of history, the insert trigger updates the metrics.
    select array_agg(n.account_id), array_agg(n.ticket_id) into accounts, tickets
    from news n
    where n.valid_to is null or not exists (
      select from helpdesk.ticket_history h
      where h.account_id = n.account_id and h.ticket_id >= n.ticket_id and h.ticket_id <= n.ticket_id and h.valid_to is null
        and h.valid_from >= n.valid_to
      order by h.ticket_id, h.valid_from offset 0);
  else
    select array_agg(o.account_id), array_agg(o.ticket_id) into accounts, tickets from olds o;
  end if;
  if accounts is not null then perform internal.keep_metrics(accounts, tickets); end if;
  return null;
end
$$;
comment on function internal.keep_metrics_of_history is
  'Updates the metrics of tickets whose history was written. For new tickets, sync.begin_ticket_history stores the metrics.';

-- For messages and attachments. Runs after the whole statement: if a statement writes both tables, each trigger sees all rows.
create or replace function internal.keep_metrics_of_members() returns trigger
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
declare
  accounts text[];
  tickets text[];
begin
  if tg_op = 'INSERT' then
    select array_agg(c.account_id), array_agg(c.ticket_id) into accounts, tickets
    from (select distinct n.account_id, n.ticket_id from news n) c;
  elsif tg_op = 'DELETE' then
    select array_agg(c.account_id), array_agg(c.ticket_id) into accounts, tickets
    from (select distinct o.account_id, o.ticket_id from olds o) c;
  else
    select array_agg(c.account_id), array_agg(c.ticket_id) into accounts, tickets
    from (select o.account_id, o.ticket_id from olds o union select n.account_id, n.ticket_id from news n) c;
  end if;
  if accounts is null then return null; end if;
  -- A transaction that writes the messages of a ticket holds the lock of the ticket's row. If a message moves to another ticket,
  -- no transaction holds the lock of the former ticket. Without this lock, outdated metrics could overwrite newer ones.
  if cardinality(tickets) > 1 then
    perform from (
      select k.account_id, k.ticket_id from unnest(accounts, tickets) as k (account_id, ticket_id) order by k.account_id, k.ticket_id) k
    cross join lateral (
      select from helpdesk.tickets t
      where t.account_id = k.account_id and t.id >= k.ticket_id and t.id <= k.ticket_id
      order by t.id limit 1 for no key update) t;
  end if;
  perform internal.keep_metrics(accounts, tickets);
  return null;
end
$$;
comment on function internal.keep_metrics_of_members is
  'Updates the metrics of tickets whose messages or attachments were inserted, updated or deleted.';

create or replace function internal.keep_metrics_of_ticket() returns trigger
language plpgsql
as $$
begin
  if tg_op = 'DELETE' then
    delete from internal.stored_ticket_metrics s where s.account_id = old.account_id and s.ticket_id = old.id;
    delete from internal.stored_reply_turns s where s.account_id = old.account_id and s.ticket_id = old.id;
  else
    perform internal.keep_metrics(array[new.account_id], array[new.id]);
  end if;
  return null;
end
$$;
comment on function internal.keep_metrics_of_ticket is
  'Updates the metrics of a ticket after a change that ticket_history does not record. After the removal of a ticket row, deletes its metrics and turns.';

-- Works in batches, so that other writers wait only briefly. Locks the tickets, so that concurrent writes are not overwritten.
create or replace procedure analytics.recompute(account text default null, batch int default 500)
language plpgsql
as $$
declare
  one text;
  last text;
  ids text[];
  before int;
begin
  for one in
    select k.account_id from (
      select a.account_id from sync.accounts a union select q.account_id from internal.stored_recomputes q) k
    where recompute.account is null or k.account_id = recompute.account order by 1
  loop
    before := (select q.asked from internal.stored_recomputes q where q.account_id = one);
    last := '';
    loop
      select array_agg(k.id) into ids
      from (
        select t.id from helpdesk.tickets t where t.account_id = one and t.id > last
        order by t.id limit batch for no key update) k;
      exit when ids is null;
      perform internal.keep_metrics(array_fill(one, array[cardinality(ids)]), ids);
      last := ids[cardinality(ids)];
      commit;
    end loop;
    delete from internal.stored_recomputes q where q.account_id = one and q.asked = before;
    commit;
  end loop;
end
$$;
comment on procedure analytics.recompute is
  'Recomputes the turns and metrics of all tickets of an account (null: of all accounts), for example after a change of a calendar. Commits after each batch, so call the procedure outside of a transaction.';

-- PostgreSQL uses no statistics behind a security barrier. For an inner join of one account's rows with account_zones, PostgreSQL
-- estimates 1 row in 200, and therefore chooses slow nested loops. Every readable account has a zone, so a left join returns the
-- same rows and keeps the estimate. In tables without statistics, PostgreSQL assumes that 1 time in 200 is null, and that half of
-- the flags are true: hence the filter on answered_at instead of is_answered.
create or replace view analytics.agent_daily with (security_barrier) as
select d.account_id, d.day, d.user_id,
  sum(d.replies)::int as replies, sum(d.notes)::int as notes,
  sum(d.first_responses)::int as first_responses, sum(d.turns_answered)::int as turns_answered,
  sum(d.wait_seconds) as wait_seconds, sum(d.wait_business_seconds) as wait_business_seconds,
  count(distinct d.ticket_id)::int as tickets_touched
from (
  select k.account_id, (k.created_at at time zone z.time_zone)::date as day, k.user_id, k.ticket_id,
    (k.kind = 'authored')::int as replies, (k.kind = 'note')::int as notes,
    0 as first_responses, 0 as turns_answered, null::float8 as wait_seconds, null::float8 as wait_business_seconds
  from analytics.message_kinds k left join analytics.account_zones z using (account_id)
  where k.kind in ('authored', 'note') and k.user_id is not null and k.created_at is not null
  union all
  select r.account_id, (r.answered_at at time zone z.time_zone)::date, r.user_id, r.ticket_id,
    0, 0, r.is_first_response::int, 1, r.wait_seconds, r.wait_business_seconds
  from analytics.reply_turns r left join analytics.account_zones z using (account_id)
  where r.answered_at is not null) d
group by d.account_id, d.day, d.user_id;
comment on view analytics.agent_daily is
  'Work of each team member by day, according to the mirrored messages: one row for each day with a reply or a note.';
comment on column analytics.agent_daily.day is 'The day, in the time zone of analytics.account_zones.';
comment on column analytics.agent_daily.user_id is 'The team member; joins helpdesk.users.id.';
comment on column analytics.agent_daily.replies is 'Number of replies to customers.';
comment on column analytics.agent_daily.notes is 'Number of private notes.';
comment on column analytics.agent_daily.first_responses is
  'Number of replies that were the first response of their ticket.';
comment on column analytics.agent_daily.turns_answered is
  'Number of replies that ended a customer''s wait: see analytics.reply_turns.';
comment on column analytics.agent_daily.wait_seconds is
  'Total wait of customers before these replies; null if no reply ended a wait.';
comment on column analytics.agent_daily.wait_business_seconds is 'wait_seconds in business hours; null without a calendar.';
comment on column analytics.agent_daily.tickets_touched is
  'Number of tickets with a reply or a note by this team member.';

create or replace view analytics.arrivals_hourly with (security_barrier) as
select b.account_id, b.hour,
  extract(isodow from b.hour at time zone b.time_zone)::int as local_weekday,
  extract(hour from b.hour at time zone b.time_zone)::int as local_hour,
  sum(b.tickets)::int as tickets_created, sum(b.messages)::int as inbound_messages
from (
  select t.account_id, z.time_zone, date_trunc('hour', t.created_at, z.time_zone) as hour, 1 as tickets, 0 as messages
  from helpdesk.tickets t left join analytics.account_zones z using (account_id)
  where t.created_at is not null
  union all
  select k.account_id, z.time_zone, date_trunc('hour', k.created_at, z.time_zone), 0, 1
  from analytics.message_kinds k left join analytics.account_zones z using (account_id)
  where k.kind = 'inbound' and k.created_at is not null) b
where b.account_id = any (array(select account_id from sync.readable_accounts))
group by b.account_id, b.hour, b.time_zone;
comment on view analytics.arrivals_hourly is
  'New tickets and customer messages by hour, including spam, trash and deleted tickets. Hours without either have no row. An hour that daylight saving time repeats has two rows.';
comment on column analytics.arrivals_hourly.hour is 'Start of the hour, by the clock of analytics.account_zones.';
comment on column analytics.arrivals_hourly.local_weekday is 'Local day of the week: 1 Monday to 7 Sunday.';
comment on column analytics.arrivals_hourly.local_hour is 'Local hour of the day, from 0.';
comment on column analytics.arrivals_hourly.tickets_created is
  'Number of tickets created in this hour by customers or by the team.';
comment on column analytics.arrivals_hourly.inbound_messages is
  'Number of customer messages in this hour, as far as messages are mirrored.';

create or replace view analytics.customer_summary with (security_barrier) as
select coalesce(c.account_id, t.account_id) as account_id, coalesce(c.id, t.customer_id) as customer_id,
  c.id is not null and c._deleted_at is null as is_mirrored,
  coalesce(t.tickets, 0)::int as tickets, coalesce(t.open_tickets, 0)::int as open_tickets,
  coalesce(t.waiting_tickets, 0)::int as waiting_tickets, t.waiting_since,
  t.first_ticket_at, t.last_ticket_at,
  coalesce(t.inbound_messages, 0)::int as inbound_messages, coalesce(t.replies, 0)::int as replies,
  t.last_inbound_at, t.average_first_response_seconds, coalesce(t.reopens, 0)::int as reopens
from (
  select * from helpdesk.customers where account_id = any (array(select account_id from sync.readable_accounts))) c
full join (
  select m.account_id, m.customer_id,
    count(*) as tickets,
    count(*) filter (where analytics.is_backlog(m.state, m.spam, m.trash)) as open_tickets,
    count(m.waiting_since) filter (where analytics.is_backlog(m.state, m.spam, m.trash)) as waiting_tickets,
    min(m.waiting_since) filter (where analytics.is_backlog(m.state, m.spam, m.trash)) as waiting_since,
    min(m.created_at) as first_ticket_at, max(m.created_at) as last_ticket_at,
    sum(m.inbound_count) as inbound_messages, sum(m.authored_count) as replies, max(m.last_inbound_at) as last_inbound_at,
    avg(m.first_response_seconds) as average_first_response_seconds, sum(m.reopen_count) as reopens
  from analytics.ticket_metrics m
  where m.customer_id is not null and m.deleted_at is null and m.spam is not true and m.trash is not true
  group by m.account_id, m.customer_id) t on t.account_id = c.account_id and t.customer_id = c.id;
comment on view analytics.customer_summary is
  'Customers and their tickets, one row each. Includes customers without tickets, and customers known only from a ticket. Spam, trash and deleted tickets do not count.';
comment on column analytics.customer_summary.customer_id is 'The customer; joins helpdesk.customers.id.';
comment on column analytics.customer_summary.is_mirrored is
  'True if the customer is mirrored, and is not deleted at the source.';
comment on column analytics.customer_summary.tickets is 'Number of tickets of the customer.';
comment on column analytics.customer_summary.open_tickets is
  'Number of these tickets that are still open work, neither closed nor archived: see analytics.is_backlog.';
comment on column analytics.customer_summary.waiting_tickets is
  'Number of open tickets in which the customer waits for a reply.';
comment on column analytics.customer_summary.waiting_since is
  'Start of the longest current wait in these tickets; null if the customer waits in none.';
comment on column analytics.customer_summary.first_ticket_at is 'When the first ticket of the customer was created.';
comment on column analytics.customer_summary.last_ticket_at is 'When the last ticket of the customer was created.';
comment on column analytics.customer_summary.inbound_messages is 'Number of customer messages in these tickets.';
comment on column analytics.customer_summary.replies is 'Number of team replies in these tickets.';
comment on column analytics.customer_summary.last_inbound_at is
  'When the last customer message in these tickets arrived.';
comment on column analytics.customer_summary.average_first_response_seconds is
  'Average of first_response_seconds over the tickets that have a first response.';
comment on column analytics.customer_summary.reopens is 'Number of observed reopenings of these tickets.';

create trigger keep_metrics_inserted after insert on helpdesk.messages referencing new table as news for each statement execute function internal.keep_metrics_of_members();
create trigger keep_metrics_updated after update on helpdesk.messages referencing old table as olds new table as news for each statement execute function internal.keep_metrics_of_members();
create trigger keep_metrics_deleted after delete on helpdesk.messages referencing old table as olds for each statement execute function internal.keep_metrics_of_members();
create trigger keep_metrics_inserted after insert on helpdesk.attachments referencing new table as news for each statement execute function internal.keep_metrics_of_members();
create trigger keep_metrics_updated after update on helpdesk.attachments referencing old table as olds new table as news for each statement execute function internal.keep_metrics_of_members();
create trigger keep_metrics_deleted after delete on helpdesk.attachments referencing old table as olds for each statement execute function internal.keep_metrics_of_members();
create trigger keep_metrics_inserted after insert on helpdesk.ticket_history referencing new table as news for each statement execute function internal.keep_metrics_of_history();
create trigger keep_metrics_updated after update on helpdesk.ticket_history referencing old table as olds new table as news for each statement execute function internal.keep_metrics_of_history();
create trigger keep_metrics_deleted after delete on helpdesk.ticket_history referencing old table as olds for each statement execute function internal.keep_metrics_of_history();
create trigger keep_metrics after update on helpdesk.tickets for each row when (((old.created_at is distinct from new.created_at) or ((new._deleted_at IS not NULL) and (old.inbox_id is distinct from new.inbox_id)))) execute function internal.keep_metrics_of_ticket();
create trigger keep_metrics_removed after delete on helpdesk.tickets for each row execute function internal.keep_metrics_of_ticket();

insert into analytics.metric_definitions (relation, name, unit, kind, formula, other_vendors) values
  ('ticket_metrics', 'first_response_seconds', 'seconds', 'exact', 'First authored message after the first inbound one − the first inbound one. Null while there is none, and if an authored message came before the first inbound one.', 'Zendesk (first reply time): creation of the ticket to the first public comment of an agent. Freshdesk: creation to the first public reply of an agent. Help Scout: the customer''s first message to the first reply of a user, automatic replies left out. Front: the first inbound message to the first reply of a teammate. Intercom: the customer''s first message, or the hand-over by a bot, to the first reply of a teammate.'),
  ('ticket_metrics', 'first_response_business_seconds', 'seconds', 'exact', 'business_seconds of the calendar of the ticket''s inbox over the same span as first_response_seconds. Null without a calendar.', 'Zendesk, Freshdesk, Help Scout, Front and Intercom have it as "in business (office) hours", by the schedule of the account, the group or the inbox.'),
  ('ticket_metrics', 'first_responder_id', 'id', 'exact', 'user_id of the message that first_response_seconds ends with.', 'Most name the assignee instead, who may be somebody else.'),
  ('ticket_metrics', 'first_reply_seconds', 'seconds', 'exact', 'First authored message − created_at of the ticket. If the team wrote first: second authored message − created_at. Null if there is no such message.', 'Zendesk: this is its first reply time; of tickets that an agent created it counts the second public comment too. Freshdesk: as this, of tickets that customers created.'),
  ('ticket_metrics', 'first_reply_business_seconds', 'seconds', 'exact', 'business_seconds over the same span as first_reply_seconds. Null without a calendar.', null),
  ('ticket_metrics', 'turns', 'turns', 'exact', 'How many bursts of inbound messages were followed by an authored one. Inbound messages without an authored one between them are one burst.', 'Help Scout (replies to resolve), Front (reply time) and Intercom count each reply that answers a customer; Zendesk counts public agent comments (replies), answered or not.'),
  ('ticket_metrics', 'waiting_since', 'time', 'exact', 'First inbound message after the last authored one; null if there is none. It says nothing of the state: a closed ticket may wait.', 'Intercom (waiting since) and Front (awaiting reply) as here. Zendesk has requester wait time, which goes by states.'),
  ('ticket_metrics', 'total_wait_seconds', 'seconds', 'exact', 'Sum over answered turns: authored message − first inbound message of the burst.', 'Zendesk (requester wait time): time in the states new, open and on hold, regardless of the last author.'),
  ('ticket_metrics', 'average_wait_seconds', 'seconds', 'exact', 'total_wait_seconds / answered turns.', 'Help Scout (response time), Front (reply time), Intercom (time to reply), Freshdesk (average response time): as here, over replies instead of tickets.'),
  ('ticket_metrics', 'longest_wait_seconds', 'seconds', 'exact', 'The longest of the waits in total_wait_seconds.', null),
  ('ticket_metrics', 'total_wait_business_seconds', 'seconds', 'exact', 'The waits of total_wait_seconds, each in business_seconds. Null without a calendar.', null),
  ('ticket_metrics', 'average_wait_business_seconds', 'seconds', 'exact', 'total_wait_business_seconds / answered turns. Null without a calendar.', null),
  ('ticket_metrics', 'longest_wait_business_seconds', 'seconds', 'exact', 'The longest of the waits in total_wait_business_seconds. Null without a calendar.', null),
  ('ticket_metrics', 'is_outbound_initiated', 'flag', 'exact', 'The first message that is inbound or authored is authored. Notes and automatic replies are passed over.', 'Front (outbound conversation) and Intercom (admin initiated) as here. Zendesk: the submitter of the ticket was an agent.'),
  ('ticket_metrics', 'is_one_touch', 'flag', 'exact', 'Exactly one authored message, an inbound one before it, and none after it.', 'Zendesk (one-touch ticket): solved, and at most one public comment of an agent. Help Scout (resolved on first reply) and Freshdesk (first contact resolution): resolved after one reply. Here the state does not matter: take is_one_touch together with first_closed_at.'),
  ('ticket_metrics', 'is_unreplied', 'flag', 'exact', 'At least one inbound message, and no authored one at all.', 'Zendesk (unreplied tickets): no public comment of an agent yet.'),
  ('ticket_metrics', 'message_count', 'messages', 'exact', 'Messages of the ticket of any kind. One that the source no longer shows does not count.', null),
  ('ticket_metrics', 'inbound_count', 'messages', 'exact', 'Messages of type reply and direction in.', null),
  ('ticket_metrics', 'authored_count', 'messages', 'exact', 'Messages of type reply and direction out with a user_id.', 'Zendesk (replies): public comments of agents.'),
  ('ticket_metrics', 'automatic_count', 'messages', 'exact', 'Messages of type reply and direction out without a user_id.', null),
  ('ticket_metrics', 'note_count', 'messages', 'exact', 'Messages of type note, with or without a user_id.', 'Zendesk: internal comments.'),
  ('ticket_metrics', 'other_count', 'messages', 'exact', 'Messages that are none of inbound, authored, automatic or note.', null),
  ('ticket_metrics', 'attachment_count', 'files', 'exact', 'Attachments of all messages of the ticket.', null),
  ('ticket_metrics', 'agents_involved', 'users', 'exact', 'Different user_ids of authored messages and notes.', 'Zendesk counts assignees (assignee stations) instead.'),
  ('ticket_metrics', 'last_inbound_at', 'time', 'exact', 'Time of the last inbound message.', 'Zendesk: requester updated at.'),
  ('ticket_metrics', 'last_authored_at', 'time', 'exact', 'Time of the last authored message.', 'Zendesk: assignee updated at, which counts other changes too.'),
  ('ticket_metrics', 'last_closed_error_seconds', 'seconds', 'observed', 'valid_from − change_after of the row that last_closed_at comes from.', null),
  ('ticket_metrics', 'first_resolution_error_seconds', 'seconds', 'observed', 'first_closed_error_seconds.', null),
  ('ticket_metrics', 'first_resolution_business_seconds', 'seconds', 'observed', 'business_seconds from created_at to first_closed_at. Null without a calendar.', null),
  ('ticket_metrics', 'full_resolution_error_seconds', 'seconds', 'observed', 'last_closed_error_seconds while the state is closed or archived; null otherwise.', null),
  ('ticket_metrics', 'full_resolution_business_seconds', 'seconds', 'observed', 'business_seconds from created_at to last_closed_at, while resolved. Null without a calendar.', null),
  ('ticket_metrics', 'reopen_error_seconds', 'seconds', 'observed', 'Sum of valid_from − change_after over all rows of the ticket''s history: the total time in which the changes may have happened. Changes that were undone between two reads left no trace.', null),
  ('ticket_metrics', 'assignment_count', 'times', 'observed', 'Number of rows whose user differs from the user of the row before. The first row counts if it has a user.', 'Zendesk (assignee stations): changes of the assignee, told by the event.'),
  ('ticket_metrics', 'assignment_error_seconds', 'seconds', 'observed', 'Like reopen_error_seconds.', null),
  ('ticket_metrics', 'hold_error_seconds', 'seconds', 'observed', 'Like open_error_seconds, for seconds_hold.', null),
  ('ticket_metrics', 'snoozed_error_seconds', 'seconds', 'observed', 'Like open_error_seconds, for seconds_snoozed.', null),
  ('ticket_metrics', 'closed_error_seconds', 'seconds', 'observed', 'Like open_error_seconds, for seconds_closed.', null),
  ('ticket_metrics', 'archived_error_seconds', 'seconds', 'observed', 'Like open_error_seconds, for seconds_archived.', null),
  ('ticket_metrics', 'messages_complete', 'flag', 'exact', 'The messages were read when the ticket was as new as it is here (_messages_as_of ≥ updated_at), nothing of it is in sync.rejects, and it is not deleted.', null),
  ('reply_turns', 'wait_seconds', 'seconds', 'exact', 'answered_at − waiting_since.', 'Help Scout (response time), Front (reply time), Intercom (time to reply).'),
  ('reply_turns', 'wait_business_seconds', 'seconds', 'exact', 'business_seconds from waiting_since to answered_at. Null without a calendar.', null),
  ('reply_turns', 'inbound_messages', 'messages', 'exact', 'Inbound messages of the burst.', null),
  ('agent_daily', 'replies', 'messages', 'exact', 'Authored messages of the day.', 'Help Scout (replies sent), Front (messages sent), Zendesk (public comments).'),
  ('agent_daily', 'notes', 'messages', 'exact', 'Notes of the day that have a user_id.', null),
  ('agent_daily', 'first_responses', 'messages', 'exact', 'Authored messages of the day that were the first response of their ticket.', null),
  ('agent_daily', 'turns_answered', 'messages', 'exact', 'Authored messages of the day that ended a turn.', null),
  ('agent_daily', 'wait_seconds', 'seconds', 'exact', 'Sum of wait_seconds of these turns.', null),
  ('agent_daily', 'wait_business_seconds', 'seconds', 'exact', 'Sum of wait_business_seconds of these turns. Null without a calendar.', null),
  ('agent_daily', 'tickets_touched', 'tickets', 'exact', 'Different tickets with an authored message or a note of that day.', 'Help Scout: conversations helped, customers helped. Handle time is not known to the source.'),
  ('arrivals_hourly', 'tickets_created', 'tickets', 'exact', 'Tickets whose created_at lies in the hour.', null),
  ('arrivals_hourly', 'inbound_messages', 'messages', 'exact', 'Inbound messages whose created_at lies in the hour.', null),
  ('customer_summary', 'tickets', 'tickets', 'exact', 'Tickets of the customer that are not deleted, spam or trash.', null),
  ('customer_summary', 'open_tickets', 'tickets', 'exact', 'Of these, those that are neither closed nor archived now: open, on hold, snoozed, or in a state that is new. As backlog_daily counts.', null),
  ('customer_summary', 'waiting_tickets', 'tickets', 'exact', 'Of open_tickets, those with a waiting_since.', null),
  ('customer_summary', 'inbound_messages', 'messages', 'exact', 'Sum of inbound_count of the tickets.', null),
  ('customer_summary', 'replies', 'messages', 'exact', 'Sum of authored_count of the tickets.', null),
  ('customer_summary', 'average_first_response_seconds', 'seconds', 'exact', 'Average of first_response_seconds of the tickets that have one.', null),
  ('customer_summary', 'reopens', 'times', 'observed', 'Sum of reopen_count of the tickets; each has its reopen_error_seconds.', null),
  ('backlog_daily', 'tickets', 'tickets', 'observed', 'At the end of each local day: tickets that were neither closed nor archived, neither spam nor trash, and not deleted. State null counts existing tickets whose state at that time is unknown; they may have been closed.', 'Zendesk (backlog, unsolved tickets): the same, of states new, open, pending and on hold.'),
  ('shelf_events', 'event', 'kind', 'observed', 'From one row of books.shelf_volume_history to the next: no place to a place is added, place to place moved, place to none removed; a first row that has a place and no change_after is found.', null),
  ('shelf_events', 'at', 'time', 'observed', 'valid_from of that row: upper bound of the time of the event. A volume that came and went between two reads is missing.', null),
  ('shelf_events', 'change_after', 'time', 'observed', 'Lower bound of the time of the event; null if the time before is unknown.', null),
  ('reply_turns', 'is_answered', 'flag', 'exact', 'There is an authored message after the burst.', null),
  ('reply_turns', 'is_first_response', 'flag', 'exact', 'It is answered, and no authored message came before the burst.', null),
  ('ticket_metrics', 'reopen_count', 'times', 'observed', 'How often closed or archived was followed by another state, since the ticket was first seen.', 'Zendesk (reopens) and Freshdesk: solved back to open, told by the event. Help Scout: closed conversations that a customer answers.'),
  ('ticket_metrics', 'seconds_open', 'seconds', 'observed', 'Sum of valid_to − valid_from over times in the state open that have ended. Times before valid_from of the first row are not in it: reopen_error_seconds has how long they were.', 'Zendesk (agent wait time, new and open minutes): by states as well, exactly.'),
  ('ticket_metrics', 'seconds_hold', 'seconds', 'observed', 'Sum of valid_to − valid_from over times in the state hold that have ended. Times before valid_from of the first row are not in it: reopen_error_seconds has how long they were.', 'Zendesk: on-hold time.'),
  ('customer_summary', 'is_mirrored', 'flag', 'exact', 'The customer has a row in helpdesk.customers, and is not deleted there.', null),
  ('customer_summary', 'waiting_since', 'time', 'exact', 'The earliest waiting_since of waiting_tickets.', 'Intercom (waiting since), of a conversation.'),
  ('ticket_metrics', 'first_closed_error_seconds', 'seconds', 'observed', 'valid_from − change_after of the row that first_closed_at comes from. Where change_by of that row is set, it may have happened as late as that.', null),
  ('ticket_state_intervals', 'error_seconds', 'seconds', 'observed', 'valid_from − change_after. Where change_by is set, the change may have happened as late as that.', null),
  ('backlog_daily', 'uncertain', 'tickets', 'observed', 'By how many the true number may differ: changes, into this group or out of it, that may have happened on either side of that midnight, since it lies between change_after and valid_from, or change_by where that is later (of a deletion between deleted_after and valid_to); and tickets of which nothing is known. Tickets that are not among "tickets" count too, so it may be more than these. What was changed and changed back between two readings does not count.', null),
  ('tickets_as_of', 'certain', 'flag', 'observed', 'True if the time lies at or after valid_from, and at or after change_by where that is set, and before change_after of the row that follows, before deleted_after of a deletion, or in a row that has not ended. False also where the ticket was there, and its history begins later. As far as changes were seen: what was changed and changed back between two readings left no trace.', null),
  ('ticket_metrics', 'first_closed_at', 'time', 'observed', 'valid_from of the first time in which the state was closed or archived. It happened at most first_closed_error_seconds before. If that is the first row of the ticket (first_closing_seen is false), valid_from is updated_at when the ticket was first seen: only an upper bound. A closing that was undone before the ticket was first seen, or between two readings, left no trace.', 'Zendesk (initially solved at), Freshdesk (resolved at): told by the event itself, exactly.'),
  ('ticket_metrics', 'last_closed_at', 'time', 'observed', 'valid_from of the last time at which a state other than closed or archived turned into one of them, or at which the ticket was first seen in one of them (last_closing_seen is false): then valid_from is updated_at when it was first seen, only an upper bound. archived after closed is one such time, that of closed.', 'Zendesk (solved at), Help Scout (closed at).'),
  ('ticket_metrics', 'first_resolution_seconds', 'seconds', 'observed', 'first_closed_at − created_at of the ticket. An upper bound where first_closing_seen is false.', 'Zendesk (first resolution time): creation to the first solved. Intercom (time to first close): from the first message.'),
  ('ticket_metrics', 'full_resolution_seconds', 'seconds', 'observed', 'last_closed_at − created_at while the state is closed or archived; null otherwise. An upper bound where last_closing_seen is false.', 'Zendesk (full resolution time): creation to the last solved. Freshdesk (resolution time): the same without times in which its clock stands. Help Scout (resolution time): the customer''s first message to the last close. Front (resolution time): the first inbound message to the last archiving.'),
  ('ticket_metrics', 'seconds_snoozed', 'seconds', 'observed', 'Sum of valid_to − valid_from over times in the state snoozed that have ended. Times before valid_from of the first row are not in it: reopen_error_seconds has how long they were.', null),
  ('ticket_metrics', 'seconds_closed', 'seconds', 'observed', 'Sum of valid_to − valid_from over times in the state closed that have ended. Times before valid_from of the first row are not in it: reopen_error_seconds has how long they were.', null),
  ('ticket_metrics', 'seconds_archived', 'seconds', 'observed', 'Sum of valid_to − valid_from over times in the state archived that have ended. Times before valid_from of the first row are not in it: reopen_error_seconds has how long they were.', null),
  ('ticket_metrics', 'open_error_seconds', 'seconds', 'observed', 'Over the times that seconds_open adds up, the sum of valid_from − change_after of their begins and of their ends. Other times before the first row of the ticket are not in it.', null),
  ('ticket_metrics', 'first_closing_seen', 'flag', 'exact', 'The time of first_closed_at is not the first one of the ticket: it was seen in another state before.', null),
  ('ticket_metrics', 'last_closing_seen', 'flag', 'exact', 'The time of last_closed_at is not the first one of the ticket: it was seen in another state before.', null);
-- Completeness for reports, and integrity checks.

create or replace function internal.stream_completeness()
returns table (account_id text, stream text, complete_through timestamptz, gaps bigint, waiting bigint, open_rejects bigint,
  deletes_checked_at timestamptz, state text, source text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.account_id, s.stream, s.complete_through, s.gaps, s.waiting, s.open_rejects, s.deletes_checked_at, s.state, s.source
  from (select case current_setting('role') when 'none' then session_user else current_setting('role')::name end as name) asks
  cross join sync.status s
  where has_table_privilege(asks.name, 'sync.readers', 'select') or exists (
    select from sync.readers r
    where r.role_name = asks.name and (r.accounts is null or s.account_id = any (r.accounts)))
$$;
comment on function internal.stream_completeness is 'Rows of analytics.completeness, with the rights of the owner.';

create or replace view analytics.completeness with (security_barrier) as
select c.account_id, c.stream, c.complete_through, c.gaps, c.waiting, c.open_rejects, c.deletes_checked_at, c.state,
  c.source
from internal.stream_completeness() c
where c.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.completeness is
  'Completeness of each stream of each account, for reports. An extract of sync.status.';
comment on column analytics.completeness.account_id is 'The operator''s name for the mirrored account.';
comment on column analytics.completeness.complete_through is
  'The table is complete up to this time, except for its open rejects; null if it was never read.';
comment on column analytics.completeness.gaps is 'Number of unread ranges below the high-water mark; see sync.gaps.';
comment on column analytics.completeness.waiting is
  'Tickets with pending messages; volumes with a pending fetch by id.';
comment on column analytics.completeness.open_rejects is
  'Number of records that could not be stored; see sync.rejects.';
comment on column analytics.completeness.deletes_checked_at is
  'None of the rows shown here had been deleted at the source before this time; null if the stream was never swept whole. Unknown for messages; see sync.ticket_completeness.';
comment on column analytics.completeness.state is
  'fresh; catching_up (within its target, but history or details are pending, the first load is running, or the daily quota is used up); stale (behind its target); failing (the last finished run failed); never_synced; paused (by a person, or because the stream that it depends on is paused).';

create or replace view analytics.integrity with (security_barrier) as
select c.check_name, a.account_id, c.found, c.means
from sync.readable_accounts a
cross join lateral (values
  ('messages without their ticket',
    (select count(*) from helpdesk.messages m where m.account_id = a.account_id
      and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and t.id = m.ticket_id)),
    'Messages come with their ticket: there should be none.'),
  ('attachments without their message',
    (select count(*) from helpdesk.attachments f where f.account_id = a.account_id
      and not exists (select from helpdesk.messages m where m.account_id = a.account_id and m.id = f.message_id)),
    'Attachments come with their message: there should be none.'),
  ('tickets without their customer',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t.customer_id is not null
      and not exists (select from helpdesk.customers c where c.account_id = a.account_id and c.id = t.customer_id)),
    'The customer has not been read yet, or the source had already deleted it.'),
  ('contacts without their customer',
    (select count(*) from helpdesk.contacts k where k.account_id = a.account_id
      and not exists (select from helpdesk.customers c where c.account_id = a.account_id and c.id = k.customer_id)),
    'Contacts come with their customer: there should be none.'),
  ('tickets of a user who is not here',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t.user_id is not null
      and not exists (select from helpdesk.users u where u.account_id = a.account_id and u.id = t.user_id)),
    'The list of users does not show who has left before the mirror began, or they have not been read yet.'),
  ('messages of a user who is not here',
    (select count(*) from helpdesk.messages m where m.account_id = a.account_id and m.user_id is not null
      and not exists (select from helpdesk.users u where u.account_id = a.account_id and u.id = m.user_id)),
    'The list of users does not show who has left before the mirror began, or they have not been read yet.'),
  ('tickets of an inbox that is not here',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t.inbox_id is not null
      and not exists (select from helpdesk.inboxes i where i.account_id = a.account_id and i.id = t.inbox_id)),
    'Inboxes are written with the first ticket that mentions them: there should be none.'),
  ('labels of tickets that are not here',
    (select count(*) from helpdesk.ticket_labels l where l.account_id = a.account_id
      and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and t.id = l.ticket_id)),
    'They are written with the ticket: there should be none.'),
  ('labels of tickets without the label',
    (select count(*) from helpdesk.ticket_labels l where l.account_id = a.account_id
      and not exists (select from helpdesk.labels n where n.account_id = a.account_id and n.id = l.label_id)),
    'Labels are written with the first ticket that mentions them: there should be none.'),
  ('labels that tickets and ticket_labels tell differently',
    (select count(*) from (
      (select t.id, l.label_id from helpdesk.tickets t cross join unnest(t.label_ids) as l (label_id)
       where t.account_id = a.account_id and t._deleted_at is null
       except select l.ticket_id, l.label_id from helpdesk.ticket_labels l where l.account_id = a.account_id)
      union all
      (select l.ticket_id, l.label_id from helpdesk.ticket_labels l where l.account_id = a.account_id
       except select t.id, l.label_id from helpdesk.tickets t cross join unnest(t.label_ids) as l (label_id)
       where t.account_id = a.account_id and t._deleted_at is null)) d),
    'Both are written in one transaction: there should be none.'),
  ('tickets without history',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id
      and not exists (select from helpdesk.ticket_history h where h.account_id = a.account_id and h.ticket_id = t.id)),
    'Every ticket has a row of history from its first commit on: there should be none.'),
  ('tickets whose history tells otherwise',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t._deleted_at is null
      and not exists (
        select from helpdesk.ticket_history h
        where h.account_id = a.account_id and h.ticket_id = t.id and h.valid_to is null
          and (h.state, h.user_id, h.inbox_id, h.spam, h.trash) is not distinct from (t.state, t.user_id, t.inbox_id, t.spam, t.trash)
          and sync.same_set(h.label_ids, t.label_ids))),
    'The open row of its history is what the ticket is now: there should be none.'),
  ('history of tickets that are not here',
    (select count(*) from helpdesk.ticket_history h where h.account_id = a.account_id
      and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and t.id = h.ticket_id)),
    'History goes with the row of its ticket: there should be none.'),
  ('history that overlaps',
    (select count(*) from (
      select h.valid_from < lag(coalesce(h.valid_to, 'infinity')) over (partition by h.ticket_id order by h.valid_from) as overlaps
      from helpdesk.ticket_history h where h.account_id = a.account_id) o
     where o.overlaps),
    'A ticket is one thing at a time: there should be none.'),
  ('tickets without metrics',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id
      and not exists (select from internal.stored_ticket_metrics s where s.account_id = a.account_id and s.ticket_id = t.id)),
    'Metrics are written with the ticket: there should be none. If there are, call analytics.recompute.'),
  ('business times that are not worked out anew',
    (select count(*) from internal.stored_recomputes q where q.account_id = a.account_id),
    'A calendar has changed, and analytics.recompute has not gone through since: business times of some tickets are those of before. Call it, or run npx shelfdesk calendar set again.'),
  ('metrics of tickets that are not here',
    (select count(*) from internal.stored_ticket_metrics s where s.account_id = a.account_id
      and not exists (select from helpdesk.tickets t where t.account_id = a.account_id and t.id = s.ticket_id)),
    'Metrics go with the row of their ticket: there should be none.'),
  ('tickets whose messages are not complete',
    (select count(*) from helpdesk.tickets t where t.account_id = a.account_id and t._deleted_at is null
      and (t._messages_as_of is null or t._messages_as_of < t.updated_at or exists (
        select from sync.rejects r
        where r.account_id = a.account_id and r.stream_key in ('helpdesk.tickets', 'helpdesk.messages') and r.ask_id = t.id and r.cleared_at is null))),
    'Their messages are pending, or a part of them was rejected: ticket_metrics.messages_complete is false.'),
  ('volumes on a shelf that are not here',
    (select count(*) from books.shelf_volumes v where v.account_id = a.account_id
      and not exists (select from books.volumes b where b.account_id = a.account_id and b.id = v.volume_id)),
    'Volumes are written with their shelf: there should be none.'),
  ('volumes on a shelf that is not here',
    (select count(*) from books.shelf_volumes v where v.account_id = a.account_id
      and not exists (select from books.shelves s where s.account_id = a.account_id and s.owner_id = v.owner_id and s.id = v.shelf_id)),
    'A shelf is written before what is on it: there should be none.')
) c (check_name, found, means);
comment on view analytics.integrity is
  'Integrity checks: each counts inconsistent rows per account. The view reads all tables.';
comment on column analytics.integrity.check_name is 'Name of the check.';
comment on column analytics.integrity.account_id is 'The operator''s name for the mirrored account.';
comment on column analytics.integrity.found is 'Number of findings.';
comment on column analytics.integrity.means is 'Meaning of the check, and whether findings are allowed.';
-- Search in messages, subjects and addresses.

create or replace function helpdesk.search_query(query text) returns tsquery
language sql immutable parallel safe
begin atomic
  select websearch_to_tsquery('simple', regexp_replace(
    replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(query, '_', ' '), '.', ' '), '/', ' '), ':', ' '), '@', ' '), '&', ' '), '<', ' '), '~', ' '), '+', ' '), '#', ' '), '%', ' '), '?', ' '), '=', ' '), '([^\s"])-+', '\1 ', 'g'));
end;
comment on function helpdesk.search_query is
  'Converts the text of a search box for helpdesk.search_words: all words, "words in this order", one or the other, -without this one.';

create or replace function helpdesk.search_messages(query text, at_most int default 20)
returns table (
  account_id text, message_id text, ticket_id text, number bigint, subject text, created_at timestamptz, type text, direction text, excerpt text)
language plpgsql stable security definer rows 20
set search_path = pg_catalog, pg_temp
-- Without statistics PostgreSQL knows neither how rare a word is nor that an index returns the newest messages first.
set enable_seqscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
  asked constant tsquery := helpdesk.search_query(query);
  -- Position of the first matching word, for the excerpt.
  word constant text := lower((regexp_match(asked::text, '''((?:[^'']|'''')+)'''))[1]);
  wanted constant int := greatest(coalesce(at_most, 20), 0);
  accounts constant text[] := sync.searched_accounts('helpdesk.messages');
  account text;
  newest timestamptz;
  older timestamptz;
  since timestamp;
  step interval;
  found text[];
  found_accounts text[] := '{}';
  found_ids text[] := '{}';
begin
  if asked is null or numnode(asked) = 0 or wanted = 0 then return; end if;
  foreach account in array accounts loop
    -- Common words are found among the newest messages, rare words by the index alone. For words in between, each
    -- attempt covers a range eight times as long. A hundred messages dated in the future do no harm.
    found := null;
    select m.created_at into newest from helpdesk.messages m
    where m.account_id = account and m.created_at is not null order by m.created_at desc offset 100 limit 1;
    select m.created_at into older from helpdesk.messages m
    where m.account_id = account and m.created_at is not null order by m.created_at desc offset 200 limit 1;
    if older is not null then
      step := greatest(newest - older, interval '1 hour');
      since := date_trunc('hour', newest at time zone 'UTC');
      for round in 1..4 loop
        found := array(
          select f.id from (
            -- The order is a separate step: an index for the order alone would read all texts.
            select m.id, m.created_at from helpdesk.messages m
            where m.account_id = account and date_trunc('hour', m.created_at at time zone 'UTC') >= since
              and helpdesk.search_words(m.body_text) @@ asked
            offset 0) f
          order by f.created_at desc, f.id limit wanted);
        exit when cardinality(found) = wanted;
        found := null;
        -- With few messages, eight times the range, four times over, would reach before the beginning of time.
        step := least(step * 8, interval '500 years');
        since := since - step;
      end loop;
    end if;
    if found is null then
      found := array(
        select f.id from (
          select m.id, m.created_at from helpdesk.messages m
          where m.account_id = account and helpdesk.search_words(m.body_text) @@ asked
          offset 0) f
        order by f.created_at desc nulls last, f.id limit wanted);
    end if;
    found_ids := found_ids || found;
    found_accounts := found_accounts || array_fill(account, array[cardinality(found)]);
  end loop;
  return query
    select m.account_id, m.id, m.ticket_id, t.number, t.subject, m.created_at, m.type, m.direction,
      btrim(regexp_replace(substr(left(m.body_text, 100000), greatest(position(word in lower(left(m.body_text, 100000))) - 60, 1), 160), '\s+', ' ', 'g'))
    from unnest(found_accounts, found_ids) f (account_id, id)
    join helpdesk.messages m on m.account_id = f.account_id and m.id = f.id
    left join helpdesk.tickets t on t.account_id = m.account_id and t.id = m.ticket_id
    order by m.created_at desc nulls last, m.account_id, m.id
    limit wanted;
end
$$;
comment on function helpdesk.search_messages is
  'Messages that match helpdesk.search_query, newest first, in all accounts that the caller may read. Includes messages of deleted tickets.';

-- Comparing with every text takes seconds. Two typos leave at least one third of a text unchanged, so candidates must
-- contain one of the thirds. The index finds them by groups of three adjacent letters.
create or replace function sync.thirds(value text) returns text[]
language sql immutable parallel safe
begin atomic
  select coalesce(array_agg('%' || regexp_replace(t.piece, '([\\%_])', '\\\1', 'g') || '%'), '{}')
  from (
    select distinct case when length(value) < 9 then value
      else substr(value, 1 + (i * length(value)) / 3, ((i + 1) * length(value)) / 3 - (i * length(value)) / 3) end as piece
    from generate_series(0, 2) i) t
  where t.piece ~ '[[:alnum:]]{3}';
end;
comment on function sync.thirds is
  'Thirds of a text as LIKE patterns: similar texts contain at least one of them. Short texts are one pattern. Skips patterns without three adjacent letters or digits, because the index does not contain them.';

create or replace function helpdesk.similar_subjects(like_this text, at_most int default 20)
returns table (account_id text, ticket_id text, number bigint, subject text, state text, created_at timestamptz, similarity real)
language plpgsql stable security definer rows 20
set search_path = pg_catalog, pg_temp
set client_min_messages = error
-- Uses only the index over both account and letters.
set enable_seqscan = off
set enable_indexscan = off
set enable_bitmapscan = on
as $$
#variable_conflict use_column
declare
  accounts constant text[] := sync.searched_accounts('helpdesk.tickets');
  -- Without prefixes of replies and forwards.
  meant constant text := lower(btrim(regexp_replace(left(like_this, 500), '^(\s*(re|fw|fwd|aw|wg|sv|tr|rv)\s*:)+', '', 'i')));
begin
  return query
    select t.account_id, t.id, t.number, t.subject, t.state, t.created_at, c.alike
    from (
      select distinct on (f.account_id, f.id) f.account_id, f.id, sync.similarity(lower(f.subject), meant) as alike
      from unnest(accounts) a (account) cross join unnest(sync.thirds(meant)) p (pattern)
      cross join lateral (
        select x.account_id, x.id, x.subject from helpdesk.tickets x
        where lower(x.subject) like p.pattern and x.account_id = a.account and x._deleted_at is null
        -- A sample is enough for texts that occur a thousand times.
        limit 300) f) c
    join helpdesk.tickets t on t.account_id = c.account_id and t.id = c.id
    where c.alike >= 0.3
    order by c.alike desc, t.created_at desc nulls last, t.account_id, t.id
    limit greatest(coalesce(at_most, 20), 0);
end
$$;
comment on function helpdesk.similar_subjects is
  'Tickets with a similar subject, most similar first. similarity is the share of common groups of three letters. Finds subjects with at least one unchanged third; at most 300 candidates per account.';

create or replace function helpdesk.similar_contacts(address text, at_most int default 20)
returns table (account_id text, contact_id text, customer_id text, type text, value text, similarity real)
language plpgsql stable security definer rows 20
set search_path = pg_catalog, pg_temp
set client_min_messages = error
-- Uses only the index over both account and letters.
set enable_seqscan = off
set enable_indexscan = off
set enable_bitmapscan = on
as $$
#variable_conflict use_column
declare
  accounts constant text[] := sync.searched_accounts('helpdesk.contacts');
  meant constant text := lower(btrim(left(address, 500)));
  -- Compares the part of an address before the @, because half of all people share a few hosts.
  own constant text := coalesce(nullif(split_part(meant, '@', 1), ''), meant);
begin
  return query
    select k.account_id, k.id, k.customer_id, k.type, k.value, c.alike
    from (
      select distinct on (f.account_id, f.id) f.account_id, f.id, sync.similarity(lower(f.value_normalized), meant) as alike
      from unnest(accounts) a (account) cross join unnest(sync.thirds(own)) p (pattern)
      cross join lateral (
        select x.account_id, x.id, x.value_normalized from helpdesk.contacts x
        where lower(x.value_normalized) like p.pattern and x.account_id = a.account
        limit 300) f) c
    join helpdesk.contacts k on k.account_id = c.account_id and k.id = c.id
    where c.alike >= 0.3
    order by c.alike desc, k.account_id, k.id
    limit greatest(coalesce(at_most, 20), 0);
end
$$;
comment on function helpdesk.similar_contacts is
  'Customer addresses with a similar spelling, most similar first. similarity is the share of common groups of three letters. Finds addresses with at least one unchanged third of the part before the @.';

alter function helpdesk.search_messages(text, int) set client_min_messages = error;
alter function helpdesk.search_messages(text, int) set enable_bitmapscan = on;
-- The star schema for BI tools.

-- A star schema for BI tools: facts and dimensions of one grain each. The first column is the row's key; each key is
-- one column with the same name everywhere; no column has JSON or arrays. Days follow analytics.account_zones.

create or replace view analytics.dim_date with (security_barrier) as
select d.day as date_key, extract(year from d.day)::int as year, extract(quarter from d.day)::int as quarter,
  extract(month from d.day)::int as month, to_char(d.day, 'FMMonth') as month_name, date_trunc('month', d.day)::date as month_start,
  extract(isoyear from d.day)::int as iso_year, extract(week from d.day)::int as iso_week, date_trunc('week', d.day)::date as week_start,
  extract(day from d.day)::int as day_of_month, extract(isodow from d.day)::int as iso_weekday, to_char(d.day, 'FMDay') as weekday_name,
  extract(isodow from d.day) >= 6 as is_weekend
from (select date '1970-01-01' + n as day from generate_series(0, date '2100-12-31' - date '1970-01-01') n) d;
comment on view analytics.dim_date is 'One row for each day from 1970 to 2100.';
comment on column analytics.dim_date.date_key is 'The day.';
comment on column analytics.dim_date.year is 'Year.';
comment on column analytics.dim_date.quarter is 'Quarter, 1 to 4.';
comment on column analytics.dim_date.month is 'Month, 1 to 12.';
comment on column analytics.dim_date.month_name is 'Name of the month, in English.';
comment on column analytics.dim_date.month_start is 'First day of the month.';
comment on column analytics.dim_date.iso_year is 'Year that the week belongs to.';
comment on column analytics.dim_date.iso_week is 'Week of that year, 1 to 53.';
comment on column analytics.dim_date.week_start is 'Monday of the week.';
comment on column analytics.dim_date.day_of_month is 'Day of the month, 1 to 31.';
comment on column analytics.dim_date.iso_weekday is '1 Monday to 7 Sunday.';
comment on column analytics.dim_date.weekday_name is 'Name of the weekday, in English.';
comment on column analytics.dim_date.is_weekend is 'True on Saturdays and Sundays.';

create or replace view analytics.dim_account with (security_barrier) as
select a.account_id as account_key, a.account_id, z.time_zone, nullif(a.since, timestamptz '1970-01-01T00:00:00Z') as mirrored_since
from sync.accounts a
join analytics.account_zones z on z.account_id = a.account_id
where a.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.dim_account is 'One row for each mirrored account.';
comment on column analytics.dim_account.account_key is 'Key of the account in every fact and dimension.';
comment on column analytics.dim_account.account_id is 'The operator''s name for the account.';
comment on column analytics.dim_account.time_zone is 'Time zone for days and hours of the account.';
comment on column analytics.dim_account.mirrored_since is
  'The mirror covers records from this time on; null: all records.';

create or replace view analytics.dim_inbox with (security_barrier) as
select i.account_id || '/' || i.id as inbox_key, i.account_id as account_key, i.id as inbox_id, coalesce(i.name, i.id) as inbox_name
from safe.inboxes i;
comment on view analytics.dim_inbox is 'One row for each inbox.';
comment on column analytics.dim_inbox.inbox_key is 'Key of the inbox: account and inbox_id.';
comment on column analytics.dim_inbox.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.dim_inbox.inbox_id is 'Id at the source.';
comment on column analytics.dim_inbox.inbox_name is 'Name; the id while no reply has shown a name.';

-- Former team members appear in no list, but in messages. One index lookup per member finds them, however many
-- messages exist.
create or replace view analytics.dim_agent with (security_barrier) as
select a.account_id || '/' || k.user_id as agent_key, a.account_id as account_key, k.user_id, u._deleted_at is not null as is_deleted,
  u.id is not null as is_mirrored
from sync.readable_accounts a
cross join lateral (
  select u.id as user_id from helpdesk.users u where u.account_id = a.account_id
  union
  select w.user_id from (
    with recursive wrote (user_id) as (
      select min(m.user_id) from helpdesk.messages m where m.account_id = a.account_id
      union all
      select (select min(m.user_id) from helpdesk.messages m where m.account_id = a.account_id and m.user_id > w.user_id)
      from wrote w where w.user_id is not null)
    select w.user_id from wrote w where w.user_id is not null) w
  union
  select h.user_id from (
    with recursive has (user_id) as (
      select min(t.user_id) from helpdesk.tickets t where t.account_id = a.account_id
      union all
      select (select min(t.user_id) from helpdesk.tickets t where t.account_id = a.account_id and t.user_id > h.user_id)
      from has h where h.user_id is not null)
    select h.user_id from has h where h.user_id is not null) h
  union
  -- They also appear in the past backlog. The history has no index for that; it is small compared with the messages.
  select h.user_id from helpdesk.ticket_history h where h.account_id = a.account_id and h.user_id is not null) k
left join helpdesk.users u on u.account_id = a.account_id and u.id = k.user_id;
comment on view analytics.dim_agent is
  'One row per team member, without names: join helpdesk.users for names, or safe.users for their keyed hashes. Includes members who appear only in a message, a ticket or its history.';
comment on column analytics.dim_agent.agent_key is 'Key of the team member: account and user_id.';
comment on column analytics.dim_agent.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.dim_agent.user_id is 'Id at the source; joins safe.users.id.';
comment on column analytics.dim_agent.is_deleted is 'True if the record was deleted at the source.';
comment on column analytics.dim_agent.is_mirrored is
  'False if the record is only referenced: it was deleted before it could be read, or was not read yet.';

create or replace view analytics.dim_customer with (security_barrier) as
select c.account_id || '/' || c.id as customer_key, c.account_id as account_key, c.id as customer_id,
  nullif(c._created_after, timestamptz '1970-01-01T00:00:00Z') as created_after, c._created_before as created_before,
  c._deleted_at is not null as is_deleted, true as is_mirrored
from helpdesk.customers c
where c.account_id = any (array(select account_id from sync.readable_accounts))
union all
select distinct t.account_id || '/' || t.customer_id, t.account_id, t.customer_id, null::timestamptz, null::timestamptz, false, false
from helpdesk.tickets t
where t.account_id = any (array(select account_id from sync.readable_accounts)) and t.customer_id is not null
  and not exists (select from helpdesk.customers c where c.account_id = t.account_id and c.id = t.customer_id);
comment on view analytics.dim_customer is
  'One row per customer, without personal data. Includes customers who appear only in a ticket.';
comment on column analytics.dim_customer.customer_key is 'Key of the customer: account and customer_id.';
comment on column analytics.dim_customer.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.dim_customer.customer_id is 'Id at the source; joins safe.customers.id.';
comment on column analytics.dim_customer.created_after is
  'Created at or after this time. The source does not state the exact time.';
comment on column analytics.dim_customer.created_before is 'Created before this time.';
comment on column analytics.dim_customer.is_deleted is 'True if the record was deleted at the source.';
comment on column analytics.dim_customer.is_mirrored is
  'False if the record is only referenced: it was deleted before it could be read, or was not read yet.';

create or replace view analytics.dim_label with (security_barrier) as
select l.account_id || '/' || l.id as label_key, l.account_id as account_key, l.id as label_id, coalesce(l.name, l.id) as label_name
from safe.labels l;
comment on view analytics.dim_label is 'One row for each label.';
comment on column analytics.dim_label.label_key is 'Key of the label: account and label_id.';
comment on column analytics.dim_label.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.dim_label.label_id is 'Id at the source.';
comment on column analytics.dim_label.label_name is 'Name; the id while no reply has shown a name.';

create or replace view analytics.dim_shelf with (security_barrier) as
select s.account_id || '/' || s.owner_id || '/' || s.id as shelf_key, s.account_id as account_key, s.owner_id, s.id as shelf_id,
  s.title as shelf_title, s.access, s.created_at, s._deleted_at is not null as is_deleted
from books.shelves s
where s.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.dim_shelf is 'One row for each shelf.';
comment on column analytics.dim_shelf.shelf_key is 'Key of the shelf: account, owner_id and shelf_id.';
comment on column analytics.dim_shelf.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.dim_shelf.owner_id is 'Owner of the shelf: a user id, or mylibrary.';
comment on column analytics.dim_shelf.shelf_id is 'Id at the source, unique per owner_id.';
comment on column analytics.dim_shelf.shelf_title is 'Title.';
comment on column analytics.dim_shelf.is_deleted is 'True if the record was deleted at the source.';

create or replace view analytics.dim_volume with (security_barrier) as
select v.account_id || '/' || v.id as volume_key, v.account_id as account_key, v.id as volume_id, v.title, v.subtitle,
  array_to_string(v.authors, ', ') as authors, array_to_string(v.categories, ', ') as categories, v.publisher, v.published_year,
  v.isbn_13, v.page_count, v.print_type, v.language, v.average_rating, v.ratings_count,
  v.list_price, v.list_price_currency, v.retail_price, v.retail_price_currency, v.saleability, v._deleted_at is not null as is_deleted
from books.volumes v
where v.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.dim_volume is 'One row for each volume.';
comment on column analytics.dim_volume.volume_key is 'Key of the volume: account and volume_id.';
comment on column analytics.dim_volume.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.dim_volume.volume_id is 'Id at the source.';
comment on column analytics.dim_volume.authors is
  'Authors in order, separated by commas; null if the source names none.';
comment on column analytics.dim_volume.categories is 'Subjects in order, separated by commas.';
comment on column analytics.dim_volume.is_deleted is 'True if the record was deleted at the source.';

create or replace view analytics.fact_tickets with (security_barrier) as
select m.account_id || '/' || m.ticket_id as ticket_key, m.account_id as account_key,
  m.account_id || '/' || m.customer_id as customer_key, m.account_id || '/' || m.inbox_id as inbox_key,
  m.account_id || '/' || m.user_id as agent_key, m.account_id || '/' || m.first_responder_id as first_responder_key,
  (m.created_at at time zone z.time_zone)::date as created_date,
  (m.first_closed_at at time zone z.time_zone)::date as first_closed_date,
  m.ticket_id, m.number, m.state, m.type as channel,
  m.spam is true as is_spam, m.trash is true as is_trash, coalesce(isfinite(m.deleted_at), false) as is_deleted, m.messages_complete,
  m.created_at, m.updated_at, m.first_closed_at, m.last_closed_at, m.waiting_since,
  m.message_count, m.inbound_count, m.authored_count, m.automatic_count, m.note_count, m.attachment_count, m.agents_involved,
  m.turns, m.is_outbound_initiated, m.is_one_touch, m.is_unreplied,
  m.first_response_seconds, m.first_response_business_seconds, m.first_reply_seconds, m.first_reply_business_seconds,
  m.average_wait_seconds, m.longest_wait_seconds,
  m.first_resolution_seconds, m.first_resolution_error_seconds, m.first_resolution_business_seconds,
  m.full_resolution_seconds, m.full_resolution_error_seconds, m.full_resolution_business_seconds,
  m.reopen_count, m.assignment_count, m.first_closing_seen, m.last_closing_seen
from analytics.ticket_metrics m
left join analytics.account_zones z on z.account_id = m.account_id;
comment on view analytics.fact_tickets is
  'One row per ticket: analytics.ticket_metrics for BI tools. Includes spam, trash, deleted and incomplete tickets: filter them where they would distort.';
comment on column analytics.fact_tickets.ticket_key is 'Key of the ticket: account and ticket_id.';
comment on column analytics.fact_tickets.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.fact_tickets.customer_key is
  'The customer, or null; joins analytics.dim_customer.customer_key.';
comment on column analytics.fact_tickets.inbox_key is 'The inbox, or null; joins analytics.dim_inbox.inbox_key.';
comment on column analytics.fact_tickets.agent_key is
  'The assigned team member; null while unassigned. Joins analytics.dim_agent.agent_key.';
comment on column analytics.fact_tickets.first_responder_key is
  'Team member who gave the first response; joins analytics.dim_agent.agent_key.';
comment on column analytics.fact_tickets.created_date is 'Day of the creation; joins analytics.dim_date.date_key.';
comment on column analytics.fact_tickets.first_closed_date is
  'Day of first_closed_at; an upper bound if first_closing_seen is false. Joins analytics.dim_date.date_key.';
comment on column analytics.fact_tickets.ticket_id is 'Id at the source; joins safe.tickets.id.';
comment on column analytics.fact_tickets.channel is 'email, chat, web, phone and so on.';
comment on column analytics.fact_tickets.is_spam is 'True if the ticket is marked as spam.';
comment on column analytics.fact_tickets.is_trash is 'True if the ticket is in the trash.';
comment on column analytics.fact_tickets.is_deleted is 'True if the ticket was deleted at the source.';

create or replace view analytics.fact_messages with (security_barrier) as
select k.account_id || '/' || k.message_id as message_key, k.account_id || '/' || k.ticket_id as ticket_key, k.account_id as account_key,
  k.account_id || '/' || t.customer_id as customer_key, k.account_id || '/' || t.inbox_id as inbox_key,
  k.account_id || '/' || k.user_id as agent_key, l.at::date as created_date, extract(hour from l.at)::int as created_hour,
  k.created_at, k.kind, t.type as channel, k.position
from analytics.message_kinds k
left join analytics.account_zones z on z.account_id = k.account_id
left join helpdesk.tickets t on t.account_id = k.account_id and t.id = k.ticket_id
cross join lateral (select k.created_at at time zone z.time_zone as at) l;
comment on view analytics.fact_messages is 'One row for each message, without its text.';
comment on column analytics.fact_messages.message_key is 'Key of the message: account and id.';
comment on column analytics.fact_messages.ticket_key is 'The ticket; joins analytics.fact_tickets.ticket_key.';
comment on column analytics.fact_messages.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.fact_messages.customer_key is
  'The customer, or null; joins analytics.dim_customer.customer_key.';
comment on column analytics.fact_messages.inbox_key is 'The inbox, or null; joins analytics.dim_inbox.inbox_key.';
comment on column analytics.fact_messages.agent_key is
  'Author, if a team member; null for customers and automatic replies. Joins analytics.dim_agent.agent_key.';
comment on column analytics.fact_messages.created_date is 'Day of the creation; joins analytics.dim_date.date_key.';
comment on column analytics.fact_messages.created_hour is 'Hour of the creation, 0 to 23.';
comment on column analytics.fact_messages.created_at is 'Creation time at the source.';
comment on column analytics.fact_messages.kind is
  'inbound, authored, automatic, note or other; see analytics.message_kinds.';
comment on column analytics.fact_messages.channel is 'Channel of the ticket.';
comment on column analytics.fact_messages.position is 'Position in the ticket, from 1.';

create or replace view analytics.fact_turns with (security_barrier) as
select r.account_id || '/' || r.ticket_id || '/' || r.turn as turn_key, r.account_id || '/' || r.ticket_id as ticket_key,
  r.account_id as account_key, r.account_id || '/' || t.customer_id as customer_key, r.account_id || '/' || t.inbox_id as inbox_key,
  r.account_id || '/' || r.user_id as agent_key,
  (r.waiting_since at time zone z.time_zone)::date as waiting_date, (r.answered_at at time zone z.time_zone)::date as answered_date,
  r.waiting_since, r.answered_at, r.wait_seconds, r.wait_business_seconds, r.inbound_messages, r.is_answered, r.is_first_response
from analytics.reply_turns r
left join analytics.account_zones z on z.account_id = r.account_id
left join helpdesk.tickets t on t.account_id = r.account_id and t.id = r.ticket_id;
comment on view analytics.fact_turns is
  'One row per wait of a customer: a burst of messages, and the reply that ended the wait, if any.';
comment on column analytics.fact_turns.turn_key is 'Key of the turn: account, ticket and number.';
comment on column analytics.fact_turns.ticket_key is 'The ticket; joins analytics.fact_tickets.ticket_key.';
comment on column analytics.fact_turns.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.fact_turns.customer_key is
  'The customer, or null; joins analytics.dim_customer.customer_key.';
comment on column analytics.fact_turns.inbox_key is 'The inbox, or null; joins analytics.dim_inbox.inbox_key.';
comment on column analytics.fact_turns.agent_key is
  'Team member who replied; null while unanswered. Joins analytics.dim_agent.agent_key.';
comment on column analytics.fact_turns.waiting_date is 'Day of waiting_since; joins analytics.dim_date.date_key.';
comment on column analytics.fact_turns.answered_date is 'Day of answered_at; joins analytics.dim_date.date_key.';

create or replace view analytics.fact_ticket_labels with (security_barrier) as
select l.account_id || '/' || l.ticket_id || '/' || l.label_id as ticket_label_key,
  l.account_id || '/' || l.ticket_id as ticket_key, l.account_id || '/' || l.label_id as label_key, l.account_id as account_key
from helpdesk.ticket_labels l
where l.account_id = any (array(select account_id from sync.readable_accounts));
comment on view analytics.fact_ticket_labels is
  'One row per label of a ticket. A ticket with two labels counts under both.';
comment on column analytics.fact_ticket_labels.ticket_label_key is 'Key of the row: ticket and label.';
comment on column analytics.fact_ticket_labels.ticket_key is 'The ticket; joins analytics.fact_tickets.ticket_key.';
comment on column analytics.fact_ticket_labels.label_key is 'The label; joins analytics.dim_label.label_key.';
comment on column analytics.fact_ticket_labels.account_key is 'The account; joins analytics.dim_account.account_key.';

create or replace view analytics.fact_backlog with (security_barrier) as
select concat_ws('/', b.account_id, b.day, coalesce(b.state, '?'), coalesce(b.inbox_id, '?'), coalesce(b.user_id, '?')) as backlog_key,
  b.day as date_key, b.account_id as account_key, b.account_id || '/' || b.inbox_id as inbox_key, b.account_id || '/' || b.user_id as agent_key,
  b.state, b.tickets, b.uncertain
from (
  select z.time_zone, (max(c.complete_through) at time zone z.time_zone)::date - 1 as last_day
  from analytics.account_zones z
  join analytics.completeness c on c.account_id = z.account_id and c.source = 'helpdesk' and c.stream = 'tickets'
  where c.complete_through is not null
  group by z.time_zone) d
cross join lateral analytics.backlog_daily(d.last_day - 89, d.last_day, d.time_zone) b
join analytics.account_zones z on z.account_id = b.account_id and z.time_zone = d.time_zone;
comment on view analytics.fact_backlog is
  'One row per day, state, inbox and team member: open tickets at the end of the day, for the last 90 days in the mirror. analytics.backlog_daily covers any days.';
comment on column analytics.fact_backlog.backlog_key is 'Key of the row: account, day, state, inbox and user.';
comment on column analytics.fact_backlog.date_key is 'The day; joins analytics.dim_date.date_key.';
comment on column analytics.fact_backlog.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.fact_backlog.inbox_key is 'The inbox, or null; joins analytics.dim_inbox.inbox_key.';
comment on column analytics.fact_backlog.agent_key is
  'Assigned team member at that time; null if unassigned. Joins analytics.dim_agent.agent_key.';
comment on column analytics.fact_backlog.state is 'State at the end of the day; null if unknown.';
comment on column analytics.fact_backlog.tickets is 'Number of tickets, without spam and trash.';
comment on column analytics.fact_backlog.uncertain is
  'Number of tickets whose state at that time is uncertain; see analytics.backlog_daily.';

create or replace view analytics.fact_shelf_volumes with (security_barrier) as
select s.account_id || '/' || s.owner_id || '/' || s.shelf_id || '/' || s.volume_id as shelf_volume_key,
  s.account_id || '/' || s.owner_id || '/' || s.shelf_id as shelf_key, s.account_id || '/' || s.volume_id as volume_key,
  s.account_id as account_key, s.position, s._removed_at is null as is_on_shelf,
  (s._first_seen_at at time zone z.time_zone)::date as first_seen_date, (s._removed_at at time zone z.time_zone)::date as removed_date
from books.shelf_volumes s
left join analytics.account_zones z on z.account_id = s.account_id;
comment on view analytics.fact_shelf_volumes is 'One row per volume that is or was on a shelf.';
comment on column analytics.fact_shelf_volumes.shelf_volume_key is 'Key of the row: shelf and volume.';
comment on column analytics.fact_shelf_volumes.shelf_key is 'The shelf; joins analytics.dim_shelf.shelf_key.';
comment on column analytics.fact_shelf_volumes.volume_key is 'The volume; joins analytics.dim_volume.volume_key.';
comment on column analytics.fact_shelf_volumes.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.fact_shelf_volumes.position is
  'Position on the shelf, from 0; for a removed volume its last position.';
comment on column analytics.fact_shelf_volumes.is_on_shelf is 'False if the volume was removed from the shelf.';
comment on column analytics.fact_shelf_volumes.first_seen_date is
  'Day on which the volume was first seen on the shelf; joins analytics.dim_date.date_key.';
comment on column analytics.fact_shelf_volumes.removed_date is
  'Day by which the volume was gone; joins analytics.dim_date.date_key.';

-- Joins the time zone with a left join, like the other views of the star. With an inner join PostgreSQL expects far
-- too few rows.
create or replace view analytics.fact_credits with (security_barrier) as
select m.account_id || '/' || m.source || '/' || to_char(m.hour at time zone 'UTC', 'YYYY-MM-DD"T"HH24') as credit_key,
  (m.hour at time zone z.time_zone)::date as date_key, m.account_id as account_key, m.source, m.hour,
  m.interactive, m.fresh, m.backfill, m.sweep, m.others, m.refused, m.waited_seconds, m.hours
from (
  select c.account_id, c.source, date_trunc('hour', c.minute, 'UTC') as hour,
    sum(c.interactive)::bigint as interactive, sum(c.fresh)::bigint as fresh, sum(c.backfill)::bigint as backfill,
    sum(c.sweep)::bigint as sweep, sum(c.others)::bigint as others, sum(c.refused)::bigint as refused,
    (sum(c.waited_ms) / 1000)::float8 as waited_seconds, case when max(c.minutes) > 60 then 24 else 1 end as hours
  from sync.credit_minutes c
  where c.account_id = any (array(select account_id from sync.readable_accounts))
  group by c.account_id, c.source, date_trunc('hour', c.minute, 'UTC')) m
left join analytics.account_zones z on z.account_id = m.account_id;
comment on view analytics.fact_credits is
  'One row per hour and source with requests: their cost and purpose. After one year, one row per day.';
comment on column analytics.fact_credits.credit_key is 'Key of the row: account, source and hour.';
comment on column analytics.fact_credits.date_key is 'The day of that hour; joins analytics.dim_date.date_key.';
comment on column analytics.fact_credits.account_key is 'The account; joins analytics.dim_account.account_key.';
comment on column analytics.fact_credits.source is 'helpdesk or books. A credit of the catalog is one request.';
comment on column analytics.fact_credits.hour is
  'Start of the hour; for a row per day, the first hour with a request.';
comment on column analytics.fact_credits.interactive is 'Credits for work that a person waits for.';
comment on column analytics.fact_credits.fresh is 'Credits for incremental syncs.';
comment on column analytics.fact_credits.backfill is 'Credits for history.';
comment on column analytics.fact_credits.sweep is 'Credits for sweeps, which find deletions and silent changes.';
comment on column analytics.fact_credits.others is
  'Estimated credits of other clients of the account: the sum of the highest observed use per minute.';
comment on column analytics.fact_credits.refused is 'Requests that the source refused for lack of credits.';
comment on column analytics.fact_credits.waited_seconds is 'Total time that requests waited for credits.';
comment on column analytics.fact_credits.hours is
  'Hours in this row: 1, or 24 for a day that is more than a year ago.';
-- The data dictionary.

-- Makes the comments available in SQL, also to readers, who see the entries of what they may read.

create or replace view analytics.data_dictionary with (security_barrier) as
with ours as (
  select n.oid, n.nspname::text as schema
  from pg_catalog.pg_namespace n
  where n.nspname in ('analytics', 'safe', 'helpdesk', 'books', 'sync') and has_schema_privilege(n.oid, 'usage')
),
relations as (
  select ours.schema, c.oid, c.relname::text as relation,
    case when c.relkind in ('v', 'm') then 'view' else 'table' end as kind
  from ours join pg_catalog.pg_class c on c.relnamespace = ours.oid
  where c.relkind in ('r', 'p', 'v', 'm') and has_any_column_privilege(c.oid, 'select')
)
select schema, relation, kind, 0 as position, null as column_name, null as type, null::boolean as nullable,
  pg_catalog.obj_description(oid, 'pg_class') as comment
from relations
union all
select r.schema, r.relation, r.kind, (row_number() over (partition by r.oid order by a.attnum))::int, a.attname::text,
  pg_catalog.format_type(a.atttypid, a.atttypmod),
  -- PostgreSQL does not know which columns of a view may be null.
  case when r.kind = 'table' then not a.attnotnull end,
  pg_catalog.col_description(r.oid, a.attnum)
from relations r
join pg_catalog.pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
where has_column_privilege(r.oid, a.attnum, 'select')
union all
select ours.schema, p.proname || '(' || pg_catalog.pg_get_function_arguments(p.oid) || ')', 'function', 0, null,
  pg_catalog.pg_get_function_result(p.oid), null, pg_catalog.obj_description(p.oid, 'pg_proc')
from ours
join pg_catalog.pg_proc p on p.pronamespace = ours.oid
where has_function_privilege(p.oid, 'execute') and p.prorettype <> 'pg_catalog.trigger'::pg_catalog.regtype
  -- Objects of extensions have their own documentation.
  and not exists (select from pg_catalog.pg_depend d
    where d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass and d.objid = p.oid and d.deptype = 'e');
comment on view analytics.data_dictionary is
  'Data dictionary: every table, view and function that the caller may read, with its columns and their meaning.';
comment on column analytics.data_dictionary.schema is 'The schema: analytics, safe, helpdesk, books or sync.';
comment on column analytics.data_dictionary.relation is 'The table or view; a function with its arguments.';
comment on column analytics.data_dictionary.kind is 'table, view or function.';
comment on column analytics.data_dictionary.position is
  'Position of the column, from 1; 0 in the row of the relation itself.';
comment on column analytics.data_dictionary.column_name is 'The column; null in the row of the relation itself.';
comment on column analytics.data_dictionary.type is 'Type of the column; return type of a function.';
comment on column analytics.data_dictionary.nullable is
  'False if the column is never null; null for columns of views, because PostgreSQL does not know.';
comment on column analytics.data_dictionary.comment is 'Meaning.';
-- Comments for columns without a comment of their own, and the rights of the roles.

-- A column of a view inherits the comment of the same column in the first relation of the view that has one. Any
-- other column gets the general comment for its name.
create or replace function sync.settle_comments() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  one record;
  said text;
  everywhere constant jsonb := $said${
  "account_id": "The operator's name for the mirrored account; part of every key.",
  "id": "Id at the source: opaque text.",
  "customer_id": "The customer; joins helpdesk.customers.id.",
  "_first_seen_at": "When this row was first stored here.",
  "_synced_at": "When the content of this row last changed here.",
  "_observed_at": "The source showed this content at this time, by its own clock; null while no reply has shown it.",
  "_payload": "The record as the source sent it, with unknown fields; without records of other tables, and without long texts that have their own column.",
  "ticket_id": "The ticket; joins helpdesk.tickets.id.",
  "_deleted_at": "When the deletion at the source was found; null while the record exists.",
  "source": "The source of the stream: helpdesk or books.",
  "stream_key": "Key of the stream: source.stream, as helpdesk.tickets.",
  "stream": "The stream.",
  "list": "The list of the stream.",
  "run_id": "The run.",
  "calendar": "The calendar; joins analytics.calendars.name."
}$said$;
begin
  -- In order of creation, because a view may read a view.
  for one in
    select c.oid, a.attnum, format('%s.%I', c.oid::regclass, a.attname) as name, a.attname, c.relkind
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace::regnamespace::text in ('sync', 'helpdesk', 'books', 'analytics', 'internal', 'safe')
      and c.relkind in ('r', 'v') and col_description(c.oid, a.attnum) is null
    order by c.relkind = 'v', c.oid
  loop
    said := (
      select col_description(s.attrelid, s.attnum)
      from pg_rewrite r
      join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass
      join pg_attribute s on s.attrelid = d.refobjid and s.attname = one.attname
      where r.ev_class = one.oid and d.refobjid <> one.oid and col_description(s.attrelid, s.attnum) is not null
      order by d.refobjid::regclass::text collate "C"
      limit 1);
    execute format('comment on column %s is %L', one.name, coalesce(said, everywhere ->> one.attname));
  end loop;
end
$$;
comment on function sync.settle_comments is 'Gives a comment to each column of Shelfdesk that has none.';
revoke execute on function sync.settle_comments() from public;

select sync.settle_comments();
select sync.settle_roles();
