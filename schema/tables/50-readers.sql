-- Readers, their accounts, and the rights of each role.

create table sync.readers (
  role_name name primary key,
  accounts text[],
  pii boolean not null,
  created_at timestamptz not null,
  created_by text not null
);

create table sync.secret_salt (
  is_one boolean default true primary key,
  inner_key bytea not null,
  outer_key bytea not null,
  check (is_one)
);
