-- When do customers write?
-- Messages by the clock of the inbox or the account, over the last 13 weeks that are here: a mean week.
select created_hour as hour,
  round(count(*) filter (where extract(isodow from created_date) = 1) / 13.0, 1)::float8 as monday,
  round(count(*) filter (where extract(isodow from created_date) = 2) / 13.0, 1)::float8 as tuesday,
  round(count(*) filter (where extract(isodow from created_date) = 3) / 13.0, 1)::float8 as wednesday,
  round(count(*) filter (where extract(isodow from created_date) = 4) / 13.0, 1)::float8 as thursday,
  round(count(*) filter (where extract(isodow from created_date) = 5) / 13.0, 1)::float8 as friday,
  round(count(*) filter (where extract(isodow from created_date) = 6) / 13.0, 1)::float8 as saturday,
  round(count(*) filter (where extract(isodow from created_date) = 7) / 13.0, 1)::float8 as sunday
from analytics.fact_messages
where kind = 'inbound'
  and created_at >= (select max(complete_through) - interval '91 days' from analytics.completeness where stream = 'messages')
group by created_hour
order by created_hour;
