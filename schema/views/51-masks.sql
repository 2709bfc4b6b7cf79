-- Views for readers without the right to personal data: keyed hashes replace personal values. The views of the records of sources are
-- made of their declarations (src/sources/record/masks.ts).

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

create or replace view safe.ticket_labels with (security_barrier) as
select t.account_id, t.ticket_id, t.label_id
from helpdesk.ticket_labels t
where t.account_id = any (array(select account_id from sync.readable_accounts));
comment on view safe.ticket_labels is 'helpdesk.ticket_labels: which ticket carries which label.';
comment on column safe.ticket_labels.ticket_id is 'Joins safe.tickets.id.';
comment on column safe.ticket_labels.label_id is 'Joins safe.labels.id.';

