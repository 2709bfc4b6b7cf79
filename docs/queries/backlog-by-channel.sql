-- How does the backlog of each channel develop from month to month?
-- Unresolved tickets at the end of each month, and of the last day that is over. unknown: of these, what the mirror saw only later.
-- uncertain: by how many the number may be wrong, since a change may have come before or after that midnight.
with ticket as materialized (
  -- Labels aside: by label_key it is the backlog of each label.
  select distinct date_key, ticket_type, ticket_key, is_counted, is_counted and state is null as is_unknown, is_certain
  from analytics.fact_backlog_months
  where date_key > (select (max(complete_through) at time zone 'UTC')::date - 400 from analytics.completeness where source = 'helpdesk' and stream = 'tickets'))
select date_key as day, coalesce(ticket_type, 'none') as channel, count(*) filter (where is_counted) as tickets,
  count(*) filter (where is_unknown) as unknown, count(*) filter (where not is_certain) as uncertain
from ticket
group by date_key, ticket_type
order by day desc, tickets desc, channel;
