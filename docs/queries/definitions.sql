-- How is it counted here, and how do others count it?
select name, kind, left(formula, 100) as formula, left(other_vendors, 100) as others
from analytics.metric_definitions
where name in ('first_response_seconds', 'first_reply_seconds', 'full_resolution_seconds', 'is_one_touch', 'reopen_count')
order by name, relation;
