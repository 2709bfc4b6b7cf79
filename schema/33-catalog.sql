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
comment on table books.shelves is 'Shelves of the users that are mirrored, and of the own library.';
comment on column books.shelves.owner_id is
  'The user whose shelf it is (BOOKS_USERS), or mylibrary: the library of whoever the token belongs to.';
comment on column books.shelves.id is 'Id at the source; only together with owner_id it names one shelf.';
comment on column books.shelves.title is 'Title.';
comment on column books.shelves.description is 'Description.';
comment on column books.shelves.access is 'PUBLIC or PRIVATE; other values pass as they come.';
comment on column books.shelves.created_at is 'When the shelf was created, at the source.';
comment on column books.shelves.updated_at is 'When its title, description or access was last changed, at the source.';
comment on column books.shelves.volumes_last_updated_at is
  'When volumes were last put on it or taken off, at the source. Whether a move within the shelf shows here is not known.';
comment on column books.shelves.volume_count is
  'How many volumes the source says that it holds; what is on it, books.shelf_volumes tells.';
comment on column books.shelves._observed_at is 'The content is as the source showed it at this time, by the source''s clock.';
comment on column books.shelves._payload is
  'The record as it came, unknown fields included; without what varies from reply to reply though nothing changed (etag, searchInfo, preview, info and image links).';

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
comment on table books.volumes is
  'Volumes that are, or were, on a shelf: in full as soon as each has been asked for by its id; until then as the list of a shelf shortens them.';
comment on column books.volumes.title is 'Title.';
comment on column books.volumes.subtitle is 'Subtitle.';
comment on column books.volumes.authors is 'Authors in their order; null where the source names none.';
comment on column books.volumes.publisher is 'Publisher.';
comment on column books.volumes.published_date is
  'When it was published, as the source writes it: 2019-10-03, 1999-05, 1999, 19?? or otherwise.';
comment on column books.volumes.published_year is 'The year in published_date, where four digits begin it.';
comment on column books.volumes.description is 'Description; shortened while _detail is list.';
comment on column books.volumes.isbn_10 is 'ISBN of ten characters.';
comment on column books.volumes.isbn_13 is 'ISBN of thirteen digits.';
comment on column books.volumes.page_count is 'Number of pages; null where it is not known, which the source writes as 0.';
comment on column books.volumes.print_type is 'BOOK or MAGAZINE; other values pass as they come.';
comment on column books.volumes.categories is 'Subjects in their order.';
comment on column books.volumes.average_rating is 'Mean rating, 1 to 5.';
comment on column books.volumes.ratings_count is 'How many ratings that is the mean of.';
comment on column books.volumes.maturity_rating is 'NOT_MATURE or MATURE; other values pass as they come.';
comment on column books.volumes.language is 'Language code; null while _detail is list, since lists leave it out.';
comment on column books.volumes.list_price is 'Suggested retail price, exactly as written.';
comment on column books.volumes.list_price_currency is 'Currency of list_price.';
comment on column books.volumes.retail_price is 'Price at which it is sold, exactly as written.';
comment on column books.volumes.retail_price_currency is 'Currency of retail_price.';
comment on column books.volumes.saleability is 'FOR_SALE, FREE, NOT_FOR_SALE, FOR_PREORDER or otherwise.';
comment on column books.volumes.viewability is 'How much of it may be read: NO_PAGES, PARTIAL, ALL_PAGES or otherwise.';
comment on column books.volumes.country is 'The country that prices and saleability are told for.';
comment on column books.volumes.canonical_link is 'The page of the volume.';
comment on column books.volumes.thumbnail is
  'A link to its cover, as it was when the content last changed: such links vary from reply to reply, and are not compared.';
comment on column books.volumes._detail is
  'full: as the source shows the volume by its id; list: as the list of a shelf shortens it.';
comment on column books.volumes._checked_at is
  'When the source was last asked for the volume by its id, by the source''s clock; null if never yet.';
comment on column books.volumes._waits_since is
  'The list of a shelf showed it, new or changed, at this time, and it has not been asked for by its id since; null where nothing is to be asked.';
comment on column books.volumes._observed_at is 'The content is as the source showed it at this time, by the source''s clock.';
comment on column books.volumes._payload is
  'The record as it came, unknown fields included; without what varies from reply to reply though nothing changed (etag, searchInfo, preview, info and image links).';

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
comment on table books.shelf_volumes is
  'Which volume is on which shelf, and where. Those with _removed_at were on it and are not any more.';
comment on column books.shelf_volumes.owner_id is 'The owner of the shelf; joins books.shelves.owner_id.';
comment on column books.shelf_volumes.shelf_id is 'The shelf; joins books.shelves.id.';
comment on column books.shelf_volumes.volume_id is 'The volume; joins books.volumes.id.';
comment on column books.shelf_volumes.position is
  'Its place on the shelf, from 0, as startIndex counts; once removed, the last one that it had.';
