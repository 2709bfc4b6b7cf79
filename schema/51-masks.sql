-- Views without personal values: keyed hashes stand in their place.

create or replace function sync.masked(kind text, value text, inner_key bytea, outer_key bytea) returns text
language sql immutable parallel safe
begin atomic
  select case when value = '' then ''
    else encode(sha256(outer_key || sha256(inner_key || convert_to(kind || ':' || value, 'UTF8'))), 'hex') end;
end;
comment on function sync.masked is
  'HMAC-SHA-256 of a value, in hexadecimal; null and '''' stay as they are. Values of different kinds never have equal hashes. The keys are those of sync.secret_salt.';

create or replace function sync.masked_contact(value text, inner_key bytea, outer_key bytea) returns text
language sql immutable parallel safe
begin atomic
  select sync.masked('contact', case when value = '' then '' else sync.contact_form(value) end, inner_key, outer_key);
end;
comment on function sync.masked_contact is
  'The hash of an address, equal wherever the address is the same, however it is written: in messages, tickets, contacts and users.';

create or replace function sync.masked_title(name text, inner_key bytea, outer_key bytea) returns text
language sql immutable parallel safe
begin atomic
  select case when regexp_replace(normalize(name, nfkc), '[^[:alnum:]@]', '', 'g') ~ '@|[[:digit:]]{6}' then sync.masked('title', name, inner_key, outer_key) else name end;
end;
comment on function sync.masked_title is
  'The name of an inbox or a label: as it is, but hashed where it holds an @ or six digits, also with spaces or marks between them, as addresses and numbers do.';

create or replace view safe.users with (security_barrier) as
select t.account_id, t.id,
  sync.masked('first name', t.first_name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as first_name,
  sync.masked('last name', t.last_name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as last_name,
  sync.masked_contact(t.email, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as email,
  t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at
from helpdesk.users t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.users is 'helpdesk.users with hashes of names and address.';
comment on column safe.users.first_name is 'Keyed hash of users.first_name: equal where that is equal; null and '''' stay.';
comment on column safe.users.last_name is 'Keyed hash of users.last_name: equal where that is equal; null and '''' stay.';
comment on column safe.users.email is 'Keyed hash of users.email: equal where that is equal; null and '''' stay.';

