create table internal.messages (
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

create index messages_ticket on internal.messages (account_id, ticket_id, "position");

create index messages_user on internal.messages (account_id, user_id);

create index messages_created_at on internal.messages (account_id, created_at);

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
