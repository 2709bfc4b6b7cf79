-- Where do closed tickets come back?
-- As far as it was seen: what is closed and reopened between two looks of the mirror is not.
select coalesce(i.inbox_name, 'no inbox') as inbox, count(*) filter (where first_closed_at is not null) as closed_once,
  count(*) filter (where reopen_count > 0) as reopened, sum(reopen_count)::int as times,
  round(100.0 * count(*) filter (where reopen_count > 0) / nullif(count(*) filter (where first_closed_at is not null), 0), 1)::float8 as percent
from analytics.fact_tickets
left join analytics.dim_inbox i using (inbox_key)
group by i.inbox_key, i.inbox_name
order by percent desc nulls last, inbox, i.inbox_key;
