-- Up Migration

-- Pages of one crowded second may come from copies of different age: what moves up meanwhile may be on none of them. Only
-- what is shown later tells: a member that has left. Until then the crowd is kept here.

create table sync.crowds (
  account_id text not null,
  stream text not null,
  list text not null,
  seconds tstzrange not null,
  told_by timestamptz not null,
  members text[] not null,
  primary key (account_id, stream, list, seconds)
);
comment on table sync.crowds is
  'Crowded seconds that were read by pages, and are covered, while it may still show that a member had left when they were read. Then they are taken back, and read again.';
comment on column sync.crowds.account_id is 'The operator''s name for the mirrored account; part of every key.';
comment on column sync.crowds.stream is 'The stream.';
comment on column sync.crowds.list is 'The list of the stream.';
comment on column sync.crowds.seconds is 'What the pages proved.';
comment on column sync.crowds.told_by is
  'When the last of its pages came, by the source''s clock: once a sync has read all that had changed by then, it is certain.';
comment on column sync.crowds.members is 'The records that its pages showed; each joins the id of its table.';
