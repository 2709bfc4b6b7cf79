-- What was put on the shelves, moved and taken off, week by week?
-- The catalog announces nothing: what came and went between two readings is not here. Weeks are those of the account's time zone.
select date_trunc('week', e."at" at time zone a.time_zone)::date as week, count(*) filter (where e.event = 'added') as added,
  count(*) filter (where e.event = 'moved') as moved, count(*) filter (where e.event = 'removed') as removed,
  count(distinct e.volume_id) as volumes
from analytics.shelf_events e
join analytics.dim_account a using (account_id)
where e.event <> 'found'
group by 1
order by 1 desc
limit 8;
