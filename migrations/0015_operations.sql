-- Up Migration

-- What operators do and what they rely on: who is to wait, how fresh a stream has to be and is, what was done by hand.

create table sync.paused (
  account_id text not null,
  stream text not null default '',
  paused_at timestamptz not null,
  paused_by text not null,
  reason text,
  primary key (account_id, stream)
);
comment on table sync.paused is
  'What people have told to wait: nothing of it is read until they resume it. Runs and slots of the schedule that come meanwhile wait, or are skipped.';
comment on column sync.paused.account_id is 'The operator''s name for the mirrored account; part of every key.';
comment on column sync.paused.stream is 'The stream; empty: the whole account.';
comment on column sync.paused.paused_at is 'Since when.';
comment on column sync.paused.paused_by is 'Who did it: see sync.operations.who.';
comment on column sync.paused.reason is 'Why, in their words.';

create function sync.is_paused(account text, stream text) returns boolean
language sql stable
begin atomic
  select exists (
    select from sync.paused p where p.account_id = account and p.stream in ('', is_paused.stream));
end;
comment on function sync.is_paused(text, text) is 'Whether the stream, or its whole account, was told to wait.';

create table sync.operations (
  id bigint generated always as identity primary key,
  at timestamptz not null,
  account_id text not null,
  who text not null,
  action text not null,
  subject text not null default '',
  outcome text not null
);
create index operations_at on sync.operations (account_id, at desc);
comment on table sync.operations is 'What people did to the work, at a terminal or on the page: pauses and their end, runs that they canceled, tried again or started there. One row for each time, also where it was refused. What a command reads by itself is in sync.runs.';
comment on column sync.operations.id is 'Its number.';
comment on column sync.operations.at is 'When.';
comment on column sync.operations.account_id is 'The operator''s name for the mirrored account.';
comment on column sync.operations.who is 'Who: user and machine of a terminal, or the role and the address of a browser.';
comment on column sync.operations.action is 'What: run, pause, resume, retry, cancel.';
comment on column sync.operations.subject is 'To what: a stream, a run; empty: the whole account.';
comment on column sync.operations.outcome is 'What came of it: done, or why it was refused.';

-- Freshness is a promise.
alter table sync.accounts add column mirrored_since timestamptz not null default now();
comment on column sync.accounts.mirrored_since is
  'Changes later than this are new ones, and not history that a first load has to catch up.';

create table sync.targets (
  account_id text not null,
  subject text not null,
  target interval not null,
  primary key (account_id, subject)
);
comment on table sync.targets is 'What was promised: how far each stream may be behind, and how long a night may take. From the settings, at each start.';
comment on column sync.targets.account_id is 'The operator''s name for the mirrored account; part of every key.';
comment on column sync.targets.subject is 'The stream; or nightly: the run of the night.';
comment on column sync.targets.target is 'So far behind, or so long, at most.';

create table sync.change_ages (
  account_id text not null,
  stream text not null,
  minute timestamptz not null,
  age_seconds int not null,
  changes bigint not null,
  primary key (account_id, stream, minute, age_seconds)
);
comment on table sync.change_ages is
  'How old changes were when they were here: counted by the second, for each minute in which they came. Only what changed after the mirror began.';
comment on column sync.change_ages.account_id is 'The operator''s name for the mirrored account; part of every key.';
comment on column sync.change_ages.stream is 'The stream. A change of messages is here when all messages of its ticket are.';
comment on column sync.change_ages.minute is 'The minute in which they were written here, by the source''s clock.';
comment on column sync.change_ages.age_seconds is 'From the change at the source to its row here, by the source''s clock.';
comment on column sync.change_ages.changes is 'How many.';

create function sync.change_age(account text, stream text, percent numeric, since timestamptz default now() - interval '1 hour')
returns interval
language sql stable
begin atomic
  select make_interval(secs => min(c.age_seconds)) from (
    select a.age_seconds, sum(a.changes) over (order by a.age_seconds) as upto, sum(a.changes) over () as total
    from (
      select age_seconds, sum(changes) as changes from sync.change_ages
      where account_id = account and stream = change_age.stream and minute >= since group by 1) a) c
  where c.upto >= c.total * percent / 100;
end;
comment on function sync.change_age(text, text, numeric, timestamptz) is
  'So many percent of the changes that came since then (by default: within the last hour) were at most so old when they were here; null if none came. change_age(account, stream, 95) is the p95.';

create function sync.behind(account text, stream text, at timestamptz default now()) returns interval
language sql stable
begin atomic
  select greatest(interval '0', at - case
    when behind.stream = 'messages' then least(
      (select min(upper(c.covered)) from sync.coverage c
       where c.account_id = account and c.stream = 'tickets' and not c.redundant),
      (select min(t.updated_at) from helpdesk.tickets t join sync.accounts a using (account_id)
       where t.account_id = account and (t._messages_as_of is null or t._messages_as_of < t.updated_at)
         and t._deleted_at is null and t.updated_at > a.mirrored_since))
    when behind.stream = 'volumes' then least(
      (select min(upper(c.covered)) from sync.coverage c
       where c.account_id = account and c.stream = 'shelves' and not c.redundant),
      (select min(w.waits_since) from sync.waiting_volumes w where w.account_id = account and not w.rejected))
    else (
      select min(upper(c.covered)) from sync.coverage c
      where c.account_id = account and c.stream = behind.stream and not c.redundant) end);
