-- Erased customers, and the hashes by which they are recognised.

create table sync.erased (
  account_id text,
  customer_id text,
  erased_at timestamptz not null,
  found_again boolean not null,
  primary key (account_id, customer_id)
);

create table sync.erased_tickets (
  account_id text,
  ticket_id text,
  erased_at timestamptz not null,
  primary key (account_id, ticket_id)
);

create table sync.secret_erased (
  account_id text,
  contact_hash text,
  erased_at timestamptz not null,
  primary key (account_id, contact_hash)
);

create table sync.secret_erasure (
  is_one boolean default true primary key,
  inner_key bytea not null,
  outer_key bytea not null,
  check (is_one)
);

create table sync.secret_account_erasure (
  account_id text primary key,
  inner_key bytea not null,
  outer_key bytea not null
);

do $$
declare
  -- Three UUIDs with 122 random bits each, from the server's strong random source.
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
