-- What was put on the shelves, moved and taken off, week by week?
-- The catalog announces nothing: what came and went between two readings is not here.
select date_trunc('week', "at")::date as week, count(*) filter (where event = 'added') as added,
  count(*) filter (where event = 'moved') as moved, count(*) filter (where event = 'removed') as removed,
  count(distinct volume_id) as volumes
from analytics.shelf_events
where event <> 'found'
group by 1
order by 1 desc
limit 8;
