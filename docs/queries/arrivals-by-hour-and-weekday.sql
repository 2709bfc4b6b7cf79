-- When do customers write?
-- Messages by the clock of the inbox or the account, in a mean week of the last 13 that are here, or of those since the first message that the mirror covers.
with here as (
  select until, greatest(until - 91 * interval '24 hours', (select case when count(mirrored_since) = count(*) then min(mirrored_since) end from analytics.dim_account)) as since
  from (select max(complete_through) as until from analytics.completeness where source = 'helpdesk' and stream = 'messages') c),
arrivals as (
  select m.created_hour as hour,
    count(*) filter (where extract(isodow from m.created_date) = 1) as monday,
    count(*) filter (where extract(isodow from m.created_date) = 2) as tuesday,
    count(*) filter (where extract(isodow from m.created_date) = 3) as wednesday,
    count(*) filter (where extract(isodow from m.created_date) = 4) as thursday,
    count(*) filter (where extract(isodow from m.created_date) = 5) as friday,
    count(*) filter (where extract(isodow from m.created_date) = 6) as saturday,
    count(*) filter (where extract(isodow from m.created_date) = 7) as sunday,
    greatest(1, (extract(epoch from h.until) - extract(epoch from min(min(m.created_at)) over ())) / 604800) as weeks
  from analytics.fact_messages m
  cross join here h
  where m.kind = 'inbound' and m.created_at >= (select since from here)
  group by m.created_hour, h.until)
select hour,
  round((monday / weeks)::numeric(18, 6), 1)::float8 as monday,
  round((tuesday / weeks)::numeric(18, 6), 1)::float8 as tuesday,
  round((wednesday / weeks)::numeric(18, 6), 1)::float8 as wednesday,
  round((thursday / weeks)::numeric(18, 6), 1)::float8 as thursday,
  round((friday / weeks)::numeric(18, 6), 1)::float8 as friday,
  round((saturday / weeks)::numeric(18, 6), 1)::float8 as saturday,
  round((sunday / weeks)::numeric(18, 6), 1)::float8 as sunday
from arrivals
order by hour;
