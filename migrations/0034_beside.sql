-- Up Migration

-- What another run that was open when this one was asked for has read again, this one need not. By the clocks of those who end and
-- open runs that cannot be told: one that was ahead when it ended a run made it look like one beside all later ones, and
-- these read nothing. By the order of runs it can.
alter table sync.stored_runs add column beside bigint[] not null default '{}';
comment on column sync.stored_runs.beside is
  'Of a run that reads again: the runs of the account that were open when it was opened.';
