-- Up Migration

-- Who has been erased, and how they are known again. Their ids are kept, and of their addresses nothing but keyed hashes: what
-- comes of them again is reduced before it is merged (src/warehouse/redact.ts).

create table sync.erased (
  account_id text not null,
  customer_id text not null,
  erased_at timestamptz not null,
  found_again boolean not null,
  primary key (account_id, customer_id)
);
comment on table sync.erased is
  'Customers whose data was removed (npx shelfdesk erase), and stays out: what the source shows of them is reduced to ids, times and states before it is stored.';
comment on column sync.erased.account_id is 'The operator''s name for the mirrored account; part of every key.';
comment on column sync.erased.customer_id is 'The customer; joins helpdesk.customers.id.';
comment on column sync.erased.erased_at is 'When that was first done.';
comment on column sync.erased.found_again is
  'False if somebody asked for this very customer; true if it was known by a contact value that it shares with one.';

create table sync.erased_tickets (
  account_id text not null,
  ticket_id text not null,
  erased_at timestamptz not null,
  primary key (account_id, ticket_id)
);
comment on table sync.erased_tickets is
  'Tickets of erased customers. They stay erased, also where the source gives them to another customer.';
comment on column sync.erased_tickets.account_id is 'The operator''s name for the mirrored account; part of every key.';
comment on column sync.erased_tickets.ticket_id is 'The ticket; joins helpdesk.tickets.id.';
comment on column sync.erased_tickets.erased_at is 'When that was first done.';

-- Readers see no table of sync whose name begins with secret_: with either of them guesses could be tried.
create table sync.secret_erased (
  account_id text not null,
  contact_hash text not null,
  erased_at timestamptz not null,
  primary key (account_id, contact_hash)
);
comment on table sync.secret_erased is
  'By what an erased person is known again under another id: keyed hashes of contact values, from which nobody can tell the values.';
comment on column sync.secret_erased.account_id is 'The operator''s name for the mirrored account; part of every key.';
comment on column sync.secret_erased.contact_hash is
  'HMAC-SHA-256 of a form of the value (sync.contact_forms), with the key of sync.secret_erasure.';
comment on column sync.secret_erased.erased_at is 'When it was first noted.';

create table sync.secret_erasure (
  is_one boolean primary key default true check (is_one),
  inner_key bytea not null,
  outer_key bytea not null
);
comment on table sync.secret_erasure is
  'The key of the hashes in sync.secret_erased, another one than that of schema safe: one row, made by chance. Without it nobody is known again.';
comment on column sync.secret_erasure.is_one is 'True: there is one row at most.';
comment on column sync.secret_erasure.inner_key is 'The key, filled up with zeros to 64 bytes, each of them XOR 0x36: what the inner hash of HMAC begins with.';
comment on column sync.secret_erasure.outer_key is 'The same, each byte XOR 0x5C: what the outer hash begins with.';
do $$
declare
  -- Three times 122 bits of the server's strong chance.
  key constant bytea := sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
  inner_key bytea := decode(repeat('36', 64), 'hex');
  outer_key bytea := decode(repeat('5c', 64), 'hex');
begin
  for i in 0..31 loop
    inner_key := set_byte(inner_key, i, get_byte(inner_key, i) # get_byte(key, i));
    outer_key := set_byte(outer_key, i, get_byte(outer_key, i) # get_byte(key, i));
  end loop;
  insert into sync.secret_erasure (inner_key, outer_key) values (inner_key, outer_key);
end
$$;

create function sync.contact_forms(value text) returns text[]
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
comment on function sync.contact_forms(text) is
  'What a contact value, or a field that holds some, is compared by: each e-mail address in it in lower case; else each phone number as digits, of seven at least; else the text in lower case, without @ before it. Nothing for words, numbers and addresses that name nobody, such as unknown, 0000000 and noreply@shop.example.';

create function sync.contact_hash(form text) returns text
language sql stable parallel safe
begin atomic
  select sync.masked('erased', form, k.inner_key, k.outer_key) from sync.secret_erasure k;
end;
comment on function sync.contact_hash(text) is 'The keyed hash of a form of a contact value, as in sync.secret_erased.';

create function sync.any_erased(account text) returns boolean
language plpgsql volatile
as $$
begin
  -- 'SHER': whoever erases waits for the commits under way, and those that come wait for it. Looked up after the lock is there.
  perform pg_advisory_xact_lock_shared(1397245266, hashtext(account));
  if not exists (select from sync.erased e where e.account_id = account) then return false; end if;
  if not exists (select from sync.secret_erasure) then
    raise exception 'the key in sync.secret_erasure is gone: nobody who was erased would be known again, so nothing is stored in account %', account
      using hint = 'Bring its one row back from the dump that the database was restored from: docs/ERASURE.md.';
  end if;
  return true;
end
$$;
comment on function sync.any_erased(text) is
  'Whether somebody was erased in this account. Until the transaction ends nobody else is: what is stored in it was looked at before.';

-- By these is found what is here of somebody: also while others are stored, so it must not take long.
create index changes_given on sync.changes (account_id, record_id) where table_name = 'tickets' and changes ? 'customer_id';
-- The id comes first, so that no question about all rejects of a stream takes them; one that is too long for an index has none.
create index rejects_of_record on sync.rejects (record_id, account_id, stream) where length(record_id) <= 500;
create index rejects_asked on sync.rejects (ask_id, account_id, stream);

create function sync.kept_of(payload jsonb, kept text[]) returns jsonb
language sql immutable parallel safe
begin atomic
  select coalesce(jsonb_object_agg(p.key, p.value), '{}')
  from jsonb_each(case when jsonb_typeof(payload) = 'object' then payload else '{}' end) p
  where p.key = any (kept);
end;
comment on function sync.kept_of(jsonb, text[]) is 'Of an object the fields of these names.';

comment on column sync.operations.who is
  'Who: user and machine of a terminal, or the role and the address of a browser; the worker, where it erases by itself who was erased before and comes again.';
comment on column sync.operations.action is 'What: run, pause, resume, retry, cancel, erase, let a reader in, revoke a reader, calendar.';
comment on column sync.operations.subject is 'To what: a stream, a run, a customer, a reader; empty: the whole account.';

select sync.settle_roles();
