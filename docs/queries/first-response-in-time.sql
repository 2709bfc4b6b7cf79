-- What share of tickets gets its first response within four business hours?
-- Tickets of the last 13 weeks whose messages are all here. One that still waits counts as late once it has waited longer.
-- Without a calendar (`npx shelfdesk warehouse calendar set`, then `assign`) there is no business time: then neither is anything in time, nor late.
with here as materialized (
  select account_id as account_key, complete_through as now from analytics.completeness where source = 'helpdesk' and stream = 'messages'),
asked as materialized (
  select t.inbox_key, t.first_response_business_seconds as took,
    case when t.first_response_seconds is null and t.waiting_since is not null then
      analytics.business_seconds(analytics.calendar_of(t.account_key, i.inbox_id), t.waiting_since, h.now) end as waits
  from analytics.fact_tickets t
  join here h using (account_key)
  left join analytics.dim_inbox i using (inbox_key)
  where t.inbound_count > 0 and not t.is_outbound_initiated
    and t.messages_complete and t.created_at >= h.now - 91 * interval '24 hours'
    -- No account has older ones, so none is read.
    and t.created_at >= (select min(now) - 91 * interval '24 hours' from here))
select coalesce(i.inbox_name, 'no inbox') as inbox, count(*) as tickets,
  count(*) filter (where took <= 4 * 3600) as in_time,
  count(*) filter (where took > 4 * 3600 or waits > 4 * 3600) as late,
  round(100.0 * count(*) filter (where took <= 4 * 3600)
    / nullif(count(*) filter (where took is not null or waits > 4 * 3600), 0), 1)::float8 as percent_in_time
from asked
left join analytics.dim_inbox i using (inbox_key)
group by i.inbox_key, i.inbox_name
order by inbox, i.inbox_key;
