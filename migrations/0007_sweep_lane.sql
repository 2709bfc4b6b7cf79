-- Up Migration

-- What looks again at what has been read has a lane of its own, below the others.
alter table sync.credit_minutes add column sweep bigint not null default 0;
comment on column sync.credit_minutes.sweep is
  'Credits we used to look again at what had been read: sweeps, audits, verifications.';
comment on column sync.stored_runs.kind is
  'sync, backfill, verify: commands; fresh and nightly: the schedule, and fresh also what slept over a spent day; sweep: a command, or the night; hydrate: tickets or volumes wait to be asked for by id; audit: nobody else wants the credits.';
comment on column sync.runs.kind is
  'sync, backfill, verify: commands; fresh and nightly: the schedule, and fresh also what slept over a spent day; sweep: a command, or the night; hydrate: tickets or volumes wait to be asked for by id; audit: nobody else wants the credits.';
