-- Views for readers without the right to personal data: keyed hashes replace personal values.

create or replace function sync.masked(kind text, value text, inner_key bytea, outer_key bytea) returns text
language sql immutable parallel safe
begin atomic
  select case when value = '' then ''
    else encode(sha256(outer_key || sha256(inner_key || convert_to(kind || ':' || value, 'UTF8'))), 'hex') end;
end;
comment on function sync.masked is
  'Keyed hash of a value: HMAC-SHA-256 in hexadecimal, with the keys of sync.secret_salt. null and '''' stay. Values of different kinds never share a hash.';

create or replace function sync.masked_contact(value text, inner_key bytea, outer_key bytea) returns text
language sql immutable parallel safe
begin atomic
  select sync.masked('contact', case when value = '' then '' else sync.contact_form(value) end, inner_key, outer_key);
end;
comment on function sync.masked_contact is
  'Keyed hash of an address, equal for all spellings of the address, in messages, tickets, contacts and users.';

create or replace function sync.masked_title(name text, inner_key bytea, outer_key bytea) returns text
language sql immutable parallel safe
begin atomic
  select case when regexp_replace(normalize(name, nfkc), '[^[:alnum:]@]', '', 'g') ~ '@|[[:digit:]]{6}' then sync.masked('title', name, inner_key, outer_key) else name end;
end;
comment on function sync.masked_title is
  'Name of an inbox or label, hashed if it may contain an address or number: an @, or six digits, also with spaces or punctuation between them.';

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
  'helpdesk.inboxes. A name with an @ or six digits, also with spaces or punctuation between them, is hashed.';

create or replace view safe.labels with (security_barrier) as
select t.account_id, t.id,
  sync.masked_title(t.name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as name,
  t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at
from helpdesk.labels t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.labels is
  'helpdesk.labels. A name with an @ or six digits, also with spaces or punctuation between them, is hashed.';

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
  'helpdesk.contacts with hashes of the addresses. Equal addresses have equal hashes in safe.messages, safe.tickets and safe.users.';
comment on column safe.contacts.customer_id is 'The customer; joins safe.customers.id.';
comment on column safe.contacts.value is 'Keyed hash of contacts.value: equal where that is equal; null and '''' stay.';
comment on column safe.contacts.value_normalized is
  'Keyed hash of contacts.value_normalized: equal where that is equal; null and '''' stay.';

-- The date of a ticket version may be later than its change. Then later changes wait for a reply that tells which
-- version is newer.

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
  'helpdesk.tickets without personal data: subject, summary and addresses are keyed hashes.';
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

create or replace view safe.messages with (security_barrier) as
select t.account_id, t.id, t.ticket_id, t.position, t.type, t.direction, t.user_id,
  sync.masked('name', t.from_name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as from_name,
  sync.masked_contact(t.from_address, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as from_address,
  sync.masked_contact(t.to_address, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as to_address,
  length(coalesce(t.body_text, t.body)) as body_length,
  t.htmlized, t.created_at, t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at
from internal.messages t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.messages is
  'helpdesk.messages without texts: names and addresses are keyed hashes; body_length replaces the body.';
comment on column safe.messages.ticket_id is 'The ticket; joins safe.tickets.id.';
comment on column safe.messages.user_id is
  'Author, if a team member; null for customers and automatic replies. Joins safe.users.id.';
comment on column safe.messages.from_name is 'Keyed hash of messages.from_name: equal where that is equal; null and '''' stay.';
comment on column safe.messages.from_address is
  'Keyed hash of messages.from_address: equal where that is equal; null and '''' stay.';
comment on column safe.messages.to_address is 'Keyed hash of messages.to_address: equal where that is equal; null and '''' stay.';
comment on column safe.messages.body_length is 'Number of characters in body_text.';

create or replace view safe.attachments with (security_barrier) as
select t.account_id, t.id, t.message_id, t.ticket_id,
  sync.masked('file', t.name, (select inner_key from sync.secret_salt), (select outer_key from sync.secret_salt)) as name,
  -- A parameter after the semicolon may hold a file name: text/plain; name="…".
  split_part(t.type, ';', 1) as type, t.size, t._first_seen_at, t._synced_at, t._observed_at, t._deleted_at
from helpdesk.attachments t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.attachments is 'helpdesk.attachments with hashes of the file names.';
comment on column safe.attachments.message_id is 'The message; joins safe.messages.id.';
comment on column safe.attachments.ticket_id is 'The ticket of that message; joins safe.tickets.id.';
comment on column safe.attachments.name is 'Keyed hash of attachments.name: equal where that is equal; null and '''' stay.';
comment on column safe.attachments.type is 'MIME type, without its parameters.';
