-- How far is everything here, and may I report on it?
-- Whatever has happened before complete_through is here, if there are no gaps, nothing waits and nothing was set aside.
select account_id, stream, date_trunc('second', complete_through) as complete_through, gaps, waiting, open_rejects
from analytics.completeness
order by account_id, stream;
