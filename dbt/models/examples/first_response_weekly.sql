-- How long customers waited for a first response, by inbox and week.
select t.account_key, t.inbox_key, d.week_start, count(*) as tickets,
  percentile_cont(0.5) within group (order by t.first_response_seconds) as median_seconds,
  percentile_cont(0.5) within group (order by t.first_response_business_seconds) as median_business_seconds
from {{ source('analytics', 'fact_tickets') }} t
join {{ source('analytics', 'dim_date') }} d on d.date_key = t.created_date
where t.messages_complete and t.first_response_seconds is not null and t.inbox_key is not null
group by t.account_key, t.inbox_key, d.week_start
