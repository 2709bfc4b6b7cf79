-- Tickets and their history.

create table helpdesk.tickets (
  account_id text,
  id text,
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
  _deleted_after timestamptz,
  _listed_by bigint,
  _messages_by bigint,
  _true_by timestamptz,
  primary key (account_id, id)
);

create index tickets_waiting on helpdesk.tickets (account_id, updated_at desc) where (((_messages_as_of is null) or (_messages_as_of < updated_at)) and (_deleted_at is null));

create index tickets_updated_at on helpdesk.tickets (account_id, updated_at);

create index tickets_created_at on helpdesk.tickets (account_id, created_at);

create index tickets_customer on helpdesk.tickets (account_id, customer_id);

create index tickets_user on helpdesk.tickets (account_id, user_id);

create index tickets_waiting_open on helpdesk.tickets (account_id, updated_at desc) where (((_messages_as_of is null) or (_messages_as_of < updated_at)) and (_deleted_at is null) and (state = any (array['open', 'hold'])));

create or replace function analytics.is_backlog(state text, spam boolean, trash boolean) returns boolean
language sql immutable parallel safe
begin atomic
  -- Uses only expressions that PostgreSQL can push into an index, also through the views of readers.
  select (state is null or state not in ('closed', 'archived')) and spam is not true and trash is not true;
end;

create table internal.ticket_history (
  account_id text,
  ticket_id text,
  state text,
  user_id text,
  inbox_id text,
  label_ids text[],
  spam boolean,
  trash boolean,
  valid_from timestamptz,
  valid_to timestamptz,
  change_after timestamptz,
  deleted_after timestamptz,
  is_first boolean default false not null,
  change_by timestamptz,
  constraint ticket_history_no_overlap exclude using gist (hashtextextended(ticket_id, (0)::bigint) with =, (((account_id || '/') || ticket_id)) with =, tstzrange(valid_from, valid_to) with &&) where ((valid_to is not null)),
  primary key (account_id, ticket_id, valid_from),
  constraint ticket_history_check check (valid_from < valid_to),
  constraint ticket_history_check1 check (change_after < valid_from)
);

create unique index ticket_history_open on internal.ticket_history (account_id, ticket_id) where (valid_to is null);

create index ticket_history_backlog on internal.ticket_history (account_id, valid_to) where analytics.is_backlog(state, spam, trash);
