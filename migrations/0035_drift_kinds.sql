-- Up Migration

-- What else a record may show that no documentation says.
comment on column sync.drift.kind is 'unknown_field, unknown_value, wrong_type, unstorable; simplified_html: a body whose markup is too much of it, so that body_text has its words and not its layout; repeated_id: an id that comes twice in a reply, or is of another record already (two tickets with one message), so that one row is kept; or clock: the source''s clock moved by more than the lookback.';
comment on column sync.drift.path is 'Where in the record. …: kinds beyond the first hundred of a reply.';
comment on column sync.drift.value is 'The unknown value; of another record, for an id that moved from one record to another; empty otherwise.';
