-- Erased customers, and the hashes by which they are recognised.

create table sync.erased (
  account_id text,
  customer_id text,
  erased_at timestamptz not null,
  found_again boolean not null,
  primary key (account_id, customer_id)
);
comment on table sync.erased is
  'Customers whose data was removed (npx shelfdesk erase), and stays out: what the source shows of them is reduced to ids, times and states before it is stored.';
comment on column sync.erased.erased_at is 'When that was first done.';
comment on column sync.erased.found_again is
  'False if somebody asked for this very customer; true if it was known by a contact value that it shares with one.';

create table sync.erased_tickets (
  account_id text,
  ticket_id text,
  erased_at timestamptz not null,
  primary key (account_id, ticket_id)
);
comment on table sync.erased_tickets is
  'Tickets of erased customers. They stay erased, also where the source gives them to another customer.';
comment on column sync.erased_tickets.erased_at is 'When that was first done.';

create table sync.secret_erased (
  account_id text,
  contact_hash text,
  erased_at timestamptz not null,
  primary key (account_id, contact_hash)
);
comment on table sync.secret_erased is
  'By what an erased person is known again under another id: keyed hashes of contact values, from which nobody can tell the values.';
comment on column sync.secret_erased.contact_hash is
  'HMAC-SHA-256 of a form of the value (sync.contact_forms), with the key of sync.secret_erasure.';
comment on column sync.secret_erased.erased_at is 'When it was first noted.';

create table sync.secret_erasure (
  is_one boolean default true primary key,
  inner_key bytea not null,
  outer_key bytea not null,
  check (is_one)
);
comment on table sync.secret_erasure is
  'The key of the hashes in sync.secret_erased, another one than that of schema safe: one row, made by chance. Without it nobody is known again.';
comment on column sync.secret_erasure.is_one is 'True: there is one row at most.';
comment on column sync.secret_erasure.inner_key is
  'The key, filled up with zeros to 64 bytes, each of them XOR 0x36: what the inner hash of HMAC begins with.';
comment on column sync.secret_erasure.outer_key is 'The same, each byte XOR 0x5C: what the outer hash begins with.';

create or replace function sync.any_erased(account text) returns boolean
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
comment on function sync.any_erased is
  'Whether somebody was erased in this account. Until the transaction ends nobody else is: what is stored in it was looked at before.';

create or replace function sync.contact_hash(form text) returns text
language sql stable parallel safe
begin atomic
  select sync.masked('erased', form, k.inner_key, k.outer_key) from sync.secret_erasure k;
end;
comment on function sync.contact_hash is 'The keyed hash of a form of a contact value, as in sync.secret_erased.';

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
