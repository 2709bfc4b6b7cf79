-- Up Migration

-- Sets of members that are stored just as a reply showed them.
create table internal.stored_sets (
  account_id text,
  stream_key text,
  record_id text,
  proof bytea not null,
  primary key (account_id, stream_key, record_id)
);
