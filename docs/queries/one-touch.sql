-- How many tickets need a single reply?
select type as channel, count(*) as answered, count(*) filter (where is_one_touch) as one_reply,
  round(100.0 * count(*) filter (where is_one_touch) / count(*), 1)::float8 as percent,
  round(avg(turns), 1)::float8 as waits_per_ticket
from analytics.fact_tickets
where authored_count > 0 and messages_complete
group by type
order by answered desc, channel;
