-- Users, inboxes, labels, customers and contacts of the help desk.

create table helpdesk.users (
  account_id text,
  id text,
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

create table helpdesk.inboxes (
  account_id text,
  id text,
  name text,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz,
  _deleted_at timestamptz,
  _payload jsonb,
  primary key (account_id, id)
);

create table helpdesk.labels (
  account_id text,
  id text,
  name text,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz,
  _deleted_at timestamptz,
  _payload jsonb,
  primary key (account_id, id)
);

create table helpdesk.customers (
  account_id text,
  id text,
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
  _deleted_after timestamptz,
  primary key (account_id, id)
);

create table helpdesk.contacts (
  account_id text,
  id text,
  customer_id text not null,
  type text,
  value text,
  value_normalized text generated always as (
case
    when (type = 'email') then lower(btrim(value))
    when (type = 'twitter') then lower(ltrim(btrim(value), '@'))
    when (type = 'phone') then (
    case
        when (btrim(value) ~~ '+%') then '+'
        else ''
    end || regexp_replace(value, '[^0-9]', '', 'g'))
    else btrim(value)
end) stored,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _deleted_at timestamptz,
  _payload jsonb not null,
  primary key (account_id, id)
);

create index contacts_customer on helpdesk.contacts (account_id, customer_id);

create index contacts_value on helpdesk.contacts (account_id, value_normalized);
