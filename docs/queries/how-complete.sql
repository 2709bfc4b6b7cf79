-- How far is everything here, and may I report on it?
-- Everything before complete_through is stored, if there are no gaps, no pending records and no open rejects.
select account_id, stream, date_trunc('second', complete_through) as complete_through, gaps, waiting, open_rejects
from analytics.completeness
order by account_id, stream, source;
