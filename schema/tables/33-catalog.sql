-- Shelves and volumes of the book catalog.

create table books.shelves (
  account_id text,
  owner_id text,
  id text,
  title text,
  description text,
  access text,
  created_at timestamptz,
  updated_at timestamptz,
  volumes_last_updated_at timestamptz,
  volume_count bigint,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _deleted_at timestamptz,
  _payload jsonb not null,
  primary key (account_id, owner_id, id)
);

create table books.volumes (
  account_id text,
  id text,
  title text,
  subtitle text,
  authors text[],
  publisher text,
  published_date text,
  published_year integer,
  description text,
  isbn_10 text,
  isbn_13 text,
  page_count bigint,
  print_type text,
  categories text[],
  average_rating numeric,
  ratings_count bigint,
  maturity_rating text,
  language text,
  list_price numeric,
  list_price_currency text,
  retail_price numeric,
  retail_price_currency text,
  saleability text,
  viewability text,
  country text,
  canonical_link text,
  thumbnail text,
  _detail text default 'list' not null,
  _checked_at timestamptz,
  _waits_since timestamptz,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _deleted_at timestamptz,
  _payload jsonb not null,
  primary key (account_id, id)
);

create index volumes_waiting on books.volumes (account_id, _waits_since) where (_waits_since is not null);

create index volumes_checked on books.volumes (account_id, _checked_at);

create table books.shelf_volumes (
  account_id text,
  owner_id text,
  shelf_id text,
  volume_id text,
  position integer not null,
  _removed_at timestamptz,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _payload jsonb not null,
  primary key (account_id, owner_id, shelf_id, volume_id)
);

create index shelf_volumes_volume on books.shelf_volumes (account_id, volume_id);

create table books.shelf_volume_history (
  account_id text,
  owner_id text,
  shelf_id text,
  volume_id text,
  position integer,
  valid_from timestamptz,
  valid_to timestamptz,
  change_after timestamptz,
  constraint shelf_volume_history_no_overlap exclude using gist (account_id with =, owner_id with =, shelf_id with =, volume_id with =, tstzrange(valid_from, valid_to) with &&),
  primary key (account_id, owner_id, shelf_id, volume_id, valid_from),
  constraint shelf_volume_history_check check (valid_from < valid_to)
);

create index shelf_volume_history_volume on books.shelf_volume_history (account_id, volume_id);

create table sync.shelf_readings (
  account_id text,
  owner_id text,
  shelf_id text,
  as_of timestamptz,
  version text,
  primary key (account_id, owner_id, shelf_id)
);

-- Compresses long texts with lz4, if the server supports it, because lz4 needs less CPU than pglz. Stored values stay
-- as they are and remain readable.
do $$
declare
  one record;
begin
  if not exists (
    select from pg_settings s where s.name = 'default_toast_compression' and 'lz4' = any (s.enumvals)) then
    return;
  end if;
  for one in
    select c.oid::regclass as relation, a.attname as name
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid
    where c.relkind = 'r' and c.relnamespace::regnamespace::text in ('helpdesk', 'books', 'internal')
      and a.attname in ('_payload', 'body', 'more_body', 'body_text')
  loop
    execute format('alter table %s alter column %I set compression lz4', one.relation, one.name);
  end loop;
end
$$;
