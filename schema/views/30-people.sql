comment on column helpdesk.customers._created_after is
  'The customer was created at or after this time. The source gives no created_at; this is the bracket in which the customer appeared.';
comment on column helpdesk.customers._created_before is 'The customer was created before this time.';
comment on column helpdesk.customers._checked_at is
  'Time at which a list last confirmed the customer as stored here. Each sweep of all customers advances it.';
comment on column helpdesk.customers._deleted_at is
  'Deleted at the source by this time: a request by id answered 404. Null while the customer exists.';
comment on column helpdesk.customers._payload is
  'The record as the source sent it, with unknown fields and contacts. So a change of contacts alone changes this column.';
comment on column helpdesk.customers._deleted_after is
  'Deleted after this time and by _deleted_at. Null while the customer exists.';

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
  'Normalises an address of unknown type for comparison: e-mail and screen name in lower case, screen name without @, phone number as digits with the leading + if present.';

create or replace function sync.contact_forms(value text) returns text[]
language sql immutable parallel safe
begin atomic
  select case
    when v.text ~ '[^][{}`?<>()",;:@[:space:]]@[^][{}`?<>()",;:@[:space:]]' then array(
      select distinct e.mail
      from regexp_matches(v.text, '([^][{}`?<>()",;:@[:space:]]+@[^][{}`?<>()",;:@[:space:]]+)', 'g') found,
        lateral (select btrim(found[1], '.''!*')) e (mail)
      -- Shared sender addresses identify nobody.
      where e.mail !~ '^((no|do-?not)[-_.]?reply|mailer-daemon|postmaster|nobody|null|none|unknown|undefined|anonymous)([-_.+][^@]*)?@')
    when v.text ~ '^([a-z]+:)?[-0-9+()./,;[:space:]]*$' then array(
      select distinct d.digits
      from regexp_split_to_table(v.text, '[,;]') part,
        lateral (select regexp_replace(part, '[^0-9]', '', 'g')) d (digits)
      -- Repeated or consecutive digits are placeholders for a missing number.
      where length(d.digits) >= 7 and d.digits <> repeat(left(d.digits, 1), length(d.digits))
        and strpos('012345678901234567890', d.digits) = 0 and strpos('098765432109876543210', d.digits) = 0)
    -- Words that stand for a missing address identify nobody.
    when length(v.text) >= 3 and regexp_replace(v.text, '[^a-z0-9]', '', 'g') not in
      ('null', 'none', 'undefined', 'unknown', 'anonymous', 'nobody', 'nil', 'nan', 'na', 'test', 'true', 'false') then array[v.text]
    else '{}'::text[] end
  -- Unusual spaces and hyphens, invisible characters, and U+FFFD, which replaces bytes that could not be stored.
  from (select lower(btrim(
    translate(value, U&'\00A0\202F\2011\200B\200C\200D\2060\FEFF\00AD\FFFD', '  -'), ' @')) as text) v;
end;
comment on function sync.contact_forms is
  'Normalises a contact value, or a field with several values, for comparison. Returns each e-mail address in lower case; else each phone number of at least seven digits; else the text in lower case without a leading @. Returns nothing for placeholders such as unknown, 0000000 and noreply@shop.example.';

create or replace trigger keep_change after update on helpdesk.customers for each row when (((old._checked_at = new._checked_at) or (old._payload <> new._payload) or (old._deleted_at is distinct from new._deleted_at))) execute function sync.keep_change('', '{account_id}');

create or replace trigger keep_change after delete or update on helpdesk.contacts for each row execute function sync.keep_change('customer_id', '{account_id,value_normalized}');

create or replace trigger keep_change after delete or update on helpdesk.users for each row execute function sync.keep_change('', '{account_id}');

create or replace trigger keep_change after update on helpdesk.labels for each row when (((old._payload IS not NULL) and (old._payload is distinct from new._payload))) execute function sync.keep_change('', '{account_id}');

create or replace trigger keep_change after update on helpdesk.inboxes for each row when (((old._payload IS not NULL) and (old._payload is distinct from new._payload))) execute function sync.keep_change('', '{account_id}');
