-- Up Migration

-- A row for each minute is 525,600 a year for each source of an account. After five weeks the schedule adds them up by the hour,
-- after a year by the day: every sum stays what it is.
alter table sync.credit_minutes add column minutes int not null default 1;
comment on table sync.credit_minutes is
  'What the credits of an account were spent on: minute by minute, of what is more than five weeks ago hour by hour, of what is more than a year ago day by day. Where no request was sent there is no row.';
comment on column sync.credit_minutes.minutes is
  'How many minutes the row stands for: 1, an hour (60) or a day (1440) of the account''s time zone.';
comment on column sync.credit_minutes.minute is
  'The beginning of the minute or the hour, by the clock of this database; of a day the first hour with a request. A request belongs to the minute of its reply.';
comment on column sync.credit_minutes.others is
  'The most credits of one period that, in this minute, were seen to be used by other clients of the account. Of an hour or a day: the sum of that over its minutes.';
comment on column sync.credit_minutes.waited_ms is
  'Milliseconds that the requests of this row, all together, had waited for credits.';
comment on column sync.credit_minutes.requests is
  'Requests that were answered in this time, refusals and time-outs among them. Nothing before this column was there.';

create or replace view analytics.fact_credits with (security_barrier) as
select m.account_id || '/' || m.source || '/' || to_char(m.hour at time zone 'UTC', 'YYYY-MM-DD"T"HH24') as credit_key,
  (m.hour at time zone z.time_zone)::date as date_key, m.account_id as account_key, m.source, m.hour,
  m.interactive, m.fresh, m.backfill, m.sweep, m.others, m.refused, m.waited_seconds, m.hours
from (
  select c.account_id, c.source, date_trunc('hour', c.minute, 'UTC') as hour,
    sum(c.interactive)::bigint as interactive, sum(c.fresh)::bigint as fresh, sum(c.backfill)::bigint as backfill,
    sum(c.sweep)::bigint as sweep, sum(c.others)::bigint as others, sum(c.refused)::bigint as refused,
    (sum(c.waited_ms) / 1000)::float8 as waited_seconds, case when max(c.minutes) > 60 then 24 else 1 end as hours
  from sync.credit_minutes c
  where c.account_id = any (array(select account_id from sync.readable_accounts))
  group by c.account_id, c.source, date_trunc('hour', c.minute, 'UTC')) m
join analytics.account_zones z on z.account_id = m.account_id;
comment on view analytics.fact_credits is
  'One row for each hour and source in which requests were sent: what they cost, and what for. Of what is more than a year ago one row for each day.';
comment on column analytics.fact_credits.hour is 'When the hour began; of a day the first hour with a request.';
comment on column analytics.fact_credits.hours is 'How many hours the row stands for: 1, or a day (24) of what is more than a year ago.';
