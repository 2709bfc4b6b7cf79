-- Where do tickets spend their time?
-- Finished states of tickets created in the last 13 weeks. The current state of each ticket is not counted, and neither is the time before the mirror saw it.
-- Tickets that were closed when the mirror first saw them are left out: what they were before is not known.
select coalesce(i.inbox_name, 'no inbox') as inbox, count(*) as tickets,
  round((avg(m.seconds_open) / 86400)::numeric(18, 6), 1)::float8 as days_open,
  round((avg(m.seconds_hold) / 86400)::numeric(18, 6), 1)::float8 as days_on_hold,
  round((avg(m.seconds_snoozed) / 86400)::numeric(18, 6), 1)::float8 as days_snoozed,
  round((avg(m.seconds_closed) / 86400)::numeric(18, 6), 1)::float8 as days_closed
from analytics.countable_tickets m
left join analytics.dim_inbox i on i.account_key = m.account_id and i.inbox_id = m.inbox_id
where m.created_at >= (select max(complete_through) - 91 * interval '24 hours' from analytics.completeness where source = 'helpdesk' and stream = 'tickets')
  and (m.first_closed_at is null or m.first_closing_seen)
group by i.inbox_key, i.inbox_name
order by inbox, i.inbox_key;
