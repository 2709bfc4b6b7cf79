-- Are there orphaned or inconsistent rows?
select check_name, sum(found)::int as found, min(means) as means
from analytics.integrity
group by check_name
order by found desc, check_name;
