-- When do customers write?
-- Messages by the clock of the inbox or the account, over the last 13 weeks that are here: a mean week.
select local_hour as hour,
  round(sum(inbound_messages) filter (where local_weekday = 1) / 13.0, 1)::float8 as monday,
  round(sum(inbound_messages) filter (where local_weekday = 2) / 13.0, 1)::float8 as tuesday,
  round(sum(inbound_messages) filter (where local_weekday = 3) / 13.0, 1)::float8 as wednesday,
  round(sum(inbound_messages) filter (where local_weekday = 4) / 13.0, 1)::float8 as thursday,
  round(sum(inbound_messages) filter (where local_weekday = 5) / 13.0, 1)::float8 as friday,
  round(sum(inbound_messages) filter (where local_weekday = 6) / 13.0, 1)::float8 as saturday,
  round(sum(inbound_messages) filter (where local_weekday = 7) / 13.0, 1)::float8 as sunday
from analytics.arrivals_hourly
where hour >= (select max(complete_through) - interval '91 days' from analytics.completeness where stream = 'messages')
group by local_hour
order by local_hour;
