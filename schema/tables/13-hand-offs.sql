-- Hand-offs: messages that a load is complete, and their deliveries.

create table sync.hand_off_settings (
  account_id text primary key,
  channels text[] not null,
  notify text,
  runs text[] not null,
  rejects_allowed integer default 0 not null,
  due_within interval,
  due_by time,
  time_zone text default 'UTC' not null,
  since timestamptz not null
);

create table sync.hand_offs (
  id bigint generated always as identity primary key,
  account_id text not null,
  run_id bigint not null,
  kind text not null,
  started_at timestamptz not null,
  ended_at timestamptz not null,
  issued_at timestamptz,
  certificate jsonb,
  withheld text,
  unique (account_id, run_id),
  constraint hand_offs_issued_or_withheld check ((certificate is null) = (issued_at is null) and (certificate is null) = (withheld is not null))
);

create index hand_offs_issued on sync.hand_offs (account_id, id desc) where (issued_at is not null);

create index hand_offs_undecided on sync.hand_offs (account_id, id desc) where (withheld ^@ 'it could not be decided: ');

create table sync.hand_off_deliveries (
  hand_off_id bigint,
  channel text,
  account_id text not null,
  tries integer default 0 not null,
  next_try_at timestamptz not null,
  held_by integer,
  delivered_at timestamptz,
  last_error text,
  primary key (hand_off_id, channel),
  foreign key (hand_off_id) references sync.hand_offs(id) on delete cascade
);

create index hand_off_deliveries_open on sync.hand_off_deliveries (account_id, channel, hand_off_id) where (delivered_at is null);
