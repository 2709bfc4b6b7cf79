-- Up Migration

-- The position of the mirror is coverage, not a cursor: the set of time ranges that have been read and committed.
-- Rows and the coverage that they prove commit together; what is wanted and not covered is a hole, and is shown.

create table sync.coverage (
  account_id text not null,
  stream text not null,
  list text not null,
  covered tstzmultirange not null default '{}',
  redundant boolean not null default false,
  primary key (account_id, stream, list)
);
comment on table sync.coverage is
  'What has been read: for each list of a stream the time ranges in which the mirror has all that the source showed.';
comment on column sync.coverage.stream is 'users, customers or tickets (what messages lack follows from the tickets).';
comment on column sync.coverage.list is
  'default, or a list of its own that the source may hide from the default one (spam, trash).';
comment on column sync.coverage.covered is
  'Ranges read and committed: of update time for tickets, of creation time for customers, of knowledge for users.';
comment on column sync.coverage.redundant is
  'True once the default list has shown such records itself, so that this list need not be read.';

create table sync.hole_reasons (
  account_id text not null,
  stream text not null,
  list text not null,
  hole tstzrange not null,
  reason text not null,
  found_at timestamptz not null,
  primary key (account_id, stream, list, hole)
);
comment on table sync.hole_reasons is 'Why a range could not be read. Whether it still is a hole, sync.holes tells.';
comment on column sync.hole_reasons.stream is 'The stream.';
comment on column sync.hole_reasons.list is 'The list of the stream.';
comment on column sync.hole_reasons.hole is 'The range that could not be read.';
comment on column sync.hole_reasons.reason is 'What stood in the way.';
comment on column sync.hole_reasons.found_at is 'When it was found.';

create table sync.walks (
  account_id text not null,
  stream text not null,
  list text not null,
  since timestamptz not null,
  as_of timestamptz not null,
  page int not null,
  deep boolean not null,
  primary key (account_id, stream, list)
);
comment on table sync.walks is
  'The place of a walk by pages, from the last page to the first. It proves nothing before its end, and then becomes coverage.';
comment on column sync.walks.stream is 'The stream.';
comment on column sync.walks.list is 'The list of the stream.';
comment on column sync.walks.since is 'The walk reads everything created since this time.';
comment on column sync.walks.as_of is 'The walk proves what existed at this time.';
comment on column sync.walks.page is 'The page to be read next; it goes down to 1.';
comment on column sync.walks.deep is 'True if the list is longer than paging reaches, so that another walk has to follow.';

create table sync.runs (
  id bigint generated always as identity primary key,
  account_id text not null,
  kind text not null,
  state text not null default 'running',
  started_at timestamptz not null,
  finished_at timestamptz
);
create index runs_account on sync.runs (account_id, id desc);
comment on table sync.runs is 'What people started: one row for each sync.';
comment on column sync.runs.id is 'Number of the run.';
comment on column sync.runs.kind is 'sync.';
comment on column sync.runs.state is
  'running, completed, partly (it ended, but something could not be had), failed, or interrupted (the next run goes on).';
comment on column sync.runs.started_at is 'When it was started.';
comment on column sync.runs.finished_at is 'When it ended.';

create table sync.run_streams (
  run_id bigint not null references sync.runs (id) on delete cascade,
  account_id text not null,
  stream text not null,
  token int not null default 0,
  state text not null default 'waiting',
  expected bigint,
  seen bigint not null default 0,
  inserted bigint not null default 0,
  updated bigint not null default 0,
  unchanged bigint not null default 0,
  deleted bigint not null default 0,
  rejected bigint not null default 0,
  cleaned bigint not null default 0,
  credits bigint not null default 0,
  carried_from bigint,
  started_at timestamptz,
  finished_at timestamptz,
  error text,
  remedy text,
  exit_code smallint,
  primary key (run_id, stream)
);
create index run_streams_latest on sync.run_streams (account_id, stream, run_id desc);
comment on table sync.run_streams is 'What a run did, stream by stream.';
comment on column sync.run_streams.run_id is 'The run.';
comment on column sync.run_streams.stream is 'The stream.';
comment on column sync.run_streams.token is
  'Fencing token: whoever takes the work up raises it, and a commit under an older one fails.';
