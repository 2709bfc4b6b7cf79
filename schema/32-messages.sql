-- Messages and attachments.

-- PostgreSQL's parser of words looks ahead at what may be an address, a path, a tag, a number or a compound: a long row of them
-- takes it minutes. So the marks of these are spaces, here as in what is asked for: an address is the words in it. However odd a
-- text is, what comes of it stays below the megabyte that a row may have: 100,000 letters of four bytes, and places as long.
create or replace function helpdesk.search_words(body text) returns tsvector
language sql immutable parallel safe
begin atomic
  -- One after the other is ten times as fast as translate.
  select to_tsvector('simple',
    replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(left(body, 100000), '-', ' '), '_', ' '), '.', ' '), '/', ' '), ':', ' '), '@', ' '), '&', ' '), '<', ' '), '~', ' '), '+', ' '), '#', ' '), '%', ' '), '?', ' '), '=', ' '));
end;
comment on function helpdesk.search_words is
  'The words of a text and their places, in no language: in lower case, none left out, none cut. Of long texts the first 100,000 characters. The index messages_words is made of it.';

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
  'Replies and notes of tickets. The messages of a ticket are replaced as a set: one that the source no longer shows is removed.';
comment on column helpdesk.messages.position is 'Place within the ticket as the source lists it, from 1.';
comment on column helpdesk.messages.type is 'reply or note; other values pass as they come.';
comment on column helpdesk.messages.direction is 'in (from a customer) or out (to a customer); null on notes.';
comment on column helpdesk.messages.user_id is 'Who wrote it; null if a customer or an automatic reply. Joins helpdesk.users.id.';
comment on column helpdesk.messages.from_name is 'Display name of the sender.';
comment on column helpdesk.messages.from_address is 'Contact information of the sender (from at the source).';
comment on column helpdesk.messages.to_address is 'Contact information of the recipient (to at the source).';
comment on column helpdesk.messages.body is 'The text as it came: HTML where htmlized is true.';
comment on column helpdesk.messages.more_body is 'The signature, where the source removed it from body.';
comment on column helpdesk.messages.body_text is 'body as plain text.';
comment on column helpdesk.messages.htmlized is 'True if body is HTML.';
comment on column helpdesk.messages.created_at is 'When the message was created, at the source. Order equal times by position.';

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
comment on table helpdesk.attachments is 'Files attached to messages: what they are, not their content.';
comment on column helpdesk.attachments.message_id is 'The message; joins helpdesk.messages.id.';
comment on column helpdesk.attachments.ticket_id is 'The ticket of that message; joins helpdesk.tickets.id.';
comment on column helpdesk.attachments.name is 'File name.';
comment on column helpdesk.attachments.type is 'MIME type.';
comment on column helpdesk.attachments.size is 'Size in bytes.';

create trigger keep_change after delete or update on helpdesk.messages for each row execute function sync.keep_change('ticket_id', '{account_id,body_text,from,to}');
create trigger keep_change after delete or update on helpdesk.attachments for each row execute function sync.keep_change('ticket_id', '{account_id}');
