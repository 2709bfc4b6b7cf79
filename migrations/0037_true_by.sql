-- Up Migration

-- A reply is complete as of its Date less its duration and a second, which is early on purpose: coverage is claimed up to there.
-- It was true by its Date and the grain of the Date, one second. What a version or a change is bounded by from above is this.
-- Rows of before have none: a reply took 30 seconds at most, so that each was true within a minute of `_observed_at`.
alter table helpdesk.tickets add column _true_by timestamptz;
comment on column helpdesk.tickets._true_by is
  'The source had shown the content by this time, by its own clock: the Date of the reply and the second of its grain. _observed_at is early on purpose, and is the time up to which the reply was complete. Null where nobody noted it (rows from before this column, and rejects that were replayed): then within a minute after _observed_at.';
