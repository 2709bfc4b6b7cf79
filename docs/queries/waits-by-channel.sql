-- On which channel do customers wait, and how often?
-- A wait begins with a message of the customer and ends with the next one that somebody of the team wrote; automatic replies end none.
-- Tickets whose messages are not all here are left out.
select ticket_type as channel, count(*) as waits, count(*) filter (where not is_answered) as not_ended,
  round((percentile_cont(0.5) within group (order by wait_seconds) / 3600)::numeric(18, 6), 1)::float8 as median_hours,
  round((max(wait_seconds) / 86400)::numeric(18, 6), 1)::float8 as longest_days
from analytics.fact_turns
where messages_complete
group by ticket_type
order by waits desc, channel;
