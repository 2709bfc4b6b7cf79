-- How long do customers wait for a first response, by inbox and week?
-- Hours on the clock, of tickets created in the last 13 weeks that are here; half of them waited less than median_hours.
-- Tickets that still wait are left out, so the last weeks look better than they are; so are tickets whose messages are not all here.
select d.week_start as week, coalesce(case when (select count(*) from analytics.dim_account) > 1 then i.account_key || ': ' else '' end || i.inbox_name, 'no inbox') as inbox, count(*) as tickets,
  round((percentile_cont(0.5) within group (order by t.first_response_seconds) / 3600)::numeric(18, 6), 1)::float8 as median_hours,
  round((percentile_cont(0.9) within group (order by t.first_response_seconds) / 3600)::numeric(18, 6), 1)::float8 as p90_hours
from analytics.fact_tickets t
join analytics.dim_date d on d.date_key = t.created_date
left join analytics.dim_inbox i using (inbox_key)
where t.first_response_seconds is not null and t.messages_complete
  and t.created_at >= (select max(complete_through) - 91 * interval '24 hours' from analytics.completeness where source = 'helpdesk' and stream = 'messages')
group by i.inbox_key, i.account_key, i.inbox_name, d.week_start
order by week, inbox;
