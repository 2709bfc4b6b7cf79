-- Problems and alarms.

create table sync.alarms (
  id bigint generated always as identity primary key,
  account_id text not null,
  problem text not null,
  stream text default '' not null,
  severity text not null,
  says text not null,
  remedy text not null,
  began_at timestamptz not null,
  gone_at timestamptz,
  ended_at timestamptz,
  begin_delivered_at timestamptz,
  end_delivered_at timestamptz,
  tries integer default 0 not null,
  next_try_at timestamptz,
  last_error text,
  source text default '' not null,
  stream_key text generated always as (
case stream
    when '' then source
    else (source || '.' || stream)
end) stored not null,
  constraint alarms_source_and_stream check (stream = '' or source <> '')
);

create index alarms_due on sync.alarms (next_try_at) where (next_try_at is not null);

create unique index alarms_open on sync.alarms (account_id, problem, stream_key) where (ended_at is null);
