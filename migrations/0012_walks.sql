-- Up Migration

-- A walk by creation reads what was updated since some time: where paging does not reach the end of a crowd of updates.
alter table sync.walks add column updated_since timestamptz;
comment on column sync.walks.updated_since is
  'The walk reads only what was updated since this time, by creation, from `since` on; null: a walk by pages.';
comment on table sync.walks is
  'The place of a walk: by pages, from the last page to the first, or by creation. It proves nothing before its end, and then becomes coverage.';
