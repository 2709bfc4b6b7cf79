-- Up Migration

-- Any number of processes on any number of machines. Whether one of them lives is told by a lock of its database session,
-- which ends with the process, however it ends: so nothing here says "running" of a process that has died.

create table sync.workers (
  id int generated always as identity primary key,
  account_id text not null,
  works boolean not null,
  host text not null,
  pid int not null,
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

create function sync.is_alive(worker int) returns boolean
language sql stable
begin atomic
  -- 'SHSW'; see src/warehouse/workers.ts.
  select exists (
    select from pg_locks l
    where l.locktype = 'advisory' and l.classid = 1397248855 and l.objid = worker::oid and l.objsubid = 2 and l.granted
      and l.database = (select d.oid from pg_database d where d.datname = current_database()));
end;
comment on function sync.is_alive(int) is 'Whether this process of sync.workers is alive: it holds its lock.';

-- What was asked for, and who is at work on it.
alter table sync.runs rename to stored_runs;
alter table sync.run_streams rename to stored_run_streams;
alter table sync.stored_runs
  add column opened_by int,
  add column since timestamptz,
  add column until timestamptz,
  add column again boolean not null default false,
  add column again_before timestamptz;
alter table sync.stored_run_streams
  add column worker int,
  add column job text,
  add column waits_for bigint;
create index stored_run_streams_held on sync.stored_run_streams (worker) where state = 'running';
create index stored_runs_finished on sync.stored_runs (finished_at);
create index stored_runs_kind on sync.stored_runs (account_id, kind, id desc);
create index stored_runs_open on sync.stored_runs (account_id) where state = 'running';
create index stored_run_streams_done on sync.stored_run_streams (account_id, stream, finished_at) where state = 'completed';
comment on table sync.stored_runs is
  'Runs as they were written down: one whose process died is still called running here. Read sync.runs.';
comment on column sync.stored_runs.kind is
  'sync: a command; backfill: a command, or the night for customers; fresh and nightly: the schedule; hydrate: tickets wait for their messages.';
comment on column sync.stored_runs.opened_by is 'The process of sync.workers that opened it.';
comment on column sync.stored_runs.since is 'A backfill reads from here on; null: from the beginning.';
comment on column sync.stored_runs.until is 'A backfill reads up to here.';
comment on column sync.stored_runs.again is 'True if a backfill reads also what is covered.';
comment on column sync.stored_runs.again_before is
  'Messages that were read before this time of the source are read again by this backfill; null until its first reply.';
comment on table sync.stored_run_streams is
  'Streams of runs as they were written down: one whose process died is still called running here. Read sync.run_streams.';
comment on column sync.stored_run_streams.worker is 'The process of sync.workers that is, or was, at work on it.';
comment on column sync.stored_run_streams.job is 'The job of the queue under which it is, or was, at work.';
comment on column sync.stored_run_streams.waits_for is 'The run whose work on the same stream it waits for.';

create view sync.run_streams as
select s.run_id, s.account_id, s.stream, s.token,
  case when s.state = 'running' and not sync.is_alive(s.worker) then 'interrupted' else s.state end as state,
  s.expected, s.seen, s.inserted, s.updated, s.unchanged, s.deleted, s.rejected, s.cleaned, s.credits, s.carried_from,
  case when s.state = 'waiting' then s.waits_for end as waits_for,
  s.worker, s.job, s.started_at, s.finished_at, s.error, s.remedy, s.exit_code
from sync.stored_run_streams s;
comment on view sync.run_streams is 'What a run did, stream by stream.';
comment on column sync.run_streams.state is
  'waiting, running, completed, partly, failed or interrupted; interrupted without finished_at: its process died, and the next one that works takes it up.';
comment on column sync.run_streams.carried_from is
  'The run that had read the stream already, so that this one did not have to; null if this run read it.';

create view sync.runs as
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
  'running (or about to be, by a process that lives), completed, partly (it ended, but something could not be had), failed, or interrupted; interrupted without finished_at: nobody is alive to go on with it, until the next worker starts.';

-- What a view shows as it is stored is what its table says of it.
do $$
declare
  said record;
begin
  for said in
    select v.attrelid::regclass as shown, v.attname as name, col_description(t.attrelid, t.attnum) as words
    from (values ('sync.runs'::regclass, 'sync.stored_runs'::regclass),
      ('sync.run_streams', 'sync.stored_run_streams')) of_table (view, stored)
    join pg_attribute v on v.attrelid = of_table.view and v.attnum > 0
    join pg_attribute t on t.attrelid = of_table.stored and t.attname = v.attname
    where col_description(v.attrelid, v.attnum) is null
  loop
    execute format('comment on column %s.%I is %L', said.shown, said.name, said.words);
  end loop;
end
$$;

create table sync.run_lists (
  run_id bigint not null references sync.stored_runs (id) on delete cascade,
  account_id text not null,
  stream text not null,
  list text not null,
  until timestamptz not null,
  covered tstzmultirange not null default '{}',
  primary key (run_id, stream, list)
);
create index run_lists_list on sync.run_lists (account_id, stream, list);
comment on table sync.run_lists is
  'How far a backfill reads each list, from its first look on; and what one that reads again (--again) has read so far.';
comment on column sync.run_lists.run_id is 'The run.';
comment on column sync.run_lists.account_id is 'The operator''s name for the mirrored account; part of every key.';
comment on column sync.run_lists.stream is 'The stream.';
comment on column sync.run_lists.list is 'The list of the stream.';
comment on column sync.run_lists.until is
  'Up to here: as the run was told, else up to the top of what was covered when it first looked.';
comment on column sync.run_lists.covered is 'With --again: ranges that this run has read.';

-- A walk of a backfill ends where its hole does; the walk of a sync has no end.
alter table sync.walks
  add column until timestamptz not null default 'infinity',
  drop constraint walks_pkey,
  add primary key (account_id, stream, list, until);
comment on column sync.walks.until is 'The walk reads what was created before this time; infinity: everything.';

create table sync.schedule_slots (
  account_id text not null,
  schedule text not null,
  slot timestamptz not null,
  claimed_at timestamptz not null,
  claimed_by int not null,
  run_id bigint,
  skipped text,
  primary key (account_id, schedule, slot)
);
comment on table sync.schedule_slots is
  'One row for each time at which the schedule was due: whichever process writes it first opens the run. Kept for 35 days.';
comment on column sync.schedule_slots.account_id is 'The operator''s name for the mirrored account; part of every key.';
comment on column sync.schedule_slots.schedule is 'fresh or nightly.';
comment on column sync.schedule_slots.slot is 'When it was due.';
comment on column sync.schedule_slots.claimed_at is
  'When a process took it: later than the slot if nobody was there at the time. Of several missed slots only the last one is taken.';
comment on column sync.schedule_slots.claimed_by is 'The process of sync.workers that took it.';
comment on column sync.schedule_slots.run_id is 'The run that it opened; null if it opened none.';
comment on column sync.schedule_slots.skipped is 'Why it opened no run: another one was open.';

create or replace view sync.status as
select s.account_id, s.stream,
  sync.complete_through(s.account_id, s.stream) as complete_through,
  now() - sync.complete_through(s.account_id, s.stream) as lag,
  (select count(*) from sync.holes h where h.account_id = s.account_id and h.stream = s.stream) as holes,
  case when s.stream = 'messages' then (
    select count(*) from helpdesk.tickets t
    where t.account_id = s.account_id
      and (t._messages_as_of is null or t._messages_as_of < t.updated_at)
      and t._deleted_at is null)
  else 0 end as waiting,
  (select count(*) from sync.rejects r
   where r.account_id = s.account_id and r.stream = s.stream and r.cleared_at is null) as open_rejects,
  l.run_id as last_run,
  l.state as last_state,
  l.finished_at as last_finished_at,
  (select max(g.finished_at) from sync.stored_run_streams g
   where g.account_id = s.account_id and g.stream = s.stream and g.state = 'completed') as last_success_at,
  case when l.state = 'interrupted' and l.finished_at is null then 'its process is gone' else l.error end as last_error,
  case when l.state = 'interrupted' and l.finished_at is null
    then 'Nothing to do while a worker runs: it goes on there. Else run `npx shelfdesk start`, or the same command again.' else l.remedy end as remedy
from (
  select account_id, stream from sync.coverage
  union
  select account_id, 'messages' from sync.accounts
) s
left join lateral (
  select r.run_id, case when r.state = 'waiting' and u.state = 'interrupted' then u.state else r.state end as state,
    r.finished_at, r.error, r.remedy
  from sync.run_streams r join sync.runs u on u.id = r.run_id
  where r.account_id = s.account_id and r.stream = s.stream
  order by r.run_id desc
  limit 1
) l on true;
