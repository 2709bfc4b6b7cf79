-- Up Migration

-- Accounts that leave for another warehouse, or come from one.
create table sync.moves (
  account_id text primary key,
  move_id uuid default gen_random_uuid() not null,
  state text not null,
  place text not null,
  who text not null,
  began_at timestamptz not null,
  ended_at timestamptz,
  progress jsonb,
  check (state in ('leaving', 'moved', 'arriving', 'arrived'))
);

-- The key of the hashes of an account that came from another warehouse.
create table sync.secret_account_erasure (
  account_id text primary key,
  inner_key bytea not null,
  outer_key bytea not null
);
