-- On which channel do customers wait, and how often?
-- A wait begins with a message of the customer and ends with the next one that somebody of the team wrote; automatic replies end none.
select t.type as channel, count(*) as waits, count(*) filter (where not r.is_answered) as not_ended,
  round((percentile_cont(0.5) within group (order by r.wait_seconds) / 3600)::numeric, 1)::float8 as median_hours,
  round((max(r.wait_seconds) / 86400)::numeric, 1)::float8 as longest_days
from analytics.fact_turns r
join analytics.fact_tickets t using (ticket_key)
group by t.type
order by waits desc, channel;
