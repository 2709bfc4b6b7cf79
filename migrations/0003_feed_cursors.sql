-- Up Migration

-- Where the next run reads a feed of events.
alter table sync.walks add column cursor text;
