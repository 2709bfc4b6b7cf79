-- Who solves how much, and what comes back within a week?
-- Closings of eight weeks, up to a week ago, by the team member who had the ticket then: the source does not say who closed it.
-- A ticket that was closed when the mirror first saw it is left out, unless its day is known. uncertain_day: it may have been on another day, mostly an earlier one.
with now as materialized (
  select max(complete_through) as now from analytics.completeness where source = 'helpdesk' and stream = 'tickets'),
-- Each closing, with the reopening that undid it.
closing as materialized (
  select ticket_key, max(user_key) filter (where event = 'closed') as user_key, bool_or(event = 'reopened' and happened_at <= closed_at + 7 * interval '24 hours') as came_back,
    bool_or(event = 'closed' and not is_day_certain) as is_day_uncertain
  from analytics.fact_ticket_events
  where event in ('closed', 'reopened') and (was_seen or is_day_certain) and happened_at > (select now - 63 * interval '24 hours' from now)
  group by ticket_key, coalesce(closed_at, happened_at)
  having bool_or(event = 'closed') and min(happened_at) <= (select now - 7 * interval '24 hours' from now)),
member as materialized (
  select user_key, count(*) as closed, count(*) filter (where came_back) as came_back, count(*) filter (where is_day_uncertain) as uncertain_day
  from closing
  group by user_key)
select coalesce(u.user_id, 'unassigned') as user_id, m.closed, m.came_back as back_within_a_week,
  round(100.0 * m.came_back / m.closed, 1)::float8 as percent, m.uncertain_day
from member m
left join analytics.dim_user u using (user_key)
order by m.closed desc, 1, m.user_key
limit 12;
