-- Credits: requests in flight, and spent credits.

create table sync.budget (
  account_id text,
  version bigint default 1 not null,
  source text default 'helpdesk',
  state json not null,
  primary key (account_id, source)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

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

alter table sync.budget alter column state set storage main;
