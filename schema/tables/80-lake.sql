-- What the lake is told: where it is, what changed since its last export, and its exports.

create table sync.lake (
  is_one boolean default true primary key,
  path text not null,
  personal boolean not null,
  keep_days integer not null,
  turned_on_at timestamptz not null,
  turned_on_by text not null,
  queue text default 'lake-' || gen_random_uuid() not null,
  tidied_at timestamptz,
  check (is_one),
  check (keep_days > 0)
);

create table sync.lake_pending (
  unit text not null,
  account_id text not null,
  id text not null,
  month date,
  erased boolean default false not null,
  xact xid8 default pg_current_xact_id() not null
);

create table sync.lake_exports (
  id bigint generated always as identity primary key,
  started_at timestamptz not null,
  finished_at timestamptz,
  state text not null,
  moment timestamptz,
  snapshot_id bigint,
  units bigint default 0 not null,
  inserted bigint default 0 not null,
  deleted bigint default 0 not null,
  files_cleared bigint default 0 not null,
  error text,
  check (state = any (array['running', 'done', 'failed']))
);

create table sync.lake_parts (
  export_id bigint,
  part integer,
  accounts text[] not null,
  done_at timestamptz,
  files text,
  error text,
  primary key (export_id, part),
  foreign key (export_id) references sync.lake_exports(id) on delete cascade
);
