-- Up Migration

-- The mirror of the help desk. Keys begin with the account; ids are opaque text; enumerations are plain text, since a
-- versionless API adds values; no foreign keys, since rows arrive in any order, but every join column is indexed.

create table helpdesk.tickets (
  account_id text not null,
  id text not null,
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
  primary key (account_id, id)
);
-- Which tickets wait for their messages is derived, not kept: this index is the queue of the hydrator, newest first.
create index tickets_waiting on helpdesk.tickets (account_id, updated_at desc)
  where (_messages_as_of is null or _messages_as_of < updated_at) and _deleted_at is null;
create index tickets_updated_at on helpdesk.tickets (account_id, updated_at);
create index tickets_created_at on helpdesk.tickets (account_id, created_at);
create index tickets_customer on helpdesk.tickets (account_id, customer_id);
create index tickets_user on helpdesk.tickets (account_id, user_id);
create index tickets_inbox on helpdesk.tickets (account_id, inbox_id);

comment on table helpdesk.tickets is
  'Conversations with customers, one row each, as the source last showed them.';
comment on column helpdesk.tickets.number is 'Friendly ticket number, unique across the help desk.';
comment on column helpdesk.tickets.customer_id is 'The customer; joins helpdesk.customers.id.';
comment on column helpdesk.tickets.user_id is 'The assigned user; null while unassigned. Joins helpdesk.users.id.';
comment on column helpdesk.tickets.inbox_id is 'The inbox; joins helpdesk.inboxes.id.';
comment on column helpdesk.tickets.label_ids is 'Labels on the ticket, as in helpdesk.ticket_labels.';
comment on column helpdesk.tickets.state is 'open, hold, closed, snoozed or archived; other values pass as they come.';
comment on column helpdesk.tickets.type is 'Channel: email, twitter, twitter_dm, phone, chat, web, sms, whatsapp, fb_messenger, instagram_dm or call; other values pass as they come.';
comment on column helpdesk.tickets.subject is 'Subject; '''' and null are different things at the source and stay so.';
comment on column helpdesk.tickets.summary is 'Short summary of the conversation that the source writes.';
comment on column helpdesk.tickets.spam is 'True if the ticket is marked as spam.';
comment on column helpdesk.tickets.trash is 'True if the ticket is in the trash.';
comment on column helpdesk.tickets.snoozed_until is 'When a snoozed ticket comes back.';
comment on column helpdesk.tickets.reply_to is 'Default To of a new reply (deprecated at the source).';
comment on column helpdesk.tickets.reply_cc is 'Default Cc of a new reply (deprecated at the source).';
comment on column helpdesk.tickets.created_at is 'When the ticket was created, at the source.';
comment on column helpdesk.tickets.updated_at is 'When the ticket was last updated, at the source, in whole seconds.';
comment on column helpdesk.tickets._messages_as_of is
  'The messages of this ticket are as the source showed them at this time. While it is null or earlier than updated_at, the ticket waits for its messages.';

create table helpdesk.ticket_labels (
  account_id text not null,
  ticket_id text not null,
  label_id text not null,
  primary key (account_id, ticket_id, label_id)
);
create index ticket_labels_label on helpdesk.ticket_labels (account_id, label_id);
comment on table helpdesk.ticket_labels is
  'Which ticket carries which label: tickets.label_ids, one row each, changed in the same transaction.';
comment on column helpdesk.ticket_labels.ticket_id is 'Joins helpdesk.tickets.id.';
comment on column helpdesk.ticket_labels.label_id is 'Joins helpdesk.labels.id.';

create table helpdesk.messages (
  account_id text not null,
  id text not null,
  ticket_id text not null,
  position int not null,
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
create index messages_ticket on helpdesk.messages (account_id, ticket_id, position);
create index messages_user on helpdesk.messages (account_id, user_id);
create index messages_created_at on helpdesk.messages (account_id, created_at);

comment on table helpdesk.messages is
  'Replies and notes of tickets. The messages of a ticket are replaced as a set: one that the source no longer shows is removed.';
comment on column helpdesk.messages.ticket_id is 'The ticket; joins helpdesk.tickets.id.';
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
  account_id text not null,
  id text not null,
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

create table helpdesk.customers (
  account_id text not null,
  id text not null,
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
  primary key (account_id, id)
);
comment on table helpdesk.customers is
  'People who write in. New ones are found at once; edits of known ones are not announced by the source, see _observed_at.';
comment on column helpdesk.customers.first_name is 'First name; '''' and null are different things at the source and stay so.';
comment on column helpdesk.customers.last_name is 'Last name.';
comment on column helpdesk.customers.summary is 'Short summary of the customer, where the source has one.';
comment on column helpdesk.customers._created_after is
  'The customer was created at or after this time (the source gives no created_at: this is the bracket it was found in).';
