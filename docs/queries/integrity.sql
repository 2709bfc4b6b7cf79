-- Does anything hang in the air?
select check_name, sum(found)::int as found, min(means) as means
from analytics.integrity
group by check_name
order by found desc, check_name;
