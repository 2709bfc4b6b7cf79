-- How often do tickets change hands?
-- As far as it was seen: the first one who had it counts too. Days to close are those of tickets that were seen open first, and people those of tickets whose messages are all here.
select least(assignment_count, 4) as assignments_at_least, count(*) as tickets,
  round((avg(first_resolution_seconds) filter (where first_closing_seen) / 86400)::numeric(18, 6), 1)::float8 as mean_days_to_close,
  round(avg(agents_involved) filter (where messages_complete), 1)::float8 as people_who_wrote
from analytics.fact_tickets
where created_at >= (select max(complete_through) - 91 * interval '24 hours' from analytics.completeness where source = 'helpdesk' and stream = 'tickets')
group by 1
order by 1;
