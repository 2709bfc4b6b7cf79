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
  'Records that could not be stored, and tickets and volumes that could not be read by their id. Nothing else was held up by them.';
comment on column sync.rejects.id is 'Number of the reject.';
comment on column sync.rejects.key is 'The record''s id; where it has none that is readable, a hash of its text.';
comment on column sync.rejects.record_id is 'The record''s id, where it is readable.';
comment on column sync.rejects.ask_id is
  'The id by which the source is asked again: the record''s own, or its ticket''s. Of shelves: the owner, shelf or volumes of a shelf that it came with.';
comment on column sync.rejects.reason is 'Why it was rejected.';
comment on column sync.rejects.payload is 'The record as JSON text; null where nothing came.';
comment on column sync.rejects.replayable is 'True if the payload can be tried again without a request.';
comment on column sync.rejects.attempts is 'How often it was tried.';
comment on column sync.rejects.first_seen_at is 'When it was first rejected.';
comment on column sync.rejects.last_seen_at is 'When it was last rejected.';
comment on column sync.rejects.next_try_at is
  'When the source is asked again, by a run that is then at work; null: never by itself. Shelves are not asked for: they are read again when they change, or are old.';
comment on column sync.rejects.gone_at is
  'When the source, asked by id, first said that it has it no more; said again, a ticket gets its tombstone.';
comment on column sync.rejects.cleared_at is 'When it was cleared by a version that could be stored; null while it is open.';
comment on column sync.rejects.as_of is
  'The payload is as the source showed it at this time, by its clock; null where nothing came.';
comment on column sync.rejects.place is 'Its place in the reply, from 1: the position of a message within its ticket.';

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
comment on table sync.drift is 'Where the source differs from its documentation: counted, never refused.';
comment on column sync.drift.kind is
  'unknown_field, unknown_value, wrong_type, unstorable; simplified_html: a body whose markup is too much of it, so that body_text has its words and not its layout; repeated_id: an id that comes twice in a reply, or is of another record already (two tickets with one message), so that one row is kept; or clock: the source''s clock moved by more than the lookback.';
comment on column sync.drift.path is 'Where in the record. …: kinds beyond the first hundred of a reply.';
comment on column sync.drift.value is
  'The unknown value; of another record, for an id that moved from one record to another; empty otherwise.';
comment on column sync.drift.seen is 'How often it was seen.';
comment on column sync.drift.first_seen_at is 'When it was first seen.';
comment on column sync.drift.last_seen_at is 'When it was last seen.';
comment on column sync.drift.sample is
  'A record that showed it, as JSON text, cut at 2,000 characters; null if it was seen by an older Shelfdesk.';

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
  'How this source reads what its specification leaves open, as `doctor` has found out. The mirror is right under either reading; this says which one it is.';
comment on column sync.source_behaviour.question is 'What is open.';
comment on column sync.source_behaviour.answer is 'What was found; unknown where nothing there could tell.';
comment on column sync.source_behaviour.evidence is 'By what it was found.';
comment on column sync.source_behaviour.credits is 'Credits that it took.';
comment on column sync.source_behaviour.found_at is 'When.';
