-- Up Migration

-- One row for each account, changed at every request: half of each page is left free, so that a change stays on its page
-- and needs no index entry. The state stays in the row (main), because a detour through TOAST would double the writes.
create table sync.budget (
  account_id text primary key,
  state jsonb not null,
  version bigint not null default 1
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
alter table sync.budget alter column state set storage main;
comment on table sync.budget is
  'The credits of an account at this moment, shared by all processes on all machines. For reports read sync.credit_minutes.';
comment on column sync.budget.account_id is 'The operator''s name for the account.';
comment on column sync.budget.state is
  'What is in flight, what was answered within the last period, who waits, and what the source said last. '
  'Times are milliseconds since 1970 by the clock of this database.';
comment on column sync.budget.version is
  'Grows by one at each change; a change made from an older version is refused and made again.';

create table sync.credit_minutes (
  account_id text not null,
  minute timestamptz not null,
  credit_limit bigint not null,
  interactive bigint not null default 0,
  fresh bigint not null default 0,
  backfill bigint not null default 0,
  others bigint not null default 0,
  waited_ms bigint not null default 0,
  refused bigint not null default 0,
  primary key (account_id, minute)
);
comment on table sync.credit_minutes is
  'What the credits of an account were spent on, minute by minute. A minute without a request has no row.';
comment on column sync.credit_minutes.account_id is 'The operator''s name for the account.';
comment on column sync.credit_minutes.minute is
  'The beginning of the minute, by the clock of this database. A request belongs to the minute of its reply.';
comment on column sync.credit_minutes.credit_limit is
  'Credits a period that were allowed to all clients of the account together when the last reply came in.';
comment on column sync.credit_minutes.interactive is 'Credits we used for something that a person waits for.';
comment on column sync.credit_minutes.fresh is 'Credits we used to keep up with what has just changed.';
comment on column sync.credit_minutes.backfill is 'Credits we used to read history.';
comment on column sync.credit_minutes.others is
  'The most credits of one period that, in this minute, were seen to be used by other clients of the account.';
comment on column sync.credit_minutes.waited_ms is
  'Milliseconds that the requests of this minute, all together, had waited for credits.';
comment on column sync.credit_minutes.refused is
  'Requests that the source refused for want of credits (429). Credits are counted for them only if it said so.';