comment on column helpdesk.customers._created_before is 'The customer was created before this time.';
comment on column helpdesk.customers._checked_at is 'As-of time of the reply that last wrote this row; a sweep of all customers moves it on.';

create table helpdesk.contacts (
  account_id text not null,
  id text not null,
  customer_id text not null,
  type text,
  value text,
  value_normalized text generated always as (
    case
      when type = 'email' then lower(btrim(value))
      when type = 'twitter' then lower(ltrim(btrim(value), '@'))
      when type = 'phone' then
        case when btrim(value) like '+%' then '+' else '' end || regexp_replace(value, '[^0-9]', '', 'g')
      else btrim(value)
    end
  ) stored,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _deleted_at timestamptz,
  _payload jsonb not null,
  primary key (account_id, id)
);
create index contacts_customer on helpdesk.contacts (account_id, customer_id);
create index contacts_value on helpdesk.contacts (account_id, value_normalized);
comment on table helpdesk.contacts is
  'Addresses of customers. The contacts of a customer are replaced as a set: one that the source no longer shows is removed.';
comment on column helpdesk.contacts.customer_id is 'The customer; joins helpdesk.customers.id.';
comment on column helpdesk.contacts.type is 'email, twitter or phone; other values pass as they come.';
comment on column helpdesk.contacts.value is 'The address, screen name or number as the source has it.';
comment on column helpdesk.contacts.value_normalized is
  'value for comparing: e-mail in lower case, screen name in lower case without @, phone number as digits with a leading + where there is one.';

create table helpdesk.users (
  account_id text not null,
  id text not null,
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

-- Labels and inboxes have no endpoint of their own: their ids come with tickets, their names with an embed.
create table helpdesk.labels (
  account_id text not null,
  id text not null,
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

create table helpdesk.inboxes (
  account_id text not null,
  id text not null,
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

-- What means the same in every table is said once.
do $$
declare
  said record;
begin
  for said in
    select c.table_name, c.column_name, m.meaning
    from information_schema.columns c
    join (values
      ('account_id', 'The operator''s name for the mirrored account; part of every key.'),
      ('id', 'Id at the source: opaque text.'),
      ('_first_seen_at', 'When this row was first written here.'),
      ('_synced_at', 'When the content of this row last changed here.'),
      ('_observed_at', 'The content is as the source showed it at this time, by the source''s clock; null where nothing has shown it yet.'),
      ('_deleted_at', 'When the source was found to have it no more; null while it is there.'),
      ('_payload', 'The record as it came, unknown fields included; without records of other tables and without long texts that have a column of their own.')
    ) m (column_name, meaning) using (column_name)
    where c.table_schema = 'helpdesk'
  loop
    execute format('comment on column helpdesk.%I.%I is %L', said.table_name, said.column_name, said.meaning);
  end loop;
end
$$;

comment on column helpdesk.customers._payload is
  'The record as it came, unknown fields and contacts included: a change of contacts alone is a change of the customer.';
