-- Where do closed tickets come back?
-- Of the tickets whose first closing was seen. What was closed before the mirror saw it may have been reopened before, too, and counts on neither side.
-- As far as it was seen: what is closed and reopened between two looks of the mirror is not.
select coalesce(i.inbox_name, 'no inbox') as inbox, count(*) as closed_once,
  count(*) filter (where reopen_count > 0) as reopened, sum(reopen_count)::int as times,
  round(100.0 * count(*) filter (where reopen_count > 0) / count(*), 1)::float8 as percent
from analytics.fact_tickets
left join analytics.dim_inbox i using (inbox_key)
where first_closing_seen
group by i.inbox_key, i.inbox_name
order by percent desc, inbox, i.inbox_key;
