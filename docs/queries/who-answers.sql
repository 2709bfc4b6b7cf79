-- Who answers how much?
-- The last four weeks that are here. Names are in helpdesk.users, for those who may see them.
with since as (
  select max(complete_through)::date - 28 as day from analytics.completeness where stream = 'messages'),
waits as (
  select r.user_key, percentile_cont(0.5) within group (order by r.wait_seconds) as median
  from analytics.fact_turns r
  join since s on r.answered_date > s.day
  group by r.user_key)
select a.user_id, sum(a.replies)::int as replies, sum(a.notes)::int as notes, sum(a.first_responses)::int as first_responses,
  sum(a.turns_answered)::int as waits_ended, round((w.median / 3600)::numeric, 1)::float8 as median_wait_hours
from analytics.agent_daily a
join since s on a.day > s.day
left join waits w on w.user_key = a.account_id || '/' || a.user_id
group by a.account_id, a.user_id, w.median
order by replies desc, a.user_id
limit 10;
