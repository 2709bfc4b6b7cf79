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
