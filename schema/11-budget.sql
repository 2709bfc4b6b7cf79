-- Credits: what is in flight, and what was spent.

create table sync.budget (
  account_id text,
  version bigint default 1 not null,
  source text default 'helpdesk',
  state json not null,
  primary key (account_id, source)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table sync.budget is
  'The credits of each source of an account at this moment, shared by all processes on all machines. For reports read sync.credit_minutes.';
comment on column sync.budget.account_id is 'The operator''s name for the account.';
comment on column sync.budget.version is
  'Grows by one at each change; a change made from an older version is refused and made again.';
comment on column sync.budget.source is 'helpdesk or books: each has credits of its own. A credit of the catalog is a request.';
comment on column sync.budget.state is
  'What is in flight, what was answered within the last period, who waits, and what the source said last. Times are milliseconds since 1970 by the clock of this database.';

create table sync.credit_minutes (
  account_id text,
  minute timestamptz,
  credit_limit bigint not null,
  interactive bigint default 0 not null,
  fresh bigint default 0 not null,
  backfill bigint default 0 not null,
  others bigint default 0 not null,
  waited_ms bigint default 0 not null,
  refused bigint default 0 not null,
  source text default 'helpdesk',
  sweep bigint default 0 not null,
  requests bigint default 0 not null,
  took_ms bigint default 0 not null,
  followed bigint default 0 not null,
  between_ms bigint default 0 not null,
  minutes integer default 1 not null,
  primary key (account_id, source, minute)
);
comment on table sync.credit_minutes is
  'What the credits of an account were spent on: minute by minute, of what is more than five weeks ago hour by hour, of what is more than a year ago day by day. Where no request was sent there is no row.';
comment on column sync.credit_minutes.account_id is 'The operator''s name for the account.';
comment on column sync.credit_minutes.minute is
  'The beginning of the minute or the hour, by the clock of this database; of a day the first hour with a request. A request belongs to the minute of its reply.';
comment on column sync.credit_minutes.credit_limit is
  'Credits a period that were allowed to all clients of the account together when the last reply came in.';
comment on column sync.credit_minutes.interactive is 'Credits we used for something that a person waits for.';
comment on column sync.credit_minutes.fresh is 'Credits we used to keep up with what has just changed.';
comment on column sync.credit_minutes.backfill is 'Credits we used to read history.';
comment on column sync.credit_minutes.others is
  'The most credits of one period that, in this minute, were seen to be used by other clients of the account. Of an hour or a day: the sum of that over its minutes.';
comment on column sync.credit_minutes.waited_ms is
  'Milliseconds that the requests of this row, all together, had waited for credits.';
comment on column sync.credit_minutes.refused is
  'Requests that the source refused for want of credits (429, and of the catalog 403). Credits are counted for them only if it said so.';
comment on column sync.credit_minutes.source is 'helpdesk or books. A credit of the catalog is a request.';
comment on column sync.credit_minutes.sweep is
  'Credits we used to look again at what had been read: sweeps, audits, verifications.';
comment on column sync.credit_minutes.requests is
  'Requests that were answered in this time, refusals and time-outs among them. Nothing before this column was there.';
comment on column sync.credit_minutes.took_ms is
  'How long they took together, from the grant of their credits to the reply, in milliseconds.';
comment on column sync.credit_minutes.followed is
  'Of these requests those that followed another one of the same process at once, where none was on its way beside it.';
comment on column sync.credit_minutes.between_ms is
  'How long it took together from the reply before to the next request of theirs: to store what came, in milliseconds.';
comment on column sync.credit_minutes.minutes is
  'How many minutes the row stands for: 1, an hour (60) or a day (1440) of the account''s time zone.';

alter table sync.budget alter column state set storage main;