comment on column sync.run_streams.state is 'waiting, running, completed, partly, failed or interrupted.';
comment on column sync.run_streams.expected is 'How many records the source counted for this run, where it was asked.';
comment on column sync.run_streams.seen is 'Records that arrived.';
comment on column sync.run_streams.inserted is 'Rows that are new here.';
comment on column sync.run_streams.updated is 'Rows whose content changed.';
comment on column sync.run_streams.unchanged is 'Records that were here already, as they are, or in a newer version.';
comment on column sync.run_streams.deleted is 'Rows that got a tombstone, and members of sets that were removed.';
comment on column sync.run_streams.rejected is 'Records that went to sync.rejects.';
comment on column sync.run_streams.cleaned is
  'Characters that PostgreSQL cannot store (NUL, lone surrogates) and that were replaced by U+FFFD.';
comment on column sync.run_streams.credits is 'Credits used.';
comment on column sync.run_streams.carried_from is
  'The interrupted run that had completed the stream moments before, so that this run did not have to; null if this run read it.';
comment on column sync.run_streams.started_at is 'When work on the stream began.';
comment on column sync.run_streams.finished_at is 'When work on the stream ended.';
comment on column sync.run_streams.error is 'What went wrong.';
comment on column sync.run_streams.remedy is 'What to do about it.';
comment on column sync.run_streams.exit_code is 'The exit code that the command line gives for it.';

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
  attempts int not null default 1,
  first_seen_at timestamptz not null,
  last_seen_at timestamptz not null,
  next_try_at timestamptz,
  gone_at timestamptz,
  cleared_at timestamptz
);
create unique index rejects_open on sync.rejects (account_id, stream, key) where cleared_at is null;
create index rejects_ask on sync.rejects (account_id, stream, ask_id) where cleared_at is null;
comment on table sync.rejects is
  'Records that could not be stored, and tickets whose messages could not be read. Nothing else was held up by them.';
comment on column sync.rejects.id is 'Number of the reject.';
comment on column sync.rejects.stream is 'The stream.';
comment on column sync.rejects.key is 'The record''s id; where it has none that is readable, a hash of its text.';
comment on column sync.rejects.record_id is 'The record''s id, where it is readable.';
comment on column sync.rejects.ask_id is 'The id by which the source is asked again: the record''s own, or its ticket''s.';
comment on column sync.rejects.reason is 'Why it was rejected.';
comment on column sync.rejects.payload is 'The record as JSON text; null where nothing came.';
comment on column sync.rejects.replayable is 'True if the payload can be tried again without a request.';
comment on column sync.rejects.attempts is 'How often it was tried.';
comment on column sync.rejects.first_seen_at is 'When it was first rejected.';
comment on column sync.rejects.last_seen_at is 'When it was last rejected.';
comment on column sync.rejects.next_try_at is 'When the source is asked again, by a run that is then at work; null: never by itself.';
comment on column sync.rejects.gone_at is
  'When the source, asked by id, first said that it has it no more; said again, the row gets its tombstone.';
comment on column sync.rejects.cleared_at is 'When it was cleared by a version that could be stored; null while it is open.';

create table sync.drift (
  account_id text not null,
  stream text not null,
  kind text not null,
  path text not null,
  value text not null default '',
  seen bigint not null,
  first_seen_at timestamptz not null,
  last_seen_at timestamptz not null,
  primary key (account_id, stream, kind, path, value)
);
comment on table sync.drift is
  'Where the source differs from its documentation: counted, never refused.';
comment on column sync.drift.stream is 'The stream.';
comment on column sync.drift.kind is 'unknown_field, unknown_value, wrong_type or unstorable.';
comment on column sync.drift.path is 'Where in the record.';
comment on column sync.drift.value is 'The unknown value; empty for fields and types.';
comment on column sync.drift.seen is 'How often it was seen.';
comment on column sync.drift.first_seen_at is 'When it was first seen.';
comment on column sync.drift.last_seen_at is 'When it was last seen.';

create function sync.lists_complete_through(account text, stream text) returns timestamptz
language sql stable
begin atomic
  select case when bool_and(not isempty(c.covered))
    then min(lower(tstzmultirange(tstzrange(a.since, null)) - c.covered)) end
  from sync.coverage c
  join sync.accounts a using (account_id)
  where c.account_id = account
    and c.stream = lists_complete_through.stream
    and not c.redundant;
