-- Open tickets at the end of each day, and by how many the number can be wrong.
select account_key, date_key, sum(tickets)::bigint as tickets, sum(uncertain)::bigint as uncertain
from {{ source('analytics', 'fact_backlog') }}
group by account_key, date_key
