-- How much of the waiting falls into hours in which nobody works?
-- Waits of customers that began in the last 13 weeks and that a reply has ended: half of them took less than the hours shown.
-- Tickets whose messages are not all here are left out.
-- Inboxes without a calendar (`npx shelfdesk warehouse calendar set`, then `assign`) have no business hours, and are not here.
select coalesce(i.inbox_name, 'no inbox') as inbox, count(*) as waits,
  round((percentile_cont(0.5) within group (order by wait_seconds) / 3600)::numeric(18, 6), 1)::float8 as hours_on_the_clock,
  round((percentile_cont(0.5) within group (order by wait_business_seconds) / 3600)::numeric(18, 6), 1)::float8 as business_hours,
  round((100 * (1 - sum(wait_business_seconds) / nullif(sum(wait_seconds), 0)))::numeric(18, 6))::int as percent_outside
from analytics.fact_turns
left join analytics.dim_inbox i using (inbox_key)
where is_answered and wait_business_seconds is not null and messages_complete
  and waiting_since >= (select max(complete_through) - 91 * interval '24 hours' from analytics.completeness where source = 'helpdesk' and stream = 'messages')
group by i.inbox_key, i.inbox_name
order by inbox, i.inbox_key;
