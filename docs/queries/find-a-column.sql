-- Where is it said how long somebody waited?
-- Every comment can be searched: instead of "wait" any word will do.
select relation, column_name, left(comment, 90) as means
from analytics.data_dictionary
where schema = 'analytics' and comment ilike '%wait%' and kind <> 'function' and relation not like 'stored%'
order by relation, position
limit 12;
