-- How far is everything here, and may I report on it?
-- Everything from complete_from (null: the beginning) to complete_through is stored, if there are no gaps, no pending records and no open rejects.
-- No row here had been deleted at the source before deletes_checked_at, nor edited in silence before unchecked_since (null: unknown).
select account_id, stream, date_trunc('second', complete_from) as complete_from, date_trunc('second', complete_through) as complete_through,
  date_trunc('second', deletes_checked_at) as deletes_checked_at, date_trunc('second', unchecked_since) as unchecked_since,
  gaps, waiting, open_rejects
from analytics.completeness
order by account_id, stream, source;
