-- The waits that each team member ended, by month.
select r.account_key, r.user_key, d.month_start, count(*) as waits, sum(r.wait_seconds) / count(r.wait_seconds) as average_wait_seconds,
  count(*) filter (where r.is_first_response) as first_responses
from {{ source('analytics', 'fact_turns') }} r
join {{ source('analytics', 'dim_date') }} d on d.date_key = r.answered_date
where r.is_answered
group by r.account_key, r.user_key, d.month_start
