-- Who answers how much?
-- The last four weeks that are here. Names are in helpdesk.users, for those who may see them.
with since as materialized (
  select max(complete_through) - 28 * interval '24 hours' as begun from analytics.completeness where source = 'helpdesk' and stream = 'messages'),
replies as (
  select user_key, count(*) filter (where kind = 'authored') as replies, count(*) filter (where kind = 'note') as notes
  from analytics.fact_messages
  where created_at > (select begun from since) and kind in ('authored', 'note') and user_key is not null
  group by user_key),
waits as (
  select user_key, count(*) as ended, count(*) filter (where is_first_response) as first_responses,
    percentile_cont(0.5) within group (order by wait_seconds) as median
  from analytics.fact_turns
  where answered_at > (select begun from since)
  group by user_key)
select u.user_id, r.replies, r.notes, coalesce(w.first_responses, 0) as first_responses, coalesce(w.ended, 0) as waits_ended,
  round((w.median / 3600)::numeric(18, 6), 1)::float8 as median_wait_hours
from replies r
join analytics.dim_user u using (user_key)
left join waits w using (user_key)
order by r.replies desc, u.user_id, u.user_key
limit 10;