create or replace view safe.inboxes with (security_barrier) as
select t.account_id, t.id,
  sync.masked_title(t.name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as name,
  t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at
from helpdesk.inboxes t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.inboxes is
  'helpdesk.inboxes. A name that holds an @ or six digits, also with spaces or marks between them, is hashed.';

create or replace view safe.labels with (security_barrier) as
select t.account_id, t.id,
  sync.masked_title(t.name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as name,
  t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at
from helpdesk.labels t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.labels is
  'helpdesk.labels. A name that holds an @ or six digits, also with spaces or marks between them, is hashed.';

create or replace view safe.customers with (security_barrier) as
select t.account_id, t.id,
  sync.masked('first name', t.first_name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as first_name,
  sync.masked('last name', t.last_name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as last_name,
  sync.masked('summary', t.summary, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as summary,
  t._created_after, t._created_before, t._checked_at, t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at, t._deleted_after
from helpdesk.customers t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.customers is 'helpdesk.customers with hashes of names and summary.';
comment on column safe.customers.first_name is
  'Keyed hash of customers.first_name: equal where that is equal; null and '''' stay.';
comment on column safe.customers.last_name is 'Keyed hash of customers.last_name: equal where that is equal; null and '''' stay.';
comment on column safe.customers.summary is 'Keyed hash of customers.summary: equal where that is equal; null and '''' stay.';

create or replace view safe.contacts with (security_barrier) as
select t.account_id, t.id, t.customer_id, t.type,
  sync.masked_contact(t.value, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as value,
  sync.masked_contact(t.value, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as value_normalized,
  t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at
from helpdesk.contacts t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.contacts is
  'helpdesk.contacts with hashes of the addresses: equal to those in safe.messages, safe.tickets and safe.users where the address is the same.';
comment on column safe.contacts.customer_id is 'The customer; joins safe.customers.id.';
comment on column safe.contacts.value is 'Keyed hash of contacts.value: equal where that is equal; null and '''' stay.';
comment on column safe.contacts.value_normalized is
  'Keyed hash of contacts.value_normalized: equal where that is equal; null and '''' stay.';

-- A version of a ticket may be dated ahead of its change. It holds off a later change only until a reply tells which is newer.

create or replace view safe.tickets with (security_barrier) as
select t.account_id, t.id, t.number, t.customer_id, t.user_id, t.inbox_id, t.label_ids, t.state, t.type,
  sync.masked('subject', t.subject, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as subject,
  sync.masked('summary', t.summary, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as summary,
  t.spam, t.trash, t.snoozed_until,
  sync.masked_contact(t.reply_to, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as reply_to,
  sync.masked_contact(t.reply_cc, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as reply_cc,
  t.created_at, t.updated_at, t._messages_as_of, t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at,
  t._deleted_after, t._listed_by, t._messages_by, t._true_by
from helpdesk.tickets t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.tickets is
  'helpdesk.tickets without what identifies a person: subject, summary and addresses are keyed hashes.';
comment on column safe.tickets.customer_id is 'The customer; joins safe.customers.id.';
comment on column safe.tickets.user_id is 'The assigned user; null while unassigned. Joins safe.users.id.';
comment on column safe.tickets.inbox_id is 'The inbox; joins safe.inboxes.id.';
comment on column safe.tickets.subject is 'Keyed hash of tickets.subject: equal where that is equal; null and '''' stay.';
comment on column safe.tickets.summary is 'Keyed hash of tickets.summary: equal where that is equal; null and '''' stay.';
comment on column safe.tickets.reply_to is 'Keyed hash of tickets.reply_to: equal where that is equal; null and '''' stay.';
comment on column safe.tickets.reply_cc is 'Keyed hash of tickets.reply_cc: equal where that is equal; null and '''' stay.';

create or replace view safe.ticket_labels with (security_barrier) as
select t.account_id, t.ticket_id, t.label_id
from helpdesk.ticket_labels t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.ticket_labels is 'helpdesk.ticket_labels: which ticket carries which label.';
comment on column safe.ticket_labels.ticket_id is 'Joins safe.tickets.id.';
comment on column safe.ticket_labels.label_id is 'Joins safe.labels.id.';

-- Readers of masked tables see by when a change had happened, too.

create or replace view safe.ticket_history with (security_barrier) as
select t.account_id, t.ticket_id, t.state, t.user_id, t.inbox_id, t.label_ids, t.spam, t.trash, t.valid_from, t.valid_to, t.change_after, t.is_first, t.deleted_after, t.change_by
from helpdesk.ticket_history t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.ticket_history is 'helpdesk.ticket_history: what each ticket was, and from when to when.';
comment on column safe.ticket_history.ticket_id is 'The ticket; joins safe.tickets.id.';
comment on column safe.ticket_history.user_id is 'The assigned user; null while unassigned. Joins safe.users.id.';
comment on column safe.ticket_history.inbox_id is 'The inbox; joins safe.inboxes.id.';
comment on column safe.ticket_history.label_ids is 'Labels on the ticket; each joins safe.labels.id.';
comment on column safe.ticket_history.valid_from is
  'From then on: updated_at, if that has moved; else when the change was seen. Of the first row: updated_at as it was when the ticket was first seen here; what it was before that nobody can tell. updated_at is that of the version which showed the change: where something else had moved it, and the change itself did not, it happened later, by the reading of that version at the latest.';
comment on column safe.ticket_history.change_after is
  'The change happened after this time and by valid_from, in the seconds of the source: it was seen to have the values before still at this time; of a first row, a second before it was created. Null where that is not known. "By valid_from" holds for changes that move updated_at: see valid_from. What was changed and changed back since is not known.';

create or replace view safe.messages with (security_barrier) as
select t.account_id, t.id, t.ticket_id, t.position, t.type, t.direction, t.user_id,
  sync.masked('name', t.from_name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as from_name,
  sync.masked_contact(t.from_address, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as from_address,
  sync.masked_contact(t.to_address, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as to_address,
  length(t.body_text) as body_length,
  t.htmlized, t.created_at, t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at
from helpdesk.messages t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.messages is
  'helpdesk.messages without texts: names and addresses are keyed hashes, of the body only its length is here.';
comment on column safe.messages.ticket_id is 'The ticket; joins safe.tickets.id.';
comment on column safe.messages.user_id is 'Who wrote it; null if a customer or an automatic reply. Joins safe.users.id.';
comment on column safe.messages.from_name is 'Keyed hash of messages.from_name: equal where that is equal; null and '''' stay.';
comment on column safe.messages.from_address is
  'Keyed hash of messages.from_address: equal where that is equal; null and '''' stay.';
comment on column safe.messages.to_address is 'Keyed hash of messages.to_address: equal where that is equal; null and '''' stay.';
comment on column safe.messages.body_length is 'How many characters body_text has.';

create or replace view safe.attachments with (security_barrier) as
select t.account_id, t.id, t.message_id, t.ticket_id,
  sync.masked('file', t.name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as name,
  -- What follows a semicolon may be a name: text/plain; name="…".
  split_part(t.type, ';', 1) as type, t.size, t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at
from helpdesk.attachments t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.attachments is 'helpdesk.attachments with the hash of the file name.';
comment on column safe.attachments.message_id is 'The message; joins safe.messages.id.';
comment on column safe.attachments.ticket_id is 'The ticket of that message; joins safe.tickets.id.';
comment on column safe.attachments.name is 'Keyed hash of attachments.name: equal where that is equal; null and '''' stay.';
comment on column safe.attachments.type is 'MIME type, without its parameters.';
