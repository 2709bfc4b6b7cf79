-- Up Migration

-- The second service: a catalog of books. Its specification shows no fields, and real ones leave keys out, so every column
-- that comes from there may be null. No foreign keys, as in helpdesk; every join column is indexed.

create schema books;
comment on schema books is
  'The mirror of the book catalog: shelves, the volumes on them, and where each volume stood when. Read sync.status to see up to when it is complete.';

-- For ranges that must not overlap; a trusted extension, so that whoever may create schemas may create it.
create extension if not exists btree_gist with schema sync;

create table books.shelves (
  account_id text not null,
  owner_id text not null,
  id text not null,
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
comment on column books.shelves.owner_id is 'The user whose shelf it is (BOOKS_USERS), or mylibrary: the library of whoever the token belongs to.';
comment on column books.shelves.id is 'Id at the source; only together with owner_id it names one shelf.';
comment on column books.shelves.title is 'Title.';
comment on column books.shelves.description is 'Description.';
comment on column books.shelves.access is 'PUBLIC or PRIVATE; other values pass as they come.';
comment on column books.shelves.created_at is 'When the shelf was created, at the source.';
comment on column books.shelves.updated_at is 'When its title, description or access was last changed, at the source.';
comment on column books.shelves.volumes_last_updated_at is 'When volumes were last put on it or taken off, at the source. Whether a move within the shelf shows here is not known.';
comment on column books.shelves.volume_count is 'How many volumes the source says that it holds; what is on it, books.shelf_volumes tells.';

create table books.volumes (
  account_id text not null,
  id text not null,
  title text,
  subtitle text,
  authors text[],
  publisher text,
  published_date text,
  published_year int,
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
  _detail text not null default 'list',
  _checked_at timestamptz,
  _waits_since timestamptz,
  _first_seen_at timestamptz not null,
  _synced_at timestamptz not null,
  _observed_at timestamptz not null,
  _deleted_at timestamptz,
  _payload jsonb not null,
  primary key (account_id, id)
);
-- Which volumes wait to be read in full is derived, not kept: this index is the queue of their reader.
create index volumes_waiting on books.volumes (account_id, _waits_since) where _waits_since is not null;
create index volumes_checked on books.volumes (account_id, _checked_at);
comment on table books.volumes is
  'Volumes that are, or were, on a shelf: in full as soon as each has been asked for by its id; until then as the list of a shelf shortens them.';
comment on column books.volumes.title is 'Title.';
comment on column books.volumes.subtitle is 'Subtitle.';
comment on column books.volumes.authors is 'Authors in their order; null where the source names none.';
comment on column books.volumes.publisher is 'Publisher.';
comment on column books.volumes.published_date is 'When it was published, as the source writes it: 2019-10-03, 1999-05, 1999, 19?? or otherwise.';
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
comment on column books.volumes.thumbnail is 'A link to its cover, as it was when the content last changed: such links vary from reply to reply, and are not compared.';
comment on column books.volumes._detail is 'full: as the source shows the volume by its id; list: as the list of a shelf shortens it.';
comment on column books.volumes._checked_at is 'When the source was last asked for the volume by its id, by the source''s clock; null if never yet.';
comment on column books.volumes._waits_since is
  'The list of a shelf showed it, new or changed, at this time, and it has not been asked for by its id since; null where nothing is to be asked.';

create table books.shelf_volumes (
  account_id text not null,
  owner_id text not null,
  shelf_id text not null,
  volume_id text not null,
  position int not null,
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
comment on column books.shelf_volumes.position is 'Its place on the shelf, from 0, as startIndex counts; once removed, the last one that it had.';
comment on column books.shelf_volumes._removed_at is
  'By this time it was not on the shelf any more; when at the earliest, change_after in books.shelf_volume_history tells. Null while it is there.';
comment on column books.shelf_volumes._payload is
  'The volume as the list of this shelf shows it, without what varies from reply to reply.';

create table books.shelf_volume_history (
  account_id text not null,
  owner_id text not null,
  shelf_id text not null,
  volume_id text not null,
  position int,
  valid_from timestamptz not null,
  valid_to timestamptz,
  change_after timestamptz,
  primary key (account_id, owner_id, shelf_id, volume_id, valid_from),
  check (valid_from < valid_to),
  constraint shelf_volume_history_no_overlap exclude using gist (
    account_id with =, owner_id with =, shelf_id with =, volume_id with =, tstzrange(valid_from, valid_to) with &&)
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

do $$
declare
  said record;
begin
  for said in
    select c.relname as table_name, a.attname as column_name, m.meaning
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
    join (values
      ('account_id', 'The operator''s name for the mirrored account; part of every key.'),
      ('id', 'Id at the source: opaque text.'),
      ('_first_seen_at', 'When this row was first written here.'),
      ('_synced_at', 'When the content of this row last changed here.'),
      ('_observed_at', 'The content is as the source showed it at this time, by the source''s clock.'),
      ('_deleted_at', 'When the source was found to have it no more; null while it is there.'),
      ('_payload', 'The record as it came, unknown fields included; without what varies from reply to reply though nothing changed (etag, searchInfo, preview, info and image links).')
    ) m (name, meaning) on m.name = a.attname
    where c.relnamespace = 'books'::regnamespace and c.relkind = 'r' and col_description(c.oid, a.attnum) is null
  loop
    execute format('comment on column books.%I.%I is %L', said.table_name, said.column_name, said.meaning);
  end loop;
end
$$;

-- The streams are named here as well, for what SQL has to know of them. A new one brings its row with its migration.
create table sync.streams (
  stream text primary key,
  source text not null,
  place int not null unique,
  follows text,
  one_reader boolean not null
);
insert into sync.streams (stream, source, place, follows, one_reader) values
  ('users', 'helpdesk', 1, null, false),
  ('customers', 'helpdesk', 2, null, false),
  ('tickets', 'helpdesk', 3, null, false),
  ('messages', 'helpdesk', 4, 'tickets', true),
  ('shelves', 'books', 5, null, true),
  ('volumes', 'books', 6, 'shelves', true);
comment on table sync.streams is 'What is mirrored, one row for each stream.';
comment on column sync.streams.stream is 'The stream.';
comment on column sync.streams.source is 'Where it is read from: helpdesk or books. Streams of two sources do not wait for each other.';
comment on column sync.streams.place is 'Its place in a run: streams of one source are read one after the other.';
comment on column sync.streams.follows is 'The stream that tells what is to be read of this one, by id; null where lists are read.';
comment on column sync.streams.one_reader is 'True if one run at a time reads it; false if a backfill of its holes may be at work beside another run.';

-- Each source of an account has an address and a budget of its own.
alter table sync.accounts add column books_source text not null default '';
comment on column sync.accounts.books_source is
  'The address that its books are read from; empty if no catalog was ever configured.';
comment on column sync.accounts.source is
  'The address that its help desk is read from: what was read from one says nothing about another. Empty if none was ever configured.';

alter table sync.budget
  add column source text not null default 'helpdesk',
  drop constraint budget_pkey,
  add primary key (account_id, source);
comment on column sync.budget.source is 'helpdesk or books: each has credits of its own. A credit of the catalog is a request.';
alter table sync.credit_minutes
  add column source text not null default 'helpdesk',
  drop constraint credit_minutes_pkey,
  add primary key (account_id, source, minute);
comment on column sync.credit_minutes.source is 'helpdesk or books. A credit of the catalog is a request.';

create table sync.shelf_readings (
  account_id text not null,
  owner_id text not null,
  shelf_id text not null,
  as_of timestamptz,
  version text,
  primary key (account_id, owner_id, shelf_id)
);
comment on table sync.shelf_readings is
  'When each shelf was last read whole. As long as the list of shelves shows the same version, and that is not too long ago, its volumes are not asked for.';
comment on column sync.shelf_readings.account_id is 'The operator''s name for the mirrored account; part of every key.';
comment on column sync.shelf_readings.owner_id is 'The owner of the shelf.';
comment on column sync.shelf_readings.shelf_id is 'The shelf.';
comment on column sync.shelf_readings.as_of is
  'books.shelf_volumes shows what was on it at this time, by the source''s clock; null if it was never read whole.';
comment on column sync.shelf_readings.version is
  'When its volumes were last updated, and how many there were, as the catalog said before they were read; null where it does not say. '
  'A word where that proves nothing: unsettled (the second of the last update was not over), gone, or doubted (fewer were shown than counted; what was found).';

comment on column sync.coverage.stream is
  'users, customers, tickets or shelves (what messages and volumes lack follows from tickets and shelves).';
comment on column sync.coverage.list is
  'default, or a list of its own that the source may hide from the default one (spam, trash); of shelves: their owner.';
comment on column sync.coverage.covered is
  'Ranges read and committed: of update time for tickets, of creation time for customers, of knowledge for users and shelves.';

-- A quota of a day is slept over.
alter table sync.stored_run_streams add column sleeps_until timestamptz;
comment on column sync.stored_run_streams.sleeps_until is
  'The requests of the day were spent: a worker goes on with the stream at this time. Null otherwise.';

create or replace view sync.run_streams as
select s.run_id, s.account_id, s.stream, s.token,
  case when s.state = 'running' and not sync.is_alive(s.worker) then 'interrupted' else s.state end as state,
  s.expected, s.seen, s.inserted, s.updated, s.unchanged, s.deleted, s.rejected, s.cleaned, s.credits, s.carried_from,
  case when s.state = 'waiting' then s.waits_for end as waits_for,
  s.worker, s.job, s.started_at, s.finished_at, s.error, s.remedy, s.exit_code, s.sleeps_until
from sync.stored_run_streams s;
comment on column sync.run_streams.sleeps_until is
  'The requests of the day were spent: a worker goes on with the stream at this time. Null otherwise.';

create view sync.waiting_volumes as
select v.account_id, v.id, v._waits_since as waits_since,
  exists (
    select from sync.rejects r
    where r.account_id = v.account_id and r.stream = 'volumes' and r.ask_id = v.id and r.cleared_at is null) as rejected
from books.volumes v
where v._waits_since is not null and exists (
  select from books.shelf_volumes m
  join sync.coverage c on (c.account_id, c.stream, c.list) = (m.account_id, 'shelves', m.owner_id)
  where m.account_id = v.account_id and m.volume_id = v.id and m._removed_at is null);
comment on view sync.waiting_volumes is
  'Volumes on a shelf that are new or have changed there, and that have not been asked for by their id since; of owners that are mirrored.';
comment on column sync.waiting_volumes.account_id is 'The account.';
comment on column sync.waiting_volumes.id is 'The volume; joins books.volumes.id.';
comment on column sync.waiting_volumes.waits_since is 'When the list of a shelf showed it, by the source''s clock.';
comment on column sync.waiting_volumes.rejected is 'True if it was asked for and could not be had; see sync.rejects.';

create or replace function sync.complete_through(account text, stream text) returns timestamptz
language sql stable
begin atomic
  select case
    when complete_through.stream = 'messages' then case
      -- least() passes over null, and what was never read is complete through nothing.
      when sync.lists_complete_through(account, 'tickets') is not null then least(
        sync.lists_complete_through(account, 'tickets'),
        (select t.updated_at
         from helpdesk.tickets t
         where t.account_id = account
           and (t._messages_as_of is null or t._messages_as_of < t.updated_at)
           and t._deleted_at is null
         order by t.updated_at
         limit 1)) end
    when complete_through.stream = 'volumes' then case
      when sync.lists_complete_through(account, 'shelves') is not null then least(
        sync.lists_complete_through(account, 'shelves'),
        (select min(w.waits_since) from sync.waiting_volumes w where w.account_id = account and not w.rejected)) end
    else sync.lists_complete_through(account, complete_through.stream)
  end;
end;
comment on function sync.complete_through(text, text) is
  'Up to this time the stream is complete in the mirror, but for its open rejects; null if it was never read. For messages: up to the first ticket that waits for its messages; for volumes: up to the first one that waits to be read in full.';

create or replace view sync.status as
select s.account_id, s.stream,
  sync.complete_through(s.account_id, s.stream) as complete_through,
  now() - sync.complete_through(s.account_id, s.stream) as lag,
  (select count(*) from sync.holes h where h.account_id = s.account_id and h.stream = s.stream) as holes,
  case s.stream
    when 'messages' then (
      select count(*) from helpdesk.tickets t
      where t.account_id = s.account_id
        and (t._messages_as_of is null or t._messages_as_of < t.updated_at)
        and t._deleted_at is null)
    when 'volumes' then (select count(*) from sync.waiting_volumes w where w.account_id = s.account_id)
    else 0 end as waiting,
  (select count(*) from sync.rejects r
   where r.account_id = s.account_id and r.stream = s.stream and r.cleared_at is null) as open_rejects,
  l.run_id as last_run,
  l.state as last_state,
  l.finished_at as last_finished_at,
  (select max(g.finished_at) from sync.stored_run_streams g
   where g.account_id = s.account_id and g.stream = s.stream and g.state = 'completed') as last_success_at,
  case when l.state = 'interrupted' and l.finished_at is null then 'its process is gone' else l.error end as last_error,
  case when l.state = 'interrupted' and l.finished_at is null
    then 'Nothing to do while a worker runs: it goes on there. Else run `npx shelfdesk start`, or the same command again.' else l.remedy end as remedy,
  k.source,
  l.sleeps_until
from (
  select distinct c.account_id, k.stream
  from sync.coverage c join sync.streams k on c.stream in (k.stream, k.follows)
) s
join sync.streams k using (stream)
left join lateral (
  select r.run_id, case when r.state = 'waiting' and u.state = 'interrupted' then u.state else r.state end as state,
    r.finished_at, r.error, r.remedy, r.sleeps_until
  from sync.run_streams r join sync.runs u on u.id = r.run_id
  where r.account_id = s.account_id and r.stream = s.stream
  order by r.run_id desc
  limit 1
) l on true;
comment on column sync.status.waiting is
  'Tickets that wait for their messages, volumes that wait to be read in full.';
comment on column sync.status.source is 'helpdesk or books.';
comment on column sync.status.sleeps_until is
  'The requests of the day were spent: a worker goes on with the stream at this time. Null otherwise.';

comment on table sync.rejects is
  'Records that could not be stored, and tickets and volumes that could not be read by their id. Nothing else was held up by them.';
comment on column sync.rejects.ask_id is
  'The id by which the source is asked again: the record''s own, or its ticket''s. Of shelves: the owner, shelf or volumes of a shelf that it came with.';
comment on column sync.rejects.next_try_at is
  'When the source is asked again, by a run that is then at work; null: never by itself. Shelves are not asked for: they are read again when they change, or are old.';
comment on column sync.rejects.gone_at is
  'When the source, asked by id, first said that it has it no more; said again, a ticket gets its tombstone.';
comment on table sync.run_lists is
  'How far a backfill reads each list, from its first look on; and what one that reads again (--again) has read so far.';
comment on column sync.run_lists.until is
  'Up to here: as the run was told, else up to the top of what was covered when it first looked. Of shelves and volumes: what was read before this time is read again.';
comment on table sync.budget is
  'The credits of each source of an account at this moment, shared by all processes on all machines. For reports read sync.credit_minutes.';
comment on column sync.credit_minutes.refused is
  'Requests that the source refused for want of credits (429, and of the catalog 403). Credits are counted for them only if it said so.';
comment on column sync.stored_runs.kind is
  'sync: a command; backfill: a command, or the night for customers; fresh and nightly: the schedule, and fresh also what slept over a spent day; hydrate: tickets or volumes wait to be asked for by id.';
comment on column sync.runs.kind is
  'sync: a command; backfill: a command, or the night for customers; fresh and nightly: the schedule, and fresh also what slept over a spent day; hydrate: tickets or volumes wait to be asked for by id.';
