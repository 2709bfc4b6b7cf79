-- Up Migration

-- The column by which a stream dates its records, for sync.newest_change.
alter table sync.streams add column dated_by text;
update sync.streams set dated_by = 'updated_at' where stream_key = 'helpdesk.tickets';
