comment on column books.shelves.owner_id is
  'Owner of the shelf: a user id from BOOKS_USERS, or mylibrary for the owner of the token.';
comment on column books.shelves._observed_at is 'The source showed this content at this time, by its own clock.';
comment on column books.shelves._payload is
  'The record as the source sent it, with unknown fields. Fields that vary between replies without a change are left out: etag, searchInfo, preview, info and image links.';
comment on table books.volumes is
  'Volumes that are or were on a shelf. A volume is complete once it was fetched by id; until then it holds the shorter record of the shelf''s list.';
comment on column books.volumes.authors is 'Authors in order; null if the source names none.';
comment on column books.volumes.description is 'Description; shortened while _detail is list.';
comment on column books.volumes.page_count is 'Number of pages; null if unknown, which the source writes as 0.';
comment on column books.volumes.language is 'Language code; null while _detail is list, because lists omit it.';
comment on column books.volumes._detail is
  'full: the record that the source shows by id; list: the shorter record of a shelf''s list.';
comment on column books.volumes._checked_at is 'Time of the last fetch by id, by the source''s clock; null if never.';
comment on column books.volumes._waits_since is
  'A shelf''s list showed the volume as new or changed at this time, and the fetch by id is pending. Null if none is pending.';
comment on column books.volumes._observed_at is 'The source showed this content at this time, by its own clock.';
comment on column books.volumes._payload is
  'The record as the source sent it, with unknown fields. Fields that vary between replies without a change are left out: etag, searchInfo, preview, info and image links.';
comment on table books.shelf_volumes is
  'Volumes on shelves, with their positions. Rows with _removed_at are former entries.';
comment on column books.shelf_volumes.owner_id is 'The owner of the shelf; joins books.shelves.owner_id.';
comment on column books.shelf_volumes.shelf_id is 'The shelf; joins books.shelves.id.';
comment on column books.shelf_volumes.volume_id is 'The volume; joins books.volumes.id.';
comment on column books.shelf_volumes.position is
  'Position on the shelf, from 0, like startIndex. For a removed volume: its last position.';
comment on column books.shelf_volumes._removed_at is
  'The volume had left the shelf by this time. The lower bound is change_after in books.shelf_volume_history. Null while the volume is on the shelf.';
comment on column books.shelf_volumes._observed_at is 'The source showed this content at this time, by its own clock.';
comment on column books.shelf_volumes._payload is
  'The volume as this shelf''s list shows it, without fields that vary between replies.';
comment on table books.shelf_volume_history is
  'Past and present position of each volume on each shelf. The source does not announce changes: each happened after change_after and by valid_from.';
comment on column books.shelf_volume_history.owner_id is 'The owner of the shelf; joins books.shelves.owner_id.';
comment on column books.shelf_volume_history.shelf_id is 'The shelf; joins books.shelves.id.';
comment on column books.shelf_volume_history.volume_id is 'The volume; joins books.volumes.id.';
comment on column books.shelf_volume_history.position is
  'Position on the shelf, from 0; null while the volume was not on the shelf.';
comment on column books.shelf_volume_history.valid_from is
  'Start of the row: the shelf''s volumes_last_updated_at, if it moved; else the time when the change was seen.';
comment on column books.shelf_volume_history.valid_to is 'End of the row, exclusive. Null for the current row.';
comment on column books.shelf_volume_history.change_after is
  'Lower bound of the time of the change: the previous full read of the shelf. Null if the shelf had not been read before.';
comment on table sync.shelf_readings is
  'Last full read of each shelf. While the list of shelves shows the same version, and the read is recent enough, the volumes are not read again.';
comment on column sync.shelf_readings.owner_id is 'The owner of the shelf.';
comment on column sync.shelf_readings.shelf_id is 'The shelf.';
comment on column sync.shelf_readings.as_of is
  'books.shelf_volumes shows the content of the shelf at this time, by the source''s clock. Null if the shelf was never read whole.';
comment on column sync.shelf_readings.version is
  'Time of the last update and number of volumes that the catalog stated before the read. Null if it states none. A word if the version proves nothing: unsettled (the second of the last update had not ended), gone, or doubted (fewer volumes were shown than counted; then with the result of the check).';

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
  'Volumes that are new or changed on a shelf of a mirrored owner and whose fetch by id is pending.';
comment on column sync.waiting_volumes.account_id is 'The account.';
comment on column sync.waiting_volumes.id is 'The volume; joins books.volumes.id.';
comment on column sync.waiting_volumes.waits_since is
  'Time when a shelf''s list showed the volume, by the source''s clock.';
comment on column sync.waiting_volumes.rejected is 'True if the fetch failed; see sync.rejects.';

create or replace trigger keep_change after update on books.shelves for each row when (((old._payload <> new._payload) or (old._deleted_at is distinct from new._deleted_at))) execute function sync.keep_change('owner_id', '{account_id}');

create or replace trigger keep_change after update on books.volumes for each row when (((old._detail = 'full'::text) and ((old._payload <> new._payload) or (old._deleted_at is distinct from new._deleted_at)))) execute function sync.keep_change('', '{account_id,thumbnail}');

create or replace trigger keep_change after update on books.shelf_volumes for each row when ((old._payload <> new._payload)) execute function sync.keep_change('owner_id,shelf_id', '{account_id,position}', 'volume_id');