end;
comment on function sync.behind(text, text, timestamptz) is
  'How far the newest part of the stream is behind: all that changed longer ago than this, and after the mirror began, is here. History that is still missing does not count. Null if a list of it was never read.';

-- Forecast and what became of it.
alter table sync.stored_runs add column forecast jsonb;
comment on column sync.stored_runs.forecast is
  'What it was expected to take, reckoned before it began: requests, credits and seconds, in all and by stream; null where nobody asked.';
alter table sync.stored_runs add column retries bigint;
comment on column sync.stored_runs.retries is 'The run that this one tries again, because somebody asked for it; else null.';

create table sync.source_readings (
  account_id text not null,
  question text not null,
  answer text not null,
  evidence text not null,
  credits int not null,
  found_at timestamptz not null,
  primary key (account_id, question)
);
comment on table sync.source_readings is
  'How this source reads what its specification leaves open, as `doctor` has found out. The mirror is right under either reading; this says which one it is.';
comment on column sync.source_readings.account_id is 'The operator''s name for the mirrored account; part of every key.';
comment on column sync.source_readings.question is 'What is open.';
comment on column sync.source_readings.answer is 'What was found; unknown where nothing there could tell.';
comment on column sync.source_readings.evidence is 'By what it was found.';
comment on column sync.source_readings.credits is 'Credits that it took.';
comment on column sync.source_readings.found_at is 'When.';
create or replace view sync.status as
select s.account_id, s.stream,
  sync.complete_through(s.account_id, s.stream) as complete_through,
  now() - sync.complete_through(s.account_id, s.stream) as lag,
  h.holes,
  w.waiting,
  (select count(*) from sync.rejects r
   where r.account_id = s.account_id and r.stream = s.stream and r.cleared_at is null) as open_rejects,
  l.run_id as last_run,
  l.state as last_state,
  l.finished_at as last_finished_at,
  (select g.finished_at from sync.stored_run_streams g join sync.stored_runs o on o.id = g.run_id
   where g.account_id = s.account_id and g.stream = s.stream and g.state = 'completed' and o.kind not in ('audit', 'verify')
   order by g.finished_at desc limit 1) as last_success_at,
  case when l.state = 'interrupted' and l.finished_at is null then 'its process is gone' else l.error end as last_error,
  case when l.state = 'interrupted' and l.finished_at is null
    then 'Nothing to do while a worker runs: it goes on there. Else run `npx shelfdesk start`, or the same command again.' else l.remedy end as remedy,
  k.source,
  l.sleeps_until,
  sync.deletes_checked_at(s.account_id, s.stream) as deletes_checked_at,
  y.at_most_percent as differ_at_most_percent,
  y.as_of as differ_as_of,
  b.behind,
  t.target,
  case
    when sync.is_paused(s.account_id, s.stream) then 'paused'
    when l.run_id is null then 'never_synced'
    when l.state = 'failed' then 'failing'
    when b.behind is null then 'catching_up'
    when b.behind > t.target then 'stale'
    when w.waiting > 0 or h.holes > 0 then 'catching_up'
    else 'fresh' end as state,
  sync.change_age(s.account_id, s.stream, 50) as age_p50,
  sync.change_age(s.account_id, s.stream, 95) as age_p95
from (
  select distinct c.account_id, k.stream
  from sync.coverage c join sync.streams k on c.stream in (k.stream, k.follows)
) s
join sync.streams k using (stream)
cross join lateral (
  select count(*) as holes from sync.holes h where h.account_id = s.account_id and h.stream = s.stream) h
cross join lateral (
  select case s.stream
    when 'messages' then (
      select count(*) from helpdesk.tickets t
      where t.account_id = s.account_id
        and (t._messages_as_of is null or t._messages_as_of < t.updated_at)
        and t._deleted_at is null)
    when 'volumes' then (select count(*) from sync.waiting_volumes w where w.account_id = s.account_id)
    else 0 end as waiting) w
cross join lateral (select sync.behind(s.account_id, s.stream) as behind) b
left join sync.targets t on (t.account_id, t.subject) = (s.account_id, s.stream)
left join lateral (
  select r.run_id, case when r.state = 'waiting' and u.state = 'interrupted' then u.state else r.state end as state,
    r.finished_at, r.error, r.remedy, r.sleeps_until
  from sync.run_streams r join sync.runs u on u.id = r.run_id
  -- Audits and verifications compare what others have read: they say nothing of how far that is.
  where r.account_id = s.account_id and r.stream = s.stream and u.kind not in ('audit', 'verify')
  order by r.run_id desc
  limit 1
) l on true
left join sync.certainty y on (y.account_id, y.stream, y.field) = (s.account_id, s.stream, '');
comment on column sync.status.behind is
  'How far its newest part is behind: what changed longer ago, and after the mirror began, is here. Unlike lag it leaves out history that is still missing. See sync.behind.';
comment on column sync.status.target is 'How far it may be behind: what the settings promise. See sync.targets.';
comment on column sync.status.state is
  'fresh; catching_up (within its target, but history or what waits is still missing, or its first load is under way); stale (behind its target); failing (its last run failed); never_synced; paused (by people).';
comment on column sync.status.age_p50 is 'Half of the changes of the last hour were at most so old when they were here; null if none came.';
comment on column sync.status.age_p95 is '95 % of the changes of the last hour were at most so old when they were here; null if none came.';
