-- Up Migration

create or replace view internal.lake_completeness as
select s.account_id, s.source, s.stream, s.complete_through, s.gaps, s.waiting, s.open_rejects, s.deletes_checked_at,
  case when s.state in ('paused', 'never_synced', 'failing') or s.behind is null then s.state end as settled_state,
  -- The lag grows with the clock, so this stands still.
  date_trunc('second', now() - s.behind) as reached,
  extract(epoch from s.target)::float8 as target_seconds,
  s.sleeps_until
from sync.status s;
comment on view internal.lake_completeness is
  'What the state of each stream follows from at any time. The lake has it, because its readers come later.';
comment on column internal.lake_completeness.account_id is 'The account.';
comment on column internal.lake_completeness.source is 'Source of the stream.';
comment on column internal.lake_completeness.stream is 'The stream.';
comment on column internal.lake_completeness.complete_through is 'As in sync.status.';
comment on column internal.lake_completeness.gaps is 'As in sync.status.';
comment on column internal.lake_completeness.waiting is 'As in sync.status.';
comment on column internal.lake_completeness.open_rejects is 'As in sync.status.';
comment on column internal.lake_completeness.deletes_checked_at is 'As in sync.status.';
comment on column internal.lake_completeness.settled_state is 'The state, if it does not follow the clock.';
comment on column internal.lake_completeness.reached is 'The newest part of the stream is stored up to this time, by the clock of the warehouse.';
comment on column internal.lake_completeness.target_seconds is 'Freshness target.';
comment on column internal.lake_completeness.sleeps_until is 'The daily quota defers the stream until this time.';
