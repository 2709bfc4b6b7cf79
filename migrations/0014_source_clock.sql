-- Up Migration

-- What was claimed while the source's clock was ahead of what it shows now. Called with the word of a reply that it was set
-- back (sync.budget, `clock`), in the same statement.

create function sync.void_since(account text, source text, since timestamptz) returns void
language sql
begin atomic
  update sync.coverage c set covered = c.covered * tstzmultirange(tstzrange(null, since))
  from sync.streams k
  where k.source = void_since.source and c.stream = k.stream and c.account_id = account
    and c.covered && tstzrange(since, null);
  delete from sync.walks w using sync.streams k
  where k.source = void_since.source and w.stream = k.stream and w.account_id = account and w.as_of > since;
  delete from sync.swept s using sync.streams k
  where k.source = void_since.source and s.stream = k.stream and s.account_id = account and s.as_of > since;
  -- Rows from after that time give way to whatever is read from now on, also to a version that is dated earlier.
  update helpdesk.tickets t set
    _observed_at = least(t._observed_at, since - interval '1 hour'),
    _messages_as_of = case when t._messages_as_of > since then since else t._messages_as_of end
  where void_since.source = 'helpdesk' and t.account_id = account
    and (t.updated_at > since or t._observed_at > since or t._messages_as_of > since);
  update helpdesk.customers c set
    _observed_at = least(c._observed_at, since),
    _checked_at = case when c._checked_at > since then since else c._checked_at end
  where void_since.source = 'helpdesk' and c.account_id = account and (c._observed_at > since or c._checked_at > since);
  update helpdesk.users u set _observed_at = since
  where void_since.source = 'helpdesk' and u.account_id = account and u._observed_at > since;
end;
comment on function sync.void_since(text, text, timestamptz) is
  'The clock of the source was set back to this time: claims of complete, swept and checked end there, and rows of a later time give way to what is read next.';

comment on column sync.drift.kind is 'unknown_field, unknown_value, wrong_type, unstorable, or clock: the source''s clock moved by more than the lookback.';