end;
comment on function sync.lists_complete_through(text, text) is
  'Up to this time every list of the stream has been read without a hole; null if one was never read.';

create function sync.complete_through(account text, stream text) returns timestamptz
language sql stable
begin atomic
  select case
    when complete_through.stream <> 'messages' then sync.lists_complete_through(account, complete_through.stream)
    -- least() passes over null, and what was never read is complete through nothing.
    when sync.lists_complete_through(account, 'tickets') is not null then least(
      sync.lists_complete_through(account, 'tickets'),
      (select t.updated_at
       from helpdesk.tickets t
       where t.account_id = account
         and (t._messages_as_of is null or t._messages_as_of < t.updated_at)
         and t._deleted_at is null
       order by t.updated_at
       limit 1))
  end;
end;
comment on function sync.complete_through(text, text) is
  'Up to this time the stream is complete in the mirror, but for its open rejects; null if it was never read. For messages: up to the first ticket that waits for its messages.';

create view sync.holes as
select c.account_id, c.stream, c.list, lower(h.hole) as hole_from, upper(h.hole) as hole_to,
  (select string_agg(distinct r.reason, '; ')
   from sync.hole_reasons r
   where r.account_id = c.account_id and r.stream = c.stream and r.list = c.list and r.hole && h.hole) as reason
from sync.coverage c
join sync.accounts a using (account_id)
cross join unnest(
  case when isempty(c.covered) then '{}'::tstzmultirange
    else tstzmultirange(tstzrange(a.since, greatest(a.since, upper(c.covered)))) - c.covered
  end) as h (hole)
where not c.redundant;
comment on view sync.holes is 'Ranges below the top of coverage that have not been read, with the reason where one is known.';
comment on column sync.holes.account_id is 'The account.';
comment on column sync.holes.stream is 'The stream.';
comment on column sync.holes.list is 'The list of the stream.';
comment on column sync.holes.hole_from is 'The hole begins here.';
comment on column sync.holes.hole_to is 'The hole ends before this time.';
comment on column sync.holes.reason is 'Why it could not be read; null if it simply has not been read.';

create view sync.status as
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
  (select max(g.finished_at) from sync.run_streams g
   where g.account_id = s.account_id and g.stream = s.stream and g.state = 'completed') as last_success_at,
  l.error as last_error,
  l.remedy
from (
  select account_id, stream from sync.coverage
  union
  select account_id, 'messages' from sync.accounts
) s
left join lateral (
  select * from sync.run_streams r
  where r.account_id = s.account_id and r.stream = s.stream
  order by r.run_id desc
  limit 1
) l on true;
comment on view sync.status is 'For every account and stream: how far it is complete, and what is missing.';
comment on column sync.status.account_id is 'The account.';
comment on column sync.status.stream is 'The stream.';
comment on column sync.status.complete_through is
  'Up to this time the table is complete, but for its open rejects; null if it was never read.';
comment on column sync.status.lag is 'How long ago that was.';
comment on column sync.status.holes is 'Ranges below the top that have not been read; see sync.holes.';
comment on column sync.status.waiting is 'Tickets that wait for their messages.';
comment on column sync.status.open_rejects is 'Records that could not be stored; see sync.rejects.';
comment on column sync.status.last_run is 'The last run of the stream.';
comment on column sync.status.last_state is 'How that run stands.';
comment on column sync.status.last_finished_at is 'When that run ended; null while it is at work.';
comment on column sync.status.last_success_at is 'When a run of the stream last completed.';
comment on column sync.status.last_error is 'What went wrong in the last run.';
comment on column sync.status.remedy is 'What to do about it.';

do $$
declare
  said record;
begin
  for said in
    select table_name from information_schema.columns
    where table_schema = 'sync' and column_name = 'account_id'
      and table_name in ('coverage', 'hole_reasons', 'walks', 'runs', 'run_streams', 'rejects', 'drift')
  loop
    execute format('comment on column sync.%I.account_id is %L', said.table_name,
      'The operator''s name for the mirrored account; part of every key.');
  end loop;
end
$$;
