-- A shelf that is gone has no reading: one that comes back would look empty until it is read.

update sync.shelf_readings set as_of = null where version = 'gone';
comment on column sync.shelf_readings.as_of is
  'books.shelf_volumes shows the content of the shelf at this time, by the source''s clock. Null if the shelf was never read whole, or not since it was gone.';