comment on column books.shelf_volumes._removed_at is
  'By this time it was not on the shelf any more; when at the earliest, change_after in books.shelf_volume_history tells. Null while it is there.';
comment on column books.shelf_volumes._observed_at is
  'The content is as the source showed it at this time, by the source''s clock.';
comment on column books.shelf_volumes._payload is
  'The volume as the list of this shelf shows it, without what varies from reply to reply.';

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
comment on table books.shelf_volume_history is
  'Where each volume stood on each shelf, and from when to when. The source announces no change: each one happened after change_after, and by valid_from.';
comment on column books.shelf_volume_history.owner_id is 'The owner of the shelf; joins books.shelves.owner_id.';
comment on column books.shelf_volume_history.shelf_id is 'The shelf; joins books.shelves.id.';
comment on column books.shelf_volume_history.volume_id is 'The volume; joins books.volumes.id.';
comment on column books.shelf_volume_history.position is 'Its place on the shelf, from 0; null while it was not on it.';
comment on column books.shelf_volume_history.valid_from is
  'From then on: when the shelf says that its volumes were last updated, if that has moved; else when the change was seen.';
comment on column books.shelf_volume_history.valid_to is 'Up to then, without; null if it is so still.';
comment on column books.shelf_volume_history.change_after is
  'The change happened after this time: when the shelf was last read whole before it. Null where the shelf had not been read before.';

create table sync.shelf_readings (
  account_id text,
  owner_id text,
  shelf_id text,
  as_of timestamptz,
  version text,
  primary key (account_id, owner_id, shelf_id)
);
comment on table sync.shelf_readings is
  'When each shelf was last read whole. As long as the list of shelves shows the same version, and that is not too long ago, its volumes are not asked for.';
comment on column sync.shelf_readings.owner_id is 'The owner of the shelf.';
comment on column sync.shelf_readings.shelf_id is 'The shelf.';
comment on column sync.shelf_readings.as_of is
  'books.shelf_volumes shows what was on it at this time, by the source''s clock; null if it was never read whole.';
comment on column sync.shelf_readings.version is
  'When its volumes were last updated, and how many there were, as the catalog said before they were read; null where it does not say. A word where that proves nothing: unsettled (the second of the last update was not over), gone, or doubted (fewer were shown than counted; what was found).';

create or replace view sync.waiting_volumes as
select v.account_id, v.id, v._waits_since as waits_since,
  exists (
    select from sync.rejects r
    where r.account_id = v.account_id and r.stream_key = 'books.volumes' and r.ask_id = v.id and r.cleared_at is null) as rejected
from books.volumes v
where v._waits_since is not null and exists (
  select from books.shelf_volumes m
  join sync.coverage c on (c.account_id, c.stream_key, c.list) = (m.account_id, 'books.shelves', m.owner_id)
  where m.account_id = v.account_id and m.volume_id = v.id and m._removed_at is null);
comment on view sync.waiting_volumes is
  'Volumes on a shelf that are new or have changed there, and that have not been asked for by their id since; of owners that are mirrored.';
comment on column sync.waiting_volumes.account_id is 'The account.';
comment on column sync.waiting_volumes.id is 'The volume; joins books.volumes.id.';
comment on column sync.waiting_volumes.waits_since is 'When the list of a shelf showed it, by the source''s clock.';
comment on column sync.waiting_volumes.rejected is 'True if it was asked for and could not be had; see sync.rejects.';

create trigger keep_change after update on books.shelves for each row when (((old._payload <> new._payload) or (old._deleted_at is distinct from new._deleted_at))) execute function sync.keep_change('owner_id', '{account_id}');
create trigger keep_change after update on books.volumes for each row when (((old._detail = 'full'::text) and ((old._payload <> new._payload) or (old._deleted_at is distinct from new._deleted_at)))) execute function sync.keep_change('', '{account_id,thumbnail}');
create trigger keep_change after update on books.shelf_volumes for each row when ((old._payload <> new._payload)) execute function sync.keep_change('owner_id,shelf_id', '{account_id,position}', 'volume_id');

-- Long texts are compressed when they are stored: by lz4, where the server was built with it, which is made to take less of the
-- processor than PostgreSQL's own way. What is stored already stays as it is, and is read as before.
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
    where c.relkind = 'r' and c.relnamespace::regnamespace::text in ('helpdesk', 'books')
      and a.attname in ('_payload', 'body', 'more_body', 'body_text')
  loop
    execute format('alter table %s alter column %I set compression lz4', one.relation, one.name);
  end loop;
end
$$;
