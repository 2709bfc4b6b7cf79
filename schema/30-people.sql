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
comment on table helpdesk.users is 'The team: people who answer tickets.';
comment on column helpdesk.users.first_name is 'First name.';
comment on column helpdesk.users.last_name is 'Last name.';
comment on column helpdesk.users.email is 'E-mail address.';

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
comment on table helpdesk.inboxes is 'Inboxes that tickets belong to.';
comment on column helpdesk.inboxes.name is 'Name; null until a reply has shown it.';

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
comment on table helpdesk.labels is 'Labels of tickets.';
comment on column helpdesk.labels.name is 'Name; null until a reply has shown it.';

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
comment on table helpdesk.customers is
  'People who write in. New ones are found at once; edits of known ones are not announced by the source, see _observed_at.';
comment on column helpdesk.customers.first_name is 'First name; '''' and null are different things at the source and stay so.';
comment on column helpdesk.customers.last_name is 'Last name.';
comment on column helpdesk.customers.summary is 'Short summary of the customer, where the source has one.';
comment on column helpdesk.customers._created_after is
  'The customer was created at or after this time (the source gives no created_at: this is the bracket it was found in).';
comment on column helpdesk.customers._created_before is 'The customer was created before this time.';
comment on column helpdesk.customers._checked_at is
  'A list showed the customer, as it is here, at this time: every sweep of all customers moves it on.';
comment on column helpdesk.customers._deleted_at is
  'By then the source had it no more: it said so when asked by id; null while it is there.';
comment on column helpdesk.customers._payload is
  'The record as it came, unknown fields and contacts included: a change of contacts alone is a change of the customer.';
comment on column helpdesk.customers._deleted_after is
  'It was deleted after this time, and by _deleted_at; null while it is there.';

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
create index contacts_value_alike on helpdesk.contacts using gin (account_id, lower(value_normalized) sync.gin_trgm_ops) with (gin_pending_list_limit='512');
comment on table helpdesk.contacts is
  'Addresses of customers. The contacts of a customer are replaced as a set: one that the source no longer shows is removed.';
comment on column helpdesk.contacts.type is 'email, twitter or phone; other values pass as they come.';
comment on column helpdesk.contacts.value is 'The address, screen name or number as the source has it.';
comment on column helpdesk.contacts.value_normalized is
  'value for comparing: e-mail in lower case, screen name in lower case without @, phone number as digits with a leading + where there is one.';

create or replace function sync.contact_form(value text) returns text
language sql immutable parallel safe
begin atomic
  select case
    when btrim(value) ~ '^\+?[0-9 ()./-]{3,}$'
      then case when btrim(value) like '+%' then '+' else '' end || regexp_replace(value, '[^0-9]', '', 'g')
    when btrim(value) like '@%' then lower(ltrim(btrim(value), '@'))
    else lower(btrim(value)) end;
end;
comment on function sync.contact_form is
  'An address as it is compared, where nobody says of what kind it is: e-mail and screen name in lower case, screen name without @, phone number as digits with a leading + where there is one.';

create or replace function sync.contact_forms(value text) returns text[]
language sql immutable parallel safe
begin atomic
  select case
    when v.text ~ '[^][{}`?<>()",;:@[:space:]]@[^][{}`?<>()",;:@[:space:]]' then array(
      select distinct e.mail
      from regexp_matches(v.text, '([^][{}`?<>()",;:@[:space:]]+@[^][{}`?<>()",;:@[:space:]]+)', 'g') found,
        lateral (select btrim(found[1], '.''!*')) e (mail)
      -- Addresses that many write from are nobody's.
      where e.mail !~ '^((no|do-?not)[-_.]?reply|mailer-daemon|postmaster|nobody|null|none|unknown|undefined|anonymous)([-_.+][^@]*)?@')
    when v.text ~ '^([a-z]+:)?[-0-9+()./,;[:space:]]*$' then array(
      select distinct d.digits
      from regexp_split_to_table(v.text, '[,;]') part,
        lateral (select regexp_replace(part, '[^0-9]', '', 'g')) d (digits)
      -- One digit again and again, and those that are in a row, are filled in where there is no number.
      where length(d.digits) >= 7 and d.digits <> repeat(left(d.digits, 1), length(d.digits))
        and strpos('012345678901234567890', d.digits) = 0 and strpos('098765432109876543210', d.digits) = 0)
    -- Words that stand for no address name nobody.
    when length(v.text) >= 3 and regexp_replace(v.text, '[^a-z0-9]', '', 'g') not in
      ('null', 'none', 'undefined', 'unknown', 'anonymous', 'nobody', 'nil', 'nan', 'na', 'test', 'true', 'false') then array[v.text]
    else '{}'::text[] end
  -- Spaces and hyphens of other kinds; what nobody sees; and U+FFFD, which stands for what could not be stored.
  from (select lower(btrim(
    translate(value, U&'\00A0\202F\2011\200B\200C\200D\2060\FEFF\00AD\FFFD', '  -'), ' @')) as text) v;
end;
comment on function sync.contact_forms is
  'What a contact value, or a field that holds some, is compared by: each e-mail address in it in lower case; else each phone number as digits, of seven at least; else the text in lower case, without @ before it. Nothing for words, numbers and addresses that name nobody, such as unknown, 0000000 and noreply@shop.example.';

create trigger keep_change after update on helpdesk.customers for each row when (((old._checked_at = new._checked_at) or (old._payload <> new._payload) or (old._deleted_at is distinct from new._deleted_at))) execute function sync.keep_change('', '{account_id}');
create trigger keep_change after delete or update on helpdesk.contacts for each row execute function sync.keep_change('customer_id', '{account_id,value_normalized}');
create trigger keep_change after delete or update on helpdesk.users for each row execute function sync.keep_change('', '{account_id}');
create trigger keep_change after update on helpdesk.labels for each row when (((old._payload IS not NULL) and (old._payload is distinct from new._payload))) execute function sync.keep_change('', '{account_id}');
create trigger keep_change after update on helpdesk.inboxes for each row when (((old._payload IS not NULL) and (old._payload is distinct from new._payload))) execute function sync.keep_change('', '{account_id}');
