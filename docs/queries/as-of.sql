-- What was the state of all tickets four weeks ago, and how sure is that?
-- All that existed then, without what was spam or trash. Where the mirror had not looked yet, or a change may have been before or after that moment, certain is false.
select coalesce(state, 'unknown') as state, count(*) as tickets, count(*) filter (where certain) as certain,
  count(*) filter (where user_id is null and state is not null) as unassigned
from analytics.tickets_as_of((select max(complete_through) - 28 * interval '24 hours' from analytics.completeness where source = 'helpdesk' and stream = 'tickets'))
where spam is not true and trash is not true
group by 1
order by tickets desc, 1;
